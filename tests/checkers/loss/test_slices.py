"""Every value belongs to one shard, in which it has a place; numbers take what they need."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.loss import numbering
from checkers.loss.numbering import Narrow, Slice
from checkers.loss.readers import Ranges
from harness.protocols import NULL, Texts

VALUES = st.lists(st.integers(-300, 300) | st.integers(-(2**63) + 1, 2**63 - 1), unique=True)


@given(VALUES, st.integers(2, 7), st.sampled_from([0, 2, 10]))
def test_shards_hold_each_value_once(values: list[int], of: int, bits: int) -> None:
    asked = np.array(values, np.int64)
    key = Texts.nulls(len(values))
    held: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbering, "BLOCK_BITS", bits)
        for number in range(of):
            shard = Slice(number, of)
            places = shard.things(key, asked)[1]
            assert len(set(places.tolist())) == len(places)
            held += shard.outside(places).tolist()
    assert sorted(held) == sorted(values)


def test_the_values_of_a_shard_are_as_dense_as_those_of_the_run() -> None:
    values = np.arange(0, 3_000_000, 3)  # all have the same remainder by 3
    key = Texts.nulls(len(values))
    for number in range(3):
        places = Slice(number, 3).things(key, values)[1]
        assert len(places) == pytest.approx(len(values) / 3, rel=0.01)
        assert np.ptp(places) == pytest.approx(np.ptp(values) / 3, rel=0.01)


NUMBERS = st.sampled_from([NULL, 0, -1, 127, 128, -128, -129, 2**15, -(2**31), 2**31, 2**62])


@given(st.lists(st.lists(st.tuples(st.integers(0, 9), NUMBERS), max_size=6), max_size=5))
def test_numbers_are_those_that_were_put_last(parts: list[list[tuple[int, int]]]) -> None:
    narrow, truth = Narrow(10, np.int8), dict.fromkeys(range(10), NULL)
    every = np.arange(10)
    for part in parts:
        places, numbers = np.array(part, np.int64).reshape(-1, 2).T
        narrow.put(places, numbers)
        truth.update(part)
        assert narrow.lacks(every).tolist() == [truth[place] == NULL for place in range(10)]
        for number in {*truth.values()} - {NULL}:
            held = narrow.holds(every, np.full(10, number))
            assert held.tolist() == [truth[place] == number for place in range(10)]


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=6),
    st.lists(st.integers(-2, 22)),
)
def test_ranges_hold_what_lies_in_any_of_them(
    ranges: list[tuple[int, int]], offsets: list[int]
) -> None:
    held = Ranges.of(ranges).hold(np.array(offsets, np.int64))
    assert held.tolist() == [any(a <= offset < b for a, b in ranges) for offset in offsets]
