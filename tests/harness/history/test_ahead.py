"""Parts that are read ahead are the same, and nobody reads for a consumer that has left."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from harness.errors import HistoryError
from harness.history.ahead import PARTS, ahead


def test_parts_come_in_order() -> None:
    assert list(ahead(iter(range(50)))) == list(range(50))
    assert list(ahead(iter([]))) == []


def test_what_reading_raises_is_raised_behind_the_parts_before_it() -> None:
    def damaged() -> Iterator[int]:
        yield 1
        raise HistoryError("is damaged", file="part-00001.parquet")

    parts = ahead(damaged())
    assert next(parts) == 1
    with pytest.raises(HistoryError, match="is damaged"):
        next(parts)


def test_a_few_parts_are_read_ahead_and_none_for_a_consumer_that_left() -> None:
    made: list[int] = []

    def counted() -> Iterator[int]:
        for number in range(10_000):
            made.append(number)
            yield number

    parts = ahead(counted())
    assert next(parts) == 0
    parts.close()  # type: ignore[attr-defined]
    for thread in threading.enumerate():
        if thread.name == "read-ahead":
            thread.join(timeout=30)
    number = len(made)
    assert number <= PARTS + 3
    time.sleep(0.3)
    assert len(made) == number
