"""The set checker: the outcome of every element that was added to a set."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from checkers.sets.columns import ABSENT, NOBODY, Adds, SetHistory, SetReads, by_key, paired
from checkers.sets.outcomes import (
    NEVER,
    Outcomes,
    Sightings,
    counts,
    final_read,
    outcomes,
    rates_of,
    sightings,
)
from harness.history.parquet_writer import numbers, strings, texts, values
from harness.protocols import (
    DOUBTS,
    CheckResult,
    Count,
    OneShard,
    PrimaryFinding,
    Run,
    Statement,
)
from harness.protocols.checkers import ENDED, counted, counter_examples
from harness.protocols.runs import FAIL, INFO, NULL, OK, Bools, Int32s, Ints, Texts

# The anomalous elements of a history, one row each and kind, with the read that proves it.

FINDINGS: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("key", pa.string()),
        pa.field("value", pa.int64(), nullable=False),
        *(
            pa.field(name, pa.int64())
            for name in ("process", "invoke_index", "complete_index", "invoke_ns", "complete_ns")
        ),
        pa.field("type", pa.string()),
        *(
            pa.field(f"{read}_{name}", pa.int64())
            for read in ("read", "seen")
            for name in ("process", "invoke_index", "complete_index", "invoke_ns", "complete_ns")
        ),
        pa.field("copies", pa.int64()),
        pa.field("latency_ns", pa.int64()),
    ]
)
"""`process`, `type` and the columns beside them are of the add, null where the element was never
added; `read_*` is the read that proves it, by `kind`:

    lost             the last read without the element; `seen_*`: the last one with it, if any;
                     `latency_ns`: from when it was known to when it was lost
    stale            the last read without it; `seen_*`: the last one with it; `latency_ns`: from
                     when it was known to when it was stable
    never_read       no read decides about an acknowledged element: `read_*` is null
    failed_found, unexpected, read_before_add
                     the first read to complete with it
    duplicated       the read in which it stands most often; `copies`: how often
"""

_PLACES: Final = ("process", "invoke_index", "complete_index", "invoke_ns", "complete_ns")
_NULLS: Final = (NOBODY, ABSENT, ABSENT, NULL, NULL)
_TYPES: Final = ((OK, "ok"), (FAIL, "fail"), (INFO, "info"))
_ORDER: Final = [(name, "ascending") for name in ("kind", "value", "key")]


def findings(history: SetHistory, seen: Sightings, became: Outcomes) -> pa.Table:
    rows = partial(_rows, history, seen)
    absent, first, early = seen.last_absent, seen.first_seen, seen.too_early
    lost_ns, stale_ns = became.lost_latency_ns, became.stable_latency_ns
    return ordered(
        [
            rows("lost", became.lost, absent, seen_in=seen.last_present, latency_ns=lost_ns),
            rows("stale", became.stale, absent, seen_in=seen.last_present, latency_ns=stale_ns),
            rows("never_read", became.never_read & became.acknowledged, None),
            rows("failed_found", became.failed & became.found, first),
            rows("unexpected", seen.unexpected, first),
            rows("read_before_add", early != NEVER, early),
            rows("duplicated", seen.copies > 1, seen.copied_in, copies=seen.copies),
        ]
    )


def ordered(tables: Iterable[pa.Table]) -> pa.Table:
    """The rows of all of these, by kind and value."""
    return pa.concat_tables(tables).sort_by(_ORDER).combine_chunks()


def _rows(
    history: SetHistory,
    seen: Sightings,
    kind: str,
    chosen: Bools,
    proof: Int32s | None,
    *,
    seen_in: Int32s | None = None,
    copies: Ints | None = None,
    latency_ns: Ints | None = None,
) -> pa.Table:
    """The rows of one kind: of the chosen elements, each with the read that proves it."""
    elements = np.flatnonzero(chosen)
    keys = np.full(len(elements), -1 if history.key is None else 0)
    columns = {
        "kind": strings([kind] * len(elements)),
        "key": texts(Texts(keys, [history.key or ""])),
        "value": values(seen.values[elements]),
        **_placed(history.adds, np.where(elements < seen.added, elements, -1), ""),
        "type": _types(history.adds, elements),
        **_placed(history.reads, _some(proof, elements, NEVER), "read_"),
        **_placed(history.reads, _some(seen_in, elements, NEVER), "seen_"),
        "copies": _known(_some(copies, elements, NULL), NULL),
        "latency_ns": _known(_some(latency_ns, elements, NULL), NULL),
    }
    return pa.table([columns[name] for name in FINDINGS.names], schema=FINDINGS)


def _some(column: Ints | Int32s | None, elements: Ints, nothing: int) -> Ints:
    """The column at these elements; nothing if there is no column."""
    if column is None:
        return np.full(len(elements), nothing, np.int64)
    return column[elements].astype(np.int64)


def _placed(of: Adds | SetReads, rows: Ints, prefix: str) -> dict[str, pa.Array]:
    """Process, indices and times at these rows; null where the row is -1."""
    return {
        prefix + name: _known(np.append(getattr(of, name), null)[rows], null)
        for name, null in zip(_PLACES, _NULLS, strict=True)
    }


def _types(adds: Adds, elements: Ints) -> pa.Array:
    """How the add of each element ended; null where there was none."""
    marks = np.append(adds.mark, 0)[np.where(elements < len(adds.mark), elements, -1)]
    place = np.searchsorted([mark for mark, _ in _TYPES], marks)
    return texts(Texts(np.where(marks == 0, -1, place), [name for _, name in _TYPES]))


def _known(column: Ints, null: int) -> pa.Array:
    return numbers(np.where(column == null, NULL, column))


POINTS: Final = ("0", "0.5", "0.95", "0.99", "1")
"""The quantiles that Jepsen's set-full gives, as it names them."""


