"""What every nemesis promises, whatever it does: found in the registry, applied on real pods whose
processes talk; and on quiet ones, where nothing can meet it, it proves nothing.

Nearly all of the time is waiting for connections to time out, so the promises are checked side by
side, each on one of a few clusters, which are made and removed side by side too; a test reports the
outcome of one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from harness import registry
from harness.faults import selectors
from harness.faults.injection import NOTHING_MET, Faults, missing_levers, unavailable
from harness.faults.journal import Journal, OpenActs, entries, open_acts, windows
from harness.faults.records import ProcessRecord, from_document, to_document
from harness.levers import all_levers
from harness.levers.disk import DiskLever
from harness.protocols import Act, Completed, Lever, Nemesis, Node, Situation
from harness.protocols.faults import Choice
from targets.kafka.levers import KafkaStorage
from tests.conformance.conftest import Pods, pods_in, talking
from tests.fixtures.budget import full

pytestmark = pytest.mark.docker

NEMESES = [
    name
    for name, plugin in registry.plugins("nemeses").items()
    if not hasattr(plugin, "client_acts")  # clients: see test_client_crash.py
    and not missing_levers(registry.make("nemeses", name, {}, key="nemesis"), all_levers({}))
]  # pods have no leaders: see test_membership_on_kafka.py
SEGMENT = Path(__file__).parents[1] / "targets" / "kafka" / "segment.log"
CLUSTERS = 5
QUIET_CLUSTERS = 2
WINDOW_S = 1.2  # a process reads its moved clock within a second
Variant = tuple[str, dict[str, Any]]
MORE: list[Variant] = [
    ("partition", {"peers": "clients", "direction": "in"}),
    ("lossy", {"share": 0.05, "direction": "in"}),
    ("lossy", {"share": 0.3, "ports": [9092], "peers": "clients"}),
    ("lossy", {"reset": True, "ports": [9092], "direction": "in"}),
    ("lossy", {"reset": True, "direction": "out"}),
    ("lossy", {"reset": True, "peers": "clients", "direction": "out"}),
    ("lossy", {"rate_kbit": 64}),
    ("lossy", {"rate_kbit": 20_000}),
    ("disk", {"tail": "zeros"}),
    ("clock", {"form": "drift"}),
    ("clock", {"offset_s": -7200}),
    ("partition", {"direction": "out"}),
    ("partition", {"form": "bridge"}),
    ("partition", {"peers": "clients", "direction": "out", "ports": [9092]}),
    ("lossy", {"share": 0.3, "peers": "clients", "direction": "in"}),
    ("lossy", {"reset": True, "peers": "clients"}),
    *(("disk", {"form": form}) for form in ("wipe", "reformat", "truncate", "flip")),
]
"""Further combinations of the same levers, and what test_clock.py and test_disk_on_pods.py show."""
VARIANTS: list[Variant] = [
    ("clock", {"form": "strobe"}),  # those that take long begin first
    ("lossy", {"rate_kbit": 500}),
    *((name, {}) for name in NEMESES),
    ("partition", {"ports": [9092], "direction": "in", "peers": "role:broker"}),
    ("partition", {"form": "halves", "clients": True}),
    ("partition", {"form": "ring"}),
    ("partition", {"groups": ["node:b1 + node:c1", "node:b2"], "direction": "out"}),
    ("partition", {"peers": "clients"}),
    ("lossy", {"share": 0.3, "ports": [9092], "peers": "role:broker"}),
    ("lossy", {"reset": True}),
    ("kill", {"signal": "TERM"}),
    ("disk", {"form": "read-only"}),
    ("disk", {"form": "full"}),
    ("disk", {"form": "flip", "alive": True}),
]
UNMET: list[Variant] = [
    ("partition", {}),
    ("partition", {"direction": "out", "ports": [9092]}),
    ("partition", {"peers": "clients"}),
    ("lossy", {"share": 0.3}),
    ("lossy", {"reset": True, "peers": "clients"}),
    ("lossy", {"rate_kbit": 500}),
    ("stress", {"busy_count": 1}),
    ("stress", {"busy_count": 0, "memory_mb": 20}),
    ("clock", {}),
    ("disk", {"form": "read-only"}),
    ("disk", {"form": "full"}),
]
"""Those that need a system which does something: the mechanism alone must not prove them."""


CASES = [*VARIANTS, *full(*MORE)]
ALIKE: list[Variant] = [
    ("clock", {"form": "strobe"}),
    ("partition", {"form": "halves", "clients": True}),
    ("partition", {"form": "ring"}),
    ("partition", {"groups": ["node:b1 + node:c1", "node:b2"], "direction": "out"}),
    ("lossy", {"share": 0.3, "ports": [9092], "peers": "role:broker"}),
]
"""Whose levers lie as those of others do: which nodes are cut from which is none of theirs; and
test_clock.py has a loop that is dead."""
LIES = [*(each for each in VARIANTS if each not in ALIKE), *full(*ALIKE, *MORE)]


def ids(variant: Variant) -> str:
    name, options = variant
    return "-".join([name, *map(str, options.values())])


Promise = Callable[[Nemesis, Pods, Path], None]


def is_a_nemesis_and_available(nemesis: Nemesis, pods: Pods, folder: Path) -> None:
    assert isinstance(nemesis, Nemesis)
    assert unavailable(nemesis, pods.nodes, levers_on(pods.nodes)) is None
    assert type(nemesis).__doc__


def its_records_are_plain_data_and_the_same_for_the_same_nodes(
    nemesis: Nemesis, pods: Pods, folder: Path
) -> None:
    acts = acts_on(nemesis, pods)
    assert acts
    for act in acts:
        record = replace(act.record, fault="x")
        document = json.loads(json.dumps(to_document(record), default=asdict))
        assert from_document(type(record), document) == record
    assert acts == acts_on(nemesis, pods)


def is_proven_on_and_proven_off_and_leaves_nothing(
    nemesis: Nemesis, pods: Pods, folder: Path
) -> None:
    faults = faults_of(pods.nodes, folder)
    begin(faults, "x", acts_on(nemesis, pods))
    assert leftover_state(pods) != [], "and each promise before has left nothing"
    assert open_acts(folder / "faults.jsonl").acts
    time.sleep(WINDOW_S)
    faults.heal("x")
    assert leftover_state(pods) == []
    journal = (folder / "faults.jsonl").read_bytes()
    faults.heal("x")
    faults.heal_all()
    assert (folder / "faults.jsonl").read_bytes() == journal, "what is healed is left alone"
    (window,) = windows(folder / "faults.jsonl")
    assert window.proven, "\n".join(window.evidence)
    assert open_acts(folder / "faults.jsonl") == OpenActs()


def is_unproven_where_nothing_meets_it(nemesis: Nemesis, pods: Pods, folder: Path) -> None:
    faults = faults_of(pods.nodes, folder)
    begin(faults, "x", acts_on(nemesis, pods))
    faults.heal("x")
    assert leftover_state(pods) == []
    (window,) = windows(folder / "faults.jsonl")
    assert (window.proven, window.touched) == (False, 0), window.evidence
    proofs = [entry for entry in entries(folder / "faults.jsonl") if entry["type"] == "proof"]
    by_phase = {proof["phase"]: proof for proof in proofs}
    assert by_phase["applied"]["proven"], "the mechanism works"
    assert by_phase["undone"]["proven"]
    assert by_phase["held"]["evidence"][-1] == NOTHING_MET


def healing_what_was_never_injected_is_harmless(nemesis: Nemesis, pods: Pods, folder: Path) -> None:
    faults = faults_of(pods.nodes, folder)
    for act in acts_on(nemesis, pods):
        faults.levers[act.lever].undo(replace(act.record, fault="never"))
    assert leftover_state(pods) == []


def is_found_out_when_its_levers_do_nothing(nemesis: Nemesis, pods: Pods, folder: Path) -> None:
    """The check of the check. A clean stop that never comes is not waited for."""
    acts, nodes = [soon(act) for act in acts_on(nemesis, pods)], {**pods.nodes}
    faults = faults_of(nodes, folder)
    nodes.update({name: lying(node) for name, node in pods.nodes.items()})
    begin(faults, "x", acts)
    (window,) = windows(folder / "faults.jsonl")
    assert not window.proven, window.evidence
    nodes.update(pods.nodes)
    faults.heal_all()
    assert leftover_state(pods) == []


def soon(act: Act) -> Act:
    if not isinstance(act.record, ProcessRecord):
        return act
    return act._replace(record=replace(act.record, grace_s=0.2))


def lying(node: Node) -> Node:
    """A node whose iptables, tc, kill, find, dd and scripts say yes and do nothing, and where a
    shell starts nothing."""
    kind = type(node)

    def admin(self: Any, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        acts = argv[0] == "sh" and argv[2:3] != ["show"]
        if argv[0] in ("iptables", "kill", "tc", "find", "dd") or acts:
            return Completed(0 if "-D" not in argv else 1, "")
        return kind.admin(self, argv, timeout_s=timeout_s)

    def run(self: Any, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        return Completed(0, "")

    made: Node = type("Lying", (kind,), {"admin": admin, "run": run})(**parts(node))
    return made


def parts(node: Any) -> dict[str, Any]:
    return {field.name: getattr(node, field.name) for field in fields(node)}


def acts_on(nemesis: Nemesis, pods: Pods) -> list[Act]:
    nodes = list(pods.nodes.values())
    roles = {node.name: node.roles for node in nodes}

    def select(text: str) -> Sequence[Node]:
        choice = Choice(roles=roles, situation=Situation(time_ns=0))
        return [pods.nodes[name] for name in selectors.select(text, choice)]

    among_them = getattr(nemesis, "form", None) == "ring" or getattr(nemesis, "groups", ())
    return nemesis.acts(nodes if among_them else [pods.nodes["b1"]], select)


def levers_on(nodes: Mapping[str, Node]) -> dict[str, Lever[Any]]:
    """Every lever over pods that store as Kafka does."""
    return {**all_levers(nodes), "disk": DiskLever(nodes, KafkaStorage())}


def faults_of(nodes: Mapping[str, Node], folder: Path) -> Faults:
    ticks = iter(range(1_000_000))
    return Faults(levers_on(nodes), Journal(folder / "faults.jsonl", lambda: next(ticks)))


def begin(faults: Faults, fault: str, acts: list[Act]) -> None:
    faults.journal.write("step", fault=fault, nemesis="n", nodes=["b1"], met=None, why="")
    faults.inject(fault, "n", acts)


def leftover_state(pods: Pods) -> list[str]:
    levers = pods.levers.values()
    return [
        left for lever in levers for n in pods.nodes.values() for left in lever.leftover_state(n)
    ]


def store_files(pods: Pods) -> None:
    """Files as Kafka keeps them: what was applied before has damaged them."""
    files = {
        f"data/ackloss-0/{0:020}.log": SEGMENT.read_bytes(),
        "data/meta.properties": b"version=1\ndirectory.id=old\n",
        "data/bootstrap.checkpoint": b"c",
    }
    for node in pods.nodes.values():
        node.put(files)


HONEST: tuple[Promise, ...] = (
    is_a_nemesis_and_available,
    its_records_are_plain_data_and_the_same_for_the_same_nodes,
    is_proven_on_and_proven_off_and_leaves_nothing,
    healing_what_was_never_injected_is_harmless,
)
Outcomes = dict[str, Future[None]]


@contextmanager
def side_by_side(made: Sequence[AbstractContextManager[Pods]]) -> Iterator[SimpleQueue[Pods]]:
    """Clusters that are made, and removed, at once."""
    queue: SimpleQueue[Pods] = SimpleQueue()
    stacks = [ExitStack() for _ in made]
    with ThreadPoolExecutor(len(made)) as pool:
        try:
            for pods in pool.map(ExitStack.enter_context, stacks, made):
                queue.put(pods)
            yield queue
        finally:
            list(pool.map(ExitStack.close, stacks))


@pytest.fixture(scope="module")
def clusters(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleQueue[Pods]]:
    made = [talking(tmp_path_factory.mktemp("pods"), kind=kind) for _ in range(CLUSTERS)]
    with side_by_side(made) as queue:
        yield queue


@pytest.fixture(scope="module")
def quiet(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleQueue[Pods]]:
    made = [pods_in(tmp_path_factory.mktemp("quiet"), kind=kind) for _ in range(QUIET_CLUSTERS)]
    with side_by_side(made) as queue:
        yield queue


@contextmanager
def under_way(
    test: str, clusters: SimpleQueue[Pods], request: pytest.FixtureRequest, base: Path
) -> Iterator[Outcomes]:
    """The selected cases of a test on this kind of cluster, being checked, by their names."""
    kind = request.getfixturevalue("kind")

    def check(name: str, promise: Promise, variant: Variant) -> None:
        folder = base / name
        folder.mkdir()
        pods = clusters.get()
        try:
            nemesis = registry.make("nemeses", *variant, key="nemesis")
            if missing_levers(nemesis, pods.levers):  # hosts have no disk that can lose power
                assert unavailable(nemesis, pods.nodes, pods.levers)
                return
            store_files(pods)
            promise(nemesis, pods, folder)
        finally:
            clusters.put(pods)

    with ThreadPoolExecutor(CLUSTERS) as pool:
        yield {
            item.name: pool.submit(
                check, item.name, item.callspec.params["promise"], item.callspec.params["variant"]
            )
            for item in request.session.items
            if isinstance(item, pytest.Function)
            and item.originalname == test
            and item.callspec.params["kind"] == kind
        }


@pytest.fixture(scope="module")
def kept(
    clusters: SimpleQueue[Pods],
    unmet: Outcomes,  # begins, and goes on meanwhile
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Outcomes]:
    base = tmp_path_factory.mktemp("kept")
    with under_way("test_it_keeps_its_promise", clusters, request, base) as outcomes:
        yield outcomes


@pytest.fixture(scope="module")
def found_out(
    clusters: SimpleQueue[Pods],
    unmet: Outcomes,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Outcomes]:
    base = tmp_path_factory.mktemp("found-out")
    wait(unmet.values())  # with the limits as they are
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("process._DEATH_S", "process._SEEN_S", "stress._SEEN_S"):
            patch.setattr(f"harness.levers.{limit}", 0.2)  # what never comes is not waited for
        patch.setattr("harness.levers.clock._TRIES", 1)
        name = "test_a_lever_that_does_nothing_is_found_out"
        with under_way(name, clusters, request, base) as outcomes:
            yield outcomes


@pytest.fixture(scope="module")
def unmet(
    quiet: SimpleQueue[Pods],
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Outcomes]:
    base = tmp_path_factory.mktemp("unmet")
    with under_way("test_what_nothing_meets_is_unproven", quiet, request, base) as outcomes:
        yield outcomes


def test_healing_one_of_two_overlapping_faults_leaves_the_other(
    clusters: SimpleQueue[Pods], kept: Outcomes, tmp_path: Path
) -> None:
    pods = clusters.get()  # while the promises are being checked on the others
    try:
        heal_the_first_of_two(pods, tmp_path)
    finally:
        clusters.put(pods)


@pytest.mark.parametrize("variant", CASES, ids=ids)
@pytest.mark.parametrize("promise", HONEST, ids=lambda promise: promise.__name__)
def test_it_keeps_its_promise(
    promise: Promise, variant: Variant, kept: Outcomes, request: pytest.FixtureRequest
) -> None:
    kept[request.node.name].result()


@pytest.mark.parametrize("variant", LIES, ids=ids)
@pytest.mark.parametrize("promise", [is_found_out_when_its_levers_do_nothing], ids=["lie"])
def test_a_lever_that_does_nothing_is_found_out(
    promise: Promise, variant: Variant, found_out: Outcomes, request: pytest.FixtureRequest
) -> None:
    found_out[request.node.name].result()


@pytest.mark.parametrize("variant", UNMET, ids=ids)
@pytest.mark.parametrize("promise", [is_unproven_where_nothing_meets_it], ids=["unmet"])
def test_what_nothing_meets_is_unproven(
    promise: Promise, variant: Variant, unmet: Outcomes, request: pytest.FixtureRequest
) -> None:
    unmet[request.node.name].result()


def heal_the_first_of_two(pods: Pods, tmp_path: Path) -> None:
    faults = faults_of(pods.nodes, tmp_path)
    for fault in ("first", "second"):
        nemesis = registry.make("nemeses", "partition", {}, key="nemesis")
        begin(faults, fault, acts_on(nemesis, pods))
    faults.heal("first")
    assert any("ackloss/second/" in rule for rule in leftover_state(pods))
    assert not any("ackloss/first/" in rule for rule in leftover_state(pods))
    faults.heal("second")
    assert leftover_state(pods) == []
    first, second = windows(tmp_path / "faults.jsonl")
    assert first.proven, first.evidence
    assert second.proven, second.evidence
    assert "still cut by second" in " ".join(first.evidence)
