"""The timeline of a run, gathered once for the live page, the still picture and comparisons: its
writes, who led and who was in sync, the events at which losses begin and end, and what nodes
logged.

The observer queries every node several times a second, and the answers differ: an isolated node
keeps answering "leader 3, ISR {3}". These rules decide, since leader epochs only ever grow:

- The *quorum's view* at an instant is the answer with the highest leader epoch so far.
- Within an epoch the answer of the leader itself decides, as the leader shrinks and grows the ISR.
  If the leader has been silent for `HOLD_S`, the newest answer of another node decides.
- A view holds until the next one, so differing answers leave no gap. It ends when no node has
  answered for `HOLD_S`: from then on the leader is not known, and the page shows a gap.
- A node *believes* that it leads while it names itself with an epoch that another leader has
  overtaken. The belief begins when the node is overtaken.

`lost_spans` in result.json holds the spans: of all lost writes, and of each client. A client may
leave the old leader when another takes over, or stay until the network heals: the event nearest to
its last lost write shows which.

What nodes logged about elections, members in sync and truncation is in one order of time, each line
by its node's own clock. Logs may be large and may hold any bytes: they are read line by line, cut,
and treated as text only.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.latency import ABSENT, LOST, counts, outcome_is, thin, writes
from analysis.panels import Panel, done_by_consumers, panels
from harness.faults.journal import windows
from harness.history import MEMBERS
from harness.history.autopsy import dated_lines
from harness.history.documents import LostSpan
from harness.history.parquet_reader import decoded, integers, texts
from harness.history.rows import stored_target
from harness.history.run_folder import RunDir
from harness.models import LOG, Model
from harness.protocols import OK, FaultWindow
from harness.protocols.runs import NULL
from harness.protocols.systems import LogLines

Array = npt.NDArray[Any]

BARS_AT_MOST: Final = 480
_WIDTHS_S: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)


def bar_width_s(length_s: float) -> int:
    """The seconds that a bar spans, so that a run of any length has at most BARS_AT_MOST bars."""
    return next((width for width in _WIDTHS_S if length_s / width <= BARS_AT_MOST), _WIDTHS_S[-1])


def rates(frame: pd.DataFrame, *, start_s: float, end_s: float, width_s: int) -> pd.DataFrame:
    """One row for each bar: `from_s`, and the counts `attempted`, `survived`, `absent`, `lost`.

    `frame` comes from `latency.writes`. Divide by the width for writes per second.
    """
    bars = max(1, int(np.ceil((end_s - start_s) / width_s)))
    begin_s = frame["begin_s"].to_numpy() - start_s
    answer_s = begin_s + frame["latency_ms"].to_numpy() / 1e3
    columns = {"attempted": _histogram(begin_s, bars, width_s)}
    for name, wanted in (("survived", OK), ("absent", ABSENT), ("lost", LOST)):
        columns[name] = _histogram(answer_s[outcome_is(frame, wanted)], bars, width_s)
    return pd.DataFrame({"from_s": start_s + np.arange(bars) * float(width_s), **columns})


def _histogram(times_s: Array, bars: int, width_s: int) -> Array:
    # Not np.histogram: the last bar must take every write on or beyond its edge.
    place = np.clip((times_s / width_s).astype(np.int64), 0, bars - 1)
    return np.bincount(place, minlength=bars)


@dataclass(frozen=True)
class Scale:
    """The axes: the ends of time, the ends of latency, and the highest bar."""

    start_s: float
    end_s: float
    latency_ms: tuple[float, float]
    rate_per_s: float

    def around(self, other: Scale) -> Scale:
        """A scale that covers both."""
        low = min(self.latency_ms[0], other.latency_ms[0])
        high = max(self.latency_ms[1], other.latency_ms[1])
        return Scale(
            start_s=min(self.start_s, other.start_s),
            end_s=max(self.end_s, other.end_s),
            latency_ms=(low, high),
            rate_per_s=max(self.rate_per_s, other.rate_per_s),
        )


@dataclass(frozen=True)
class Timeline:
    """One run on one time axis.

    `marks` are the thinned writes (`latency.thin`) and `total` the writes behind them by outcome.
    `bars` come from `rates`, each `bar_s` wide. `nodes` are the nodes that lead or follow, in
    the order of their lanes. `panels` are what the run is about beside its writes, if anything.
    """

    marks: pd.DataFrame
    total: dict[str, int]
    bars: pd.DataFrame
    bar_s: int
    leadership: Leadership
    faults: list[FaultWindow]
    nodes: list[str]
    scale: Scale
    panels: list[Panel] = field(default_factory=list)

    @property
    def by_loss(self) -> list[int]:
        """The observed partitions: those with the most lost writes, or most other findings, first,
        then by number."""
        lost = self.marks[outcome_is(self.marks, LOST)].groupby("partition")["count"].sum()
        found = Counter({p: int(number) for p, number in lost.items()})
        found.update({each.partition: sum(each.counts.values()) for each in self.panels})
        return sorted(self.leadership.partitions, key=lambda p: (-found[p], p))

    @property
    def drawn_faults(self) -> list[FaultWindow]:
        """The faults that came into force."""
        return [fault for fault in self.faults if fault.from_s is not None]


def timeline(run: RunDir, *, nodes: list[str] | None = None, model: Model = LOG) -> Timeline:
    """Read a run's folder. `nodes` gives the order of the lanes; other nodes follow them."""
    frame = writes(run, model)
    observed = observations(run)
    faults = windows(run.faults)
    did = done_by_consumers(run)
    start_s, end_s = _ends_s(frame, did, observed, faults)
    bar_s = bar_width_s(end_s - start_s)
    bars = rates(frame, start_s=start_s, end_s=end_s, width_s=bar_s)
    who = leadership(observed, end_s=end_s)
    marks = thin(frame)
    return Timeline(
        marks=marks,
        total=counts(frame),
        bars=bars,
        bar_s=bar_s,
        leadership=who,
        faults=faults,
        nodes=_nodes(who, nodes or []),
        scale=Scale(start_s, end_s, _latency_ends(marks), _highest(bars) / bar_s),
        panels=panels(run, frame, did, end_s=end_s),
    )


