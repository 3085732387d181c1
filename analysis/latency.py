"""Every write with its latency and what became of it, and the same thinned for a picture.

Latency is counted from the instant at which a write was *due* to its answer, so a stall of the
cluster cannot hide behind clients that wait for it (coordinated omission). A write stands at the
time at which it was due.

Thinning keeps, for each outcome by itself, one write of every cell of a grid as fine as the
picture's pixels, and how many stand behind it. So a crowd of survivors never hides a lost write,
and however many writes a run holds, each lost one lies within a cell of a mark that is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from analysis.columns import MISSING, codes, equals, integers, tables
from harness.history.run_folder import RunDir
from harness.models import APPEND
from harness.protocols import FAIL, INFO, OK

OPEN: Final = "open"
ABSENT: Final = "absent"
LOST: Final = "lost"

OUTCOMES: Final = (OK, FAIL, INFO, OPEN, ABSENT, LOST)
"""What became of a write: ok (acknowledged, and not known to be missing), fail, info, open (never
completed), absent (acknowledged and not yet visible, which is not judged), lost (with those that
were deleted from the log's head: the verdict says what to make of them). Later ones are drawn above
earlier ones."""

MARKS_AT_MOST: Final = 16_000
"""How many marks a picture shows at most."""

GRID: Final = (1024, 256)
"""The finest grid in which marks are thinned: cells along time, cells along the log of latency."""

LATENCY_MS: Final = (0.01, 1_000_000.0)
"""Latencies are thinned on a log scale between these."""

_COLUMNS = ("process", "type", "f", "value", "partition", "offset", "intended_ns", "time_ns")
LOST_KINDS: Final = ("lost", "deleted")
"""The kinds of findings that result.json counts as lost."""

_ABSENT_KINDS = ("not_yet_visible",)


def writes(run: RunDir) -> pd.DataFrame:
    """One row a write, in the order of completion, those that never completed last.

    Columns: `value`, `process`, `partition`, `offset` (MISSING when unknown), `begin_s` (when it
    was due), `latency_ms` (NaN when open), `outcome` (its place in OUTCOMES).
    """
    pieces: list[pd.DataFrame] = []
    unanswered = _open(pa.table({}))
    for table in tables(run.parts(run.history), _COLUMNS):
        table = table.filter(pa.array(equals(table, "f", APPEND)))
        begins = equals(table, "type", "invoke")
        completed = _completed(table.filter(pa.array(~begins)))
        begun = pd.concat([unanswered, _open(table.filter(pa.array(begins)))], ignore_index=True)
        unanswered = begun[~np.isin(begun["value"].to_numpy(), completed["value"].to_numpy())]
        pieces.append(completed)
    return _with_findings(pd.concat([*pieces, unanswered], ignore_index=True), run)


def _completed(table: pa.Table) -> pd.DataFrame:
    kinds, names = codes(table, "type")
    # A word that is none of ours says nothing for sure, and neither does no word: info.
    known = [OUTCOMES.index(name if name in (OK, FAIL, INFO) else INFO) for name in [*names, INFO]]
    place = np.array(known, dtype=np.int8)
    begin_ns, end_ns = integers(table, "intended_ns"), integers(table, "time_ns")
    latency_ms = ((end_ns - begin_ns) / 1e6).astype(np.float32)
    return _frame(table, begin_ns, latency_ms, place[kinds])


def _open(table: pa.Table) -> pd.DataFrame:
    latency_ms = np.full(table.num_rows, np.nan, dtype=np.float32)
    place = np.full(table.num_rows, OUTCOMES.index(OPEN), dtype=np.int8)
    return _frame(table, integers(table, "intended_ns"), latency_ms, place)


def _frame(
    table: pa.Table,
    begin_ns: npt.NDArray[np.int64],
    latency_ms: npt.NDArray[np.float32],
    place: npt.NDArray[np.int8],
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "value": integers(table, "value"),
            "process": integers(table, "process").astype(np.int32),
            "partition": integers(table, "partition").astype(np.int32),
            "offset": integers(table, "offset"),
            "begin_s": begin_ns / 1e9,
            "latency_ms": latency_ms,
            "outcome": place,
        }
    )


def _with_findings(frame: pd.DataFrame, run: RunDir) -> pd.DataFrame:
    """The frame with the acknowledged writes that the checkers missed marked lost or absent."""
    place = frame["outcome"].to_numpy().copy()
    values = frame["value"].to_numpy()
    acknowledged = place == OUTCOMES.index(OK)
    for outcome, kinds in ((ABSENT, _ABSENT_KINDS), (LOST, LOST_KINDS)):
        missing = _values(run, kinds)
        if len(missing):
            place[acknowledged & np.isin(values, missing)] = OUTCOMES.index(outcome)
    frame["outcome"] = place
    return frame


def _values(run: RunDir, kinds: tuple[str, ...]) -> npt.NDArray[np.int64]:
    found = [np.empty(0, dtype=np.int64)]
    for table in tables(sorted(run.findings.glob("*.parquet")), ("kind", "value")):
        for kind in kinds:
            found.append(integers(table, "value")[equals(table, "kind", kind)])
    return np.concatenate(found)


def outcome_is(frame: pd.DataFrame, outcome: str) -> npt.NDArray[np.bool_]:
    """Which writes had this outcome."""
    is_it: npt.NDArray[np.bool_] = frame["outcome"].to_numpy() == OUTCOMES.index(outcome)
    return is_it


def counts(frame: pd.DataFrame) -> dict[str, int]:
    """How many writes of each outcome."""
    tally = np.bincount(frame["outcome"].to_numpy(), minlength=len(OUTCOMES))
    return dict(zip(OUTCOMES, tally.tolist(), strict=True))


def thin(frame: pd.DataFrame, *, at_most: int = MARKS_AT_MOST) -> pd.DataFrame:
    """One write for each occupied cell and outcome, with `count`, the writes that it stands for.

    The grid is made coarser by halves until `at_most` marks are left, or one cell an outcome; a
    frame that is small enough is kept whole. Rows come in the order of drawing: by outcome, then by
    time.
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
    """Cells of GRID in a grid that is halved so many times along time and up latency."""
    rest, row = np.divmod(cell, GRID[1])
    outcome, column = np.divmod(rest, GRID[0])
    coarse: npt.NDArray[np.int64] = (outcome * GRID[0] + (column >> along)) * GRID[1] + (row >> up)
    return coarse


def _place(share: npt.NDArray[np.floating], size: int) -> npt.NDArray[np.int64]:
    place: npt.NDArray[np.int64] = np.minimum((share * size).astype(np.int64), size - 1)
    return place


def _halvings() -> Iterator[tuple[int, int]]:
    """How often to halve along time and up latency: rows first, then in turn."""
    last_along, last_up = (int(size).bit_length() - 1 for size in GRID)
    for step in range(2 * last_along + 1):
        yield step // 2, min((step + 1) // 2, last_up)


def _one_per_cell(
    cell: npt.NDArray[np.int64], kept: npt.NDArray[np.int64], behind: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """One of the `kept` writes of each cell, and how many stand behind it."""
    size = len(OUTCOMES) * GRID[0] * GRID[1]
    # The last assignment to a place wins. In random order, as rows come in the order of answers:
    # the first of a cell would be its fastest, and marks would stand in lines along cells' edges.
    order = np.random.default_rng(0).permutation(len(cell))
    chosen = np.full(size, MISSING, dtype=np.int64)
    chosen[cell[order]] = kept[order]
    total = np.bincount(cell, weights=behind, minlength=size)
    taken = np.flatnonzero(chosen != MISSING)
    return chosen[taken], total[taken].astype(np.int64)
