"""Clients, observers, a schedule, nemeses and the journal of the harness, all in virtual time.

The schedule and the observer here are stand-ins that wait as the real ones have to: through the
clock, in threads that it has started.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.clusters.memory import MemoryCluster
from harness.errors import HarnessFailure
from harness.faults.injection import Faults
from harness.faults.journal import Journal, open_acts, windows
from harness.protocols import Completion, Invoke, Nemesis, invoke
from nemeses.disk import Disk
from nemeses.network import Lossy, Partition
from nemeses.process import Kill, Pause
from targets.memory.clients import Command, LogClient, Outcome, PolledRequests
from targets.memory.plan import Settings
from targets.memory.system import System

S = 1_000_000_000
Row = tuple[int, str, object]


@dataclass
class Loop:
    """A small interpreter: 20 processes over one client at a fixed rate, as the real one polls."""

    cluster: MemoryCluster
    client: LogClient
    rate_per_s: float
    rows: list[Row] = field(default_factory=list)
    free: list[int] = field(default_factory=lambda: list(range(20)))
    values: dict[int, int] = field(default_factory=dict)

    def run(self, duration_s: float) -> None:
        clock, begun, period_ns = self.cluster.clock, 0, S / self.rate_per_s
        from_ns = clock.now_ns()
        while (now_ns := clock.now_ns()) < from_ns + duration_s * S:
            while self.free and from_ns + int(begun * period_ns) <= now_ns:
                process = self.free.pop(0)
                op: Invoke = invoke("append", begun, 0)
                self.values[process] = begun
                assert self.client.submit(process, op)
                self.rows.append((now_ns, "invoke", begun))
                begun += 1
            due_ns = from_ns + int(begun * period_ns) if self.free else now_ns + S
            wait_s = min(max(0.0, (due_ns - clock.now_ns()) / 1e9), 0.05)
            self.client.poll(wait_s, self.done)
        self.client.close(2, self.done)

    def done(self, process: int, ended: Completion) -> None:
        self.rows.append((self.cluster.clock.now_ns(), ended[0], self.values[process]))
        self.free.append(process + (20 if ended[0] == "info" else 0))


def up(seed: int, **settings: object) -> tuple[MemoryCluster, System]:
    cluster = MemoryCluster(seed)
    system = System(cluster, Settings(**settings))  # type: ignore[arg-type]
    system.start()
    with cluster.clock.taking_part("main"):
        while not system.fully_replicated():
            cluster.clock.wait(threading.Event(), 0.05)
            assert cluster.clock.now_ns() < 5 * S
    return cluster, system


def nemeses_of(system: System) -> list[tuple[Nemesis, list[str]]]:
    return [
        (Partition(), ["n1"]),
        (Partition(form="halves", direction="in"), ["n2"]),
        (Pause(), ["n3"]),
        (Kill(), ["n1", "n2", "n3", "c1"]),
        (Lossy(share=0.3), ["n2"]),
        (Disk(), ["n3"]),
    ]


def run(seed: int, folder: Path, *, rate_per_s: float = 300, faulted: bool = True) -> list[Row]:
    """A run with the threads that a real one has; what happened, in order."""
    folder.mkdir(exist_ok=True)
    cluster, system = up(seed)
    clock, stop, rows = cluster.clock, threading.Event(), []
    nodes = cluster.nodes
    journal = Journal(folder / "faults.jsonl", clock.now_ns)
    faults = Faults(cluster.levers, journal, seed=seed, in_order=True)

    def observe(name: str) -> None:
        while not stop.is_set():
            rows.append((clock.now_ns(), name, system.observe(name)))
            clock.wait(stop, 0.2)

    def schedule() -> None:
        for number, (nemesis, names) in enumerate(nemeses_of(system)):
            if clock.wait(stop, 0.1):
                break
            acts = nemesis.acts([nodes[name] for name in names], lambda _: list(nodes.values()))
            fault = f"f{number}"
            journal.write("step", fault=fault, nemesis=nemesis.plugin, nodes=names, met=None)
            faults.inject(fault, nemesis.plugin, acts)
            clock.wait(stop, 0.35)
            faults.heal(fault)
        faults.heal_all()

    with clock.taking_part("main"):
        tasks = [clock.spawn(f"observe-{name}", lambda name=name: observe(name)) for name in nodes]
        tasks += [clock.spawn("schedule", schedule)] if faulted else []
        loop = Loop(cluster, LogClient(cluster, system.requests), rate_per_s)
        loop.run(3)
        stop.set()
        for task in tasks:
            task.result()
        deadline_ns = clock.now_ns() + 10 * S
        while not system.fully_replicated() and clock.now_ns() < deadline_ns:
            clock.wait(threading.Event(), 0.1)
    assert system.fully_replicated()
    held = {name: system.held(name, 0) for name in system.settings.names}
    assert held["n1"] == held["n2"] == held["n3"]
    there = {value for _, _, value in held["n1"] or []}
    assert {value for _, kind, value in loop.rows if kind == "ok"} <= there
    journal.close()
    return [*rows, *loop.rows]


def test_a_run_is_the_same_every_time_and_its_faults_are_proven(tmp_path: Path) -> None:
    first = run(3, tmp_path / "first")
    proven = {window.id: (window.proven, window.evidence) for window in windows_of(tmp_path)}
    assert all(held for held, _ in proven.values()), proven
    assert len(proven) == 6
    assert not open_acts(tmp_path / "first" / "faults.jsonl").acts
    for again in range(4):
        assert run(3, tmp_path / f"again{again}") == first
    assert run(4, tmp_path / "other") != first


def windows_of(folder: Path) -> list[object]:
    return list(windows(folder / "first" / "faults.jsonl"))  # type: ignore[return-value]


def test_three_seconds_with_2000_operations_take_less_than_one(tmp_path: Path) -> None:
    begun = time.process_time()
    rows = run(5, tmp_path / "fast", rate_per_s=700, faulted=False)
    took_s = time.process_time() - begun
    assert sum(kind == "ok" for _, kind, _ in rows) > 2_000
    assert took_s < 2, took_s  # well below one on a machine that does nothing else


def test_in_real_time_the_same_system_takes_its_time() -> None:
    cluster = MemoryCluster(1, real_time=True)
    system = System(cluster, Settings())
    system.start()
    client, ended = PolledRequests(cluster, system.requests), []
    begun = time.monotonic()

    def done(process: int, outcome: Outcome) -> None:
        ended.append((process, outcome))

    client.submit(0, Command("append", value=7))
    while not ended and time.monotonic() - begun < 20:
        client.poll(0.1, done)
    assert ended[0][1].type == "ok", ended
    assert time.monotonic() - begun > 0.03  # an election comes first
    client.submit(0, Command("read-all"))
    client.close(5, done)
    assert [value for _, _, value in ended[1][1].result] == [7]
    cluster.down()


def test_what_is_under_way_when_a_client_closes_is_unknown() -> None:
    cluster, system = up(1)
    for name in system.settings.names:
        cluster.nodes[name].pause("f")
    client, ended = PolledRequests(cluster, system.requests), []
    with cluster.clock.taking_part("main"):
        client.submit(3, Command("append", value=1))
        client.close(0.05, lambda process, outcome: ended.append((process, outcome.type)))
        cluster.clock.wait(threading.Event(), 2)
    assert ended == [(3, "info")]


def test_a_defect_of_the_simulation_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, system = up(1)
    monkeypatch.setattr("targets.memory.system.Replica._tick", None)
    cluster.nodes["n1"].kill()
    cluster.nodes["n1"].start()
    with cluster.clock.taking_part("main"), pytest.raises((TypeError, HarnessFailure)):
        cluster.clock.wait(threading.Event(), 2)
    assert system.settings.replicas == 3
