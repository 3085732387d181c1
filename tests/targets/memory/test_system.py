"""The reference system step by step: what is refused, what is known, what a node remembers."""

from __future__ import annotations

from typing import Any

import pytest

from harness.clusters.memory import MemoryCluster
from harness.faults.records import NetRecord, Peer
from targets.memory.clients import Command, Outcome
from targets.memory.log import Entry, Registers
from targets.memory.plan import CONTROLLER, Settings
from targets.memory.system import System, system_of

MS = 1_000_000


class Bench:
    """A system that is fully replicated, and one request at a time."""

    def __init__(self, **settings: Any) -> None:
        self.cluster = MemoryCluster(1)
        self.system = System(self.cluster, Settings(**settings))
        self.system.start()
        self.settle()

    def settle(self) -> None:
        for _ in range(100):
            self.run(50)
            if self.system.fully_replicated():
                return
        raise AssertionError("it did not settle")

    def run(self, ms: int) -> None:
        self.cluster.simulation.run_until(self.cluster.simulation.now_ns + ms * MS)

    def ask(self, f: str, *, process: int = 0, **how: Any) -> Outcome:
        ended: list[Outcome] = []
        command = Command(f, **how)
        self.system.requests.submit(process, command, lambda _, outcome: ended.append(outcome))
        while not ended:
            self.run(1)
        return ended[0]

    def leader(self) -> str:
        views = self.system.observe(CONTROLLER)
        assert views is not None
        assert views[0].leader is not None
        return views[0].leader

    def kill(self, *names: str) -> None:
        for name in names:
            self.cluster.nodes[name].kill()

    def wipe(self, name: str) -> None:
        self.kill(name)
        self.cluster.nodes[name].disk.wipe("data/log-0")
        self.cluster.nodes[name].start()


def net(node: str, *peers: str, **how: Any) -> NetRecord:
    return NetRecord(node=node, fault="f", peers=tuple(Peer(name=peer) for peer in peers), **how)


@pytest.fixture(params=["quorum", "isr"])
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(commit=request.param, min_insync=2)


def test_registers_and_logs_do_what_they_should(bench: Bench) -> None:
    assert bench.ask("read", key="k").result is None
    assert bench.ask("write", key="k", value=1).type == "ok"
    assert bench.ask("cas", key="k", value=2, expected=1).type == "ok"
    other = bench.ask("cas", key="k", value=3, expected=1)
    assert (other.type, other.error) == ("fail", "another-value")
    assert bench.ask("read", key="k").result == 2
    appended = bench.ask("append", value=9)
    assert (appended.type, appended.node) == ("ok", bench.leader())
    assert (appended.position, None, 9) in bench.ask("read-all").result


def test_every_node_says_what_it_knows(bench: Bench) -> None:
    views = {name: bench.system.observe(name) for name in bench.cluster.nodes}
    assert {view[0].leader for view in views.values() if view} == {bench.leader()}
    assert [name for name, view in views.items() if view and view[0].authority] == [CONTROLLER]
    bench.cluster.nodes["n2"].pause("f")
    bench.kill("n3")
    assert bench.system.observe("n2") is None
    assert bench.system.observe("n3") is None
    assert not bench.system.fully_replicated()
    assert system_of(bench.cluster) is bench.system


def test_what_nobody_could_have_appended_fails(bench: Bench) -> None:
    bench.kill(*bench.system.settings.names)
    ended = bench.ask("append", value=1)
    assert (ended.type, ended.error) == ("fail", "connection-refused")
    bench.cluster.nodes["n1"].start()
    bench.run(400)
    ended = bench.ask("append", value=2)
    assert (ended.type, ended.error in ("leader-unknown", "connection-refused")) == ("fail", True)


def test_too_few_in_sync_is_a_refusal_before_anything_is_appended() -> None:
    bench = Bench(commit="isr", min_insync=3)
    leader = bench.leader()
    bench.kill(next(name for name in bench.system.settings.names if name != leader))
    bench.run(600)
    ended = bench.ask("append", value=1)
    assert (ended.type, ended.error) == ("fail", "not-enough-replicas")


def test_an_attempt_that_went_unanswered_leaves_the_end_unknown(bench: Bench) -> None:
    for name in bench.system.settings.names:
        bench.cluster.nodes[name].pause("f")
    ended = bench.ask("append", value=1)
    assert (ended.type, ended.error) == ("info", "no-answer")
    assert bench.ask("read", process=1, key="k").type == "fail"  # a read has no effect


