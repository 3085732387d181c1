"""What a run is about beside its writes, over time: of each partition of a group how far its log,
its commits and its members were; how old the stale reads of registers were.

A large run has more rows than a picture has pixels: a line keeps the first and the last point of
each of some columns along time, and neighbouring records are one area, or one mark, with a count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from analysis.latency import OUTCOMES
from harness.history import parquet_reader
from harness.history.parquet_reader import decoded, integers, texts
from harness.history.run_folder import RunDir
from harness.models import GROUP, REGISTER
from harness.protocols import Deliveries, runs
from harness.protocols.groups import KINDS
from harness.protocols.runs import NULL

PARTITIONS_AT_MOST: Final = 48
_POINTS_AT_MOST: Final = 6_000
"""Of all lines of a run, about."""
_COLUMNS: Final = (4, 300)
_AREAS_AT_MOST: Final = 60
_MARKS_AT_MOST: Final = 500
"""Of a kind, in one chart."""

SKIPPED, AGAIN, STALE = "skipped", "reprocessed", "stale_reads"
END, COMMITTED = "end of the log", "committed"
TONES: Final = ("survived", "leads", "info", "fault-2")
"""The colours of consumers; further ones repeat them."""
TONE_OF: Final = {END: "ink", COMMITTED: "muted", SKIPPED: "lost", AGAIN: "absent"}
"""Of the others; all else that was found is marked as lost."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Track:
    """A line, of the consumer of this name if it is neither END nor COMMITTED; NaN breaks it."""

    name: str
    tone: str
    time_s: Floats
    height: Floats


@dataclass(frozen=True)
class Area:
    """Records from the offset `low` to before `high`: skipped for good, or processed again."""

    kind: str
    from_s: float
    to_s: float
    low: int
    high: int
    count: int


