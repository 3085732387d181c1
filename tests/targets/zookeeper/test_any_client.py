"""What ZooKeeper's target gives to clients that are processes of the user's, and refuses."""

from __future__ import annotations

import pytest

from harness.errors import PlanError
from harness.run.resolving import resolve
from harness.servers import in_turn
from targets.zookeeper import ZooKeeper
from tests.targets.zookeeper.test_layout import plan_of

SERVERS = ["a", "b", "c"]


@pytest.mark.parametrize("name", ["set", "register"])
def test_sets_and_registers_are_served(name: str) -> None:
    plan = plan_of(workload={"name": name, "client": "exec"})
    assert resolve(plan).plan == plan
    assert ZooKeeper().writer(plan) == "a command of the user's"


@pytest.mark.parametrize("name", ["locks", "watches", "sequence"])
def test_what_rests_on_sessions_is_refused(name: str) -> None:
    with pytest.raises(PlanError, match=rf"workload.client.*{name} needs a session"):
        resolve(plan_of(workload={"name": name, "client": "exec"}))


def test_each_client_begins_with_another_server() -> None:
    assert [in_turn(SERVERS, "all", number)[0] for number in range(4)] == ["a", "b", "c", "a"]
    assert in_turn(SERVERS, "all", 1) == ["b", "c", "a"]
    assert in_turn(SERVERS, "one", 1) == ["b"]


def test_an_operation_may_take_a_new_session_and_three_requests() -> None:
    plan = plan_of(workload={"session_ms": 4000, "request_ms": 1500})
    assert ZooKeeper().answers_within_s(plan) == pytest.approx(4 + 3 * 1.5 + 5)


def test_clients_of_the_users_may_have_several_operations_in_flight() -> None:
    shared = {"processes": 12, "clients": 3}
    (warning,) = ZooKeeper().warnings(plan_of(workload=shared))
    assert "share 3 clients" in warning
    assert ZooKeeper().warnings(plan_of(workload={**shared, "client": "exec"})) == []