def test_a_reset_connection_leaves_the_end_unknown(bench: Bench) -> None:
    lever = bench.cluster.levers["net"]
    names = bench.system.settings.names
    records = [net(name, "clients", direction="in", action="reset") for name in names]
    for record in records:
        lever.apply(record)
    ended = bench.ask("append", value=1)
    assert (ended.type, ended.error) == ("info", "connection-reset")
    proofs = [lever.probe(record, applied=True) for record in records]
    assert sum(proof.met or 0 for proof in proofs) > 5


def test_a_retry_is_answered_and_not_appended_again(bench: Bench) -> None:
    leader = bench.leader()
    lever = bench.cluster.levers["net"]
    record = net(leader, "clients", direction="out")
    lever.apply(record)
    clients = bench.cluster.clients
    bench.cluster.simulation.push(
        bench.cluster.simulation.now_ns + 300 * MS, clients, clients, lever.undo, record
    )
    ended = bench.ask("append", value=7)
    assert ended.type == "ok"
    held = [value for _, _, value in bench.ask("read-all").result]
    assert held == [7]


def test_acknowledged_entries_outlive_the_death_of_everybody(bench: Bench) -> None:
    values = [bench.ask("append", value=value).type for value in range(20)]
    assert values == ["ok"] * 20
    bench.kill(*bench.cluster.nodes)
    for node in bench.cluster.nodes.values():
        node.disk.lose_power("data/log-0", 0)
        node.start()
    bench.settle()
    assert [value for _, _, value in bench.ask("read-all").result] == list(range(20))


def test_without_fsync_a_loss_of_power_everywhere_loses(bench: Bench) -> None:
    careless = Bench(fsync="never")
    assert careless.ask("append", value=1).type == "ok"
    careless.kill(*careless.system.settings.names)
    for name in careless.system.settings.names:
        careless.cluster.nodes[name].disk.lose_power("data/log-0", 0)
        careless.cluster.nodes[name].start()
    careless.settle()
    assert careless.ask("read-all").result == []


def test_a_wiped_replica_does_not_lead_until_it_has_caught_up(bench: Bench) -> None:
    for value in range(5):
        bench.ask("append", value=value)
    leader = bench.leader()
    first, second = [name for name in bench.system.settings.names if name != leader]
    bench.kill(second)
    bench.run(500)
    lever = bench.cluster.levers["net"]
    cut = net(first, leader, second)
    lever.apply(cut)
    bench.wipe(first)
    bench.kill(leader)
    bench.run(1000)
    views = bench.system.observe(CONTROLLER)
    assert views is not None
    assert views[0].leader != first
    lever.undo(cut)
    for name in (leader, second):
        bench.cluster.nodes[name].start()
    bench.settle()
    assert [value for _, _, value in bench.ask("read-all").result] == list(range(5))


def test_a_deposed_leader_answers_no_read(bench: Bench) -> None:
    leader = bench.leader()
    others = [name for name in bench.cluster.nodes if name != leader]
    bench.cluster.levers["net"].apply(net(leader, *others))
    bench.run(1_000)
    assert bench.leader() != leader
    bench.ask("write", key="k", value=1)
    for process in range(6):
        ended = bench.ask("read", process=process, key="k")
        assert (ended.result, ended.node) == (1, bench.leader())


@pytest.mark.parametrize("commit", ["quorum", "isr"])
@pytest.mark.parametrize("replicas", [1, 2, 5])
def test_other_sizes_and_many_partitions_work(commit: Any, replicas: int) -> None:
    bench = Bench(commit=commit, replicas=replicas, partitions=4)
    for partition in range(4):
        assert bench.ask("append", value=partition, partition=partition).type == "ok"
    held = [bench.ask("read-all", partition=number).result for number in range(4)]
    assert [[value for _, _, value in log] for log in held] == [[0], [1], [2], [3]]
    bench.settle()
    names = bench.system.settings.names
    assert all(bench.system.held(name, 3) == held[3] for name in names)


@pytest.mark.parametrize(
    "settings",
    [
        {"defects": frozenset({"stale-read"})},
        {"min_insync": 4},
        {"partitions": 0},
        {"heartbeat_ms": 200},
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"stale-read|min_insync|partitions|session_ms"):
        Settings(**settings)


def test_a_register_that_is_deleted_has_no_value() -> None:
    registers = Registers()
    for f, value in (("write", 7), ("delete", 8)):
        assert registers.apply(Entry(1, f, "k", value, None, 1, value))
    assert registers.values["k"] is None
