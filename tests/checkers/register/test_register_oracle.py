"""Every small history and thousands of random ones, judged by columns and by the searches, against
an oracle that tries all orders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from random import Random

import pytest

from checkers.register.answers import LINEARIZABLE, SEQUENTIAL, Search, answers, interleaving
from checkers.register.linearization import INVALID, VALID, linearization
from checkers.register.operations import (
    READ,
    Operation,
    Operations,
)
from harness.protocols.runs import (
    FAIL,
    INFO,
)
from tests.checkers.register import oracle
from tests.checkers.register.histories import (
    EXAMPLES,
    Domain,
    History,
    by_process,
    drawn,
    overlapping,
)

pytestmark = pytest.mark.slow

BATCH = 20_000
EVERY = EXAMPLES >= 10_000
ALL_KINDS = Domain(3, same=True, fail=True)
SMALL = [
    (1, ALL_KINDS, 1),
    (2, ALL_KINDS, 1),
    (3, Domain(3, cas=False), 1),
    (3, Domain(2, same=True, fail=True), 11),
    (3, ALL_KINDS, 127),
    (4, Domain(2, cas=False), 13),
    (4, Domain(2), 127),
    (5, Domain(2, cas=False), 631),
    (5, Domain(2, cas=False, info=False), 61),
]
SMALL += [(5, Domain(2), 1)] if EVERY else []
"""How many operations, what they do, and which share of those histories is tried: one in so many,
or all with many examples (`make e2e`). By overlap these are
29, 1,276, 2,433, 13,360, 78,503, 12,255, 91,140, 247,224, 34,240 and 3,054,002 histories, by
process 29, 1,276, 1,623, 9,008, 53,273, 4,140, 31,265, 34,128, 4,632 and 429,502."""

Oracle = Callable[[Sequence[Operation], int], bool]


def disagreements(
    histories: Iterable[History], consistency: str, search: Search, truth: Oracle
) -> Iterator[tuple[History, str, str]]:
    """The histories on which an answer is wrong, and which; each a key with the initial value 0."""
    histories = iter(histories)
    while batch := list(islice(histories, BATCH)):
        rows = (row._replace(key=key) for key, history in enumerate(batch) for row in history)
        judged = answers(Operations.of(rows), consistency=consistency, initial=0)
        for history, verdict in zip(batch, judged.verdicts, strict=True):
            right = VALID if truth(history, 0) else INVALID
            if verdict != right:
                yield history, "answers", verdict
            said = [row for row in history if row.type != FAIL]
            said = [row for row in said if row.type != INFO or row.f != READ]
            found = search(said, initial=0, max_states=10_000)
            if found.verdict != right:
                yield history, "search", found.verdict
            legal = partial(oracle.is_legal, said, initial=0)
            if not legal(found.order, in_real_time=consistency == LINEARIZABLE):
                yield history, "order", str(found.order)


LINEAR = (LINEARIZABLE, linearization, oracle.linearizable)
INTERLEAVED = (SEQUENTIAL, interleaving, oracle.sequential)


def none(found: Iterator[tuple[History, str, str]]) -> bool:
    """Whether there are none; prints the first."""
    first = next(found, None)
    if first is not None:
        print(first[1], first[2], *first[0], sep="\n")
    return first is None


@pytest.mark.parametrize(("operations", "domain", "share"), SMALL)
@pytest.mark.parametrize(("drawn_from", "how"), [(overlapping, LINEAR), (by_process, INTERLEAVED)])
def test_small_histories_are_judged_as_all_their_orders_say(
    operations, domain, share, drawn_from, how
):
    assert none(disagreements(drawn_from(operations, domain, 1 if EVERY else share), *how))


def random_histories(seed: int) -> Iterator[History]:
    random = Random(f"register/{seed}")
    for _ in range(EXAMPLES):
        yield drawn(random, random.randint(2, 8), values=random.choice([2, 3, 9]))


@pytest.mark.parametrize(("seed", "how"), [(1, LINEAR), (2, INTERLEAVED)])
def test_random_histories_are_judged_as_all_their_orders_say(seed, how):
    assert none(disagreements(random_histories(seed), *how))
