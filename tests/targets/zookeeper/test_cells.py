"""Cells on ZooKeeper: their own znodes, and clients that read and connect in their own ways."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import parse_plan
from harness.protocols import OK, invoke
from harness.run.resolving import resolve
from targets import zookeeper
from targets.zookeeper import clients as sessions
from targets.zookeeper import configuration
from targets.zookeeper.clients import CLIENTS, Session
from tests.fixtures.fake_zookeeper import HERE, Server

PLAN: dict[str, Any] = {
    "schema": 1,
    "name": "x",
    "target": {"system": "zookeeper", "version": "3.9.4"},
    "workload": {"name": "set", "processes": 6, "clients": 6},
    "cells": [{"name": "plain"}, {"name": "sync", "workload": {"read": "sync"}}],
}


def plans(**changes: Any) -> list[Any]:
    return [cell.plan for cell in resolve(parse_plan({**PLAN, **changes})).cells]


def test_each_cell_has_a_parent_of_its_own_and_its_own_reads() -> None:
    plain, sync = plans()
    assert configuration.parents(plain)[0] == "/ackloss/plain/set"
    assert configuration.parents(sync)[0] == "/ackloss/sync/set"
    assert (plain.workload.read, sync.workload.read) == ("plain", "sync")
    assert (plain.workload.processes, plain.workload.clients) == (3, 3)


def test_locks_still_have_a_session_for_each_process() -> None:
    for plan in plans(workload={"name": "locks", "processes": 7, "clients": 7}):
        assert plan.workload.processes == plan.workload.clients == 4


def test_without_cells_znodes_are_where_they_were() -> None:
    plan: Any = parse_plan({**PLAN, "cells": []})
    assert configuration.parents(plan) == ["/ackloss/set", "/ackloss/sequence", "/ackloss/locks"]
    assert zookeeper.SERVED == {"set": "/set", "register": ""}


def test_what_the_servers_have_in_common_is_no_cell_s_to_change() -> None:
    cells = [{"name": "a"}, {"name": "b", "ensemble": {"forceSync": False}}]
    with pytest.raises(PlanError, match="no cell may change this key") as refused:
        plans(cells=cells)
    assert refused.value.key == "cells.1.ensemble.forceSync"


@pytest.mark.parametrize("parent", ["ackloss", "/", "/a/", "/a//b", "/a/..", "/a b", "/a/./b"])
def test_a_parent_that_is_no_path_is_refused(parent: str) -> None:
    workload = {**PLAN["workload"], "parent": parent}
    with pytest.raises(PlanError) as refused:
        parse_plan({**PLAN, "workload": workload})
    assert refused.value.key == "workload.parent"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made = Server()
    monkeypatch.setattr(sessions, "CLIENT_PORT", made.port)
    yield made
    made.close()


def test_clients_write_below_the_parent_of_their_cell(server: Server) -> None:
    for plan in plans():
        parent = plan.workload.parent
        server.znodes |= {parent: b"", f"{parent}/set": b""}
        session = Session([HERE], {HERE: "z1"}, session_ms=4000, request_ms=2000)
        client = CLIENTS["set"](session, parent=parent, sync=False)
        assert client.call(invoke("add", 7))[0] == OK
        client.close()
    assert {"/ackloss/plain/set/7", "/ackloss/sync/set/7"} <= set(server.znodes)
