"""The stress lever: processes of ours beside the target's, which burn CPU or hold memory.

They run where the target's process runs (`Node.run`), so they share its limits: its share of the
CPU and its memory limit. They need no more of the target's image than a POSIX shell and `sleep`.
Each is identified by its last arguments, which name its fault; each ends by itself after a time,
even if nobody is left to undo it, and is the first to be killed when the kernel needs memory.

Running loops alone do not show that they took CPU time from the system. What the system lost is
read from the kernel and compared with its state before: how long the threads of the target's
process were ready to run and waited for a CPU (`/proc/PID/task/*/schedstat`; whichever process had
the CPU meanwhile, so a crowded host shows too), and how many times the node's memory was at its
limit, so that something had to be dropped. An idle process waits for nothing, whatever burns beside
it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar

from harness.errors import HarnessFailure
from harness.faults.records import StressRecord
from harness.levers.commands import must, poll_until
from harness.protocols import Lever, Node, Proof

_LOOK_S = 1.0
_SEEN_S = 10
_TICKS_PER_S = 100
_MEMORY_EVENTS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.failcnt")
_STAT = re.compile(r"^(\d+) \(.*\)" + r" \S+" * 11 + r" (\d+) (\d+)", re.MULTILINE)
# Everything is a builtin of the shell but sleep. $1: for how many seconds, $2: how many MiB.
_BEGIN = (
    "echo 1000 > /proc/self/oom_score_adj; read up _ < /proc/uptime; end=$((${up%.*} + $1)); i=0; "
)
_ALIVE = "read up _ < /proc/uptime && [ ${up%.*} -lt $end ]"
_BURN = f"while {_ALIVE}; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; done"
_HOLD = (
    "c=x; while [ ${#c} -lt 1048576 ]; do c=$c$c; done; "
    'while [ $i -lt $2 ]; do eval "v$i=\\$c"; i=$((i+1)); done; '
    f"while {_ALIVE}; do sleep 1; done"
)


@dataclass(frozen=True)
class StressLever(Lever[StressRecord]):
    """Adds load to a node; undone by ending it."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "stress"

    def unavailable(self, node: Node, record: StressRecord) -> str | None:
        answer = node.run(["/bin/sh", "-c", "read up _ < /proc/uptime && sleep 0"])
        if answer.exit_code == 0:
            return None
        return f"{node.name} has no usable shell: {answer.output.strip()[:200]}"

    def capture_prior_state(self, record: StressRecord) -> StressRecord:
        """How long the process has waited for a CPU so far, and how many times memory was short."""
        node = self.nodes[record.node]
        with suppress(HarnessFailure):
            record = replace(record, pid=(pid := node.pid()))
            record = replace(record, waited_ns=_waited_ns(node, pid))
            record = replace(record, reclaims=_reclaims(node) if record.memory_mb else None)
        return record

    def apply(self, record: StressRecord) -> None:
        node = self.nodes[record.node]
        for kind, script, count in (
            ("cpu", _BURN, record.busy_count),
            ("memory", _HOLD, min(1, record.memory_mb)),
        ):
            missing = count - len(_ours(node, record.fault, kind))
            if missing > 0:
                _start(node, missing, _BEGIN + script, record, kind)

    def undo(self, record: StressRecord) -> None:
        """End every process of this fault. Raises HarnessFailure when one remains."""
        node, fault = self.nodes[record.node], record.fault

        def gone() -> bool:
            pids = _ours(node, fault)
            if pids:
                node.admin(["kill", "-KILL", *map(str, pids)])
            return not pids

        if not poll_until(gone, within_s=_SEEN_S):
            raise HarnessFailure(f"{node.name}: processes of {fault} cannot be ended")

    def probe(self, record: StressRecord, *, applied: bool) -> Proof:
        """In force: every busy loop takes CPU during the probe, and as much memory as requested is
        held; `met` is what the system lost by it. Undone: no process of this fault is left."""
        node, fault = self.nodes[record.node], record.fault
        if not applied:
            left = len(_ours(node, fault))
            return Proof(left == 0, [f"{node.name}: {left} processes of this fault left"])
        proofs = []
        if record.busy_count:
            proofs.append(_burning(node, fault, record.busy_count))
            proofs.append(_taken_cpu(node, record))
        if record.memory_mb:
            proofs.append(_holding(node, fault, record.memory_mb))
            proofs.append(_taken_memory(node, record))
        return Proof(
            bool(proofs) and all(proof.proven for proof in proofs),
            [sentence for proof in proofs for sentence in proof.evidence],
            min((proof.met for proof in proofs if proof.met is not None), default=None),
        )

    def leftover_state(self, node: Node) -> list[str]:
        return [f"{node.name}: process {pid} of {mark}" for pid, mark in _marked(node)]


