"""The verdict of a run, with its reason in a sentence, from counts and circumstances.

Truth rule 6: `invalid` needs one counter-example; `valid` needs that nothing kept us from seeing
one; everything else is `unknown`, and unknown is never shown as valid. What was found, and what
kept us from seeing it, has a name beside its sentence: people read sentences, programs count names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

from checkers.facts import DONE, Facts

VALID, INVALID, UNKNOWN = "valid", "invalid", "unknown"

FAILED, INTERRUPTED = "failed", "interrupted"
"""Kinds of doubt: the harness or the set-up broke; somebody ended it."""

VACUOUS: Final = "vacuous"
"""A doubt of this kind: nothing was put to the test, so nothing could have been lost."""

INCOMPLETE: Final = "incomplete"
"""A doubt of this kind: not all of the log was read back."""

_ENDED: Final = {"interrupted": "the run was interrupted", "failed": "the run failed"}


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many values of one run, by truth rule 4, in the words of result.json."""

    attempted: int = 0
    acknowledged: int = 0
    sent: int = 0
    failed: int = 0
    unknown: int = 0
    survivors: int = 0
    lost: int = 0
    unacknowledged_found: int = 0
    failed_found: int = 0
    unknown_found: int = 0
    duplicates: int = 0
    unexpected: int = 0
    not_yet_visible: int = 0
    deleted: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: n + getattr(other, name) for name, n in asdict(self).items()})

    @property
    def findings(self) -> int:
        """How many rows the findings have: one for each value of a kind (`deleted` are lost)."""
        absent = self.lost + self.not_yet_visible
        return absent + self.failed_found + self.duplicates + self.unexpected


def rates(counts: Counts) -> dict[str, float | None]:
    """Truth rule 5: the three rates of the 2013 experiment, then the last one split by how the
    found writes had ended, and over the unacknowledged attempts. Null where there is nothing to
    divide by."""
    acknowledged = counts.acknowledged
    return {
        "ack": _share(acknowledged, counts.attempted),
        "loss": _share(counts.lost, acknowledged),
        "unacknowledged_success": _share(counts.unacknowledged_found, acknowledged),
        "failed_success": _share(counts.failed_found, acknowledged),
        "unknown_success": _share(counts.unknown_found, acknowledged),
        "unacknowledged_success_of_unacknowledged": _share(
            counts.unacknowledged_found, counts.attempted - acknowledged
        ),
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


class Told(NamedTuple):
    """One counter-example, by the count that holds it, or one doubt, by its kind; in a sentence."""

    name: str
    sentence: str


class Verdict(NamedTuple):
    """`valid`, `invalid` or `unknown`, and why, in a sentence without a full stop.

    `counter_examples` are names of counts: `lost`, `failed_found`, `unexpected`, `duplicates`.
    `doubts` are told of an `invalid` run too: its counts may be lower bounds.
    """

    verdict: str
    reason: str
    counter_examples: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def judge(counts: Counts, facts: Facts, *, attempted_in_fault: bool, idempotent: bool) -> Verdict:
    """The verdict of one run. `attempted_in_fault`: an operation was begun while a fault was on;
    `idempotent`: each value was sent by one idempotent producer."""
    wrong = list(_counter_examples(counts, facts, idempotent=idempotent))
    doubts = list(_doubts(counts, facts, attempted_in_fault=attempted_in_fault))
    named = tuple(told.name for told in wrong), tuple(dict.fromkeys(told.name for told in doubts))
    if wrong:
        hedge = (
            "" if is_complete(facts) else " (at least: the run or its final read is not complete)"
        )
        return Verdict(INVALID, _sentences(wrong) + hedge, *named)
    if doubts:
        return Verdict(UNKNOWN, _sentences(doubts), *named)
    return Verdict(VALID, _all_well(counts, facts))


def is_complete(facts: Facts) -> bool:
    """Whether the run came to its end and all of its log was read; else counts are lower bounds."""
    return facts.state == DONE and facts.read_whole


def _sentences(told: Sequence[Told]) -> str:
    return "; ".join(each.sentence for each in told)


def _counter_examples(counts: Counts, facts: Facts, *, idempotent: bool) -> Iterator[Told]:
    lost = counts.lost if facts.deletion_tested else counts.lost - counts.deleted
    if lost:
        share = f"{lost / counts.acknowledged * 100:.3g}"
        are = "are" if lost > 1 else "is"
        of = _writes(counts.acknowledged, "acknowledged")
        yield Told("lost", f"{lost:,} of {of} ({share} %) {are} lost")
    if counts.failed_found:
        was, it = ("was", "is") if counts.failed_found == 1 else ("were", "are")
        writes = _writes(counts.failed_found)
        yield Told("failed_found", f"{writes} that {was} refused {it} there all the same")
    if counts.unexpected and facts.state == DONE:
        values = "value was" if counts.unexpected == 1 else "values were"
        yield Told("unexpected", f"{counts.unexpected:,} {values} read that nobody wrote there")
    if counts.duplicates and idempotent:
        copies = "duplicate" if counts.duplicates == 1 else "duplicates"
        of = "of writes of an idempotent producer"
        yield Told("duplicates", f"{counts.duplicates:,} {copies} {of}")


def _doubts(counts: Counts, facts: Facts, *, attempted_in_fault: bool) -> Iterator[Told]:
    if facts.state != DONE:
        ended = _ENDED.get(facts.state, f"the run broke off while {facts.state}")
        name = INTERRUPTED if facts.state == "interrupted" else FAILED
        yield Told(name, f"{ended}: {facts.error}" if facts.error else ended)
        return  # what else is missing follows from that
    if not counts.attempted:
        yield Told(VACUOUS, "nothing was attempted")
    elif not counts.acknowledged:
        attempted = _writes(counts.attempted, "attempted")
        yield Told(VACUOUS, f"none of {attempted} was acknowledged")
    if not facts.ends:
        yield Told(INCOMPLETE, "nothing was read back")
    elif not facts.read_whole:
        yield Told(INCOMPLETE, "not every partition was read to its end")
    if counts.not_yet_visible:
        writes = _writes(counts.not_yet_visible, "acknowledged")
        yield Told("not_yet_visible", f"{writes} may stand beyond what was read")
    if counts.deleted and not facts.deletion_tested:
        writes = _writes(counts.deleted, "acknowledged")
        yield Told(
            "deleted",
            f"{writes} may have been deleted: the log no longer begins at 0, and the plan does "
            "not test that",
        )
    if facts.faults_asked and not any(window.proven for window in facts.windows):
        yield Told(VACUOUS, "a fault was asked for, and none was proven")
    elif facts.faults_asked and not attempted_in_fault:
        yield Told(VACUOUS, "nothing was attempted while a fault was on")
    if facts.starved:
        yield Told("starved", facts.starved)


def _all_well(counts: Counts, facts: Facts) -> str:
    proven = sum(1 for window in facts.windows if window.proven)
    under = f", under {proven} proven fault{'s' if proven != 1 else ''}" if proven else ""
    are = "are" if counts.acknowledged != 1 else "is"
    every = "all " if counts.acknowledged != 1 else "the "
    return f"{every}{_writes(counts.acknowledged, 'acknowledged')} {are} there{under}"


def _writes(number: int, how: str = "") -> str:
    return f"{number:,} {how + ' ' if how else ''}write{'' if number == 1 else 's'}"
