"""Why the lost writes of a run were lost: asked of its target, and as its folder holds it,
`explanations.parquet`, a row for each write, and `explanations.json`, the chain of facts of each
event that lost some.

At this border to `Target.explain` each lost write gets exactly one cause. A cause never changes a
verdict, and a target that fails to explain leaves its run as it is: all of its lost writes are
unexplained then, and say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
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
from harness.history.documents import LOST_KINDS, DoubleEntry
from harness.history.parquet_writer import numbers, packed, strings, values
from harness.history.rows import stored_target
from harness.history.run_folder import SCHEMA_VERSION, RunDir
from harness.protocols import NULL, UNEXPLAINED, CheckResult, Explanation, Fact, Removed, Target
from harness.protocols.explanations import LossEvent
from harness.wrong_values import expected, first_of

_NEEDS: Final = frozenset({"kind", "value", "invoke_ns", "complete_ns"})
"""What findings that list the lost writes one by one hold of each."""


@dataclass(frozen=True)
class Explained:
    """`causes`: how many lost writes have each, without the unexplained; `survivable`: how many a
    node still had that was up and was not elected; `files`: what the run's folder holds of it, by
    name."""

    causes: Mapping[str, int] = field(default_factory=dict)
    survivable: int = 0
    files: Mapping[str, bytes] = field(default_factory=dict)


def explained(rundir: RunDir, results: Iterable[CheckResult]) -> Explained:
    """The causes of what the checkers of a run report as lost."""
    lost = lost_rows(results)
    if lost is None or not lost.num_rows:
        return Explained()
    if (target := stored_target(rundir)) is None:
        return Explained()
    explanations = _complete(_asked(target, rundir, lost), lost["value"].to_pylist())
    causes: Counter[str] = Counter()
    for each in explanations:
        causes[each.cause] += len(each.values)
    del causes[UNEXPLAINED]
    files = {
        rundir.explanations.name: packed(rows_of(explanations)),
        rundir.chains.name: chains_document(explanations, target.causes, target.defects),
    }
    survivable = sum(min(each.survivors or 0, len(each.values)) for each in explanations)
    return Explained(dict(causes.most_common()), survivable, files)


def lost_rows(results: Iterable[CheckResult]) -> pa.Table | None:
    """The rows of the first check that reports lost writes one by one."""
    for result in results:
        found = result.findings
        if found is not None and set(found.column_names) >= _NEEDS:
            kinds = found["kind"].to_pylist()
            lost = [row for row, kind in enumerate(kinds) if kind in LOST_KINDS]
            return found.take(values(np.array(lost, np.int64)))
    return None


def _asked(target: Target[Any], rundir: RunDir, lost: pa.Table) -> Sequence[Explanation]:
    try:
        return list(target.explain(rundir.path, lost))
    except Exception as error:  # whatever a plug-in raises, the verdict stands
        why = f"explaining them failed: {type(error).__name__}: {error}"
        fact = Fact(kind="acknowledged", text=why, source="ackloss")
        return [
            Explanation(cause=UNEXPLAINED, values=tuple(lost["value"].to_pylist()), facts=(fact,))
        ]


def _complete(found: Sequence[Explanation], lost: Sequence[int]) -> list[Explanation]:
    """With every lost value in exactly one explanation: what is in none, or in several, is
    unexplained, and what was not lost is left out."""
    named = Counter(value for each in found for value in each.values)
    once = {value for value in lost if named[value] == 1}
    kept = [
        replace(each, values=tuple(value for value in each.values if value in once))
        for each in found
    ]
    if left := tuple(value for value in lost if value not in once):
        kept.append(Explanation(cause=UNEXPLAINED, values=left))
    return [each for each in kept if each.values]


@dataclass(frozen=True, kw_only=True)
class Chain(LossEvent):
    """A loss as it is stored: `writes` is how many it cost, `sentence` its cause in words, `defect`
    whether the system promises that it cannot happen."""

    sentence: str
    writes: int
    defect: bool = False

    @property
    def explained(self) -> bool:
        return self.cause != UNEXPLAINED


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
        document["sentence"] = sentences.get(each.cause, _NOTHING)
        document |= {"writes": len(each.values), "defect": each.cause in defects}
        document |= asdict(replace(each, values=()))
        del document["values"]
        chains.append(document)
    body = {"schema": SCHEMA_VERSION, "chains": chains}
    return orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n"


_NOTHING: Final = "Nothing in the run's folder says why"


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


def chain_of(rundir: RunDir, value: int) -> int | None:
    """The number of the chain that explains a lost value; `None` if it is not among the lost.
    Raises HistoryError."""
    if not rundir.explanations.exists():
        return None
    try:
        table = pq.read_table(rundir.explanations, columns=["value", "chain"])
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"cannot be read: {error}", file=str(rundir.explanations)) from error
    found = table.filter(pc.equal(table["value"], value))["chain"].to_pylist()
    return found[0] if found else None


# Double entry for what nodes' logs lost.

_LISTED_AT_MOST: Final = 100


def double_entry(rundir: RunDir, removed: Removed, lost: Sequence[int]) -> DoubleEntry:
    """Of the records that were `removed` from nodes' logs during a run, of whose writes these are
    `lost`: each acknowledged one is lost, or stands elsewhere in the final log. What is neither is
    left over: the checker, the final read or the copies are wrong then. No verdict rests on it."""
    records = {record[2:] for record in removed.records}
    written = {each[-1] for each in records if each[-1] >= 0}
    acknowledged = _having(rundir.parts(rundir.history), written, ("type", "ok"))
    found = _having(rundir.parts(rundir.reads), written)
    gone = written.intersection(lost)
    left = sorted(acknowledged - gone - found)
    return DoubleEntry(
        records=len(records),
        foreign=sum(each[-1] < 0 for each in records),
        writes=len(written),
        lost=len(gone),
        found=len(found - gone),
        unacknowledged=len(written - gone - found - acknowledged),
        left_over=len(left),
        left=tuple(left[:_LISTED_AT_MOST]),
        lost_unseen=len({*lost} - gone),
        not_copied=removed.why_not,
    )


def _having(parts: Sequence[Path], values: set[int], *which: tuple[str, str]) -> set[int]:
    """Those of these values that rows have, in which these columns have these texts."""
    found, wanted = set[int](), pa.array(sorted(values), pa.int64())
    for part in parts if values else ():
        table = pq.ParquetFile(part).read(columns=["value", *(name for name, _ in which)])
        table = table.filter(pc.is_in(table["value"], wanted))
        for name, text in which:
            table = table.filter(pc.equal(table[name].cast(pa.string()), text))
        found.update(table["value"].to_pylist())
    return found
