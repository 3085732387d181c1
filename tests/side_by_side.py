"""Which tests run side by side (`pytest -n 5`, loaded by `conftest.py`).

Real runs starve each other on two cores, and a starved run is `unknown`. So what needs Docker or
runs in real time (the markers `docker` and `real_time`) is in groups, in each one test after the
other, of which three are under way at a time: one of the files with plans on real clusters (the
marker `e2e`), and beside it both groups on pods, which mostly wait for connections to time out.
What needs no cluster computes meanwhile, at a low priority, in the other processes. A test that
compares the whole machine before and after (the marker `alone`) waits for the end of the real test
beside it, and no other begins before its own end: objects of others that come and go would look
like its own.

A test that runs `ackloss` with a cluster in a process begins a session with it: there its load has
a larger share (`harness.machine.priority`).
"""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from enum import IntEnum, auto
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).parents[1]
PROCESSES = "PYTEST_XDIST_WORKER"  # set in each process of `pytest -n`
STARVABLE = ("docker", "real_time")
_LONG_S = 50
_SPARK_S = 200
FAULTS, PODS, PLAN = "faults on pods", "on pods", "real plans of "
SPARK = "judged by Spark"


@cache
def marks(file: str) -> dict[str, str]:
    """The markers that a file names, each with the number in its brackets, or nothing."""
    path = ROOT / file
    text = path.read_text(encoding="utf-8") if path.is_file() else ""  # a group of files is none
    return dict(re.findall(r"mark\.(\w+)(?:\((\d+)\))?", text))


@cache
def group(file: str) -> str:
    """The tests that run one after the other with those of this file (path from the root). Those
    with Spark share one: its start computes for seconds, in each process that needs it."""
    if marks(file).keys().isdisjoint(STARVABLE):
        in_this_process = "spark" in marks(file) and "e2e" not in Path(file).parts
        return SPARK if in_this_process else file
    if "e2e" not in marks(file):
        return FAULTS if "conformance" in Path(file).parts else PODS
    return PLAN + file


class Kind(IntEnum):
    """What a group needs, in the order in which they begin; of each but the last, one at a time."""

    CLUSTERS = auto()
    FAULTS = auto()
    PODS = auto()
    NONE = auto()


NICE = {Kind.CLUSTERS: 0, Kind.FAULTS: 0, Kind.PODS: 0, Kind.NONE: 10}
"""The nice values of sessions: what needs no cluster has a small share, not none, as some of its
tests wait for answers with a timeout. Tests on clusters have no larger one than others: their
brokers are in their own sessions, and would wait."""

NICE_OF_LITTLE = -5
"""Of those that run in real time and need little."""


def kind(group_of_tests: str) -> Kind:
    if group_of_tests.startswith(PLAN):
        return Kind.CLUSTERS
    return {FAULTS: Kind.FAULTS, PODS: Kind.PODS}.get(group_of_tests, Kind.NONE)


def about_s(group_of_tests: str) -> int:
    """About how many seconds a file without clusters takes beside the others, if it computes for
    long (the marker `long`, with seconds), starts Spark, or opens pages; else 0."""
    named = marks(group_of_tests)
    if "long" in named:
        return int(named["long"])
    if group_of_tests == SPARK:
        return _SPARK_S
    return _LONG_S if {"spark", "browser"} & named.keys() else 0


def nice(file: str) -> int:
    """The nice value of the session that runs a file's tests."""
    of_kind = kind(group(file))
    in_real_time = of_kind is Kind.PODS and "real_time" in marks(file)
    return NICE_OF_LITTLE if in_real_time else NICE[of_kind]


def is_real(group_of_tests: str) -> bool:
    """Whether a cluster or real time is needed."""
    return kind(group_of_tests) is not Kind.NONE


class SideBySide(LoadScopeScheduling):
    """So many real groups at a time, and what needs no cluster in the other processes."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid.split("::", 1)[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Nothing while the groups that are left have to wait: who ends one takes the next."""
        under_way = {
            kind(name) for other in self.nodes if other is not node for name in self._real(other)
        }
        free = [name for name in self.workqueue if kind(name) not in under_way]
        if free:  # of those without clusters the longest first, so that none is left at the end
            chosen = min(free, key=lambda name: (kind(name), -about_s(name)))
            self.workqueue.move_to_end(chosen, last=False)
            super()._assign_work_unit(node)

    def _real(self, node: WorkerController) -> list[str]:
        """The real groups of which tests are left to it."""
        units = self.assigned_work.get(node, {}).items()
        return [name for name, tests in units if is_real(name) and not all(tests.values())]


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> SideBySide:
    return SideBySide(config, log)


@cache
def own_session() -> None:
    """Linux shares its time among sessions and containers first (`man 7 sched`, autogroups), and
    among the processes of each next: the nice value of a process says nothing to brokers."""
    with suppress(PermissionError):  # it leads one already
        os.setsid()


@contextmanager
def locked(name: str, how: int) -> Iterator[None]:
    """Holds a lock of all processes of this user (`flock`)."""
    path = Path(tempfile.gettempdir()) / f"tests-of-ackloss-{os.geteuid()}-{name}.lock"
    with path.open("w") as file:
        fcntl.flock(file, how)
        yield


@contextmanager
def beside_others(*, alone: bool) -> Iterator[None]:
    """The place of a real test: many at a time, or one that is alone. Who waits for a place keeps
    the gate, so that one which waits to be alone is not overtaken again and again."""
    with ExitStack() as gate, ExitStack() as place:
        gate.enter_context(locked("gate", fcntl.LOCK_EX))
        place.enter_context(locked("place", fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        gate.close()
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)  # no timeout runs while a test waits for its place
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Only root can raise a priority again, and only root runs both kinds of test."""
    if PROCESSES in os.environ and os.geteuid() == 0:
        own_session()
        file = item.nodeid.split("::", 1)[0]
        name, priority = group(file), nice(file)
        os.setpriority(os.PRIO_PROCESS, 0, max(priority, 0))
        with suppress(OSError):  # no autogroups here
            Path("/proc/self/autogroup").write_text(str(priority))
        if is_real(name):
            with beside_others(alone=item.get_closest_marker("alone") is not None):
                return (yield)
    return (yield)
