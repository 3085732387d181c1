"""A client of the workload whose real clients are processes of the user's (`--client CMD`).

Each process of the workload belongs to one of them, or while that one is away, to another. They are
judged, so nothing that they do may end the run, and every violation of the protocol is noted
(`harness.protocols.runs.Conduct`):

    lie      an answer to an operation that is not in flight, twice, or a line that nobody may write
    flood    a line longer than `MAX_LINE`, more on stderr than is kept
    hang     an operation waits for longer than `answer_within_s`, and so does all that was handed
             over after it; or the process has not ended some seconds after the close line
    death    it ends, or does not become ready
    blocked  an operation waits for longer than that while later ones are answered: it is given up

One that lies or floods stdout is ended and not started again: nothing that it writes can be
trusted, and another one would be the same program. One that hangs or dies is ended and started
again, as supervisors of applications do, so that the load continues and meets the fault; but no
more than `STARTS` times, since what dies at every start measures nothing but starts. What was in
flight in a process that ended is unknown.

A fault of the family `client` kills a process with SIGKILL, which is not an incident.
"""

from __future__ import annotations

import selectors
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from harness.errors import EnvironmentFailure
from harness.protocols import INFO, Client, Completion, Done, Invoke, completion
from harness.protocols.clock import Clock
from harness.protocols.crashes import ClientState, Crashes
from harness.protocols.runs import COUNTED, INCIDENTS, Conduct, Incident
from harness.run.client_process import (
    CLOSE,
    ClientProcess,
    Ended,
    Failed,
    Lie,
    NotInFlight,
    Ready,
    TooLong,
    answer_of,
    exit_in_words,
    invoke_line,
    ready_of,
)
from harness.run.crashing import Crash, HandedOver, routes

# What the processes of `--client` do in a run, noted as it happens; any thread may add to it.

KEPT: Final = 100
"""How many incidents are kept with their sentences; all are counted."""

_FIELD: Final = dict(zip(INCIDENTS, COUNTED, strict=True))


class Notes:
    """What the processes of a run have done; all threads may add to it."""

    def __init__(self, clock: Clock, command: Sequence[str] = ()) -> None:
        self._clock, self._command = clock, tuple(command)
        self._zero_ns = clock.now_ns()
        self._lock = threading.Lock()
        self._counts = dict.fromkeys((*COUNTED, "started", "late", "ended"), 0)
        self._incidents: list[tuple[int, Incident]] = []
        self._software: dict[str, None] = {}

    def begin_at(self, zero_ns: int) -> None:
        """Times are counted from here on."""
        self._zero_ns = zero_ns

    def incident(self, client: int, kind: str, what: str) -> None:
        """Note one incident of a client."""
        now_ns = self._clock.now_ns()
        with self._lock:
            self._counts[_FIELD[kind]] += 1
            if len(self._incidents) < KEPT:
                incident = Incident(client=client, at_s=0.0, kind=kind, what=what)
                self._incidents.append((now_ns, incident))

    def count(self, name: str, number: int = 1) -> None:
        """Count `started`, `late` or `ended`."""
        with self._lock:
            self._counts[name] += number

    def runs(self, software: Ready) -> None:
        """Note what a process states about itself."""
        with self._lock:
            self._software[str(software)] = None

    @property
    def software(self) -> str:
        """What processes have stated about themselves."""
        return ", ".join(self._software)

    def conduct(self) -> Conduct:
        """All of it."""
        with self._lock:
            incidents = tuple(
                replace(each, at_s=round((at_ns - self._zero_ns) / 1e9, 3))
                for at_ns, each in self._incidents
            )
            return Conduct(
                command=self._command,
                software=self.software,
                incidents=incidents,
                **self._counts,
            )


# The place of a client that is a process of the user's: its process, what is in flight there, and
# whether there may be another one. All input and output goes through the process.

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


CLIENT_LIED: Final = "CLIENT_LIED"
CLIENT_DIED: Final = "CLIENT_DIED"
CLIENT_HUNG: Final = "CLIENT_HUNG"
CLIENT_CRASHED: Final = "CLIENT_CRASHED"
CLIENT_BLOCKED: Final = "CLIENT_BLOCKED"
UNANSWERED: Final = "UNANSWERED"
"""The errors of operations that no process has answered."""

START_S: Final = 60.0
"""How long a process may take until it is ready."""

AGAIN_S: Final = 0.5
CLOSE_S: Final = 5.0
"""How long a process may take to end after the close line."""

_GRACE_S: Final = 0.5
"""How long a process that has closed its stdout may take to exit."""

_BURIED_S: Final = 15.0

Start = Callable[[int, int], ClientProcess]
"""Starts the nth process of a place, both from 1."""


