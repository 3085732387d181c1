"""The stress lever: processes of ours beside the target's, that burn CPU or hold memory.

They run where the target's process runs (`Node.run`), so they share its limits: its part of the
CPU and its memory limit. All that they need of the target's image is a POSIX shell and `sleep`.
Each is known by its last arguments, which name its fault; each ends by itself after a time, even if
nobody is left to undo it, and offers itself first when the kernel looks for memory.

That the loops run does not show that they took anything from anybody. What the system lost is read
from the kernel, against what it said before (`look`): how long the threads of the target's process
were ready to run and waited for a CPU (`/proc/PID/task/*/schedstat`; whoever had the CPU meanwhile,
so a host that others crowd shows too), and how often the node's memory was at its limit, so that
something had to give way. An idle process waits for nothing, whatever burns beside it.

Token: {"node", "fault", "busy_count": 2, "memory_mb": 0, "at_most_s": 600,
        "pid": 7, "waited_ns": 12000, "reclaims": 0}
The last three come from `look`, null where the kernel does not say; older tokens lack them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from harness.errors import HarnessFailure
from harness.levers.commands import must
from harness.levers.waiting import poll_until
from harness.protocols import Node, Proof, Token

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
_DETACHED = (
    'n=$1; shift; while [ $n -gt 0 ]; do "$@" < /dev/null > /dev/null 2>&1 & n=$((n-1)); done'
)


@dataclass(frozen=True)
class StressLever:
    """Adds load to a node; undone by ending it."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "stress"

    def look(self, token: Token) -> Token:
        """How long the process has waited for a CPU so far, and how often memory was short."""
        node = self.nodes[token["node"]]
        found: Token = {"pid": None, "waited_ns": None, "reclaims": None}
        with suppress(HarnessFailure):
            found["pid"] = node.pid()
            found["waited_ns"] = _waited_ns(node, found["pid"])
            found["reclaims"] = _reclaims(node) if token["memory_mb"] else None
        return {**token, **found}

    def apply(self, token: Token) -> None:
        """Start what does not run already."""
        node = self.nodes[token["node"]]
        for kind, script, count in (
            ("cpu", _BURN, token["busy_count"]),
            ("memory", _HOLD, min(1, token["memory_mb"])),
        ):
            missing = count - len(_ours(node, token["fault"], kind))
            if missing > 0:
                _start(node, missing, _BEGIN + script, token, kind)

    def undo(self, token: Token) -> None:
        """End every process of this fault. Raises HarnessFailure when one stays."""
        node, fault = self.nodes[token["node"]], token["fault"]

        def gone() -> bool:
            pids = _ours(node, fault)
            if pids:
                node.admin(["kill", "-KILL", *map(str, pids)])
            return not pids

        if not poll_until(gone, within_s=_SEEN_S):
            raise HarnessFailure(f"{node.name}: processes of {fault} cannot be ended")

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: every busy loop takes CPU while it is looked at, and as much memory as asked is
        held; `met` is what the system lost by it. Undone: no process of this fault is left."""
        node, fault = self.nodes[token["node"]], token["fault"]
        if not applied:
            left = len(_ours(node, fault))
            return Proof(left == 0, [f"{node.name}: {left} processes of this fault left"])
        proofs = []
        if token["busy_count"]:
            proofs.append(_burning(node, fault, token["busy_count"]))
            proofs.append(_taken_cpu(node, token))
        if token["memory_mb"]:
            proofs.append(_holding(node, fault, token["memory_mb"]))
            proofs.append(_taken_memory(node, token))
        return Proof(
            bool(proofs) and all(proof.proven for proof in proofs),
            [sentence for proof in proofs for sentence in proof.evidence],
            min((proof.met for proof in proofs if proof.met is not None), default=None),
        )

    def leftover_state(self, node: Node) -> list[str]:
        """Any process of ours, of whatever fault."""
        return [f"{node.name}: process {pid} of {mark}" for pid, mark in _marked(node)]


def _start(node: Node, count: int, script: str, token: Token, kind: str) -> None:
    limits = [str(round(token["at_most_s"])), str(token["memory_mb"])]
    ours = ["/bin/sh", "-c", script, f"ackloss/{token['fault']}/{kind}", *limits]
    begun = node.run(["/bin/sh", "-c", _DETACHED, "sh", str(count), *ours])
    if begun.exit_code:
        raise HarnessFailure(f"{node.name}: no load could be started: {begun.output.strip()[:300]}")


def _marked(node: Node) -> list[tuple[int, str]]:
    """Process and mark of everything that this lever has started on a node."""
    found = []
    for line in must(node, ["ps", "-e", "-ww", "-o", "pid=,args="]).splitlines():
        words = line.split()
        if len(words) > 3 and words[-3].startswith("ackloss/"):
            found.append((int(words[0]), words[-3]))
    return found


def _ours(node: Node, fault: str, kind: str | None = None) -> list[int]:
    marks = [f"ackloss/{fault}/{k}" for k in ("cpu", "memory") if kind in (None, k)]
    return [pid for pid, mark in _marked(node) if mark in marks]


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
    told = node.admin(["cat", *(f"/proc/{pid}/stat" for pid in pids)]).output
    return {int(pid): int(user) + int(system) for pid, user, system in _STAT.findall(told)}


def _waited_ns(node: Node, pid: int | None) -> int | None:
    """How long a process's threads were ready to run and did not: null when that is not told."""
    if pid is None:
        return None
    told = node.admin(["sh", "-c", f"cat /proc/{pid}/task/*/schedstat"])
    waits = re.findall(r"(?m)^\d+ (\d+) \d+$", told.output)
    return sum(map(int, waits)) if waits else None


