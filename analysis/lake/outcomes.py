"""The cells of a campaign in the lake as the outcomes that statistics are made of.

A row of `cells` holds everything that `analysis.statistics` reads of a result. So a campaign whose
folder is gone has the same shares, rates and intervals as on the day when it was added.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import pyarrow.compute as pc

from analysis.lake import schema
from analysis.lake.schema import CAMPAIGN, CELLS
from analysis.lake.stored import StoredLake
from analysis.statistics.eligibility import FailedRun, Outcome
from harness.history.documents import Availability, CheckRecord, Counts, Rates, RunResult

Row = Mapping[str, Any]
Key = frozenset[tuple[str, str]]
"""A cell's setting, whatever the order of its axes."""

_COLUMNS: Final = (
    *("run_id", "run_cell", "cell", "setting", "version", "shared", "verdict", "reason"),
    *("eligible", "complete", "doubts", "counter_examples", "model", "check", "seed", "simulated"),
    "counted",
    *(field.name for field in fields(Counts)),
    *(schema.rate(field.name) for field in fields(Rates)),
    *(schema.seen(field.name) for field in fields(Availability)),
)


@dataclass(frozen=True)
class StoredCell:
    """A cell of a campaign, its outcomes, and the shared run of each."""

    name: str
    key: Mapping[str, str]
    outcomes: tuple[Outcome, ...]
    shared: tuple[Hashable | None, ...]


def cells_of(lake: StoredLake, campaign: str) -> dict[Key, StoredCell]:
    """The cells of a campaign that has finished runs. Raises HistoryError."""
    chosen = lake.dataset(CELLS).to_table(
        columns=list(_COLUMNS), filter=pc.field(CAMPAIGN) == campaign
    )
    by_key: dict[Key, list[Row]] = {}
    for row in sorted(chosen.to_pylist(), key=lambda row: str(row["run_id"])):
        by_key.setdefault(frozenset(row["setting"]), []).append(row)
    return {
        key: StoredCell(
            name=rows[0]["cell"],
            key=dict(rows[0]["setting"]),
            outcomes=tuple(outcome_of(row) for row in rows),
            shared=tuple(row["shared"] for row in rows),
        )
        for key, rows in by_key.items()
    }


def outcome_of(row: Row) -> Outcome:
    """How a judged cell ended, from its row."""
    if row["verdict"] is None:
        return FailedRun(run_id=row["run_id"], error=row["reason"])
    return RunResult(
        verdict=row["verdict"],
        counts=Counts(**{field.name: row[field.name] or 0 for field in fields(Counts)}),
        run_id=row["run_id"],
        seed=row["seed"],
        model=row["model"],
        simulated=row["simulated"],
        reason=row["reason"],
        checks=(
            CheckRecord(
                name=row["check"], verdict=row["verdict"], counts=dict(row["counted"] or ())
            ),
        ),
        counter_examples=_tuple(row["counter_examples"]),
        doubts=_tuple(row["doubts"]),
        eligible=row["eligible"],
        complete=row["complete"],
        rates=Rates(**{f.name: row[schema.rate(f.name)] for f in fields(Rates)}),
        availability=Availability(
            **{f.name: row[schema.seen(f.name)] for f in fields(Availability)}
        ),
    )


def _tuple(texts: list[str] | None) -> tuple[str, ...] | None:
    return None if texts is None else tuple(texts)
