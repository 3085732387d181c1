"""The pause lever: stops the target's process on a node (SIGSTOP), and continues it (SIGCONT).

With it stops and continues all that it has started: a node may be several processes, and one that
goes on, such as a failure detector, would speak for one that stands still.

A process is stopped when every one of its threads is in the state T. The node itself holds the list
of faults that stopped it: one empty file for each. So if faults overlap, the process continues only
when the last of them is healed, and a process that something else stopped remains stopped. The file
names the process by its id, its start time and the boot of the machine: another process may have
the id later, and is sent nothing.

A process that something else had stopped before was not stopped by the fault: nothing met it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from harness.errors import HarnessFailure
from harness.faults.records import PauseRecord
from harness.levers.commands import marks, must, poll_until
from harness.levers.process import unsignalled
from harness.protocols import Lever, Node, Proof

_FOLDER = "/run"
_MARK = "ackloss.paused."
_NOTED = re.compile(r"(\d+)\.([^.]+)\.(.+)")
_BOOT = "/proc/sys/kernel/random/boot_id"
_START = 19
"""The place of the start time among the fields of /proc/PID/stat that follow the name."""
_STOPPED, _ZOMBIE = "T", "Z"
_PROCESSES = ["ps", "-eL", "-ww", "-o", "pid=,ppid=,sid=,state=,args="]
_SEEN_S = 5


@dataclass(frozen=True)
class PauseLever(Lever[PauseRecord]):
    """Stops the target's process where it is; the undo continues the same process."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "pause"

    def unavailable(self, node: Node, record: PauseRecord) -> str | None:
        return unsignalled(node)

    def capture_prior_state(self, record: PauseRecord) -> PauseRecord:
        node, stopped = self.nodes[record.node], False
        with suppress(HarnessFailure):
            by_other = not _stopped_by(node, record.pid)
            stopped = _STOPPED in _states(node, record.pid) and by_other
        return replace(record, stopped=stopped)

    def apply(self, record: PauseRecord) -> None:
        """Note on the node which fault it is, then stop the process."""
        if record.pid is None:
            return  # it was dead before: the probe says so
        node = self.nodes[record.node]
        mark = _Mark(record.pid, _life(node, record.pid), record.fault)
        must(node, ["touch", mark.path])
        sent = set[int]()
        while new := [pid for pid in _program(node, record.pid) if pid not in sent]:
            _signal(node, "STOP", new)  # the first one first; then what was forked meanwhile
            sent.update(new)

    def undo(self, record: PauseRecord) -> None:
        """Continue it unless another fault stops it; nothing if this fault does not."""
        node, pid, fault = self.nodes[record.node], record.pid, record.fault
        ours = [mark for mark in _marks(node) if (mark.pid, mark.fault) == (pid, fault)]
        if pid is None or not ours:
            return
        if _stopped_by(node, pid) == [fault]:
            _signal(node, "CONT", list(_program(node, pid)) or [pid])
        must(node, ["rm", "-f", *(mark.path for mark in ours)])

    def probe(self, record: PauseRecord, *, applied: bool) -> Proof:
        """In force: every thread is stopped. Undone: the same process runs, or another fault still
        stops it."""
        node, pid = self.nodes[record.node], record.pid
        others = [fault for fault in _stopped_by(node, pid) if fault != record.fault]
        stopped = applied or bool(others)

        def as_expected() -> bool:
            states = _states(node, pid)
            return bool(states) and all((state == _STOPPED) == stopped for state in states)

        proven = poll_until(as_expected, within_s=_SEEN_S)
        also = f", also paused by {', '.join(others)}" if others else ""
        also += ", as it was before, by something else" if record.stopped else ""
        evidence = [f"{node.name}: {_described(node, pid)}{also}"]
        return Proof(proven, evidence, 0 if applied and record.stopped else None)

    def leftover_state(self, node: Node) -> list[str]:
        pid = node.pid()
        return [f"{node.name}: {_described(node, pid)}"] if _STOPPED in _states(node, pid) else []

    def marked(self, node: Node) -> list[PauseRecord]:
        """The acts of ours that still stop a process of a node, whether or not a journal has
        them."""
        return [
            PauseRecord(node=node.name, fault=mark.fault, pid=mark.pid, stopped=False)
            for mark in _marks(node)
            if mark.life == _life(node, mark.pid)
        ]


