"""What each lever has met of the system, beyond the probe's own, as far as a node can tell it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from harness.faults.records import (
    ClockRecord,
    FullRecord,
    PauseRecord,
    ReadOnlyRecord,
    ShapingRecord,
    StorageRecord,
    StressRecord,
)
from harness.levers import shaping
from harness.levers.clock import Reading, Written, newest, written_lines
from harness.levers.disk import FullLever, ReadOnlyLever
from harness.levers.process import PauseLever
from harness.levers.shaping import ShapingLever
from harness.levers.stress import StressLever
from harness.protocols import Completed, ProcessState
from tests.fixtures.dry_run import DryRunNode

Answer = Completed | Callable[[], Completed]


@dataclass
class Telling(DryRunNode):
    """A node that answers commands by a word of theirs."""

    answers: dict[str, Answer] = field(default_factory=dict)
    running: bool = True

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        super().admin(argv, timeout_s=timeout_s)
        for word, answer in self.answers.items():
            if word in " ".join(argv):
                return answer() if callable(answer) else answer
        return Completed(0, "")

    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        return self.admin(argv, timeout_s=timeout_s)

    def process(self) -> ProcessState:
        return ProcessState(running=self.running, exit_code=None if self.running else 1)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Telling:
    for limit in ("stress._SEEN_S", "stress._LOOK_S"):
        monkeypatch.setattr(f"harness.levers.{limit}", 0)
    return Telling("b1", frozenset({"broker"}), "198.18.0.11")


def said(output: str) -> Completed:
    return Completed(0, output)


BUSY = StressRecord(node="b1", fault="busy", busy_count=1, memory_mb=0, at_most_s=60)


@pytest.mark.parametrize(("waited_ms", "met"), [(0, 0), (812, 812)])
def test_busy_loops_take_what_the_system_waited_for(
    node: Telling, waited_ms: int, met: int
) -> None:
    """Beside an idle process they burn, and take nothing from it."""
    node.answers["schedstat"] = said("500 7000000 3\n100 1000000 1\n")
    record = StressLever({"b1": node}).capture_prior_state(BUSY)
    assert record.waited_ns == 8_000_000
    node.answers["schedstat"] = said(f"500 {7_000_000 + waited_ms * 10**6} 9\n100 1000000 1\n")
    proof = StressLever({"b1": node}).probe(record, applied=True)
    assert proof.met == met
    assert f"waited for a CPU for {met:,} ms" in proof.evidence[1]


def test_what_the_kernel_does_not_say_was_not_met(node: Telling) -> None:
    lever = StressLever({"b1": node})
    proof = lever.probe(lever.capture_prior_state(BUSY), applied=True)
    assert proof.met == 0
    assert "is not known" in proof.evidence[1]


@pytest.mark.parametrize("before_after", [("{}\n", "{}\n"), ("low 0\nmax {}\noom 9\n",) * 2])
@pytest.mark.parametrize("times", [0, 4])
def test_held_memory_takes_what_had_to_give_way(
    node: Telling, before_after: tuple[str, str], times: int
) -> None:
    """cgroup v1 and v2."""
    before, after = before_after
    held = replace(BUSY, busy_count=0, memory_mb=100)
    node.answers["memory"] = said(before.format(3))
    record = StressLever({"b1": node}).capture_prior_state(held)
    node.answers["memory"] = said(after.format(3 + times))
    assert StressLever({"b1": node}).probe(record, applied=True).met == times


@pytest.mark.parametrize("by_system", [0, 3])
def test_what_was_held_back_while_no_probe_ran_is_the_systems(
    node: Telling, monkeypatch: pytest.MonkeyPatch, by_system: int
) -> None:
    record = ShapingRecord(node="b1", fault="slow", kind="tbf", rate_kbit=500)
    count, kept = {"overlimits": 0}, ["", ""]

    def show() -> Completed:
        shape = {"kind": "tbf", "handle": "5289:", "options": {"rate": 62_500}, "bytes": 1}
        return said(json.dumps([{**shape, "drops": 0, **count}]))

    def ping(*_: object) -> str:
        count["overlimits"] += 100
        return ""

    def keep() -> Completed:
        kept[:] = node.commands[-1].split()[-2:]
        return said("")

    node.answers = {
        "qdisc show": show,
        "cat /run": lambda: said(" ".join(kept)) if kept[0] else Completed(1, ""),
        "printf": keep,
    }
    monkeypatch.setattr(shaping, "_ping", ping)
    lever = ShapingLever({"b1": node})
    assert lever.probe(record, applied=True).met == 0
    count["overlimits"] += by_system
    assert lever.probe(record, applied=True).met == by_system
    assert lever.probe(record, applied=True).met == by_system


OF_STORAGE = pytest.mark.parametrize(
    ("lever_type", "asked"),
    [
        (FullLever, FullRecord(node="b1", fault="x", folder="data", pid=7)),
        (ReadOnlyLever, ReadOnlyRecord(node="b1", fault="x", folder="data", pid=7)),
    ],
)


@OF_STORAGE
@pytest.mark.parametrize(
    ("lines", "running", "met"), [("2\n0\n", True, 0), ("4\n0\n", True, 2), ("2\n0\n", False, 1)]
)
def test_the_process_itself_must_be_refused_or_end(
    node: Telling,
    lever_type: type[Any],
    asked: StorageRecord,
    lines: str,
    running: bool,
    met: int,
) -> None:
    """Our own block that cannot be written is no write of the system's."""
    node.answers |= {"grep": said("2\n0\n"), "df -B1": said("/var/lib/ackloss/data 1000 0\n")}
    lever = lever_type({"b1": node})
    record = lever.capture_prior_state(asked)
    assert record.refusals == 2
    node.answers["grep"], node.running = said(lines), running
    proof = lever.probe(record, applied=True)
    assert proof.met == met
    if not met:
        assert "its own process was refused nothing so far" in proof.evidence[0]


