"""The verdict of a run, with its reason in a sentence, from its circumstances and its checkers.

Truth rule 8: `invalid` needs one counter-example; `valid` needs that nothing kept us from seeing
one, that every scripted fault is proven (of faults drawn at random, half of them) and that
operations were begun during one that is; everything else is `unknown`, and unknown is never shown
as valid. What was found, and what kept us from seeing it, has a name beside its sentence: people
read sentences, programs count names.

A run is *eligible* by what is known without its outcome: it ran to its end, its evidence is
complete, faults and load were as the plan requests. Statistics count eligible runs alone, whichever
way they ended (truth rule 9).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from harness.models import MODELS
from harness.protocols import (
    DONE,
    DOUBTS,
    INVALID,
    OUTCOME_DOUBTS,
    UNKNOWN,
    VALID,
    CheckResult,
    Facts,
    FaultWindow,
    ScriptedFault,
    Statement,
)
from harness.protocols.checkers import counted

_ENDED: Final = {"interrupted": "the run was interrupted", "failed": "the run failed"}


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


def judge(facts: Facts, results: Sequence[CheckResult], ops_begun: Sequence[int] = ()) -> Verdict:
    """The verdict of one run. `ops_begun`: operations begun in each of the facts' windows."""
    wrong = [each for result in results for each in result.counter_examples]
    doubts = list(_doubts(facts, results, ops_begun))
    names = tuple(dict.fromkeys(each.name for each in doubts))
    named = tuple(each.name for each in wrong), names, OUTCOME_DOUBTS.issuperset(names)
    if wrong:
        hedge = (
            ""
            if is_complete(facts)
            else " (at least: the run, its final read or its folder is not complete)"
        )
        return Verdict(INVALID, _sentences(wrong) + hedge + _without_fault(facts), *named)
    if doubts:
        return Verdict(UNKNOWN, _sentences(doubts), *named)
    return Verdict(VALID, _all_well(facts, results, ops_begun), *named)


def is_complete(facts: Facts) -> bool:
    """Whether the run came to its end, all of its evidence is there and, where its model has a
    final read, everything was read; else counts are lower bounds."""
    read = facts.read_whole or not MODELS[facts.promises.model].final_read
    return facts.state == DONE and read and not facts.gaps


def _sentences(statements: Sequence[Statement]) -> str:
    return "; ".join(dict.fromkeys(each.sentence for each in statements))


def _doubts(
    facts: Facts, results: Sequence[CheckResult], ops_begun: Sequence[int]
) -> Iterator[Statement]:
    if facts.state != DONE:
        ended = _ENDED.get(facts.state, f"the run broke off while {facts.state}")
        name = DOUBTS.interrupted if facts.state == "interrupted" else DOUBTS.failed
        yield Statement(name, f"{ended}: {facts.error}" if facts.error else ended)
        return  # what else is missing follows from that
    if facts.error:
        yield Statement(
            DOUBTS.failed, f"the run says that it is done, and why it is not: {facts.error}"
        )
    for sentence in facts.gaps.sentences:
        yield Statement(DOUBTS.incomplete, sentence)
    yield from (doubt for result in results for doubt in result.doubts)
    yield from _doubts_of_replicas(facts)
    yield from _doubts_of_faults(facts, ops_begun)
    if facts.clients is not None and (facts.clients.lies or facts.clients.floods):
        yield Statement(
            DOUBTS.client, f"the clients broke their protocol: {facts.clients.sentence}"
        )
    if facts.starved:
        yield Statement(DOUBTS.starved, facts.starved)


def _doubts_of_replicas(facts: Facts) -> Iterator[Statement]:
    """Of any model: what only a replica that is behind has lost, or holds, no client has seen."""
    for in_sync, words in (
        (False, "not every replica of {of} was in sync at the end"),
        (None, "it is not known whether every replica of {of} was in sync at the end"),
    ):
        behind = [number for number, each in facts.replicated.items() if each is in_sync]
        if behind:
            of = f"[partition {behind[0]}|{{n}} partitions]"
            yield Statement(DOUBTS.replicas, counted(len(behind), words.replace("{of}", of)))


