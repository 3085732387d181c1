"""The levers of a node's process: it is ended, it is stopped and goes on, it loses power, or
another program takes its place.

The process lever: ends the target's process on a node by a signal, and starts it again.

A signal counts as applied when the process has died of it, not when it was sent. The process is
identified by the id that it wrote itself when it started, never by a name pattern.

TERM requests a clean stop. A process that has not stopped in time (the `grace_s` of its record) is
killed, as any service manager does: it must not end by itself after the fault was healed. The exit
code then shows this, and the fault is not proven.

Which faults keep a process dead is noted on the node: one empty file for each, with the life of the
process that the fault ended. So if faults overlap, the process is started only when the last of
them is healed; and a process that has run in between is not proven dead, however it ended then. A
fault that found the process dead has ended nothing and starts nothing.

The pause lever: stops the target's process on a node (SIGSTOP), and continues it (SIGCONT).

With it stops and continues all that it has started: a node may be several processes, and one that
goes on, such as a failure detector, would speak for one that stands still.

A process is stopped when every one of its threads is in the state T. The node itself holds the list
of faults that stopped it: one empty file for each. So if faults overlap, the process continues only
when the last of them is healed, and a process that something else stopped remains stopped. The file
names the process by its id, its start time and the boot of the machine: another process may have
the id later, and is sent nothing.

A process that something else had stopped before was not stopped by the fault: nothing met it.

The power lever: a node loses power, whatever system runs on it.

Its process is killed, and the disk on which it stores loses what was not fsynced (`OwnDisk`). The
undo starts the process again; what was lost stays lost. Nodes get such a disk for plans that need
it (`harness.protocols.OWN_DISK`); any other disk is left alone.

Our own file on the disk, half of which was fsynced, shows that the disk really lost what was only
in memory. The sizes of the files before and after show what else is gone. Data that was written
longer ago than the kernel keeps it in memory may survive without fsync: the evidence states how
long that is.

The program lever: a node gets another program, such as a newer version, and keeps its data.

Its process is asked to stop (TERM), as an operator would, or killed if the plan has it so; then the
cluster installs the other program in its place. One that does not stop in time is not killed, since
the run would show another thing than was planned: the act has failed. All programs of a plan were
prepared before the run began. Nothing is undone: the way back is another fault. What a node then
runs is known from nothing but its own report (`Target.has_program`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple

from harness.errors import HarnessFailure
from harness.faults.records import (
    DiskRecord,
    PauseRecord,
    PowerRecord,
    ProcessRecord,
    ProgramRecord,
    StorageRecord,
)
from harness.levers.commands import marks, must, poll_until
from harness.plan import Plan
from harness.protocols import Lever, Node, NodeSpec, OwnDisk, PowerLoss, Proof, Target

_FOLDER = "/tmp"  # noqa: S108  (not /run: who may signal a process need not be root)
_MARK = "ackloss.dead."
_DEATH_S = 30
_EXIT_CODES = {"KILL": (137,), "TERM": (143, 0)}

Ends = ProcessRecord | DiskRecord | PowerRecord
"""The records of the levers that end a process by its pid and a signal."""

Restarts = Ends | StorageRecord
"""The records of the levers whose undo starts the process again."""


@dataclass(frozen=True)
class ProcessLever(Lever[ProcessRecord]):
    """Ends the target's process by a signal; undone by starting it again."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "process"

    def unavailable(self, node: Node, record: ProcessRecord) -> str | None:
        return unsignalled(node)

    def apply(self, record: ProcessRecord) -> None:
        """Send the signal and wait until the process is gone."""
        end_process(self.nodes[record.node], record)

    def undo(self, record: ProcessRecord) -> None:
        start_again(self.nodes[record.node], record)

    def probe(self, record: ProcessRecord, *, applied: bool) -> Proof:
        """In force: it ended with the signal's exit code and was not started since. Undone: another
        process runs, or another fault keeps it dead."""
        node = self.nodes[record.node]
        return ended(node, record) if applied else runs_again(node, record)

    def leftover_state(self, node: Node) -> list[str]:
        return [why] if (why := not_running(node)) else []


