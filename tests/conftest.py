"""What all tests share: which of them run, in which process, one Spark session, no deadline for an
example on a busy machine, and no garbage collection of what was there before each file.

`make test` leaves those with the marker `full` to `make e2e`: others show the same in less time.

With `pytest -n N --dist loadgroup --no-loadscope-reorder` the files that run plans on real nodes,
or need nodes alone, real time or Java, Spark or a browser are in one group each, whose tests run
one after the other: real runs starve each other on two cores, and a starved run is `unknown`. Every
other file is a group. What is not real has a low priority. A test that compares the whole machine
before and after (the marker `alone`) waits for the end of the real tests beside it, and none begins
before its own end: such files are the last of their group, when most of the others have ended.
"""

from __future__ import annotations

import fcntl
import gc
import multiprocessing
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from pyspark import SparkContext

from checkers.judging.spark import context
from tests.fixtures.budget import FULL
from tests.fixtures.forked import get_context

if TYPE_CHECKING:
    from tests.fixtures.s3 import S3

CLUSTERS, PODS, LOAD = "clusters", "pods", "load"
REAL = (CLUSTERS, PODS, LOAD)
SPARK, BROWSER, SLOW = "spark", "browser", "slow"
FIRST = (*REAL, SPARK, BROWSER, SLOW)
"""What begins first, so that it is not left at the end."""
SPAWNED = multiprocessing.get_context
IN_PARALLEL = "PYTEST_XDIST_WORKER" in os.environ

gc.disable()  # until all tests are collected: nothing of what is made meanwhile goes

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session", autouse=True)
def forked() -> Iterator[None]:
    """No process of the product's pools imports all that the others have imported."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("multiprocessing.get_context", get_context)
        yield


@pytest.fixture
def spawned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The product's own processes, for tests of how they begin and end."""
    monkeypatch.setattr("multiprocessing.get_context", SPAWNED)


@pytest.fixture(scope="module")
def undrawn() -> Iterator[None]:
    """Pages have empty pictures."""
    from tests.fixtures import pictures  # imports what most tests do not need

    with pictures.unmade():
        yield


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """An S3 server with the bucket `bucket`."""
    from tests.fixtures.s3 import s3_bucket  # imports what most tests do not need

    with s3_bucket(tmp_path_factory.mktemp("s3"), "bucket") as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> SparkContext:
    """The Spark of this test process."""
    return context()


def kind_of(marks: Iterable[str]) -> str:
    """Which of `FIRST` tests with these marks are, or nothing."""
    named = {*marks}
    if "docker" in named:
        return CLUSTERS if "e2e" in named else PODS
    if named & {"real_time", "java"}:  # Java's client is started once
        return LOAD
    if "pages" in named:
        return BROWSER
    return next((kind for kind in FIRST[len(REAL) :] if kind in named), "")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if not FULL and item.get_closest_marker("full")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("full")]
    if IN_PARALLEL:
        marks: dict[Path, set[str]] = {}
        for item in items:  # a file is in one group: what it shares is made once
            marks.setdefault(item.path, set()).update(mark.name for mark in item.iter_markers())
        kinds = {path: kind_of(named) for path, named in marks.items()}
        for item in items:
            kind = kinds[item.path]
            item.add_marker(pytest.mark.xdist_group(kind if kind in FIRST[:-1] else str(item.path)))
        alone = {path for path, named in marks.items() if "alone" in named}
        items.sort(key=lambda item: ((*FIRST, "").index(kinds[item.path]), item.path in alone))


def pytest_collection_finish(session: pytest.Session) -> None:
    grouped = IN_PARALLEL and session.config.getvalue("loadgroup")
    if grouped and (loose := [item.nodeid for item in session.items if "@" not in item.nodeid]):
        raise pytest.UsageError(f"xdist reads no groups: {loose[0]} has none in its id")
    gc.freeze()  # thousands of tests, and all modules
    gc.enable()


@pytest.hookimpl(trylast=True)  # when the fixtures of the file have ended
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What is left is left out of garbage collection: each run of a plan collects."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@contextmanager
def _locked(name: str, how: int) -> Iterator[None]:
    path = Path(tempfile.gettempdir()) / f"tests-of-ackloss-{os.geteuid()}-{name}.lock"
    with path.open("w") as file:
        fcntl.flock(file, how)
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)  # no timeout runs while a test waits for its place
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Give the test its place and its priority, which only root can raise again: only root has both
    kinds of test. Who waits to be alone keeps the gate, and is not overtaken again and again."""
    group = item.get_closest_marker("xdist_group")
    if group is None or os.geteuid() != 0:
        return (yield)
    real = group.args[0] in REAL
    os.setpriority(os.PRIO_PROCESS, 0, 0 if real else 10)
    with ExitStack() as place:
        if real:
            alone = item.get_closest_marker("alone") is not None
            with _locked("gate", fcntl.LOCK_EX):
                place.enter_context(_locked("place", fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        return (yield)
