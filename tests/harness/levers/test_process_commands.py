"""The exact commands of the levers that touch processes, seen on a node that only writes down."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from harness import registry
from harness.errors import PlanError
from harness.faults.records import PauseRecord, ProcessRecord, StressRecord
from harness.levers.pause import PauseLever
from harness.levers.process import ProcessLever
from harness.levers.stress import StressLever
from harness.protocols import UndoRecord
from harness.run.dry_run import DryRunNode

PAUSE = PauseRecord(node="b1", fault="still", pid=7)
STRESS = StressRecord(node="b1", fault="busy", busy_count=2, memory_mb=100, at_most_s=60.0)


@pytest.fixture
def node() -> DryRunNode:
    return DryRunNode("b1", frozenset({"broker"}), "198.18.0.11")


@pytest.mark.parametrize("signal", ["KILL", "TERM"])
def test_a_process_is_sent_one_signal_by_its_id_and_which_fault_it_was_is_noted(
    node: DryRunNode, signal: Literal["KILL", "TERM"]
) -> None:
    record = ProcessRecord(node="b1", fault="gone", signal=signal, pid=7)
    ProcessLever({"b1": node}).apply(record)
    noted = "b1# touch /tmp/ackloss.dead.7.gone@START"
    assert node.commands == [f"b1# kill -{signal} 7", noted]


def test_whose_pause_it_is_stands_on_the_node_before_the_process_stops(node: DryRunNode) -> None:
    PauseLever({"b1": node}).apply(PAUSE)
    assert node.commands == ["b1# touch /run/ackloss.paused.7.still", "b1# kill -STOP 7"]


@pytest.mark.parametrize(
    ("lever", "record"),
    [
        (ProcessLever, ProcessRecord(node="b1", fault="late", signal="KILL", pid=None)),
        (PauseLever, PauseRecord(node="b1", fault="late", pid=None)),
    ],
)
def test_a_process_that_was_dead_before_is_sent_nothing(
    node: DryRunNode, lever: type[Any], record: UndoRecord
) -> None:
    lever({"b1": node}).apply(record)
    assert node.commands == []
    assert not lever({"b1": node}).probe(record, applied=True).proven


def test_load_is_started_at_once_and_names_its_fault_and_its_end(node: DryRunNode) -> None:
    StressLever({"b1": node}).apply(STRESS)
    busy, memory = [command for command in node.commands if "/bin/sh" in command]
    assert " sh 2 /bin/sh -c " in busy
    assert busy.endswith(" ackloss/busy/cpu 60 100")
    assert " sh 1 /bin/sh -c " in memory
    assert memory.endswith(" ackloss/busy/memory 60 100")
    assert all("/proc/uptime" in command for command in (busy, memory))


@pytest.mark.parametrize(
    ("nemesis", "options"),
    [
        ("kill", {"signal": "HUP"}),
        ("stress", {"busy_count": 0}),
        ("stress", {"busy_count": -1}),
        ("stress", {"memory_mb": 99_999}),
        ("stress", {"at_most_s": 0}),
    ],
)
def test_bad_options_are_refused(nemesis: str, options: dict[str, object]) -> None:
    with pytest.raises(PlanError):
        registry.make("nemeses", nemesis, options, key="faults.0.nemesis")
