"""What replicas' logs lose is copied as it vanishes, and each record of it is accounted for."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkers.judging.one_run import judge_run
from harness.history.explanations import double_entry
from harness.history.run_folder import RunDir
from harness.plan.parsing import parse_plan
from harness.protocols import Removed, RemovedRecord
from harness.protocols.clock import RealClock, RunClock
from targets.kafka import removed
from targets.kafka.removed import Copy, copying
from tests.fixtures.hand_made import E, Made, R, W
from tests.targets.kafka.log_reader.test_record_set import Batch, encoded


def log_of(*values: int, magic: int = 2) -> list[bytes]:
    """Batches, or messages, of one value each, at offsets from 0 on."""
    one = [encoded([Batch(magic, 0, [(0, None, b"%010d" % value)])])[0][8:] for value in values]
    return [offset.to_bytes(8, "big") + raw for offset, raw in enumerate(one)]


class Here(SimpleNamespace):
    """A broker whose data this machine sees in a folder, or does not see."""

    roles = frozenset({"broker"})

    def here(self, name: str) -> Path | None:
        return self.data and self.data / name  # type: ignore[no-any-return]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_of_a_log_that_was_cut_and_has_grown_again_the_removed_entries_are_kept(
    tmp_path: Path, magic: int
) -> None:
    """The next leader's entry at the same offset begins with the same bytes: the offset."""
    before, after = log_of(1, 2, 3, magic=magic), log_of(1, 7, 8, 9, magic=magic)
    (file := tmp_path / "log").write_bytes(b"".join(before))
    copy = Copy(file)
    assert copy.look() == b""
    file.write_bytes(b"".join(after))
    assert copy.look() == before[1] + before[2]
    assert copy.look() == b""
    file.unlink()
    assert copy.look() == b"".join(after)
    assert copy.look() == b""


def watched(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    logs: Sequence[list[bytes]],
    seen: bool = True,
    patience_s: float = 5,
) -> RunDir:
    """A run whose only broker has these logs in turn, the copies looked at each."""
    looked = threading.Semaphore(0)
    monkeypatch.setattr(removed, "_PERIOD_S", 0.005)
    plain = Copy.look
    monkeypatch.setattr(Copy, "look", lambda self: (plain(self), looked.release())[0])
    plan = parse_plan({"schema": 1, "name": "x"})
    rundir = RunDir.create(tmp_path, "20260101-000000-000001")
    rundir.write_json(rundir.plan, plan.document())
    log = tmp_path / "b1/data" / f"{plan.topic.name}-0" / "00000000000000000000.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"")
    node: Any = Here(name="b1", data=tmp_path / "b1" if seen else None)
    with copying([node], [plan], rundir, RunClock(RealClock())):  # type: ignore[list-item]
        for each in logs if seen else ():
            file = log.with_suffix(".new")
            file.write_bytes(b"".join(each))
            file.replace(log)
            for _ in range(2):
                looked.acquire(timeout=patience_s)
            while looked.acquire(blocking=False):
                pass
            looked.acquire(timeout=patience_s)
    return rundir


def test_what_a_broker_loses_is_left_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rundir = watched(tmp_path, monkeypatch, [log_of(1, 2, 3), log_of(1, 7), log_of(1, 7, 8)])
    found = removed.removed(rundir)
    assert found is not None
    assert [each[2:4] + each[5:] for each in found.records] == [(0, 1, 2), (0, 2, 3)]
    assert found.why_not == ()


def test_of_a_log_that_only_grows_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rundir = watched(tmp_path, monkeypatch, [log_of(1), log_of(1, 2), log_of(1, 2, 3)])
    assert removed.removed(rundir) == Removed(records=())


def test_what_is_not_copied_is_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = removed.removed(watched(tmp_path / "a", monkeypatch, [], seen=False))
    assert hidden is not None
    assert "does not see its files" in hidden.why_not[0]
    monkeypatch.setattr(removed, "_BYTES_AT_MOST", 100)
    much = removed.removed(watched(tmp_path / "b", monkeypatch, [log_of(1, 2, 3)], patience_s=0.1))
    assert much is not None
    assert "more than 64 MiB" in much.why_not[0]


RUN = Made(
    writes=[W(1, "o", offset=0), W(2, "o", offset=1), W(3, "o", offset=2), W(4, "i")],
    reads=[R(1), R(3)],
)


def given(*values: int, at: int = 0) -> tuple[RemovedRecord, ...]:
    return tuple(RemovedRecord("b2", 9.0, 0, at + n, 1, v) for n, v in enumerate(values))


def test_removed_records_are_lost_found_elsewhere_or_were_never_acknowledged(
    tmp_path: Path,
) -> None:
    rundir = RUN.build(tmp_path, "20260101-000000-000002")
    records = given(2, 3, 4, -5) + given(2, at=9) + given(2)
    found = double_entry(rundir, Removed(records=records), [2])
    assert (found.records, found.foreign, found.writes) == (5, 1, 3)
    assert (found.lost, found.found, found.unacknowledged) == (1, 1, 1)
    assert (found.left_over, found.left, found.lost_unseen) == (0, (), 0)


def test_an_acknowledged_record_that_is_neither_is_left_over(tmp_path: Path) -> None:
    rundir = RUN.build(tmp_path, "20260101-000000-000003")
    found = double_entry(rundir, Removed(records=given(2)), [])
    assert (found.lost, found.left_over, found.left) == (0, 1, (2,))
    assert double_entry(rundir, Removed(records=()), [2]).lost_unseen == 1
    delivered = double_entry(rundir, Removed(records=given(2)), [], [2, 3])
    assert (delivered.lost, delivered.left_over, delivered.lost_unseen) == (1, 0, 0)


def test_the_result_states_it_and_the_verdict_does_not_rest_on_it(tmp_path: Path) -> None:
    rundir = RUN.build(tmp_path, "20260101-000000-000004")
    plain = judge_run(rundir)
    assert "removed" not in plain
    rundir.node("b2").mkdir()
    (rundir.node("b2") / "removed.json").write_text(json.dumps({"schema": 1, "why_not": None}))
    topic = rundir.read_json(rundir.plan)["topic"]["name"]
    copy = rundir.node("b2") / f"removed-{topic}-0-9000-00000000000000000000.bin"
    copy.write_bytes(b"".join(log_of(1, 2)))
    result = judge_run(rundir)
    assert (result["verdict"], result["counts"]) == (plain["verdict"], plain["counts"])
    assert (result["removed"]["lost"], result["removed"]["found"]) == (1, 1)
    copy.write_bytes(copy.read_bytes()[:-1] + b"X")
    damaged = judge_run(rundir)["removed"]
    assert "its checksum is wrong" in damaged["not_copied"][0]
    assert damaged["lost_unseen"] == 1


def test_what_lies_behind_the_end_may_become_visible(tmp_path: Path) -> None:
    """Readers reach the high watermark; what is acknowledged behind it, acks=1 may show later."""
    writes = [*RUN.writes, W(5, "o", offset=3), W(6, "o", offset=4)]
    made = replace(RUN, writes=writes, ends=(E(position=3),))
    rundir = made.build(tmp_path, "20260101-000000-000004")
    found = double_entry(rundir, Removed(records=given(2, 5, 6)), [2])
    assert (found.lost, found.not_visible, found.left_over) == (1, 2, 0)
    assert found.in_words.endswith("0 left over, 2 not yet visible")
    assert found.writes == found.lost + found.not_visible
