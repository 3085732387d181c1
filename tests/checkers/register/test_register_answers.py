"""Hand-made histories of one register, with the initial value 0, and what each says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from checkers.register.answers import LINEARIZABLE, SEQUENTIAL, answers
from checkers.register.linearization import INVALID, UNKNOWN, VALID, linearization
from checkers.register.operations import (
    NEVER,
    Operation,
    Operations,
)
from harness.protocols.runs import (
    NULL,
)
from tests.checkers.register.histories import c, fail, info, r, w


def verdict(*operations: Operation, consistency: str = LINEARIZABLE, initial: int = 0) -> str:
    """The verdict by columns or search, which by search alone is the same."""
    judged = answers(Operations.of(operations), consistency=consistency, initial=initial)
    return judged.verdicts[0]


LINEAR = {
    "a read of the initial value": [r(0, 1, 2)],
    "a read of what was written": [w(1, 1, 2), r(1, 3, 4)],
    "a read beside a write, of either": [w(1, 1, 9), r(0, 2, 3), r(1, 4, 5)],
    "operations that touch are concurrent": [w(1, 1, 5), r(0, 5, 6)],
    "they are within a process too": [w(1, 1, 5), w(2, 5, 6), r(1, 7, 8)],
    "two writes beside each other, read in either order": [w(1, 1, 5), w(2, 2, 6), r(1, 7, 8)],
    "an unanswered write that happened late": [info(w(1, 1, 2)), r(0, 3, 4), r(1, 5, 6)],
    "one that never happened": [info(w(1, 1, 2)), r(0, 3, 4)],
    "one that happened between two others": [w(2, 0, 1), info(w(1, 1, 2)), r(1, 3, 4), w(3, 5, 6)],
    "an unanswered read says nothing": [w(1, 1, 2), info(r(0, 3, 4))],
    "a refused write did nothing": [fail(w(1, 1, 2)), r(0, 3, 4)],
    "a refused compare-and-set says nothing": [w(1, 1, 2), fail(c(1, 2, 3, 4)), r(1, 5, 6)],
    "compare-and-sets in a chain": [c(1, 2, 1, 9), c(0, 1, 1, 9), r(2, 10, 11)],
    "an unanswered one that another needs": [info(c(0, 1, 1, 2)), c(1, 2, 3, 4), r(2, 5, 6)],
    "one that stores what it expects is a read": [w(1, 1, 2), c(1, 1, 3, 4), r(1, 5, 6)],
    "a value that is written twice": [w(1, 1, 2), w(2, 3, 4), w(1, 5, 6), r(1, 7, 8)],
    "the initial value, written again": [w(1, 1, 2), w(0, 3, 4), r(0, 5, 6)],
}
"""Every key has a linearization."""

NOT_LINEAR = {
    "a read of what nobody wrote": [r(1, 1, 2)],
    "a read of what was refused": [fail(w(1, 1, 2)), r(1, 3, 4)],
    "a read before its write": [r(1, 1, 2), w(1, 3, 4)],
    "a read before an unanswered write": [r(1, 1, 2), info(w(1, 3, 4))],
    "an old value": [w(1, 1, 2), w(2, 3, 4), r(1, 5, 6)],
    "the initial value after a write": [w(1, 1, 2), r(0, 3, 4)],
    "two reads that go back": [w(1, 1, 9), r(1, 2, 3), r(0, 4, 5)],
    "readers that disagree on an order": [
        *(w(1, 1, 5), w(2, 1, 5), r(1, 6, 7), r(2, 8, 9)),
        r(1, 10, 11),
    ],
    "a compare-and-set that expected another value": [w(1, 1, 2), c(0, 2, 3, 4)],
    "two that expected the same": [c(0, 1, 1, 9), c(0, 2, 1, 9)],
    "two that expect each other's": [c(1, 2, 1, 9), c(2, 1, 1, 9)],
    "one that needs an unanswered one too late": [c(1, 2, 1, 2), info(c(0, 1, 3, 4))],
    "an unanswered write that would have to happen twice": [
        *(info(w(1, 1, 2)), r(1, 3, 4), w(2, 5, 6), r(1, 7, 8))
    ],
    "a value that is written twice, read in between": [
        *(w(1, 1, 2), w(2, 3, 4), r(1, 5, 6), w(1, 7, 8))
    ],
    "one that stores what it expects, elsewhere": [w(2, 1, 2), c(1, 1, 3, 4)],
}
"""No key has one."""


@pytest.mark.parametrize("operations", LINEAR.values(), ids=LINEAR)
def test_what_has_a_linearization_is_valid(operations):
    assert verdict(*operations) == VALID


@pytest.mark.parametrize("operations", NOT_LINEAR.values(), ids=NOT_LINEAR)
def test_what_has_none_is_not(operations):
    assert verdict(*operations) == INVALID


@pytest.mark.parametrize("initial", [NULL, 0, 7])
def test_a_register_holds_its_initial_value_at_first(initial):
    assert verdict(r(initial, 1, 2), initial=initial) == VALID
    assert verdict(r(8, 1, 2), initial=initial) == INVALID
    assert verdict(c(initial, 8, 1, 2), r(8, 3, 4), initial=initial) == VALID


def test_processes_may_lag_behind_where_time_does_not_count():
    lagging = [w(1, 1, 2), w(2, 3, 4), r(1, 5, 6, process=1), r(2, 7, 8, process=1)]
    assert verdict(*lagging) == INVALID
    assert verdict(*lagging, consistency=SEQUENTIAL) == VALID


def test_but_no_process_goes_back():
    back = [w(1, 1, 2), w(2, 3, 4), r(2, 5, 6, process=1), r(1, 7, 8, process=1)]
    assert verdict(*back, consistency=SEQUENTIAL) == INVALID
    own = [w(1, 1, 2), r(0, 3, 4)]
    assert verdict(*own, consistency=SEQUENTIAL) == INVALID
    initial = [w(1, 1, 2), r(1, 3, 4, process=1), r(0, 5, 6, process=1)]
    assert verdict(*initial, consistency=SEQUENTIAL) == INVALID


def test_an_unanswered_write_follows_what_its_process_did_before():
    before = [r(1, 1, 2), info(w(1, 3, 4))]
    assert verdict(*before, consistency=SEQUENTIAL) == INVALID
    after = [info(w(1, 1, 2)), r(0, 3, 4), r(1, 5, 6)]
    assert verdict(*after, consistency=SEQUENTIAL) == VALID


def test_processes_that_wait_for_each_other_in_a_circle_are_found():
    circle = [
        *(w(1, 1, 2), r(2, 3, 4)),
        *(w(2, 1, 2, process=1), r(1, 3, 4, process=1)),
    ]
    assert verdict(*circle, consistency=SEQUENTIAL) == INVALID


def test_keys_are_judged_apart():
    good, bad = [w(1, 1, 2), r(1, 3, 4)], [w(1, 1, 2), r(0, 3, 4)]
    repeated = [w(1, 1, 2), w(1, 3, 4), r(1, 5, 6), r(0, 7, 8)]
    keys = {7: good, -3: bad, 9: repeated, 4: [fail(w(1, 1, 2))], 2: good}
    rows_of_all = [one._replace(key=key) for key, some in keys.items() for one in some]
    judged = answers(Operations.of(rows_of_all), initial=0)
    assert judged.keys.tolist() == [-3, 2, 4, 7, 9]
    assert judged.verdicts == (INVALID, VALID, VALID, VALID, INVALID)
    assert judged.of(INVALID).tolist() == [-3, 9]
    assert (judged.states > 0).tolist() == [False] * 4 + [True]


def test_nothing_was_done():
    for consistency in (LINEARIZABLE, SEQUENTIAL):
        judged = answers(Operations.of([]), consistency=consistency)
        assert judged.verdicts == ()


def test_a_search_that_gives_up_does_not_know():
    row = [w(at % 2, 1, 100, process=at) for at in range(12)]
    wrong = [*row, r(1, 101, 102), r(0, 103, 104)]
    assert verdict(*wrong) == INVALID
    operations = Operations.of(wrong)
    for consistency in (LINEARIZABLE, SEQUENTIAL):
        judged = answers(operations, consistency=consistency, initial=0, max_states=0)
        assert judged.verdicts == (UNKNOWN,)


def test_the_budget_does_not_grow_thin_over_a_long_history():
    """A configuration per operation is free, so length alone makes nothing undecided."""
    long = [w(at % 3, 10 * at, 10 * at + 5) for at in range(3_000)]
    reads = [r(at % 3, 10 * at + 6, 10 * at + 7, process=1) for at in range(3_000)]
    judged = answers(Operations.of(long + reads), max_states=0)
    assert judged.verdicts == (VALID,)


def test_the_longest_order_and_what_does_not_fit_are_reported():
    operations = [w(1, 1, 2), w(2, 3, 4), r(2, 3, 8), r(1, 5, 6), w(1, 7, 8)]
    found = linearization(operations, initial=0)
    assert (found.verdict, found.order, found.stuck) == (INVALID, (0, 1, 2), 3)


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [
        ("f", 3, "an operation's f is not one of 0, 1, 2"),
        ("type", -1, "an operation's type is not one of 2, 4, 8"),
        ("complete_ns", 0, "completed before its invocation"),
        ("complete_ns", NEVER, "ok but never completed"),
    ],
)
def test_rows_that_cannot_be_are_refused(column, value, what):
    good = Operations.of([w(1, 1, 2)])
    with pytest.raises(ValueError, match=what):
        replace(good, **{column: np.array([value])})


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="differ in length"):
        replace(Operations.of([w(1, 1, 2)]), key=np.array([1, 2]))


def test_a_consistency_that_is_none_is_refused():
    with pytest.raises(ValueError, match="consistency is 'causal'; use one of linearizable"):
        answers(Operations.of([]), consistency="causal")
