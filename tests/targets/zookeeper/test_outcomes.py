"""Every code of ZooKeeper, answered by a server that has done what was requested: kazoo sends the
request once, and only what proves a refusal ends an operation in fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from kazoo.exceptions import EXCEPTIONS, ConnectionLoss, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError

from harness.protocols import FAIL, INFO, NULL, OK, invoke
from targets.zookeeper import clients as sessions
from targets.zookeeper.clients import (
    NOT_CONNECTED,
    REFUSED,
    UNPROVEN,
    LockClient,
    RegisterClient,
    SequenceClient,
    Session,
    SetClient,
    WatchClient,
    outcome,
)
from tests.fixtures.fake_zookeeper import CREATE, HERE, Server

pytestmark = pytest.mark.slow

SET = "/ackloss/set"
ANSWERED = [code for code in (*REFUSED, *UNPROVEN) if code in EXCEPTIONS]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made = Server()
    made.znodes |= {"/ackloss": b"", SET: b""}
    monkeypatch.setattr(sessions, "CLIENT_PORT", made.port)
    yield made
    with suppress(OSError):
        made.close()


@pytest.fixture
def session(server: Server) -> Iterator[Session]:
    made = Session([HERE], {HERE: "z1"}, session_ms=12_000, request_ms=3000)
    yield made
    made.close()


def added(server: Server) -> list[str]:
    return [path for kind, path in server.asked if kind == CREATE]


def test_no_code_stands_in_both_tables() -> None:
    assert not REFUSED.keys() & UNPROVEN.keys()
    assert all(0 > code >= -127 for code in (*REFUSED, *UNPROVEN))


@pytest.mark.parametrize("code", ANSWERED)
def test_a_request_is_sent_once_and_its_code_decides(
    server: Server, session: Session, code: int
) -> None:
    assert session.connected()
    server.codes = [code]
    type_, _, error, node, _ = SetClient(session, parent="/ackloss", sync=False).call(
        invoke("add", 7)
    )
    assert type_ == (FAIL if code in REFUSED else INFO)
    assert error
    assert node == "z1"
    assert added(server) == [f"{SET}/7"], "kazoo's retries are not used"


def test_a_lost_connection_proves_nothing_and_nothing_is_sent_again(
    server: Server, session: Session
) -> None:
    assert session.connected()
    server.codes = [None]
    client = SetClient(session, parent="/ackloss", sync=False)
    assert client.call(invoke("add", 7))[:3] == (INFO, None, "ConnectionLoss")
    assert f"{SET}/7" in server.znodes, "it was applied all the same"
    assert client.call(invoke("add", 8))[0] == OK
    assert added(server) == [f"{SET}/7", f"{SET}/8"]


def test_an_answer_that_does_not_come_raises(server: Server, session: Session) -> None:
    assert session.connected()
    server.mishaps = ["silence", "close"]
    with pytest.raises(KazooTimeoutError):
        SetClient(session, parent="/ackloss", sync=False).call(invoke("add", 7))


def test_without_a_connection_nothing_is_handed_over(server: Server) -> None:
    server.close()
    session = Session([HERE], {HERE: "z1"}, session_ms=1000, request_ms=200)
    ended = SetClient(session, parent="/ackloss", sync=False).call(invoke("add", 7))
    session.close()
    assert ended[:3] == (FAIL, None, NOT_CONNECTED)
    assert added(server) == []


@pytest.mark.parametrize("error", [ConnectionLoss(), SessionExpiredError(), ValueError("x")])
def test_what_is_no_code_of_a_server_proves_nothing(error: Exception) -> None:
    assert outcome(error)[0] == INFO


def test_a_set_is_its_children_and_a_sync_comes_first_where_it_is_requested(
    server: Server, session: Session
) -> None:
    client = SetClient(session, parent="/ackloss", sync=True)
    for value in (3, 5):  # each with the zxid of its answer, which this server never raises
        assert client.call(invoke("add", value)) == (OK, 1, None, "z1", None)
    asked = len(server.asked)
    type_, *_, result = client.call(invoke("read"))
    assert (type_, sorted(result or ())) == (OK, [3, 5])
    assert server.asked[asked:] == [(9, "/ackloss"), (8, SET)]


def test_a_register_is_made_by_its_first_write(server: Server, session: Session) -> None:
    client = RegisterClient(session, parent="/ackloss", sync=False)
    assert client.call(invoke("read", key="k"))[::4] == (OK, None)
    assert client.call(invoke("write", 1, key="k"))[0] == OK
    assert client.call(invoke("write", 2, key="k"))[0] == OK
    assert client.call(invoke("read", key="k"))[::4] == (OK, 2)
    assert client.call(invoke("cas", 3, key="k", expected=9))[::2] == (FAIL, "Differs", None)
    assert client.call(invoke("cas", 3, key="k", expected=2))[0] == OK
    assert server.znodes["/ackloss/k"] == b"3"


def test_a_compare_and_set_that_another_preceded_is_refused(
    server: Server, session: Session
) -> None:
    client = RegisterClient(session, parent="/ackloss", sync=False)
    assert client.call(invoke("write", 1, key="k"))[0] == OK

    class Refusing(RegisterClient):
        def synced(self) -> None: ...

    original = session.wait

    def wait(asked: object) -> object:
        answer = original(asked)
        server.codes = [-103]  # its next request, the conditional set
        return answer

    session.wait = wait  # type: ignore[method-assign]
    ended = Refusing(session, parent="/ackloss", sync=False).call(
        invoke("cas", 3, key="k", expected=1)
    )
    assert ended[:3] == (FAIL, None, "BadVersion")


def test_a_sequential_znode_has_the_number_that_its_name_ends_in(
    server: Server, session: Session
) -> None:
    server.znodes["/ackloss/sequence"] = b""
    client = SequenceClient(session, parent="/ackloss", sync=False)
    (first, one, *_), (second, other, *_) = (client.call(invoke("next", n)) for n in (5, 6))
    assert (first, second) == (OK, OK)
    assert one is not None
    assert other is not None
    assert one < other
    assert server.znodes[f"/ackloss/sequence/n-{other:010}"] == b"6"


def test_a_lock_is_the_znode_of_this_session(server: Server, session: Session) -> None:
    server.znodes["/ackloss/locks"] = b""
    client = LockClient(session, parent="/ackloss", sync=True)
    assert client.call(invoke("acquire", 1, key="k"))[0] == OK
    assert client.call(invoke("acquire", 2, key="k"))[:3] == (FAIL, None, "NodeExists")
    assert client.call(invoke("confirm", key="k"))[::4] == (OK, 1)
    server.owners["/ackloss/locks/k"] = 99
    assert client.call(invoke("confirm", key="k"))[::4] == (OK, 0)
    assert client.call(invoke("release", 3, key="k"))[:3] == (FAIL, None, "Differs")
    assert "/ackloss/locks/k" in server.znodes, "it is another's"
    server.owners["/ackloss/locks/k"] = server.sessions
    assert client.call(invoke("release", 3, key="k"))[0] == OK
    assert "/ackloss/locks/k" not in server.znodes
    assert client.call(invoke("confirm", key="k"))[::4] == (OK, 0)


def test_a_watch_reads_and_is_not_notified_of_nothing(server: Server, session: Session) -> None:
    server.znodes["/ackloss/k"] = b"7"
    client = WatchClient(session, parent="/ackloss", sync=False)
    first, number = client.call(invoke("watch", key="k"))[4], session.number
    assert number is not None
    assert first == (7, NULL, number)
    assert client.call(invoke("watch", key="k"))[4] == (7, 0, number)
    assert client.call(invoke("write", 8, key="k"))[4] == (number,)
    assert client.call(invoke("watch", key="none"))[:3] == (FAIL, None, "NoNode")
