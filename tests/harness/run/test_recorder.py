"""The recorder: what it writes, what it reports meanwhile, what a crash or a full disk leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from harness.errors import EnvironmentFailure, HarnessFailure
from harness.history import HISTORY
from harness.protocols import FAIL, INFO, OK, Completion, completion, invoke
from harness.run.recorder import Live, Recorder
from tests.fixtures.small_disk import mounted, table
from tests.fixtures.waiting import wait_until

WRITER = """
import sys
import time
from pathlib import Path
from harness.protocols import OK, completion, invoke
from harness.run.recorder import Recorder

recorder = Recorder(Path(sys.argv[1]), run_id="killed", period_s=0.1)
n = 0
while True:
    for process in range(1000):
        op = invoke("append", n, n % 3)
        recorder.invoke(process, op, n, n)
        recorder.complete(process, op, completion(OK, n), n, n + 1)
        n += 1
    recorder.hand_over()
    time.sleep(0.01)  # as one who polls does, so that the background thread gets its turn
"""


def append(recorder: Recorder, value: int, ended: Completion | None) -> None:
    """Record a write by the process of the same number, at times that tell its value."""
    op = invoke("append", value, value % 3)
    recorder.invoke(value, op, 10 * value, 10 * value + 1)
    if ended is not None:
        recorder.complete(value, op, ended, 10 * value, 10 * value + 2)
    recorder.hand_over()


def test_rows_are_the_events_in_their_order(tmp_path: Path) -> None:
    one, two, three = (
        invoke("append", 17, 2, key="k"),
        invoke("append", 18, 0),
        invoke("read", 19, 1),
    )
    with Recorder(tmp_path, run_id="r-1") as recorder:
        recorder.invoke(4, one, 100, 105)
        recorder.invoke(5, two, 110, 111)
        recorder.complete(5, two, completion(OK, 7), 110, 120)
        timed_out = completion(INFO, error="_MSG_TIMED_OUT", node="b2")
        recorder.complete(4, one, timed_out, 100, 130)
        recorder.invoke(5, three, 140, 141)
    table = pq.read_table(tmp_path)
    assert table.schema.equals(HISTORY, check_metadata=True)
    same = {"run_id": "r-1", "expected": None, "result": None, "elements": None}
    first = {"f": "append", "key": "k", "value": 17, "partition": 2, "intended_ns": 100}
    second = {"f": "append", "key": None, "value": 18, "partition": 0, "intended_ns": 110}
    third = {"f": "read", "key": None, "value": 19, "partition": 1, "intended_ns": 140}
    none = {"offset": None, "node": None, "error": None}
    late = {"offset": None, "node": "b2", "error": "_MSG_TIMED_OUT"}
    assert table.to_pylist() == [
        {**same, "index": 0, "process": 4, "type": "invoke", **first, **none, "time_ns": 105},
        {**same, "index": 1, "process": 5, "type": "invoke", **second, **none, "time_ns": 111},
        {**same, "index": 2, "process": 5, "type": "ok", **second, **none, "offset": 7,
         "time_ns": 120},
        {**same, "index": 3, "process": 4, "type": "info", **first, **late, "time_ns": 130},
        {**same, "index": 4, "process": 5, "type": "invoke", **third, **none, "time_ns": 141},
    ]  # fmt: skip


def test_what_a_compare_and_set_expects_and_reads_return(tmp_path: Path) -> None:
    cas, read = invoke("cas", 5, 0, key="k", expected=4), invoke("read", partition=0, key="k")
    with Recorder(tmp_path, run_id="r") as recorder:
        for op, ended in (
            (cas, completion(FAIL)),
            (read, completion(OK, 3, result=7)),
            (read, completion(OK, result=(1, 2))),
            (read, completion(OK, result=())),
            (invoke("append", 9, 1), completion(OK, 8)),
        ):
            recorder.invoke(1, op, 0, 0)
            recorder.complete(1, op, ended, 0, 1)
    rows = pq.read_table(tmp_path).to_pylist()
    fields = ("type", "value", "expected", "offset", "result", "elements")
    assert [tuple(row[name] for name in fields) for row in rows] == [
        ("invoke", 5, 4, None, None, None),
        ("fail", 5, 4, None, None, None),
        ("invoke", None, None, None, None, None),
        ("ok", None, None, 3, 7, None),
        ("invoke", None, None, None, None, None),
        ("ok", None, None, None, None, [1, 2]),
        ("invoke", None, None, None, None, None),
        ("ok", None, None, None, None, []),
        ("invoke", 9, None, None, None, None),
        ("ok", 9, None, 8, None, None),
    ]


def test_parts_follow_each_other(tmp_path: Path) -> None:
    with Recorder(tmp_path, run_id="r", period_s=0) as recorder:
        for value in range(3):
            append(recorder, value, completion(FAIL, error=f"E{value}"))
            wait_until(lambda parts=value + 1: len(list(tmp_path.glob("part-*"))) == parts)
    rows = [pq.read_table(part).to_pylist() for part in sorted(tmp_path.glob("part-*"))]
    assert [[row["index"] for row in part] for part in rows] == [[0, 1], [2, 3], [4, 5]]
    assert [part[1]["error"] for part in rows] == ["E0", "E1", "E2"]


def test_more_rows_than_a_block_holds(tmp_path: Path) -> None:
    with Recorder(tmp_path, run_id="r") as recorder:
        for value in range(50_000):
            recorder.invoke(0, invoke("append", value, 0), value, value)
    table = pq.read_table(tmp_path)
    assert table["value"].to_pylist() == table["index"].to_pylist() == list(range(50_000))


def test_rows_of_the_nemesis_stand_where_they_happened(tmp_path: Path) -> None:
    with Recorder(tmp_path, run_id="r") as recorder:
        append(recorder, 1, completion(OK, 1))
        append(recorder, 5, completion(OK, 2))
        threading.Thread(
            target=recorder.note,
            args=("invoke",),
            kwargs={"f": "kill", "key": "cut", "node": "b1,b2", "error": "inject", "time_ns": 30},
        ).start()
        wait_until(lambda: recorder.live().ok == 2)
    rows = pq.read_table(tmp_path).to_pylist()
    assert [row["process"] for row in rows] == [1, 1, -1, 5, 5]
    assert [row["index"] for row in rows] == [0, 1, 2, 3, 4]
    assert {key: rows[2][key] for key in ("type", "f", "key", "node", "error")} == {
        "type": "invoke", "f": "kill", "key": "cut", "node": "b1,b2", "error": "inject",
    }  # fmt: skip
    assert rows[2]["value"] is rows[2]["partition"] is rows[2]["offset"] is None
    assert rows[2]["intended_ns"] == rows[2]["time_ns"] == 30


def test_what_it_tells_while_it_goes_on(tmp_path: Path) -> None:
    with Recorder(tmp_path, run_id="r") as recorder:
        assert recorder.live() == Live()
        for value in range(1000):
            ended = (OK, OK, OK, FAIL, INFO)[value % 5]
            append(recorder, value, completion(ended))
        append(recorder, 1000, None)
        read = invoke("read", 2000, 0)
        recorder.invoke(2000, read, 0, 0)
        recorder.complete(2000, read, completion(OK), 0, 1)
        recorder.hand_over()
        recorder.note("info", f="kill", key="k", node="b1", error="heal", time_ns=1)
        wait_until(lambda: recorder.live().attempted == 1002)
        live = recorder.live()
        assert (live.ok, live.fail, live.info) == (601, 200, 200)
        assert live.per_s > 0
        written = recorder.written()
    assert {values.dtype for values in written} == {np.dtype(np.int64)}
    assert written.attempted.tolist() == list(range(1001))
    assert written.acknowledged.tolist() == [v for v in range(1000) if v % 5 < 3]
    assert written.failed.tolist() == [v for v in range(1000) if v % 5 == 3]


def test_written_is_what_was_handed_over(tmp_path: Path) -> None:
    with Recorder(tmp_path, run_id="r") as recorder:
        for value in range(50):
            append(recorder, value, completion(OK))
            assert recorder.written().acknowledged.tolist() == list(range(value + 1))


def test_a_failure_of_the_background_thread_is_seen_and_raised(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, run_id="r", period_s=0)
    append(recorder, 1, completion(INFO, error="\ud800 cannot be encoded"))
    wait_until(lambda: isinstance(recorder.failure, HarnessFailure))
    with pytest.raises(HarnessFailure, match="the recorder broke"):
        recorder.close()


def test_finished_parts_are_valid_after_kill_9(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)])
    try:
        wait_until(lambda: len(list(tmp_path.glob("part-*.parquet"))) >= 3)
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait(timeout=10)
    parts = sorted(tmp_path.glob("part-*.parquet"))
    assert len(parts) >= 3
    rows = pq.read_table(parts)
    assert rows["index"].to_pylist() == list(range(len(rows)))
    times = rows["time_ns"].to_numpy() - (rows["type"].to_numpy() == "ok")
    assert (times == rows["value"].to_numpy()).all(), "no row is torn"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    with mounted(tmp_path / "disk", "256k") as place:
        yield place


def fill(disk: Path) -> Path:
    """Leave no byte free."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(bytes(4096))
    assert os.statvfs(disk).f_bavail == 0
    return ballast


