"""The verdict of a run, with its reason in a sentence, from counts and circumstances.

Truth rule 8: `invalid` needs one counter-example that two readers saw; `valid` needs that nothing
kept us from seeing one, that every scripted fault is proven (of faults drawn at random, half of
them) and that writes were begun during one that is; everything else is `unknown`, and unknown is
never shown as valid. What was found, and what kept us from seeing it, has a name beside its
sentence: people read sentences, programs count names.

A run is *eligible* by what can be said without looking at its outcome: it came to its end, all of
it was read, faults and load were as the plan asks. Statistics count eligible runs alone, whichever
way they ended (truth rule 9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, NamedTuple

from checkers.facts import DONE, Facts, ScriptedFault
from checkers.readers import Disagreement
from harness.faults.journal import FaultWindow

VALID, INVALID, UNKNOWN = "valid", "invalid", "unknown"

FAILED, INTERRUPTED = "failed", "interrupted"
"""Kinds of doubt: the harness or the set-up broke; somebody ended it."""

VACUOUS: Final = "vacuous"
"""A doubt of this kind: nothing was put to the test, so nothing could have been lost."""

UNPROVEN, UNMET = "unproven", "unmet"
"""Kinds of doubt: a fault asked for is not proven; a step went on though its condition never
held."""

INCOMPLETE, REPLICAS = "incomplete", "replicas"
"""Kinds of doubt: not all of the evidence is there, or not all of the log was read back; not every
replica was in sync when it was."""

STARVED: Final = "starved"
"""A doubt of this kind: the load was not what the plan asks for."""

DELETED, NOT_YET_VISIBLE, READERS = "deleted", "not_yet_visible", "readers"
"""Kinds of doubt: the log begins above 0; acknowledged writes may stand beyond what was read;
readers disagree, or only one of them saw a counter-example."""

OUTCOME: Final = frozenset({NOT_YET_VISIBLE, READERS})
"""The kinds of doubt that depend on what became of writes: they make no run ineligible."""

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
    `doubts` are of every run, `invalid` ones too: their counts may be lower bounds.
    """

    verdict: str
    reason: str
    counter_examples: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    eligible: bool = True


@dataclass(frozen=True, kw_only=True)
class Basis:
    """What a verdict rests on, beside the facts of the run.

    `ops_begun`: writes begun in each of the facts' windows; `unconfirmed`: how many of a count rest
    on one reader alone; `idempotent`: each value was sent by one idempotent producer.
    """

    counts: Counts
    ops_begun: Sequence[int] = ()
    unconfirmed: Mapping[str, int] = field(default_factory=dict)
    disagreements: Sequence[Disagreement] = ()
    idempotent: bool = False

    def confirmed(self, name: str, number: int) -> int:
        """How many of a count two readers saw."""
        return number - self.unconfirmed.get(name, 0)


def judge(facts: Facts, basis: Basis) -> Verdict:
    """The verdict of one run."""
    wrong = [] if basis.disagreements else list(_counter_examples(facts, basis))
    doubts = list(_doubts(facts, basis))
    names = tuple(dict.fromkeys(told.name for told in doubts))
    named = tuple(told.name for told in wrong), names, OUTCOME.issuperset(names)
    if wrong:
        hedge = (
            ""
            if is_complete(facts)
            else " (at least: the run, its final read or its folder is not complete)"
        )
        return Verdict(INVALID, _sentences(wrong) + hedge, *named)
    if doubts:
        return Verdict(UNKNOWN, _sentences(doubts), *named)
    return Verdict(VALID, _all_well(facts, basis), *named)


def is_complete(facts: Facts) -> bool:
    """Whether the run came to its end, all of its log was read and all of its evidence is there;
    else counts are lower bounds."""
    return facts.state == DONE and facts.read_whole and not facts.gaps


def _sentences(told: Sequence[Told]) -> str:
    return "; ".join(each.sentence for each in told)


def _counter_examples(facts: Facts, basis: Basis) -> Iterator[Told]:
    counts = basis.counts
    lost = counts.lost if facts.deletion_tested else counts.lost - counts.deleted
    if (number := basis.confirmed("lost", lost)) > 0:
        share = f"{number / counts.acknowledged * 100:.3g}"
        are = "are" if number > 1 else "is"
        of = _writes(counts.acknowledged, "acknowledged")
        yield Told("lost", f"{number:,} of {of} ({share} %) {are} lost")
    if (number := basis.confirmed("failed_found", counts.failed_found)) > 0:
        was = "was" if number == 1 else "were"
        yield Told("failed_found", f"{_writes(number)} that failed {was} found in the log")
    nothing_missing = facts.state == DONE and not facts.gaps.history
    if (number := basis.confirmed("unexpected", counts.unexpected)) > 0 and nothing_missing:
        values = "value was" if number == 1 else "values were"
        yield Told("unexpected", f"{number:,} {values} read that nobody wrote there")
    if basis.idempotent and (number := basis.confirmed("duplicates", counts.duplicates)) > 0:
        copies = "duplicate" if number == 1 else "duplicates"
        yield Told("duplicates", f"{number:,} {copies} of writes of an idempotent producer")


