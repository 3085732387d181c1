"""The Java client's driver, started once for all tests that write by it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from harness.errors import HarnessFailure
from tests.fixtures.fake_kafka import fake_kafka
from tests.fixtures.java_driver import Address, driver, java_client


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Where it listens. Its first producer takes long where much else runs, too long sometimes, and
    is not used by a test."""
    with driver(Path(tmp_path_factory.mktemp("driver"))) as address:
        with fake_kafka() as broker, suppress(HarnessFailure):
            java_client(address, broker.address, broker.topic, {}).close(0, {}.__setitem__)
        yield address
