"""Which nodes a fault affects: those that lose a link, not always those that its step chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness import registry
from harness.faults import selectors
from harness.faults.journal import Journal, affected_nodes
from harness.protocols import Act, Node, Situation
from harness.protocols.faults import Choice
from tests.fixtures.dry_run import DryRunNode

NODES: dict[str, Node] = {
    f"n{n}": DryRunNode(f"n{n}", frozenset({"broker"}), f"198.18.0.1{n}") for n in range(1, 6)
}


def acts(nemesis: str, chosen: Sequence[str], **options: Any) -> list[Act]:
    def select(text: str) -> list[Node]:
        roles = {node.name: node.roles for node in NODES.values()}
        choice = Choice(roles=roles, situation=Situation(time_ns=0))
        return [NODES[name] for name in selectors.select(text, choice)]

    made = registry.make("nemeses", nemesis, options, key="nemesis")
    found: list[Act] = made.acts([NODES[name] for name in chosen], select)
    return found


def journalled(path: Path, chosen: Sequence[str], found: Sequence[Act]) -> Path:
    """A journal of a fault that announced these acts."""
    journal = Journal(path, lambda: 0)
    journal.write("step", fault="f", nemesis="x", nodes=list(chosen), met=None, why="")
    for act in found:
        journal.intent(fault="f", lever=act.lever, record=replace(act.record, fault="f"))
    journal.close()
    return path


@pytest.mark.parametrize(
    ("chosen", "options", "affected"),
    [
        ("n2", {}, "n2"),
        ("n2", {"direction": "in"}, "n2"),
        ("n2", {"peers": "clients"}, "n2"),
        ("n2 n3", {"peers": "node:n4"}, "n2 n3"),
        ("n4 n5", {"form": "halves"}, "n4 n5"),
        ("n1", {"form": "bridge"}, "n2 n3 n4 n5"),
        ("n1 n2 n3 n4 n5", {"form": "ring"}, "n1 n2 n3 n4 n5"),
        ("n1 n2 n3", {"form": "ring"}, "n1 n3"),
        ("n1 n2 n3 n4 n5", {"groups": ("node:n1 + node:n2", "node:n3 + node:n4")}, "n1 n2 n3 n4"),
        ("n1 n2 n3 n4 n5", {"groups": ("node:n1 + node:n2", "node:n2 + node:n3")}, "n1 n3"),
        ("n1", {"groups": ("node:n1 + node:n2", "node:n3 + node:n4")}, ""),
    ],
)
def test_a_partition_affects_those_that_it_is_to_cut_off(
    tmp_path: Path, chosen: str, options: dict[str, Any], affected: str
) -> None:
    journal = journalled(
        tmp_path / "faults.jsonl", chosen.split(), acts("partition", chosen.split(), **options)
    )
    assert affected_nodes(journal) == {"f": set(affected.split())}


@pytest.mark.parametrize(
    ("nemesis", "options"),
    [
        ("kill", {}),
        ("lossy", {"share": 0.2}),
        ("lossy", {"delay_ms": 5}),
        ("protocol", {"act": "drop", "peers": "node:n1"}),
        ("membership", {"form": "move"}),
        ("manual", {"instruction": "pull the plug", "undo_instruction": "put it back"}),
    ],
)
def test_any_other_fault_affects_the_nodes_that_it_chose(
    tmp_path: Path, nemesis: str, options: dict[str, Any]
) -> None:
    chosen = ["n2", "n3"]
    journal = journalled(tmp_path / "faults.jsonl", chosen, acts(nemesis, chosen, **options))
    assert affected_nodes(journal) == {"f": set(chosen)}


def test_a_fault_that_began_twice_affects_what_it_did_the_second_time(tmp_path: Path) -> None:
    path = tmp_path / "faults.jsonl"
    for chosen in (["n1"], ["n2"]):
        journalled(path, chosen, acts("pause", chosen))
    assert affected_nodes(path) == {"f": {"n2"}}