def ms(value: float) -> str:
    """A latency with a fitting unit: 50 µs, 3 ms, 2.5 s."""
    if value < 1:
        return f"{value * 1e3:.3g} µs"
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1e3:.3g} s"


def on_one_scale(a: Timeline, b: Timeline) -> tuple[Timeline, Timeline]:
    """Both on the same axes, so that a reader can compare lengths and heights."""
    scale = a.scale.around(b.scale)
    return replace(a, scale=scale), replace(b, scale=scale)


def _ends_s(
    frame: pd.DataFrame, did: pd.DataFrame, observed: pd.DataFrame, faults: list[FaultWindow]
) -> tuple[float, float]:
    """From the second of the first write to the last answer, heal or act of a consumer, at least
    one second.

    The observer starts before the load and continues during the final read. A tenth of the load's
    time is added for it: enough to show the ISR recover, and the writes keep their room.
    """
    answered_s = frame["begin_s"] + np.nan_to_num(frame["latency_ms"].to_numpy()) / 1e3
    last = [float(answered_s.max())] if len(frame) else []
    last += did["time_s"].tail(1).tolist()
    last += [s for fault in faults for s in (fault.from_s, fault.to_s) if s is not None]
    observed_s = float(observed["time_s"].max()) if len(observed) else 0.0
    start_s = float(np.floor(frame["begin_s"].min())) if len(frame) else 0.0
    end_s = max(last, default=observed_s)
    end_s = max(end_s, min(observed_s, end_s + (end_s - start_s) / 10))
    return max(start_s, 0.0), max(end_s, start_s + 1.0)


def _latency_ends(marks: pd.DataFrame) -> tuple[float, float]:
    """The measured range with a margin, at least one decade."""
    known = marks["latency_ms"].dropna().astype(float)
    known = known[known > 0]
    if known.empty:
        return 0.1, 1000.0
    low, high = known.min() / 1.4, known.max() * 1.4
    return float(low), float(max(high, low * 10))


def _highest(bars: pd.DataFrame) -> float:
    acknowledged = bars["survived"] + bars["absent"] + bars["lost"]
    return float(max(acknowledged.max(), bars["attempted"].max(), 1))


def _nodes(who: Leadership, nodes: list[str]) -> list[str]:
    """The nodes that led or were in sync at any time: in the order of the plan, then by name."""
    seen = {leader for leader in who.views["leader"] if isinstance(leader, str)}
    seen |= {member for members in who.views["members"] for member in members}
    seen |= set(who.beliefs["node"])
    return [node for node in nodes if node in seen] + sorted(seen - set(nodes))


HOLD_S: Final = 3.0
"""How long an answer holds for its node when no newer answer follows."""

_NUMBERS = ("partition", "leader_epoch", "controller_epoch")
_TEXTS = ("answered_by", "leader", "controller")
_COLUMNS = ("time_ns", MEMBERS, *_NUMBERS, *_TEXTS)


