"""Fixtures of the tests of the harness."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from harness.faults.journal import Journal
from tests.fixtures.planting import plant

__all__ = ["plant"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of `journal`."""
    return tmp_path / "faults.jsonl"


@pytest.fixture
def journal(path: Path) -> Iterator[Journal]:
    """A journal of faults, to which each look at the clock takes a second."""
    ticks = count(0, 1_000_000_000)
    opened = Journal(path, lambda: next(ticks))
    yield opened
    opened.close()
