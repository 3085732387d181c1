"""What all tests share: one Spark session."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from checkers.session import session


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """The session of the whole test run, as small histories get it."""
    return session(small=True)
