"""What is asked of one ZooKeeper server, and what becomes of its answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from kazoo.protocol.serialization import Delete

from harness.faults.own_traffic import NoAnswer
from targets.zookeeper import asking
from tests.fixtures.fake_zookeeper import GET_CHILDREN, GET_DATA, HERE, Server

pytestmark = pytest.mark.real_time


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made = Server()
    monkeypatch.setattr(asking, "CLIENT_PORT", made.port)
    yield made
    asking._sessions.of.pop(HERE, None)
    with suppress(OSError):
        made.close()


def test_a_session_is_made_once_and_kept(server: Server) -> None:
    assert asking.get(HERE, "/a", timeout_s=2) == b"data"
    assert asking.children(HERE, "", timeout_s=2) == ["a"]
    assert server.sessions == 1
    assert server.asked == [(GET_DATA, "/a"), (GET_CHILDREN, "")]


def test_a_znode_that_is_not_there_is_none(server: Server) -> None:
    assert asking.get(HERE, "/b", timeout_s=2) is None
    assert asking.children(HERE, "/b", timeout_s=2) == []
    assert server.sessions == 1, "an answer is no reason to connect again"


def test_parents_are_made_where_they_are_missing(server: Server) -> None:
    asking.create(HERE, "/x/y/z", b"deep", timeout_s=2)
    assert {path: server.znodes[path] for path in ("/x", "/x/y", "/x/y/z")} == {
        "/x": b"",
        "/x/y": b"",
        "/x/y/z": b"deep",
    }
    asking.create(HERE, "/x/y/z", b"other", timeout_s=2)
    assert server.znodes["/x/y/z"] == b"deep", "what is there is left as it is"


def test_another_refusal_of_the_server_is_reported(server: Server) -> None:
    asking.create(HERE, "/a/b", b"", timeout_s=2)
    with pytest.raises(asking.ZookeeperError, match="error -111"):
        asking.ask(HERE, Delete("/a", -1), timeout_s=2)
    assert "/a" in server.znodes


def test_what_is_no_answer_to_the_request_is_passed_over(server: Server) -> None:
    server.mishaps = ["notify"]
    assert asking.get(HERE, "/a", timeout_s=2) == b"data"


def test_a_session_that_was_lost_is_made_anew_once(server: Server) -> None:
    asking.get(HERE, "/a", timeout_s=2)
    server.mishaps = ["close"]
    assert asking.get(HERE, "/a", timeout_s=2) == b"data"
    assert server.sessions == 2
    server.mishaps = ["close", "close"]
    with pytest.raises(NoAnswer, match="the server closed the connection"):
        asking.get(HERE, "/a", timeout_s=2)
    assert server.sessions == 3
    assert asking.get(HERE, "/a", timeout_s=2) == b"data"


def test_a_new_session_that_is_closed_is_no_answer(server: Server) -> None:
    server.mishaps = ["close"]
    with pytest.raises(NoAnswer, match=rf"{HERE}:{server.port}: the server closed the connection"):
        asking.get(HERE, "/a", timeout_s=2)
    assert server.sessions == 1


def test_a_silent_server_is_no_answer_in_time(server: Server) -> None:
    server.mishaps = ["silence"]
    with pytest.raises(NoAnswer, match="timed out"):
        asking.get(HERE, "/a", timeout_s=0.2)


def test_nobody_there_is_no_answer(server: Server) -> None:
    server.close()
    with pytest.raises(NoAnswer):
        asking.get(HERE, "/a", timeout_s=1)
