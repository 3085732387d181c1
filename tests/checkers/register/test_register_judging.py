"""The answer on many keys."""

from __future__ import annotations

from random import Random
from typing import Any

from checkers.register import Judgement, judge
from checkers.register.answers import SEQUENTIAL
from checkers.register.operations import Operation, Operations
from tests.checkers.register.histories import c, drawn, fail, info, r, w


def judged(*keys: list[Operation], **options: Any) -> Judgement:
    rows = [one._replace(key=key) for key, some in enumerate(keys) for one in some]
    return judge(Operations.of(rows), **{"initial": 0, **options})


GOOD = [w(1, 1, 2), r(1, 3, 4)]
BAD = [w(1, 1, 2), w(2, 3, 4), r(1, 15, 16)]
HARD = [*(w(at % 2, 1, 99, process=at) for at in range(9)), r(1, 100, 101), r(0, 102, 103)]


def wrong(reported: Judgement) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The keys that are invalid, and those that are undecided."""
    return reported.invalid, reported.undecided


def test_each_key_is_invalid_or_undecided_by_itself():
    assert wrong(judged(GOOD, GOOD)) == ((), ())
    assert wrong(judged(GOOD, HARD, max_states=0)) == ((), (1,))
    assert wrong(judged(GOOD, HARD, BAD, max_states=0)) == ((2,), (1,))
    assert wrong(judged()) == ((), ())


def test_counts_are_of_all_operations():
    reported = judged(GOOD, [info(r(0, 1, 2)), fail(c(1, 2, 1, 2)), info(w(1, 1, 2))], BAD, HARD)
    assert reported.counts == {
        "keys": 4,
        "operations": 19,
        "reads": 5,
        "writes": 13,
        "cas": 1,
        "invalid_keys": 2,
        "undecided_keys": 0,
        "searched_keys": 1,
        "states": reported.counts["states"],
    }
    assert (reported.invalid, reported.undecided) == ((2, 3), ())
    assert reported.staleness.stale == 1
    assert reported.counts["states"] > 0


def test_examples_are_made_of_the_first_wrong_keys():
    assert [one.key for one in judged(*[BAD] * 5).examples] == [0, 1, 2]
    few = judged(GOOD, BAD, BAD, examples=1)
    assert [one.key for one in few.examples] == [1]


def test_the_options_reach_every_part():
    lagging = [w(1, 1, 2), w(2, 3, 4), r(1, 15, 16, process=1)]
    reported = judged(lagging, consistency=SEQUENTIAL)
    assert (wrong(reported), reported.staleness.stale) == (((), ()), 1)
    own = judged(BAD, consistency=SEQUENTIAL)
    assert own.examples[0].consistency == SEQUENTIAL
    started = judged([r(5, 1, 2), r(4, 3, 4)], initial=5)
    assert (started.invalid, started.examples[0].start) == ((0,), 5)
    assert started.staleness.unwritten == 1


def test_the_answer_does_not_depend_on_the_order_of_rows():
    random = Random("register/rows")
    keys = [drawn(random, random.randint(2, 10)) for _ in range(100)]
    rows = [one._replace(key=key) for key, some in enumerate(keys) for one in some]
    whole = judge(Operations.of(rows), initial=0, examples=0)
    random.shuffle(rows)
    mixed = judge(Operations.of(rows), initial=0, examples=0)
    assert (mixed.invalid, mixed.undecided) == (whole.invalid, whole.undecided)
