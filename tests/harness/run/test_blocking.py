"""Blocking clients behind one client: threads, exceptions, calls that hang, the end."""

from __future__ import annotations

import re
import threading
import time
from asyncio import CancelledError
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from harness.protocols import Completion, Invoke, completion, invoke
from harness.protocols.clock import RealClock
from harness.run.client_pool import CLOSED, THREADS_AT_MOST, ThreadedClient

OP = invoke("append", 1, 0)
Call = Callable[["Blocking", Invoke], Completion]
AT_MOST_S = 10


def at_once(_: Blocking, op: Invoke) -> Completion:
    return completion("ok", op[1])


def until_closed(client: Blocking, _: Invoke) -> Completion:
    """A call on a connection: it ends with an error when the connection is closed."""
    assert client.closed.wait(AT_MOST_S)
    raise ConnectionResetError("closed")


@dataclass
class Blocking:
    """Blocks until its call returns; notes that it was closed."""

    does: Call
    number: int
    closed: threading.Event = field(default_factory=threading.Event)
    threads: set[int] = field(default_factory=set)

    def call(self, op: Invoke) -> Completion:
        self.threads.add(threading.get_ident())
        return self.does(self, op)

    def close(self) -> None:
        self.closed.set()


@dataclass
class Made:
    """A threaded client, the blocking ones it has connected, and what it has completed."""

    client: ThreadedClient
    connected: list[Blocking]
    ended: list[tuple[int, Completion]] = field(default_factory=list)

    def done(self, process: int, ended: Completion) -> None:
        self.ended.append((process, ended))

    def poll_until(self, count: int) -> None:
        deadline = time.monotonic() + AT_MOST_S
        while len(self.ended) < count:
            assert time.monotonic() < deadline, self.ended
            self.client.poll(0.05, self.done)


Make = Callable[..., Made]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Made] = []

    def one(does: Call, *, threads: int = 2) -> Made:
        connected: list[Blocking] = []

        def connect(number: int) -> Blocking:
            connected.append(client := Blocking(does, number))
            return client

        client = ThreadedClient(connect, threads=threads, clock=RealClock())
        made.append(Made(client, connected))
        return made[-1]

    yield one
    for each in made:
        each.client.close(0, lambda *_: None)


def test_every_operation_ends_with_what_its_client_answered(make: Make) -> None:
    made = make(at_once)
    for value in range(20):
        while not made.client.submit(value, invoke("append", value, 0)):
            made.client.poll(0.05, made.done)
    made.poll_until(20)
    assert sorted(made.ended) == [(value, completion("ok", value)) for value in range(20)]
    assert {client.number for client in made.connected} == {0, 1}, "one client for each thread"
    assert len(made.connected) == 2
    assert all(len(client.threads) == 1 for client in made.connected)


def test_it_takes_no_more_than_it_has_threads(make: Make) -> None:
    released = threading.Event()

    def waits(_: Blocking, op: Invoke) -> Completion:
        assert released.wait(AT_MOST_S)
        return completion("ok")

    made = make(waits)
    assert [made.client.submit(process, OP) for process in range(3)] == [True, True, False]
    made.client.poll(0.01, made.done)
    assert made.ended == []
    released.set()
    made.poll_until(2)
    assert made.client.submit(2, OP)
    made.poll_until(3)


def test_a_process_has_one_operation_in_flight(make: Make) -> None:
    made = make(until_closed)
    assert made.client.submit(7, OP)
    with pytest.raises(ValueError, match="process 7 has an operation in flight"):
        made.client.submit(7, OP)


def test_a_call_that_raises_is_info_and_its_client_is_replaced(make: Make) -> None:
    def raises_once(client: Blocking, op: Invoke) -> Completion:
        if client is made.connected[0]:
            raise TimeoutError("no answer")
        return completion("ok")

    made = make(raises_once, threads=1)
    assert made.client.submit(0, OP)
    made.poll_until(1)
    assert made.ended == [(0, completion("info", error="TimeoutError"))]
    assert made.connected[0].closed.is_set()
    assert made.client.submit(1, OP)
    made.poll_until(2)
    assert made.ended[1] == (1, completion("ok"))
    assert len(made.connected) == 2


def test_a_client_that_cannot_connect_makes_info() -> None:
    def connect(_: int) -> Blocking:
        raise ConnectionRefusedError

    made = Made(ThreadedClient(connect, threads=1, clock=RealClock()), [])
    assert made.client.submit(0, OP)
    made.poll_until(1)
    assert made.ended == [(0, completion("info", error="ConnectionRefusedError"))]
    made.client.close(0, made.done)


def test_closing_while_busy_disconnects_and_the_call_ends_in_its_error(make: Make) -> None:
    made = make(until_closed)
    for process in range(2):
        assert made.client.submit(process, OP)
    made.client.close(0.1, made.done)
    assert sorted(made.ended) == [
        (process, completion("info", error="ConnectionResetError")) for process in range(2)
    ]
    assert not made.client.submit(3, OP), "it takes nothing more"


