"""The members lever over servers that keep one configuration, as ZooKeeper's own answer it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from kazoo.exceptions import BadArgumentsError
from kazoo.protocol.serialization import Reconfig

from harness.errors import HarnessFailure, PlanError
from harness.faults.own_traffic import NoAnswer
from harness.faults.records import MembersRecord
from harness.run.resolving import resolve
from targets.zookeeper import asking
from targets.zookeeper import levers as module
from targets.zookeeper.levers import MembersLever, members
from tests.fixtures.dry_run import DryRunNode
from tests.targets.zookeeper.test_layout import plan_of

ENTRY = "server.{n}=198.18.0.1{n}:2888:3888:participant"
PLAN = plan_of(ensemble={"servers": 5, "reconfig": True})
NODES = {f"z{n}": DryRunNode(f"z{n}", frozenset({"voter"}), f"198.18.0.1{n}") for n in range(1, 6)}


@dataclass
class Ensemble:
    """What the servers have; the first `silent` requests are made and not answered."""

    entries: dict[int, str] = field(
        default_factory=lambda: {n: ENTRY.format(n=n) for n in range(1, 6)}
    )
    silent: int = 0
    asked: list[str] = field(default_factory=list)

    def get(self, address: str, path: str, *, timeout_s: float) -> bytes:
        assert path == "/zookeeper/config"
        return "\n".join([*self.entries.values(), "version=1"]).encode()

    def ask(self, address: str, request: Reconfig, *, timeout_s: float) -> Any:
        self.asked.append(address)
        for number in (request.leaving or "").split(","):
            self.entries.pop(int(number or 0), None)
        for entry in (request.joining or "").split(","):
            if entry and ";" not in entry:
                raise BadArgumentsError
            self.entries |= members(entry.encode())
        if self.silent:
            self.silent -= 1
            raise NoAnswer("the server closed the connection")


@pytest.fixture
def ensemble(monkeypatch: pytest.MonkeyPatch) -> Ensemble:
    made = Ensemble()
    monkeypatch.setattr(asking, "get", made.get)
    monkeypatch.setattr(asking, "ask", made.ask)
    monkeypatch.setattr(module, "_SEEN_S", 0.05)
    monkeypatch.setattr(module, "_AGAIN_S", 0.01)
    monkeypatch.setattr(module, "_WITHIN_S", 0.2)
    return made


LEVER = MembersLever(NODES, PLAN)
RECORD = MembersRecord(node="z1,z5", fault="f")


@pytest.mark.parametrize("silent", [0, 4])
def test_servers_leave_and_join_again(ensemble: Ensemble, silent: int) -> None:
    record = LEVER.capture_prior_state(RECORD)
    assert record.entries == (ENTRY.format(n=1), ENTRY.format(n=5))
    assert not LEVER.probe(record, applied=True).proven
    ensemble.silent = silent
    LEVER.apply(record)
    assert sorted(ensemble.entries) == [2, 3, 4]
    assert set(ensemble.asked) <= {NODES[name].address for name in ("z2", "z3", "z4")}
    proof = LEVER.probe(record, applied=True)
    assert proof.proven
    assert proof.evidence[0] == "z2: members are [2, 3, 4]"
    assert not LEVER.probe(record, applied=False).proven
    LEVER.undo(record)
    assert ensemble.entries[5] == f"{ENTRY.format(n=5)};2181"
    assert LEVER.probe(record, applied=False).proven
    LEVER.undo(record)
    assert sorted(ensemble.entries) == [1, 2, 3, 4, 5]


def test_a_server_that_was_no_member_is_not_proven_to_have_left(ensemble: Ensemble) -> None:
    del ensemble.entries[1], ensemble.entries[5]
    record = LEVER.capture_prior_state(RECORD)
    LEVER.apply(record)
    assert not LEVER.probe(record, applied=True).proven


def test_nobody_who_answers_is_a_failure(ensemble: Ensemble) -> None:
    ensemble.silent = 1_000
    with pytest.raises(HarnessFailure, match=r"no server answered: remove z1,z5"):
        LEVER.apply(LEVER.capture_prior_state(RECORD))


def test_it_is_refused_where_the_ensemble_cannot_be_changed() -> None:
    lever = MembersLever(NODES, plan_of(ensemble={"servers": 5}))
    assert "ensemble.reconfig is false" in (lever.unavailable(NODES["z1"], RECORD) or "")
    assert LEVER.unavailable(NODES["z1"], RECORD) is None
    with pytest.raises(PlanError, match="cannot change its members") as refused:
        resolve(plan_of("3.4.14", ensemble={"servers": 5, "reconfig": True}))
    assert refused.value.key == "ensemble.reconfig"


def test_entries_with_client_ports_are_taken_as_they_are() -> None:
    text = b"server.1=a:1:2:participant;0.0.0.0:2181\nserver.12=b:1:2:observer\nversion=1f\n"
    assert members(text) == {
        1: "server.1=a:1:2:participant;0.0.0.0:2181",
        12: "server.12=b:1:2:observer",
    }
