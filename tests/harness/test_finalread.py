"""When a second library is asked: for whatever the first did not find as it was promised."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.clock import RunClock
from harness.finalread import as_promised, read_everything
from harness.history import READS
from harness.plan import parse_plan
from harness.protocols import Cluster, End, Target
from harness.recorder import Recorder, Written
from harness.rundir import RunDir

PLAN = parse_plan({"schema": 1, "name": "read"})
WRITTEN = Written(*(np.array(values, np.int64) for values in ([0, 1, 2, 3], [0, 1], [2])))
END = End(
    partition=0,
    log_start_offset=0,
    end_offset=9,
    position=9,
    leader="b1",
    leader_epoch=0,
    isr=("b1",),
    complete=True,
)
HALF = replace(END, complete=False)


def table(values: list[int], *, key: str | None = None) -> pa.Table:
    rows = len(values)
    columns: dict[str, Any] = {
        "reader": ["a"] * rows,
        "key": [key] * rows,
        "partition": [0] * rows,
        "offset": range(rows),
        "value": values,
        "leader_epoch": [0] * rows,
        "time_ns": [0] * rows,
    }
    return pa.table(
        {name: pa.array(of).cast(READS.field(name).type) for name, of in columns.items()}
    )


@pytest.mark.parametrize(
    ("values", "promised"),
    [
        ([0, 1], True),
        ([3, 1, 0], True),  # an unknown write may be there
        ([0], False),  # an acknowledged one is missing
        ([0, 1, 2], False),  # a failed one is there
        ([0, 1, 7], False),  # nobody wrote it
        ([0, 1, 1], False),  # there twice
        ([], False),
    ],
)
def test_what_a_second_library_is_asked_for(values: list[int], promised: bool) -> None:
    assert as_promised(table(values), WRITTEN) is promised
    assert not as_promised(table([*values, 3], key="x"), WRITTEN)


@dataclass
class FakeTarget:
    """A target whose readers find these values and ends."""

    found: dict[str, tuple[list[int], End]]
    asked: list[str] = field(default_factory=list)

    def readers(self, _: object) -> tuple[str, str]:
        return "first", "second"

    def read_all(self, *_: object, reader: str, timeout_s: float) -> tuple[pa.Table, list[End]]:
        self.asked.append(reader)
        values, end = self.found[reader]
        return table(values), [end]


@pytest.mark.parametrize(
    ("first", "asked"),
    [
        (([0, 1], END), ["first"]),
        (([0], END), ["first", "second"]),
        (([0, 1, 2], END), ["first", "second"]),
        (([0, 1], HALF), ["first", "second"]),  # all is there, and the end was not reached
    ],
)
def test_both_readers_are_filed(
    first: tuple[list[int], End], asked: list[str], tmp_path: Path
) -> None:
    target = FakeTarget({"first": first, "second": ([0, 1], END)})
    rundir = RunDir.create(tmp_path, "r")

    @dataclass
    class Wrote:
        def written(self) -> Written:
            return WRITTEN

    read_everything(
        cast(Target, target),
        cast(Cluster, None),
        PLAN,
        RunClock(),
        cast(Recorder, Wrote()),
        rundir,
        threading.Event(),
    )
    assert target.asked == asked
    assert pq.read_table(rundir.ends)["reader"].to_pylist() == asked
    rows = sum(pq.read_metadata(part).num_rows for part in rundir.parts(rundir.reads))
    assert rows == sum(len(target.found[reader][0]) for reader in asked)
