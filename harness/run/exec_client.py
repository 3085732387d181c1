"""Clients of the workload that are programs at the other end of a connection: processes of the
user's (`--client CMD`), and programs that a target ships.

The user's are judged, so nothing that they do may end the run, and every violation of the protocol
is noted (`harness.protocols.runs.Conduct`):

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

A target's own programs are trusted (`Settle`): one that is away is started again for as long as the
run lasts, its answers may be late, and what an error proves is decided here and not by them.
"""

from __future__ import annotations

import selectors
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import orjson

from harness.errors import EnvironmentFailure, HarnessFailure
from harness.protocols import INFO, OK, Completion, Done, Invoke, completion
from harness.protocols.clock import Clock
from harness.protocols.runs import COUNTED, INCIDENTS, Conduct, Incident
from harness.run.client_pool import ClientPool, Place
from harness.run.client_process import (
    CLOSE,
    ClientLog,
    Connection,
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

KEPT: Final = 100
"""How many incidents are kept with their sentences; all are counted."""

_FIELD: Final = dict(zip(INCIDENTS, COUNTED, strict=True))


class Notes:
    """What the processes of `--client` do in a run; any thread may add to it."""

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
                command=self._command, software=self.software, incidents=incidents, **self._counts
            )


STARTS: Final = 6
"""How often a place of the user's is filled, including the first time, unless a fault emptied it.
"""


@dataclass(eq=False)
class ConnectionPlace(Place[Connection]):
    """A place, and what is in flight there. Operations are numbered by connection, from 1."""

    begun_ns: int = 0
    software: Ready | None = None
    log: ClientLog | None = None
    _troubles: int = 0
    _functions: dict[int, str] = field(default_factory=dict)
    _deadlines: deque[tuple[int, int]] = field(default_factory=deque)
    _given_up: set[int] = field(default_factory=set)
    _last_id: int = 0
    _answered_id: int = 0

    def hand_over(self, process: int, op: Invoke, deadline_ns: int | None) -> bool:
        """Hand an operation over. False: no client is there, or it does not read what it got.
        `deadline_ns`: `None` of a target's own program."""
        if self.client is None or self.client.full:
            return False
        number = self._last_id = self._last_id + 1
        self.client.write(invoke_line(number, op))
        self.client.pending[number] = process
        if deadline_ns is not None:
            self._functions[number] = op[0]
            self._deadlines.append((deadline_ns, number))
        return True

    def answer(self, line: bytes, model: str) -> tuple[int, Completion] | None:
        """Which operation a line answers, and how it ended; `None`: one that was given up. Raises
        Lie and Failed."""
        try:
            number, ended = answer_of(line, self._functions, model)
        except NotInFlight as lie:
            if lie.number in self._given_up:
                self._given_up.discard(lie.number)
                return None
            if 0 < lie.number <= self._last_id:
                raise Lie(f"it answers operation {lie.number} a second time") from None
            raise Lie(f"it answers operation {lie.number}, which it was not given") from None
        self._answered_id = max(self._answered_id, number)
        return number, ended

    def overdue(self, now_ns: int) -> tuple[int, str] | None:
        """The next operation that has waited for too long, and what it does; each is named once."""
        while self._deadlines:
            deadline_ns, number = self._deadlines[0]
            if number in self._functions and deadline_ns > now_ns:
                return None
            self._deadlines.popleft()
            if number in self._functions:
                return number, self._functions[number]
        return None

    def silent(self, number: int) -> bool:
        """Whether neither this operation nor one that was handed over later was answered."""
        return self._answered_id < number

    def finish(self, number: int, *, given_up: bool = False) -> int:
        """An operation is no longer in flight: the workload's process that waited for it."""
        if given_up:
            self._given_up.add(number)
        del self._functions[number]
        assert self.client is not None
        return self.client.pending.pop(number)

    def empty(self) -> None:
        """Nobody is there any more; the next one has other operations."""
        self.client, self.ready = None, False
        self._functions.clear()
        self._deadlines.clear()
        self._given_up.clear()
        self._last_id = self._answered_id = 0

    def note_trouble(self, kind: str) -> None:
        """After an incident, another client of the user's may be useless."""
        self._troubles += 1
        self.retired = kind in (INCIDENTS.lie, INCIDENTS.flood) or self._troubles >= STARTS


