"""Numbering and the order of Clojure's sets."""

from __future__ import annotations

import numpy as np
import pytest

from checkers.graphs import codes_of, ordered
from checkers.transactional_log.values import rank
from harness.models.micro_ops import TEXT


@pytest.mark.parametrize("spread", [1, 3, 2**40, 2**60])
@pytest.mark.parametrize("majors", [1, 3])
def test_codes_are_places_among_the_distinct(spread: int, majors: int) -> None:
    rng = np.random.default_rng(5)
    values = rng.integers(-3, 4, 500) * spread
    major = rng.integers(0, majors, 500)
    pairs = sorted({*zip(major.tolist(), values.tolist(), strict=True)})
    codes, number = codes_of(values, major)
    assert number == len(pairs)
    assert codes.tolist() == [
        pairs.index(each) for each in zip(major.tolist(), values.tolist(), strict=True)
    ]


def test_codes_of_nothing_and_of_all_integers() -> None:
    assert codes_of(np.empty(0, np.int64)).number == 0
    wide = np.array([2**63 - 1, -(2**63), 0])
    assert codes_of(wide).codes.tolist() == [2, 0, 1]
    assert codes_of(wide, np.array([0, 1, 1])).codes.tolist() == [0, 1, 2]


@pytest.mark.parametrize("number", [5, 70_000])
def test_rows_keep_their_order_within_a_code(number: int) -> None:
    codes = np.array([number - 1, 0, 3, 0, number - 1])
    assert ordered(codes, number).tolist() == [1, 3, 2, 0, 4]


def test_ranks_are_those_of_clojure() -> None:
    """`(seq (set (range 10)))`; texts come behind."""
    assert sorted(range(10), key=rank) == [0, 7, 1, 4, 6, 3, 2, 9, 5, 8]
    assert rank(-1) < rank(TEXT) < rank(TEXT + 1)
