"""What the loss checker says of a run: counter-examples, doubts, and that all is well.

`invalid` needs one counter-example that two readers saw (truth rule 3); what one reader alone saw,
and what may stand beyond what was read, are doubts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from checkers.loss.counts import Counts
from checkers.loss.readers import Disagreement
from harness.percent import percent
from harness.protocols import DONE, DOUBTS, Facts, Statement

REPLICAS_DIFFER: Final = "replicas_differ"
"""Replicas that were read one by one, each to its end, hold different records."""


@dataclass(frozen=True, kw_only=True)
class Basis:
    """What the loss checker's part of a verdict rests on, beside the facts of the run.

    `unconfirmed`: how many of a count rest on one reader alone; `once`: each value was promised to
    be stored at most once.
    """

    counts: Counts
    unconfirmed: Mapping[str, int] = field(default_factory=dict)
    disagreements: Sequence[Disagreement] = ()
    once: bool = False


def counter_examples(facts: Facts, basis: Basis) -> Iterator[Statement]:
    """What was found that must not be, as far as two readers saw it."""
    for name, number in confirmed(facts, basis).items():
        yield Statement(name, _counter_example(name, number, basis.counts.acknowledged))
    if facts.promises.readers_are_replicas:
        for each in basis.disagreements:
            yield Statement(REPLICAS_DIFFER, _different(each, "hold"))


def confirmed(facts: Facts, basis: Basis) -> dict[str, int]:
    """How many of each counter-example two readers saw, by the name of the count; those that are
    not there, or prove nothing in this run, are left out."""
    if basis.disagreements:
        return {}
    counts, promises = basis.counts, facts.promises
    found = {
        "lost": counts.lost if promises.deletes else counts.lost - counts.deleted,
        "failed_found": counts.failed_found,
    }
    if facts.state == DONE and not facts.gaps.history:
        found["unexpected"] = counts.unexpected
    if basis.once:
        found["duplicates"] = counts.duplicates
    seen = {name: number - basis.unconfirmed.get(name, 0) for name, number in found.items()}
    return {name: number for name, number in seen.items() if number > 0}


def doubts(facts: Facts, basis: Basis) -> Iterator[Statement]:
    """Why nothing that was not found proves anything."""
    counts = basis.counts
    if not counts.attempted:
        yield Statement(DOUBTS.vacuous, "nothing was attempted")
    elif not counts.acknowledged:
        attempted = _writes(counts.attempted, "attempted")
        yield Statement(DOUBTS.vacuous, f"none of {attempted} was acknowledged")
    yield from _doubts_of_reading(facts, basis)


def all_well(basis: Basis) -> str:
    """That every acknowledged write was found."""
    number = basis.counts.acknowledged
    were, every = ("were", "all ") if number != 1 else ("was", "the ")
    return f"{every}{_writes(number, 'acknowledged')} {were} found"


def _counter_example(name: str, number: int, acknowledged: int) -> str:
    """So many of a counter-example, in words."""
    one = number == 1
    if name == "lost":
        of, share = _writes(acknowledged, "acknowledged"), percent(number / acknowledged)
        return f"{number:,} of {of} ({share}) {'is' if one else 'are'} lost"
    if name == "failed_found":
        return f"{_writes(number)} that failed {'was' if one else 'were'} found in the log"
    if name == "unexpected":
        values = "value was" if one else "values were"
        return f"{number:,} {values} read that were never written there"
    return f"{number:,} duplicate{'' if one else 's'} of writes of an idempotent producer"


def _doubts_of_reading(facts: Facts, basis: Basis) -> Iterator[Statement]:
    counts = basis.counts
    if not facts.ends:
        yield Statement(DOUBTS.incomplete, "nothing was read back")
    elif not facts.read_whole:
        why = next((f": {end.error}" for end in facts.ends if end.error), "")
        yield Statement(DOUBTS.incomplete, f"not every partition was read to its end{why}")
    for each in basis.disagreements:
        if not facts.promises.readers_are_replicas:
            yield Statement(DOUBTS.readers, _different(each, "read"))
    for name, words in _RESTS.items():
        number = basis.unconfirmed.get(name, 0)
        if number and (name != "duplicates" or basis.once):
            yield Statement(
                DOUBTS.readers, f"{number:,} {words}: no second library read them to the end"
            )
    if counts.not_yet_visible:
        writes = _writes(counts.not_yet_visible, "acknowledged")
        yield Statement(DOUBTS.not_yet_visible, f"{writes} may stand beyond what was read")
    if not facts.promises.deletes and any((end.log_start or 0) > 0 for end in facts.ends):
        writes = _writes(counts.deleted, "acknowledged")
        yield Statement(
            DOUBTS.deleted,
            f"{writes} may have been deleted: the log no longer begins at 0, and the plan does "
            "not test that",
        )


_RESTS: Final = {
    "lost": "acknowledged writes are missing from what one reader read",
    "failed_found": "failed writes were found by one reader",
    "unexpected": "values that were never written were read by one reader",
    "duplicates": "duplicates were read by one reader",
}


def _different(each: Disagreement, verb: str) -> str:
    return f"{' and '.join(each.readers)} {verb} different records of {each.partition}"


def _writes(number: int, how: str = "") -> str:
    return f"{number:,} {how + ' ' if how else ''}write{'' if number == 1 else 's'}"
