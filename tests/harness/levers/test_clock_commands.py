"""How a node is prepared for moved clocks, and options that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from harness import registry
from harness.errors import PlanError
from harness.levers.clock import prepared
from harness.protocols import NodeSpec


def test_a_prepared_node_starts_with_the_library_and_keeps_its_own_files() -> None:
    spec = NodeSpec(name="b1", roles=frozenset(), argv=["java", "-x"], files={"a": b"1"})
    made = prepared(spec, b"ELF")
    assert made.files["a"] == b"1"
    assert made.files["clock/libfaketimeMT.so.1"] == b"ELF"
    assert made.files["clock/offset"] == b"+0\n"
    shell, flag, start, _, *argv = made.argv
    assert (shell, flag, argv) == ("/bin/sh", "-c", ["java", "-x"])
    assert "LD_PRELOAD=/var/lib/ackloss/clock/libfaketimeMT.so.1" in start


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ({"offset_s": 0.1}, "offset_s is from 0.2 s"),
        ({"form": "drift", "drift_ms_per_s": 0}, "drift_ms_per_s is from 5"),
        ({"form": "strobe", "period_s": 1}, "use 4 or more"),
        ({"form": "drift", "limit_s": 0}, "use 1 or more"),
        ({"form": "stop"}, "jump"),
    ],
)
def test_what_cannot_be_done_is_refused(options: dict[str, Any], reported: str) -> None:
    with pytest.raises(PlanError, match=reported):
        registry.make("nemeses", "clock", options, key="faults.0.nemesis")
