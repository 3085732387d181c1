"""What all tests share: one Spark session, and no deadline for an example on a busy machine."""

from __future__ import annotations

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
