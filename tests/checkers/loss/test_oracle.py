"""Random histories, judged all in one Spark job, against a plain-Python reading of the truth rules.

The oracle goes over rows, not over bits: it shares nothing with the checker but the words.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.checkers.conftest import Judge, Judged
from tests.fixtures import budget
from tests.fixtures.hand_made import E, Made, R, W

pytestmark = pytest.mark.slow

EXAMPLES = budget.examples(200)  # fewer would not have enough of each anomaly
PARTITIONS = 3
CLIENTS = 2

values = st.integers(-3, 140) | st.integers(-3, 140) | st.sampled_from([2**62, -(2**62)])
keys = st.sampled_from([None, None, None, "x", "y"])
offsets = st.integers(0, 12)


@st.composite
def writes(draw: st.DrawFn) -> list[W]:
    chosen = draw(st.lists(values, unique=True, max_size=14))
    made = []
    for value in chosen:
        end = draw(st.sampled_from("oooofi."))
        made.append(
            W(
                value,
                end,
                partition=draw(st.integers(0, PARTITIONS - 1)),
                offset=draw(st.none() | offsets),
                key=draw(keys),
                # A write that was neither begun nor answered leaves no row.
                invoked=end == "." or draw(st.sampled_from([True, True, True, False])),
            )
        )
    return made


@st.composite
def runs(draw: st.DrawFn) -> Made:
    """Mostly what a cluster would do, with every anomaly drawn now and then."""
    written = draw(writes())
    readers = draw(st.sampled_from([("a",), ("a", "b"), ("a", "b")]))
    reads: list[R] = []
    for reader in readers:
        if reader == "b" and draw(st.booleans()):
            reads += [read._replace(reader="b") for read in reads]
            continue
        for write in written:
            for _ in range(draw(st.sampled_from([0, 1, 1, 1, 1, 2]))):
                away = draw(st.sampled_from([0] * 19 + [1]))
                partition = (write.partition or 0) + away
                place = draw(offsets)
                reads.append(R(write.value, partition % PARTITIONS, place, reader, write.key))
        for value in draw(st.lists(values, max_size=1)) if draw(st.booleans()) else ():
            reads.append(R(value, 0, draw(offsets), reader, draw(keys)))
    ends = [
        E(
            partition=partition,
            # No reader comes past offsets without a record: that would be a gap in its folder.
            position=draw(st.sampled_from([1000, 1000, 6]))
            if any((read.reader, read.partition) == (reader, partition) for read in reads)
            else 0,
            start=draw(st.sampled_from([0, 4, 9])),
            isr=draw(st.sampled_from([3, 3, 2])),
            complete=draw(st.sampled_from([True, True, False])),
            reader=reader,
        )
        for reader in readers
        for partition in range(draw(st.sampled_from([3, 3, 3, 2])))
    ]
    acks = draw(st.sampled_from(["all", "all", 1, 0]))
    workload = {"producer": {"acks": acks}, "clients": CLIENTS}
    plan = {"topic": {"partitions": PARTITIONS}, "workload": workload}
    return Made(writes=written, reads=reads, ends=ends, plan=plan)


@dataclass
class Oracle:
    """Truth rules 3 and 5, value by value."""

    made: Made
    counts: Counter[str] = field(default_factory=Counter)
    kinds: set[tuple[str, str | None, int]] = field(default_factory=set)

    def judge(self) -> None:
        written = {(write.key, write.value): write for write in self.made.writes}
        places: dict[tuple[str | None, int], set[tuple[int, int]]] = {}
        for read in self.made.reads:
            assert read.offset is not None
            complete = self.complete(read.partition)
            if not complete or read.reader == complete[0].reader:
                places.setdefault((read.key, read.value), set()).add((read.partition, read.offset))
        for thing in written.keys() | places.keys():
            self._judge(thing, written.get(thing), places.get(thing, set()))
        if number := self._swapped(places):
            self.counts["swapped"] = number

    def _swapped(self, places: dict[tuple[str | None, int], set[tuple[int, int]]]) -> int:
        """Acknowledged records whose first copy stands behind one that was sent later."""
        streams: dict[tuple[int, int | None], list[int]] = {}
        for process, write in enumerate(self.made.writes):
            at = [o for p, o in places.get((write.key, write.value), ()) if p == write.partition]
            if at and write.invoked and write.end == "o":
                streams.setdefault((process % CLIENTS, write.partition), []).append(min(at))
        return sum(
            min(places[n:]) < place for places in streams.values() for n, place in enumerate(places)
        )

    def complete(self, partition: int) -> list[E]:
        """The readers that read a partition to its end."""
        return [end for end in self.made.ends if end.partition == partition and end.complete]

    def contradicted(self) -> bool:
        """Whether two complete readers read different records of a partition."""
        for partition in range(PARTITIONS):
            ends = self.complete(partition)
            start = max((end.start or 0 for end in ends), default=0)
            read = [
                sorted(
                    (r.offset or 0, r.value, r.key or "")
                    for r in self.made.reads
                    if (r.reader, r.partition) == (end.reader, partition)
                    and (r.offset or 0) >= start
                )
                for end in ends
            ]
            if any(each != read[0] for each in read[1:]):
                return True
        return False

    def _judge(
        self, thing: tuple[str | None, int], write: W | None, places: set[tuple[int, int]]
    ) -> None:
        at_home = {place for place in places if write and place[0] == write.partition}
        if places - at_home:
            self._found(thing, "unexpected")
        if len(places) > 1:
            self.counts["duplicates"] += len(places) - 1
            self.kinds.add(("duplicate", *thing))
        if write is None:
            return
        self.counts["attempted"] += 1
        fire_and_forget = self.made.plan["workload"]["producer"]["acks"] == 0
        state = {"o": "acknowledged", "f": "failed", "i": "unknown", ".": "unknown"}[write.end]
        if state == "acknowledged" and fire_and_forget:
            state = "sent"
        if len(places) > 1 and state in ("acknowledged", "unknown"):
            self.counts[f"duplicates_{state}"] += len(places) - 1
        self.counts[state] += 1
        if at_home:
            self.counts["survivors"] += 1
            if state != "acknowledged":
                self.counts["unacknowledged_found"] += 1
            if state == "failed":
                self._found(thing, "failed_found")
            elif state == "unknown":
                self.counts["unknown_found"] += 1
        elif state == "acknowledged":
            self._absent(thing, write)

    def _absent(self, thing: tuple[str | None, int], write: W) -> None:
        assert write.partition is not None
        reported = self.complete(write.partition)
        sure = any(end.isr == 3 for end in reported)
        read_to = min((end.position or 0 for end in reported), default=0)
        start = max((end.start or 0 for end in reported), default=0)
        unknown = write.offset is None
        if not reported or (not sure and (unknown or write.offset >= read_to)):  # type: ignore[operator]
            self._found(thing, "not_yet_visible")
        elif start > 0 and (unknown or write.offset < start):  # type: ignore[operator]
            self.counts["lost"] += 1
            self._found(thing, "deleted")
        else:
            self._found(thing, "lost")

    def _found(self, thing: tuple[str | None, int], kind: str) -> None:
        self.counts[kind] += 1
        self.kinds.add((kind, *thing))


@cache
def examples() -> list[Made]:
    """What hypothesis draws, the smallest first; the same in every run."""
    drawn: list[Made] = []

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(runs())
    def draw(made: Made) -> None:
        drawn.append(made)

    draw()
    return sorted(drawn, key=lambda made: len(made.writes) + len(made.reads))


@pytest.fixture(scope="module")
def judged(judge: Judge) -> list[tuple[Made, Judged]]:
    made = {f"random-{number:04d}": each for number, each in enumerate(examples())}
    reported = judge(made)
    return [(each, reported[name]) for name, each in made.items()]


def test_the_examples_have_every_anomaly(judged: list[tuple[Made, Judged]]) -> None:
    seen: Counter[str] = Counter()
    for _, reported in judged:
        seen.update(reported.counted().keys())
    assert min(seen.values()) >= EXAMPLES // 40, seen
    assert set(seen) == set(judged[0][1].document["counts"])


def test_counts_are_those_of_the_oracle(judged: list[tuple[Made, Judged]]) -> None:
    for made, reported in judged:
        oracle = Oracle(made)
        oracle.judge()
        assert reported.counted() == dict(oracle.counts), made


def test_findings_are_those_of_the_oracle(judged: list[tuple[Made, Judged]]) -> None:
    for made, reported in judged:
        oracle = Oracle(made)
        oracle.judge()
        found = {(row["kind"], row["key"], row["value"]) for row in reported.findings}
        assert found == oracle.kinds, made


def test_what_was_sent_adds_up(judged: list[tuple[Made, Judged]]) -> None:
    for made, reported in judged:
        counts: dict[str, Any] = reported.document["counts"]
        found = counts["acknowledged"] + counts["unacknowledged_found"]
        assert found == counts["survivors"] + counts["lost"] + counts["not_yet_visible"], made


def test_readers_that_contradict_each_other_make_a_run_unknown(
    judged: list[tuple[Made, Judged]],
) -> None:
    contradicted = [reported for made, reported in judged if Oracle(made).contradicted()]
    assert len(contradicted) > EXAMPLES // 25
    for reported in contradicted:
        assert reported.document["verdict"] == "unknown"
        assert "readers" in reported.document["doubts"]
        assert not reported.document["counter_examples"]


def test_invalid_runs_were_read_by_two(judged: list[tuple[Made, Judged]]) -> None:
    invalid = [made for made, reported in judged if reported.document["verdict"] == "invalid"]
    assert len(invalid) > EXAMPLES // 20
    for made in invalid:
        assert any(len(Oracle(made).complete(partition)) == 2 for partition in range(PARTITIONS))


def test_no_verdict_is_valid_where_something_is_missing(judged: list[tuple[Made, Judged]]) -> None:
    for made, reported in judged:
        if reported.document["verdict"] == "valid":
            counts = reported.document["counts"]
            assert reported.document["complete"], made
            assert counts["lost"] + counts["not_yet_visible"] + counts["unexpected"] == 0, made
