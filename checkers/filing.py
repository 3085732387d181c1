"""Files what the loss checker found into the run folders: one Parquet file each.

Spark writes all runs' findings in one job, a folder a run, and each folder's one file is renamed
into place; a run without findings has none.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from checkers.facts import Facts
from checkers.loss import Checked
from harness.errors import EnvironmentFailure
from harness.rundir import RunDir

_ORDER = ("kind", "partition", "complete_ns", "value")


def file_findings(checked: Checked, facts: Iterable[Facts]) -> None:
    """Write the findings of every run that has a folder; stale ones go.

    Raises EnvironmentFailure when a folder cannot be written.
    """
    rundirs = {each.run_id: each.rundir for each in facts if each.rundir is not None}
    found = {run_id: each for run_id, each in rundirs.items() if checked.counts[run_id].findings}
    try:
        for rundir in rundirs.values():
            rundir.loss.unlink(missing_ok=True)
        if found and checked.findings is not None:
            _write(checked.findings, found)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write what was found: {error.strerror}", file=str(error.filename)
        ) from error
    finally:
        if checked.judged is not None:
            checked.judged.unpersist()


def _write(findings: DataFrame, by_run: dict[str, RunDir]) -> None:
    for rundir in by_run.values():
        rundir.findings.mkdir(exist_ok=True)
    first = next(iter(by_run.values()))
    with tempfile.TemporaryDirectory(prefix=".loss-", dir=first.findings) as scratch:
        (
            findings.withColumn("of_run", F.col("run_id"))
            .repartition("of_run")
            .sortWithinPartitions("of_run", *_ORDER)
            .write.partitionBy("of_run")
            .parquet(scratch, mode="overwrite")
        )
        for path in Path(scratch).glob("of_run=*/part-*.parquet"):
            into = by_run.get(unquote(path.parent.name.removeprefix("of_run=")))
            if into is not None:
                partial = into.loss.with_name(f".{into.loss.name}.partial")
                shutil.move(path, partial)
                partial.replace(into.loss)
