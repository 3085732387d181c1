"""Every write of a run with its latency and outcome, and a thinned selection of them for a picture.

Latency runs from the instant at which a write was *due* to its answer (`Writes.delay_ns`). A write
is drawn at its due time.

A picture has fewer pixels than a run has writes. Thinning therefore keeps, for each outcome, one
write of every occupied cell of a grid as fine as the pixels, and the number of writes behind it. A
crowd of surviving writes cannot hide a lost one: each lost write lies within a cell of a mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.findings import values_found
from harness.history import parquet_reader
from harness.history.documents import LOST_KINDS
from harness.history.run_folder import RunDir
from harness.models import LOG, Model
from harness.protocols import FAIL, INFO, OK, runs
from harness.protocols.runs import INVOKED, Writes

OPEN: Final = "open"
ABSENT: Final = "absent"
LOST: Final = "lost"

OUTCOMES: Final = (OK, FAIL, INFO, OPEN, ABSENT, LOST)
"""The outcomes of writes, drawn in this order: later ones lie above earlier ones.

ok: acknowledged, and not known to be missing. fail, info: as the client reported. open: never
completed. absent: acknowledged and not yet visible, which is not judged. lost: acknowledged and not
found, or deleted from the head of the log."""

MARKS_AT_MOST: Final = 16_000
"""The largest number of marks in one picture."""

GRID: Final = (1024, 256)
"""The finest grid for thinning: cells along time, cells along the logarithm of latency."""

LATENCY_MS: Final = (0.01, 1_000_000.0)
"""The range of latencies that the grid covers."""

_EMPTY: Final = -1
_ABSENT_KINDS: Final = ("not_yet_visible",)
_OF_MARK: Final = {INVOKED: OPEN, runs.OK: OK, runs.FAIL: FAIL}
_OUTCOME_OF_MARK: Final = np.array(
    [OUTCOMES.index(_OF_MARK.get(mark, INFO)) for mark in range(runs.INFO + 1)], dtype=np.int8
)


def writes(run: RunDir, model: Model = LOG) -> pd.DataFrame:
    """One row for each write of the model, in the order of completion; those that never completed
    come last.

    Columns: `value`, `process`, `partition`, `offset` (NULL where unknown), `begin_s` (when the
    write was due), `latency_ms` (NaN when open), `outcome` (a position in OUTCOMES).
    """
    completed: list[pd.DataFrame] = []
    unanswered: list[pd.DataFrame] = []
    for rows in parquet_reader.writes(run.parts(run.history), model.writes):
        begins, frame = rows.mark == INVOKED, _frame(rows)
        completed.append(frame[~begins])
        begun = pd.concat([*unanswered, frame[begins]], ignore_index=True)
        answered = np.isin(begun["value"].to_numpy(), completed[-1]["value"].to_numpy())
        unanswered = [begun[~answered]]
    if not completed:
        return _no_writes()
    return _with_findings(pd.concat([*completed, *unanswered], ignore_index=True), run)


def _frame(rows: Writes) -> pd.DataFrame:
    latency_ms = np.where(rows.mark == INVOKED, np.nan, rows.delay_ns / 1e6)
    return pd.DataFrame(
        {
            "value": rows.value,
            "process": rows.process.astype(np.int32),
            "partition": rows.partition,
            "offset": rows.offset,
            "begin_s": rows.intended_ns / 1e9,
            "latency_ms": latency_ms.astype(np.float32),
            "outcome": _OUTCOME_OF_MARK[rows.mark],
        }
    )


def _no_writes() -> pd.DataFrame:
    kinds = {"value": "i8", "process": "i4", "partition": "i8", "offset": "i8", "begin_s": "f8"}
    kinds |= {"latency_ms": "f4", "outcome": "i1"}
    return pd.DataFrame({name: np.empty(0, kind) for name, kind in kinds.items()})


def _with_findings(frame: pd.DataFrame, run: RunDir) -> pd.DataFrame:
    """The frame, with acknowledged writes that the checkers did not find marked absent or lost."""
    outcome = frame["outcome"].to_numpy().copy()
    values = frame["value"].to_numpy()
    acknowledged = outcome == OUTCOMES.index(OK)
    for name, kinds in ((ABSENT, _ABSENT_KINDS), (LOST, LOST_KINDS)):
        missing = values_found(run, kinds)
        if len(missing):
            outcome[acknowledged & np.isin(values, missing)] = OUTCOMES.index(name)
    frame["outcome"] = outcome
    return frame


def outcome_is(frame: pd.DataFrame, outcome: str) -> npt.NDArray[np.bool_]:
    """The writes that had this outcome."""
    is_it: npt.NDArray[np.bool_] = frame["outcome"].to_numpy() == OUTCOMES.index(outcome)
    return is_it


def counts(frame: pd.DataFrame) -> dict[str, int]:
    """The number of writes of each outcome."""
    tally = np.bincount(frame["outcome"].to_numpy(), minlength=len(OUTCOMES))
    return dict(zip(OUTCOMES, tally.tolist(), strict=True))


def thin(frame: pd.DataFrame, *, at_most: int = MARKS_AT_MOST) -> pd.DataFrame:
    """One write for each occupied cell and outcome; `count` is the number of writes behind it.

    The grid is halved until at most `at_most` marks are left, or one cell per outcome. A small
    frame is kept unchanged. Rows are in drawing order: by outcome, then by time.
    """
    kept = np.arange(len(frame), dtype=np.int64)
    behind = np.ones(len(frame), dtype=np.int64)
    spots = cells(frame, GRID) if len(frame) > at_most else kept
    for along, up in _halvings():
        if len(kept) <= at_most:
            break
        kept, behind = _one_per_cell(coarser(spots[kept], along, up), kept, behind)
    marks = frame.iloc[kept].assign(count=behind)
    return marks.sort_values(["outcome", "begin_s"], kind="stable", ignore_index=True)


def cells(frame: pd.DataFrame, grid: tuple[int, int]) -> npt.NDArray[np.int64]:
    """The cell of each write: its outcome, its column along time, its row along log latency."""
    begin_s, latency_ms = frame["begin_s"].to_numpy(), frame["latency_ms"].to_numpy()
    low, high = begin_s.min(), begin_s.max()
    column = _place((begin_s - low) / ((high - low) or 1.0), grid[0])
    floor, ceiling = np.log10(LATENCY_MS)
    share = (np.log10(np.clip(latency_ms, *LATENCY_MS)) - floor) / (ceiling - floor)
    row = _place(np.nan_to_num(share), grid[1])
    outcome = frame["outcome"].to_numpy().astype(np.int64)
    cell: npt.NDArray[np.int64] = (outcome * grid[0] + column) * grid[1] + row
    return cell


def coarser(cell: npt.NDArray[np.int64], along: int, up: int) -> npt.NDArray[np.int64]:
    """Cells of GRID in a grid that is halved `along` times in time and `up` times in latency."""
    rest, row = np.divmod(cell, GRID[1])
    outcome, column = np.divmod(rest, GRID[0])
    coarse: npt.NDArray[np.int64] = (outcome * GRID[0] + (column >> along)) * GRID[1] + (row >> up)
    return coarse


def _place(share: npt.NDArray[np.floating], size: int) -> npt.NDArray[np.int64]:
    place: npt.NDArray[np.int64] = np.minimum((share * size).astype(np.int64), size - 1)
    return place


def _halvings() -> Iterator[tuple[int, int]]:
    """How often to halve time and latency: latency first, then in turn."""
    last_along, last_up = (int(size).bit_length() - 1 for size in GRID)
    for step in range(2 * last_along + 1):
        yield step // 2, min((step + 1) // 2, last_up)


def _one_per_cell(
    cell: npt.NDArray[np.int64], kept: npt.NDArray[np.int64], behind: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """One of the `kept` writes of each cell, and the number of writes behind it."""
    size = len(OUTCOMES) * GRID[0] * GRID[1]
    # The last assignment to a place wins. The order is random because rows come in the order of
    # answers: the first write of a cell would be its fastest, and marks would line up along edges.
    order = np.random.default_rng(0).permutation(len(cell))
    chosen = np.full(size, _EMPTY, dtype=np.int64)
    chosen[cell[order]] = kept[order]
    total = np.bincount(cell, weights=behind, minlength=size)
    taken = np.flatnonzero(chosen != _EMPTY)
    return chosen[taken], total[taken].astype(np.int64)