class _Mark(NamedTuple):
    """A file on the node that records that a fault stops a process."""

    pid: int
    life: str
    fault: str

    @property
    def path(self) -> str:
        return f"{_FOLDER}/{_MARK}{self.pid}.{self.life}.{self.fault}"


def _marks(node: Node) -> list[_Mark]:
    """All that are there, also of processes that have ended."""
    noted = marks(node, _FOLDER, _MARK)
    found = [match for mark in noted if (match := _NOTED.fullmatch(mark))]
    return [_Mark(int(match[1]), match[2], match[3]) for match in found]


def _stopped_by(node: Node, pid: int | None) -> list[str]:
    life, marks = _life(node, pid), _marks(node)
    return [mark.fault for mark in marks if (mark.pid, mark.life) == (pid, life)]


def _life(node: Node, pid: int | None) -> str:
    """What tells a process from a later one of the same id: the boot, and its start time in ticks
    since then; empty: there is no such process."""
    if pid is None:
        return ""
    shown = node.admin(["cat", _BOOT, f"/proc/{pid}/stat"])
    if shown.exit_code not in (0, 1):  # 1: there is no such process
        raise HarnessFailure(f"{node.name}: cat failed: {shown.output.strip()[:300]}")
    boot, _, stat = shown.output.partition("\n")
    fields = stat.rpartition(") ")[2].split()
    return f"{boot}-{fields[_START]}" if len(fields) > _START and not shown.exit_code else ""


def _program(node: Node, pid: int | None) -> dict[int, list[str]]:
    """The states of the threads of each process of a node's program: of its process, of all that
    descend from it, and of daemons, which the first process of the node has adopted, in a session
    that is not its own. Empty: there is no such process."""
    if pid is None:
        return {}
    parents, sessions, states, load = dict[int, int](), dict[int, int](), dict[int, list[str]](), []
    for line in must(node, _PROCESSES).splitlines():
        own, parent, session, state, *words = line.split()
        if state != _ZOMBIE:
            parents[int(own)], sessions[int(own)] = int(parent), int(session)
            states.setdefault(int(own), []).append(state)
        if any(word.startswith("ackloss/") for word in words):
            load.append(int(own))  # of ours: `harness.levers.stress`
    if pid not in states:
        return {}
    others = {1, pid, parents[pid], *load}
    adopted = {each for each, parent in parents.items() if parent == 1} - others
    found = [pid]
    if node.processes() is None:  # or those of the whole machine are seen
        found += [each for each in adopted if sessions[each] != sessions.get(1)]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return {each: states[each] for each in found}


def _states(node: Node, pid: int | None) -> list[str]:
    """The states of all threads of a program; empty: there is no such process."""
    return [state for states in _program(node, pid).values() for state in states]


def _described(node: Node, pid: int | None) -> str:
    program = _program(node, pid)
    states = [state for each in program.values() for state in each]
    if not states:
        return f"process {pid} is not there"
    name = f"process {pid}" + (f" with {len(program) - 1} more" if len(program) > 1 else "")
    if _STOPPED not in states:
        return f"{name} runs: none of its {len(states)} threads is stopped"
    return f"{name} has State: T (stopped) in {states.count(_STOPPED)} of {len(states)} threads"


def _signal(node: Node, signal: str, pids: list[int]) -> None:
    """Send it; a process that another fault has killed by now needs none."""
    sent = node.admin(["kill", f"-{signal}", *map(str, pids)])
    if sent.exit_code and _states(node, pids[0]):
        raise HarnessFailure(f"{node.name}: the signal was refused: {sent.output.strip()[:300]}")
