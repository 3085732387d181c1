"""Dense numbers, in whichever way they are found: the place among the distinct keys and values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkers.loss import numbering
from checkers.loss.numbering import Extent, Gapped, InARow, Listed, distinct, numbered
from harness.errors import HistoryError
from harness.protocols import Ints, Texts

NO_KEY = -1


def unkeyed(size: int) -> Texts:
    return Texts.nulls(size)


def things(*parts: list[int]) -> list[tuple[Texts, Ints]]:
    return [(unkeyed(len(part)), np.array(part, np.int64)) for part in parts]


VALUES = st.lists(
    st.integers(0, 900) | st.integers(-400, 9_000) | st.integers(-(2**62), 2**62), min_size=1
)


@given(VALUES, VALUES)
def test_a_number_is_the_place_among_the_distinct_ones(first: list[int], second: list[int]) -> None:
    seen, ordered = things(first, second), sorted({*first, *second})
    found = numbered(lambda: seen)
    for _, values in seen:
        numbers = found.numbers(unkeyed(len(values)), values)
        if not isinstance(found, InARow):
            assert numbers.tolist() == [ordered.index(value) for value in values.tolist()]
        keys, back = found.things(numbers)
        assert back.tolist() == values.tolist()
        assert keys.objects().tolist() == [None] * len(values)
        assert found.size > numbers.max()


@pytest.mark.parametrize("flags", [0, numbering._FLAGS])
@given(st.lists(st.integers(0, 40_000), min_size=1), st.integers(-(2**40), 2**40))
def test_bits_and_a_list_give_the_same_numbers(flags: int, values: list[int], shift: int) -> None:
    moved = [value + shift for value in values]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbering, "_FLAGS", flags)
        bits = Gapped.of(min(moved), max(moved), things(moved))
    listed = Listed.of(things(moved))
    asked = np.array(moved, np.int64)
    assert bits.size == listed.size == len(set(moved))
    ours, theirs = (each.numbers(unkeyed(len(asked)), asked) for each in (bits, listed))
    assert ours.tolist() == theirs.tolist()
    assert bits.things(ours)[1].tolist() == listed.things(theirs)[1].tolist() == moved


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (range(5000), InARow),
        (range(0, 5000 * 30, 30), Gapped),
        (range(0, 5000 * 30_000, 30_000), Listed),
    ],
)
def test_which_way_is_taken(values: range, kind: type) -> None:
    assert isinstance(numbered(lambda: things(list(values))), kind)


def test_keys_are_listed() -> None:
    key = Texts(np.array([0, 1, NO_KEY], np.int32), ["a", "b"])
    found = numbered(lambda: [(key, np.array([7, 7, 7]))])
    assert isinstance(found, Listed)
    assert found.numbers(key, np.array([7, 7, 7])).tolist() == [1, 2, 0]


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_the_distinct_ones_are_those_of_a_set(values: list[int]) -> None:
    assert distinct(np.array(values, np.int64)).tolist() == sorted(set(values))


@pytest.mark.parametrize(
    ("most", "kind", "flags"), [(20, InARow, 0), (5010, Gapped, 0), (5010, Gapped, 2**20)]
)
def test_values_beyond_what_a_file_states_are_refused(
    most: int, kind: type, flags: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they would have the numbers of others."""
    monkeypatch.setattr(numbering, "_FLAGS", flags)
    stated = Extent(100, False, 10, most)
    assert stated.way() is kind
    for value in (9, most + 1):
        seen = things([10, value])
        with pytest.raises(HistoryError, match="beyond those that its Parquet states"):
            numbered(lambda seen=seen: seen, stated).numbers(*seen[0])
    keyed = Texts(np.zeros(1, np.int32), ["x"])
    found = numbered(lambda: things([10]), stated)
    with pytest.raises(HistoryError, match="keys, of which its Parquet states that it has none"):
        found.numbers(keyed, np.array([10], np.int64))