class ExecClient(Client, Crashes):
    """See `harness.protocols.Client` and `Crashes`."""

    def __init__(
        self,
        start: Start,
        *,
        places: int,
        model: str,
        answer_within_s: float,
        clock: Clock,
        notes: Notes,
    ) -> None:
        """Start all processes and wait until they are ready. Raises EnvironmentFailure when one
        does not become ready."""
        self._start_one, self._model, self._notes = start, model, notes
        self._now_ns = clock.now_ns
        self._within_ns = round(answer_within_s * 1e9)
        self._places = [Place(number) for number in range(1, places + 1)]
        self._routes: list[Place | None] = [None] * places
        self._selector = selectors.DefaultSelector()
        self._handed_over = HandedOver()
        self._crashes: dict[tuple[int, str], Crash] = {}
        self._burials: list[threading.Thread] = []
        self._beginning, self._closing, self._closed = True, False, False
        self._done: Done = _nobody
        try:
            for place in self._places:
                self._start(place)
            while not all(place.ready for place in self._places):
                self._turn(0.05)
        finally:
            whole, self._beginning = all(place.ready for place in self._places), False
            if not whole:
                self.end()

    def submit(self, process: int, op: Invoke) -> bool:
        """Hand an operation over. False: no process is there, or it does not read what it got."""
        place = self._routes[process % len(self._routes)]
        return place is not None and place.hand_over(process, op, self._now_ns() + self._within_ns)

    def poll(self, timeout_s: float, done: Done) -> None:
        """Write what was handed over, take what was answered, end what is overdue."""
        self._done = done
        if self._handed_over:
            self._handed_over.make_one(0)
        self._turn(timeout_s)

    def close(self, timeout_s: float, done: Done) -> None:
        """Wait for answers, then for the processes to end; the rest is unknown."""
        self._done = done
        self._handed_over.close()
        self._turn_until(lambda: not any(place.pending for place in self._places), timeout_s)
        self._closing = True
        for place in self._places:
            if place.process is not None and place.ready:
                place.process.write(CLOSE)
            else:
                self._end(place, UNANSWERED)  # one that is still starting has done nothing wrong
        self._turn_until(lambda: not any(place.process for place in self._places), CLOSE_S)
        for place in self._places:
            what = f"it had not ended {CLOSE_S:g} s after the close line"
            self._end(place, UNANSWERED, INCIDENTS.hang, what)
        self.end()

    def end(self) -> None:
        """Kill what is left, without a word; harmless when nothing is."""
        if self._closed:
            return
        self._closed = self._closing = True
        for place in self._places:
            self._end(place, UNANSWERED)
        for burial in self._burials:
            burial.join(_BURIED_S)
        self._selector.close()

    def crash(self, number: int, fault: str, *, at_once: bool) -> None:
        place = self._places[number - 1]
        self._handed_over.ask(partial(self._crash, place, fault, at_once=at_once))

    def replace(self, number: int, fault: str) -> None:
        place = self._places[number - 1]
        if fault in place.kept_dead and not self._closing:
            self._handed_over.ask(partial(self._replace, place, fault))

    def state(self, number: int, fault: str) -> ClientState:
        place, crash = self._places[number - 1], self._crashes.get((number, fault))
        process = place.process
        return ClientState(
            alive=process.name if process is not None and place.ready else None,
            kept_dead_by=frozenset(place.kept_dead),
            death=crash.report() if crash else None,
        )

    def _crash(self, place: Place, fault: str, *, at_once: bool) -> None:
        if (place.number, fault) in self._crashes:
            return
        while self._hear(place):
            pass  # what it has answered is answered: only the rest is unknown
        process = place.process
        self._crashes[place.number, fault] = Crash(died=process, unknown=len(place.pending))
        self._end(place, CLIENT_CRASHED)
        if not at_once:
            place.kept_dead.add(fault)
        elif process:
            self._start(place)

    def _replace(self, place: Place, fault: str) -> None:
        place.kept_dead.discard(fault)
        if place.process is None and not (place.kept_dead or place.again_ns or place.retired):
            self._start(place)

    def _start(self, place: Place) -> None:
        place.starts += 1
        place.again_ns, place.ready = None, False
        place.begun_ns = self._now_ns()
        place.process = self._start_one(place.number, place.starts)
        self._notes.count("started")
        self._selector.register(place.process.stdout, selectors.EVENT_READ, place)

    def _is_due(self, place: Place) -> bool:
        """Whether another process is to take the place."""
        away = place.process is None and not place.kept_dead and not self._closing
        return away and place.again_ns is not None and self._now_ns() >= place.again_ns

    def _turn_until(self, over: Callable[[], bool], at_most_s: float) -> None:
        deadline_ns = self._now_ns() + round(at_most_s * 1e9)
        while not over() and (left_ns := deadline_ns - self._now_ns()) > 0:
            self._turn(min(0.05, left_ns / 1e9))

    def _turn(self, timeout_s: float) -> None:
        """Write, wait, read, and see to those that are late or away."""
        for place in self._places:
            if place.process is not None:
                self._write(place, place.process)
        heard = set()
        for key, _ in self._selector.select(timeout_s):
            place = key.data
            if key.fileobj is getattr(place.process, "stdout", None):
                heard.add(place)
                self._hear(place)
        for place in self._places:
            if place.process is not None and place not in heard:
                self._expire(place)
            elif self._is_due(place):
                self._start(place)

    def _write(self, place: Place, process: ClientProcess) -> None:
        if process.stdin.closed:
            return
        watched = process.stdin in self._selector.get_map()
        if process.flush():
            if watched:
                self._selector.unregister(process.stdin)
            if self._closing:
                process.end_input()
        elif not watched:
            self._selector.register(process.stdin, selectors.EVENT_WRITE, place)

    def _hear(self, place: Place) -> bool:
        """Take the lines that a place's process has written, a block at most; whether there were
        any."""
        process = place.process
        if process is None:
            return False
        try:
            lines = process.lines()
            for line in lines:
                self._take(place, line)
            return bool(lines)
        except Ended:
            self._ended(place)
        except TooLong:
            self._end(place, CLIENT_LIED, INCIDENTS.flood, "it writes a line of more than 1 MiB")
        except Lie as lie:
            self._end(place, CLIENT_LIED, INCIDENTS.lie, str(lie))
        except Failed as failed:
            self._end(place, CLIENT_DIED, INCIDENTS.death, f"it cannot be a client: {failed}")
        return False

    def _ended(self, place: Place) -> None:
        self._end(place, UNANSWERED if self._closing else CLIENT_DIED, INCIDENTS.death)

    def _take(self, place: Place, line: bytes) -> None:
        assert place.process is not None
        if not place.ready:
            self._notes.runs(ready_of(line))
            place.ready = True
            for (number, _), crash in self._crashes.items():
                if number == place.number and crash.successor is None:
                    crash.successor = place.process.name
            self._route()
            return
        answered = place.answer(line, self._model)
        if answered is None:
            self._notes.count("late")
        else:
            number, ended = answered
            self._done(place.finish(number), ended)

    def _expire(self, place: Place) -> None:
        """Give up what waits for too long; a process that says nothing at all is ended."""
        now_ns = self._now_ns()
        if not place.ready and now_ns - place.begun_ns > START_S * 1e9:
            self._end(place, CLIENT_HUNG, INCIDENTS.hang, f"it is not ready after {START_S:g} s")
        while place.process is not None and (number := place.overdue(now_ns)) is not None:
            waited = f"operation {number} ({place.function(number)}) has no answer after "
            waited += f"{self._within_ns / 1e9:g} s"
            if place.silent(number):
                self._end(place, CLIENT_HUNG, INCIDENTS.hang, f"it says nothing: {waited}")
                return
            self._notes.incident(place.number, INCIDENTS.blocked, waited)
            blocked = completion(INFO, error=CLIENT_BLOCKED)
            self._done(place.finish(number, given_up=True), blocked)

    def _end(self, place: Place, error: str, kind: str | None = None, what: str = "") -> None:
        """End a place's process, if there is one: what is in flight in it is unknown. `kind`: the
        incident that this is, none if `None`; `what`: in words, by default how it ended."""
        process, place.process, place.ready = place.process, None, False
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if not pipe.closed and pipe in self._selector.get_map():
                self._selector.unregister(pipe)
        waiting = list(process.pending.values())
        if self._beginning:
            code = process.end(_GRACE_S)
            raise _not_ready(place.number, process, what or exit_in_words(code))
        if kind is not None and not self._closing:
            self._notes.count("ended", len(waiting))
            place.note_trouble(kind, self._now_ns() + round(AGAIN_S * 1e9))
        place.forget()
        process.pending.clear()
        after = "; it is not started again" if place.retired else ""
        self._bury(place.number, process, kind, what, after)
        self._route()
        for each in waiting:
            self._done(each, completion(INFO, error=error))

    def _bury(
        self, number: int, process: ClientProcess, kind: str | None, what: str, after: str
    ) -> None:
        """End a process in its own thread, which waits for it, and note the incident."""
        closing = self._closing

        def bury() -> None:
            code = process.end(CLOSE_S / 2 if closing else _GRACE_S if not what else 0)
            if kind is None or (closing and not what and code == 0):
                return
            sentence = what or exit_in_words(code)
            self._notes.incident(number, kind, f"{sentence}{after}")

        burial = threading.Thread(target=bury, name=f"end {process.name}", daemon=True)
        burial.start()
        self._burials.append(burial)

    def _route(self) -> None:
        """Deal the processes out again: those of a place that is away over the others."""
        self._routes = routes([place if place.ready else None for place in self._places])


def _not_ready(number: int, process: ClientProcess, what: str) -> EnvironmentFailure:
    last = process.log.last_line()
    return EnvironmentFailure(
        f"client {number} did not become ready: {what}",
        file=str(process.log.path),
        hint=f"the last line of its log: {last}" if last else "its log is empty",
    )


def _nobody(_: int, __: Completion) -> None:
    """Stands for the interpreter until it polls."""
