"""What is shown of a run while it goes on."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from harness.cli.live import _View
from harness.cli.output import Output
from harness.plan import parse_plan
from harness.protocols import PartitionView, Situation
from harness.run.recorder import Live
from harness.run.runner import Status

LED = Situation(
    time_ns=0,
    partitions={0: PartitionView(partition=0, leader="b1", leader_epoch=0, members=("b1", "b2"))},
)


@pytest.mark.parametrize(("observes", "shown"), [(True, "p0: b1 in sync {b1,b2}"), (False, None)])
def test_leaders_are_shown_of_systems_that_can_be_asked(observes: bool, shown: str | None) -> None:
    observer: Any = SimpleNamespace(observes=observes, situation=lambda: LED)
    recorder: Any = SimpleNamespace(live=lambda: Live(7, 6, 0, 1, 3.5))
    status = Status(phase="running", recorders=[recorder], observer=observer)
    view = _View(Output(), parse_plan({"schema": 1, "name": "t"}), status, "writes")
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(view.table())
    text = console.export_text()
    assert "7 attempted (4/s), 6 acknowledged, 0 failed, 1 unknown" in text
    assert ("leader" in text) is observes
    assert shown is None or shown in text
