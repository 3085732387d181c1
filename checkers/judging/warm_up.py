"""A made-up run, judged once: to warm Spark up, and to note the classes that a check needs.

`python -m checkers.judging.warm_up ARCHIVE` judges it, and runs an SQL query on its files, as on a
lake, in a JVM that writes its class-data archive as it ends; `checkers.judging.spark` calls it
so.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.sql import SparkSession

from checkers.judging.many_runs import check_runs
from checkers.judging.outside import convert
from checkers.judging.spark import FLAGS, context
from harness.history import ENDS, MEMBERS
from harness.history.run_folder import RunDir
from harness.machine.scratch import scratch
from harness.plan import parse_plan

_RUN_ID = "rehearsal"
_LIMIT_S = 120
_QUESTION = """
    SELECT reader, count(*) AS n, avg(CASE WHEN complete THEN position / end_offset END) AS share
    FROM ends WHERE end_offset > 0 GROUP BY reader ORDER BY reader
"""


def warm_up() -> None:
    """Judge a run of a few writes, of which one is lost, in a folder that is removed again."""
    with scratch() as folder:
        check_runs([_made_up(Path(folder))])


def _ask(spark: SparkContext) -> None:
    """Ask one of its files a question in SQL."""
    with scratch() as folder:
        session = SparkSession(spark)
        ends = session.read.parquet(str(_made_up(Path(folder)).ends))
        ends.createOrReplaceTempView("ends")
        session.sql(_QUESTION).toArrow()


def _made_up(scratch: Path) -> RunDir:
    rundir = RunDir.create(scratch, _RUN_ID)
    file = scratch / f"{_RUN_ID}.jsonl"
    file.write_bytes(b"".join(orjson.dumps(op) + b"\n" for op in _operations()))
    convert(file, rundir.path)
    end = {"run_id": _RUN_ID, "reader": "history", "partition": 0, "log_start_offset": 0}
    end |= {"end_offset": 9, "position": 9, MEMBERS: ["b1", "b2", "b3"], "complete": True}
    pq.write_table(pa.Table.from_pylist([end], schema=ENDS), rundir.ends)
    plan = parse_plan({"schema": 1, "name": _RUN_ID})
    rundir.write_json(rundir.plan, plan.document())
    rundir.write_json(
        rundir.run, {"schema": 1, "run_id": _RUN_ID, "state": "done", "seed": plan.seed}
    )
    return rundir


def _operations() -> list[dict[str, object]]:
    """Ten writes: nine are acknowledged, the last is unknown and found, the first is lost."""
    ops: list[dict[str, object]] = []
    for value in range(10):
        op = {"process": 0, "f": "add", "value": value}
        kind = "ok" if value < 9 else "info"
        ops += [{**op, "type": "invoke", "time": value}, {**op, "type": kind, "time": value + 1}]
    return [*ops, {"process": 0, "f": "read", "type": "ok", "value": list(range(1, 10))}]


def main(archive: Path) -> None:
    """Judge and ask the run in a JVM that writes its class-data archive when it ends."""
    spark = context(flags=("-Xlog:disable", f"-XX:ArchiveClassesAtExit={archive}", *FLAGS))
    gateway: Any = spark._gateway
    warm_up()
    _ask(spark)
    spark.stop()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=_LIMIT_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
