"""What a consumer's process reports of its commits: when they began, and which were refused for
sure. Without a library: time is virtual, and the test gives its answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from harness.protocols.groups import KINDS
from targets.kafka.groups import loop
from targets.kafka.groups.loop import Answer, ConsumerLoop, HandedOver, Offsets, Record, Where

SETUP = {
    "topic": "t", "commit": "after", "commit_partitions": "own", "batch_count": 2, "process_ms": 0,
}  # fmt: skip
REFUSED = "UNKNOWN_MEMBER_ID"
Said = dict[str, Any]


class Clock:
    """A clock that only tests move."""

    def __init__(self) -> None:
        self.ms = 100

    def monotonic_ns(self) -> int:
        return self.ms * 1_000_000

    def sleep(self, wait_s: float) -> None:
        self.ms += round(wait_s * 1000)


class LoopOnAMock(ConsumerLoop):
    """Polls and answers what a test says."""

    def __init__(self, clock: Clock, **setup: Any) -> None:
        self.clock, self.said = clock, list[Said]()
        self.polls: list[Callable[[], list[Record]]] = []
        self.error: str | None = None
        self.answers_after_ms = 0
        super().__init__({**SETUP, **setup})
        self.report = self  # type: ignore[assignment]  # says it here instead of in lines

    def say(self, f: str, where: Where = (), **more: Any) -> None:
        self.said.append({"f": f, "where": list(where), "at": self.clock.ms, **more})

    def poll(self) -> list[Record]:
        self._leaving = len(self.polls) == 1
        return self.polls.pop(0)()

    def commit_and_wait(self, offsets: Offsets) -> Iterable[Answer]:
        self.clock.ms += self.answers_after_ms
        return [self.answer(*each) for each in offsets.items()]

    def answer(self, partition: int, offset: int) -> Answer:
        return Answer(partition, offset, self.error, refused=self.error == REFUSED)

    def commit_soon(self, offsets: Offsets) -> None:
        """Answered when a test says so."""

    def close(self) -> None:
        """There is nothing to leave."""

    def identity(self) -> tuple[str | None, int | None]:
        return "member", 1

    def reported(self, *types: str) -> list[Said]:
        """Rows of commits, of some types."""
        return [each for each in self.said if each["f"] == KINDS.commit and each["type_"] in types]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(loop, "time", made)
    monkeypatch.setattr(loop.signal, "signal", lambda *_: None)
    return made


def assigned(one: LoopOnAMock, *partitions: int) -> list[Record]:
    one.assigned(dict.fromkeys(partitions, 0), one.clock.monotonic_ns())
    return []


def test_an_auto_commit_that_is_reported_after_a_pause_began_before_it(clock: Clock) -> None:
    one = LoopOnAMock(clock, commit="auto")

    def after_the_pause() -> list[Record]:
        clock.ms += 14_000
        one.answered([one.answer(0, 2)])
        return []

    clock.ms = 1000
    one.polls = [lambda: assigned(one, 0), lambda: [(0, 0, 10), (0, 1, 11)], after_the_pause]
    one.run()
    (commit,) = one.reported("ok")
    assert (commit["begun_ns"], commit["at"]) == (1000 * 1_000_000, 15_000)


def test_the_first_poll_that_came_so_far_is_when_a_commit_began_at_the_earliest() -> None:
    handed = HandedOver()
    handed.assigned(0, 5)
    handed.note([(0, 0, 1), (0, 1, 1), (1, 7, 1)], 10)
    handed.note([(0, 2, 1)], 20)
    assert [handed.since(0, offset) for offset in (1, 2, 3)] == [10, 10, 20]
    assert handed.since(1, 8) == 10
    assert handed.since(0, 4) == 5, "nothing was handed over: where it was assigned"
    handed.note([(0, 1, 1)], 30)  # it went back
    assert handed.since(0, 2) == 10


@pytest.mark.parametrize(("after_ms", "ended"), [(10, "fail"), (120, "info"), (14_000, "info")])
def test_a_refusal_that_may_be_of_a_second_attempt_refuses_nothing(
    clock: Clock, after_ms: int, ended: str
) -> None:
    """The first may have been kept, and its answer be lost."""
    one = LoopOnAMock(clock)
    one.error, one.answers_after_ms = REFUSED, after_ms
    one.polls = [lambda: assigned(one, 0), lambda: [(0, 0, 10)]]
    one.run()
    (commit,) = one.reported("ok", "fail", "info")
    assert (commit["type_"], commit["error"]) == (ended, REFUSED)


@pytest.mark.parametrize(("again", "ended"), [(True, "info"), (False, "fail")])
def test_nor_does_a_late_one_of_a_commit_that_nobody_waits_for_if_it_is_sent_again(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, again: bool, ended: str
) -> None:
    monkeypatch.setattr(LoopOnAMock, "sends_again", again)
    one = LoopOnAMock(clock, commit="async")
    one.error = REFUSED

    def later() -> list[Record]:
        clock.ms += 500
        one.answered([one.answer(0, 1)])
        return []

    one.polls = [lambda: assigned(one, 0), lambda: [(0, 0, 10)], later]
    one.run()
    (commit,) = one.reported("ok", "fail", "info")
    assert (commit["type_"], commit["begun_ns"]) == (ended, one.reported("invoke")[0]["begun_ns"])


@pytest.mark.parametrize(("which", "named"), [("own", [[1]]), ("read", [[0, 1]])])
def test_it_commits_what_it_owns_or_all_that_it_has_read(
    clock: Clock, which: str, named: list[list[int]]
) -> None:
    one = LoopOnAMock(clock, commit_partitions=which)

    def taken_over() -> list[Record]:
        one.revoked([0])
        return [(1, 0, 20)]

    one.polls = [lambda: assigned(one, 0, 1), lambda: [(0, 0, 10)], taken_over]
    one.run()
    begun = [sorted(p for p, _, _ in each["where"]) for each in one.reported("invoke")]
    assert begun == [[0], *named]
