"""What all tests share: one Spark session, no deadline for an example on a busy machine, and how
tests are dealt out to processes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark import SparkContext

from checkers.judging.spark import context

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")


E2E = Path(__file__).parent / "e2e"


@pytest.hookimpl(tryfirst=True)  # before xdist looks for the mark
def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """With `-n`, the tests of a file share a process, as they share fixtures; those of e2e share
    nothing, unless a file says otherwise."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and E2E not in item.path.parents:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))


@pytest.fixture(scope="session")
def spark() -> SparkContext:
    """The Spark of this test process."""
    return context()
