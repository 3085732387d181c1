"""What a check counted, in plain words, for pages and for the command line.

The loss check has a separate section on the page; what is here serves every other one. A check
that is not known here (a plug-in's) is shown by the names of its counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harness.history.documents import CheckRecord, RunResult
from harness.models import GROUP, LOG, REGISTER, SET, TRANSACTION
from reports import formatting
from reports.counterexample import Drawing, drawings

_ENDED: Final = {"acknowledged": "acknowledged", "failed": "failed", "unknown": "unknown"}

_REGISTER: Final = {
    "keys": "registers",
    "invalid_keys": "with a counter-example",
    "undecided_keys": "undecided",
    "operations": "operations",
    "reads": "reads",
    "writes": "writes",
    "cas": "compare-and-sets",
    "attempted": "writes and compare-and-sets attempted",
    **_ENDED,
    "stale_reads": "stale reads",
    "stale_versions_max": "versions behind, at most",
    "stale_s_p50": "age of a stale read, median",
    "stale_s_max": "age of a stale read, at most",
    "unwritten_reads": "reads of a value that was never written",
    "undated_reads": "reads whose age is not known",
    "searched_keys": "registers that needed a search",
    "states": "configurations searched",
}

_SET: Final = {
    "attempted": "adds attempted",
    **_ENDED,
    "stable": "stable",
    "lost": "lost",
    "stale": "stale",
    "never_read": "never read",
    "lost_unacknowledged": "lost, never acknowledged",
    "never_read_acknowledged": "never read, acknowledged",
    "recovered": "unknown adds that were read",
    "failed_found": "failed adds that were read",
    "unacknowledged_found": "adds without acknowledgement that were read",
    "duplicated": "twice in one read",
    "unexpected": "read, and never added",
    "read_before_add": "read before their add began",
}

_DELIVERY: Final = {
    "attempted": "writes attempted",
    "acknowledged": "acknowledged",
    "processed": "records processed",
    "processed_copies": "of these, copies that a retry stored",
    "skipped": "skipped",
    "skipped_delivered": "of these, delivered before",
    "pending": "pending, beyond what is committed",
    "lost": "lost before they were processed",
    "not_yet_visible": "perhaps beyond what was read",
    "purged_unseen": "deleted before they were processed",
    "reprocessed": "processed again",
    "reprocessed_most": "times that one record was processed, at most",
    "reprocessed_beyond": "processed again beyond the bound",
    "phantoms": "phantoms",
    "phantoms_acknowledged": "of these, acknowledged",
    "phantoms_moved": "of these, elsewhere in the log",
    "out_of_order": "delivered out of order",
    "commits": "commits acknowledged",
    "commits_refused": "commits refused",
    "commits_unknown": "commits of unknown outcome",
    "lost_commits": "commits lost",
    "commits_back": "commits that went back",
    "zombie_commits": "commits by a member without the partition",
    "committed_beyond_end": "partitions committed beyond their end",
    "generations": "generations of the group",
    "group_gap_s_max": "longest time in which nothing was processed",
    "partition_gap_s_max": "longest time without delivery",
}

_TRANSACTIONS: Final = {
    "attempted": "values sent",
    "acknowledged": "acknowledged",
    "failed": "failed",
    "unknown": "of unknown outcome",
    "polled": "values polled",
    "polled_ok": "of these, by polls that were ok",
    "torn-transaction": "torn transactions",
    "worst_realtime_lag_s": "age of the oldest value that a poll left out, at most",
}
"""Anomalies have Jepsen's names."""

CLIENT: Final = "client"
_CLIENT: Final = {
    "attempted": "operations attempted",
    "acknowledged": "answered ok",
    "started": "processes started",
    "lies": "lies",
    "floods": "floods",
    "hangs": "hangs",
    "deaths": "deaths",
    "blocked": "operations without an answer in time",
    "late": "of these, answered late",
    "ended": "operations in flight in a process that ended",
}

_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    CLIENT: _CLIENT,
    REGISTER.check: _REGISTER,
    SET.check: _SET,
    GROUP.check: _DELIVERY,
    TRANSACTION.check: _TRANSACTIONS,
}

_UNKNOWN: Final = {
    REGISTER.name: "It is not known whether the registers are consistent",
    SET.name: "It is not known whether elements of the set were lost",
    GROUP.name: "It is not known whether the group has processed every record",
    TRANSACTION.name: "It is not known whether transactions were lost or torn",
}

_IN_SHORT: Final[Mapping[str, tuple[str, ...]]] = {
    REGISTER.check: (
        *("keys", "invalid_keys", "undecided_keys"),
        *("reads", "stale_reads", "stale_s_max"),
    ),
    SET.check: ("stable", "lost", "stale", "never_read", "unexpected", "duplicated"),
    GROUP.check: (
        *("skipped", "reprocessed", "phantoms"),
        *("lost_commits", "partition_gap_s_max", "pending", "lost"),
    ),
    TRANSACTION.check: (
        *("acknowledged", "lost-write", "unseen"),
        *("torn-transaction", "G1a", "duplicate"),
    ),
    CLIENT: ("started", "lies", "floods", "hangs", "deaths", "blocked"),
}


