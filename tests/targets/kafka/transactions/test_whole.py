"""What markers in a log say of its records."""

from __future__ import annotations

import numpy as np
import pytest

from targets.kafka.record_sets import Span
from targets.kafka.transactions.instances import Open, aborted

A, B = 7, 9


def test_records_are_aborted_by_the_next_marker_of_their_producer() -> None:
    spans = [
        Span(A, 0, 2, None),
        Span(B, 2, 3, None),
        Span(A, 3, 4, None),
        Span(A, 4, 5, False),
        Span(A, 5, 6, None),
        Span(B, 6, 7, True),
        Span(A, 7, 8, True),
        Span(B, 8, 9, False),
    ]
    offsets = np.array([0, 1, 2, 3, 5, 9, 10])
    found = aborted(offsets, [*reversed(spans), *spans[:3]])
    assert offsets[found].tolist() == [0, 1, 3]
    assert not aborted(offsets, ()).any()
    assert aborted(np.empty(0, np.int64), spans).tolist() == []


def test_a_transaction_without_a_marker_is_open() -> None:
    with pytest.raises(Open):
        aborted(np.array([0]), [Span(A, 0, 1, None), Span(B, 1, 2, False)])
