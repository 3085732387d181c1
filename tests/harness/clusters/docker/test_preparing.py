"""Only nodes of a plan that needs it are started otherwise than their target says."""

from __future__ import annotations

from dataclasses import replace

from harness import registry
from harness.levers import prepared
from harness.protocols import BOUNDED_DISK, FAKETIME, OWN_DISK, NodeSpec
from harness.run.resolving import needs_of


def nemesis(name: str, **options: object) -> object:
    return registry.make("nemeses", name, options, key="nemesis")


def test_a_nemesis_says_what_it_needs() -> None:
    assert needs_of([nemesis("kill"), None, nemesis("partition")]) == frozenset()
    assert needs_of([nemesis("kill"), nemesis("clock"), nemesis("clock")]) == {FAKETIME}
    assert needs_of([nemesis("disk")]) == frozenset()
    assert needs_of([nemesis("disk"), nemesis("disk", form="full")]) == {BOUNDED_DISK}
    assert needs_of([nemesis("power-loss")]) == {OWN_DISK}


SPEC = NodeSpec(name="b1", roles=frozenset(), argv=["java"])


def made(*needs: str) -> NodeSpec:
    return prepared(SPEC, frozenset(needs), lambda: b"its library")


def test_a_plan_that_needs_nothing_has_its_nodes_as_they_are() -> None:
    assert made() == SPEC


def test_a_node_of_a_plan_with_clocks_has_the_library() -> None:
    spec = made(FAKETIME)
    assert spec.files["clock/libfaketimeMT.so.1"] == b"its library"
    assert spec.argv[-1] == "java"
    assert spec.argv != ["java"]


def test_disks_are_small_where_they_are_to_be_filled_and_own_where_they_lose_power() -> None:
    assert made(BOUNDED_DISK) == replace(SPEC, data_mb=128)
    assert made(OWN_DISK) == replace(SPEC, own_disk_mb=1024)
    assert made(OWN_DISK, BOUNDED_DISK) == replace(SPEC, own_disk_mb=128)
