"""Thousands of scripts over one client, in one thread, at a given pace.

The model is Jepsen's. Each of P threads has one script and runs it as a *process*, with at most
one operation in flight. An operation that ends in info may still be in progress, so its process is
retired: the thread continues the same script under a new number, old + P. Values stay unique and
dense, since the script itself is never started again.

At a fixed rate the loop is open: operation k is intended at k / rate, however long others take. One
that is due while no process is free waits, keeps its intended time, and is begun as soon as one is
free; the difference is its lateness, and no stall hides in it (coordinated omission). At full
speed, every free process begins its next operation at once. A client that accepts nothing, because
its queue is full or all of it is dead, is back-pressure: what is due waits, and is late too.

What a client raises ends operations in info: from `submit` the submitted one, from `poll` all in
flight. (What a blocking client raises ends its operation in its thread already:
`harness.run.client_pool`.) Operations that a client has not completed when it is closed end in info
too. What it reports about them later is ignored: their processes are retired. In both places that
holds for whatever is raised, SystemExit and CancelledError too: a client library may do anything.
But a KeyboardInterrupt ends the run, and so does an AcklossError, which is the harness' own.

The loop polls while it waits, never sleeps, and takes time only from the clock it is given. What it
does for each operation is the cost of the load generator: `bench/against.py` compares it with an
older checkout.
"""

from __future__ import annotations

import gc
import math
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from harness.errors import AcklossError, HarnessFailure
from harness.failures import validated
from harness.models import APPEND, MODELS, MOST_APPENDED
from harness.plan import Plan
from harness.protocols import (
    INFO,
    NULL,
    Client,
    Completion,
    Invoke,
    Script,
    Workload,
    completion,
    raised,
)
from harness.protocols.clock import Clock
from harness.run.recorder import HAND_OVER_NS, Recorder


def run_workload(
    workload: Workload,
    client: Client,
    *,
    plan: Plan,
    recorder: Recorder,
    clock: Clock,
    stop: threading.Event,
    before_drain: Callable[[], None] = lambda: None,
) -> LoadReport:
    """Run the plan's workload for its duration, or until `stop` is set or the recorder fails.

    Then `before_drain` (healing the faults) runs in a thread beside the loop, which continues to
    complete operations; then what is in flight is waited for, and the client is closed: every
    operation is completed when this returns. Raises what `before_drain` raised.
    """
    rules, rate_per_s = Rules(workload, plan), plan.workload.rate_per_s
    loop = Loop(workload.script, rules, client, recorder, clock, stop, rate_per_s=rate_per_s)
    with _RARE_COLLECTIONS, closing(loop):
        report = loop.run(int(plan.workload.duration_s * 1e9))
        healed = clock.spawn("before-drain", before_drain)
        loop.turn_until(healed.done)
        healed.result()
        loop.drain(plan.final.drain_s)
    return replace(report, last_process=loop.last_process)


