"""Why the lost writes of a run were lost: the border to `Target.explain`, at which each lost write
gets exactly one cause.

A cause never changes a verdict, and a target that fails to explain leaves its run as it is: all of
its lost writes are unexplained then, and say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from checkers.judging.results import packed
from harness.history import parquet_writer
from harness.history.documents import LOST_KINDS
from harness.history.explanations import chains_document, rows_of
from harness.history.rows import stored_target
from harness.history.run_folder import RunDir
from harness.protocols import UNEXPLAINED, CheckResult, Explanation, Fact, Target

_NEEDS: Final = frozenset({"kind", "value", "partition", "offset", "invoke_ns", "complete_ns"})


@dataclass(frozen=True)
class Explained:
    """`causes`: how many lost writes have each, without the unexplained; `files`: what the run's
    folder holds of it, by name."""

    causes: Mapping[str, int] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


def explained(rundir: RunDir, results: Iterable[CheckResult]) -> Explained:
    """The causes of what the checkers of a run report as lost."""
    lost = _lost(results)
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
    return Explained(dict(causes.most_common()), files)


def _lost(results: Iterable[CheckResult]) -> pa.Table | None:
    """The rows of the first check that reports lost writes one by one."""
    for result in results:
        found = result.findings
        if found is not None and set(found.column_names) >= _NEEDS:
            kinds = found["kind"].to_pylist()
            lost = [row for row, kind in enumerate(kinds) if kind in LOST_KINDS]
            return found.take(parquet_writer.values(np.array(lost, np.int64)))
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


def _complete(found: Sequence[Explanation], values: Sequence[int]) -> list[Explanation]:
    """With every lost value in exactly one explanation: what is in none, or in several, is
    unexplained, and what was not lost is left out."""
    named = Counter(value for each in found for value in each.values)
    once = {value for value in values if named[value] == 1}
    kept = [
        replace(each, values=tuple(value for value in each.values if value in once))
        for each in found
    ]
    if left := tuple(value for value in values if value not in once):
        kept.append(Explanation(cause=UNEXPLAINED, values=left))
    return [each for each in kept if each.values]
