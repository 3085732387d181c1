"""What every nemesis promises, whatever it does: found in the registry, played on real pods."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness import registry, selectors
from harness.clusters.docker import DockerCluster
from harness.clusters.pod import DockerNode
from harness.faults import Faults
from harness.journal import Journal, open_acts, windows
from harness.leadership import LEADERSHIP
from harness.levers import all_levers
from harness.preparing import needs_of
from harness.protocols import Act, Completed, Nemesis, Node, Situation

pytestmark = pytest.mark.docker

NEMESES = [
    name
    for name in registry.plugins("nemeses")
    if LEADERSHIP not in needs_of([registry.make("nemeses", name, {}, key="nemesis")])
]  # pods have no leaders: see test_membership_on_kafka.py
SEGMENT = Path(__file__).parents[1] / "levers" / "segment.log"
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in NEMESES),
    ("partition", {"ports": [9092], "direction": "in", "peers": "role:broker"}),
    ("partition", {"direction": "out"}),
    ("partition", {"form": "halves"}),
    ("partition", {"form": "bridge"}),
    ("partition", {"form": "ring"}),
    ("partition", {"groups": ["node:b1 + node:c1", "node:b2"], "direction": "out"}),
    ("partition", {"peers": "clients"}),
    ("partition", {"peers": "clients", "direction": "in"}),
    ("partition", {"peers": "clients", "direction": "out", "ports": [9092]}),
    ("lossy", {"share": 0.05, "direction": "in"}),
    ("lossy", {"share": 0.3, "ports": [9092], "peers": "role:broker"}),
    ("lossy", {"share": 0.3, "ports": [9092], "peers": "clients"}),
    ("lossy", {"share": 0.3, "peers": "clients", "direction": "in"}),
    ("lossy", {"reset": True}),
    ("lossy", {"reset": True, "ports": [9092], "direction": "in"}),
    ("lossy", {"reset": True, "direction": "out"}),
    ("lossy", {"reset": True, "peers": "clients"}),
    ("lossy", {"reset": True, "peers": "clients", "direction": "out"}),
    ("lossy", {"rate_kbit": 64}),
    ("lossy", {"rate_kbit": 500}),
    ("lossy", {"rate_kbit": 20_000}),
    ("kill", {"signal": "TERM"}),
    ("stress", {"busy_count": 0, "memory_mb": 20}),
    ("clock", {"offset_s": -7200}),
    ("clock", {"form": "drift"}),
    ("clock", {"form": "strobe"}),
    *(("disk", {"form": form}) for form in ("wipe", "reformat", "truncate", "flip", "read-only")),
    ("disk", {"tail": "zeros"}),
    ("disk", {"form": "flip", "alive": True}),
]


def ids(variant: tuple[str, dict[str, Any]]) -> str:
    name, options = variant
    return "-".join([name, *map(str, options.values())])


@pytest.fixture(params=VARIANTS, ids=ids)
def nemesis(request: pytest.FixtureRequest) -> Nemesis:
    name, options = request.param
    made: Nemesis = registry.make("nemeses", name, options, key="nemesis")
    return made


@pytest.fixture(autouse=True)
def stored(pods: DockerCluster) -> None:
    """Files as Kafka keeps them: earlier tests have damaged theirs."""
    files = {
        f"data/ackloss-0/{0:020}.log": SEGMENT.read_bytes(),
        "data/meta.properties": b"version=1\ndirectory.id=old\n",
        "data/bootstrap.checkpoint": b"c",
    }
    for node in pods.nodes.values():
        node.put(files)


def acts_on(nemesis: Nemesis, pods: DockerCluster) -> list[Act]:
    nodes = list(pods.nodes.values())
    roles = {node.name: node.roles for node in nodes}

    def select(text: str) -> Sequence[Node]:
        choice = selectors.Choice(roles=roles, situation=Situation(time_ns=0))
        return [pods.nodes[name] for name in selectors.select(text, choice)]

    among_them = getattr(nemesis, "form", None) == "ring" or getattr(nemesis, "groups", ())
    return nemesis.acts(nodes if among_them else [pods.nodes["b1"]], select)


@pytest.fixture
def faults(pods: DockerCluster, tmp_path: Path) -> Faults:
    ticks = iter(range(1_000_000))
    journal = Journal(tmp_path / "faults.jsonl", lambda: next(ticks))
    return Faults(all_levers(pods.nodes), journal)


def residue(pods: DockerCluster) -> list[str]:
    levers = all_levers(pods.nodes).values()
    return [told for lever in levers for n in pods.nodes.values() for told in lever.residue(n)]


def test_it_is_a_nemesis_and_available(nemesis: Nemesis, pods: DockerCluster) -> None:
    assert isinstance(nemesis, Nemesis)
    assert nemesis.available(pods) is None
    assert type(nemesis).__doc__


def test_its_tokens_are_plain_data_and_the_same_for_the_same_nodes(
    nemesis: Nemesis, pods: DockerCluster
) -> None:
    acts = acts_on(nemesis, pods)
    assert acts
    assert json.loads(json.dumps([act.token for act in acts])) == [act.token for act in acts]
    assert acts == acts_on(nemesis, pods)


def test_it_is_proven_on_and_proven_off_and_leaves_nothing(
    nemesis: Nemesis, pods: DockerCluster, faults: Faults, tmp_path: Path
) -> None:
    assert residue(pods) == []
    faults.journal.write("step", fault="x", nemesis="n", nodes=["b1"], met=None, why="")
    faults.inject("x", "n", acts_on(nemesis, pods))
    assert residue(pods) != []
    assert open_acts(tmp_path / "faults.jsonl")
    faults.heal("x")
    assert residue(pods) == []
    faults.heal("x")
    faults.heal_all()
    assert residue(pods) == []
    (window,) = windows(tmp_path / "faults.jsonl")
    assert window.proven, window.evidence
    assert open_acts(tmp_path / "faults.jsonl") == []


def test_healing_what_was_never_injected_is_harmless(
    nemesis: Nemesis, pods: DockerCluster, faults: Faults
) -> None:
    for act in acts_on(nemesis, pods):
        faults.levers[act.lever].undo({**act.token, "fault": "never"})
    assert residue(pods) == []


def test_a_lever_that_does_nothing_is_found_out(
    nemesis: Nemesis,
    pods: DockerCluster,
    faults: Faults,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The check of the check: iptables, tc, kill, find and scripts say yes and do nothing, a shell
    starts nothing."""
    real = DockerNode.admin

    def lying(node: DockerNode, argv: Sequence[str], **options: Any) -> Completed:
        acts = argv[0] == "sh" and argv[2:3] != ["show"]
        if argv[0] in ("iptables", "kill", "tc", "find") or acts:
            return Completed(0 if "-D" not in argv else 1, "")
        return real(node, argv, **options)

    monkeypatch.setattr(DockerNode, "admin", lying)
    monkeypatch.setattr(DockerNode, "run", lambda *_, **__: Completed(0, ""))
    for limit in ("process._DEATH_S", "pause._SEEN_S", "stress._SEEN_S"):
        monkeypatch.setattr(f"harness.levers.{limit}", 0.2)
    faults.journal.write("step", fault="x", nemesis="n", nodes=["b1"], met=None, why="")
    faults.inject("x", "n", acts_on(nemesis, pods))
    (window,) = windows(tmp_path / "faults.jsonl")
    assert not window.proven, window.evidence
    monkeypatch.undo()
    faults.heal_all()
    assert residue(pods) == []


def test_healing_one_of_two_overlapping_faults_leaves_the_other(
    pods: DockerCluster, faults: Faults, tmp_path: Path
) -> None:
    for fault in ("first", "second"):
        nemesis = registry.make("nemeses", "partition", {}, key="nemesis")
        faults.journal.write("step", fault=fault, nemesis="n", nodes=["b1"], met=None, why="")
        faults.inject(fault, "partition", acts_on(nemesis, pods))
    faults.heal("first")
    assert any("ackloss/second/" in rule for rule in residue(pods))
    assert not any("ackloss/first/" in rule for rule in residue(pods))
    faults.heal("second")
    assert residue(pods) == []
    first, second = windows(tmp_path / "faults.jsonl")
    assert first.proven, first.evidence
    assert second.proven, second.evidence
    assert "still cut by second" in " ".join(first.evidence)
