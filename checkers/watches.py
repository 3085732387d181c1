"""The watches checker: what each client was notified of, against the changes that there were.

Of two successive watches of a key by one process, the first leaves a watch, and the second says
whether a notification for it had come by then, and which write it read. All writes have one order,
and their place in it is known of each that was acknowledged or read. So the second watch shows

    unnotified  it read a later write, but no notification had come: a client must see the event
                before it sees the change
    too_early   a notification had come, but it read no later write
    backwards   in the same session it read an earlier write, or one before the last write of the
                key that had been acknowledged to the process itself
    merged      it read a later write, and more than one lie between: one notification stands for
                several changes, as watches are triggered once. Counted, and no fault

and any watch may show

    disagreed     a write at another place than another client or its writer has it, or another
                  write at that place; so may a writer
    unexpected    a value that nobody had begun to write to the key by then
    failed_found  a value whose write failed

A write of unknown outcome may have any place. A notification that is lost with its connection is
not a missed one: the client says so, and the watch no longer counts. What a process has seen or
written binds what it reads in the same session; another session, or one that is not known, may be
with a server that is behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

import numpy as np

from harness.protocols import DOUBTS, CheckResult, Count, OneShard, PrimaryFinding, Run, Statement
from harness.protocols.checkers import counter_examples, findings_table
from harness.protocols.runs import FAIL, INVOKED, NULL, OK, Operations

_WRONG: Final = (
    Count(
        "unnotified", "unnotified", "changes that a client read although no notification had come"
    ),
    Count("too_early", "too early", "notifications after which a client read no change"),
    Count("backwards", "backwards", "reads of a client that went back to an earlier write"),
    Count(
        "disagreed",
        "disagreed",
        "answers that disagree with another one about the place of a write",
    ),
    Count("unexpected", "unexpected", "reads of values that nobody had written to the key"),
    Count("failed_found", "failed, found", "reads of values whose write had failed"),
)


class Found(NamedTuple):
    """`kind` is a count above; `index_` the row of the watch in the history (or of the write that
    disagrees with another write), `value` and `place` the write that it read, `place_before` that
    of the watch or write before, or of the other client's answer."""

    kind: str
    process: int
    key: str
    index_: int | None
    value: int | None
    place: int | None
    place_before: int | None


class Answer(NamedTuple):
    """A watch that was answered, or a write that was acknowledged with its place. `wrote`: the
    place of the last write of the key that the process had been acknowledged in this session, NULL
    for none."""

    row: int
    process: int
    key: str
    value: int
    place: int
    notified: int = NULL
    session: int = NULL
    wrote: int = NULL


@dataclass
class Seen:
    """The operations of a history: its watches and the writes whose places are known, in their
    order; by key and value, the row at which each write began, and those that failed."""

    attempted: int = 0
    acknowledged: int = 0
    begun: dict[tuple[str, int], int] = field(default_factory=dict)
    failed: set[tuple[str, int]] = field(default_factory=set)
    writes: list[Answer] = field(default_factory=list)
    watches: list[Answer] = field(default_factory=list)


@dataclass(frozen=True)
class Watches(OneShard[Seen]):
    """Changes of which a watching client was not notified, or too early, clients that go back or
    disagree, and reads of what was not written; merged notifications are counted."""

    plugin: ClassVar[str] = "watches"
    models: ClassVar[frozenset[str]] = frozenset({"watch"})
    primary: ClassVar[PrimaryFinding] = PrimaryFinding(
        counter_examples=tuple(each.name for each in _WRONG),
        noun="broken watches",
        head="watch broken",
    )
    counts: ClassVar[tuple[Count, ...]] = (
        Count("attempted", "writes attempted"),
        Count("acknowledged", "acknowledged"),
        Count("watches", "watches answered"),
        Count("notified", "notified of a change"),
        Count("merged", "notifications of several changes"),
        *_WRONG,
    )

    def gather(self, run: Run) -> Seen:
        seen, wrote = Seen(), dict[tuple[int, str, int], int]()
        for part in run.operations():
            _take(seen, wrote, part)
        return seen

    def judge(self, run: Run, seen: Seen) -> CheckResult:
        found = [*_disagreements(seen), *_strange(seen), *_anomalies(seen.watches)]
        kinds = [kind for kind, _, _ in found]
        counts = {
            "attempted": seen.attempted,
            "acknowledged": seen.acknowledged,
            "watches": len(seen.watches),
            "notified": sum(watch.notified == 1 for watch in seen.watches),
            "merged": _merged(seen),
            **{each.name: kinds.count(each.name) for each in _WRONG},
        }
        rows = [
            Found(
                *(kind, watch.process, watch.key, watch.row),
                *(_known(watch.value), _known(watch.place), before),
            )
            for kind, watch, before in found
        ]
        return CheckResult(
            counts=counts,
            findings=findings_table(Found, rows, run_id=run.facts.run_id),
            counter_examples=counter_examples(_WRONG, counts),
            doubts=_doubts(counts),
            all_well=f"all {counts['notified']:,} notifications came before the changes were read",
        )


