"""Parts that are read ahead are the same, and nobody reads for a consumer that has left."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from harness.errors import HistoryError
from harness.history.rows import PARTS, THREADS, ahead


@pytest.mark.parametrize("items", [0, 1, 2, 3, 50])
def test_parts_come_in_order(items: int) -> None:
    """Whatever number of parts each item has."""

    def parts(item: int) -> list[tuple[int, int]]:
        return [(item, part) for part in range(item * 7 % 5)]

    expected = [part for item in range(items) for part in parts(item)]
    assert list(ahead(range(items), parts)) == expected


def test_what_reading_raises_is_raised_behind_the_parts_before_it() -> None:
    def damaged(item: int) -> Iterator[int]:
        yield item
        if item == 3:
            raise HistoryError("is damaged", file="part-00003.parquet")

    parts = ahead(range(9), damaged)
    assert [next(parts) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(HistoryError, match="is damaged"):
        next(parts)


def test_a_few_parts_are_read_ahead_and_none_for_a_consumer_that_left() -> None:
    made: list[int] = []

    def counted(item: int) -> Iterator[int]:
        for number in range(10_000):
            made.append(number)
            yield number

    parts = ahead(range(8), counted)
    assert next(parts) == 0
    parts.close()  # type: ignore[attr-defined]
    for thread in threading.enumerate():
        if thread.name == "read-ahead":
            thread.join(timeout=30)
    number = len(made)
    assert number <= THREADS * (PARTS + 3)
    time.sleep(0.3)
    assert len(made) == number
