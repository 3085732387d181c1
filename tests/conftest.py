"""What all tests share: one Spark session, no deadline for an example on a busy machine, and no
garbage collection of what was there before each file."""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings
from pyspark import SparkContext

from checkers.judging.spark import context

pytest_plugins = ["tests.side_by_side"]

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


@pytest.fixture(scope="session")
def spark() -> SparkContext:
    """The Spark of this test process."""
    return context()


def pytest_collection_finish() -> None:
    _leave_out_of_garbage_collection()


@pytest.hookimpl(trylast=True)  # when the fixtures of the file have ended
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is not None and nextitem.path != item.path:
        _leave_out_of_garbage_collection()


def _leave_out_of_garbage_collection() -> None:
    """What is there now: thousands of tests, and all modules. Each run of a plan collects."""
    gc.collect()
    gc.freeze()
