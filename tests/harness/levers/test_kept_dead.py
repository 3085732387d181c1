"""Faults that end one process overlap: healing one never heals another, and none is proven for a
time in which the process ran."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.memory import MemoryCluster
from harness.errors import HarnessFailure
from harness.faults.injection import NOTHING_MET, Faults
from harness.faults.journal import Journal, windows
from harness.faults.records import (
    DiskRecord,
    FullRecord,
    PowerRecord,
    ProcessRecord,
    ReadOnlyRecord,
)
from harness.levers.disk import DiskLever, FullLever, ReadOnlyLever
from harness.levers.process import PowerLever, ProcessLever
from harness.protocols import STORED, Act, Completed, FaultWindow, Lever, Node, UndoRecord
from tests.fixtures.noted_deaths import KilledNode
from tests.harness.clusters.memory.test_levers import chatter

Fault = Callable[[Node], Act]
Placed = tuple[Node, dict[str, Lever[Any]]]


@dataclass
class Storing(KilledNode):
    """It refuses writes while it is read-only or full; its log grows with what it was refused."""

    refusing: str = ""
    refused_lines: int = 0

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        words = " ".join(argv)
        if argv[0] == "grep":
            return Completed(0, str(self.refused_lines))
        if argv[0] == "df":
            free = 0 if self.refusing else 1000
            return Completed(0, f"/var/lib/ackloss/{STORED} 1000 {free}")
        if "chmod" in argv:
            self.refusing = "Permission denied" if "u-w" in argv else ""
        elif argv[0] == "ls" and argv[1].endswith(f"/{STORED}"):
            return Completed(0, "ackloss-full.stored" if self.refusing else "")
        elif "ackloss-full." in words:
            self.refusing = "" if argv[0] == "rm" else "No space left on device"
        elif argv[0] == "setpriv" and f"/{STORED}/" in words and self.refusing:
            return Completed(1, self.refusing)
        return super().admin(argv, timeout_s=timeout_s)


def kill(node: Node) -> Act:
    return Act("process", ProcessRecord(node=node.name, signal="KILL", pid=node.pid()))


def stop(node: Node) -> Act:
    return Act("process", ProcessRecord(node=node.name, signal="TERM", pid=node.pid()))


def read_only(node: Node) -> Act:
    return Act("read-only", ReadOnlyRecord(node=node.name, folder=STORED, pid=node.pid()))


def full(node: Node) -> Act:
    return Act("full", FullRecord(node=node.name, folder=STORED, pid=node.pid()))


def levers_over(node: Node) -> dict[str, Lever[Any]]:
    nodes = {node.name: node}
    levers = (ProcessLever(nodes), ReadOnlyLever(nodes), FullLever(nodes))
    return {lever.name: lever for lever in levers}


@pytest.fixture(params=["commands", "memory"])
def placed(request: pytest.FixtureRequest) -> Placed:
    """A node and its levers: by commands, and in the simulation."""
    if request.param == "memory":
        cluster = MemoryCluster(1)
        cluster.create({"b1": frozenset({"broker"})})
        cluster.start_programs({"b1": chatter})
        return cluster.nodes["b1"], dict(cluster.levers)
    node = Storing("b1", frozenset({"broker"}), "198.18.0.11")
    return node, levers_over(node)


def run(
    tmp_path: Path, node: Node, levers: dict[str, Lever[Any]], *steps: tuple[str, Fault | None]
) -> dict[str, FaultWindow]:
    """Inject the fault of each step, or heal it where none is given; the windows by fault."""
    path, ticks = tmp_path / "faults.jsonl", count()
    journal = Journal(path, lambda: next(ticks))
    faults = Faults(levers, journal)
    for fault, act in steps:
        if act is None:
            faults.heal(fault)
        else:
            journal.write("step", fault=fault, nemesis="n", nodes=["b1"], met=None, why="")
            faults.inject(fault, "n", [act(node)])
    return {window.id: window for window in windows(path)}


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.levers.process._DEATH_S", 0.1)


def test_healing_a_kill_that_killed_nothing_starts_nothing(tmp_path: Path, placed: Placed) -> None:
    node, levers = placed
    seen = run(tmp_path, node, levers, ("a", kill), ("b", kill), ("b", None))
    assert node.pid() is None, "the first kill keeps it dead"
    assert not seen["b"].proven
    assert "its process was dead before" in seen["b"].evidence[0]


def test_each_kill_is_proven_for_what_it_ended(tmp_path: Path, placed: Placed) -> None:
    node, levers = placed
    steps = [("a", kill), ("b", kill), ("b", None), ("c", kill), ("a", None), ("c", None)]
    seen = run(tmp_path, node, levers, *steps)
    assert {fault: window.proven for fault, window in seen.items()} == {
        "a": True,
        "b": False,
        "c": False,
    }
    assert node.process().running


def test_a_kill_is_not_proven_for_a_time_in_which_the_process_ran(
    tmp_path: Path, placed: Placed
) -> None:
    """Something else starts it, and another fault kills it with the same exit code."""
    node, levers = placed

    def started_and_killed(node: Node) -> Act:
        node.start()
        return kill(node)

    steps = [("a", kill), ("b", started_and_killed), ("a", None)]
    seen = run(tmp_path, node, levers, *steps)
    assert not seen["a"].proven
    assert "but not by this fault" in seen["a"].evidence[1]
    assert node.pid() is None, "the second kill keeps it dead"
    assert "its process is kept dead by b" in seen["a"].evidence[2]


@pytest.mark.parametrize(("cannot_store", "end"), [(read_only, kill), (full, stop)])
def test_a_node_that_can_store_again_stays_dead_while_a_kill_lasts(
    tmp_path: Path, cannot_store: Fault, end: Fault
) -> None:
    node = Storing("b1", frozenset({"broker"}), "198.18.0.11")

    def refused_then_ended(node: Node) -> Act:
        assert isinstance(node, Storing)
        node.refused_lines = 3
        return end(node)

    steps = [("stored", cannot_store), ("end", refused_then_ended), ("stored", None), ("end", None)]
    seen = run(tmp_path, node, levers_over(node), *steps)
    assert (seen["stored"].proven, seen["end"].proven) == (True, True)
    assert "kept dead by end" in seen["stored"].evidence[2]
    assert node.commands.count("b1: start the target's process") == 1


@pytest.mark.parametrize(
    ("lever_type", "record"),
    [
        (
            DiskLever,
            DiskRecord(node="b1", fault="x", signal="KILL", pid=7, form="wipe", folders=()),
        ),
        (PowerLever, PowerRecord(node="b1", fault="x", signal="KILL", pid=7)),
        (ProcessLever, ProcessRecord(node="b1", fault="x", signal="KILL", pid=7)),
        (ReadOnlyLever, ReadOnlyRecord(node="b1", fault="x", folder=STORED, pid=7)),
        (FullLever, FullRecord(node="b1", fault="x", folder=STORED, pid=7)),
    ],
)
def test_no_lever_starts_what_another_fault_keeps_dead(
    lever_type: type[Any], record: UndoRecord
) -> None:
    node = Storing("b1", frozenset({"broker"}), "198.18.0.11")
    ProcessLever({"b1": node}).apply(ProcessRecord(node="b1", fault="y", signal="KILL", pid=7))
    lever_type({"b1": node}).undo(record)
    assert not node.running
    assert node.notes.names == {"ackloss.dead.7.y@life-7"}


def test_a_life_that_has_ended_keeps_no_later_one_dead() -> None:
    """What was noted on a node and never removed counts for that life alone."""
    node = Storing("b1", frozenset({"broker"}), "198.18.0.11")
    node.notes.names.add("ackloss.dead.7.left@life-6")
    lever, record = ProcessLever({"b1": node}), kill(node).record
    lever.apply(record)
    lever.undo(record)
    assert node.running


def test_where_no_command_can_be_run_the_process_is_started() -> None:
    """A machine that was started again: nothing runs there, and nothing is noted there."""

    class Mute(KilledNode):
        def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
            raise HarnessFailure("b1: its container does not run")

    node = Mute("b1", frozenset({"broker"}), "198.18.0.11", running=False)
    ProcessLever({"b1": node}).undo(ProcessRecord(node="b1", fault="x", signal="KILL", pid=7))
    assert node.running


@pytest.mark.parametrize(
    ("cannot_store", "end", "exit_code"),
    [(read_only, kill, None), (full, stop, None), (full, stop, 0)],
)
def test_a_process_that_another_fault_ended_did_not_end_of_a_refused_write(
    tmp_path: Path, cannot_store: Fault, end: Fault, exit_code: int | None
) -> None:
    node = Storing("b1", frozenset({"broker"}), "198.18.0.11", leaves_with=exit_code)
    steps = [("stored", cannot_store), ("end", end), ("stored", None), ("end", None)]
    seen = run(tmp_path, node, levers_over(node), *steps)
    assert (seen["stored"].proven, seen["stored"].touched) == (False, 0)
    assert "its process ended of it" not in " ".join(seen["stored"].evidence)
    assert NOTHING_MET in seen["stored"].evidence


@pytest.mark.parametrize(
    ("cannot_store", "exit_code", "met"),
    [(read_only, 1, 1), (full, 0, 1), (full, 137, 0), (read_only, 143, 0)],
)
def test_only_an_end_without_a_signal_is_an_end_of_the_fault(
    tmp_path: Path, cannot_store: Fault, exit_code: int, met: int
) -> None:
    """Who sent the signal, the kernel out of memory or a person, is not known."""
    node = Storing("b1", frozenset({"broker"}), "198.18.0.11")

    def ended(node: Node) -> Act:
        assert isinstance(node, Storing)
        node.running, node.exit_code = False, exit_code
        return kill(node)

    steps = [("stored", cannot_store), ("late", ended), ("late", None), ("stored", None)]
    seen = run(tmp_path, node, levers_over(node), *steps)
    assert (seen["stored"].proven, seen["stored"].touched) == (bool(met), met)
    assert node.running, "it is started again, whatever ended it"


@pytest.mark.parametrize(("grace_s", "ended_by"), [(0.2, "KILL"), (5.0, "TERM")])
def test_a_clean_stop_has_as_long_as_its_record_gives_it(grace_s: float, ended_by: str) -> None:
    class Slow(KilledNode):
        sent: str = ""

        def send_signal(self, signal: str, pid: int) -> None:
            self.sent = signal
            delay_s = 0.0 if signal == "KILL" else 1.0
            threading.Timer(delay_s, lambda: setattr(self, "running", False)).start()

    node = Slow("b1", frozenset({"broker"}), "198.18.0.11")
    record = ProcessRecord(node="b1", fault="x", signal="TERM", pid=7, grace_s=grace_s)
    ProcessLever({"b1": node}).apply(record)
    assert (node.sent, node.running) == (ended_by, False)
