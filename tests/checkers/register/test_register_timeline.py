"""What is open at each completion of a search."""

from __future__ import annotations

from checkers.register.linearization import timeline
from tests.checkers.register.histories import r, w


def test_a_moment_holds_the_values_of_open_reads_alone():
    """Else a key of n values would take n times n entries."""
    writes = [w(value, 10 * value, 10 * value + 1) for value in range(1, 40)]
    reads = [r(value, 10 * value + 2, 10 * value + 15, process=1) for value in range(1, 40)]
    moments = timeline([*writes, *reads]).moments
    assert max(len(moment.reads_of) for moment in moments) == 2
    assert all(
        len(moment.reads_of) == len(moment.reads) and all(moment.reads_of.values())
        for moment in moments
    )
