"""Short histories of groups, each with the cause that the planted sequence of events has."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

import checkers.delivery as delivery
from harness.protocols import Explanation, Gaps
from harness.protocols.explanations import DELIVERY_CAUSES, ELECTED
from harness.protocols.groups import KINDS, Delivery
from tests.checkers.delivery.hand_made import Made
from tests.checkers.delivery.test_delivery import ONE, TWO, group, handled, judged, row

CRASH = {"type": "info", "error": "it crashed"}


def given(time_ns: int, committed: int | None, **more: Any) -> list[Delivery]:
    """An assignment, and what was committed then."""
    return [row(kind, time_ns, committed, **more) for kind in (KINDS.committed, KINDS.assign)]


def delivered(time_ns: int, *offsets: int, **more: Any) -> list[Delivery]:
    return [row(KINDS.deliver, time_ns, each, value=10 * each, **more) for each in offsets]


def processed(time_ns: int, *offsets: int, **more: Any) -> list[Delivery]:
    """Handed over and processed, one after the other."""
    return [each for n in offsets for each in handled(time_ns + n, n, **more)]


def commit(time_ns: int, offset: int, **more: Any) -> Delivery:
    return row(KINDS.commit, time_ns, offset, **more)


READ = [*given(5, None), *processed(10, 0, 1, 2, 3)]
CRASHED = row(KINDS.stop, 28, None, partition=None, **CRASH)
AGAIN = [*given(30, None, consumer=TWO), *processed(40, 0, 1, 2, 3, consumer=TWO)]
FROM_1 = [*given(30, 1, consumer=TWO), *processed(40, 1, 2, 3, consumer=TWO)]
COMMITTED = commit(20, 4)
HANDED = [*given(5, None), *delivered(10, 0, 1, 2, 3), *processed(12, 0, 1)[1::2]]

REPROCESSED = {
    "not-committed": [*READ, CRASHED, *AGAIN],
    "commit-refused": [*READ, commit(20, 4, type="fail", error="ILLEGAL_GENERATION"), *AGAIN],
    "commit-unknown": [*READ, commit(20, 4, type="info"), *AGAIN],
    "commit-late": [*READ, *AGAIN, commit(60, 4, begun_ns=20)],
    "commit-lost": [*READ, COMMITTED, *AGAIN],
    "commit-set-back": [*READ, COMMITTED, commit(25, 1, consumer=TWO), *FROM_1],
    "revoked-reader": [*given(5, None), *given(8, None, consumer=TWO), *READ[2:], *AGAIN[2:]],
    "position-went-back": [*READ, *processed(40, 1, 2)],
    "log-truncated": [*READ, row(KINDS.deliver, 25, 4, value=77), *processed(40, 0)],
    "unexplained": [*READ, *AGAIN[1:]],
}
SKIPPED = {
    "committed-unprocessed": [*HANDED, commit(20, 4), CRASHED],
    "committed-by-another": [*given(5, 0), *processed(10, 0), commit(20, 4, consumer=TWO)],
    "reset-uncommitted": [*given(5, None), *processed(10, 2, 3)],
    "reset-commit-lost": [*given(1, 0), *processed(2, 0), commit(4, 1), *given(5, None), *READ[6:]],
    "position-jumped": [*given(5, 0), *processed(10, 0, 3)],
    "log-truncated": [
        *given(5, 0), *processed(10, 0, 1), row(KINDS.deliver, 12, 2, value=77), *READ[8:]
    ],
    "unexplained": [*given(5, 0), *delivered(10, 0, 1, 2, 3), *processed(12, 0, 1, 3)[1::2]],
}  # fmt: skip
PLANTED = {"reprocessed": REPROCESSED, "skipped": SKIPPED}


def explained(made: Made, kind: str) -> list[Explanation]:
    return [each for each in judged(made).explanations if each.kind == kind]


@pytest.mark.parametrize(
    ("kind", "cause"),
    [*product(["reprocessed"], REPROCESSED), *product(["skipped"], SKIPPED)],
)
def test_what_was_processed_again_or_skipped_has_the_cause_that_was_planted(
    kind: str, cause: str
) -> None:
    made = group(*PLANTED[kind][cause])
    found = explained(made, kind)
    assert {each.cause for each in found} == {cause}
    assert sum(len(each.values) for each in found) == judged(made).counts[kind] > 0


def test_a_position_that_was_deleted_is_reset_beyond_what_is_there() -> None:
    made = replace(group(*given(5, 0), *processed(10, 3)), starts={0: 2})
    made.log = made.log[2:]
    (found,) = explained(made, "skipped")
    assert (found.cause, found.values) == ("reset-deleted", (20,))


def test_a_commit_of_the_library_that_no_row_has_is_inferred() -> None:
    rows = [*HANDED, CRASHED, *given(30, 4, consumer=TWO)]
    assert [each.cause for each in explained(group(*rows), "skipped")] == ["committed-unprocessed"]
    both = [*delivered(8, 3, consumer=TWO), *rows]
    assert [each.cause for each in explained(group(*both), "skipped")] == ["unexplained"]


def test_a_commit_that_was_lost_before_a_reader_committed_less_was_not_set_back_by_it() -> None:
    third = {"consumer": "consumer-3"}
    rows = [*READ, COMMITTED, *given(30, None, consumer=TWO), *processed(40, 0, consumer=TWO)]
    rows += [commit(45, 1, consumer=TWO), *given(50, 1, **third), *processed(60, 1, 2, 3, **third)]
    assert {each.cause for each in explained(group(*rows), "reprocessed")} == {"commit-lost"}


def test_the_chain_names_the_commit_and_both_assignments() -> None:
    (found,) = explained(group(*REPROCESSED["commit-refused"]), "reprocessed")
    said = [fact.text for fact in found.facts]
    assert said[0].startswith(f"{ONE} (life 1) was assigned the partition, with nothing committed")
    assert f"{ONE} (life 1) committed 4 (refused: ILLEGAL_GENERATION)" in said
    assert said[-1].startswith(f"{TWO} (life 1) was assigned the partition")
    assert all(fact.place or fact.kind == "processed" for fact in found.facts)
    assert (found.first, found.last, found.values) == (0, 3, (0, 10, 20, 30))


def chain(kind: str, *rows: Delivery) -> list[tuple[str, str]]:
    """The facts of the only explanation, with the rows that they name."""
    (found,) = explained(group(*rows), kind)
    return [(fact.kind, fact.place.partition(":")[2]) for fact in found.facts]


def test_the_chain_of_what_was_skipped_names_who_had_it_and_the_commit() -> None:
    unexplained = [*SKIPPED["unexplained"], *given(30, 4, consumer=TWO)]
    assert chain("skipped", *unexplained) == [
        ("assigned", "3"),
        ("processed", ""),
        ("assigned", "12"),
    ]
    lost = SKIPPED["reset-commit-lost"]
    assert chain("skipped", *lost) == [("assigned", "3"), ("commit", "6"), ("assigned", "8")]


def test_the_greatest_of_the_commits_is_the_one_that_was_lost() -> None:
    rows = [*READ, commit(15, 1), COMMITTED, *AGAIN]
    assert ("commit", "13") in chain("reprocessed", *rows)


def test_where_rows_are_missing_nothing_was_examined() -> None:
    for kind, rows in (("reprocessed", READ + AGAIN), ("skipped", SKIPPED["reset-uncommitted"])):
        made = group(*rows, gaps=Gaps(history=("deliveries/part-00000.parquet is missing",)))
        assert {each.cause for each in explained(made, kind)} == {"not-examined"}


def test_a_group_that_does_neither_has_no_explanation() -> None:
    assert judged(group(*READ, COMMITTED)).explanations == ()


def test_what_breaks_while_it_is_explained_leaves_the_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = group(*REPROCESSED["commit-lost"])
    before = judged(made)

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(delivery, "explanations", broken)
    after = judged(made)
    assert after.counter_examples == before.counter_examples != ()
    (found,) = after.explanations
    assert (found.cause, len(found.values)) == ("unexplained", 4)
    assert "RuntimeError('broken')" in found.facts[0].text


def test_every_cause_of_a_checker_is_planted() -> None:
    planted = {*REPROCESSED, *SKIPPED, "reset-deleted"} - {"unexplained"}
    assert planted == {each for each in DELIVERY_CAUSES if not each.endswith(ELECTED)}
