"""Which events the spans of lost writes (`checkers.loss.spans`) begin and end with.

Whether a client left the old leader when another took over, or stayed until the network healed, is
seen by which of the two the last write that it lost stands next to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from analysis.columns import tables
from analysis.leadership import Leadership
from analysis.timeline import Timeline
from checkers.loss.spans import COLUMNS, LostSpan, lost_spans
from harness.history.run_folder import RunDir
from harness.protocols import FaultWindow

TOGETHER_S: Final = 0.5
"""Events of one kind that are no further apart are one: the heals of a step, the partitions of a
leader that is replaced."""


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened to the cluster, in seconds since the run's start."""

    what: str
    at_s: float


@dataclass(frozen=True, kw_only=True)
class Near:
    """An event and how long after it something was; negative: before it."""

    event: Event
    after_s: float


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A span among the events: what is nearest to when its first write was begun, and to when its
    last one was acknowledged. Null where nothing was lost, or no event is known."""

    span: LostSpan
    began: Near | None = None
    ended: Near | None = None


def placed_spans(run: RunDir, plan: Mapping[str, Any], line: Timeline) -> list[Placed]:
    """The span of all lost writes, then one of each client. Empty when nothing was lost."""
    clients = int((plan.get("workload") or {}).get("clients") or 1)
    found = list(tables(sorted(run.findings.glob("*.parquet")), COLUMNS))
    told = events(line)
    spans = lost_spans(pa.concat_tables(found), clients=clients) if found else []
    return [_placed(span, told) for span in spans]


def _placed(span: LostSpan, told: Sequence[Event]) -> Placed:
    if span.begun_s is None or span.acknowledged_s is None:
        return Placed(span=span)
    first_s, last_s = span.begun_s[0], span.acknowledged_s[1]
    return Placed(span=span, began=_nearest(first_s, told), ended=_nearest(last_s, told))


def _nearest(at_s: float, told: Sequence[Event]) -> Near | None:
    event = min(told, key=lambda event: abs(event.at_s - at_s), default=None)
    return None if event is None else Near(event=event, after_s=at_s - event.at_s)


def events(line: Timeline) -> list[Event]:
    """What a span may begin or end with: faults that begin and are healed, leaders that change."""
    kinds: dict[str, list[tuple[float, str]]] = {
        "began": [(f.from_s, f.id) for f in line.faults if f.from_s is not None],
        "was healed": [(f.to_s, f.id) for f in _in_force(line.faults) if f.to_s is not None],
        "took over": list(_takeovers(line.leadership)),
    }
    told = [event for verb, each in kinds.items() for event in _together(verb, sorted(each))]
    return sorted(told, key=lambda event: event.at_s)


def _in_force(faults: Sequence[FaultWindow]) -> Iterator[FaultWindow]:
    return (fault for fault in faults if fault.from_s is not None)


def _takeovers(who: Leadership) -> Iterator[tuple[float, str]]:
    """When, by the quorum's view, a partition got another leader than it last had."""
    for _, views in who.views.groupby("partition", sort=True):
        before: str | None = None
        for from_s, leader in zip(views["from_s"], views["leader"], strict=True):
            if not isinstance(leader, str):
                continue
            if before is not None and leader != before:
                yield float(from_s), leader
            before = leader


def _together(verb: str, told: Sequence[tuple[float, str]]) -> Iterator[Event]:
    """Events of one kind, those close together as one at the time of the first."""
    at = 0
    while at < len(told):
        first_s = told[at][0]
        names = dict.fromkeys(name for when, name in told[at:] if when - first_s <= TOGETHER_S)
        at += sum(when - first_s <= TOGETHER_S for when, _ in told[at:])
        words = " and ".join(names)
        yield Event(what=f"{words} {verb if len(names) == 1 else _plural(verb)}", at_s=first_s)


def _plural(verb: str) -> str:
    return verb.replace("was ", "were ")
