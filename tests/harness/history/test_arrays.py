"""Arrow's arrays from numpy's columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from harness.history.arrays import numbers, strings, texts
from harness.protocols import NULL, Texts

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=9)


@given(st.lists(st.none() | st.integers(NULL + 1, 2**63 - 1)))
def test_numbers_are_those_of_the_column(column: list[int | None]) -> None:
    stored = np.array([NULL if each is None else each for each in column], np.int64)
    assert numbers(stored).equals(pa.array(column, pa.int64()))
    assert numbers(stored[::-2]).equals(pa.array(column[::-2], pa.int64()))


@given(NAMES, st.lists(st.integers(-1, 8)))
def test_texts_are_those_of_the_column(names: list[str], codes: list[int]) -> None:
    there = [code for code in codes if code < len(names)]
    column = Texts(np.array(there, np.int32), names)
    assert texts(column).equals(pa.array(column.objects().tolist(), pa.string()))
    assert strings(names).equals(pa.array(names, pa.string()))