@pytest.mark.parametrize("running", [True, False])
@OF_STORAGE
def test_lines_from_before_that_could_not_be_counted_are_not_met(
    node: Telling, lever_type: type[Any], asked: StorageRecord, running: bool
) -> None:
    node.answers |= {"grep": Completed(2, ""), "df -B1": said("/var/lib/ackloss/data 1000 0\n")}
    lever = lever_type({"b1": node})
    record = lever.capture_prior_state(asked)
    assert record.refusals is None
    node.answers["grep"], node.running = said("5\n"), running
    assert lever.probe(record, applied=True).met == (0 if running else 1)


def test_what_somebody_else_had_stopped_is_not_paused_by_us(node: Telling) -> None:
    node.answers |= {"ps": said("7 0 7 T nc\n7 0 7 T nc\n"), "ls": said("other\n")}
    lever, asked = PauseLever({"b1": node}), PauseRecord(node="b1", fault="still", pid=7)
    proof = lever.probe(lever.capture_prior_state(asked), applied=True)
    assert (proof.proven, proof.met) == (True, 0)
    assert "as it was before, by something else" in proof.evidence[0]


@pytest.mark.parametrize("files", ["ackloss.paused.7.boot-41.earlier\n", ""])
def test_what_another_fault_or_nobody_had_stopped_is(node: Telling, files: str) -> None:
    node.answers |= {"ps": said(f"7 0 7 {'T' if files else 'S'} nc\n"), "ls": said(files)}
    node.answers["/proc/7/stat"] = said(f"boot\n7 (java) S {'0 ' * 18}41 0\n")
    lever, asked = PauseLever({"b1": node}), PauseRecord(node="b1", fault="still", pid=7)
    record = lever.capture_prior_state(asked)
    node.answers["ps"] = said("7 0 7 T nc\n")
    assert lever.probe(record, applied=True).met is None


@pytest.mark.parametrize(
    ("output", "written"),
    [
        ("1000.5 1002.0 [1970-01-01 00:17:40,500", Written(1.5, 60.0)),
        ("1000.5 1002.0 1970-01-01T00:16:10.500", Written(1.5, -30.0)),
        (" 1002.0 ", None),
        ("", None),
    ],
)
def test_what_was_written_last_tells_its_clock(
    node: Telling, output: str, written: Written | None
) -> None:
    node.answers["find"] = said(output + "\n")
    assert newest(node) == written


JUMP = ClockRecord(node="b1", fault="wrong", form="jump", offset_s=60.0)
DRIFT = replace(JUMP, form="drift", drift_ms_per_s=50.0)


def look(written: Written | None, *, others_s: float = 0, age_s: float = 10) -> Reading:
    """A reading of a clock that is as far off as this fault, and others, request."""
    offsets = {"wrong": 60.0} | ({"other": others_s} if others_s else {})
    return Reading(
        at_s=100,
        off_s=60 + others_s,
        offsets_s=offsets,
        ages_s={"wrong": age_s},
        loops=(),
        why=None,
        known=True,
        written=written,
    )


@pytest.mark.parametrize(
    ("record", "seen", "met", "words"),
    [
        (JUMP, look(Written(2, 60.1)), 1, "dated +60.100 s from the host's clock"),
        (JUMP, look(Written(2, 65.1), others_s=5), 1, "dated +60.100 s from the host's clock"),
        (JUMP, look(Written(2, 0.1)), 0, "dated +0.100 s from the host's clock"),
        (JUMP, look(Written(2, 61.0)), 0, "dated +61.000 s from the host's clock"),
        (JUMP, look(Written(12, 60.0)), 0, "has written no line with a time since"),
        (JUMP, look(None), 0, "has written no line with a time since"),
        (DRIFT, look(Written(4, 0.31)), 1, "dated +0.310 s from the host's clock"),
        (DRIFT, look(Written(4, 0.1)), 0, "dated +0.100 s from the host's clock"),
    ],
    ids=["off", "beside another", "right", "off otherwise", "before", "never", "drift", "no drift"],
)
def test_a_moved_clock_shows_in_what_the_process_writes(
    record: ClockRecord, seen: Reading, met: int, words: str
) -> None:
    lines, sentence = written_lines([seen], record)
    assert lines == met
    assert words in sentence


def test_one_line_looked_at_twice_is_one() -> None:
    lines, _ = written_lines([look(Written(2, 60)), look(Written(2.001, 60))], JUMP)
    assert lines == 1
