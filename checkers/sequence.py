"""The sequence checker: every number is handed out once, and later requests get larger ones.

A request is later than another when it began after the other had been answered. Numbers may have
gaps: a request whose answer was lost may have taken one. An `ok` answer without a number shows
nothing, and is a doubt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np

from harness.protocols import DOUBTS, CheckResult, Count, OneShard, PrimaryFinding, Run, Statement
from harness.protocols.checkers import counter_examples, findings_table
from harness.protocols.runs import INVOKED, NULL, OK, Ints, Operations


class Found(NamedTuple):
    """`kind`: `duplicated`, the number was handed out before; `inverted`, a request that was
    answered before this one began had got the larger `number_before`."""

    kind: str
    value: int
    number: int
    number_before: int | None = None


@dataclass
class Numbers:
    """The answered requests of a history, in the order of their answers: when each began and was
    answered, by the places of the rows, what it stored, and its number; and how many were answered
    without one."""

    attempted: int = 0
    unnumbered: int = 0
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Sequence(OneShard[Numbers]):
    """Numbers that were handed out twice, or that are smaller than one handed out before."""

    plugin: ClassVar[str] = "sequence"
    models: ClassVar[frozenset[str]] = frozenset({"sequence"})
    primary: ClassVar[PrimaryFinding] = PrimaryFinding(
        counter_examples=("duplicated", "inverted"),
        noun="numbers out of sequence",
        head="out of sequence",
    )
    counts: ClassVar[tuple[Count, ...]] = (
        Count("attempted", "numbers requested"),
        Count("acknowledged", "numbers handed out"),
        Count("duplicated", "handed out again", "numbers that were handed out again"),
        Count(
            "inverted",
            "out of order",
            "numbers that are smaller than one that was handed out before",
        ),
    )

    def gather(self, run: Run) -> Numbers:
        numbers, begun = Numbers(), dict[int, int]()
        for part in run.operations():
            _take(numbers, begun, part)
        return numbers

    def judge(self, run: Run, numbers: Numbers) -> CheckResult:
        found = [*_duplicated(numbers), *_inverted(numbers)]
        kinds = [each.kind for each in found]
        counts = {
            "attempted": numbers.attempted,
            "acknowledged": len(numbers.rows) + numbers.unnumbered,
            "duplicated": kinds.count("duplicated"),
            "inverted": kinds.count("inverted"),
        }
        return CheckResult(
            counts=counts,
            findings=findings_table(Found, found, run_id=run.facts.run_id),
            counter_examples=counter_examples(self.counts[2:], counts),
            doubts=tuple(_doubts(numbers)),
            all_well=f"all {len(numbers.rows):,} numbers are unique and in order",
        )


def _take(numbers: Numbers, begun: dict[int, int], part: Operations) -> None:
    columns = (part.process, part.mark, part.place, part.value, part.offset)
    for process, mark, place, value, number in zip(*(c.tolist() for c in columns), strict=True):
        if mark == INVOKED:
            numbers.attempted += 1
            begun[process] = place
        elif mark == OK and number == NULL:
            numbers.unnumbered += 1
        elif mark == OK:
            numbers.rows.append((begun.pop(process, place), place, value, number))


def _duplicated(numbers: Numbers) -> list[Found]:
    seen: set[int] = set()
    found: list[Found] = []
    for _, _, value, number in numbers.rows:
        if number in seen:
            found.append(Found("duplicated", value, number))
        seen.add(number)
    return found


def _inverted(numbers: Numbers) -> list[Found]:
    """Each request with the largest number of those that were answered before it began."""
    if not numbers.rows:
        return []
    began, answered, value, number = np.array(numbers.rows, np.int64).T
    largest: Ints = np.maximum.accumulate(number)
    earlier = np.searchsorted(answered, began) - 1
    before = np.where(earlier >= 0, largest[earlier], NULL)
    chosen = np.flatnonzero(before > number)
    columns = (value, number, before)
    return [Found("inverted", *(int(each[i]) for each in columns)) for i in chosen.tolist()]


def _doubts(numbers: Numbers) -> Iterator[Statement]:
    if not numbers.rows:
        yield Statement(DOUBTS.vacuous, "no number was handed out")
    if numbers.unnumbered:
        sentence = f"ok answers without a number: {numbers.unnumbered:,}"
        yield Statement(DOUBTS.incomplete, sentence)