def _start(node: Node, count: int, script: str, record: StressRecord, kind: str) -> None:
    limits = [str(round(record.at_most_s)), str(record.memory_mb)]
    ours = ["/bin/sh", "-c", script, f"ackloss/{record.fault}/{kind}", *limits]
    wanted = len(_ours(node, record.fault, kind)) + count
    node.begin(ours, count=count)
    poll_until(lambda: len(_ours(node, record.fault, kind)) >= wanted, within_s=_SEEN_S)


def _marked(node: Node) -> list[tuple[int, str]]:
    """The pid and the mark of every process that this lever has started on a node."""
    found, own = [], node.processes()
    for line in must(node, ["ps", "-e", "-ww", "-o", "pid=,args="]).splitlines():
        words = line.split()
        of_node = own is None or int(words[0]) in own
        if len(words) > 3 and words[-3].startswith("ackloss/") and of_node:
            found.append((int(words[0]), words[-3]))
    return found


def _ours(node: Node, fault: str, kind: str = "") -> list[int]:
    return [pid for pid, mark in _marked(node) if mark.startswith(f"ackloss/{fault}/{kind}")]


def _burning(node: Node, fault: str, count: int) -> Proof:
    before, begun = _ticks(node, _ours(node, fault, "cpu")), time.monotonic()
    took: dict[int, int] = {}

    def all_burn() -> bool:
        after = _ticks(node, list(before))
        took.update({pid: after[pid] - ticks for pid, ticks in before.items() if pid in after})
        return sum(ticks > 0 for ticks in took.values()) == count

    time.sleep(_LOOK_S)
    proven = poll_until(all_burn, within_s=_SEEN_S, every_s=0.5)  # a crowded host gives little CPU
    burning = [ticks for ticks in took.values() if ticks > 0]
    return Proof(
        proven,
        [
            f"{node.name}: {len(burning)} of {count} busy loops took "
            f"{sum(burning) / _TICKS_PER_S:.2f} s of CPU in {time.monotonic() - begun:.1f} s"
        ],
    )


def _ticks(node: Node, pids: list[int]) -> dict[int, int]:
    """User and system time of processes, in clock ticks."""
    if not pids:
        return {}
    stats = node.admin(["cat", *(f"/proc/{pid}/stat" for pid in pids)]).output
    return {int(pid): int(user) + int(system) for pid, user, system in _STAT.findall(stats)}


def _waited_ns(node: Node, pid: int | None) -> int | None:
    """For how long a process's threads were ready but did not run; None: it is not known."""
    if pid is None:
        return None
    read = node.admin(["sh", "-c", f"cat /proc/{pid}/task/*/schedstat"])
    waits = re.findall(r"(?m)^\d+ (\d+) \d+$", read.output)
    return sum(map(int, waits)) if waits else None


def _taken_cpu(node: Node, record: StressRecord) -> Proof:
    """CPU time that the system wanted and did not get, in ms: by the same process, since before."""
    if record.waited_ns is None:
        evidence = f"{node.name}: how long its process waits for a CPU is not known"
        return Proof(True, [evidence], 0)
    now = _waited_ns(node, record.pid)
    met = max(0, (now or 0) - record.waited_ns) // 1_000_000
    waited = f"its process {record.pid} was ready to run and waited for a CPU for {met:,} ms"
    return Proof(True, [f"{node.name}: {waited} since they began"], met)


def _reclaims(node: Node) -> int | None:
    """How many times the node's cgroup was at its memory limit, so that something had to be
    dropped: by the names of cgroup v2 and v1. None when the kernel does not say."""
    events = node.run(["cat", *_MEMORY_EVENTS]).output
    found = re.search(r"(?m)^max (\d+)$", events) or re.search(r"(?m)^(\d+)$", events)
    return int(found[1]) if found else None


def _taken_memory(node: Node, record: StressRecord) -> Proof:
    if record.reclaims is None:
        evidence = f"{node.name}: how many times its memory was short is not known"
        return Proof(True, [evidence], 0)
    met = max(0, (_reclaims(node) or 0) - record.reclaims)
    effect = "and what the system kept there had to be dropped" if met else "so nothing was dropped"
    evidence = f"{node.name}: the node was at its memory limit {met:,} times since, {effect}"
    return Proof(True, [evidence], met)


def _holding(node: Node, fault: str, memory_mb: int) -> Proof:
    def held_mb() -> int:
        sizes = [
            node.admin(["ps", "-o", "rss=", "-p", str(p)]) for p in _ours(node, fault, "memory")
        ]
        return sum(int(rss) for done in sizes for rss in done.output.split()) // 1024

    proven = poll_until(lambda: held_mb() >= memory_mb, within_s=_SEEN_S, every_s=0.2)
    evidence = f"{node.name}: {held_mb()} MiB are held in memory, {memory_mb} requested"
    return Proof(proven, [evidence])
