"""Which tests run side by side (`pytest -n 3`, loaded by `conftest.py`).

Real runs starve each other on two cores, and a starved run is `unknown`. So what needs Docker or
plays in real time (the markers `docker` and `real_time`) is in three groups, in each one test after
the other. Tests on pods mostly wait for connections to time out: they begin, and what needs no
cluster computes meanwhile, at a low priority, in the other processes. Plans on real clusters (the
marker `e2e`) come last, in two groups: they have the two cores for themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
PROCESSES = "PYTEST_XDIST_WORKER"  # set in each process of `pytest -n`
STARVABLE = ("docker", "real_time")
PODS, OURS, OTHERS = "on pods", "of ours", "of others"
OF_OTHERS = ("test_any_client.py", "test_compose.py", "test_external.py", "test_ssh.py")
"""With clusters, hosts or clients of others; they take as long as all other real plans."""
LOW = 10
"""The nice value of the sessions of the others: they need a share of the time, as some of their
tests wait for answers with a time-out."""


@cache
def group(file: str) -> str:
    """The tests that run one after the other with those of this file (path from the root)."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if not any(f"mark.{marker}" in text for marker in STARVABLE):
        return file
    if "mark.e2e" not in text:
        return PODS
    return OTHERS if Path(file).name in OF_OTHERS else OURS


class SideBySide(LoadScopeScheduling):
    """Tests on pods first, on real clusters last."""

    def _split_scope(self, nodeid: str) -> str:
        return group(nodeid.split("::", 1)[0])

    def _assign_work_unit(self, node: object) -> None:
        if PODS in self.workqueue:
            self.workqueue.move_to_end(PODS, last=False)
        for last in (OURS, OTHERS):
            if last in self.workqueue:
                self.workqueue.move_to_end(last)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> SideBySide:
    return SideBySide(config, log)


@cache
def own_session() -> None:
    """Linux shares its time among sessions and containers first (`man 7 sched`, autogroups), and
    among the processes of each next: the nice value of a process says nothing to brokers."""
    with suppress(PermissionError):  # it leads one already
        os.setsid()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Only root can raise a priority again, and only root runs both kinds of test."""
    if PROCESSES in os.environ and os.geteuid() == 0:
        own_session()
        real = group(item.nodeid.split("::", 1)[0]) in (PODS, OURS, OTHERS)
        priority = 0 if real else LOW
        os.setpriority(os.PRIO_PROCESS, 0, priority)
        with suppress(OSError):  # no autogroups here
            Path("/proc/self/autogroup").write_text(str(priority))
    return (yield)
