"""Only nodes of a plan that needs it are started otherwise than their target says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness import registry
from harness.clusters.docker.cluster import prepared
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


def test_a_plan_that_needs_nothing_has_its_nodes_as_they_are() -> None:
    specs = [NodeSpec(name="b1", roles=frozenset(), argv=["java"])]
    assert prepared(specs, frozenset(), holder_id="never asked") == specs


def test_every_node_of_a_plan_with_clocks_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.images.faketime.library", lambda holder_id: holder_id.encode())
    specs = [NodeSpec(name=name, roles=frozenset(), argv=["java"]) for name in ("b1", "c1")]
    made = prepared(specs, frozenset({FAKETIME}), holder_id="its library")
    assert [spec.name for spec in made] == ["b1", "c1"]
    assert all(spec.files["clock/libfaketimeMT.so.1"] == b"its library" for spec in made)
    assert all(spec.argv[-1] == "java" and spec.argv != ["java"] for spec in made)


def test_nodes_store_on_a_small_disk_where_it_is_to_be_filled_and_only_there() -> None:
    specs = [NodeSpec(name=name, roles=frozenset(), argv=["java"]) for name in ("b1", "c1")]
    made = prepared(specs, frozenset({BOUNDED_DISK}), holder_id="never asked")
    assert [spec.data_mb for spec in made] == [128, 128]
    assert [replace(spec, data_mb=None) for spec in made] == specs


def test_a_disk_that_can_lose_power_is_also_one_that_may_be_filled() -> None:
    specs = [NodeSpec(name="b1", roles=frozenset(), argv=["java"])]
    (spec,) = prepared(specs, frozenset({OWN_DISK}), holder_id="never asked")
    assert (spec.own_disk_mb, spec.data_mb) == (1024, None)
    (spec,) = prepared(specs, frozenset({OWN_DISK, BOUNDED_DISK}), holder_id="never asked")
    assert (spec.own_disk_mb, spec.data_mb) == (128, None)
