"""Why the lost writes of a run were lost: the border to `Target.explain`, at which each lost write
gets exactly one cause.

A cause never changes a verdict, and a target that fails to explain leaves its run as it is: all of
its lost writes are unexplained then, and say so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from checkers.judging.results import packed
from harness.history.documents import LOST_KINDS
from harness.history.facts import stored_target
from harness.history.run_folder import RunDir
from harness.protocols import UNEXPLAINED, CheckResult, Explanation, Fact

_NEEDS: Final = frozenset({"kind", "value", "partition", "offset", "invoke_ns", "complete_ns"})
_SCHEMA: Final = pa.schema(
    [
        pa.field("value", pa.int64()),
        pa.field("cause", pa.string()),
        pa.field("explanation", pa.int32()),
        pa.field("partition", pa.int32()),
        pa.field("epoch", pa.int64()),
        pa.field("dropped_by", pa.int64()),
    ]
)


@dataclass(frozen=True)
class Explained:
    """`causes`: how many lost writes have each, without the unexplained; `files`: the contents of
    explanations.parquet (a row a write) and explanations.json (the chains), by name."""

    causes: Mapping[str, int] = field(default_factory=dict)
    unexplained: int = 0
    files: Mapping[str, bytes] = field(default_factory=dict)


def explained(rundir: RunDir, results: Iterable[CheckResult]) -> Explained:
    """The causes of what the checkers of a run report as lost."""
    lost = _lost(results)
    if lost is None or not lost.num_rows:
        return Explained()
    values = lost["value"].to_pylist()
    explanations = _complete(_asked(rundir, lost), values)
    causes: Counter[str] = Counter()
    for each in explanations:
        causes[each.cause] += len(each.values)
    unexplained = causes.pop(UNEXPLAINED, 0)
    target = stored_target(rundir)
    sentences = {} if target is None else target.causes
    documents = [_document(each, sentences) for each in explanations]
    body = json.dumps({"schema": 1, "explanations": documents}, indent=1)
    files = {
        rundir.explanations.name: packed(_table(explanations)),
        rundir.chains.name: body.encode() + b"\n",
    }
    return Explained(dict(causes.most_common()), unexplained, files)


def _lost(results: Iterable[CheckResult]) -> pa.Table | None:
    """The rows of the first check that reports lost writes one by one."""
    for result in results:
        found = result.findings
        if found is not None and set(found.column_names) >= _NEEDS:
            return found.filter(pc.is_in(found["kind"], pa.array(LOST_KINDS)))
    return None


def _asked(rundir: RunDir, lost: pa.Table) -> Sequence[Explanation]:
    target = stored_target(rundir)
    if target is None:
        return ()
    try:
        return list(target.explain(rundir.path, lost))
    except Exception as error:  # whatever a plug-in raises, the verdict stands
        why = f"explaining them failed: {type(error).__name__}: {error}"
        fact = Fact(kind="acknowledged", text=why, source="ackloss")
        values = tuple(lost["value"].to_pylist())
        return [Explanation(cause=UNEXPLAINED, values=values, facts=(fact,))]


def _complete(found: Sequence[Explanation], values: Sequence[int]) -> list[Explanation]:
    """With every lost value in exactly one explanation: what is in none, or in several, is
    unexplained, and what was not lost is left out."""
    named = Counter(value for each in found for value in each.values)
    once = {value for value in values if named[value] == 1}
    kept = [
        replace(each, values=tuple(value for value in each.values if value in once))
        for each in found
    ]
    left = tuple(value for value in values if value not in once)
    if left:
        kept.append(Explanation(cause=UNEXPLAINED, values=left))
    return [each for each in kept if each.values]


def _table(explanations: Sequence[Explanation]) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [] for name in _SCHEMA.names}
    for number, each in enumerate(explanations):
        size = len(each.values)
        columns["value"] += each.values
        columns["cause"] += [each.cause] * size
        columns["explanation"] += [number] * size
        columns["partition"] += [each.partition] * size
        columns["epoch"] += [each.epoch] * size
        columns["dropped_by"] += [each.dropped_by] * size
    return pa.table(columns, schema=_SCHEMA)


def _document(explanation: Explanation, sentences: Mapping[str, str]) -> dict[str, Any]:
    document = asdict(explanation)
    values = document.pop("values")
    sentence = sentences.get(explanation.cause, "Nothing in the run's folder says why")
    return {"cause": document.pop("cause"), "sentence": sentence, "writes": len(values), **document}
