"""What is asked of one ZooKeeper server, and what becomes of its answers: a tiny server on loopback
that speaks the protocol's own bytes."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from kazoo.protocol.serialization import Delete

from targets.kafka.asking import NoAnswer
from targets.kafka.zookeeper import asking

HERE = "127.0.0.1"
OK, NO_NODE, NODE_EXISTS, NOT_EMPTY = 0, -101, -110, -111
CREATE, DELETE, GET_DATA, GET_CHILDREN = 1, 2, 4, 8
STAT = bytes(68)
NOTIFICATION = struct.pack(">iqi", -1, -1, 0)


class Server:
    """Keeps znodes; each of `mishaps` comes before one request is answered."""

    def __init__(self) -> None:
        self.znodes: dict[str, bytes] = {"": b"", "/a": b"data"}
        self.sessions = 0
        self.asked: list[tuple[int, str]] = []
        self.mishaps: list[str] = []
        self._socket = socket.create_server((HERE, 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)  # `accept` returns
        self._socket.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with connection, suppress(OSError, struct.error):
            self._body(connection)
            self.sessions += 1
            _send(connection, struct.pack(">iiqi16s?", 0, 10_000, self.sessions, 16, b"", False))
            while True:
                xid, kind = struct.unpack_from(">ii", body := self._body(connection))
                mishap = self.mishaps.pop(0) if self.mishaps else ""
                if mishap == "close":
                    return
                if mishap == "silence":
                    continue
                if mishap == "notify":
                    _send(connection, NOTIFICATION)
                error, answer = self._answer(kind, body[8:])
                _send(connection, struct.pack(">iqi", xid, 1, error) + answer)

    @staticmethod
    def _body(connection: socket.socket) -> bytes:
        with connection.makefile("rb", buffering=0) as stream:
            (length,) = struct.unpack(">i", stream.read(4) or b"")
            return stream.read(length) or b""

    def _answer(self, kind: int, body: bytes) -> tuple[int, bytes]:
        path, rest = _string(body)
        self.asked.append((kind, path))
        if kind == CREATE:
            if path in self.znodes:
                return NODE_EXISTS, b""
            if path.rpartition("/")[0] not in self.znodes:
                return NO_NODE, b""
            self.znodes[path] = _string(rest)[0].encode()
            return OK, _packed(path.encode())
        if path not in self.znodes:
            return NO_NODE, b""
        below = [name[len(path) + 1 :] for name in self.znodes if name.startswith(f"{path}/")]
        if kind == DELETE:
            if below:
                return NOT_EMPTY, b""
            del self.znodes[path]
            return OK, b""
        if kind == GET_CHILDREN:
            return OK, struct.pack(">i", len(below)) + b"".join(_packed(n.encode()) for n in below)
        assert kind == GET_DATA
        return OK, _packed(self.znodes[path]) + STAT


def _send(connection: socket.socket, body: bytes) -> None:
    """In two parts, as a network may deliver it."""
    whole = struct.pack(">i", len(body)) + body
    connection.sendall(whole[:6])
    connection.sendall(whole[6:])


def _packed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _string(body: bytes) -> tuple[str, bytes]:
    (length,) = struct.unpack_from(">i", body)
    return body[4 : 4 + length].decode(), body[4 + length :]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made = Server()
    monkeypatch.setattr(asking, "ZOOKEEPER_PORT", made.port)
    yield made
    asking.del_session(HERE)
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


def test_another_refusal_of_the_server_is_told(server: Server) -> None:
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
