"""What systems of servers have in common: settings, and clients that move on."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pytest

from harness import registry
from harness.errors import PlanError
from harness.plan import parse_plan
from harness.plan.model import Yours
from harness.protocols import (
    FAIL,
    INFO,
    NODE_DATA,
    OK,
    Completed,
    ImageRef,
    Ingredients,
    Node,
    invoke,
)
from harness.run.final_read import read_by
from harness.run.own_settings import origins_of
from harness.servers import (
    DIFFERS,
    NOT_CONNECTED,
    START,
    ErrorAnswer,
    ErrorRow,
    KeyValueClient,
    Log,
    Moving,
    NotSent,
    Report,
    Server,
    ServerPlan,
    ServerSystem,
    ServerTargetPlan,
    compare_settings,
    shared_settings,
)
from targets.etcd import Etcd, EtcdPlan
from tests.fixtures.dry_run import DryRunNode


class Scripted(KeyValueClient):
    """Each request raises the next of these, if it is an exception."""

    errors = (ErrorRow(7, "Full", FAIL, "checked before anything is changed"),)

    def __init__(self, given: list[object]) -> None:
        self.given, self.closed = given, False

    def compare_and_set(self, key: str, expected: int, value: int) -> bool:
        answer = self.given.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    def close(self) -> None:
        self.closed = True


def test_each_operation_that_did_not_succeed_moves_on_to_the_next_server() -> None:
    answers: list[object] = [
        *(True, False, True, ErrorAnswer(7), ErrorAnswer(8, "busy")),
        *(TimeoutError("late"), NotSent("refused"), True),
    ]
    connected: list[str] = []

    def connect(address: str) -> Scripted:
        connected.append(address)
        return Scripted(answers)

    client = Moving(connect, [("n1", "a"), ("n2", "b")])
    op = invoke("cas", 2, key="k", expected=1)
    ended = [client.call(op) for _ in range(8)]
    assert [(type_, error, node) for type_, _, error, node, _ in ended] == [
        (OK, None, "n1"),
        (FAIL, DIFFERS, "n1"),
        (OK, None, "n1"),
        (FAIL, "Full", "n1"),
        (INFO, "busy", "n2"),
        (INFO, "TimeoutError", "n1"),
        (FAIL, NOT_CONNECTED, "n2"),
        (OK, None, "n1"),
    ]
    assert connected == ["a", "b", "a", "b", "a"]


class Logs(ServerSystem[ServerPlan]):
    """Servers that have these logs, or raise; n2 leads."""

    plugin = "logs"
    models = frozenset({"log"})

    def __init__(self, **logs: Log | Exception) -> None:
        self.logs_of = logs

    def argv(self, server: Server, plan: ServerPlan) -> list[str]:
        raise NotImplementedError

    def report(self, address: str, *, timeout_s: float) -> Report:
        return Report("n2", 7, in_sync=("n1", "n2", "n3"))

    def read_log(self, node: Node, partition: int, plan: ServerPlan, *, timeout_s: float) -> Log:
        log = self.logs_of[node.name]
        if isinstance(log, Exception):
            raise log
        return log


class Three:
    """A cluster of three nodes."""

    nodes: ClassVar = {n: DryRunNode(n, frozenset({"server"}), n) for n in ("n1", "n2", "n3")}


def test_each_server_is_read_by_itself_and_one_that_is_not_is_not_empty() -> None:
    plan = ServerPlan(schema=1, name="p", target=ServerTargetPlan(system="logs"))
    system = Logs(n1=Log(1, 3, [(1, 10), (2, 11)]), n2=Log(0, 0, []), n3=OSError("no answer"))
    assert system.readers(plan) == ("n1", "n2", "n3")
    found = {
        name: system.read_all(Three(), plan, reader=name, timeout_s=0.05)  # type: ignore[arg-type]
        for name in system.readers(plan)
    }
    assert [(row["reader"], row["offset"], row["value"]) for row in found["n1"][0].to_pylist()] == [
        ("n1", 1, 10),
        ("n1", 2, 11),
    ]
    for name, complete, error in (
        ("n1", True, None),
        ("n2", True, None),
        ("n3", False, "n3: OSError: no answer"),
    ):
        (end,) = found[name][1]
        assert (end.complete, end.error) == (complete, error)
        assert (end.leader, end.leader_epoch, end.members) == ("n2", 7, ("n1", "n2", "n3"))
    assert read_by(system, Three(), plan, "n2")[0].num_rows == 0  # type: ignore[arg-type]


def test_a_setting_that_a_server_has_otherwise_is_refused() -> None:
    with pytest.raises(PlanError, match="n2 has '200', but '100' was requested") as refused:
        compare_settings({"a": 100}, {"n1": {"a": "100"}, "n2": {"a": "200"}})
    assert refused.value.key == 'target.settings."a"'
    with pytest.raises(PlanError) as refused:
        compare_settings({"a": 1}, {"n1": {"a": "2"}}, keys={"a": "ensemble.a"})
    assert refused.value.key == "ensemble.a"
    assert compare_settings({"a": True, "b": 1}, {"n1": {"a": "true"}}) == [
        'target.settings."b": servers do not report it'
    ]


def test_only_what_all_servers_have_alike_is_shown() -> None:
    one = {"tickTime": "500", "serverId": "1"}
    assert shared_settings({"z1": one, "z2": {**one, "serverId": "2"}}) == {"tickTime": "500"}


@dataclass(frozen=True)
class Several(Etcd):
    """A system with a second process on each node."""

    def beside(self, server: Server, plan: EtcdPlan) -> list[list[str]]:
        return [["watcher", f"--of={server.name}", "it's; rm -rf $HOME"]]


def test_further_processes_are_children_of_the_servers_own() -> None:
    plan = EtcdPlan.model_validate({"schema": 1, "name": "p", "target": {"system": "etcd"}})
    made = Ingredients(image=ImageRef(reference="i", id="i"))
    spec = Several().nodes(plan, made, {"n1": "a", "n2": "b", "n3": "c"})[1]
    assert list(spec.argv) == ["/bin/sh", f"{NODE_DATA}/{START}"]
    first, second = spec.files[START].decode().splitlines()
    assert shlex.split(first) == ["watcher", "--of=n2", "it's; rm -rf $HOME", "&"]
    assert shlex.split(second)[:3] == ["exec", "etcd", "--name=n2"]
    assert START not in Etcd().nodes(plan, made, {"n1": "a", "n2": "b", "n3": "c"})[0].files


@dataclass(eq=False)
class Printing(DryRunNode):
    """A node whose programs print these versions, by a word of their commands."""

    prints: Mapping[str, str] = field(default_factory=dict)

    def run(self, argv: Sequence[str], *, timeout_s: float = 30) -> Completed:
        found = (text for word, text in self.prints.items() if word in " ".join(argv))
        return Completed(0, next(found, "unknown option"))


@pytest.mark.parametrize(
    ("system", "prints", "stated"),
    [
        ("etcd", {"etcd": "etcd Version: 3.4.23\nGo Version: go1.19.8"}, "3.4.23"),
        ("redis", {"redis-server": "Redis server v=7.0.15 malloc=jemalloc-5.3.0"}, "7.0.15"),
        ("rabbitmq", {"rabbitmq-server": "rabbitmq-server\t3.10.8-1.1+deb12u1"}, "3.10.8"),
        (
            "postgresql",
            {"bin/postgres": "postgres (PostgreSQL) 15.14", "patroni": "patroni 4.1.5"},
            "PostgreSQL 15.14, Patroni 4.1.5",
        ),
        ("etcd", {}, None),
        ("zookeeper", {"java": "openjdk 17.0.2"}, None),
    ],
)
def test_versions_are_those_that_a_nodes_programs_print(
    system: str, prints: Mapping[str, str], stated: str | None
) -> None:
    target = registry.target_named(system)
    plan = ServerPlan(schema=1, name="p", target=ServerTargetPlan(system=system))
    assert target.running(Printing("n1", frozenset(), "a", prints=prints), plan) == stated


def test_a_value_that_a_plan_leaves_out_is_ackloss_default() -> None:
    target = {"system": "redis", "appendonly": "always", "down_after_ms": 4000}
    plan = parse_plan({"schema": 1, "name": "p", "target": target})
    stored = parse_plan(plan.document())  # as a campaign runs it
    chosen = plan.model_copy(update={"yours": Yours(set=["target.down_after_ms"])})
    for own, who in ((plan, "the plan"), (stored, "the plan"), (chosen, "yours: --set")):
        requested = registry.target_named("redis").requested(own)["settings"]
        found = origins_of(own, requested, {})["server"]
        assert (found["appendfsync"], found["down-after-milliseconds"]) == ("the plan", who)
        assert found["failover-timeout"] == found["min-replicas-to-write"] == "ackloss' default"


@pytest.mark.parametrize("nodes", [2, 3])
def test_two_servers_are_allowed_with_a_warning(nodes: Literal[2, 3]) -> None:
    plan = ServerPlan(schema=1, name="p", target=ServerTargetPlan(system="logs", nodes=nodes))
    both = "target.nodes: a majority of 2 servers is both: while one is away there is none"
    assert Logs().warnings(plan) == [both] * (nodes == 2)
