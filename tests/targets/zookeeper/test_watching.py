"""When a watch counts as triggered before an answer: kazoo's events have a thread of their own."""

from __future__ import annotations

import threading

import pytest
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from harness.protocols import NULL
from targets.zookeeper import clients
from targets.zookeeper.clients import Left, was_notified

CHANGED = WatchedEvent(EventType.CHANGED, KeeperState.CONNECTED, "/ackloss/k")
LOST = WatchedEvent(EventType.NONE, KeeperState.CONNECTING, None)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "_DISPATCH_S", 0.05)


@pytest.mark.parametrize(
    ("at", "event", "after", "notified"),
    [
        (11, CHANGED, None, 1),
        (11, None, None, 0),
        (11, LOST, None, NULL),
        (11, CHANGED, CHANGED, NULL),  # one event after the answer, perhaps
        (10, None, None, 0),
        (10, CHANGED, None, 1),  # too early
        (10, CHANGED, CHANGED, NULL),  # the change came after the answer
        (10, LOST, LOST, NULL),
    ],
)
def test_what_came_before_the_answer(
    at: int, event: WatchedEvent | None, after: WatchedEvent | None, notified: int
) -> None:
    before, left = Left(at=10), Left(at=at)
    for watch, what in ((before, event), (left, after)):
        if what is not None:
            watch(what)
    assert was_notified(before, left) == notified


def test_an_event_whose_thread_lags_behind_still_counts() -> None:
    before, left = Left(at=10), Left(at=11)
    timer = threading.Timer(0.01, before, (CHANGED,))
    timer.start()
    assert was_notified(before, left) == 1
    timer.join()