class Errors(NamedTuple):
    """The errors of operations that no program has answered, by what became of it."""

    died: str
    hung: str
    lied: str
    crashed: str
    blocked: str
    unanswered: str


THEIRS: Final = Errors(
    "CLIENT_DIED", "CLIENT_HUNG", "CLIENT_LIED", "CLIENT_CRASHED", "CLIENT_BLOCKED", "UNANSWERED"
)
OURS: Final = Errors(
    "_CLIENT_LOST", "_CLIENT_LOST", "_CLIENT_LOST", "_CRASHED", "_CLIENT_LOST", "_UNREPORTED"
)

Settle = Callable[[str, str, Ready], Completion]
"""What an answer other than ok of a target's own program proves: by its type, its error, and what
the program states about itself."""

START_S: Final = 60.0
"""How long a program may take until it is ready."""

AGAIN_S: Final = 0.5
CLOSE_S: Final = 5.0
"""How long a program may take to end after the close line."""

_GRACE_S: Final = 0.5
"""How long a process that has closed its stdout may take to exit."""

_BURIED_S: Final = 15.0

Start = Callable[[int, int], Connection]
"""Starts the nth program of a place, both from 1."""


class ExecClient(ClientPool[ConnectionPlace]):
    """See `harness.protocols.Client` and `Crashes`."""

    def __init__(
        self,
        start: Start,
        *,
        places: int,
        model: str,
        clock: Clock,
        answer_within_s: float = 0.0,
        notes: Notes | None = None,
        settle: Settle | None = None,
        positions: bool = True,
    ) -> None:
        """Start all programs and wait until they are ready. `answer_within_s`: how long an
        operation of the user's may take. `settle`: they are a target's own; `positions`: what they
        then say of these is true. Raises EnvironmentFailure when one does not become ready."""
        super().__init__([ConnectionPlace(number) for number in range(1, places + 1)])
        self._start_one, self._model = start, model
        self._settle, self._positions = settle, positions
        self._notes = notes or Notes(clock)
        self._errors = OURS if settle else THEIRS
        self._now_ns = clock.now_ns
        self._within_ns = round(answer_within_s * 1e9)
        self._selector = selectors.DefaultSelector()
        self._burials: list[threading.Thread] = []
        self._beginning, self._closing, self._closed = True, False, False
        deadline_ns = self._now_ns() + round(START_S * 1e9)
        try:
            for place in self._places:
                self._start(place)
            while late := [place for place in self._places if not place.ready]:
                if self._now_ns() > deadline_ns:
                    raise _not_ready(late[0], f"it is not ready after {START_S:g} s")
                self._turn(0.05)
        except BaseException:
            self.end()
            raise
        self._beginning = False

    @property
    def software(self) -> list[Ready]:
        """What the programs that are ready state about themselves."""
        return [place.software for place in self._places if place.software]

    def submit(self, process: int, op: Invoke) -> bool:
        """Hand an operation over. False: no program is there, or it does not read what it got."""
        place = self._routes[process % len(self._routes)]
        deadline_ns = None if self._settle else self._now_ns() + self._within_ns
        return place is not None and place.hand_over(process, op, deadline_ns)

    def poll(self, timeout_s: float, done: Done) -> None:
        """Write what was handed over, take what was answered, end what is overdue."""
        self._done = done
        if self._handed_over:
            self._handed_over.make_one(0)
        self._turn(timeout_s)

    def close(self, timeout_s: float, done: Done) -> None:
        """Wait for answers, then for the programs to end; the rest is unknown."""
        self._done = done
        self._handed_over.close()
        self._turn_until(
            lambda: not any(place.client and place.client.pending for place in self._places),
            timeout_s,
        )
        self._closing = True
        for place in self._places:
            if place.client is not None and place.ready:
                place.client.write(CLOSE)
            else:  # one that is still starting has done nothing wrong
                self._end(place, self._errors.unanswered)
        self._turn_until(lambda: not any(place.client for place in self._places), CLOSE_S)
        for place in self._places:
            what = f"it had not ended {CLOSE_S:g} s after the close line"
            self._end(place, self._errors.unanswered, INCIDENTS.hang, what)
        self.end()

    def end(self) -> None:
        """Kill what is left, without a word; harmless when nothing is."""
        if self._closed:
            return
        self._closed = self._closing = True
        self._beginning = False
        for place in self._places:
            self._end(place, self._errors.unanswered)
        for burial in self._burials:
            burial.join(_BURIED_S)
        self._selector.close()

    def _start(self, place: ConnectionPlace) -> None:
        place.starts += 1
        place.again_ns, place.ready = None, False
        place.begun_ns = self._now_ns()
        place.client = self._start_one(place.number, place.starts)
        place.log = place.client.log
        self._notes.count("started")
        self._selector.register(place.client.stdout, selectors.EVENT_READ, place)

    def _hear_out(self, place: ConnectionPlace) -> None:
        while self._hear(place):
            pass

    def _crashed(self, place: ConnectionPlace) -> None:
        self._end(place, self._errors.crashed)

    def _is_due(self, place: ConnectionPlace) -> bool:
        """Whether another program is to take the place."""
        away = place.client is None and not place.kept_dead and not self._closing
        return away and place.again_ns is not None and self._now_ns() >= place.again_ns

    def _turn_until(self, over: Callable[[], bool], at_most_s: float) -> None:
        deadline_ns = self._now_ns() + round(at_most_s * 1e9)
        while not over() and (left_ns := deadline_ns - self._now_ns()) > 0:
            self._turn(min(0.05, left_ns / 1e9))

    def _turn(self, timeout_s: float) -> None:
        """Write, wait, read, and see to those that are late or away."""
        for place in self._places:
            if place.client is not None:
                self._write(place, place.client)
        heard = set()
        for key, _ in self._selector.select(timeout_s):
            place = key.data
            if key.fileobj is getattr(place.client, "stdout", None):
                heard.add(place)
                self._hear(place)
        for place in self._places:
            if place.client is not None and place not in heard:
                self._expire(place)
            elif self._is_due(place):
                self._start(place)

    def _write(self, place: ConnectionPlace, client: Connection) -> None:
        if client.stdin.closed:
            return
        watched = client.stdin in self._selector.get_map()
        if client.flush():
            if watched:
                self._selector.unregister(client.stdin)
            if self._closing:
                client.end_input()
        elif not watched:
            self._selector.register(client.stdin, selectors.EVENT_WRITE, place)

    def _hear(self, place: ConnectionPlace) -> bool:
        """Take the lines that a place's program has written, a block at most; whether there were
        any."""
        if place.client is None:
            return False
        try:
            lines = place.client.lines()
            if self._settle and place.software and place.ready:
                self._take_all(lines, place.client, self._settle, place.software)
            else:
                for line in lines:
                    self._take(place, line)
            return bool(lines)
        except Ended:
            error = self._errors.unanswered if self._closing else self._errors.died
            self._end(place, error, INCIDENTS.death)
        except TooLong:
            what = "it writes a line of more than 1 MiB"
            self._end(place, self._errors.lied, INCIDENTS.flood, what)
        except Lie as lie:
            self._end(place, self._errors.lied, INCIDENTS.lie, str(lie))
        except Failed as failed:
            what = f"it cannot be a client: {failed}"
            self._end(place, self._errors.died, INCIDENTS.death, what)
        return False

    def _take(self, place: ConnectionPlace, line: bytes) -> None:
        if not place.ready:
            place.software = ready_of(line)
            self._notes.runs(place.software)
            self._made_ready(place)
            return
        answered = place.answer(line, self._model)
        if answered is None:
            self._notes.count("late")
            return
        number, ended = answered
        self._done(place.finish(number), ended)

    def _take_all(
        self, lines: list[bytes], client: Connection, settle: Settle, software: Ready
    ) -> None:
        """The same for answers of a target's own program, which are trusted, at a third of the
        cost."""
        pending, done = client.pending, self._done
        try:
            for answer in orjson.loads(b"[%b]" % b",".join(lines)):
                process = pending.pop(answer["id"])
                if answer["type"] == OK:
                    position = answer.get("position") if self._positions else None
                    done(process, (OK, position, None, None, None))
                else:
                    done(process, settle(answer["type"], answer["error"], software))
        except (ValueError, LookupError) as error:
            raise Lie(f"{error!r} in what it answers") from error

    def _expire(self, place: ConnectionPlace) -> None:
        """Give up what waits for too long; a program that says nothing at all is ended."""
        now_ns, hang = self._now_ns(), INCIDENTS.hang
        if not place.ready and not self._beginning and now_ns - place.begun_ns > START_S * 1e9:
            self._end(place, self._errors.hung, hang, f"it is not ready after {START_S:g} s")
        while place.client is not None and (late := place.overdue(now_ns)) is not None:
            number, function = late
            waited = f"operation {number} ({function}) has no answer after "
            waited += f"{self._within_ns / 1e9:g} s"
            if place.silent(number):
                self._end(place, self._errors.hung, hang, f"it says nothing: {waited}")
                return
            self._notes.incident(place.number, INCIDENTS.blocked, waited)
            blocked = completion(INFO, error=self._errors.blocked)
            self._done(place.finish(number, given_up=True), blocked)

    def _end(
        self, place: ConnectionPlace, error: str, kind: str | None = None, what: str = ""
    ) -> None:
        """End a place's program, if there is one: what is in flight in it is unknown. `kind`: the
        incident that this is, none if `None`; `what`: in words, by default how it ended."""
        client = place.client
        if client is None:
            return
        for pipe in (client.stdin, client.stdout):
            if not pipe.closed and pipe in self._selector.get_map():
                self._selector.unregister(pipe)
        waiting = list(client.pending.values())
        client.pending.clear()
        place.empty()
        if self._beginning and (what or self._settle is None):
            code = client.end(_GRACE_S)
            raise _not_ready(place, what or exit_in_words(code))
        if kind in (INCIDENTS.lie, INCIDENTS.flood) and self._settle is not None:
            client.end(0)
            raise HarnessFailure(f"{client.name}, a program of ackloss: {what}")
        if kind is not None and not self._closing:
            self._notes.count("ended", len(waiting))
            if self._settle is None:
                place.note_trouble(kind)
            if not place.retired:
                place.again_ns = self._now_ns() + round(AGAIN_S * 1e9)
        after = "; it is not started again" if place.retired else ""
        self._bury(place.number, client, kind, what, after)
        self._route()
        for each in waiting:
            self._done(each, completion(INFO, error=error))

    def _bury(
        self, number: int, client: Connection, kind: str | None, what: str, after: str
    ) -> None:
        """End a program in its own thread, which waits for it, and note the incident."""
        closing = self._closing

        def bury() -> None:
            code = client.end(CLOSE_S / 2 if closing else _GRACE_S if not what else 0)
            if kind is None or (closing and not what and code == 0):
                return
            sentence = what or exit_in_words(code)
            self._notes.incident(number, kind, f"{sentence}{after}")

        burial = threading.Thread(target=bury, name=f"end {client.name}", daemon=True)
        burial.start()
        self._burials.append(burial)


def _not_ready(place: ConnectionPlace, what: str) -> EnvironmentFailure:
    last = place.log.last_line() if place.log else ""
    return EnvironmentFailure(
        f"client {place.number} did not become ready: {what}",
        file=str(place.log.path) if place.log and place.log.path else None,
        hint=f"the last line of its log: {last}" if last else "its log is empty",
    )
