"""Findings of many groups in one order: as if all had been sorted at once."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.loss import findings
from checkers.loss.findings import FINDINGS, KINDS, Pile, ordered, together

ROWS = st.lists(
    st.tuples(
        st.sampled_from(KINDS),
        st.none() | st.integers(0, 1),
        st.none() | st.integers(0, 2),
        st.integers(-1, 1),
    ),
    max_size=9,
)


def table(rows: list[tuple[Any, ...]], number: int) -> pa.Table:
    """Rows in order, each with its place among all rows as its offset."""
    columns = ("kind", "partition", "complete_ns", "value")
    rest = dict.fromkeys(FINDINGS.names)
    made = [
        {**rest, **dict(zip(columns, row, strict=True)), "offset": 100 * number + at}
        for at, row in enumerate(rows)
    ]
    return ordered(pa.Table.from_pylist(made, schema=FINDINGS))


@given(st.lists(ROWS, max_size=5), st.integers(0, 30), st.integers(1, 4), st.integers(0, 5))
def test_many_tables_are_merged_as_one_is_sorted(
    rows: list[list[tuple[Any, ...]]], held: int, batch: int, cut: int
) -> None:
    tables = [table(each, number) for number, each in enumerate(rows)]
    whole = ordered(pa.concat_tables([FINDINGS.empty_table(), *tables]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(findings, "HELD", held)
        patch.setattr(findings, "BATCH", batch)
        piles = [Pile(tables[:cut]), Pile(tables[cut:])]
        found = together(piles)
        assert isinstance(found, pa.RecordBatchReader) or len(whole) <= held or len(tables) == 1
        merged = found if isinstance(found, pa.Table) else found.read_all()
        assert merged.equals(whole)
        taken = together([pickle.loads(pickle.dumps(each)) for each in piles])
        assert (taken if isinstance(taken, pa.Table) else taken.read_all()).equals(whole)