def _doubts_of_faults(facts: Facts, ops_begun: Sequence[int]) -> Iterator[Statement]:
    if not facts.faults:
        if facts.drawn:
            yield Statement(DOUBTS.vacuous, "no fault took place: none was drawn")
        return
    windows = {window.id: window for window in facts.windows}
    requested = [fault for fault in facts.faults if not _left_out(fault, windows.get(fault.id))]
    if not requested:
        yield Statement(DOUBTS.vacuous, "no fault took place: every step was skipped")
    controls = _controls(facts)
    requested = [fault for fault in requested if fault.id not in controls]
    proven = [fault for fault in requested if fault.id in windows and windows[fault.id].proven]
    if facts.drawn and 2 * len(proven) < len(requested):
        of = f"{len(proven)} of {len(requested)}"
        yield Statement(
            DOUBTS.unproven, f"only {of} faults drawn at random are proven, fewer than half"
        )
    elif not facts.drawn and len(proven) < len(requested):
        names = ", ".join(_named(fault, windows) for fault in requested if fault not in proven)
        of = counted(len(requested), "{n} requested [fault|faults]")
        words = f"{{n}} of {of} [is|are] not proven: "
        sentence = counted(len(requested) - len(proven), words) + names
        yield Statement(DOUBTS.unproven, sentence)
    unmet = [
        fault.id for fault in requested if fault.id in windows and windows[fault.id].met is False
    ]
    if unmet:
        yield Statement(
            DOUBTS.unmet, f"the condition never held that {', '.join(unmet)} waited for"
        )
    if proven and not any(_met(facts, ops_begun)):
        yield Statement(DOUBTS.vacuous, "no operation was begun while a proven fault was in force")


_LONGEST: Final = 160
"""Of a reason within a sentence; the fault's table has all of it."""


def _named(fault: ScriptedFault, windows: Mapping[str, FaultWindow]) -> str:
    """A fault that is not proven, and why: one that an operator caused is distinguished from one
    that failed."""
    window = windows.get(fault.id)
    if window is None or window.from_s is None:
        return fault.id
    why = "claimed, not proven" if window.claimed else window.unproven
    return f"{fault.id} ({textwrap.shorten(why, _LONGEST, placeholder=' …')})" if why else fault.id


def _left_out(fault: ScriptedFault, window: FaultWindow | None) -> bool:
    """Whether the plan lets this step be skipped, and it was."""
    return fault.may_skip and window is not None and window.met is False and window.from_s is None


def _met(facts: Facts, ops_begun: Sequence[int]) -> Iterator[FaultWindow]:
    """The proven windows, of faults that the plan requests, in which writes were begun."""
    begun = dict(zip((window.id for window in facts.windows), ops_begun, strict=True))
    return (window for window in _proven(facts) if begun[window.id])


def _proven(facts: Facts) -> Iterator[FaultWindow]:
    """The proven windows of faults that the plan requests."""
    requested = {fault.id for fault in facts.faults}
    return (window for window in facts.windows if window.proven and window.id in requested)


def _controls(facts: Facts) -> set[str]:
    """The requested faults that passed everything on."""
    requested = {fault.id for fault in facts.faults}
    return {window.id for window in facts.windows if window.control} & requested


def _without_fault(facts: Facts) -> str:
    """Of a run, unless a fault was requested that is not a control: what its headline adds."""
    controls = len(_controls(facts))
    if facts.folder is None or len(facts.faults) > controls:
        return ""
    only = counted(controls, ", only {n} [control|controls]") if controls else ""
    return f"; no fault was made{only}"


def _all_well(facts: Facts, results: Sequence[CheckResult], ops_begun: Sequence[int]) -> str:
    reason = "; ".join(result.all_well for result in results)
    controls = len(_controls(facts))
    faults = len(facts.faults) - controls
    if not faults:
        return reason + _without_fault(facts)
    met, proven = len(list(_met(facts, ops_begun))), len(list(_proven(facts)))
    if facts.drawn:
        reason += f", under {met} of {faults} proven faults"
    else:
        reason += counted(met, ", under {n} proven [fault|faults]")
    if met < proven:
        reason += f" ({proven - met} more met no operation)"
    return reason + (counted(controls, ", beside {n} [control|controls]") if controls else "")