def end_process(node: Node, record: Ends) -> None:
    """End the process of a record by its signal, or else by SIGKILL, wait until it is gone, and
    note on the node which fault it was."""
    if record.pid is None:
        return  # it was dead before: the probe says so
    grace_s = record.grace_s if isinstance(record, ProcessRecord) else _DEATH_S
    for signal, within_s in ((record.signal, grace_s), ("KILL", _DEATH_S)):
        node.send_signal(signal, record.pid)
        if poll_until(lambda: not node.process().running, within_s=within_s):
            must(node, ["touch", _mark(_death(record), node.process().started_at)])
            return


def start_again(node: Node, record: Restarts) -> None:
    """Start the process that a fault has ended, unless it was dead before (the record then has no
    pid) or another fault keeps it dead; nothing when it runs."""
    if record.pid is None:
        return
    with suppress(HarnessFailure):  # where no command can be run, nothing is noted either
        death = _death(record)  # whichever life it ended
        if lives := [life for noted, life in _marks(node) if noted == death]:
            must(node, ["rm", "-f", *(_mark(death, life) for life in lives)])
        if kept_dead_by(node):
            return
    if not node.process().running:
        node.start()


def kept_dead_by(node: Node) -> list[str]:
    """The faults that ended the last life of a node's process; none while it runs."""
    state = node.process()
    if state.running:
        return []
    deaths = [death for death, life in _marks(node) if life == str(state.started_at)]
    return [death.partition(".")[2] for death in deaths]


def ended(node: Node, record: Ends, by: Sequence[str] | None = None) -> Proof:
    """Whether the process of a record has ended with the exit code of its signal, by this fault,
    and was not started since. `by` are the faults that keep it dead, where the node does not hold
    that in files."""
    if record.pid is None:
        return Proof(False, [f"{node.name}: its process was dead before"])
    state, by_it = node.process(), record.fault in (kept_dead_by(node) if by is None else by)
    outcome = (
        "still runs"
        if state.running
        else f"ended with exit code {state.exit_code} at {state.finished_at}"
        f"{'' if by_it else ', but not by this fault'}"
    )
    proven = by_it and state.exit_code in _EXIT_CODES[record.signal]
    return Proof(proven, [f"{node.name}: process {record.pid} {outcome}"])


def runs_again(
    node: Node, record: Restarts, by: Sequence[str] | None = None, *, another: bool = True
) -> Proof:
    """Waits until the process runs, `another` one than the record's; whether it does, was dead
    before, or is kept dead by another fault (`by`, as in `ended`)."""
    if record.pid is None:
        return Proof(True, [f"{node.name}: its process was dead before"])
    if others := (kept_dead_by(node) if by is None else by):
        evidence = f"{node.name}: its process is kept dead by {', '.join(others)}"
        return Proof(record.fault not in others, [evidence])
    not_it = (None, record.pid) if another else (None,)
    runs = poll_until(lambda: node.pid() not in not_it, within_s=_DEATH_S if by is None else 0)
    evidence = f"{node.name}: process {node.pid()} runs since {node.process().started_at}"
    return Proof(runs, [evidence])


def not_running(node: Node) -> str | None:
    """None, or that a node's process does not run."""
    return None if node.process().running else f"{node.name}: its process does not run"


def unsignalled(node: Node) -> str | None:
    """None, or that a node's process cannot be sent a signal."""
    pid = node.pid()
    if pid is None or node.admin(["kill", "-0", str(pid)]).exit_code:
        return f"{node.name}: its process cannot be signalled"
    return None


def _death(record: Restarts) -> str:
    """Which process a fault ends; nodes may be processes of one machine."""
    return f"{record.pid}.{record.fault}"


def _mark(death: str, life: str | None) -> str:
    """The file on the node that records that a fault ended a life of the process."""
    return f"{_FOLDER}/{_MARK}{death}@{life}"


def _marks(node: Node) -> list[tuple[str, str]]:
    """The deaths that are noted on a node, each with the start of the life that it ended."""
    noted = (mark.partition("@") for mark in marks(node, _FOLDER, _MARK))
    return [(death, life) for death, _, life in noted]


