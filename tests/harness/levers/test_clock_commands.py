"""The exact commands of the clock lever, seen on a node that only writes them down."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import registry
from harness.errors import PlanError
from harness.levers.clock import ClockLever, prepared
from harness.protocols import NodeSpec
from tests.fixtures.dry_run import DryRunNode

SCRIPT = "/var/lib/ackloss/clock/clock.sh"


@pytest.fixture
def nodes() -> dict[str, DryRunNode]:
    return {name: DryRunNode(name, frozenset({"broker"}), "198.18.0.11") for name in ("b1", "b2")}


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ({}, "add wrong jump 60000000"),
        ({"offset_s": -0.25}, "add wrong jump -250000"),
        ({"form": "drift", "drift_ms_per_s": -12.5}, "add wrong drift -12500 0 3600"),
        (
            {"form": "strobe", "offset_s": 5, "period_s": 6, "limit_s": 90},
            "add wrong strobe 5000000 6000 90",
        ),
    ],
)
def test_each_form_is_one_command_on_its_own_node(
    nodes: dict[str, DryRunNode], options: dict[str, Any], command: str
) -> None:
    nemesis = registry.make("nemeses", "clock", options, key="nemesis")
    (act,) = nemesis.acts([nodes["b1"]], lambda _: [])
    assert act.lever == "clock"
    lever = ClockLever(nodes)
    record = replace(act.record, fault="wrong")
    lever.apply(record)
    lever.undo(record)
    assert nodes["b1"].commands == [f"b1# sh {SCRIPT} {command}", f"b1# sh {SCRIPT} drop wrong"]
    assert nodes["b2"].commands == []


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
        ({"form": "strobe", "period_s": 1}, "period_s is from 4 s"),
        ({"form": "drift", "limit_s": 0}, "limit_s is from 1 s"),
        ({"form": "stop"}, "jump"),
    ],
)
def test_what_cannot_be_done_is_refused(options: dict[str, Any], reported: str) -> None:
    with pytest.raises(PlanError, match=reported):
        registry.make("nemeses", "clock", options, key="faults.0.nemesis")
