"""The events at which the spans of lost writes begin and end.

`lost_spans` in result.json holds the spans: of all lost writes, and of each client. A client may
leave the old leader when another takes over, or stay until the network heals: the event nearest to
its last lost write shows which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from analysis.leadership import Leadership
from analysis.timeline import Timeline
from harness.history.documents import LostSpan
from harness.protocols import FaultWindow

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
        "was healed": [(f.to_s, f.id) for f in _in_force(line.faults) if f.to_s is not None],
        "took over": list(_takeovers(line.leadership)),
    }
    found = [event for verb, each in kinds.items() for event in _together(verb, sorted(each))]
    return sorted(found, key=lambda event: event.at_s)


def _in_force(faults: Sequence[FaultWindow]) -> Iterator[FaultWindow]:
    return (fault for fault in faults if fault.from_s is not None)


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
        yield Event(what=f"{subject} {verb if len(names) == 1 else _plural(verb)}", at_s=first_s)


def _plural(verb: str) -> str:
    return verb.replace("was ", "were ")