def _taken_cpu(node: Node, token: Token) -> Proof:
    """CPU that the system wanted and did not get, in ms; the same process, since before."""
    if "waited_ns" not in token:
        return Proof(True, [])
    before = token["waited_ns"]
    if before is None:
        return Proof(True, [f"{node.name}: how long its process waits for a CPU is not known"], 0)
    now = _waited_ns(node, token["pid"])
    met = max(0, (now or 0) - before) // 1_000_000
    told = f"its process {token['pid']} was ready to run and waited for a CPU for {met:,} ms"
    return Proof(True, [f"{node.name}: {told} since they began"], met)


def _reclaims(node: Node) -> int | None:
    """How often the node's cgroup was at its memory limit, so that something had to be dropped:
    by the names of cgroup v2 and v1. Null when that is not told."""
    told = node.run(["cat", *_MEMORY_EVENTS]).output
    found = re.search(r"(?m)^max (\d+)$", told) or re.search(r"(?m)^(\d+)$", told)
    return int(found[1]) if found else None


def _taken_memory(node: Node, token: Token) -> Proof:
    if "reclaims" not in token:
        return Proof(True, [])
    before = token["reclaims"]
    if before is None:
        return Proof(True, [f"{node.name}: how often its memory is short is not known"], 0)
    met = max(0, (_reclaims(node) or 0) - before)
    told = f"the node was at its memory limit {met:,} times since"
    gave = "and what the system kept there had to give way" if met else "so nothing gave way"
    return Proof(True, [f"{node.name}: {told}, {gave}"], met)


def _holding(node: Node, fault: str, memory_mb: int) -> Proof:
    def held_mb() -> int:
        told = [
            node.admin(["ps", "-o", "rss=", "-p", str(p)]) for p in _ours(node, fault, "memory")
        ]
        return sum(int(rss) for done in told for rss in done.output.split()) // 1024

    proven = poll_until(lambda: held_mb() >= memory_mb, within_s=_SEEN_S, every_s=0.2)
    return Proof(
        proven, [f"{node.name}: {held_mb()} MiB are held in memory, asked was {memory_mb}"]
    )
