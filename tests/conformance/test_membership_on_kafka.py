"""What every nemesis promises (see test_nemeses.py), of the one that needs leaders: on Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path

import pytest

from harness import registry
from harness.errors import HarnessFailure
from harness.faults.injection import Faults, unavailable
from harness.faults.journal import Journal, OpenActs, entries, open_acts, windows
from harness.faults.records import LeadershipRecord, ProcessRecord, from_document, to_document
from harness.history.run_folder import new_run_id
from harness.levers.commands import poll_until
from harness.machine import state
from harness.plan import parse_plan
from harness.protocols import Act, FaultWindow, Nemesis, PartitionView, RunCluster
from harness.run.resolving import ResolvedPlan, resolve
from harness.run.runner import levers_of
from nemeses.planned_work import Membership
from targets.kafka.kraft import KraftLeadership
from targets.kafka.levers import Leadership, LeadershipLever

pytestmark = pytest.mark.docker

PLAN = {
    "schema": 1,
    "name": "planned",
    "target": {"version": "4.3.1", "brokers": 3, "controllers": 1},
    "topic": {"partitions": 3, "replication_factor": 3},
}


@pytest.fixture(scope="module")
def resolved() -> ResolvedPlan:
    return resolve(parse_plan(PLAN))


@pytest.fixture(scope="module")
def kafka(resolved: ResolvedPlan, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunCluster]:
    run_id = new_run_id()
    cluster = resolved.provider.cluster(resolved.order, run_id, lambda _: None)
    with state.registered(run_id, tmp_path_factory.mktemp("kafka")):
        try:
            cluster.start()
            resolved.target.bring_up(cluster, resolved.plan, timeout_s=90)
            yield cluster
        finally:
            cluster.down()
            state.forget(run_id)


@pytest.fixture
def leadership(resolved: ResolvedPlan, kafka: RunCluster) -> Leadership:
    return KraftLeadership(kafka.nodes, resolved.plan)


@pytest.fixture
def faults(resolved: ResolvedPlan, kafka: RunCluster, tmp_path: Path) -> Faults:
    ticks = count()
    journal = Journal(tmp_path / "faults.jsonl", lambda: next(ticks))
    return Faults(levers_of(resolved, kafka), journal)


def acts_on(kafka: RunCluster, names: str, form: str = "move") -> list[Act]:
    nemesis: Nemesis = registry.make("nemeses", "membership", {"form": form}, key="nemesis")
    return nemesis.acts([kafka.nodes[name] for name in names.split()], lambda _: [])


def moved(act: Act, fault: str) -> LeadershipRecord:
    """The record of an act, as one of this fault."""
    assert isinstance(act.record, LeadershipRecord)
    return replace(act.record, fault=fault)


def plain(record: LeadershipRecord) -> object:
    """The record as another process reads it."""
    return json.loads(json.dumps(to_document(record), default=asdict))


def leaders(leadership: Leadership) -> dict[int, tuple[str | None, tuple[str, ...]]]:
    return {n: (view.leader, view.replicas) for n, view in leadership.placements().items()}


def preferred_lead(placements: Mapping[int, PartitionView]) -> bool:
    return all(view.leader == view.replicas[0] for view in placements.values())


def window_of(faults: Faults, acts: list[Act], journal: Path) -> FaultWindow:
    """Begin a fault and heal it three times; its window."""
    faults.journal.write("step", fault="x", nemesis="membership", nodes=[], met=None, why="")
    faults.inject("x", "membership", acts)
    for _ in range(2):
        faults.heal("x")
    faults.heal_all()
    assert open_acts(journal) == OpenActs()
    (window,) = windows(journal)
    return window


def test_it_is_a_nemesis_and_available_where_another_broker_can_lead(
    kafka: RunCluster, leadership: Leadership, faults: Faults
) -> None:
    assert isinstance(Membership(), Nemesis)
    assert unavailable(Membership(), kafka.nodes, faults.levers) is None
    alone = {name: kafka.nodes[name] for name in ("b1", "c1")}
    levers = {"leadership": LeadershipLever(leadership, alone)}
    assert unavailable(Membership(), alone, levers) == "there is only one broker"


def test_its_records_are_plain_data_and_the_same_for_the_same_nodes(
    kafka: RunCluster, leadership: Leadership
) -> None:
    lever = LeadershipLever(leadership)
    (act,) = acts_on(kafka, "b1")
    record = lever.capture_prior_state(moved(act, "x"))
    assert from_document(LeadershipRecord, plain(record)) == record
    assert acts_on(kafka, "b1") == [act]
    assert lever.capture_prior_state(moved(act, "x")) == record
    assert [move.leader for move in record.partitions] == ["b1"]


@pytest.mark.parametrize("names", ["b1", "b2 b3", "b3 c1"])
def test_a_move_is_proven_on_and_proven_off_and_leaves_nothing(
    kafka: RunCluster, leadership: Leadership, faults: Faults, tmp_path: Path, names: str
) -> None:
    before = leaders(leadership)
    window = window_of(faults, acts_on(kafka, names), tmp_path / "faults.jsonl")
    assert window.proven, window.evidence
    phases = [e["phase"] for e in entries(tmp_path / "faults.jsonl") if e["type"] == "proof"]
    assert phases == ["applied", "held", "undone"]
    assert poll_until(lambda: leaders(leadership) == before, within_s=5)


def test_a_move_is_undone_from_its_record_alone(
    resolved: ResolvedPlan, kafka: RunCluster, leadership: Leadership
) -> None:
    lever = LeadershipLever(leadership)
    before = leaders(leadership)
    (act,) = acts_on(kafka, "b2")
    record = lever.capture_prior_state(moved(act, "x"))
    for _ in range(2):
        lever.apply(record)
    assert lever.probe(record, applied=True).proven
    fresh = LeadershipLever(KraftLeadership(kafka.nodes, resolved.plan))
    for _ in range(2):
        fresh.undo(from_document(LeadershipRecord, plain(record)))
    proof = fresh.probe(record, applied=False)
    assert proof.proven, proof.evidence
    assert leaders(leadership) == before


@pytest.mark.parametrize("form", ["move", "elect"])
def test_healing_what_was_never_injected_is_harmless(
    kafka: RunCluster, leadership: Leadership, form: str
) -> None:
    before = leadership.placements()
    lever = LeadershipLever(leadership)
    (act,) = acts_on(kafka, "b1 b2", form)
    lever.undo(lever.capture_prior_state(moved(act, "never")))
    assert leadership.placements() == before


@pytest.mark.parametrize("form", ["move", "elect"])
def test_requests_that_are_never_sent_are_found_out(
    kafka: RunCluster,
    faults: Faults,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
) -> None:
    monkeypatch.setattr(KraftLeadership, "reorder", lambda *_: None)
    monkeypatch.setattr(KraftLeadership, "elect", lambda *_: {})
    monkeypatch.setattr("targets.kafka.levers._SEEN_S", 0.5)
    window = window_of(faults, acts_on(kafka, "b1 b2", form), tmp_path / "faults.jsonl")
    assert not window.proven, window.evidence
    assert "no leader has changed" in window.evidence


def test_a_replica_that_is_none_is_refused_by_name(leadership: Leadership) -> None:
    with pytest.raises(HarnessFailure, match="partition 7: the reassignment was refused: UNKNOWN_"):
        leadership.reorder({7: ["b2", "b1", "b3"]})
    assert leadership.elect([7]) == {7: "UNKNOWN_TOPIC_OR_PARTITION"}


def test_a_dead_leader_can_be_led_for_and_is_elected_when_it_is_back(
    kafka: RunCluster, leadership: Leadership, faults: Faults, tmp_path: Path
) -> None:
    """A move whose old leader dies cannot be undone, and says so; an election sets it right."""
    (act,) = acts_on(kafka, "b1")
    faults.journal.write("step", fault="moved", nemesis="m", nodes=["b1"], met=None, why="")
    faults.inject("moved", "membership", [act])
    faults.inject(
        "dead",
        "kill",
        [Act("process", ProcessRecord(node="b1", signal="KILL", pid=kafka.nodes["b1"].pid()))],
    )
    assert poll_until(
        lambda: all("b1" not in v.members for v in leadership.placements().values()), within_s=30
    )
    faults.heal("moved")
    (window,) = windows(tmp_path / "faults.jsonl")
    assert not window.proven
    assert "not as before: b1 is not in the ISR" in window.evidence[-1]
    faults.heal("dead")
    assert poll_until(
        lambda: all(len(v.members) == 3 for v in leadership.placements().values()), within_s=30
    )
    assert not preferred_lead(leadership.placements())
    window = window_of(
        Faults(faults.levers, Journal(tmp_path / "elected.jsonl", lambda: 0)),
        acts_on(kafka, "b1 b2 b3", "elect"),
        tmp_path / "elected.jsonl",
    )
    assert window.proven, window.evidence
    assert poll_until(lambda: preferred_lead(leadership.placements()), within_s=5)
