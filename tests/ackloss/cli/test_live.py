"""What is shown of a run while it goes on."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from ackloss.cli.output import _MEANT, Output
from ackloss.cli.run import _View
from harness.plan import FaultStep, parse_plan
from harness.protocols import DOUBTS, PartitionView, Situation
from harness.run.recorder import Live
from harness.run.runner import Status
from tests.fixtures.command_line import ackloss
from tests.fixtures.result_documents import lossy

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

LED = PartitionView(partition=0, leader="b1", leader_epoch=0, members=("b1", "b2"))
NEXT = replace(LED, partition=1, leader=None, members=())
BY_ANOTHER = replace(LED, members=("b2",), unnamed=None)
"""As a server reports it that does not lead: of the members it knows itself alone."""


@pytest.mark.parametrize(
    ("views", "shown"),
    [
        ([LED], " b1 leads, in sync {b1,b2}"),
        ([LED, NEXT], "p0: b1 leads, in sync {b1,b2}; p1: no node leads, in sync {}"),
        ([BY_ANOTHER], " b1 leads, in sync unknown"),
        ([], None),
    ],
)
def test_leaders_are_shown_of_systems_that_can_be_asked(
    views: list[PartitionView], shown: str | None
) -> None:
    observes = bool(views)
    situation = Situation(time_ns=0, partitions={view.partition: view for view in views})
    observer: Any = SimpleNamespace(observes=observes, situation=lambda: situation)
    recorder: Any = SimpleNamespace(live=lambda: Live(7, 6, 0, 1, 3.5))
    status = Status(phase="running", recorders=[recorder], observer=observer)
    view = _View(Output(), parse_plan({"schema": 1, "name": "t"}), status, "writes")
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(view.table())
    text = console.export_text()
    assert "7 attempted (4/s), 6 acknowledged, 0 failed, 1 unknown" in text
    assert ("leader" in text) is observes
    assert shown is None or shown in text


def shown(at_s: float, phase: str = "running", step: Any = None, takes_s: Any = 60.0) -> str:
    """What a terminal shows so many seconds after the load began, of 34 s."""
    document = {"schema": 1, "name": "t", "workload": {"duration_s": 34}}
    clock: Any = SimpleNamespace(now_ns=lambda: round(at_s * 1e9))
    schedule: Any = SimpleNamespace(next=step)
    recorder: Any = SimpleNamespace(live=lambda: Live(7, 6, 0, 1, 3.5))
    status = Status(phase=phase, clock=clock, recorders=[recorder], schedule=schedule)
    view = _View(Output(), parse_plan(document), status, "writes", takes_s)
    view.begun_s -= at_s + 13  # the cluster's start
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(view.table())
    return console.export_text()


def test_a_bar_shows_the_time_that_is_left() -> None:
    assert "about 43 s left" in shown(4)  # 30 s of load, and 13 of the other 26 s
    assert "about 23 s left" in shown(24)
    assert "about 13 s left" in shown(40, phase="final read")
    early, late = shown(4), shown(30)
    assert 0 < early.count("━") < late.count("━") < 40
    assert "left" not in shown(4, takes_s=None)  # time is simulated


def test_the_next_fault_is_shown_with_the_moment_that_it_waits_for() -> None:
    cut = FaultStep(id="cut", at_s=12, nemesis="partition", nodes="leader")
    assert "next" in shown(4, step=cut)
    assert "cut (partition leader) in 8 s" in shown(4, step=cut)
    kill = FaultStep(id="kill", when="isr == [leader]", nemesis="kill")
    assert "kill (kill leader) when 'isr == [leader]' holds" in shown(20, step=kill)
    assert "heal (heal) 5 s later" in shown(20, step=FaultStep(id="heal", after_s=5, heal="all"))
    assert "next" not in shown(4)


def test_a_step_is_next_until_it_begins_and_lines_say_so(tmp_path: Path) -> None:
    done = ackloss("run", "memory/log", "--set", "workload.duration_s=14", "--out", tmp_path)
    assert done.exit_code == 0
    answer = done.stdout
    assert "longest time without an acknowledgement: " in answer
    assert "lost 0 " in answer
    assert "duplicates 0" in answer


def printed(result: dict[str, Any], tmp_path: Path) -> str:
    (tmp_path / "run.json").write_text('{"schema": 1, "state": "done"}')
    (tmp_path / "plan.json").write_text('{"schema": 1, "name": "p"}')
    (tmp_path / "result.json").write_text(json.dumps(result))
    return str(ackloss("show", tmp_path).stdout)


def test_what_is_unknown_and_not_proven_is_explained(tmp_path: Path) -> None:
    fault = {"id": "cut", "nemesis": "partition", "proven": False, "nodes": ["b1"]}
    doubtful = {**lossy(0), "verdict": "unknown", "doubts": ["unproven", "starved"]}
    doubtful |= {"faults": [{**fault, "evidence": ["b1: 0 packets dropped"]}]}
    doubtful |= {"availability": {"longest_gap_s": 4.26}}
    text = printed(doubtful, tmp_path)
    assert "longest time without an acknowledgement: 4.3 s" in text
    assert "unproven: a fault that was requested had no effect" in text
    assert "starved: this machine was too busy" in text
    assert "b1: 0 packets dropped: a fault counts only with an effect" in text
    well = {**lossy(0), "verdict": "valid", "faults": [{**fault, "proven": True}], "doubts": []}
    text = printed(well, tmp_path)
    assert "unproven" not in text
    assert "counts only" not in text


def test_every_doubt_is_explained() -> None:
    assert set(_MEANT) == set(DOUBTS)
