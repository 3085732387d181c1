"""The ages of reads, by hand and against an oracle that goes over rows."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest

from checkers.register import Staleness, counts_below, quantile, staleness
from checkers.register.answers import answers
from checkers.register.linearization import INVALID
from checkers.register.operations import READ, Operation, Operations
from harness.protocols.runs import OK
from tests.checkers.register import oracle
from tests.checkers.register.histories import EXAMPLES, c, drawn, fail, info, r, w


def found(*operations: Operation) -> Staleness:
    return staleness(Operations.of(operations), initial=0)


def ages(*operations: Operation) -> dict[int, tuple[int, int]]:
    """Of each stale read its versions and nanoseconds."""
    reported = found(*operations)
    both = zip(reported.versions.tolist(), reported.age_ns.tolist(), strict=True)
    return dict(zip(reported.row.tolist(), both, strict=True))


def test_the_age_counts_newer_writes_and_the_time_since_the_first():
    writes = [w(1, 10, 20), w(2, 30, 40), w(3, 50, 60)]
    assert ages(*writes, r(3, 70, 80)) == {}
    assert ages(*writes, r(2, 70, 80)) == {3: (1, 10)}
    assert ages(*writes, r(1, 70, 80)) == {3: (2, 30)}
    assert ages(*writes, r(0, 70, 80)) == {3: (3, 50)}


def test_a_write_counts_only_if_it_was_invoked_later_and_completed_before_the_read():
    assert ages(w(1, 10, 20), w(2, 20, 30), r(1, 40, 50)) == {}
    assert ages(w(1, 10, 20), w(2, 21, 30), r(1, 30, 50)) == {}
    assert ages(w(1, 10, 20), w(2, 21, 30), r(1, 31, 50)) == {2: (1, 1)}


@pytest.mark.parametrize("not_ok", [info, fail])
def test_writes_without_an_ok_overwrite_nothing(not_ok):
    assert ages(w(1, 10, 20), not_ok(w(2, 21, 30)), r(1, 31, 50)) == {}


def test_a_value_is_known_from_the_first_that_saw_it():
    late = [info(w(1, 10, 11)), w(2, 30, 40), r(1, 50, 60)]
    assert ages(*late) == {}
    assert ages(*late, r(1, 15, 29, process=1)) == {2: (1, 10)}
    assert ages(w(1, 10, 99), c(1, 2, 15, 29), w(3, 30, 40), r(1, 50, 60)) == {3: (1, 10)}


def test_a_compare_and_set_overwrites_unless_it_stores_the_same():
    assert ages(w(1, 10, 20), c(1, 2, 30, 40), r(1, 50, 60)) == {2: (1, 10)}
    assert ages(w(1, 10, 20), c(1, 1, 30, 40), r(1, 50, 60)) == {}


def test_values_of_several_writes_have_no_age():
    twice = found(w(1, 10, 20), info(w(1, 21, 22)), w(2, 30, 40), r(1, 50, 60), r(0, 51, 60))
    assert (twice.reads, twice.undated, twice.unwritten, twice.stale) == (2, 1, 0, 1)
    again = found(w(0, 10, 20), w(2, 30, 40), r(0, 50, 60))
    assert (again.undated, again.stale) == (1, 0)


def test_values_of_no_write_are_counted_apart():
    reported = found(fail(w(1, 10, 20)), r(1, 50, 60), r(2, 50, 60), info(r(3, 50, 60)))
    assert (reported.reads, reported.undated, reported.unwritten, reported.stale) == (2, 0, 2, 0)


def test_keys_do_not_overwrite_each_other():
    other = [w(2, 30, 40)._replace(key=1), w(3, 50, 55)._replace(key=-1)]
    assert ages(w(1, 10, 20), *other, r(1, 60, 70)) == {}


def test_nothing_was_read():
    assert found().reads == found(w(1, 1, 2)).reads == found().stale == 0


def test_quantiles_are_counted_as_jepsen_counts_them():
    ages_ns = np.array([5, 1, 4, 2, 3])
    assert [quantile(ages_ns, share) for share in (0, 0.5, 0.79, 0.8, 1)] == [1, 3, 4, 5, 5]
    assert quantile(np.array([], np.int64), 0.5) is None


def test_counts_below_are_those_of_a_loop():
    random = np.random.default_rng(1)
    for size in (0, 1, 2, 17, 100):
        numbers = random.integers(0, 30, size)
        begin = random.integers(0, size + 1, 50)
        end = random.integers(begin, size + 1)
        bound = random.integers(0, 40, 50)
        counted = counts_below(numbers, begin, end, bound).tolist()
        asked = zip(begin, end, bound, strict=True)
        assert counted == [int((numbers[at:to] < below).sum()) for at, to, below in asked]


def test_random_histories_have_the_ages_that_a_loop_finds():
    random = Random("register/ages")
    rows: list[Operation] = []
    for key in range(EXAMPLES):
        history = drawn(random, random.randint(2, 12), values=random.choice([3, 9, 50]))
        changed = random.randrange(len(history))
        rows += [
            one._replace(
                key=key, value=one.value if at != changed else random.choice(history).value
            )
            for at, one in enumerate(history)
        ]
    reported = staleness(Operations.of(rows), initial=0)
    expected: dict[int, tuple[int, int] | str] = {}
    begin = 0
    for key in range(EXAMPLES):
        end = begin
        while end < len(rows) and rows[end].key == key:
            end += 1
        expected |= {begin + at: age for at, age in oracle.ages(rows[begin:end], 0).items()}
        begin = end
    both = zip(reported.versions.tolist(), reported.age_ns.tolist(), strict=True)
    stale = {at: age for at, age in expected.items() if not isinstance(age, str)}
    assert dict(zip(reported.row.tolist(), both, strict=True)) == stale
    reasons = Counter(age for age in expected.values() if isinstance(age, str))
    assert (reported.undated, reported.unwritten) == (reasons["undated"], reasons["unwritten"])
    assert reported.reads == sum(one.f == READ and one.type == OK for one in rows)
    wrong = set(answers(Operations.of(rows), initial=0).of(INVALID).tolist())
    assert {rows[at].key for at in stale} <= wrong
