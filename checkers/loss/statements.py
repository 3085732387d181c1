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
from harness.protocols.checkers import counted

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
        of = basis.counts.acknowledged
        share = f"{counted(of, _ACKNOWLEDGED)} ({percent(number / of)})" if name == "lost" else ""
        yield Statement(name, counted(number, _FOUND[name].replace("%s", share)))
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
        words = "none of {n} attempted [write|writes] was acknowledged"
        yield Statement(DOUBTS.vacuous, counted(counts.attempted, words))
    yield from _doubts_of_reading(facts, basis)


def all_well(basis: Basis) -> str:
    """That every acknowledged write was found."""
    return counted(basis.counts.acknowledged, f"[the|all] {_ACKNOWLEDGED} [was|were] found")


_ACKNOWLEDGED: Final = "{n} acknowledged [write|writes]"
_FOUND: Final = {
    "lost": "{n} of %s [is|are] lost",
    "failed_found": "{n} [write|writes] that failed [was|were] found in the log",
    "unexpected": "{n} [value was|values were] read that [was|were] never written there",
    "duplicates": "{n} [duplicate|duplicates] of writes of an idempotent producer",
}
"""Counter-examples in words, and what one reader alone saw of them."""
_RESTS: Final = {
    "lost": "{n} acknowledged [write is|writes are] missing from what one reader read",
    "failed_found": "{n} failed [write was|writes were] found by one reader",
    "unexpected": "{n} [value|values] never written [was|were] read by one reader",
    "duplicates": "{n} [duplicate was|duplicates were] read by one reader",
}


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
            why = "no second library read [it|them] to the end"
            yield Statement(DOUBTS.readers, counted(number, f"{words}: {why}"))
    if number := counts.not_yet_visible:
        words = f"{_ACKNOWLEDGED} may stand beyond what was read"
        yield Statement(DOUBTS.not_yet_visible, counted(number, words))
    if not facts.promises.deletes and any((end.log_start or 0) > 0 for end in facts.ends):
        words = (
            "may have been deleted: the log no longer begins at 0, and the plan does not test that"
        )
        yield Statement(DOUBTS.deleted, counted(counts.deleted, f"{_ACKNOWLEDGED} {words}"))


def _different(each: Disagreement, verb: str) -> str:
    return f"{' and '.join(each.readers)} {verb} different records of {each.partition}"