def quantiles_ns(latencies_ns: Ints) -> dict[str, int]:
    """By quantile, the latency at place floor(quantile x number) of all in order, as Jepsen has it;
    NULL is left out. Empty if there are none."""
    ordered = np.sort(latencies_ns[latencies_ns != NULL])
    last = len(ordered) - 1
    if last < 0:
        return {}
    return {
        point: int(ordered[min(last, math.floor(len(ordered) * float(point)))]) for point in POINTS
    }


def _quantiles_ms(latencies_ns: Ints) -> dict[str, float]:
    return {point: round(ns / 1e6, 3) for point, ns in quantiles_ns(latencies_ns).items()}


_WRONG: Final = (
    Count("lost", "lost", "known elements that were lost", among=("stable", "lost")),
    Count("unexpected", "unexpected", "elements that were read and never added"),
    Count("read_before_add", "read too early", "elements that were read before their add began"),
    Count("failed_found", "failed, found", "elements that were read though their add had failed"),
    Count("duplicated", "duplicated", "elements that occur more than once in one read"),
)
_STALE: Final = Count("stale", "stale", "known elements that are missing from a later read")


@dataclass(frozen=True, kw_only=True, eq=False)
class Tally:
    """What the history of a set shows, or of several. `read`: the last one, `None` where nothing
    was read; `unanswered`: see `SetHistory`; latencies are NULL where there is none; `findings`
    have the schema FINDINGS."""

    counts: dict[str, int]
    read: dict[str, Any] | None
    unanswered: int
    stable_ns: Ints
    lost_ns: Ints
    findings: pa.Table


def tally(history: SetHistory) -> Tally:
    """What one history shows."""
    seen = sightings(history)
    became = outcomes(history, seen)
    return Tally(
        counts=counts(seen, became),
        read=final_read(history, seen, became),
        unanswered=history.unanswered,
        stable_ns=became.stable_latency_ns,
        lost_ns=became.lost_latency_ns,
        findings=findings(history, seen, became),
    )