def test_a_call_that_hangs_through_its_close_is_info_and_a_late_answer_is_not_heard(
    make: Make,
) -> None:
    released = threading.Event()

    def hangs(_: Blocking, op: Invoke) -> Completion:
        released.wait(AT_MOST_S)
        return completion("ok")

    made = make(hangs)
    assert made.client.submit(0, OP)
    begun = time.monotonic()
    made.client.close(0.1, made.done)
    assert time.monotonic() - begun < 5
    assert made.ended == [(0, completion("info", error=CLOSED))]
    released.set()
    time.sleep(0.05)
    made.client.poll(0, made.done)
    assert len(made.ended) == 1


def test_what_ends_before_the_close_keeps_its_answer(make: Make) -> None:
    def soon(_: Blocking, op: Invoke) -> Completion:
        time.sleep(0.05)
        return completion("ok", 7)

    made = make(soon)
    assert made.client.submit(0, OP)
    made.client.close(AT_MOST_S, made.done)
    assert made.ended == [(0, completion("ok", 7))]
    assert made.connected[0].closed.is_set()


@pytest.mark.parametrize("threads", [0, THREADS_AT_MOST + 1])
def test_the_number_of_threads_has_bounds(threads: int) -> None:
    with pytest.raises(ValueError, match=f"{threads} threads"):
        ThreadedClient(lambda _: Blocking(at_once, 0), threads=threads, clock=RealClock())


def test_a_pinned_process_always_has_the_same_client() -> None:
    numbers: list[tuple[int, int]] = []

    def noting(client: Blocking, op: Invoke) -> Completion:
        numbers.append((op[1], client.number))
        return completion("ok")

    ended: list[int] = []
    client = ThreadedClient(
        lambda number: Blocking(noting, number), threads=3, clock=RealClock(), pinned=True
    )
    for process in (2, 0, 1, 1, 2, 4, 5, 0, 3):
        assert client.submit(process, invoke("append", process, 0))
        while process not in ended:
            client.poll(1, lambda process, _: ended.append(process))
        ended.clear()
    client.close(1, lambda *_: None)
    assert all(number == process % 3 for process, number in numbers)


def test_a_pinned_process_waits_for_its_client() -> None:
    client = ThreadedClient(
        lambda number: Blocking(until_closed, number), threads=2, clock=RealClock(), pinned=True
    )
    assert client.submit(0, OP)
    assert not client.submit(2, OP), "its client is busy, another is idle"
    assert client.submit(1, OP)
    client.close(0, lambda *_: None)


@pytest.mark.parametrize("error", [SystemExit(3), CancelledError()])
def test_a_call_that_raises_no_exception_but_an_exit_is_info_too(
    make: Make, error: BaseException
) -> None:
    def leave(_client: Blocking, _op: Invoke) -> Completion:
        raise error

    made = make(leave, threads=1)
    for process in (0, 1):
        assert made.client.submit(process, OP)
        made.poll_until(process + 1)
    named = type(error).__name__
    assert [ended[:3] for _, ended in made.ended] == [("info", None, named)] * 2
    assert [client.closed.is_set() for client in made.connected] == [True, True]


def test_an_interrupt_of_a_call_ends_its_operation_and_is_passed_on_once(make: Make) -> None:
    def interrupt(client: Blocking, op: Invoke) -> Completion:
        if client is made.connected[0]:
            raise KeyboardInterrupt
        return completion("ok")

    made = make(interrupt, threads=1)
    assert made.client.submit(0, OP)
    with pytest.raises(KeyboardInterrupt):
        made.poll_until(2)
    made.poll_until(1)
    assert made.ended == [(0, completion("info", error="KeyboardInterrupt"))]
    assert made.client.submit(1, OP)
    made.poll_until(2)
    assert made.ended[1] == (1, completion("ok"))


def test_an_interrupt_at_the_end_is_raised_when_everything_is_disconnected(make: Make) -> None:
    def interrupt(client: Blocking, op: Invoke) -> Completion:
        assert client.closed.wait(AT_MOST_S)
        raise KeyboardInterrupt

    made = make(interrupt)
    for process in range(2):
        assert made.client.submit(process, OP)
    with pytest.raises(KeyboardInterrupt):
        made.client.close(0, made.done)
    assert sorted(made.ended) == [
        (process, completion("info", error="KeyboardInterrupt")) for process in range(2)
    ]
    assert all(client.closed.is_set() for client in made.connected)


def test_a_mistake_in_a_client_is_shown_with_its_place(make: Make) -> None:
    def mistaken(client: Blocking, _op: Invoke) -> Completion:
        return client.nubmer  # type: ignore[attr-defined,no-any-return]

    def without_a_key(_client: Blocking, op: Invoke) -> Completion:
        return {}[op[1]]  # type: ignore[no-any-return]

    def unreachable(_client: Blocking, _op: Invoke) -> Completion:
        raise ConnectionResetError("198.18.0.1:53211")

    errors = []
    for does in (mistaken, without_a_key, unreachable):
        made = make(does)
        assert made.client.submit(0, OP)
        made.poll_until(1)
        errors.append(str(made.ended[0][1][2]))
    assert re.fullmatch(
        r"AttributeError: 'Blocking' object has no attribute 'nubmer'.* "
        r"\(test_blocking.py, line \d+\)",
        errors[0],
    )
    assert re.fullmatch(r"KeyError \(test_blocking.py, line \d+\)", errors[1])
    assert errors[2] == "ConnectionResetError", "a system's own doing: one name for all of them"
