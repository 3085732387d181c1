"""Why the lost writes of a run were lost: asked of its target, and as its folder holds it,
`explanations.parquet`, a row for each write, and `explanations.json`, the chain of facts of each
event that lost some; with them why consumers skipped records, or processed them again. And what is
not loss, though the client did not know it: writes that were found without an acknowledgement, or
more than once.

At this border to `Target.explain` each lost write gets exactly one cause. A cause never changes a
verdict, and a target that fails to explain leaves its run as it is: all of its lost writes are
unexplained then, and say so. Where no log of a server was collected, as of a cluster that ackloss
did not start, what has no cause was not examined: nothing speaks for or against any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from harness.errors import HistoryError
from harness.faults.journal import windows
from harness.history.documents import LOST_KINDS, DoubleEntry, NotLost
from harness.history.parquet_reader import integers, texts
from harness.history.parquet_writer import numbers, one_batch, packed, sieve, strings, values
from harness.history.rows import bounds_ns, stored_target
from harness.history.run_folder import SCHEMA_VERSION, RunDir
from harness.protocols import (
    NOT_EXAMINED,
    NULL,
    UNEXPLAINED,
    CheckResult,
    Explanation,
    Fact,
    FaultWindow,
    Ints,
    Removed,
    Target,
)
from harness.protocols.explanations import (
    COMMIT_LOST,
    DELIVERY_CAUSES,
    ELECTED,
    RESET_LOST,
    LossEvent,
)
from harness.wrong_values import expected, first_of

_MARKER: Final = "marker-skipped"
_CAUSES: Final = {
    **DELIVERY_CAUSES,
    _MARKER: "The log has them, and not the marker that commits their transactions",
}
_NEEDS: Final = frozenset({"kind", "value", "invoke_ns", "complete_ns"})
"""What findings that list the lost writes one by one hold of each."""


@dataclass(frozen=True)
class Explained:
    """`causes`: how many lost writes have each; `others`: what those without a cause are,
    UNEXPLAINED or NOT_EXAMINED; `survivable`: how many a node still had that was up and was not
    elected; `not_lost`: deliveries; `files`: what the folder of the run holds of it, by name."""

    causes: Mapping[str, int] = field(default_factory=dict)
    others: str = UNEXPLAINED
    survivable: int = 0
    not_lost: Sequence[NotLost] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)


def explained(rundir: RunDir, results: Collection[CheckResult]) -> Explained:
    """The causes of what the checkers of a run report as lost, and what they explain themselves."""
    lost, others = lost_rows(results), UNEXPLAINED
    found: list[Explanation] = []
    deliveries = [each for result in results for each in result.explanations]
    phantoms = lost_rows(results, {"phantoms"})
    if not deliveries and not any(rows is not None and rows.num_rows for rows in (lost, phantoms)):
        return Explained()
    if (target := stored_target(rundir)) is None:
        return Explained()
    if lost is not None and (found := _uncommitted(lost)):
        placed = {value for each in found for value in each.values}
        lost = lost.filter([value not in placed for value in lost["value"].to_pylist()])
    if lost is not None and lost.num_rows:
        others, asked = _asked(target, rundir, lost)
        found += _complete(asked, lost["value"].to_pylist(), others)
    causes, alike = Counter[str](), Counter[tuple[str, str]]()
    for each in found:
        causes[each.cause] += len(each.values)
    del causes[others]
    deliveries = [*_with_elections(target, rundir, deliveries)]
    if phantoms is not None and phantoms.num_rows:
        deliveries += _phantoms(target, rundir, phantoms)
    for each in deliveries:
        alike[each.kind, each.cause] += len(each.values)
    explanations, sentences = [*found, *deliveries], {**target.causes, **_CAUSES}
    files = {
        rundir.explanations.name: packed(rows_of(explanations)),
        rundir.chains.name: chains_document(explanations, sentences, target.defects),
    }
    survivable = sum(min(each.survivors or 0, len(each.values)) for each in found)
    not_lost = [NotLost(kind=k, writes=n, cause=c) for (k, c), n in alike.most_common()]
    return Explained(dict(causes.most_common()), others, survivable, not_lost, files)


def _phantoms(target: Target[Any], rundir: RunDir, delivered: pa.Table) -> Iterator[Explanation]:
    """Why the log lacks what was delivered: as it would a write that was there by then."""
    first: dict[int, dict[str, Any]] = {}
    for row in delivered.sort_by("time_ns").to_pylist():
        first.setdefault(row["value"], row)
    times = [row["time_ns"] for row in first.values()]
    there = pa.table(
        {
            "value": pa.array(first, pa.int64()),
            **{n: pa.array([r[n] for r in first.values()]) for n in ("partition", "offset")},
            "invoke_ns": times,
            "complete_ns": times,
            "state": ["delivered"] * len(first),
        }
    )
    others, asked = _asked(target, rundir, there)
    for each in _complete(asked, there["value"].to_pylist(), others):
        facts = tuple(fact for fact in each.facts if fact.kind != "acknowledged")
        yield replace(each, kind="phantom", facts=facts, preventions=(), survivors=None)


def _with_elections(
    target: Target[Any], rundir: RunDir, deliveries: Sequence[Explanation]
) -> Iterator[Explanation]:
    """With the elections of coordinators while a commit was lost: between the assignments of the
    reader that had made it, and of the one that was given less."""
    lost = [each for each in deliveries if each.cause in (COMMIT_LOST, RESET_LOST)]
    try:
        elections = target.coordinators(rundir.path) if lost else ()
    except Exception:  # whatever a plug-in raises, the rest stands
        elections = ()
    for each in deliveries:
        known = [fact for fact in each.facts if fact.kind in ("commit", "assigned")]
        between = [f for f in elections if each in lost and min(known) < f < max(known)]
        facts = tuple(sorted([*each.facts, *between]))
        yield replace(each, cause=each.cause + ELECTED, facts=facts) if between else each


def lost_rows(
    results: Iterable[CheckResult], kinds: Collection[str] = LOST_KINDS
) -> pa.Table | None:
    """The rows of the first check that reports lost writes one by one; or those of other kinds."""
    for result in results:
        if kinds == LOST_KINDS and result.lost is not None:
            return result.lost
        found = result.findings
        if found is not None and set(found.column_names) >= _NEEDS:
            listed = found["kind"].to_pylist()
            chosen = [row for row, kind in enumerate(listed) if kind in kinds]
            return found.take(values(np.array(chosen, np.int64)))
    return None


def _uncommitted(lost: pa.Table) -> list[Explanation]:
    """Of the writes of acknowledged transactions, those that the log has."""
    states = lost["state"].to_pylist() if "state" in lost.column_names else ()
    values = lost["value"].to_pylist()
    found = tuple(v for v, state in zip(values, states, strict=False) if state == "aborted")
    text = "their transactions were acknowledged, and the log has them, but not as committed"
    fact = Fact(kind="held by", text=text, source="final read")
    return [Explanation(cause=_MARKER, values=found, facts=(fact,))] if found else []


def _asked(
    target: Target[Any], rundir: RunDir, lost: pa.Table
) -> tuple[str, Sequence[Explanation]]:
    """What those without a cause are, and the explanations."""
    others = UNEXPLAINED if rundir.logs() else NOT_EXAMINED
    try:
        found = target.explain(rundir.path, lost)
        return others, [replace(e, cause=others) if e.cause == UNEXPLAINED else e for e in found]
    except Exception as error:  # whatever a plug-in raises, the verdict stands
        why = f"explaining them failed: {type(error).__name__}: {error}"
        fact = Fact(kind="acknowledged", text=why, source="ackloss")
        every = tuple(lost["value"].to_pylist())
        return UNEXPLAINED, [Explanation(cause=UNEXPLAINED, values=every, facts=(fact,))]


def _complete(found: Sequence[Explanation], lost: Sequence[int], others: str) -> list[Explanation]:
    """With every lost value in exactly one explanation: what is in none, or in several, has no
    cause, and what was not lost is left out."""
    named = Counter(value for each in found for value in each.values)
    once = {value for value in lost if named[value] == 1}
    kept = [
        replace(each, values=tuple(value for value in each.values if value in once))
        for each in found
    ]
    if left := tuple(value for value in lost if value not in once):
        kept.append(Explanation(cause=others, values=left))
    return [each for each in kept if each.values]


@dataclass(frozen=True, kw_only=True)
class Chain(LossEvent):
    """A loss as it is stored: `writes` is how many it cost, `sentence` its cause in words, `defect`
    whether the system promises that it cannot happen."""

    sentence: str
    writes: int
    defect: bool = False

    @property
    def bad(self) -> bool:
        """Whether it needs a look: a defect, or evidence that does not suffice."""
        return self.defect or self.cause == UNEXPLAINED


_CHAINS: Final = TypeAdapter(tuple[Chain, ...])


def rows_of(explanations: Sequence[Explanation]) -> pa.Table:
    """What explanations.parquet holds: `value`, `cause`, `chain`, its number, `partition`, `epoch`
    and `dropped_by`."""
    sizes = [len(each.values) for each in explanations]
    chain = np.repeat(np.arange(len(sizes)), sizes)
    columns = {
        "value": values(np.array([v for each in explanations for v in each.values], np.int64)),
        "cause": strings([each.cause for each in explanations]).take(values(chain)),
        "chain": values(chain),
    }
    for name in ("partition", "epoch", "dropped_by"):
        known = [getattr(each, name) for each in explanations]
        column = np.array([NULL if number is None else number for number in known], np.int64)
        columns[name] = numbers(column[chain])
    return pa.table(columns)


def chains_document(
    explanations: Sequence[Explanation], sentences: Mapping[str, str], defects: Collection[str]
) -> bytes:
    """What explanations.json holds; `sentences` by cause, and the causes that are `defects`."""
    chains = []
    for each in explanations:
        document: dict[str, Any] = {"cause": each.cause}
        nothing = _NOT_LOOKED if each.cause == NOT_EXAMINED else _NOTHING
        document["sentence"] = sentences.get(each.cause, nothing)
        document |= {"writes": len(each.values), "defect": each.cause in defects}
        document |= asdict(replace(each, values=()))
        del document["values"]
        chains.append(document)
    body = {"schema": SCHEMA_VERSION, "chains": chains}
    return orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n"


_NOTHING: Final = "Nothing in the run's folder says why"
_NOT_LOOKED: Final = "Not examined: no evidence of the servers was collected"


def chains_of(rundir: RunDir) -> tuple[Chain, ...]:
    """The chains of a run or of a cell in the order of their numbers; none where nothing was lost.
    Raises HistoryError for a document that cannot be used."""
    if not rundir.chains.exists():
        return ()
    document = rundir.read_json(rundir.chains)
    try:
        return _CHAINS.validate_python(document.get("chains"))
    except ValidationError as error:
        findings = first_of(error.errors(include_url=False))
        key = ".".join(map(str, ("chains", *findings[0]["loc"])))
        raise HistoryError(
            f"{key}: {expected(findings)}",
            file=str(rundir.chains),
            hint="`ackloss check` writes it",
        ) from error


def chains_with(rundir: RunDir, value: int) -> list[Chain]:
    """The chains that explain what became of a value: none of one that was not lost, skipped or
    processed again. Raises HistoryError."""
    if not rundir.explanations.exists():
        return []
    try:
        table = pq.read_table(rundir.explanations, columns=["value", "chain"])
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"cannot be read: {error}", file=str(rundir.explanations)) from error
    found = table.filter(pc.equal(table["value"], value))["chain"].to_pylist()
    chains = chains_of(rundir) if found else ()
    return [chains[number] for number in dict.fromkeys(found)]


# Double entry for what nodes' logs lost.

_LISTED_AT_MOST: Final = 100


def double_entry(
    rundir: RunDir, removed: Removed, lost: Sequence[int], delivered: Sequence[int] = ()
) -> DoubleEntry:
    """Of the records that were `removed` from nodes' logs during a run, of whose writes these are
    `lost`, and others had been `delivered` before they were: each acknowledged one is lost, or
    stands elsewhere in the final log, or was acknowledged behind its end, up to which consumers may
    read. What is none of these is left over: the checker, the final read or the copies are wrong
    then. No verdict rests on it."""
    records = {record[2:] for record in removed.records}
    written = {each[-1] for each in records if each[-1] >= 0}
    ended = _having(rundir.parts(rundir.history), written, "type").to_pylist()
    acknowledged = {each["value"] for each in ended if each["type"] == "ok"}
    found = {*_having(rundir.parts(rundir.reads), written)["value"].to_pylist()}
    gone = written.intersection(lost) | acknowledged.intersection(delivered) - found
    behind = _behind_the_end(rundir, acknowledged - gone - found)
    left = sorted(acknowledged - gone - found - behind)
    return DoubleEntry(
        records=len(records),
        foreign=sum(each[-1] < 0 for each in records),
        writes=len(written),
        lost=len(gone),
        found=len(found - gone),
        unacknowledged=len(written - gone - found - acknowledged),
        not_visible=len(behind),
        left_over=len(left),
        left=tuple(left[:_LISTED_AT_MOST]),
        lost_unseen=len({*lost} - gone),
        not_copied=removed.why_not,
    )


def _behind_the_end(rundir: RunDir, values: set[int]) -> set[int]:
    """Those of these writes that were acknowledged at an offset that no reader has reached."""
    if not values or not rundir.ends.is_file():
        return set()
    ends = pq.ParquetFile(rundir.ends).read(columns=["partition", "position"]).to_pylist()
    reached = Counter[int]()
    for each in ends:
        reached[each["partition"]] = max(reached[each["partition"]], each["position"] or 0)
    rows = _having(rundir.parts(rundir.history), values, "type", "partition", "offset")
    return {
        row["value"]
        for row in rows.to_pylist()
        if row["type"] == "ok" and (row["offset"] or 0) >= reached[row["partition"]]
    }


# What is not loss.


def not_lost(rundir: RunDir, results: Collection[CheckResult]) -> list[NotLost]:
    """The writes of a run's log that were found without an acknowledgement, and those that were
    found more than once, if each is listed: how many ended alike, while the same faults were in
    force. Nothing is read where the checkers count none."""
    duplicated, again = lost_rows(results, {"duplicate"}), np.empty(0, np.int64)
    copies_counted = max((int(each.counts.get("duplicates") or 0) for each in results), default=0)
    if duplicated is not None and len(duplicated) == copies_counted:
        again = integers(one_batch(duplicated), "value")
    parts, reads = rundir.parts(rundir.history), rundir.parts(rundir.reads)
    any_found = any(each.counts.get("unacknowledged_found") for each in results)
    if not reads or not (len(again) or any_found):
        return []
    faults, copied = windows(rundir.faults), sieve(again)

    def ends(rows: pa.RecordBatch) -> Ints:
        kinds = texts(rows, "type")
        chosen = kinds.isin(("info", "fail"))
        chosen[copied(integers(rows, "value"))] = True
        return np.flatnonzero(chosen & ~kinds.isin(("invoke",)))

    ended = _rows(parts, ("value", "type", "error", "time_ns"), ends)
    copies = _having(reads, np.append(integers(ended, "value"), again), "leader_epoch")
    found = integers(copies, "value")
    ended = ended.take(values(sieve(found)(integers(ended, "value"))))
    # Without a fault none was met, whenever a write began.
    every = _having(parts if faults else (), found, "type", "time_ns")
    began = {e["value"]: e["time_ns"] for e in every.to_pylist() if e["type"] == "invoke"}
    epochs: dict[int, set[int | None]] = {}
    for copy in copies.take(values(copied(found))).to_pylist():
        epochs.setdefault(copy["value"], set()).add(copy["leader_epoch"])
    unsure = np.flatnonzero(texts(ended, "type").isin(("info", "fail")))
    twice = copied(integers(ended, "value"))
    return [
        *_alike(faults, "unacknowledged", ended.take(values(unsure)), began, {}),
        *_alike(faults, "duplicate", ended.take(values(twice)), began, epochs),
    ]


def outcome_of(rundir: RunDir, value: int) -> str | None:
    """How a write ended that was not lost, and where the final read of a log found it: a sentence;
    `None` for a value that no write of the run had."""
    history = rundir.parts(rundir.history)
    writes = _having(history, [value], "type", "error", "time_ns").to_pylist()
    if not writes:
        return None
    ended = [each for each in writes if each["type"] != "invoke"]
    how = ", ".join(
        f"{each['type']} at {each['time_ns'] / 1e9:.3f} s"
        + (f" ({each['error']})" if each["error"] else "")
        for each in ended
    )
    said = f"the write {value} is not among the lost ones: {how or 'never ended'}"
    if not (reads := rundir.parts(rundir.reads)):
        return said
    where = ("partition", "offset", "leader_epoch")
    copies = _having(reads, [value], *where).to_pylist()
    found = ", ".join(
        f"partition {partition}, offset {offset:,}" + ("" if epoch is None else f", epoch {epoch}")
        for partition, offset, epoch in dict.fromkeys(tuple(c[n] for n in where) for c in copies)
    )
    return f"{said}; found at {found}" if found else f"{said}; not found"


def _rows(
    parts: Sequence[Path], columns: Sequence[str], chosen: Callable[[pa.RecordBatch], Ints]
) -> pa.RecordBatch:
    """The rows that have a value, at chosen places, of files that are read one after the other."""
    found = []
    for part in parts:
        table = pq.ParquetFile(part).read(columns=[*columns], use_threads=False)
        if table["value"].null_count:
            table = table.filter(pc.is_valid(table["value"]))
        found += [rows.take(values(chosen(rows))) for rows in table.to_batches()]
    nothing = pa.table({name: numbers(np.empty(0, np.int64)) for name in columns})
    return one_batch(pa.Table.from_batches(found) if found else nothing)


def _having(parts: Sequence[Path], wanted: Iterable[int], *columns: str) -> pa.RecordBatch:
    """The rows with any of these values."""
    near = sieve(np.fromiter(wanted, np.int64))
    return _rows(parts, ("value", *columns), lambda rows: near(integers(rows, "value")))


def _alike(
    faults: Sequence[FaultWindow],
    kind: str,
    ended: pa.RecordBatch,
    began: Mapping[int, int],
    epochs: Mapping[int, Collection[int | None]],
) -> Iterator[NotLost]:
    """Of writes that `ended` and `began` so, how many did alike; `epochs` of the leaders that wrote
    their copies."""
    first_ns, last_ns = bounds_ns(faults)
    firsts, lasts = np.sort(first_ns), np.sort(last_ns)
    types, errors = texts(ended, "type"), texts(ended, "error")
    written, time_ns = integers(ended, "value").tolist(), integers(ended, "time_ns")
    begun_ns = [*map(began.get, written, time_ns.tolist())] if began else time_ns
    across = np.zeros(len(written), np.int64)
    for place, of in enumerate(epochs.get(value, {None}) for value in written if epochs):
        across[place] = 0 if None in of else 1 + (len(of) > 1)
    # How many had begun when it ended, and had ended when it began, is which ones it met.
    begun, over = np.searchsorted(firsts, time_ns, "right"), np.searchsorted(lasts, begun_ns)
    kinds = (len(types.names), len(errors.names) + 1, len(faults) + 1, len(faults) + 1, 3)
    each = np.ravel_multi_index((types.codes, errors.codes + 1, begun, over, across), kinds)
    _, places, counts = np.unique(each, return_index=True, return_counts=True)
    alike = Counter[tuple[str, str | None, tuple[str, ...], bool | None]]()
    for group in np.argsort(places):
        place = int(places[group])
        met = np.searchsorted(firsts, first_ns) < begun[place]
        met &= np.searchsorted(lasts, last_ns) >= over[place]
        named = tuple(faults[fault].id for fault in np.flatnonzero(met).tolist())
        error = (*errors.names, None)[errors.codes[place]]
        elsewhere = (None, False, True)[across[place]]
        alike[types.names[types.codes[place]], error, named, elsewhere] += int(counts[group])
    for (type_, error, named, elsewhere), count in alike.most_common():
        yield NotLost(
            kind=kind, writes=count, type=type_, error=error, faults=named, across_epochs=elsewhere
        )
