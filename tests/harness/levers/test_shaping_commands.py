"""What the shaping lever makes of what stands already, and how long it waits for late answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from harness.errors import HarnessFailure
from harness.faults.records import ShapingRecord
from harness.levers.shaping import ShapingLever
from harness.protocols import Completed
from tests.fixtures.dry_run import DryRunNode

RATE = ShapingRecord(node="b1", fault="slow", kind="tbf", rate_kbit=500)
DELAY = ShapingRecord(
    node="b1", fault="slow", kind="netem", delay_ms=100.0, jitter_ms=20.0, reorder_share=0.25
)


class Shaped(DryRunNode):
    """A recording node whose device has these disciplines."""

    standing: tuple[dict[str, Any], ...] = ()

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        if "show" in argv:
            return Completed(0, json.dumps(self.standing))
        return super().admin(argv, timeout_s=timeout_s)


@pytest.fixture
def node() -> Shaped:
    return Shaped("b1", frozenset({"broker"}), "198.18.0.11")


def test_what_cannot_be_removed_is_reported(node: Shaped) -> None:
    node.standing = ({"kind": "tbf", "handle": "5289:"},)
    with pytest.raises(HarnessFailure, match="cannot be removed"):
        ShapingLever({"b1": node}).undo(RATE)


@pytest.mark.parametrize(
    ("delay_ms", "jitter_ms"), [(100, 0), (1900, 0), (5000, 0), (10_000, 2000)]
)
def test_a_ping_waits_for_answers_that_are_as_late_as_requested(
    delay_ms: int, jitter_ms: int
) -> None:
    """The first of ten is sent 0.9 s before the last, after which `ping` waits."""

    class Late(Shaped):
        def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
            if argv[0] != "timeout":
                return Completed(1, "") if argv[0] == "cat" else super().admin(argv)
            ends_s, waits_s = int(argv[1]), int(argv[argv.index("-W") + 1])
            latest_s = (delay_ms + jitter_ms) / 1000
            assert 0.9 + waits_s > latest_s
            assert 0.9 + latest_s < ends_s < timeout_s
            return Completed(0, f"rtt min/avg/max/mdev = 1.0/{delay_ms}.0/1.0/1.0 ms")

    late = Late("b1", frozenset({"broker"}), "198.18.0.11")
    late.standing = ({"kind": "netem", "handle": "5289:", "dev": "eth0", "packets": 20},)
    record = replace(DELAY, delay_ms=float(delay_ms), jitter_ms=float(jitter_ms))
    proof = ShapingLever({"b1": late}).probe(record, applied=True)
    assert f"answers took {delay_ms}.0 ms" in proof.evidence[0]