_RATES: Final = {
    "ack": "acknowledged, of all attempted",
    "loss": "lost, of the acknowledged",
    "unacknowledged_success": "unacknowledged success: found unacknowledged, per acknowledged",
    "unacknowledged_success_of_unacknowledged": "found, of all without acknowledgement",
}
_POINTS: Final = ("0", "0.5", "0.95", "0.99", "1")
_TITLES: Final = {
    CLIENT: "Clients",
    REGISTER.check: "Registers",
    SET.check: "Elements of the set",
    GROUP.check: "Consumers",
    TRANSACTION.check: "Transactions",
}


def words(check: str, name: str) -> str:
    """What a count, or a kind of finding, of a check means."""
    return _WORDS.get(check, {}).get(name, name.replace("_", " "))


@dataclass(frozen=True)
class Count:
    """One count: its name in result.json, what it means, and its value as text. `bad`: it is, or
    holds, a counter-example."""

    name: str
    label: str
    value: str
    bad: bool = False


@dataclass(frozen=True)
class CheckView:
    """One check as the page shows it: all counts, the few that say most, and what it has besides.
    `latencies` are rows of least, median, 95 %, 99 % and most; `rates` are what they are of, and
    their text; `final`: a read began after every add had completed."""

    name: str
    title: str
    counts: list[Count]
    short: list[Count]
    doubts: list[str]
    drawings: list[Drawing]
    latencies: list[tuple[str, list[str]]]
    rates: list[tuple[str, str]]
    final: bool


def shown(result: RunResult) -> Sequence[CheckRecord]:
    """The checks that are shown by themselves: all but a loss check whose counts are the run's."""
    return result.checks[1:] if counts_losses(result) else result.checks


def views(result: RunResult) -> list[CheckView]:
    """The checks that need a section. Raises ValueError or TypeError for details that no check
    writes."""
    return [_view(check) for check in shown(result)]


def _view(check: CheckRecord) -> CheckView:
    final = check.details.get("final_read") or {}
    return CheckView(
        name=check.name,
        title=_TITLES.get(check.name, f"Check: {check.name}"),
        counts=counted(check),
        short=in_short(check),
        doubts=[sentence for _, sentence in check.doubts],
        drawings=drawings(check.details) if check.name == REGISTER.check else [],
        latencies=_latencies(check) if check.name == SET.check else [],
        rates=_rates(check) if check.name == SET.check else [],
        final=bool(final.get("is_final")),
    )


def _latencies(check: CheckRecord) -> list[tuple[str, list[str]]]:
    known = check.details.get("latencies_ms") or {}
    return [
        (what, [formatting.milliseconds(points.get(point)) for point in _POINTS])
        for what in ("stable", "lost")
        if (points := known.get(what))
    ]


def _rates(check: CheckRecord) -> list[tuple[str, str]]:
    return [
        (label, formatting.rate(check.rates[name]))
        for name, label in _RATES.items()
        if name in check.rates
    ]


def counts_losses(result: RunResult) -> bool:
    """Whether the counts of a result are those of the loss check."""
    checks = result.checks
    return result.model == LOG.name and (not checks or checks[0].name == LOG.check)


def states_losses(result: RunResult) -> bool:
    """Whether any of the checks that the counts of a result are of looks for losses."""
    return counts_losses(result) or any("lost" in check.counts for check in result.checks[:1])


def counted(check: CheckRecord) -> list[Count]:
    """All counts of a check, the known ones in the order of their words."""
    words = _WORDS.get(check.name, {})
    names = [*(name for name in words if name in check.counts)]
    names += [name for name in check.counts if name not in words]
    return [_count(check, name) for name in names]


def in_short(check: CheckRecord) -> list[Count]:
    """The counts that say most; of a check that is not known here, all."""
    names = _IN_SHORT.get(check.name)
    if names is None:
        return counted(check)
    return [_count(check, name) for name in names if name in check.counts]


def headline(result: RunResult) -> str:
    """The outcome of a run whose counts are not those of the loss check."""
    if result.verdict == "unknown":
        return _UNKNOWN.get(result.model, "It is not known whether this run is as it should be")
    found = [sentence for check in result.checks for sentence in _in_a_headline(check)]
    text = "; ".join(found) or (result.reason or result.verdict).partition(", under ")[0]
    return text[:1].upper() + text[1:]


def _in_a_headline(check: CheckRecord) -> list[str]:
    """What a check found; registers without their names."""
    found = [sentence for _, sentence in check.counter_examples]
    if check.name == REGISTER.check:
        return [sentence.partition(": ")[0] for sentence in found]
    return found


def _count(check: CheckRecord, name: str) -> Count:
    value = check.counts[name]
    label = words(check.name, name)
    counter_examples = {each for each, _ in check.counter_examples}
    if check.name == REGISTER.check and counter_examples:
        counter_examples = {"invalid_keys"}
    return Count(name, label, _text(name, value), bool(value) and name in counter_examples)


def _text(name: str, value: float | None) -> str:
    if value is None:
        return formatting.NOTHING
    return formatting.seconds(value) if name.endswith(("_s_p50", "_s_max")) else _number(value)


def _number(value: float) -> str:
    return formatting.number(int(value) if value == int(value) else value)
