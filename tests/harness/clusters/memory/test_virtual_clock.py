"""Virtual time for threads: the same every time, never stuck, and cheap."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from harness.clusters.memory import VirtualClock
from harness.clusters.memory.simulation import Host, Simulation
from harness.errors import HarnessFailure
from harness.protocols.clock import Clock, RealClock, Task

MS = 1_000_000
pytestmark = pytest.mark.timeout(60)


def never() -> threading.Event:
    return threading.Event()


def together(clock: VirtualClock, *calls: Callable[[], object]) -> list[Task]:
    """Execute calls in threads of one clock, and wait for them in its time."""
    with clock.taking_part("main"):
        tasks = [clock.spawn(f"t{number}", call) for number, call in enumerate(calls)]
        for task in tasks:
            task.join()
    return tasks


def events(seed: int) -> list[tuple[int, str]]:
    """Four threads that wait, wake each other and start others, over a ticking simulation."""
    simulation = Simulation(seed)
    host, clock = Host(simulation, "h"), VirtualClock(simulation)
    seen: list[tuple[int, str]] = []
    bells = [threading.Event() for _ in range(4)]

    def tick(count: int) -> None:
        seen.append((clock.now_ns(), f"tick {count}"))
        bells[count % 4].set()
        if count < 60:
            host.after(int(host.random.random() * 5 * MS), tick, count + 1)

    def worker(me: int) -> None:
        draw = simulation.random(f"worker/{me}")
        for step in range(30):
            rung = clock.wait(bells[me], draw.random() * 0.01)
            bells[me].clear()
            seen.append((clock.now_ns(), f"{me} {step} {rung}"))
            if draw.random() < 0.3:
                bells[draw.randrange(4)].set()
            if draw.random() < 0.1:
                clock.spawn("short", lambda: seen.append((clock.now_ns(), f"of {me}")))

    host.after(0, tick, 0)
    together(clock, *((lambda me=me: worker(me)) for me in range(4)))
    return seen


def test_the_same_seed_gives_the_same_turns() -> None:
    first = events(7)
    assert len(first) > 150
    assert all(events(7) == first for _ in range(10))
    assert events(8) != first
    assert [at for at, _ in first] == sorted(at for at, _ in first)


def test_time_passes_only_while_all_wait_and_minutes_take_no_time() -> None:
    clock, ends = VirtualClock(), []

    def sleeper(seconds: float) -> None:
        for _ in range(10):
            clock.wait(never(), seconds)
        ends.append((clock.now_ns(), seconds))

    begun = time.monotonic()
    together(clock, lambda: sleeper(60), lambda: sleeper(0.5), lambda: time.sleep(0.05))
    assert ends == [(5_000 * MS, 0.5), (600_000 * MS, 60)]
    assert time.monotonic() - begun < 5


def test_of_two_that_can_go_on_the_one_that_has_waited_longest_goes_first() -> None:
    clock, order, bell = VirtualClock(), [], threading.Event()

    def waits(name: str, seconds: float) -> None:
        clock.wait(bell, seconds)
        order.append(name)

    def rings() -> None:
        clock.wait(never(), 0.1)
        bell.set()

    together(clock, lambda: waits("late", 9), lambda: waits("later", 5), rings)
    assert order == ["late", "later"]


def test_one_that_raises_passes_its_turn_on_and_keeps_its_failure() -> None:
    clock = VirtualClock()

    def fails() -> None:
        clock.wait(never(), 0.01)
        raise ValueError("as planned")

    failing, waiting = together(clock, fails, lambda: clock.wait(never(), 1))
    assert isinstance(failing.failure, ValueError)
    assert waiting.failure is None
    assert clock.now_ns() == 1_000 * MS
    with pytest.raises(ValueError, match="as planned"):
        failing.result()


def test_threads_that_wait_only_for_each_other_are_reported() -> None:
    clock, failures = VirtualClock(), []

    def waits() -> None:
        with pytest.raises(HarnessFailure, match="every thread waits for another: main, t0") as why:
            clock.wait(never(), None)
        failures.append(why)

    with pytest.raises(HarnessFailure, match="every thread waits for another: main, t0"):
        together(clock, waits)
    for thread in threading.enumerate():
        if thread.name == "t0":
            thread.join(5)
    assert len(failures) == 1


def test_a_simulation_that_fails_ends_every_wait() -> None:
    simulation = Simulation(1)
    host, clock = Host(simulation, "h"), VirtualClock(simulation)

    def fail() -> None:
        raise RuntimeError("a defect of the simulation")

    host.after(5 * MS, fail)
    with clock.taking_part("main"):
        tasks = [clock.spawn("t", lambda: clock.wait(never(), 1)) for _ in range(3)]
        with pytest.raises((RuntimeError, HarnessFailure)):
            clock.wait(never(), 2)
    for task in tasks:
        assert task.thread is not None
        task.thread.join(5)
        assert "a defect of the simulation" in str(task.failure)


def test_a_thread_that_never_lets_time_pass_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.clusters.memory._STANDSTILL_TURNS", 500)
    clock, bell = VirtualClock(), threading.Event()
    bell.set()
    with clock.taking_part("main"):
        for _ in range(400):
            clock.wait(never(), 1e-12)  # less than a nanosecond is one
            clock.wait(bell, 5)
        assert clock.now_ns() == 400
        with pytest.raises(HarnessFailure, match="time does not advance: main never waits"):
            list(iter(lambda: clock.wait(bell, 5), False))


def test_a_simulation_that_goes_on_for_ever_does_not_hide_a_deadlock() -> None:
    simulation = Simulation(1)
    host, clock = Host(simulation, "h"), VirtualClock(simulation)

    def tick() -> None:
        host.after(60_000 * MS, tick)

    tick()
    with clock.taking_part("main"), pytest.raises(HarnessFailure, match="every thread waits"):
        clock.wait(never(), None)


def test_who_takes_no_part_waits_in_real_time_and_can_wake_those_who_do() -> None:
    clock, bell, outside = VirtualClock(), threading.Event(), threading.Event()
    assert not clock.wait(outside, 0.01)
    assert clock.now_ns() == 0
    with clock.taking_part("main"):
        bell.set()
        assert clock.wait(bell, 5)
        assert clock.now_ns() == 0


def test_a_thread_that_comes_later_gets_its_turn() -> None:
    clock, came = VirtualClock(), threading.Event()

    def joins() -> None:
        with clock.taking_part("late"):
            clock.wait(never(), 0.2)
        came.set()

    late = threading.Thread(target=joins)
    with clock.taking_part("main"):
        late.start()
        while not came.is_set():
            clock.wait(never(), 0.1)
            time.sleep(0.001)
    late.join(5)
    assert came.is_set()


def test_an_interrupted_wait_takes_its_turn_and_goes_on_its_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a signal handler raises in the main thread while another thread has the turn."""
    clock, seen = VirtualClock(), []

    class Interrupting:
        """A lock whose first acquisition is interrupted, by then granted or not."""

        def __init__(self, lock: threading.Lock) -> None:
            self.lock = lock

        def acquire(self) -> None:
            time.sleep(0.02)
            raise KeyboardInterrupt

        def release(self) -> None:
            self.lock.release()

    def other() -> None:
        for _ in range(5):
            time.sleep(0.01)
            clock.wait(never(), 0.1)
            seen.append(clock.now_ns())

    with clock.taking_part("main"):
        task = clock.spawn("other", other)
        ticket = clock._tickets[threading.get_ident()]
        monkeypatch.setattr(ticket, "turn", Interrupting(ticket.turn))
        with pytest.raises(KeyboardInterrupt):
            clock.wait(never(), 100)
        task.result()
    assert seen == [100 * MS * n for n in range(1, 6)]


@pytest.mark.parametrize("clock", [RealClock(), VirtualClock()])
def test_both_clocks_wait_and_start_threads_alike(clock: Clock) -> None:
    bell = threading.Event()
    with clock.taking_part("main"):
        task = clock.spawn("rings", bell.set)
        assert clock.wait(bell, 5)
        assert task.join(5)
        assert task.done()
        before_ns = clock.now_ns()
        assert not clock.wait(never(), 0.01)
        assert clock.now_ns() - before_ns >= 10 * MS