_PAUSES = "/run"
_PAUSED = "ackloss.paused."
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
        mark = _Pause(record.pid, _life(node, record.pid), record.fault)
        must(node, ["touch", mark.path])
        sent = set[int]()
        while new := [pid for pid in _program(node, record.pid) if pid not in sent]:
            _signal(node, "STOP", new)  # the first one first; then what was forked meanwhile
            sent.update(new)

    def undo(self, record: PauseRecord) -> None:
        """Continue it unless another fault stops it; nothing if this fault does not."""
        node, pid, fault = self.nodes[record.node], record.pid, record.fault
        ours = [mark for mark in _pauses(node) if (mark.pid, mark.fault) == (pid, fault)]
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
        """The acts of ours that still stop a process of a node, also those that no journal has."""
        return [
            PauseRecord(node=node.name, fault=mark.fault, pid=mark.pid, stopped=False)
            for mark in _pauses(node)
            if mark.life == _life(node, mark.pid)
        ]


class _Pause(NamedTuple):
    """A file on the node that records that a fault stops a process."""

    pid: int
    life: str
    fault: str

    @property
    def path(self) -> str:
        return f"{_PAUSES}/{_PAUSED}{self.pid}.{self.life}.{self.fault}"


def _pauses(node: Node) -> list[_Pause]:
    """All that are there, also of processes that have ended."""
    noted = marks(node, _PAUSES, _PAUSED)
    found = [match for mark in noted if (match := _NOTED.fullmatch(mark))]
    return [_Pause(int(match[1]), match[2], match[3]) for match in found]


def _stopped_by(node: Node, pid: int | None) -> list[str]:
    life, marks = _life(node, pid), _pauses(node)
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


_SHOWN: Final = 4