def test_a_full_disk_is_reported_and_what_was_recorded_stays(small_disk: Path) -> None:
    recorder = Recorder(small_disk, run_id="r", period_s=0.05)
    append(recorder, 1, completion(OK))
    wait_until(lambda: list(small_disk.glob("part-*.parquet")))
    fill(small_disk)
    append(recorder, 2, completion(OK))
    wait_until(lambda: recorder.failure is not None)
    with pytest.raises(EnvironmentFailure, match="No space left on device"):
        recorder.close()
    assert table(small_disk / "part-00000.parquet")["value"].to_pylist() == [1, 1]
    names = sorted(path.name for path in small_disk.iterdir())
    assert names == ["ballast", "part-00000.parquet"], "no half a part"


def test_what_a_full_disk_did_not_take_is_written_when_it_can_be(small_disk: Path) -> None:
    with Recorder(small_disk, run_id="r", period_s=0.05) as recorder:
        ballast = fill(small_disk)
        for value in range(500):
            append(recorder, value, completion(OK))
        wait_until(lambda: recorder.failure is not None)
        ballast.unlink()
        append(recorder, 500, completion(OK))
    assert recorder.failure is None
    rows = [
        row for part in sorted(small_disk.iterdir()) for row in table(part)["index"].to_pylist()
    ]
    assert rows == list(range(1002))


def test_a_set_that_a_full_disk_did_not_take_is_written_whole(small_disk: Path) -> None:
    """An empty set in its place would read as if all elements were lost."""
    read = invoke("read")
    with Recorder(small_disk, run_id="r", period_s=0.05) as recorder:
        ballast = fill(small_disk)
        recorder.invoke(0, read, 0, 0)
        recorder.complete(0, read, completion(OK, result=(1, 2, 3)), 0, 1)
        recorder.hand_over()
        wait_until(lambda: recorder.failure is not None)
        ballast.unlink()
    (part,) = small_disk.iterdir()
    assert table(part)["elements"].to_pylist() == [None, [1, 2, 3]]


def test_a_failing_body_is_not_hidden_by_a_full_disk(small_disk: Path) -> None:
    recorder = Recorder(small_disk, run_id="r")

    def body() -> None:
        with recorder:
            append(recorder, 1, completion(OK))
            fill(small_disk)
            raise KeyError("the body's own")

    with pytest.raises(KeyError, match="the body's own"):
        body()
    assert recorder.failure is not None
