"""The verdict of a run, with its reason in a sentence, from counts and circumstances.

Truth rule 6: `invalid` needs one counter-example; `valid` needs that nothing kept us from seeing
one; everything else is `unknown`, and unknown is never shown as valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final, NamedTuple

from checkers.facts import DONE, Facts

VALID, INVALID, UNKNOWN = "valid", "invalid", "unknown"

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


class Verdict(NamedTuple):
    """`valid`, `invalid` or `unknown`, and why, in a sentence without a full stop."""

    verdict: str
    reason: str


def judge(counts: Counts, facts: Facts, *, attempted_in_fault: bool, idempotent: bool) -> Verdict:
    """The verdict of one run. `attempted_in_fault`: an operation was begun while a fault was on;
    `idempotent`: each value was sent by one idempotent producer."""
    wrong = list(_counter_examples(counts, facts, idempotent=idempotent))
    if wrong:
        hedge = (
            "" if is_complete(facts) else " (at least: the run or its final read is not complete)"
        )
        return Verdict(INVALID, "; ".join(wrong) + hedge)
    doubts = list(_doubts(counts, facts, attempted_in_fault=attempted_in_fault))
    if doubts:
        return Verdict(UNKNOWN, "; ".join(doubts))
    return Verdict(VALID, _all_well(counts, facts))


def is_complete(facts: Facts) -> bool:
    """Whether the run came to its end and all of its log was read; else counts are lower bounds."""
    return facts.state == DONE and facts.read_whole


def _counter_examples(counts: Counts, facts: Facts, *, idempotent: bool) -> Iterator[str]:
    lost = counts.lost if facts.deletion_tested else counts.lost - counts.deleted
    if lost:
        share = f"{lost / counts.acknowledged * 100:.3g}"
        are = "are" if lost > 1 else "is"
        yield f"{lost:,} of {_writes(counts.acknowledged, 'acknowledged')} ({share} %) {are} lost"
    if counts.failed_found:
        was, it = ("was", "is") if counts.failed_found == 1 else ("were", "are")
        yield f"{_writes(counts.failed_found)} that {was} refused {it} there all the same"
    if counts.unexpected and facts.state == DONE:
        values = "value was" if counts.unexpected == 1 else "values were"
        yield f"{counts.unexpected:,} {values} read that nobody wrote there"
    if counts.duplicates and idempotent:
        copies = "duplicate" if counts.duplicates == 1 else "duplicates"
        yield f"{counts.duplicates:,} {copies} of writes of an idempotent producer"


def _doubts(counts: Counts, facts: Facts, *, attempted_in_fault: bool) -> Iterator[str]:
    if facts.state != DONE:
        ended = _ENDED.get(facts.state, f"the run broke off while {facts.state}")
        yield f"{ended}: {facts.error}" if facts.error else ended
        return  # what else is missing follows from that
    if not counts.attempted:
        yield "nothing was attempted"
    elif not counts.acknowledged:
        yield f"none of {_writes(counts.attempted, 'attempted')} was acknowledged"
    if not facts.ends:
        yield "nothing was read back"
    elif not facts.read_whole:
        yield "not every partition was read to its end"
    if counts.not_yet_visible:
        yield f"{_writes(counts.not_yet_visible, 'acknowledged')} may stand beyond what was read"
    if counts.deleted:
        yield (
            f"{_writes(counts.deleted, 'acknowledged')} may have been deleted: the log no longer "
            "begins at 0, and the plan does not test that"
        )
    if facts.faults_asked and not any(window.proven for window in facts.windows):
        yield "a fault was asked for, and none was proven"
    elif facts.faults_asked and not attempted_in_fault:
        yield "nothing was attempted while a fault was on"
    if facts.starved:
        yield facts.starved


def _all_well(counts: Counts, facts: Facts) -> str:
    proven = sum(1 for window in facts.windows if window.proven)
    under = f", under {proven} proven fault{'s' if proven != 1 else ''}" if proven else ""
    are = "are" if counts.acknowledged != 1 else "is"
    every = "all " if counts.acknowledged != 1 else "the "
    return f"{every}{_writes(counts.acknowledged, 'acknowledged')} {are} there{under}"


def _writes(number: int, how: str = "") -> str:
    return f"{number:,} {how + ' ' if how else ''}write{'' if number == 1 else 's'}"
