"""The program lever: a node gets another program, such as a newer version, and keeps its data.

Its process is asked to stop (TERM), as an operator would, or killed if the plan has it so; then the
cluster installs the other program in its place. One that does not stop in time is not killed, since
the run would show another thing than was planned: the act has failed. All programs of a plan were
prepared before the run began. Nothing is undone: the way back is another fault. What a node then
runs is known from nothing but its own report (`Target.has_program`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from harness.errors import HarnessFailure
from harness.faults.records import ProgramRecord
from harness.levers.commands import poll_until
from harness.plan import Plan
from harness.protocols import Lever, Node, NodeSpec, Proof, Target

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
