"""The client of the workload: its processes over the producers of several drivers.

Each process belongs to one driver, or while that one is away, to another. When a connection is lost
(the driver was killed, say), whatever was in progress in it ends in info, and a thread tries until
the driver is back, with a new producer. A driver that is paused, or cut from here, is not away: its
answers are late.
"""

from __future__ import annotations

import selectors
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from harness.errors import HarnessFailure
from harness.protocols import INFO, OK, Done, Invoke, completion
from harness.run.crashing import routes
from targets.kafka.clients.java.lines import JAVA, Line, Lost, Refused
from targets.kafka.clients.outcomes import outcome, refusals

LOST: Final = "_CLIENT_LOST"
"""The error of operations that were in progress in a driver whose connection was lost."""

UNREPORTED: Final = "_UNREPORTED"
"""The error of operations that were still in progress at the end."""

START_S: Final = 40.0
"""How long a driver may take until its producer is ready: it starts while brokers do."""

_AWAY_S: Final = 0.5
_AGAIN_S: Final = 10.0
_CLOSE_S: Final = 2.0

Begin = Callable[[int, float], Line]
"""Begins the nth producer of a place, within so many seconds."""


class JavaClient:
    """See `harness.protocols.Client`. `places` begin a producer each, again when it was lost."""

    def __init__(self, places: Sequence[Begin]) -> None:
        self._places = places
        self._begun = [1] * len(places)
        self._selector = selectors.DefaultSelector()
        self._back: list[tuple[int, Line]] = []
        self._closing = threading.Event()
        with ThreadPoolExecutor(max_workers=len(places)) as pool:
            began = [pool.submit(place, 1, START_S) for place in places]
        try:
            self._lines: list[Line | None] = [line.result() for line in began]
        except (Lost, Refused) as error:
            raise HarnessFailure(f"a Java client did not start: {error}") from error
        proofs = [refusals(JAVA, line.reported) for line in self._living]
        self._proof = proofs[0] if all(proofs) else {}
        for line in self._living:
            self._watch(line)
        self._route()

    @property
    def _living(self) -> list[Line]:
        return [line for line in self._lines if line]

    def submit(self, process: int, op: Invoke) -> bool:
        """Queue a write. False: no driver is there."""
        line = self._routes[process % len(self._routes)]
        if line is None:
            return False
        _, value, partition, key, _ = op
        line.write(process, partition, f"{value:010d}", key)
        return True

    def poll(self, timeout_s: float, done: Done) -> None:
        """Send what was queued, take what was answered."""
        while self._back:
            self._take_back(*self._back.pop())
        deadline = time.monotonic() + timeout_s
        while not self._exchange(max(0.0, deadline - time.monotonic()), done):
            if time.monotonic() >= deadline:
                return

    def close(self, timeout_s: float, done: Done) -> None:
        """Wait for what is in progress, close the producers, end the rest in info."""
        deadline = time.monotonic() + timeout_s
        while any(line.pending for line in self._living) and time.monotonic() < deadline:
            self._exchange(deadline - time.monotonic(), done)
        self._closing.set()
        for line in self._living:
            line.end()
        deadline = time.monotonic() + _CLOSE_S
        while self._living and time.monotonic() < deadline:
            self._exchange(deadline - time.monotonic(), done)
        for line in self._living:
            self._lose(line, UNREPORTED, done)
        self._selector.close()
        while self._back:
            self._back.pop()[1].socket.close()

    def _exchange(self, timeout_s: float, done: Done) -> int:
        """Send and receive on every connection; how many answers came, within `timeout_s`."""
        for line in self._living:
            self._send(line)
        answers = 0
        for key, _ in self._selector.select(timeout_s):
            line = key.data
            self._send(line)
            answers += self._receive(line, done)
        return answers

    def _send(self, line: Line) -> None:
        try:
            sent = line.flush()
        except OSError:
            return  # what it still answered can be received, and then its end
        wanted = selectors.EVENT_READ | (0 if sent else selectors.EVENT_WRITE)
        if self._selector.get_key(line.socket).events != wanted:
            self._selector.modify(line.socket, wanted, line)

    def _receive(self, line: Line, done: Done) -> int:
        try:
            answers = line.answers()
        except Lost:
            lost = len(line.pending)
            self._lose(line, LOST, done)
            return lost
        for words in answers:
            self._answered(line, words, done)
        return len(answers)

    def _answered(self, line: Line, words: Sequence[bytes], done: Done) -> None:
        if words[0] == b"closed":
            self._lose(line, UNREPORTED, done)
            return
        process = int(words[0])
        line.pending.remove(process)
        if words[1] == b"ok":
            offset = int(words[2])
            done(process, (OK, offset if offset >= 0 else None, None, None, None))
        else:
            ended = outcome(int(words[3]), self._proof)
            done(process, completion(ended.type, error=words[2].decode()))

    def _lose(self, line: Line, error: str, done: Done) -> None:
        """The connection is over: what is pending is unknown, and others take the processes."""
        self._selector.unregister(line.socket)
        line.socket.close()
        place = self._lines.index(line)
        self._lines[place] = None
        self._route()
        for process in line.pending:
            done(process, completion(INFO, error=error))
        if not self._closing.is_set():
            seek = partial(self._seek, place)
            threading.Thread(target=seek, name=f"seek client {place + 1}", daemon=True).start()

    def _seek(self, place: int) -> None:
        """Begin a producer once more, until there is one or the client is closed."""
        self._begun[place] += 1
        while not self._closing.wait(_AWAY_S):
            try:
                line = self._places[place](self._begun[place], _AGAIN_S)
            except (Lost, Refused):
                continue
            if self._closing.is_set():
                line.socket.close()
            else:
                self._back.append((place, line))
            return

    def _take_back(self, place: int, line: Line) -> None:
        self._lines[place] = line
        self._watch(line)
        self._route()

    def _watch(self, line: Line) -> None:
        self._selector.register(line.socket, selectors.EVENT_READ, line)

    def _route(self) -> None:
        """Distribute the processes again: those of a driver that is away over the others."""
        self._routes = routes(self._lines)
