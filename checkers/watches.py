"""The watches checker: what each client was notified of, against the changes that there were.

Of two successive watches of a key by one process, the first leaves a watch, and the second says
whether a notification for it had come by then, and which write it read. All writes have one order,
and their place in it is known of each that was acknowledged or read. So the second watch shows

    unnotified  it read a later write, but no notification had come: a client must see the event
                before it sees the change
    too_early   a notification had come, but it read no later write
    backwards   it read an earlier write
    merged      it read a later write, and more than one lie between: one notification stands for
                several changes, as watches are triggered once. Counted, and no fault

and any watch may show a write at another place than another client or the writer (`disagreed`).
A notification that is lost with its connection is not a missed one: the client says
so, and the watch no longer counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa

from harness.protocols import (
    DOUBTS,
    CheckResult,
    HasPrimaryFinding,
    OneShard,
    PrimaryFinding,
    Run,
    Statement,
)
from harness.protocols.runs import INVOKED, NULL, OK, Operations

_SENTENCES: Final = {
    "unnotified": "changes that a client read although no notification had come: {n}",
    "too_early": "notifications after which a client read no change: {n}",
    "backwards": "reads of a client that went back to an earlier write: {n}",
    "disagreed": "writes that stand at different places for different clients: {n}",
}
FINDINGS: Final = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("process", pa.int64(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        *(pa.field(name, pa.int64()) for name in ("index", "value", "place", "place_before")),
    ]
)
"""`kind` is a count above; `index` the row of the watch in the history, `value` and `place` the
write that it read, `place_before` that of the watch before, or of the other client's answer."""


class Watch(NamedTuple):
    """A watch that was answered."""

    row: int
    process: int
    key: str
    value: int
    notified: int
    place: int


@dataclass
class Seen:
    """The operations of a history: its watches in their order, the places of its writes by key and
    value, and how many there were."""

    attempted: int = 0
    acknowledged: int = 0
    places: dict[tuple[str, int], int] = field(default_factory=dict)
    watches: list[Watch] = field(default_factory=list)


@dataclass(frozen=True)
class Watches(OneShard[Seen], HasPrimaryFinding):
    """Changes of which a watching client was not notified, or too early, and clients that go back
    or disagree; notifications that stand for several changes are counted."""

    plugin: ClassVar[str] = "watches"
    models: ClassVar[frozenset[str]] = frozenset({"watch"})

    @property
    def primary(self) -> PrimaryFinding:
        """Anything that a watching client must not see."""
        return PrimaryFinding(
            counter_examples=tuple(_SENTENCES),
            noun="watches broken",
            adjective="with broken watches",
            head="watch broken",
            found="Watches missed changes or showed them out of order",
            none="No watch missed a change or showed one out of order",
            one="had a watch that missed a change or showed one out of order",
            some="had watches that missed changes or showed them out of order",
            does="breaks watches",
            do="break watches",
            can="break watches",
        )

    def gather(self, run: Run) -> Seen:
        """Gather what was written and watched."""
        seen = Seen()
        for part in run.operations():
            _take(seen, part)
        return seen

    def judge(self, run: Run, seen: Seen) -> CheckResult:
        """Compare successive watches."""
        found = [*_disagreements(seen), *_anomalies(seen.watches)]
        kinds = [kind for kind, _, _ in found]
        counts = {
            "attempted": seen.attempted,
            "acknowledged": seen.acknowledged,
            "watches": len(seen.watches),
            "notified": sum(watch.notified == 1 for watch in seen.watches),
            "merged": _merged(seen),
            **{kind: kinds.count(kind) for kind in _SENTENCES},
        }
        rows = [
            {
                "run_id": run.facts.run_id,
                "kind": kind,
                "process": watch.process,
                "key": watch.key,
                "index": watch.row,
                "value": None if watch.value == NULL else watch.value,
                "place": watch.place,
                "place_before": before,
            }
            for kind, watch, before in found
        ]
        return CheckResult(
            counts=counts,
            findings=pa.Table.from_pylist(rows, schema=FINDINGS),
            counter_examples=tuple(
                Statement(kind, sentence.format(n=f"{counts[kind]:,}"))
                for kind, sentence in _SENTENCES.items()
                if counts[kind]
            ),
            doubts=_doubts(counts),
            all_well=f"all {counts['notified']:,} notifications came before the changes were read",
        )


def _take(seen: Seen, part: Operations) -> None:
    """Take the operations of one part that completed."""
    f, keys, lists = part.f.objects(), part.key.objects(), part.elements
    seen.attempted += int(np.count_nonzero((f == "write") & (part.mark == INVOKED)))
    for row in np.flatnonzero(part.mark == OK).tolist():
        place = int(part.offset[row])
        if f[row] == "write":
            seen.acknowledged += 1
            if place != NULL:
                seen.places[keys[row], int(part.value[row])] = place
        elif lists.present[row]:
            value, notified = lists.values[lists.starts[row] : lists.starts[row + 1]].tolist()
            watch = Watch(
                int(part.place[row]), int(part.process[row]), keys[row], value, notified, place
            )
            seen.watches.append(watch)


Anomaly = tuple[str, Watch, int]
"""Its kind, the watch that shows it, and the place that contradicts it."""


def _pairs(watches: Sequence[Watch]) -> Iterator[tuple[Watch, Watch]]:
    """Each watch whose process had watched the same key before, with that one."""
    last: dict[tuple[int, str], Watch] = {}
    for watch in watches:
        before = last.get((watch.process, watch.key))
        if before is not None:
            yield before, watch
        last[watch.process, watch.key] = watch


def _anomalies(watches: Sequence[Watch]) -> Iterator[Anomaly]:
    for before, watch in _pairs(watches):
        if watch.place < before.place:
            yield "backwards", watch, before.place
        elif watch.place > before.place and watch.notified == 0:
            yield "unnotified", watch, before.place
        elif watch.place == before.place and watch.notified == 1:
            yield "too_early", watch, before.place


def _disagreements(seen: Seen) -> Iterator[Anomaly]:
    """Watches that read a write at another place than its writer, or the first that read it."""
    places = dict(seen.places)
    for watch in seen.watches:
        place = places.setdefault((watch.key, watch.value), watch.place)
        if place != watch.place:
            yield "disagreed", watch, place


def _merged(seen: Seen) -> int:
    """How many notifications stand for more than one change that is known."""
    by_key: dict[str, list[int]] = {}
    for (key, _), place in seen.places.items():
        by_key.setdefault(key, []).append(place)
    ordered = {key: np.sort(np.array(places)) for key, places in by_key.items()}
    merged = 0
    for before, watch in _pairs(seen.watches):
        if watch.notified == 1 and watch.key in ordered:
            first, last = np.searchsorted(
                ordered[watch.key], [before.place, watch.place], side="right"
            )
            merged += bool(last - first > 1)
    return merged


def _doubts(counts: dict[str, int]) -> tuple[Statement, ...]:
    if not counts["acknowledged"]:
        return (Statement(DOUBTS.vacuous, "no write was acknowledged"),)
    if not counts["notified"]:
        return (Statement(DOUBTS.vacuous, "no client was notified of anything"),)
    return ()
