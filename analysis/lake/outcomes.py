"""The cells of a campaign in the lake as the outcomes that statistics are made of.

A row of `cells` holds everything that `analysis.statistics` reads of a result. So a campaign whose
folder is gone has the same shares, rates and intervals as on the day when it was added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from analysis.lake import schema
from analysis.lake.conditions import Conditions
from analysis.lake.parts import AGAIN
from analysis.lake.schema import CELLS
from analysis.lake.stored import StoredLake
from analysis.statistics.eligibility import FailedRun, Outcome
from analysis.statistics.samples import UNKNOWN
from harness.errors import HistoryError
from harness.history.documents import Availability, CheckRecord, Counts, Rates, RunResult

Row = Mapping[str, Any]
Key = frozenset[tuple[str, str]]
"""A cell's setting, whatever the order of its axes."""

_COLUMNS: Final = (
    *("run_id", "run_cell", "cell", "setting", "version", "shared", "verdict", "class"),
    *("reason", "eligible", "complete", "doubts", "counter_examples"),
    *("model", "check", "seed", "simulated"),
    *("counted", "plan_digest", *(field.name for field in fields(Conditions))),
    *(field.name for field in fields(Counts)),
    *(schema.rate(field.name) for field in fields(Rates)),
    *(schema.seen(field.name) for field in fields(Availability)),
)


@dataclass(frozen=True)
class StoredCell:
    """A cell of a campaign, and of each of its runs: the outcome, the run id, the version of the
    system (`None`: the run failed before it was known), the shared run, and how many cells the run
    held (`in_run`; 1: it ran alone).

    `conditions` is `None` where an earlier ackloss added the campaign.
    """

    name: str
    key: Mapping[str, str]
    outcomes: tuple[Outcome, ...]
    shared: tuple[Hashable | None, ...]
    run_ids: tuple[str, ...]
    versions: tuple[str | None, ...]
    plan_digest: str
    conditions: Conditions | None
    in_run: tuple[int, ...]


def cells_of(lake: StoredLake, campaign: str) -> dict[Key, StoredCell]:
    """The cells of a campaign that has finished runs. Raises HistoryError."""
    chosen = lake.rows(CELLS, _COLUMNS, campaign=campaign)
    rows = sorted(chosen.to_pylist(), key=lambda row: str(row["run_id"]))
    _refuse_twice(lake, rows)
    in_run = Counter(_run_of(row) for row in rows)
    by_key: dict[Key, list[Row]] = {}
    for row in rows:
        by_key.setdefault(frozenset(row["setting"]), []).append(row)
    return {key: _cell(rows, in_run) for key, rows in by_key.items()}


def _cell(rows: Sequence[Row], in_run: Mapping[str, int]) -> StoredCell:
    # An earlier ackloss may have added the first runs, and a newer one the others.
    known = next((row for row in rows if row["conditions_but_version"] is not None), None)
    # A cell that broke off has no row, and yet it was in the run.
    most = max(in_run[_run_of(row)] for row in rows)
    return StoredCell(
        name=rows[0]["cell"],
        key=dict(rows[0]["setting"]),
        outcomes=tuple(outcome_of(row) for row in rows),
        shared=tuple(row["shared"] for row in rows),
        run_ids=tuple(row["run_id"] for row in rows),
        versions=tuple(row["version"] for row in rows),
        plan_digest=rows[0]["plan_digest"],
        conditions=None
        if known is None
        else Conditions(**{field.name: known[field.name] for field in fields(Conditions)}),
        in_run=tuple(1 if _is_alone(row) else most for row in rows),
    )


def _run_of(row: Row) -> str:
    """Equal for the cells of one run."""
    return str(row["shared"] or row["run_id"])


def _is_alone(row: Row) -> bool:
    """Whether a run held no other cell: one of the campaign, or one of its plan."""
    return row["shared"] is None and row["run_cell"] is None


def _refuse_twice(lake: StoredLake, rows: Iterable[Row]) -> None:
    """A run counts once: `build` writes none twice, but a lake may come from a stranger."""
    seen = Counter((row["run_id"], row["run_cell"]) for row in rows)
    if twice := next((run_id for (run_id, _), times in seen.items() if times > 1), None):
        raise HistoryError(f"has the run {twice} twice", file=lake.place.shown, hint=AGAIN)


def outcome_of(row: Row) -> Outcome:
    """How a judged cell ended, from its row."""
    if row["verdict"] is None:
        return FailedRun(run_id=row["run_id"], error=row["reason"], unread=row["class"] == UNKNOWN)
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
