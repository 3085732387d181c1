"""What all tests share: one Spark session."""

from __future__ import annotations

import pytest
from pyspark import SparkContext

from checkers.spark import context


@pytest.fixture(scope="session")
def spark() -> SparkContext:
    """The Spark of the whole test run."""
    return context()