def of_all_keys(tallies: Sequence[Tally]) -> Tally:
    """What the sets of one history show together: each is to be read, and answered at the end."""
    if len(tallies) == 1:
        return tallies[0]
    read, reads = None, [each.read for each in tallies if each.read is not None]
    if len(reads) == len(tallies):
        last = max(reads, key=lambda read: int(read["index"]))
        read = {**last, "counts": _sum([each["counts"] for each in reads])}
    return Tally(
        counts=_sum([each.counts for each in tallies]),
        read=read,
        unanswered=sum(each.unanswered for each in tallies),
        stable_ns=np.concatenate([each.stable_ns for each in tallies]),
        lost_ns=np.concatenate([each.lost_ns for each in tallies]),
        findings=ordered(each.findings for each in tallies),
    )


def _sum(parts: Sequence[dict[str, int]]) -> dict[str, int]:
    return {name: sum(each[name] for each in parts) for name in parts[0]}


def _doubts(tally: Tally) -> Iterator[Statement]:
    """Why a history without a counter-example may not be valid. An acknowledged element is only
    left undecided where no read is final."""
    unread = tally.counts["never_read_acknowledged"]
    if not tally.counts["acknowledged"]:
        yield Statement(DOUBTS.vacuous, "no add was acknowledged")
    if tally.read is None:
        yield Statement(DOUBTS.incomplete, "the set was never read")
    elif unread:
        yield Statement(
            DOUBTS.not_yet_visible,
            counted(
                unread,
                "no read decides about {n} acknowledged [element|elements]: none began after all "
                "adds had completed",
            ),
        )
    if tally.read is not None and tally.unanswered:
        words = (
            "none of {n} [read|reads] at the end was ok: what was lost after the last ok read is "
        )
        yield Statement(DOUBTS.incomplete, counted(tally.unanswered, f"{words}not known"))


@dataclass(frozen=True)
class Set(OneShard[Tally]):
    """Elements of a set that are lost, stale or never read, as Jepsen's set-full means them, and
    those that were read though they were never added or their add had failed.

    linearizable  a stale read, one without an element that was known before it began, is a
                  counter-example, else it is only counted
    """

    plugin: ClassVar[str] = "set"
    models: ClassVar[frozenset[str]] = frozenset({"set"})
    title: ClassVar[str] = "Elements of the set"
    primary: ClassVar[PrimaryFinding] = PrimaryFinding(
        counter_examples=("lost",), noun="lost elements", head="lost"
    )
    counts: ClassVar[tuple[Count, ...]] = (
        Count("attempted", "adds attempted"),
        *ENDED,
        Count("stable", "stable", "elements in every read from some instant on"),
        *_WRONG,
        _STALE,
        Count("never_read", "never read", "elements about which no read decides"),
        Count("lost_unacknowledged", "lost, never acknowledged"),
        Count("never_read_acknowledged", "never read, acknowledged"),
        Count("recovered", "unknown adds that were read"),
        Count("unacknowledged_found", "adds without acknowledgement that were read"),
    )
    short: ClassVar[tuple[str, ...]] = (
        *("stable", "lost", "stale", "never_read", "unexpected", "duplicated"),
    )

    linearizable: bool = False

    def gather(self, run: Run) -> Tally:
        facts, tallies = run.facts, list[Tally]()
        for key, parts in by_key(run.operations()).items():
            history = paired(
                parts, timed=facts.timed, end_ns=facts.final_from_ns, file=facts.source
            )
            tallies.append(tally(replace(history, key=key)))
        return of_all_keys(tallies)

    def judge(self, run: Run, gathered: Tally) -> CheckResult:
        wrong = (*_WRONG, _STALE) if self.linearizable else _WRONG
        run_ids = strings([run.facts.run_id] * len(gathered.findings))
        return CheckResult(
            counts=gathered.counts,
            rates=rates_of(gathered.counts),
            findings=gathered.findings.add_column(0, "run_id", run_ids),
            counter_examples=counter_examples(wrong, gathered.counts),
            doubts=tuple(_doubts(gathered)),
            all_well=counted(
                gathered.counts["acknowledged"],
                "[the|all] {n} acknowledged [element was|elements were] kept",
            ),
            details={
                "latencies_ms": {
                    "stable": _quantiles_ms(gathered.stable_ns),
                    "lost": _quantiles_ms(gathered.lost_ns),
                },
                "final_read": gathered.read,
            },
        )
