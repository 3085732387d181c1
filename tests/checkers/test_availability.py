"""Whether a fault was met by any operation at all."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.availability import Timeline
from harness.journal import FaultWindow

S = 1_000_000_000
WINDOW = FaultWindow(
    id="x",
    nemesis="client",
    from_s=4.0,
    to_s=6.0,
    nodes=["client-1"],
    met=None,
    proven=True,
    evidence=[],
    why="",
)


@pytest.mark.parametrize(
    ("begun_s", "late_s", "met"),
    [
        ([3, 7], [0, 0], False),
        ([3, 5], [0, 0], True),
        ([3, 7], [0, 2], True),
        ([3, 7], [0, 4], False),
        ([], [], False),
    ],
)
def test_an_operation_meets_a_fault_when_it_was_begun_or_due_in_its_window(
    begun_s: list[int], late_s: list[int], met: bool
) -> None:
    timeline = Timeline(
        begun=[np.array(begun_s, np.int64) * S], begun_late=[np.array(late_s, np.int64) * S]
    )
    assert timeline.availability([WINDOW]).attempted_in_fault is met