@dataclass(frozen=True)
class PowerLever(Lever[PowerRecord]):
    """Cuts the power of nodes; undone by starting their processes again."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "power"

    def unavailable(self, node: Node, record: PowerRecord) -> str | None:
        """If the node has no disk of its own, or no process that can be killed."""
        disk = node.own_disk
        if disk is None:
            return f"{node.name}: it does not store on its own disk, so it cannot lose power"
        why = disk.why_not()
        return f"{node.name}: {why}" if why else not_running(node)

    def apply(self, record: PowerRecord) -> None:
        """Kill the process, then make its disk lose what was not fsynced. Once for each fault."""
        node = self.nodes[record.node]
        end_process(node, record)
        if node.process().running:
            raise HarnessFailure(f"{node.name}: its process still runs: the disk is left alone")
        _own(node).lose_power(record.fault)

    def undo(self, record: PowerRecord) -> None:
        node = self.nodes[record.node]
        _own(node).restore(record.fault)
        start_again(node, record)

    def probe(self, record: PowerRecord, *, applied: bool) -> Proof:
        """In force: the process ended by the signal, and our own file on the disk lost some of what
        was not fsynced, and nothing else: a busy kernel may have written a part of it. Undone:
        another process runs, or another fault keeps it dead."""
        node = self.nodes[record.node]
        if not applied:
            return runs_again(node, record)
        disk, process = _own(node), ended(node, record)
        lost = disk.power_loss(record.fault)
        if lost is None:
            return Proof(False, [*process.evidence, f"{node.name}: its disk has not lost power"])
        gone = lost.canary_synced <= lost.canary_left < lost.canary_written
        dead = process.proven or record.pid is None
        lines = [f"{node.name}: {line}" for line in described(lost, disk.written_back_s())]
        return Proof(gone and dead, [*process.evidence, *lines])

    def leftover_state(self, node: Node) -> list[str]:
        disk = node.own_disk
        faults = disk.power_losses() if disk is not None else []
        return [f"{node.name}: its disk has lost power by {fault}" for fault in faults]


def described(lost: PowerLoss, written_back_s: tuple[float, float]) -> list[str]:
    """What a loss of power did, in sentences."""
    bytes_before = sum(each.size_bytes for each in lost.before.values())
    bytes_after = sum(each.size_bytes for each in lost.after.values())
    kept_before = sum(each.allocated_bytes for each in lost.before.values())
    kept_after = sum(each.allocated_bytes for each in lost.after.values())
    early_s, late_s = written_back_s
    ours = f"of {lost.canary_written:,} bytes in our file, {lost.canary_synced:,} of them fsynced"
    was = f"{len(lost.before)} files of {bytes_before:,} bytes ({kept_before:,} on the disk)"
    now = f"{len(lost.after)} of {bytes_after:,} ({kept_after:,} on the disk) after"
    return [
        f"{lost.device}, a loop device over our image, lost power: {ours}, {lost.canary_left:,} "
        "are left",
        f"{was} before, {now}{_changed(lost)}",
        f"the kernel writes back by itself what is {early_s:g} to {late_s:g} s old: that may be "
        "left without having been fsynced",
    ]


def _changed(lost: PowerLoss) -> str:
    """The files that are smaller or gone, the largest loss first."""
    losses = []
    for path, was in lost.before.items():
        now = lost.after.get(path)
        if now is None:
            losses.append((was.allocated_bytes, f"{path} is gone"))
        elif now != was:
            sizes = f"{was.size_bytes:,} to {now.size_bytes:,} bytes"
            kept = f"{was.allocated_bytes:,} to {now.allocated_bytes:,} on the disk"
            losses.append((was.allocated_bytes - now.allocated_bytes, f"{path}: {sizes} ({kept})"))
    shown = [text for _, text in sorted(losses, reverse=True)[:_SHOWN]]
    more = [f"and {len(losses) - _SHOWN} more"] if len(losses) > _SHOWN else []
    return "".join(f"; {text}" for text in [*shown, *more])


def _own(node: Node) -> OwnDisk:
    disk = node.own_disk
    if disk is None:
        raise HarnessFailure(f"{node.name}: it does not store on its own disk")
    return disk


_STOP_S: Final = 90
_UP_S: Final = 60
_TROUBLE: Final = ("ERROR", "FATAL", "Exception", "rror:")
_LONGEST: Final = 300


@dataclass(frozen=True)
class Program:
    """A program for nodes: the plan by which it was prepared, its image, and each node by name."""

    plan: Plan
    image_id: str
    nodes: Mapping[str, NodeSpec]


@dataclass(frozen=True)
class ProgramLever(Lever[ProgramRecord]):
    """Replaces the program of a node; `install` starts an image in the place of a process that has
    ended."""

    nodes: Mapping[str, Node]
    target: Target[Any]
    programs: Mapping[str, Program]
    install: Callable[[str, NodeSpec], None]
    name: ClassVar[str] = "program"

    def unavailable(self, node: Node, record: ProgramRecord) -> str | None:
        program = self.programs.get(record.to)
        if program is None or node.name not in program.nodes:
            return f"{node.name}: {record.to!r} was not prepared as a program for it"
        return None

    def capture_prior_state(self, record: ProgramRecord) -> ProgramRecord:
        """What it reports before."""
        had, found = self._reported(record)
        return replace(record, found=found, had=had)

    def apply(self, record: ProgramRecord) -> None:
        """Stop its process, and start the other program."""
        node, program = self.nodes[record.node], self.programs[record.to]
        if (pid := node.pid()) is not None:
            node.send_signal(signal := "KILL" if record.kill else "TERM", pid)
            if not poll_until(lambda: not node.process().running, within_s=_STOP_S):
                raise HarnessFailure(f"{record.node} still ran {_STOP_S} s after {signal}")
        self.install(program.image_id, program.nodes[record.node])

    def undo(self, record: ProgramRecord) -> None:
        """Nothing: it stays."""

    def probe(self, record: ProgramRecord, *, applied: bool) -> Proof:
        """In force: the node itself reports the program, and did not before."""
        if not applied:
            return Proof(True, [])  # nothing was to be undone
        node, answer = self.nodes[record.node], (False, "")

        def seen() -> bool:
            nonlocal answer
            answer = self._reported(record)
            return answer[0] or not node.process().running

        poll_until(seen, within_s=_UP_S, every_s=0.3)
        before = f" (before: {record.found})" if record.found and answer[0] else ""
        return Proof(answer[0] and not record.had, [f"{node.name}: {answer[1]}{before}"])

    def _reported(self, record: ProgramRecord) -> tuple[bool, str]:
        node, state = self.nodes[record.node], self.nodes[record.node].process()
        if state.running:
            return self.target.has_program(node, self.programs[record.to].plan)
        lines = [
            line
            for _, log in sorted(self.target.logs(node).items())
            for line in log.decode(errors="replace").splitlines()
            if any(word in line for word in _TROUBLE)
        ]
        last = f": {lines[-1].strip()[:_LONGEST]}" if lines else ""
        return False, f"its process ended with exit code {state.exit_code}{last}"
