"""Arrow's arrays from numpy's columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from harness.history.parquet_writer import numbers, strings, texts, values
from harness.protocols import NULL, Texts

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=9)


@given(st.lists(st.none() | st.integers(NULL + 1, 2**63 - 1)))
def test_numbers_are_those_of_the_column(column: list[int | None]) -> None:
    stored = np.array([NULL if each is None else each for each in column], np.int64)
    assert numbers(stored).equals(pa.array(column, pa.int64()))
    assert numbers(stored[::-2]).equals(pa.array(column[::-2], pa.int64()))


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_values_have_no_null(column: list[int]) -> None:
    assert values(np.array(column, np.int64)).equals(pa.array(column, pa.int64()))


def test_only_texts_that_occur_are_encoded() -> None:
    """A run may have gigabytes of names, and one row that is odd."""
    cannot_be_encoded = "\ud800"
    column = Texts(np.array([2, -1, 2], np.int32), ["", cannot_be_encoded, "a"])
    assert texts(column).to_pylist() == ["a", None, "a"]


@given(NAMES, st.lists(st.integers(-1, 8)))
def test_texts_are_those_of_the_column(names: list[str], codes: list[int]) -> None:
    there = [code for code in codes if code < len(names)]
    column = Texts(np.array(there, np.int32), names)
    assert texts(column).equals(pa.array(column.objects().tolist(), pa.string()))
    assert strings(names).equals(pa.array(names, pa.string()))
