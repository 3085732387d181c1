"""Values are found where numpy finds them, in whichever order they are given."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from harness.history import parquet_writer as columns
from harness.history.parquet_writer import among, places

INTEGERS = arrays(np.int64, st.integers(0, 60), elements=st.integers(-(2**63), 2**63 - 1))
NEAR = arrays(np.int64, st.integers(0, 60), elements=st.integers(0, 30))


@pytest.fixture(autouse=True, scope="module", params=[columns._AT_ONCE, 7])
def at_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """All of a test's values together, and some."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_AT_ONCE", request.param)
        yield


@given(st.one_of(INTEGERS, NEAR), st.one_of(INTEGERS, NEAR))
def test_each_value_is_found_where_numpy_finds_it(numbers: np.ndarray, values: np.ndarray) -> None:
    ordered = np.sort(numbers)
    assert places(ordered, values).tolist() == np.searchsorted(ordered, values).tolist()
    assert among(values, ordered).tolist() == [
        value in numbers.tolist() for value in values.tolist()
    ]


@pytest.mark.parametrize(("ordered", "found"), [([], [False, False]), ([5], [False, True])])
def test_nothing_is_among_nothing(ordered: list[int], found: list[bool]) -> None:
    held = np.array(ordered, np.int64)
    assert among(np.array([7, 5]), held).tolist() == found
    assert among(np.zeros(0, np.int64), held).tolist() == []