@dataclass(frozen=True)
class Panel:
    """One chart, of offsets of a `partition`, or (None) of ages in seconds. `marks`: `kind`,
    `time_s`, `height`, and for how many a mark stands, `count`."""

    partition: int | None
    tracks: list[Track]
    areas: list[Area]
    marks: pd.DataFrame

    @property
    def check(self) -> str:
        """The check whose findings it shows."""
        return REGISTER.check if self.partition is None else GROUP.check

    @property
    def title(self) -> str:
        ages = "age of stale reads, seconds"
        return ages if self.partition is None else f"partition {self.partition}: offsets"

    @property
    def top(self) -> float:
        """The highest that is drawn."""
        heights = [*(track.height for track in self.tracks), self.marks["height"].to_numpy()]
        return max([1e-3, *(float(np.nanmax(each)) for each in heights if len(each))])

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each kind of area and mark."""
        found = {} if self.partition is None else {SKIPPED: 0, AGAIN: 0}
        for area in self.areas:
            found[area.kind] += area.count
        marked = self.marks.groupby("kind", sort=False)["count"].sum()
        return {**found, **{str(kind): int(number) for kind, number in marked.items()}}


def panels(run: RunDir, written: pd.DataFrame, did: pd.DataFrame, *, end_s: float) -> list[Panel]:
    """The charts of a run, whose writes are `written` (`latency.writes`) and whose consumers `did`
    (`done_by_consumers`); partitions with most findings first. Raises HistoryError."""
    found = _found(run)
    if did.empty:
        stale = found[(found["kind"] == STALE) & found["time_s"].notna()]
        return [Panel(None, [], [], _fewer(stale, end_s))] if len(stale) else []
    done = did[did["f"] == KINDS.process]
    again = done[done.duplicated(["partition", "offset", "value"])]
    weight = pd.concat([found, again])["partition"].value_counts()
    known = sorted({*did["partition"]} - {NULL}, key=lambda p: (-weight.get(p, 0), p))
    known = known[:PARTITIONS_AT_MOST]
    names = sorted({*did["consumer"]} - {None}, key=lambda name: (len(name), name))
    tones = {name: TONES[place % len(TONES)] for place, name in enumerate(names)}
    lines = 2 * len(known) + did[did["partition"].isin(known)].groupby(_LINE).ngroups
    width_s = end_s / min(max(_POINTS_AT_MOST // (2 * lines), _COLUMNS[0]), _COLUMNS[1])
    made = []
    for p in known:
        parts = (each[each["partition"] == p] for each in (written, did, found, again))
        made.append(_of_partition(int(p), *parts, tones=tones, width_s=width_s, end_s=end_s))
    return made


_LINE: Final = ["partition", "consumer"]


def _of_partition(
    partition: int,
    written: pd.DataFrame,
    did: pd.DataFrame,
    found: pd.DataFrame,
    again: pd.DataFrame,
    *,
    tones: Mapping[str, str],
    width_s: float,
    end_s: float,
) -> Panel:
    stored = written[(written["outcome"] != OUTCOMES.index("open")) & (written["offset"] >= 0)]
    end = pd.DataFrame(
        {"time_s": stored["begin_s"] + stored["latency_ms"] / 1e3, "height": stored["offset"] + 1.0}
    ).sort_values("time_s")
    end["height"] = end["height"].cummax()
    commits = did[did["f"] == KINDS.commit].assign(height=lambda rows: rows["offset"])
    tracks = [_track(END, TONE_OF[END], end, width_s)]
    tracks.append(_track(COMMITTED, TONE_OF[COMMITTED], commits, width_s))
    for name, tone in tones.items():
        rows = did[did["consumer"] == name]
        sessions = (rows["f"] == KINDS.assign).cumsum()
        done = rows.assign(session=sessions, height=rows["offset"] + 1)
        tracks.append(_track(name, tone, done[done["f"] == KINDS.process], width_s))
    skipped = found[(found["kind"] == SKIPPED) & found["time_s"].isna()].sort_values("height")
    there_s = np.searchsorted(end["height"], skipped["height"], side="right")
    instants = np.append(end["time_s"], end_s)[np.minimum(there_s, len(end))]
    areas = [
        *_areas(SKIPPED, skipped.assign(time_s=instants), until_s=end_s),
        *_areas(AGAIN, again.assign(height=again["offset"])),
    ]
    marks = _fewer(found[found["time_s"].notna()], end_s)
    return Panel(partition, [each for each in tracks if len(each.time_s)], areas, marks)


def _track(name: str, tone: str, rows: pd.DataFrame, width_s: float) -> Track:
    """The first and the last point of each column and session; a break between sessions."""
    session = rows["session"] if "session" in rows else pd.Series(0, rows.index)
    groups = rows.groupby([session, (rows["time_s"] // width_s)], sort=False)
    ends = groups.head(1).index.union(groups.tail(1).index)
    kept = rows.loc[rows.index.isin(ends)]
    breaks = np.flatnonzero(np.diff(session.loc[kept.index])) + 1
    time_s, height = (kept[column].to_numpy(float) for column in ("time_s", "height"))
    return Track(name, tone, np.insert(time_s, breaks, np.nan), np.insert(height, breaks, np.nan))


def _areas(kind: str, rows: pd.DataFrame, until_s: float | None = None) -> Iterator[Area]:
    """Stretches of neighbouring offsets; of many stretches those that are nearest are joined."""
    heights = rows["height"].to_numpy()
    jumps = np.flatnonzero(np.diff(heights) != 1) + 1
    far = np.argsort(-np.abs(np.diff(heights))[jumps - 1], kind="stable")
    cuts = [0, *np.sort(jumps[far[: _AREAS_AT_MOST - 1]]).tolist(), len(rows)]
    for part in (rows.iloc[first:behind] for first, behind in pairwise(cuts)):
        if len(part):
            low, high = int(part["height"].min()), int(part["height"].max()) + 1
            from_s, to_s = float(part["time_s"].min()), until_s or float(part["time_s"].max())
            yield Area(kind, from_s, to_s, low, high, len(part))


def _fewer(marks: pd.DataFrame, end_s: float) -> pd.DataFrame:
    """One mark for each occupied cell of a grid, the highest, if there are many; of each kind."""
    columns, rows = _MARKS_AT_MOST // 10, 10
    kept = []
    for _, every in marks.groupby("kind", sort=False):
        cell = pd.Series(range(len(every)), every.index)
        if len(every) > _MARKS_AT_MOST:
            low, high = every["height"].min(), every["height"].max()
            share = (every["height"] - low) / ((high - low) or 1.0)
            cell = (every["time_s"] / end_s * columns).astype(int).clip(0, columns - 1) * rows
            cell += (share * rows).astype(int).clip(0, rows - 1)
        counted = every.assign(count=every.groupby(cell)["height"].transform("size"), cell=cell)
        kept.append(counted.sort_values("height").drop_duplicates("cell", keep="last"))
    empty = pd.DataFrame({name: [] for name in _MARK})
    return pd.concat(kept)[_MARK].sort_values("time_s") if kept else empty


_MARK: Final = ["kind", "time_s", "height", "count"]


def _found(run: RunDir) -> pd.DataFrame:
    """What the checkers of groups and registers found; `height`: an offset, or an age."""

    def frame(batch: pa.RecordBatch) -> pd.DataFrame:
        offset, age_ns, time_ns = (
            integers(batch, name) for name in ("offset", "age_ns", "time_ns")
        )
        return pd.DataFrame(
            {
                "kind": texts(batch, "kind").objects(),
                "partition": integers(batch, "partition"),
                "time_s": np.where(time_ns == NULL, np.nan, time_ns / 1e9),
                "height": np.where(age_ns == NULL, offset, age_ns / 1e9),
            }
        )

    files = [
        file for check in (GROUP.check, REGISTER.check) if (file := run.findings_of(check)).exists()
    ]
    columns = ("kind", "partition", "offset", "time_ns", "age_ns")
    frames = list(decoded(files, columns, frame, optional=columns[1:]))
    return (
        pd.concat(frames)
        if frames
        else pd.DataFrame({"kind": [], "partition": [], "time_s": [], "height": []})
    )


def done_by_consumers(run: RunDir) -> pd.DataFrame:
    """What they were assigned, processed and committed, in the order of time. Raises
    HistoryError."""
    frames = map(_rows, parquet_reader.deliveries(run.parts(run.deliveries)))
    rows = pd.concat([pd.DataFrame({"f": [], "time_s": []}), *frames], ignore_index=True)
    if rows.empty:
        return rows
    return rows.sort_values("time_s", kind="stable", ignore_index=True)


def _rows(part: Deliveries) -> pd.DataFrame:
    wanted = part.f.isin([KINDS.assign, KINDS.process, KINDS.commit]) & (part.mark == runs.OK)
    return pd.DataFrame(
        {
            "f": part.f.objects()[wanted],
            "consumer": part.consumer.objects()[wanted],
            "time_s": part.time_ns[wanted] / 1e9,
            **{name: getattr(part, name)[wanted] for name in ("partition", "offset", "value")},
        }
    )