def _doubts(facts: Facts, basis: Basis) -> Iterator[Told]:
    counts = basis.counts
    if facts.state != DONE:
        ended = _ENDED.get(facts.state, f"the run broke off while {facts.state}")
        name = INTERRUPTED if facts.state == "interrupted" else FAILED
        yield Told(name, f"{ended}: {facts.error}" if facts.error else ended)
        return  # what else is missing follows from that
    if facts.error:
        yield Told(FAILED, f"the run says that it is done, and why it is not: {facts.error}")
    if not counts.attempted:
        yield Told(VACUOUS, "nothing was attempted")
    elif not counts.acknowledged:
        attempted = _writes(counts.attempted, "attempted")
        yield Told(VACUOUS, f"none of {attempted} was acknowledged")
    yield from _doubts_of_reading(facts, basis)
    yield from _doubts_of_faults(facts, basis)
    if facts.starved:
        yield Told(STARVED, facts.starved)


def _doubts_of_reading(facts: Facts, basis: Basis) -> Iterator[Told]:
    counts = basis.counts
    for sentence in facts.gaps.sentences:
        yield Told(INCOMPLETE, sentence)
    if not facts.ends:
        yield Told(INCOMPLETE, "nothing was read back")
    elif not facts.read_whole:
        why = next((f": {end.error}" for end in facts.ends if end.error), "")
        yield Told(INCOMPLETE, f"not every partition was read to its end{why}")
    if behind := [str(end.partition) for end in facts.ends if end.complete and not end.whole]:
        of = f"partition {behind[0]}" if len(behind) == 1 else f"{len(behind)} partitions"
        yield Told(REPLICAS, f"not every replica of {of} was in sync at the final read")
    for each in basis.disagreements:
        yield Told(
            READERS, f"{' and '.join(each.readers)} read different records of {each.partition}"
        )
    for name, words in _RESTS.items():
        number = basis.unconfirmed.get(name, 0)
        if number and (name != "duplicates" or basis.idempotent):
            yield Told(READERS, f"{number:,} {words}: no second library read them to the end")
    if counts.not_yet_visible:
        writes = _writes(counts.not_yet_visible, "acknowledged")
        yield Told(NOT_YET_VISIBLE, f"{writes} may stand beyond what was read")
    if not facts.deletion_tested and any((end.log_start or 0) > 0 for end in facts.ends):
        writes = _writes(counts.deleted, "acknowledged")
        yield Told(
            DELETED,
            f"{writes} may have been deleted: the log no longer begins at 0, and the plan does "
            "not test that",
        )


_RESTS: Final = {
    "lost": "acknowledged writes are missing from what one reader read",
    "failed_found": "failed writes were found by one reader",
    "unexpected": "values that nobody wrote were read by one reader",
    "duplicates": "duplicates were read by one reader",
}


def _doubts_of_faults(facts: Facts, basis: Basis) -> Iterator[Told]:
    if not facts.faults:
        if facts.drawn:
            yield Told(VACUOUS, "no fault took place: none was drawn")
        return
    windows = {window.id: window for window in facts.windows}
    asked = [fault for fault in facts.faults if not _left_out(fault, windows.get(fault.id))]
    proven = [fault for fault in asked if fault.id in windows and windows[fault.id].proven]
    if not asked:
        yield Told(VACUOUS, "no fault took place: every step was skipped")
    elif facts.drawn and 2 * len(proven) < len(asked):
        of = f"{len(proven)} of {len(asked)}"
        yield Told(UNPROVEN, f"only {of} faults drawn at random are proven, fewer than half")
    elif not facts.drawn and len(proven) < len(asked):
        names = ", ".join(fault.id for fault in asked if fault not in proven)
        number = len(asked) - len(proven)
        are = "is" if number == 1 else "are"
        yield Told(UNPROVEN, f"{number} of {_faults(len(asked))} {are} not proven: {names}")
    unmet = [fault.id for fault in asked if fault.id in windows and windows[fault.id].met is False]
    if unmet:
        yield Told(UNMET, f"the condition never held that {', '.join(unmet)} waited for")
    if proven and not any(_met(facts, basis)):
        yield Told(VACUOUS, "no write was begun while a proven fault was in force")


def _left_out(fault: ScriptedFault, window: FaultWindow | None) -> bool:
    """Whether the plan lets this step be skipped, and it was."""
    return fault.may_skip and window is not None and window.met is False and window.from_s is None


def _met(facts: Facts, basis: Basis) -> Iterator[FaultWindow]:
    """The proven windows, of faults that the plan asks for, in which writes were begun."""
    begun = dict(zip((window.id for window in facts.windows), basis.ops_begun, strict=True))
    return (window for window in _proven(facts) if begun[window.id])


def _proven(facts: Facts) -> Iterator[FaultWindow]:
    """The proven windows of faults that the plan asks for."""
    asked = {fault.id for fault in facts.faults}
    return (window for window in facts.windows if window.proven and window.id in asked)


def _all_well(facts: Facts, basis: Basis) -> str:
    number = basis.counts.acknowledged
    are, every = ("are", "all ") if number != 1 else ("is", "the ")
    told = f"{every}{_writes(number, 'acknowledged')} {are} there"
    if not facts.faults:
        return told
    met, proven = len(list(_met(facts, basis))), len(list(_proven(facts)))
    if facts.drawn:
        told += f", under {met} of {len(facts.faults)} proven faults"
    else:
        told += f", under {met} proven fault{'s' if met != 1 else ''}"
    if met < proven:
        told += f" ({proven - met} more met no write)"
    return told


def _faults(number: int) -> str:
    return f"{number} faults asked for" if number != 1 else "1 fault asked for"


def _writes(number: int, how: str = "") -> str:
    return f"{number:,} {how + ' ' if how else ''}write{'' if number == 1 else 's'}"
