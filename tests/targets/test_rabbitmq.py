"""RabbitMQ's client, against a broker that does what is requested first and then fails: only what
proves that nothing was changed ends an operation in fail, and no element is removed unseen."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pika.exceptions import AMQPConnectionError, NackError, StreamLostError, UnroutableError

from harness.history.autopsy import Promotions, Write
from harness.history.run_folder import RunDir
from harness.plan import parse_plan
from harness.protocols import FAIL, INFO, OK, UNEXPLAINED, Completion, Invoke, Line, invoke
from harness.run.resolving import resolve
from harness.servers import Log, NotSent, Server
from targets import rabbitmq
from targets.rabbitmq import (
    ERRORS,
    NACK,
    UNSYNCED,
    RabbitClient,
    RabbitMQ,
    RabbitPlan,
    messages_of,
)
from tests.fixtures.dry_run import DryRunNode

PLAN: dict[str, Any] = {"schema": 1, "name": "p", "target": {"system": "rabbitmq"}}


def plan_of(**sections: Any) -> RabbitPlan:
    plan = resolve(parse_plan({**PLAN, "workload": {"name": "queue", "duration_s": 1}, **sections}))
    assert isinstance(plan.plan, RabbitPlan)
    return plan.plan


class Broker:
    """A queue, or a stream, and the one connection to it. `fails`: what the next request raises
    once it is done; `silent`: the next delivery does not arrive, nor the next acknowledgement;
    `cancels`: it ends a consumer after its first element, and pika its loop as if all were here."""

    def __init__(self) -> None:
        self.stored, self.out = deque[bytes](), list[bytes]()
        self.fails: Exception | None = None
        self.refuses = self.silent = self.is_stream = self.cancels = False
        self.elsewhere = self.published = self.prefetch = 0
        self.queues = set[str]()

    def __call__(self, parameters: Any) -> Broker:
        if self.refuses:
            raise AMQPConnectionError
        return self

    def channel(self) -> Broker:
        return self

    def confirm_delivery(self) -> None: ...

    def basic_qos(self, prefetch_count: int) -> None:
        self.prefetch = prefetch_count

    def cancel(self) -> None: ...

    def messages(self, address: str, queue: str, *, timeout_s: float) -> int:
        self.queues.add(queue)
        return len(self.stored) + len(self.out) + self.elsewhere

    def close(self) -> None:
        self.stored.extendleft(reversed(self.out))
        self.out.clear()

    def basic_publish(
        self, exchange: str, queue: str, body: bytes, properties: Any, *, mandatory: bool
    ) -> None:
        assert (exchange, mandatory, properties.delivery_mode) == ("", True, 2)
        self.queues.add(queue)
        self.published += 1
        error, self.fails = self.fails, None
        if not isinstance(error, UnroutableError):
            self.stored.append(body)
        if error:
            raise error

    def basic_get(self, queue: str) -> tuple[Any, Any, bytes | None]:
        self.queues.add(queue)
        if not self.stored:
            return None, None, None
        self.out.append(self.stored.popleft())
        if self.fails:
            raise self.fails
        return SimpleNamespace(delivery_tag=len(self.out)), None, self.out[-1]

    def basic_ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        if self.silent:
            raise StreamLostError
        if not self.is_stream:
            self.out.clear()

    def consume(self, queue: str, *, inactivity_timeout: float, **_: Any) -> Iterator[Any]:
        self.queues.add(queue)
        most = None if self.is_stream else self.prefetch or 2_000  # of a quorum queue
        for offset, body in enumerate([*self.stored][:most]):
            if self.fails:
                raise self.fails
            if not self.is_stream:
                self.out.append(self.stored.popleft())
            headers = SimpleNamespace(headers={"x-stream-offset": offset})
            yield SimpleNamespace(delivery_tag=offset + 1), headers, body
            if self.cancels:
                return
        while True:
            yield None, None, None


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    made = Broker()
    monkeypatch.setattr("pika.BlockingConnection", made)
    monkeypatch.setattr(rabbitmq, "messages_of", made.messages)
    monkeypatch.setattr(rabbitmq, "_DRAIN_S", 0.1)
    return made


def called(*ops: Invoke, plan: RabbitPlan | None = None) -> list[Completion]:
    client = RabbitClient("127.0.0.1", plan or plan_of())
    try:
        return [client.call(op) for op in ops]
    finally:
        client.close()


def outcome(op: Invoke) -> tuple[str, str | None, Any]:
    ((type_, _, error, _, result),) = called(op)
    return type_, error, result


def test_elements_come_out_once(broker: Broker) -> None:
    put = [invoke("enqueue", value) for value in (1, 2, 3, 4)]
    done = called(*put, invoke("dequeue"), invoke("drain"), invoke("drain"), invoke("dequeue"))
    assert [each[0] for each in done] == [OK] * 8
    assert [each[4] for each in done[4:]] == [1, (2, 3, 4), (), None]
    assert (broker.stored, broker.out, broker.published) == (deque(), [], 4)


@pytest.mark.parametrize(
    ("error", "expected", "stored"),
    [
        (UnroutableError([]), (FAIL, "Unroutable", None), []),
        (NackError([]), (INFO, NACK, None), [b"1"]),
    ],
)
def test_a_message_is_published_once_and_its_error_decides(
    broker: Broker, error: Exception, expected: tuple[str, str, None], stored: list[bytes]
) -> None:
    broker.fails = error
    assert outcome(invoke("enqueue", 1)) == expected
    assert (broker.published, [*broker.stored]) == (1, stored)
    assert all(row.ends == FAIL and row.why for row in ERRORS)


def test_a_publish_without_an_answer_is_unknown(broker: Broker) -> None:
    broker.fails = StreamLostError()
    with pytest.raises(StreamLostError):
        called(invoke("enqueue", 1))
    assert (broker.published, [*broker.stored]) == (1, [b"1"])


def test_without_a_connection_nothing_was_sent(broker: Broker) -> None:
    broker.refuses = True
    with pytest.raises(NotSent):
        called(invoke("enqueue", 1))


@pytest.mark.parametrize(
    ("f", "mishap"),
    [
        ("dequeue", {"fails": StreamLostError()}),
        ("drain", {"fails": StreamLostError()}),
        ("drain", {"elsewhere": 1}),
        ("drain", {"cancels": True}),
    ],
    ids=["dequeue-cut", "drain-cut", "less-than-there-is", "ended-by-the-server"],
)
def test_what_does_not_arrive_is_not_acknowledged_and_stays(
    broker: Broker, f: str, mishap: dict[str, Any]
) -> None:
    called(invoke("enqueue", 1), invoke("enqueue", 2))
    before = {name: getattr(broker, name) for name in mishap}
    vars(broker).update(mishap)
    assert outcome(invoke(f)) == (FAIL, "NotDelivered", None)
    vars(broker).update(before)
    assert outcome(invoke("drain")) == (OK, None, (1, 2))


@pytest.mark.parametrize("f", ["dequeue", "drain"])
def test_what_arrived_is_known_though_its_acknowledgement_is_lost(broker: Broker, f: str) -> None:
    called(invoke("enqueue", 1))
    broker.silent = True
    assert outcome(invoke(f)) == (OK, None, 1 if f == "dequeue" else (1,))
    broker.silent = False
    assert outcome(invoke("drain")) == (OK, None, (1,))  # at least once


def test_a_drain_gets_more_than_a_server_hands_out_by_default(broker: Broker) -> None:
    broker.stored.extend(b"%d" % value for value in range(3_000))
    assert outcome(invoke("drain")) == (OK, None, tuple(range(3_000)))


def test_a_stream_is_read_to_as_much_as_there_is_or_not_at_all(broker: Broker) -> None:
    broker.is_stream = True
    called(*(invoke("append", value, 0) for value in (5, 7)))
    node, plan = DryRunNode("n1", frozenset({"server"}), "127.0.0.1"), plan_of()
    assert RabbitMQ().read_log(node, 0, plan, timeout_s=9) == Log(0, 2, [(0, 5), (1, 7)])
    broker.elsewhere = 1
    with pytest.raises(TimeoutError):
        RabbitMQ().read_log(node, 0, plan, timeout_s=9)
    broker.elsewhere, broker.cancels = 0, True
    with pytest.raises(ConnectionError):
        RabbitMQ().read_log(node, 0, plan, timeout_s=9)


NAMES = {f"n{number}": f"198.18.0.1{number}" for number in (1, 2, 3)}
ERLANG = {name: f"rabbit@{address}" for name, address in NAMES.items()}
ONLINE = {"leader": "n2", "online": ["n1", "n2"]}
MIRRORED = {"node": "n1", "slave_nodes": ["n2", "n3"], "synchronised_slave_nodes": ["n3"]}


@pytest.mark.parametrize(
    ("queue", "partitions", "wanted", "leader", "members"),
    [
        (ONLINE, [], {"kind": "quorum"}, "n2", ("n1", "n2")),
        (ONLINE, ["n3"], {"kind": "quorum"}, "n2", ("n1", "n2")),
        (MIRRORED, [], {"sync": "automatic"}, "n1", ("n1", "n3")),
        (MIRRORED, [], {}, "n1", ("n1", "n2", "n3")),
        (MIRRORED, ["n3"], {}, "n1", ()),
        ({"node": "n1", "state": "down"}, [], {}, "n1", ()),
    ],
)
def test_who_leads_and_is_in_sync_is_what_a_server_knows_of_the_queue(
    monkeypatch: pytest.MonkeyPatch,
    queue: dict[str, Any],
    partitions: list[str],
    wanted: dict[str, str],
    leader: str,
    members: tuple[str, ...],
) -> None:
    def named(value: Any) -> Any:
        return (
            [named(each) for each in value] if isinstance(value, list) else ERLANG.get(value, value)
        )

    of_queue = {key: named(value) for key, value in queue.items()}
    queues = [{"name": "other", "node": ERLANG["n3"]}, {"name": "ackloss", **of_queue}]
    answers: dict[str, Any] = {"queues": queues, "nodes": {"partitions": named(partitions)}}
    monkeypatch.setattr(rabbitmq, "_names", lambda node: {v: k for k, v in ERLANG.items()})
    monkeypatch.setattr(rabbitmq, "asked", lambda _, path, timeout_s: answers[path.split("/")[2]])
    node = DryRunNode("n2", frozenset({"server"}), NAMES["n2"])
    view = RabbitMQ().observe(node, plan_of(queue=wanted), timeout_s=1)
    assert view is not None
    (seen,) = view.partitions
    assert (seen.leader, seen.members, view.authority) == (leader, members, leader == "n2")
    both = [plan_of(target={"system": "rabbitmq", "object": name}) for name in ("other", "none")]
    third, none = RabbitMQ().observe_cells(node, both, timeout_s=1)
    assert third is not None
    assert none is None
    assert third.partitions[0].leader == "n3"
    answers["nodes"] = None
    assert RabbitMQ().observe(node, plan_of(), timeout_s=1) is None


@pytest.mark.parametrize(
    ("handling", "seen", "restarted"),
    [
        ("ignore", {"n1": ["n2", "n3"], "n2": ["n1"], "n3": ["n1"]}, ["n1"]),
        ("ignore", {"n1": ["n3"], "n2": ["n3"], "n3": ["n1", "n2"]}, ["n3"]),
        ("ignore", {"n1": ["n2", "n3"], "n2": ["n1", "n3"], "n3": ["n1", "n2"]}, ["n2", "n3"]),
        ("ignore", {"n1": [], "n2": [], "n3": []}, []),
        ("ignore", {"n1": ["n2", "n3"], "n2": None, "n3": ["n1"]}, ["n2"]),
        ("autoheal", {"n1": ["n2", "n3"], "n2": ["n1"], "n3": ["n1"]}, ["n1"]),
        ("pause_minority", {"n1": ["n2", "n3"], "n2": ["n1"], "n3": []}, ["n1"]),
        # As stored runs under lag-kill reported it: n3 is with both of those that are apart.
        ("ignore", {"n1": ["n2"], "n2": ["n1"], "n3": []}, ["n2"]),
    ],
)
def test_all_but_the_largest_part_is_restarted_unless_a_server_is_silent(
    monkeypatch: pytest.MonkeyPatch,
    handling: str,
    seen: dict[str, list[str] | None],
    restarted: list[str],
) -> None:
    def asked(address: str, path: str, timeout_s: float) -> dict[str, list[str]] | None:
        others = seen[next(name for name, each in NAMES.items() if each == address)]
        return None if others is None else {"partitions": [ERLANG[each] for each in others]}

    class Cluster:
        nodes: ClassVar = {n: DryRunNode(n, frozenset(), NAMES[n]) for n in seen}

    monkeypatch.setattr(rabbitmq, "asked", asked)
    monkeypatch.setattr(RabbitMQ, "observe", lambda *_, **how: None)
    plan = plan_of(target={"system": "rabbitmq", "partition_handling": handling})
    assert [*RabbitMQ().to_restart(Cluster(), plan)] == restarted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("members", "unserved", "kind", "restarted"),
    [
        (["n2", "n3"], [], "classic", ["n1", "n2", "n3"]),
        ([], [], "classic", []),
        (["n1", "n2", "n3"], [], "quorum", []),
        (["n1", "n2", "n3"], ["n1"], "quorum", []),
        (["n1", "n2", "n3"], ["n1"], "stream", ["n1"]),
        (["n1", "n2", "n3"], [], "stream", []),
        (["n1", "n2"], ["n2", "n3"], "stream", ["n2", "n3"]),
    ],
)
def test_all_are_restarted_if_one_has_no_part_or_those_that_do_not_serve_a_stream(
    monkeypatch: pytest.MonkeyPatch,
    members: list[str],
    unserved: list[str],
    kind: str,
    restarted: list[str],
) -> None:
    class Connected:
        def __init__(self, address: str, plan: Any) -> None:
            self.name = next(name for name, each in NAMES.items() if each == address)

        def delivered(self, ahead: int, limit_s: float, *, of_stream: bool) -> Iterator[Any]:
            if self.name in unserved:
                raise ConnectionError("541, INTERNAL_ERROR")
            yield from ()

        def close(self) -> None:
            pass

    class Cluster:
        nodes: ClassVar = {n: DryRunNode(n, frozenset(), NAMES[n]) for n in ("n1", "n2", "n3")}

    seen = SimpleNamespace(partitions=[SimpleNamespace(members=members)])
    monkeypatch.setattr(rabbitmq, "asked", lambda *_, **how: {"partitions": []})
    monkeypatch.setattr(rabbitmq, "RabbitClient", Connected)
    monkeypatch.setattr(RabbitMQ, "observe", lambda *_, **how: seen)
    plan = plan_of(
        queue={"kind": kind}, workload={"name": "append" if kind == "stream" else "queue"}
    )
    assert [*RabbitMQ().to_restart(Cluster(), plan)] == restarted  # type: ignore[arg-type]


def test_settings_are_in_the_files_and_names_are_addresses() -> None:
    target = {"system": "rabbitmq", "partition_handling": "autoheal", "net_ticktime": 8}
    plan, server = plan_of(target=target), Server("n2", NAMES["n2"], NAMES)
    lines = RabbitMQ().files(server, plan)["rabbitmq.conf"].decode().splitlines()
    assert "cluster_partition_handling = autoheal" in lines
    assert "net_ticktime = 8" in lines
    assert "cluster_formation.classic_config.nodes.3 = rabbit@198.18.0.13" in lines
    assert "RABBITMQ_NODENAME=rabbit@198.18.0.12" in RabbitMQ().argv(server, plan)


def test_each_cell_has_a_queue_of_its_kind_and_reads_the_lines_about_it(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = list[tuple[str, Any]]()
    monkeypatch.setattr(rabbitmq, "api", lambda _, path, **how: put.append((path, how["put"])))
    up = {"n1": True, "n2": False}
    monkeypatch.setattr(rabbitmq, "_is_joined", lambda node, _: up[node.name])
    server = frozenset({"server"})
    cluster: Any = SimpleNamespace(nodes={n: DryRunNode(n, server, NAMES[n]) for n in up})
    two = [
        {"name": "manual", "queue": {"promote_on_failure": "when-synced"}},
        {"name": "quorum", "queue": {"kind": "quorum"}},
    ]
    mirrors, quorum = [cell.plan for cell in cells_of(two)]
    with pytest.raises(TimeoutError, match="not joined: n2"):
        RabbitMQ().create(cluster, mirrors)
    up["n2"] = not put
    RabbitMQ().create(cluster, mirrors)
    ((policy, mirrored), (path, declared)) = put
    assert policy.endswith("/ackloss-manual")
    assert path.endswith("/ackloss-manual")
    assert (mirrored["pattern"], declared["node"]) == (r"^ackloss\-manual$", ERLANG["n1"])
    of_mirrors = {"ha-mode": "all", "ha-sync-mode": "manual"}
    assert mirrored["definition"] == {**of_mirrors, "ha-promote-on-failure": "when-synced"}
    del put[:]
    RabbitMQ().create(cluster, quorum)
    ((path, declared),) = put
    assert (path[-7:], declared["arguments"]["x-queue-type"]) == ("-quorum", "quorum")
    called(invoke("enqueue", 1), invoke("dequeue"), invoke("drain"), plan=quorum)
    assert broker.queues == {"ackloss-quorum"}

    started = {"schema": 1, "wall_time": "2026-11-28T10:00:00+00:00"}
    (tmp_path / "run.json").write_text(json.dumps(started))
    (tmp_path / "nodes/n1").mkdir(parents=True)
    texts = [
        each.replace("ackloss", f"ackloss-{n}")
        for n in ("manual", "other")
        for each in (f"{ADDS}<0.527.0>", PROMOTES)
    ] + ["[info] <0.4.0> Autoheal: we were selected to restart"]
    lines = "".join(f"2026-11-28 10:00:01.5+00:00 {text}\n" for text in texts)
    (tmp_path / "nodes/n1/console.log").write_text(lines)
    for plan, numbers in ((mirrors, [1, 2, 5]), (quorum, [5])):
        (tmp_path / "plan.json").write_text(json.dumps(plan.document()))
        found = RabbitMQ().lines(RunDir(tmp_path), [])
        assert [int(each.place.rpartition(":")[2]) for each in found] == numbers


def cells_of(cells: list[dict[str, Any]]) -> Any:
    plan = {**PLAN, "workload": {"name": "queue"}, "cells": cells}
    return resolve(parse_plan(plan)).cells


def test_a_stream_takes_appends() -> None:
    stream = {"queue": {"kind": "stream"}, "workload": {"name": "append", "duration_s": 1}}
    assert plan_of(**stream).queue.kind == "stream"


def test_parts_of_a_cluster_do_not_say_how_much_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = {"messages": 7, "type": "classic"}
    whole = {"running": True, "partitions": []}
    answers: dict[str, Any] = {"nodes": [whole] * 3, "queues": queue}
    monkeypatch.setattr(
        rabbitmq, "asked", lambda _, path, timeout_s: answers[re.split("[/?]", path)[2]]
    )
    assert messages_of("198.18.0.11", "ackloss", timeout_s=1) == 7
    apart = {"running": True, "partitions": ["rabbit@198.18.0.11"]}
    for other in (apart, {"running": False, "partitions": []}, {"running": True}, {}):
        answers["nodes"] = [whole, other, whole]
        assert messages_of("198.18.0.11", "ackloss", timeout_s=1) is None
    queue["type"] = "quorum"
    assert messages_of("198.18.0.11", "ackloss", timeout_s=1) == 7


ADDS = "[info] <0.498.0> Mirrored queue 'ackloss' in vhost '/': Adding mirror on node 'rabbit@n1': "
PROMOTES = "[info] <0.527.0> Mirrored queue 'ackloss' in vhost '/': Promoting mirror <x> to leader"


def line(node: str, at_s: float, text: str) -> Line:
    return Line(at_s=at_s, node=node, place=f"nodes/{node}/console.log:1", text=text)


def test_what_a_promoted_mirror_had_not_copied_is_lost_by_its_promotion(tmp_path: Path) -> None:
    lines = [
        line("n2", 1.0, f"{ADDS}<12987.1221.0>"),  # its leader says so
        line("n1", 30.0, f"{ADDS}<0.527.0>"),
        line("n1", 60.0, PROMOTES),
        line("n3", 10.0, PROMOTES),  # it was there from the start
    ]
    (tmp_path / "plan.json").write_text('{"schema": 1}')
    events = sorted(RabbitMQ().happened(lines), key=lambda event: event.at_s)
    autopsy = Promotions(RunDir(tmp_path), pa.table({}), [], events)

    def cause(begun_s: float, acknowledged_s: float) -> str:
        return autopsy.loss(Write(1, None, begun_s, acknowledged_s, "n2")).cause

    assert cause(5.0, 5.1) == UNSYNCED
    assert cause(29.9, 30.1) == UNSYNCED
    assert cause(30.1, 30.2) == UNEXPLAINED  # the mirror had it
    assert cause(61.0, 61.1) == UNEXPLAINED


def test_elections_of_a_quorum_queue_are_events() -> None:
    text = "[notice] <0.931.0> queue 'ackloss' in vhost '/': candidate -> leader in term: 2 machine"
    (event,) = RabbitMQ().happened([line("n2", 4.0, text)])
    assert (event.kind, event.epoch, event.text) == ("leads", 2, "was elected in term 2")
