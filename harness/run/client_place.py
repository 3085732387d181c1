"""The place of a client that is a process of the user's: its process, what is in flight there, and
whether there may be another one. All input and output goes through the process."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from harness.protocols import Completion, Invoke
from harness.protocols.conduct import INCIDENTS
from harness.run.client_lines import Lie, NotInFlight, answer_of, invoke_line
from harness.run.client_process import ClientProcess

STARTS: Final = 6
"""How often a place is filled, including the first time, unless a fault has emptied it."""


@dataclass(eq=False)
class Place:
    """A real client's place. Operations are numbered by process, from 1.

    process      who is there; `None`: it is away
    ready        whether it accepts operations
    again_ns     when another one is to be started
    retired      whether there will be none
    kept_dead    the faults that keep it away
    """

    number: int
    process: ClientProcess | None = None
    ready: bool = False
    begun_ns: int = 0
    starts: int = 0
    again_ns: int | None = None
    retired: bool = False
    kept_dead: set[str] = field(default_factory=set)
    _troubles: int = 0
    _functions: dict[int, str] = field(default_factory=dict)
    _deadlines: deque[tuple[int, int]] = field(default_factory=deque)
    _given_up: set[int] = field(default_factory=set)
    _last_id: int = 0
    _answered_id: int = 0

    @property
    def pending(self) -> dict[int, int]:
        """The workload's processes that wait for an answer, by operation."""
        return self.process.pending if self.process is not None else {}

    def hand_over(self, process: int, op: Invoke, deadline_ns: int) -> bool:
        """Hand an operation over. False: no client is there, or it does not read what it got."""
        if self.process is None or self.process.full:
            return False
        self._last_id += 1
        self.process.write(invoke_line(self._last_id, op))
        self.process.pending[self._last_id] = process
        self._functions[self._last_id] = op[0]
        self._deadlines.append((deadline_ns, self._last_id))
        return True

    def answer(self, line: bytes, model: str) -> tuple[int, Completion] | None:
        """Which operation a line answers, and how it ended; `None`: one that was given up. Raises
        Lie and Failed."""
        try:
            answer = answer_of(line, self._functions, model)
        except NotInFlight as lie:
            if lie.number in self._given_up:
                self._given_up.discard(lie.number)
                return None
            if 0 < lie.number <= self._last_id:
                raise Lie(f"it answers operation {lie.number} a second time") from None
            raise Lie(f"it answers operation {lie.number}, which it was not given") from None
        self._answered_id = max(self._answered_id, answer.id)
        return answer.id, answer.ended

    def overdue(self, now_ns: int) -> int | None:
        """The next operation that has waited for too long; each is named once."""
        while self._deadlines:
            deadline_ns, number = self._deadlines[0]
            if number in self._functions and deadline_ns > now_ns:
                return None
            self._deadlines.popleft()
            if number in self._functions:
                return number
        return None

    def function(self, number: int) -> str:
        """What an operation in flight does."""
        return self._functions[number]

    def silent(self, number: int) -> bool:
        """Whether neither this operation nor one that was handed over later was answered."""
        return self._answered_id < number

    def finish(self, number: int, *, given_up: bool = False) -> int:
        """An operation is no longer in flight: the workload's process that waited for it."""
        if given_up:
            self._given_up.add(number)
        del self._functions[number]
        return self.pending.pop(number)

    def forget(self) -> None:
        """Another process has other operations."""
        self._functions.clear()
        self._deadlines.clear()
        self._given_up.clear()
        self._last_id = self._answered_id = 0

    def note_trouble(self, kind: str, again_ns: int) -> None:
        """After an incident: another one is started then, unless that is useless."""
        self._troubles += 1
        self.retired = kind in (INCIDENTS.lie, INCIDENTS.flood) or self._troubles >= STARTS
        if not self.retired:
            self.again_ns = again_ns