@dataclass(frozen=True)
class Leadership:
    """What the observer saw, as intervals in seconds since the run's start.

    `views`: `partition, from_s, to_s, leader (None: none), epoch, members (a tuple of names)`.
    `beliefs`: `partition, node, from_s, to_s, epoch`.
    `controllers`: `from_s, to_s, controller`.
    """

    views: pd.DataFrame
    beliefs: pd.DataFrame
    controllers: pd.DataFrame

    @property
    def partitions(self) -> list[int]:
        return sorted(int(p) for p in self.views["partition"].unique())


def observations(run: RunDir) -> pd.DataFrame:
    """The observer's rows in the order of time; `time_s` is in seconds.

    `members` is a string of names joined by commas. A missing text is None, a missing number NULL.
    """
    frames = list(decoded(run.parts(run.observations), _COLUMNS, _observations))
    if not frames:
        columns = ["time_s", *_NUMBERS, *_TEXTS, "members"]
        return pd.DataFrame({name: np.empty(0) for name in columns})
    return pd.concat(frames).sort_values("time_s", kind="stable", ignore_index=True)


def _observations(batch: pa.RecordBatch) -> pd.DataFrame:
    lists = batch[MEMBERS].cast(pa.list_(pa.string()))
    in_sync = pc.fill_null(pc.binary_join(lists, ","), "").dictionary_encode()
    members = np.array(in_sync.dictionary.to_pylist(), dtype=object)[in_sync.indices.to_numpy()]
    return pd.DataFrame(
        {
            "time_s": integers(batch, "time_ns") / 1e9,
            **{name: integers(batch, name) for name in _NUMBERS},
            **{name: texts(batch, name).objects() for name in _TEXTS},
            "members": members,
        }
    )


def leadership(rows: pd.DataFrame, *, end_s: float) -> Leadership:
    """The intervals that follow from the observer's rows; none reaches beyond `end_s`."""
    views, beliefs = [], []
    for partition, answers in rows[rows["partition"] != NULL].groupby("partition", sort=True):
        seen = _views(answers, end_s=end_s)
        views.append(seen.assign(partition=partition))
        beliefs.append(_beliefs(answers, seen, end_s=end_s).assign(partition=partition))
    return Leadership(
        views=_joined(views, ["partition", "from_s", "to_s", "leader", "epoch", "members"]),
        beliefs=_joined(beliefs, ["partition", "node", "from_s", "to_s", "epoch"]),
        controllers=_controllers(rows, end_s=end_s),
    )


def _joined(frames: list[pd.DataFrame], columns: list[str]) -> pd.DataFrame:
    full = [frame for frame in frames if len(frame)]
    if not full:
        return pd.DataFrame(columns=columns)
    return pd.concat(full, ignore_index=True)[columns]


def _views(answers: pd.DataFrame, *, end_s: float) -> pd.DataFrame:
    """The quorum's views of one partition."""
    epoch = answers["leader_epoch"].to_numpy()
    newest = answers[epoch == np.maximum.accumulate(epoch)]
    decides = _decides(newest)
    states = newest.groupby(
        ["leader", "leader_epoch", "members"], dropna=False, sort=False
    ).ngroup()
    state = states.to_numpy()[decides]
    runs = _runs(newest["time_s"].to_numpy(), state, end_s=end_s)
    deciding = newest.iloc[decides[runs["first"].to_numpy()]]
    return pd.DataFrame(
        {
            "from_s": runs["from_s"],
            "to_s": runs["to_s"],
            "leader": deciding["leader"].to_numpy(),
            "epoch": deciding["leader_epoch"].to_numpy(),
            "members": [
                tuple(filter(None, (members or "").split(","))) for members in deciding["members"]
            ],
        }
    )


def _decides(newest: pd.DataFrame) -> npt.NDArray[np.int64]:
    """For each answer in the newest epoch, the index of the answer that decides at its time."""
    time_s, epoch = newest["time_s"].to_numpy(), newest["leader_epoch"].to_numpy()
    own = (newest["answered_by"] == newest["leader"]).to_numpy()
    last_own = _latest(own)
    heard = (last_own >= 0) & (epoch[last_own] == epoch) & (time_s - time_s[last_own] <= HOLD_S)
    return _latest(own | ~heard)