def run_final(
    workload: Workload,
    client: Client,
    load: LoadReport,
    *,
    plan: Plan,
    recorder: Recorder,
    clock: Clock,
    stop: threading.Event,
) -> LoadReport:
    """Run the final scripts over a new client, each as a new process, until all have ended, for
    `final.read_s` at most; returns the report of the load with their operations counted in."""
    processes = plan.workload.processes
    first = (load.last_process // processes + 1) * processes
    rules = Rules(workload, plan)
    loop = Loop(workload.final, rules, client, recorder, clock, stop, rate_per_s=0, first=first)
    with _RARE_COLLECTIONS, closing(loop):
        final = loop.run(int(plan.final.read_s * 1e9))
        loop.drain(plan.final.drain_s)
    return replace(
        load,
        attempted=load.attempted + final.attempted,
        last_process=loop.last_process,
        final_attempted=final.attempted,
        final_from_ns=final.begun_ns,
        cut_short=load.cut_short or final.cut_short,
    )


class _RareCollections:
    """What exists now is left out of garbage collection, which then runs far more rarely: the loop
    makes no cycles, and a full collection of a big process would delay it.

    What earlier runs left is collected before: clients are cycles, and a process that executes
    hundreds of runs would run out of what each of them holds (thread-local storage has 1,024 keys).

    Cells of a run enter it in parallel: it is in force from the first of them to the last. What
    the calling program has left out of garbage collection stays so.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._thresholds, self._theirs = gc.get_threshold(), False

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                return
            self._thresholds = gc.get_threshold()
            gc.collect()
            self._theirs = gc.get_freeze_count() > 0
            if not self._theirs:
                gc.freeze()
            gc.set_threshold(100_000, *self._thresholds[1:])

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                gc.set_threshold(*self._thresholds)
                if not self._theirs:
                    gc.unfreeze()


_RARE_COLLECTIONS = _RareCollections()


_Int64 = Annotated[int, Field(ge=NULL, lt=-NULL)]
_OPERATION: Final[Any] = tuple[str, _Int64, _Int64, str | None, _Int64 | tuple[_Int64, ...]]
_COMPLETION: Final[Any] = tuple[
    Literal["ok", "fail", "info"],
    _Int64 | None,
    str | None,
    str | None,
    _Int64 | tuple[_Int64 | None, ...] | None,
]


class Rules:
    """What the scripts of a plan's workload may yield, and what a client may complete it with. The
    loop looks most of it up itself, and comes here for the message."""

    def __init__(self, workload: Workload, plan: Plan) -> None:
        self.plan, self.model = plan, MODELS[workload.model]
        self.workload = f"the workload {plan.workload.name!r}"

    @property
    def values(self) -> tuple[int, int]:
        """The least and the highest value that a write may have."""
        if APPEND in self.model.writes:
            return 0, MOST_APPENDED
        return NULL + 1, -NULL - 1

    @property
    def partitions_of(self) -> Mapping[str, frozenset[int]]:
        """By function, the partitions that an operation may have: only in a log it must have one.
        What the loop looks up."""
        none = [] if self.model.final_read else [NULL]
        allowed = frozenset([*none, *range(self.plan.partitions)])
        return dict.fromkeys(self.model.functions, allowed)

    def first(self, script: Script) -> Invoke:
        """The first operation of a script."""
        try:
            op = next(script)
        except (StopIteration, TypeError) as error:
            raise HarnessFailure(
                f"{self.workload}: a script is a generator that yields at least one "
                f"`invoke(...)`: {error!r}"
            ) from error
        self.check(op)
        return op

    def check(self, op: Invoke) -> None:
        """Raise HarnessFailure for an operation that breaks a rule."""
        who = f"{self.workload}: a script"
        f, value, partition, _, _ = validated(
            who, op, _OPERATION, fields=("f", "value", "partition", "key", "expected")
        )
        writes, (least, most) = f in self.model.writes, self.values
        why = None
        if f not in self.model.functions:
            functions = ", ".join(sorted(self.model.functions))
            why = f"the model {self.model.name!r} has the functions {functions}"
        elif writes and not least <= value <= most:
            why = f"a write has a value, unique in the run, of {least} to {most}"
        elif partition not in self.partitions_of[f]:
            why = f"the partitions are 0 to {self.plan.partitions - 1}"
        if why is not None:
            shown = ("none" if part == NULL else part for part in op[:3])
            what = "{} of the value {} in the partition {}".format(*shown)
            raise HarnessFailure(f"{who} yields {what}: {why}")

    def check_completion(self, ended: Completion) -> None:
        """Raise HarnessFailure if what a client returns is not a completion."""
        who = f"a client of the target {self.plan.target.system!r}"
        validated(who, ended, _COMPLETION, fields=("type", "offset", "error", "node", "result"))


_BURST: Final = 256
"""Operations begun between two polls at most, so that completions are seen when they happen."""

_WAIT_NS: Final = 50_000_000
"""The longest poll, so that `stop` is noticed."""

_AFTER_FAILURE_S: Final = 0.05
"""The pause after an exception of a client, so that one that always raises keeps no core busy."""

NOT_COMPLETED: Final = "not-completed"
"""The error of an operation that a client had not completed when it was closed."""

_STOPPED_DRAIN_S: Final = 1.0
_CLOSE_S: Final = 2.0

_HELD_UP_NS: Final = 100_000_000
STARVED_ONCE_S: Final = 2.0
STARVED_SHARE: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """How the workload was run.

    `not_run` operations were due, but no process was free, or the client accepted none, until the
    end. The loop was *held up* if a turn of it took 0.1 s longer than it had chosen to wait:
    something else had the processor (or the interpreter lock), and then neither intended nor
    recorded times mean much.

    `attempted` counts the operations of final scripts too (`Workload.final`): `final_attempted` of
    them, the first not before `final_from_ns`. `last_process` is the highest number of a process.
    `cut_short` is what kept the recorder from writing, if that ended the load: the disk may be in
    order again when the run ends, and nothing else would show it.
    """

    begun_ns: int
    ended_ns: int
    attempted: int
    not_run: int
    held_up_s: float
    longest_held_up_s: float
    last_process: int = 0
    final_attempted: int = 0
    final_from_ns: int | None = None
    cut_short: str | None = None

    @property
    def starved(self) -> str | None:
        """Why the load was not what the plan requested: cut short, or held up once for more than
        2 s, or for more than a tenth of the time in all. None: it was as requested."""
        lasted_s = (self.ended_ns - self.begun_ns) / 1e9
        if self.cut_short is not None:
            return f"the load ended after {lasted_s:.1f} s: {self.cut_short}"
        if self.longest_held_up_s > STARVED_ONCE_S:
            return f"the load generator was held up for {self.longest_held_up_s:.1f} s at a time"
        if self.held_up_s > STARVED_SHARE * lasted_s:
            return f"the load generator was held up for {self.held_up_s:.1f} of {lasted_s:.1f} s"
        return None


@dataclass(eq=False, slots=True)
class _Thread:
    """A script, the process that it is run as, and its operation: the next one, or the one in
    flight, which was intended at `intended_ns`. `in_flight` is then the process, else None."""

    process: int
    script: Script
    op: Invoke
    intended_ns: int = 0
    in_flight: int | None = None


class Loop:
    """The state of one run of P scripts, each in a thread. Thread t has the processes `first` + t,
    `first` + t + P, and so on; `first` is a multiple of P. `make`: `script` or `final` of the
    workload."""

    def __init__(
        self,
        make: Callable[[int, int, int, int], Script],
        rules: Rules,
        client: Client,
        recorder: Recorder,
        clock: Clock,
        stop: threading.Event,
        *,
        rate_per_s: float,
        first: int = 0,
    ) -> None:
        plan = rules.plan
        self._processes = self._running = number = plan.workload.processes
        scripts = [make(t, number, plan.partitions, plan.seed) for t in range(number)]
        self._threads = [_Thread(first + t, s, rules.first(s)) for t, s in enumerate(scripts)]
        self._free = deque(self._threads)
        self._rules, self._places, self._writes = rules, rules.partitions_of, rules.model.writes
        self._least, self._most = rules.values
        self._clock, self._client_raised, self._own_error = clock, False, False
        self.last_process = first + self._processes - 1
        self._client = client
        self._recorder = recorder
        self._stop = stop
        self._now_ns = clock.now_ns
        self._period_ns = 1e9 / rate_per_s if rate_per_s else 0.0
        self._begun_ns = 0
        self._attempted = 0
        self._hand_over_ns = 0
        self._held_up_ns: list[int] = []
        self._refused: AcklossError | None = None

    def run(self, duration_ns: int) -> LoadReport:
        """Begin operations until the time is up, `stop` is set, or every script has ended."""
        self._begun_ns = now_ns = self._now_ns()
        end_ns = now_ns + duration_ns
        while now_ns < end_ns and self._running and not self._stopped():
            accepted = self._begin_due()
            wait_ns = self._wait_ns(end_ns) if accepted else _WAIT_NS
            self._turn(wait_ns)
            before_ns, now_ns = now_ns, self._now_ns()
            if now_ns - before_ns - wait_ns > _HELD_UP_NS:
                self._held_up_ns.append(now_ns - before_ns - wait_ns)
        due = math.ceil((min(now_ns, end_ns) - self._begun_ns) / (self._period_ns or math.inf))
        return LoadReport(
            begun_ns=self._begun_ns,
            ended_ns=now_ns,
            attempted=self._attempted,
            not_run=max(0, due - self._attempted),
            held_up_s=sum(self._held_up_ns) / 1e9,
            longest_held_up_s=max(self._held_up_ns, default=0) / 1e9,
            cut_short=None if self._refused is None else str(self._refused),
        )

    def turn_until(self, done: Callable[[], bool]) -> None:
        """Complete operations, without beginning any, until `done`."""
        while not done():
            self._turn(_WAIT_NS)

    def drain(self, at_most_s: float) -> None:
        """Wait for what is in flight; not for long when the run is to stop."""
        begun_ns = self._now_ns()

        def over() -> bool:
            limit_s = _STOPPED_DRAIN_S if self._stopped() else at_most_s
            idle = len(self._free) == self._running
            return idle or self._now_ns() - begun_ns >= limit_s * 1e9

        self.turn_until(over)

    def close(self) -> None:
        """Complete every operation that is left, as info where nothing was answered."""
        left: Completion = completion(INFO, error=NOT_COMPLETED)
        try:
            self._client.close(_CLOSE_S, self._done)
        except BaseException as error:
            left = raised(error)
            self._raise_own(error)
        finally:
            self._end_all(left)
            self._recorder.hand_over()

    def _stopped(self) -> bool:
        self._refused = self._recorder.failure or self._refused
        return self._stop.is_set() or self._refused is not None

    def _turn(self, wait_ns: int) -> None:
        try:
            self._client.poll(wait_ns / 1e9, self._done)
        except BaseException as error:
            self._raise_own(error)
            self._end_all(raised(error))
            self._client_raised = True
        if self._client_raised:
            self._client_raised = False
            self._clock.wait(threading.Event(), _AFTER_FAILURE_S)
        if (now_ns := self._now_ns()) >= self._hand_over_ns:
            self._recorder.hand_over()
            self._hand_over_ns = now_ns + HAND_OVER_NS

    def _raise_own(self, error: BaseException) -> None:
        """Raise again what is not an exception of the client: the user's interrupt, the harness'
        own, or a script's."""
        if isinstance(error, (AcklossError, KeyboardInterrupt)) or self._own_error:
            raise error

    def _end_all(self, ended: Completion) -> None:
        """Complete all that is in flight."""
        for thread in self._threads:
            if thread.in_flight is not None:
                self._done(thread.in_flight, ended)

    def _wait_ns(self, end_ns: int) -> int:
        """How long the next poll may wait: until the next operation is due, if one can begin."""
        due_ns = self._due_ns() if self._free else end_ns
        return min(max(0, due_ns - self._now_ns()), _WAIT_NS)

    def _due_ns(self) -> int:
        return self._begun_ns + int(self._attempted * self._period_ns)

    def _begin_due(self) -> bool:
        """Begin what is due, a burst at most. False: the client accepts no more now."""
        now, free, period_ns = self._now_ns, self._free, self._period_ns
        submit, record = self._client.submit, self._recorder.invoke
        for _ in range(min(_BURST, len(free))):
            now_ns = now()
            intended_ns = self._due_ns() if period_ns else now_ns
            if intended_ns > now_ns:
                break
            thread = free.popleft()
            process, op = thread.process, thread.op
            thread.intended_ns = intended_ns
            try:
                accepted = submit(process, op)
            except BaseException as error:
                return self._submit_raised(thread, now_ns, error)
            if not accepted:
                free.append(thread)
                return False
            try:
                record(process, op, intended_ns, now_ns)
            except Exception:
                self._rules.check(op)
                raise
            thread.in_flight = process
            self._attempted += 1
        return True

    def _submit_raised(self, thread: _Thread, now_ns: int, error: BaseException) -> bool:
        """The operation may have been sent. Nothing more is begun in this turn."""
        self._recorder.invoke(thread.process, thread.op, thread.intended_ns, now_ns)
        thread.in_flight = thread.process
        self._attempted += 1
        self._done(thread.process, raised(error))
        self._raise_own(error)
        self._client_raised = True
        return False

    def _done(self, process: int, ended: Completion) -> None:
        thread = self._threads[process % self._processes]
        if thread.in_flight != process:
            return  # ended before: in info when the client raised, or reported twice
        thread.in_flight = None
        now_ns = self._now_ns()
        try:
            self._recorder.complete(process, thread.op, ended, thread.intended_ns, now_ns)
            if ended[0] == INFO:
                thread.process = process + self._processes
                self.last_process = max(self.last_process, thread.process)
            thread.op = op = thread.script.send(ended)
            f, value, partition, _, _ = op
            if partition not in self._places[f] or (
                not self._least <= value <= self._most and f in self._writes
            ):
                self._rules.check(op)
        except StopIteration:
            self._running -= 1
        except Exception:
            self._own_error = True
            self._rules.check_completion(ended)
            self._rules.check(thread.op)
            raise
        else:
            self._free.append(thread)


# A larger share of this machine's processors for the load generator, where it may have one.
#
# Often clusters and load generators share a few cores, several of each in a campaign. Linux
# shares its processors first among sessions and containers (`man 7 sched`, autogroups), and only
# then among the threads of each: a load generator that begins a little every few milliseconds
# then waits behind whatever starts, recovers or is judged meanwhile, and its run is starved. So a
# session that holds nothing but one load generator, which is that of a worker of a campaign, has
# a higher weight during a paced load. A weight, not a real-time policy: even if something spins
# here, others still get a share.
#
# Needs root or CAP_SYS_NICE, and autogroups; without, nothing changes.

MOST_PER_S: Final = 5_000
"""The highest rate, of all that this process begins, at which its load has the larger share. A
faster load would take what its own cluster needs."""
NICE: Final = -16
"""Some 36 times the weight of a session like others: more than all containers together have where
`scripts/setup` raised theirs, or the start of nodes would starve it."""

_AUTOGROUP: Final = Path("/proc/self/autogroup")


@contextmanager
def larger_share(rate_per_s: float) -> Iterator[bool]:
    """Let the session of this process, if it leads one of its own, have a larger share of the
    processors while the context lasts; yields whether it has.

    `rate_per_s` is that of all operations which are to begin, 0 for full speed. Without effect
    on the session of a user's shell, in which other programs run."""
    before = _nice() if os.getsid(0) == os.getpid() else None
    if before is None or not 0 < rate_per_s <= MOST_PER_S or not _give(NICE):
        yield False
        return
    try:
        yield True
    finally:
        _give(before)


def _nice() -> int | None:
    """The nice value of this session; `None` where the kernel has no autogroups."""
    with suppress(OSError):
        if found := re.search(r"nice (-?\d+)", _AUTOGROUP.read_text(encoding="ascii")):
            return int(found[1])
    return None


def _give(nice: int) -> bool:
    """Set the nice value of this session. False: this process may not."""
    try:
        _AUTOGROUP.write_text(str(nice), encoding="ascii")
    except OSError:
        return False
    return True