def _take(seen: Seen, wrote: dict[tuple[int, str, int], int], part: Operations) -> None:
    """Take the operations of one part. `wrote`: the place of the last write of each process, key
    and session that was acknowledged."""
    f, keys, lists = part.f.objects(), part.key.objects(), part.elements
    for row in range(len(part.place)):
        index, process, key = int(part.place[row]), int(part.process[row]), keys[row]
        mark, place = part.mark[row], int(part.offset[row])
        answer = lists.values[lists.starts[row] : lists.starts[row + 1]].tolist()
        if f[row] == "write":
            value = int(part.value[row])
            seen.attempted += int(mark == INVOKED)
            seen.acknowledged += int(mark == OK)
            seen.begun.setdefault((key, value), index)
            if mark == FAIL:
                seen.failed.add((key, value))
            if mark == OK and place != NULL:
                wrote[process, key, _session(answer, 0)] = place
                seen.writes.append(Answer(index, process, key, value, place))
        elif mark == OK and lists.present[row]:
            value, notified = answer[:2]
            session = _session(answer, 2)
            own = NULL if session == NULL else wrote.get((process, key, session), NULL)
            seen.watches.append(Answer(index, process, key, value, place, notified, session, own))


def _session(answer: Sequence[int], before: int) -> int:
    """The session at the end of an answer; NULL of a run of an earlier version, which had none."""
    return answer[before] if len(answer) > before else NULL


def _known(number: int) -> int | None:
    return None if number == NULL else number


Anomaly = tuple[str, Answer, int | None]
"""Its kind, the answer that shows it, and the place that contradicts it."""


def _pairs(watches: Sequence[Answer]) -> Iterator[tuple[Answer | None, Answer]]:
    """Each watch with the one before it of the same process and key, `None` for the first."""
    last: dict[tuple[int, str], Answer] = {}
    for watch in watches:
        yield last.get((watch.process, watch.key)), watch
        last[watch.process, watch.key] = watch


def _anomalies(watches: Sequence[Answer]) -> Iterator[Anomaly]:
    for before, watch in _pairs(watches):
        bound = watch.wrote
        if before is not None and before.session == watch.session != NULL:
            bound = max(bound, before.place)
        if watch.place < bound:
            yield "backwards", watch, bound
        elif before is None:
            continue
        elif watch.place > before.place and watch.notified == 0:
            yield "unnotified", watch, before.place
        elif watch.place == before.place and watch.notified == 1:
            yield "too_early", watch, before.place


def _disagreements(seen: Seen) -> Iterator[Anomaly]:
    """Answers that have a write at another place than its writer, or the first that read it; or
    another write at a place. There is one order of the writes of all keys."""
    place_of: dict[tuple[str, int], int] = {}
    write_at: dict[int, tuple[str, int]] = {}
    for answer in (*seen.writes, *seen.watches):
        if NULL in (answer.value, answer.place):
            continue
        write = answer.key, answer.value
        place = place_of.setdefault(write, answer.place)
        if place != answer.place or write_at.setdefault(place, write) != write:
            yield "disagreed", answer, place


def _strange(seen: Seen) -> Iterator[Anomaly]:
    """Watches that read what had not been written, or whose write failed."""
    for watch in seen.watches:
        write = watch.key, watch.value
        if watch.value == NULL:
            continue
        if seen.begun.get(write, watch.row) >= watch.row:
            yield "unexpected", watch, None
        elif write in seen.failed:
            yield "failed_found", watch, None


def _merged(seen: Seen) -> int:
    """How many notifications stand for more than one change that is known."""
    by_key: dict[str, list[int]] = {}
    for write in seen.writes:
        by_key.setdefault(write.key, []).append(write.place)
    ordered = {key: np.unique(np.array(places)) for key, places in by_key.items()}
    merged = 0
    for before, watch in _pairs(seen.watches):
        if before is not None and watch.notified == 1 and watch.key in ordered:
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
