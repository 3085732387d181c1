"""Redis' client and what is asked of its servers, against a server that does what is requested
first and then replies with an error: only what proves a refusal ends an operation in fail."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from harness.plan import parse_plan
from harness.protocols import FAIL, INFO, NODE_DATA, OK, Completion, Invoke, invoke
from harness.run.resolving import resolve
from harness.servers import DIFFERS, NOT_CONNECTED, NotSent, Report, Server
from targets import redis
from targets.redis import ERRORS, Redis, RedisClient, RedisPlan, Valkey
from tests.fixtures.dry_run import DryRunCluster, DryRunNode
from tests.fixtures.fake_redis import HERE, WRITES, FakeRedis

NOTHING = "127.0.0.2"
"""No server is there."""
PLAN: dict[str, Any] = {"schema": 1, "name": "p", "target": {"system": "redis"}}
OTHERS = ("ERR something else", "EXECABORT Transaction discarded", "UNBLOCKED force unblock")
ADDRESSES = {"n1": "198.18.0.11", "n2": "198.18.0.12", "n3": "198.18.0.13"}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeRedis]:
    made = FakeRedis()
    monkeypatch.setattr(redis, "PORT", made.port)
    monkeypatch.setattr(redis, "SENTINEL_PORT", made.port)
    yield made
    made.close()


def plan_of(**sections: Any) -> RedisPlan:
    given = {**PLAN, "workload": {"name": "set", "duration_s": 1}, **sections}
    plan = resolve(parse_plan(given)).plan
    assert isinstance(plan, RedisPlan)
    return plan


def waiting(replicas: int) -> RedisPlan:
    return plan_of(workload={"name": "set", "duration_s": 1, "wait_replicas": replicas})


def called(op: Invoke, plan: RedisPlan | None = None) -> Completion:
    client = RedisClient(HERE, plan or plan_of())
    try:
        return client.call(op)
    finally:
        client.close()


def writes(server: FakeRedis) -> list[str]:
    return [words[0] for words in server.asked if words[0] in WRITES]


def test_registers_are_written_read_and_compared(server: FakeRedis) -> None:
    assert called(invoke("read", key="k"))[0::4] == (OK, None)
    assert called(invoke("cas", 2, key="k", expected=1))[::2][:2] == (FAIL, DIFFERS)
    assert called(invoke("write", 1, key="k"))[0] == OK
    assert called(invoke("cas", 2, key="k", expected=1))[0] == OK
    assert called(invoke("read", key="k"))[0::4] == (OK, 2)
    assert called(invoke("delete", 8, key="k"))[0] == OK
    assert called(invoke("read", key="k"))[0::4] == (OK, None)


def test_an_element_has_the_offset_after_it_and_the_set_is_the_servers_own(
    server: FakeRedis,
) -> None:
    client = RedisClient(HERE, plan_of())
    assert client.call(invoke("read"))[0::4] == (OK, ())
    assert client.server is None, "the one that it was opened for"
    assert [client.call(invoke("add", value))[:2] for value in (3, 12)] == [(OK, 140), (OK, 180)]
    assert client.server == HERE
    assert set(client.call(invoke("read"))[4]) == {3, 12}  # type: ignore[arg-type]
    server.primary = ""
    assert client.call(invoke("read"))[0] == OK, "which needs no primary"
    assert [words[:2] for words in server.asked].count(
        ["SENTINEL", "GET-MASTER-ADDR-BY-NAME"]
    ) == 1, "it keeps its connection"
    client.close()


@pytest.mark.parametrize("text", [*(f"{row.code} so it is" for row in ERRORS), *OTHERS])
@pytest.mark.parametrize("op", [invoke("add", 1), invoke("write", 1, key="k")])
def test_a_request_is_sent_once_and_its_error_decides(
    server: FakeRedis, text: str, op: Invoke
) -> None:
    server.refuses = text
    type_, _, error, *_ = called(op)
    assert len(writes(server)) == 1
    named = {row.code: (row.ends, row.name) for row in ERRORS}
    assert (type_, error) == named.get(text.split()[0], (INFO, text))
    assert all(row.ends == FAIL and row.why for row in ERRORS)


@pytest.mark.parametrize(
    ("waits", "ends"),
    [
        (2, (OK, None)),
        (1, (INFO, "WAIT: 1 of 2 replicas")),
        ("READONLY now", (INFO, "WAIT: READONLY: READONLY now of 2 replicas")),
    ],
)
def test_a_wait_that_too_few_have_answered_leaves_the_write_unknown(
    server: FakeRedis, waits: int | str, ends: tuple[str, str | None]
) -> None:
    server.waits = waits
    type_, _, error, *_ = called(invoke("add", 7), waiting(2))
    assert (type_, error) == ends
    assert server.sets["ackloss"] == {"7"}
    assert [words[0] for words in server.asked[-3:]] == ["SADD", "ROLE", "WAIT"]
    assert server.asked[-1] == ["WAIT", "2", "1000"]


def test_cells_of_a_run_wait_and_write_separately(server: FakeRedis) -> None:
    """One write of each: only the cell that waits for replicas finds that there are too few."""
    two = [{"name": "default"}, {"name": "wait-1", "workload": {"wait_replicas": 1}}]
    cells = resolve(parse_plan({**PLAN, "workload": {"name": "set"}, "cells": two})).cells
    done = [called(invoke("add", number), cell.plan) for number, cell in enumerate(cells)]  # type: ignore[arg-type]
    assert [each[::2][:2] for each in done] == [(OK, None), (INFO, "WAIT: 0 of 1 replicas")]
    assert server.sets == {"ackloss-default": {"0"}, "ackloss-wait-1": {"1"}}
    assert called(invoke("read"), cells[1].plan)[4] == (1,)  # type: ignore[arg-type]
    assert called(invoke("write", 5, key="k"), cells[0].plan)[0] == OK  # type: ignore[arg-type]
    assert server.keys == {"ackloss-default:k": "5"}


def test_an_operation_without_an_answer_is_unknown(server: FakeRedis) -> None:
    server.hangs_up = True
    client = RedisClient(HERE, plan_of())
    with pytest.raises(ConnectionError):
        client.call(invoke("add", 1))
    client.close()
    assert writes(server) == ["SADD"]
    assert server.sets["ackloss"] == {"1"}


@pytest.mark.parametrize(
    ("primary", "role"), [("", "master"), (NOTHING, "master"), (HERE, "slave")]
)
def test_without_a_primary_nothing_is_sent(server: FakeRedis, primary: str, role: str) -> None:
    server.primary, server.role = primary, role
    with pytest.raises(NotSent):
        called(invoke("add", 1))
    assert not writes(server)


def test_each_client_believes_another_sentinel_and_names_the_server_that_wrote(
    server: FakeRedis,
) -> None:
    cluster = DryRunCluster(
        {n: DryRunNode(n, frozenset(), at) for n, at in (("n1", NOTHING), ("n2", HERE))}
    )

    plan = plan_of(workload={"name": "set", "clients": 1})
    client = Redis().client(cluster, plan)  # type: ignore[arg-type]
    done: list[Completion] = []
    for number in (1, 2):
        assert client.submit(0, invoke("add", number))
        while len(done) < number:
            client.poll(1, lambda _, completion: done.append(completion))
    first, second = done
    assert (first[0], *first[2:4]) == (FAIL, NOT_CONNECTED, "n1")
    assert (second[0], second[3]) == (OK, "n2")
    client.close(1, lambda *_: None)


REPLICA = """# Replication\r
role:slave\r
master_host:198.18.0.12\r
master_link_status:up\r
slave_repl_offset:90\r
master_repl_offset:95\r
"""


def test_a_server_reports_its_own_role_in_its_sentinels_epoch(server: FakeRedis) -> None:
    asked = Redis().report
    server.info = "# Replication\r\nrole:master\r\nmaster_repl_offset:120\r\n"
    server.watched = {"ip": HERE, "config-epoch": "3"}
    assert asked(HERE, timeout_s=2) == Report(HERE, 3, 120)
    server.watched["ip"] = "198.18.0.12"
    assert asked(HERE, timeout_s=2) == Report(HERE, 2, 120), "another one was elected"
    server.info = REPLICA
    assert asked(HERE, timeout_s=2) == Report("198.18.0.12", 3, 90)
    server.info = REPLICA.replace("status:up", "status:down")
    assert asked(HERE, timeout_s=2) == Report("198.18.0.12", 3, -1)
    server.info, server.watched["ip"] = REPLICA, "198.18.0.13"
    assert asked(HERE, timeout_s=2) == Report("198.18.0.12", 3, -1)
    assert asked(NOTHING, timeout_s=2) is None


def test_the_leader_is_named_by_its_address(server: FakeRedis) -> None:
    class Listing(DryRunNode):
        def admin(self, argv: Any, *, timeout_s: float = 10) -> Any:
            done = super().admin(argv, timeout_s=timeout_s)
            return type(done)(0, "n1 127.0.0.1\nn2 198.18.0.12\nn3 127.0.0.2\n")

    server.info, server.watched = REPLICA, {"ip": "198.18.0.12", "config-epoch": "3"}
    view = Redis().observe(Listing("n1", frozenset({"server"}), HERE), plan_of(), timeout_s=2)
    assert view is not None
    assert (view.partitions[0].leader, view.authority) == ("n2", False)


def test_a_sentinel_that_does_not_know_all_others_is_not_ready(server: FakeRedis) -> None:
    node = DryRunNode("n1", frozenset({"server"}), HERE)
    server.watched = {"flags": "master", "num-slaves": "2", "num-other-sentinels": "2"}
    assert Redis().is_ready(node, plan_of())
    for name, value in (("num-slaves", "1"), ("num-other-sentinels", "1"), ("flags", "s_down")):
        before, server.watched[name] = server.watched[name], value
        assert not Redis().is_ready(node, plan_of())
        server.watched[name] = before


def test_a_node_has_the_server_and_a_sentinel_with_their_own_files() -> None:
    target = {"system": "redis", "appendonly": "everysec", "min_replicas_to_write": 1}
    plan = plan_of(target={**target, "settings": {"save": '60 1" x'}})
    server = Server("n2", ADDRESSES["n2"], ADDRESSES)
    files = Redis().files(server, plan)
    lines = files["redis.conf"].decode().splitlines()
    assert {'appendonly "yes"', "replicaof 198.18.0.11 6379", 'min-replicas-to-write "1"'} <= {
        *lines
    }
    assert f"dir {NODE_DATA}/data" in lines
    assert 'save "60 1\\" x"' in lines, "a value is one word"
    assert "sentinel monitor m 198.18.0.11 6379 2" in files["sentinel.conf"].decode().splitlines()
    assert not [name for name in files if name.startswith("data/") and name.endswith(".conf")]
    first = Redis().files(Server("n1", ADDRESSES["n1"], ADDRESSES), plan)["redis.conf"]
    assert b"replicaof" not in first
    assert Redis().argv(server, plan) == ["redis-server", f"{NODE_DATA}/redis.conf"]
    assert Valkey().beside(server, plan)[0][1:] == [f"{NODE_DATA}/sentinel.conf", "--sentinel"]


def test_what_info_has_is_the_metrics_of_its_alarms(server: FakeRedis) -> None:
    node = DryRunNode("n1", frozenset({"server"}), HERE)
    common = "connected_clients:4\r\nrejected_connections:2\r\nused_memory:900\r\n"
    server.info = f"# Clients\r\n{common}role:master\r\nconnected_slaves:2\r\n"
    found = Redis().metrics(node, plan_of(), timeout_s=2)
    assert found['redis_instance_info{role="master"}'] == found["redis_master"] == 1
    assert found["redis_connected_slaves"] == found["redis_rejected_connections_total"] == 2
    assert "redis_master_link_up" not in found
    server.info = common + REPLICA.replace("status:up", "status:down")
    found |= Redis().metrics(node, plan_of(), timeout_s=2)
    assert (found["redis_master"], found["redis_master_link_up"]) == (0, 0)
    assert Redis.alarms is not None
    with Redis.alarms.open("rb") as file:
        rules = tomllib.load(file)["rules"]
    assert {rule["metric"] for rule in rules} <= {*found, "up"}
    server.close()
    with pytest.raises(ValueError, match="unpack"):
        Redis().metrics(DryRunNode("n1", frozenset(), NOTHING), plan_of(), timeout_s=2)
