"""The pause lever: stops the target's process on a node (SIGSTOP), and lets it go on (SIGCONT).

A stopped process is known by the state of its threads, every one of them. Whose doing it is, is
written on the node: one empty file for each fault that wants the process stopped. So where faults
overlap the process goes on only when the last of them is healed, and one that somebody else has
stopped is not let go on.

A process that somebody else had stopped already is not stopped by the fault: nothing met it.

Token: {"node", "fault", "pid": 17, "stopped": false (before, by no fault of ours: from `look`)}; a
null pid: there was no process to stop
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from harness.errors import HarnessFailure
from harness.levers.commands import must
from harness.levers.waiting import poll_until
from harness.protocols import Node, Proof, Token

_FOLDER = "/run"
_STOPPED = "T"
_SEEN_S = 5


@dataclass(frozen=True)
class PauseLever:
    """Stops the target's process where it is; undone by letting the same process go on."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "pause"

    def look(self, token: Token) -> Token:
        """Whether somebody else has stopped the process already."""
        node, pid = self.nodes[token["node"]], token["pid"]
        stopped = False
        with suppress(HarnessFailure):
            stopped = _STOPPED in _states(node, pid) and not _wanted_by(node, pid)
        return {**token, "stopped": stopped}

    def apply(self, token: Token) -> None:
        """Write down whose doing it is, then stop the process."""
        node, pid = self.nodes[token["node"]], token["pid"]
        if pid is None:
            return  # it was dead before: the probe says so
        must(node, ["touch", f"{_FOLDER}/{_prefix(pid)}{token['fault']}"])
        _signal(node, "STOP", pid)

    def undo(self, token: Token) -> None:
        """Let it go on unless another fault wants it stopped; nothing when this one does not."""
        node, pid, fault = self.nodes[token["node"]], token["pid"], token["fault"]
        wanted = _wanted_by(node, pid)
        if fault not in wanted:
            return
        if wanted == [fault]:
            _signal(node, "CONT", pid)
        must(node, ["rm", "-f", f"{_FOLDER}/{_prefix(pid)}{fault}"])

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: every thread is stopped. Undone: the same process runs, or another fault is
        what still stops it."""
        node, pid = self.nodes[token["node"]], token["pid"]
        others = [fault for fault in _wanted_by(node, pid) if fault != token["fault"]]
        stopped = applied or bool(others)

        def as_wanted() -> bool:
            states = _states(node, pid)
            return bool(states) and all((state == _STOPPED) == stopped for state in states)

        proven = poll_until(as_wanted, within_s=_SEEN_S)
        also = f", paused by {', '.join(others)} too" if others else ""
        before = bool(token.get("stopped"))
        also += ", as it did before, by somebody else" if before else ""
        evidence = [f"{node.name}: process {pid} {_told(_states(node, pid))}{also}"]
        return Proof(proven, evidence, 0 if applied and before else None)

    def leftover_state(self, node: Node) -> list[str]:
        """A process that is stopped, by whomever."""
        pid = node.pid()
        states = _states(node, pid)
        return [f"{node.name}: process {pid} {_told(states)}"] if _STOPPED in states else []


def _prefix(pid: int | None) -> str:
    return f"ackloss.paused.{pid}."


def _wanted_by(node: Node, pid: int | None) -> list[str]:
    """The faults that want this process stopped."""
    names = must(node, ["ls", _FOLDER]).split()
    return [name.removeprefix(_prefix(pid)) for name in names if name.startswith(_prefix(pid))]


def _states(node: Node, pid: int | None) -> list[str]:
    """The state of each thread of a process; none: there is no such process."""
    if pid is None:
        return []
    looked = node.admin(["ps", "-L", "-o", "state=", "-p", str(pid)])
    if looked.exit_code not in (0, 1):  # 1: there is no such process
        raise HarnessFailure(f"{node.name}: ps failed: {looked.output.strip()[:300]}")
    return looked.output.split()


def _told(states: list[str]) -> str:
    if not states:
        return "is not there"
    if _STOPPED not in states:
        return f"goes on: none of its {len(states)} threads is stopped"
    return f"has State: T (stopped) in {states.count(_STOPPED)} of {len(states)} threads"


def _signal(node: Node, signal: str, pid: int) -> None:
    """Send it; one that is dead by now, by another fault, needs none."""
    sent = node.admin(["kill", f"-{signal}", str(pid)])
    if sent.exit_code and _states(node, pid):
        raise HarnessFailure(f"{node.name}: the signal was refused: {sent.output.strip()[:300]}")
