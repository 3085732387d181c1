"""The locks checker: whether two processes held one lock at the same time.

A process holds a lock from the answer to its `acquire` on, as long as it continues to confirm that:
a `confirm` that is answered by yes shows that it held the lock until then, at least until the
confirmation began. Where such spans of two processes overlap, both had reason to act alone.

What is not known makes no process a holder: an `acquire` without an answer, and the time after the
last confirmation. So a lock that passes to another when its holder's session ends is not an
overlap. Nor is an `acquire` that was never confirmed, whose session may have ended before its
answer came, unless all of it lies in the span of another process: wherever in it the lock was
granted, that process held it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from harness.protocols import DOUBTS, CheckResult, Count, OneShard, PrimaryFinding, Run, Statement
from harness.protocols.checkers import findings_table
from harness.protocols.runs import INVOKED, OK, Operations


class Found(NamedTuple):
    """`kind` is `held_twice`; spans are indices of the history: from the answer to the acquire to
    the beginning of the last confirmation; of an acquire that was never confirmed, from its
    beginning to its answer."""

    kind: str
    key: str
    process: int
    from_: int
    to: int
    other_process: int
    other_from: int
    other_to: int


class Span(NamedTuple):
    """A process certainly held a lock from one place of the history to another; not `confirmed`: it
    was granted the lock somewhere between them."""

    begin: int
    end: int
    process: int
    confirmed: bool = True


@dataclass
class Held:
    """The spans of a history by lock; how many acquires were attempted and answered. What is in
    progress, row after row: by process, where its operation began; by process and lock, the span
    for which it holds it."""

    attempted: int = 0
    acknowledged: int = 0
    confirmed: int = 0
    spans: dict[str, list[Span]] = field(default_factory=dict)
    begun: dict[int, int] = field(default_factory=dict)
    holds: dict[tuple[int, str], Span] = field(default_factory=dict)

    def take(self, part: Operations) -> None:
        f, keys = part.f.objects(), part.key.objects()
        for row in range(len(part.place)):
            process, place = int(part.process[row]), int(part.place[row])
            if part.mark[row] == INVOKED:
                self.begun[process] = place
                self.attempted += f[row] == "acquire"
                if f[row] == "release":
                    self.end(process, keys[row])
                continue
            began, ok = self.begun.pop(process, place), part.mark[row] == OK
            if f[row] == "acquire" and ok:
                self.acknowledged += 1
                self.end(process, keys[row])
                self.holds[process, keys[row]] = Span(began, place, process, confirmed=False)
            elif f[row] == "confirm" and ok and part.result[row] == 1:
                if span := self.holds.get((process, keys[row])):  # held when this began
                    self.confirmed += 1
                    begin = span.begin if span.confirmed else span.end
                    self.holds[process, keys[row]] = Span(begin, began, process)
            elif f[row] == "confirm":
                self.end(process, keys[row])

    def end(self, process: int, key: str) -> None:
        """It is no longer certain that the process holds a lock."""
        if span := self.holds.pop((process, key), None):
            self.spans.setdefault(key, []).append(span)


@dataclass(frozen=True)
class Locks(OneShard[Held]):
    """Locks that two processes held at the same time, each confirmed, or that one process was
    granted while another held them."""

    plugin: ClassVar[str] = "locks"
    models: ClassVar[frozenset[str]] = frozenset({"lock"})
    primary: ClassVar[PrimaryFinding] = PrimaryFinding(
        counter_examples=("held_twice",), noun="locks held twice", head="held twice"
    )
    counts: ClassVar[tuple[Count, ...]] = (
        Count("attempted", "acquires attempted"),
        Count("acknowledged", "locks taken"),
        Count("confirmed", "confirmations"),
        Count("held_twice", "held by two processes at the same time"),
    )

    def gather(self, run: Run) -> Held:
        held = Held()
        for part in run.operations():
            held.take(part)
        for process, key in list(held.holds):
            held.end(process, key)
        return held

    def judge(self, run: Run, held: Held) -> CheckResult:
        found = [
            Found(
                *("held_twice", key, one.process, one.begin, one.end),
                *(other.process, other.begin, other.end),
            )
            for key, spans in sorted(held.spans.items())
            for one, other in twice(spans)
        ]
        sentence = f"times that two processes held one lock together: {len(found):,}"
        vacuous = Statement(DOUBTS.vacuous, "no process confirmed that it held a lock")
        return CheckResult(
            counts={
                "attempted": held.attempted,
                "acknowledged": held.acknowledged,
                "confirmed": held.confirmed,
                "held_twice": len(found),
            },
            findings=findings_table(Found, found, run_id=run.facts.run_id),
            counter_examples=(Statement("held_twice", sentence),) if found else (),
            doubts=() if held.confirmed else (vacuous,),
            all_well=f"each of {held.acknowledged:,} locks taken had one holder at a time",
        )


def twice(spans: Sequence[Span]) -> Iterator[tuple[Span, Span]]:
    """Pairs of spans of two processes that overlap: each with the confirmed one before that ends
    last. One that is not confirmed must lie in that one."""
    last: Span | None = None
    for span in sorted(spans):
        by = span.begin if span.confirmed else span.end
        if last is not None and by < last.end and span.process != last.process:
            yield last, span
        if span.confirmed and (last is None or span.end > last.end):
            last = span
