"""When acknowledged writes were lost, by client, and which events those spans begin and end with.

An isolated leader goes on acknowledging whoever still talks to it: whether that ends when another
takes over or only when the network heals is decided by the client (whom it asks who leads), not by
the cluster. So the spans of clients are told apart: from the first lost write to the last, once by
when they were begun and once by when they were acknowledged.

A client is one of `workload.clients` real ones. Processes are dealt out to them in turn (process
modulo clients); while one is dead after a `client` fault, others carry its processes, and a span
then stands at the place of the client that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from analysis.columns import MISSING, Floats, equals, integers, tables
from analysis.latency import LOST_KINDS
from analysis.leadership import Leadership
from analysis.timeline import Timeline
from harness.journal import FaultWindow
from harness.rundir import RunDir

TOGETHER_S: Final = 0.5
"""Events of one kind that are no further apart are one: the heals of a step, the partitions of a
leader that is replaced."""

_COLUMNS = ("kind", "process", "intended_ns", "invoke_ns", "complete_ns")


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
class Span:
    """The lost writes of one client, numbered from 1, or of all (null), in seconds since the run's
    start. Times are null where nothing was lost, `ended` too where no event is known."""

    client: int | None
    lost: int
    begun_s: tuple[float, float] | None = None
    acknowledged_s: tuple[float, float] | None = None
    began: Near | None = None
    ended: Near | None = None


def lost_spans(run: RunDir, plan: Mapping[str, Any], line: Timeline) -> list[Span]:
    """The span of all lost writes, then one of each client. Empty when nothing was lost."""
    process, begun_s, acknowledged_s = _lost(run)
    if not len(process):
        return []
    told = events(line)
    clients = int((plan.get("workload") or {}).get("clients") or 0)
    spans = [_span(None, begun_s, acknowledged_s, told)]
    for client in range(clients if clients > 1 else 0):
        of = (process != MISSING) & (process % clients == client)
        spans.append(_span(client + 1, begun_s[of], acknowledged_s[of], told))
    return spans


def _lost(run: RunDir) -> tuple[npt.NDArray[np.int64], Floats, Floats]:
    """Of every lost write its process, when it was begun and when it was acknowledged."""
    pieces: list[npt.NDArray[np.int64]] = [np.empty((3, 0), dtype=np.int64)]
    for table in tables(sorted(run.findings.glob("*.parquet")), _COLUMNS):
        is_lost = np.logical_or.reduce([equals(table, "kind", kind) for kind in LOST_KINDS])
        invoked = integers(table, "invoke_ns")
        begun = np.where(invoked == MISSING, integers(table, "intended_ns"), invoked)
        rows = np.stack([integers(table, "process"), begun, integers(table, "complete_ns")])
        pieces.append(rows[:, is_lost])
    process, begun_ns, complete_ns = np.concatenate(pieces, axis=1)
    # A history from elsewhere may hold no times.
    known = (begun_ns != MISSING) & (complete_ns != MISSING)
    return process[known], begun_ns[known] / 1e9, complete_ns[known] / 1e9


def _span(
    client: int | None, begun_s: Floats, acknowledged_s: Floats, told: Sequence[Event]
) -> Span:
    if not len(begun_s):
        return Span(client=client, lost=0)
    first, last = float(begun_s.min()), float(acknowledged_s.max())
    return Span(
        client=client,
        lost=len(begun_s),
        begun_s=(first, float(begun_s.max())),
        acknowledged_s=(float(acknowledged_s.min()), last),
        began=_nearest(first, told),
        ended=_nearest(last, told),
    )


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