def _latest(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """For each index, the latest index up to it where the mask holds, or -1."""
    places = np.where(mask, np.arange(len(mask)), -1)
    return np.maximum.accumulate(places)


def _beliefs(answers: pd.DataFrame, views: pd.DataFrame, *, end_s: float) -> pd.DataFrame:
    """The intervals of one partition in which a node claims to lead while another node leads."""
    found = []
    for node, own in answers.groupby("answered_by", sort=True):
        claim = np.where(own["leader"] == node, own["leader_epoch"], NULL)
        runs = _runs(own["time_s"].to_numpy(), claim, end_s=end_s)
        for first, from_s, to_s, last_s in runs.itertuples(index=False):
            # A node may learn between two answers that it was overtaken. Only a node that claims
            # to lead *after* it was overtaken shows a belief.
            over = views[(views["leader"] != node) & (views["epoch"] > claim[first])]
            over = over[(over["to_s"] > from_s) & (over["from_s"] < to_s)]
            if claim[first] != NULL and len(over) and over["from_s"].iloc[0] <= last_s:
                begin_s = max(from_s, over["from_s"].iloc[0])
                found.append((node, begin_s, min(to_s, over["to_s"].iloc[-1]), int(claim[first])))
    return pd.DataFrame(found, columns=["node", "from_s", "to_s", "epoch"])


def _controllers(rows: pd.DataFrame, *, end_s: float) -> pd.DataFrame:
    """The active controller: the answer with the highest controller epoch so far."""
    answers = rows[rows["controller"].notna()]
    epoch = answers["controller_epoch"].to_numpy()
    newest = answers[epoch == np.maximum.accumulate(epoch)] if len(answers) else answers
    runs = _runs(newest["time_s"].to_numpy(), pd.factorize(newest["controller"])[0], end_s=end_s)
    names = newest["controller"].to_numpy()[runs["first"].to_numpy()]
    return pd.DataFrame({"from_s": runs["from_s"], "to_s": runs["to_s"], "controller": names})


def _runs(
    time_s: npt.NDArray[np.float64], state: npt.NDArray[np.int64], *, end_s: float
) -> pd.DataFrame:
    """Runs of equal states in a sequence of answers: `first` (an index), `from_s`, `to_s`,
    `last_s`.

    A run lasts until the next one begins, but at most HOLD_S after its last answer, `last_s`.
    """
    if not len(time_s):
        return pd.DataFrame(
            {"first": np.empty(0, dtype=np.int64), "from_s": [], "to_s": [], "last_s": []}
        )
    silent = np.diff(time_s) > HOLD_S
    first = np.flatnonzero(np.concatenate([[True], (np.diff(state) != 0) | silent]))
    last = np.append(first[1:], len(time_s)) - 1
    follows = np.append(time_s[first[1:]], end_s)
    to_s = np.minimum(np.minimum(follows, time_s[last] + HOLD_S), end_s)
    return pd.DataFrame(
        {"first": first, "from_s": time_s[first], "to_s": to_s, "last_s": time_s[last]}
    )


TOGETHER_S: Final = 0.5
"""Events of one kind within this time are shown as one: the heals of one step, the partitions of a
leader that is replaced."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """A change of the cluster, in seconds since the run's start."""

    what: str
    at_s: float


@dataclass(frozen=True, kw_only=True)
class NearestEvent:
    """The event nearest to an instant, which lies `after_s` after it (negative: before it)."""

    event: Event
    after_s: float


@dataclass(frozen=True, kw_only=True)
class PlacedSpan:
    """A span among the events: `began` is nearest to the start of its first write, `ended` to the
    acknowledgement of its last one. `None` where nothing was lost, or no event is known."""

    span: LostSpan
    began: NearestEvent | None = None
    ended: NearestEvent | None = None


def placed_spans(spans: Iterable[LostSpan], line: Timeline) -> list[PlacedSpan]:
    """Each span with its nearest events."""
    known = events(line)
    return [_placed(span, known) for span in spans]


def _placed(span: LostSpan, known: Sequence[Event]) -> PlacedSpan:
    if span.begun_s is None or span.acknowledged_s is None:
        return PlacedSpan(span=span)
    first_s, last_s = span.begun_s[0], span.acknowledged_s[1]
    return PlacedSpan(span=span, began=_nearest(first_s, known), ended=_nearest(last_s, known))


def _nearest(at_s: float, known: Sequence[Event]) -> NearestEvent | None:
    event = min(known, key=lambda event: abs(event.at_s - at_s), default=None)
    return None if event is None else NearestEvent(event=event, after_s=at_s - event.at_s)


def events(line: Timeline) -> list[Event]:
    """The starts and heals of faults, and the changes of leaders, in the order of time."""
    kinds: dict[str, list[tuple[float, str]]] = {
        "began": [(f.from_s, f.id) for f in line.faults if f.from_s is not None],
        "was healed": [(f.to_s, f.id) for f in line.drawn_faults if f.to_s is not None],
        "took over": list(_takeovers(line.leadership)),
    }
    found = [event for verb, each in kinds.items() for event in _together(verb, sorted(each))]
    return sorted(found, key=lambda event: event.at_s)


def _takeovers(who: Leadership) -> Iterator[tuple[float, str]]:
    """The instants at which the quorum's view of a partition names another leader."""
    for _, views in who.views.groupby("partition", sort=True):
        before: str | None = None
        for from_s, leader in zip(views["from_s"], views["leader"], strict=True):
            if not isinstance(leader, str):
                continue
            if before is not None and leader != before:
                yield float(from_s), leader
            before = leader


def _together(verb: str, instants: Sequence[tuple[float, str]]) -> Iterator[Event]:
    """Events of one kind; those close together are one event at the time of the first."""
    at = 0
    while at < len(instants):
        first_s = instants[at][0]
        names = dict.fromkeys(name for when, name in instants[at:] if when - first_s <= TOGETHER_S)
        at += sum(when - first_s <= TOGETHER_S for when, _ in instants[at:])
        subject = " and ".join(names)
        does = verb if len(names) == 1 else verb.replace("was ", "were ")
        yield Event(what=f"{subject} {does}", at_s=first_s)


LINES_AT_MOST: Final = 40
"""The number of lines on a page."""
EVENTS_AT_MOST: Final = 10
"""The number of events that stand above them."""
_SAME_S: Final = 2.0
"""Within this time nodes log one change, each by its own clock."""

_LENGTH_AT_MOST: Final = 320


@dataclass(frozen=True, order=True)
class Line:
    """One line of a node's log, `at_s` seconds after the run's start."""

    at_s: float
    node: str
    text: str


@dataclass(frozen=True)
class LogExcerpt:
    """The first `lines` of the `found` relevant ones, and the most telling of the `notable` events
    that they state, in order of time."""

    lines: list[Line] = field(default_factory=list)
    found: int = 0
    events: list[Event] = field(default_factory=list)
    notable: int = 0


def logged(run: RunDir, *, wall_time: str | None, end_s: float) -> LogExcerpt:
    """The relevant lines of all nodes between the run's start, at `wall_time`, and `end_s`; none
    of a system that does not say which lines these are."""
    target = stored_target(run)
    try:
        start_s = datetime.fromisoformat(wall_time or "").timestamp()
    except ValueError:
        return LogExcerpt()
    which = None if target is None else target.log_lines()
    if which is None:
        return LogExcerpt()
    lines = {
        line
        for file in run.logs()
        if file.is_file() and not file.is_symlink()
        for line in _relevant(file, which, start_s)
        if 0 <= line.at_s <= end_s
    }
    notable = _notable(sorted(lines), which.events)
    first = [event for _, event in sorted(notable, key=lambda each: each[0])[:EVENTS_AT_MOST]]
    events = sorted(first, key=lambda event: event.at_s)
    return LogExcerpt(sorted(lines)[:LINES_AT_MOST], len(lines), events, len(notable))


def _notable(lines: Iterable[Line], meanings: Sequence[tuple[str, str]]) -> list[tuple[int, Event]]:
    """Each change once, with its rank: what several nodes log, and of several partitions."""
    found: list[tuple[int, float, str, set[str]]] = []
    now: deque[tuple[int, float, str, set[str]]] = deque()
    for line in lines:
        while now and line.at_s - now[0][1] > _SAME_S:
            now.popleft()
        for rank, (pattern, words) in enumerate(meanings):
            if match := re.search(pattern, line.text):
                groups = match.groupdict()
                text = words.format(node=line.node, **groups)
                of = {groups["p"].replace(",", "-")} if groups.get("p") else set[str]()
                if any(each[2].startswith(f"{text},") and of <= each[3] for each in now):
                    break
                same = next((each for each in now if each[2] == text), None)
                if same is not None:
                    same[3].update(of)
                else:
                    now.append((rank, line.at_s, text, of))
                    found.append(now[-1])
                break
    return [
        (rank, Event(what=f"{', '.join(sorted(of))}: " * bool(of) + text, at_s=at))
        for rank, at, text, of in found
    ]


def _relevant(file: Path, which: LogLines, start_s: float) -> Iterator[Line]:
    for _, at_s, raw in dated_lines(file, which.relevant.search):
        if not which.internal.search(raw):
            text = raw.decode("utf-8", "replace").strip()
            if len(text) > _LENGTH_AT_MOST:
                text = text[:_LENGTH_AT_MOST] + "…"
            yield Line(round(at_s - start_s, 3), file.parent.name, text)
