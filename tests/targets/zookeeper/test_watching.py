"""Whether a notification came before an answer: by their order on the connection, not by a time."""

from __future__ import annotations

import threading

import pytest
from kazoo.protocol.states import Callback, EventType, KeeperState, WatchedEvent

from harness.protocols import NULL
from targets.zookeeper.clients import InOrder, Left

CHANGED = WatchedEvent(EventType.CHANGED, KeeperState.CONNECTED, "/ackloss/k")
LOST = WatchedEvent(EventType.NONE, KeeperState.CONNECTING, None)


@pytest.mark.parametrize(
    ("before", "after", "notified"),
    [
        ([CHANGED], [], 1),
        ([], [], 0),
        ([], [CHANGED], 0),  # it is of the next change
        ([LOST], [], NULL),
        ([], [LOST], 0),
    ],
)
def test_what_came_before_the_answer(
    before: list[WatchedEvent], after: list[WatchedEvent], notified: int
) -> None:
    handler = InOrder()
    left, answer = Left(handler.order), handler.async_result()
    for event in before:
        handler.dispatch_callback(Callback("watch", left, (event,)))
    answer.set("what was read")
    for event in after:
        handler.dispatch_callback(Callback("watch", left, (event,)))
    assert left.notified(answer.at) == notified


def test_an_event_counts_although_the_thread_of_callbacks_is_behind() -> None:
    """kazoo's own handler would call the watch once that thread is free, however late that is."""
    handler, free = InOrder(), threading.Event()
    handler.start()
    handler.dispatch_callback(Callback("session", free.wait, ()))
    left, answer = Left(handler.order), handler.async_result()
    handler.dispatch_callback(Callback("watch", left, (CHANGED,)))
    answer.set("what was read")
    assert left.notified(answer.at) == 1
    free.set()
    handler.stop()
