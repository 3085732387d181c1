"""Why the lost writes of a run were lost, as its folder holds it: `explanations.parquet`, a row for
each write, and `explanations.json`, the chain of facts of each event that lost some.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from harness.errors import HistoryError
from harness.history.parquet_writer import numbers, strings, values
from harness.history.run_folder import SCHEMA_VERSION, RunDir
from harness.protocols import NULL, UNEXPLAINED, Explanation, Fact, Prevention
from harness.wrong_values import expected, first_of


@dataclass(frozen=True, kw_only=True)
class Chain:
    """An explanation as it is stored: `writes` is how many it explains, `sentence` its cause in
    words, `defect` whether the system promises that it cannot happen."""

    cause: str
    sentence: str
    writes: int
    defect: bool = False
    partition: int | None = None
    first: int | None = None
    last: int | None = None
    epoch: int | None = None
    dropped_by: int | None = None
    kept: int | None = None
    held_by: Mapping[str, int] = field(default_factory=dict)
    facts: tuple[Fact, ...] = ()
    preventions: tuple[Prevention, ...] = ()
    survivors: int | None = None

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
        document |= {"writes": len(each.values), "defect": each.cause in defects, **asdict(each)}
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
