"""The failover checker: how long after each fault metadata, leaders and writes were back.

Counted is from the instant at which the fault's first act was begun, of each proven fault:

- *controller*: a node names a controller of a higher epoch than any before the fault;
- *changed*: changes of metadata are acknowledged again (in runs of the workload `metadata`);
- *led*: for each partition whose leader the fault met, the first node that names another one with
  a higher leader epoch; the last of these partitions counts, and the first and the median are kept;
- *agreed*: the same, but the last of the nodes that were not hit: between the two, asking any node
  may give the old leader;
- *written*: for each of these partitions, the end of the last pause in its acknowledgements that is
  more than twice as long as any before the fault; the last partition counts, none that had no such
  pause;
- *gone*: the process has ended, which is how long a planned stop takes.

What nodes report is known as often as they were asked: `resolution_s` is the longest time between
two answers of a node that was not hit, up to the last change. Times of leaders may be too long by
as much, and are never too short. The nodes' own views of the run's topic are compared answer by
answer; those of its ballast (`target.ballast_partitions`) are stored as changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.history.parquet_reader import decoded, integers, texts
from harness.history.run_folder import RunDir
from harness.models import GROUP, LOG, REGISTER
from harness.protocols import (
    DOUBTS,
    CheckResult,
    Count,
    Facts,
    FaultWindow,
    OneShard,
    PrimaryFinding,
    Run,
    Statement,
)
from harness.protocols.runs import INVOKED, NULL, OK, Ints

_NUMBERS: Final = ("time_ns", "partition", "leader_epoch", "controller_epoch")
_TEXTS: Final = ("answered_by", "leader")
_COLUMNS: Final = (*_NUMBERS, *_TEXTS)
_LOGS: Final = (LOG.name, GROUP.name)
_NEVER: Final = 2**62
_TIMES: Final = {
    "controller_s": "a node named another controller",
    "changed_s": "metadata could be changed again",
    "led_s": "the last partition had another leader",
    "agreed_s": "all nodes named it",
    "written_s": "the last partition was written again",
    "gone_s": "the process was gone",
}

LATE: Final = "after {} faults something was back later than within_s, {} s, or not until healed"

Names = npt.NDArray[np.object_]


class Answers(NamedTuple):
    """Rows of observations."""

    time_ns: Ints
    partition: Ints
    epoch: Ints
    controller_epoch: Ints
    node: Names
    leader: Names

    def rows(self, places: Ints) -> Answers:
        return Answers._make(column[places] for column in self)


class Views(NamedTuple):
    """Answers of nodes about partitions, in the order of time: a partition of the ballast has its
    number after those of the topic. `polls`: by node, when it answered."""

    answers: Answers
    polls: dict[str, Ints]


class Gathered(NamedTuple):
    """What a run's files show. `acks`: by partition, when writes were acknowledged; of a model
    without partitions, all are of one. `controllers`: when which epoch was reported."""

    views: Views
    controllers: list[tuple[int, int]]
    acks: dict[int, Ints]
    attempted: int
    until_ns: int


@dataclass(frozen=True, kw_only=True)
class FailoverCheck(OneShard[Gathered]):
    """How long after each fault metadata could be changed, partitions had leaders, nodes agreed on
    them, and writes were acknowledged again.

    within_s  how long that may take; by default it is measured only
    """

    plugin: ClassVar[str] = "failover"
    title: ClassVar[str] = "Failover"
    models: ClassVar[frozenset[str]] = frozenset({*_LOGS, REGISTER.name})
    primary: ClassVar[PrimaryFinding] = PrimaryFinding(
        counter_examples=("late",), noun="late failovers", head="late"
    )
    counts: ClassVar[tuple[Count, ...]] = (
        Count("attempted", "attempted"),
        Count("acknowledged", "acknowledged"),
        Count("measured", "faults measured", "faults after which something had to come back"),
        Count("met", "partitions met", "partitions that were led by the nodes hit"),
        Count("leaderless", "leaderless", "partitions that had no other leader until healed"),
        Count("unwritten", "not written again", "partitions whose writes did not resume"),
        Count("late", "late", "what came back later than within_s, or not at all", proves=True),
        *(Count(name, name.removesuffix("_s"), f"s until {of}") for name, of in _TIMES.items()),
        Count("resolution_s", "resolution", "s between two answers of a node, at most"),
    )
    short: ClassVar[tuple[str, ...]] = ("led_s", "agreed_s", "written_s")

    within_s: float | None = None

    def __post_init__(self) -> None:
        if self.within_s is not None and self.within_s <= 0:
            raise ValueError(f"within_s is {self.within_s:g}; use more than 0")

    def gather(self, run: Run) -> Gathered:
        """The observations, and when writes were acknowledged."""
        parts: dict[int, list[Ints]] = {}
        attempted, until_ns, by_partition = 0, 0, run.facts.promises.model in _LOGS
        for rows in run.writes():
            begun, ok = rows.mark == INVOKED, rows.mark == OK
            attempted += int(np.count_nonzero(begun))
            until_ns = max(until_ns, int(rows.time_ns[begun].max(initial=0)))
            times = rows.time_ns[ok]
            keys = rows.partition[ok] if by_partition else np.zeros_like(times)
            for key in np.unique(keys).tolist():
                parts.setdefault(key, []).append(times[keys == key])
        acks = {key: np.sort(np.concatenate(times)) for key, times in parts.items()}
        views, controllers = observed(run.facts)
        return Gathered(views, controllers, acks, attempted, until_ns)

    def judge(self, run: Run, gathered: Gathered) -> CheckResult:
        """Measure each proven fault."""
        windows = [w for w in run.facts.windows if w.proven and w.from_s is not None]
        found = [measured(window, gathered, run.facts) for window in windows]
        counted = [each for each in found if _is_measured(each)]
        worst = {
            name: max((each[name] for each in counted if each[name] is not None), default=None)
            for name in (*_TIMES, "resolution_s")
        }
        late = sum(self._is_late(each) for each in counted)
        return CheckResult(
            counts={
                "attempted": gathered.attempted,
                "acknowledged": sum(map(len, gathered.acks.values())),
                "measured": len(counted),
                **{
                    name: sum(each[name] for each in counted)
                    for name in ("met", "leaderless", "unwritten")
                },
                "late": late,
                **worst,
            },
            counter_examples=(Statement("late", LATE.format(late, self.within_s)),) if late else (),
            doubts=()
            if counted
            else (Statement(DOUBTS.vacuous, "no proven fault was seen to delay anything"),),
            all_well=f"what {len(counted)} faults cost was measured",
            details={"failover": found},
        )

    def _is_late(self, each: dict[str, Any]) -> bool:
        if self.within_s is None:
            return False
        times = [each[name] for name in (*_BACK, "agreed_s")]
        slow = any(s is not None and s > self.within_s for s in times)
        return slow or each["leaderless"] + each["disagreed"] + each["unwritten"] > 0


_BACK: Final = ("controller_s", "changed_s", "led_s", "written_s")


def _is_measured(each: dict[str, Any]) -> bool:
    """Whether anything that the fault delayed was seen to return, or not to."""
    back = any(each[name] is not None for name in _BACK)
    return back or each["leaderless"] + each["unwritten"] > 0


def observed(facts: Facts) -> tuple[Views, list[tuple[int, int]]]:
    """The observer's files of a run: views of the nodes that hold data, and controllers' epochs."""
    rundir = RunDir(facts.folder or Path())
    topic, ballast = (
        _joined([*decoded(rundir.parts(folder), _COLUMNS, _answers)])
        for folder in (rundir.observations, rundir.ballast)
    )
    named = topic.controller_epoch != NULL
    epochs = zip(topic.time_ns[named].tolist(), topic.controller_epoch[named].tolist(), strict=True)
    polls = _polls(topic, topic.partition != NULL)
    polls |= _polls(ballast, ballast.partition == NULL)  # the rarer ones, where there are any
    held = ballast.partition != NULL
    ballast.partition[held] += 1 + max(0, int(topic.partition.max(initial=0)))
    views = _joined([topic, ballast])
    rows = (views.partition != NULL) & np.isin(
        views.node.astype(str), sorted(facts.holders or polls.keys())
    )
    order = np.flatnonzero(rows)[np.argsort(views.time_ns[rows], kind="stable")]
    return Views(views.rows(order), polls), sorted(epochs)


def _answers(batch: pa.RecordBatch) -> Answers:
    time_ns, partition, epoch, controller = (integers(batch, name) for name in _NUMBERS)
    node, leader = (texts(batch, name).objects() for name in _TEXTS)
    return Answers(time_ns, partition, epoch, controller, node, leader)


def _joined(parts: Sequence[Answers]) -> Answers:
    number, text = np.empty(0, np.int64), np.empty(0, object)
    none = Answers(number, number, number, number, text, text)
    return Answers._make(map(np.concatenate, zip(none, *parts, strict=True)))


def _polls(answers: Answers, is_answer: npt.NDArray[np.bool_]) -> dict[str, Ints]:
    nodes, times = answers.node[is_answer], answers.time_ns[is_answer]
    return {node: np.unique(times[nodes == node]) for node in sorted({*nodes})}


def measured(window: FaultWindow, gathered: Gathered, facts: Facts) -> dict[str, Any]:
    """What one fault cost, as result.json has it; times in seconds since it was begun, `None` where
    nothing changed or nothing was seen. `partitions`: how many there were; `met`: how many the
    nodes that it hit led; `leaderless`: of these, how many had no other leader until it was healed;
    `disagreed`: how many not all nodes agreed on by then; `paused`: in how many writes paused;
    `unwritten`: in how many they did not resume."""
    begun_s = window.from_s if window.begun_s is None else window.begun_s
    assert begun_s is not None
    assert window.from_s is not None
    begun_ns = round(begun_s * 1e9)
    end_ns = gathered.until_ns if window.to_s is None else round(window.to_s * 1e9)
    led = _led(gathered.views, begun_ns, end_ns, window.nodes)
    changed = led.any_ns[led.any_ns < _NEVER]
    agreed, apart = (ns[led.all_ns < _NEVER] for ns in (led.all_ns, led.all_ns - led.any_ns))
    is_log = facts.promises.model in _LOGS
    keys = [key for key in gathered.acks if not is_log or key in led.partitions]
    pauses = _pauses(gathered, keys, begun_ns, end_ns, facts)
    resumed_s = _since(max((ns for ns in pauses if ns is not None), default=None), begun_ns)
    return {
        "fault": window.id,
        "nemesis": window.nemesis,
        "nodes": window.nodes,
        "begun_s": begun_s,
        "partitions": led.known,
        "met": len(led.partitions),
        "leaderless": len(led.partitions) - len(changed),
        "disagreed": len(changed) - len(agreed),
        "paused": len(pauses),
        "unwritten": pauses.count(None),
        "controller_s": _since(_controller_ns(gathered, begun_ns, end_ns), begun_ns),
        "changed_s": None if is_log else resumed_s,
        "first_led_s": _since(min(changed.tolist(), default=None), begun_ns),
        "median_led_s": _since(int(np.median(changed)) if len(changed) else None, begun_ns),
        "led_s": _since(max(changed.tolist(), default=None), begun_ns),
        "agreed_s": _since(max(agreed.tolist(), default=None), begun_ns),
        "longest_divergence_s": _since(max(apart.tolist(), default=None), 0),
        "written_s": resumed_s if is_log else None,
        "gone_s": round(window.from_s - begun_s, 6),
        "resolution_s": _resolution_s(gathered.views, window.nodes, begun_ns, agreed, end_ns),
    }


def _since(time_ns: int | None, begun_ns: int) -> float | None:
    return None if time_ns is None else round((time_ns - begun_ns) / 1e9, 6)


class _Led(NamedTuple):
    """The partitions that the nodes hit led, in order, and when the first and the last of the other
    nodes named another leader of each; `known`: how many partitions there are."""

    known: int
    partitions: list[int]
    any_ns: Ints
    all_ns: Ints


def _led(views: Views, begun_ns: int, end_ns: int, hit: Sequence[str]) -> _Led:
    seen = views.answers
    number = int(seen.partition.max(initial=-1)) + 1
    earlier = np.flatnonzero(seen.time_ns <= begun_ns)
    earlier = earlier[np.lexsort((seen.time_ns[earlier], seen.epoch[earlier]))]
    newest = np.full(number, -1)
    newest[seen.partition[earlier]] = earlier
    known = newest >= 0
    met = known & np.isin(seen.leader[newest].astype(str), hit) if len(earlier) else known
    epoch = np.where(known, seen.epoch[newest], _NEVER) if len(earlier) else np.zeros(number)
    leader = seen.leader.astype(str)
    news = (seen.time_ns > begun_ns) & (seen.time_ns <= end_ns) & met[seen.partition]
    news &= (seen.epoch > epoch[seen.partition]) & ~np.isin(leader, [*hit, "None"])
    others = sorted({*views.polls, *seen.node} & {*seen.node} - {*hit})
    first = np.full((max(1, len(others)), number), _NEVER)
    for row, node in zip(first, others, strict=False):
        own = news & (seen.node == node)
        np.minimum.at(row, seen.partition[own], seen.time_ns[own])
    partitions = np.flatnonzero(met)
    any_ns, all_ns = first.min(axis=0)[partitions], first.max(axis=0)[partitions]
    return _Led(int(np.count_nonzero(known)), partitions.tolist(), any_ns, all_ns)


def _controller_ns(gathered: Gathered, begun_ns: int, end_ns: int) -> int | None:
    """When a controller of a new epoch was first named."""
    before = [epoch for at, epoch in gathered.controllers if at <= begun_ns]
    later = ((at, epoch) for at, epoch in gathered.controllers if begun_ns < at <= end_ns)
    return next((at for at, epoch in later if before and epoch > max(before)), None)


def _pauses(
    gathered: Gathered, keys: Sequence[int], begun_ns: int, end_ns: int, facts: Facts
) -> list[int | None]:
    """For each partition in whose acknowledgements there was a pause while the fault lasted: when
    the last one ended; `None` if none came after it."""
    begun_s = (each.from_s if each.begun_s is None else each.begun_s for each in facts.windows)
    first_ns = min(round(s * 1e9) for s in begun_s if s is not None)
    calm = [np.diff(times[times <= first_ns]) for times in gathered.acks.values()]
    gaps = np.concatenate([*calm, np.empty(0, np.int64)])
    if not len(gaps):
        return []
    found: list[int | None] = []
    for key in keys:
        times = gathered.acks[key]
        bounds = np.append(times, max(gathered.until_ns, int(times[-1])))
        long = np.diff(bounds) > 2 * gaps.max()
        long &= (bounds[:-1] < end_ns) & (bounds[1:] > begun_ns)
        if (places := np.flatnonzero(long)).size:
            end = int(places[-1]) + 1
            found.append(int(bounds[end]) if end < len(times) else None)
    return found


def _resolution_s(
    views: Views, hit: Sequence[str], begun_ns: int, agreed: Ints, end_ns: int
) -> float | None:
    """The longest time between two answers of a node that was not hit, up to the last change."""
    until_ns = int(agreed.max(initial=begun_ns)) if len(agreed) else end_ns
    gaps = []
    for times in (times for node, times in views.polls.items() if node not in hit):
        first = max(0, int(np.searchsorted(times, begun_ns)) - 1)
        gaps.append(
            np.diff(times[first : int(np.searchsorted(times, until_ns)) + 1]).max(initial=0)
        )
    return _since(int(max(gaps)), 0) if gaps else None
