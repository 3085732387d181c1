"""What the proxy does to requests and answers of ZooKeeper: before a real server of this machine,
which is asked directly what came of it."""

from __future__ import annotations

import socket
import struct
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from kazoo.protocol import serialization as jute
from kazoo.security import OPEN_ACL_UNSAFE

from harness.images.java import kept_jars
from targets.zookeeper import levers
from targets.zookeeper.clients import outcome
from targets.zookeeper.configuration import DEFAULT_VERSION, release_of
from targets.zookeeper.levers import APIS, requests
from tests.fixtures.java_driver import JAVA
from tests.fixtures.proxy import Framed, Proxied, proxy_before
from tests.fixtures.waiting import wait_until

pytestmark = [pytest.mark.java, pytest.mark.real_time]

WITHIN_S = 60.0
EVENT, PING, AUTH = -1, -2, -4
CREATE, SET_DATA = APIS["create"], APIS["setData"]
SERVER = "org.apache.zookeeper.server.ZooKeeperServerMain"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a real server."""
    folder = tmp_path_factory.mktemp("server")
    jars = kept_jars(release_of(DEFAULT_VERSION).recipe(DEFAULT_VERSION))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    java = [*JAVA, "-Xmx96m", "-Dzookeeper.admin.enableServer=false"]
    words = ["-Dzookeeper.4lw.commands.whitelist=ruok,isro", "-cp", f"{jars}/*", SERVER]
    with (folder / "log").open("wb") as log:
        begun = subprocess.Popen(
            [*java, *words, str(port), str(folder / "data")], stdout=log, stderr=log
        )
        try:
            client = KazooClient(f"127.0.0.1:{port}", timeout=10)
            client.start(timeout=WITHIN_S)
            client.stop()
            yield port
        finally:
            begun.kill()
            begun.wait()


@pytest.fixture(scope="module")
def proxied(
    server: int, proxy_classes: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxied]:
    folder = tmp_path_factory.mktemp("run")
    with proxy_before(server, proxy_classes, folder, wire=levers.WIRE, words=requests()) as made:
        yield made


@pytest.fixture
def direct(server: int) -> Iterator[KazooClient]:
    """A client of the server itself, and an empty /t."""
    client = KazooClient(f"127.0.0.1:{server}", timeout=10)
    client.start(timeout=WITHIN_S)
    client.delete("/t", recursive=True)
    client.create("/t")
    yield client
    client.stop()
    client.close()


class Client(Framed):
    """A connection with a session, of which each request and answer is seen."""

    def __init__(self, port: int, *, session: bool = True) -> None:
        super().__init__(port)
        self.send_frame(bytes(jute.Connect(0, 0, 10_000, 0, b"\0" * 16, False).serialize()))
        if session:
            self.frame()

    def ask(self, request: Any, xid: int = 1) -> None:
        self.send_frame(struct.pack(">ii", xid, request.type) + bytes(request.serialize()))

    def answer(self) -> tuple[int, int, bytes]:
        """The next answer: its xid, its error, what follows."""
        raw = self.frame()
        xid, _, error = struct.unpack_from(">iqi", raw)
        return xid, error, raw[16:]


@pytest.fixture
def client(proxied: Proxied) -> Iterator[Client]:
    made = Client(proxied.port)
    yield made
    made.socket.close()


def create(path: str) -> Any:
    return jute.Create(path, b"", OPEN_ACL_UNSAFE, 0)


def test_without_a_rule_everything_passes_and_is_counted(
    direct: KazooClient, client: Client, proxied: Proxied
) -> None:
    (before,) = proxied.ports
    client.ask(create("/t/a"), 7)
    assert client.answer()[:2] == (7, 0)
    client.ask(jute.GetChildren("/t", None), 8)
    assert client.answer()[:2] == (8, 0)
    assert direct.get_children("/t") == ["a"]
    with proxied.rule(act="count", side="request", apis=("create",)):
        client.ask(create("/t/b"))
        client.answer()
        assert proxied.hits(1) == {CREATE: 1}
    (after,) = proxied.ports
    assert after[CREATE] - before.get(CREATE, 0) == 2
    assert after[APIS["createSession"]] >= 1


@pytest.mark.parametrize(("side", "done"), [("answer", True), ("request", False)])
def test_nothing_follows_what_was_dropped_not_even_pings(
    direct: KazooClient, client: Client, proxied: Proxied, side: str, done: bool
) -> None:
    with proxied.rule(act="drop", side=side, apis=("create",), first=1):
        client.ask(create("/t/a"))
        assert client.silent()
        client.ask(jute.PingInstance, PING)
        assert client.silent()
        assert bool(direct.exists("/t/a")) == done
    with pytest.raises(ConnectionResetError):
        client.answer()


def test_answers_pings_and_events_keep_their_order_behind_a_delay(
    direct: KazooClient, client: Client, proxied: Proxied
) -> None:
    client.ask(jute.GetData("/t", lambda _: None), 1)
    client.answer()
    with proxied.rule(act="delay", apis=("create",)):
        client.ask(create("/t/a"), 2)
        wait_until(lambda: direct.exists("/t/a"), within_s=WITHIN_S)
        client.ask(jute.PingInstance, PING)
        client.ask(jute.SetData("/t", b"x", -1), 3)
        # requests are not held up by an answer
        wait_until(lambda: direct.get("/t")[0] == b"x", within_s=WITHIN_S)
        assert client.silent()
    assert [client.answer()[0] for _ in range(4)] == [2, PING, EVENT, 3]


def test_an_event_is_not_taken_for_the_answer(
    direct: KazooClient, client: Client, proxied: Proxied
) -> None:
    client.ask(jute.GetData("/t", lambda _: None), 1)
    client.answer()
    with proxied.rule(act="error", code="OperationTimeout", apis=("setData",)):
        client.ask(jute.SetData("/t", b"x", -1), 2)
        assert client.answer()[:2] == (EVENT, 0)
        assert client.answer() == (2, -7, b""), "an error has no body"
        client.ask(jute.PingInstance, PING)
        assert client.answer() == (PING, 0, b"")
        assert proxied.hits(2) == {SET_DATA: 1}
    assert direct.get("/t")[0] == b"x"


def test_a_ping_has_rules_of_its_own(client: Client, proxied: Proxied) -> None:
    with proxied.rule(act="count", apis=("ping",)):
        for xid in (PING, PING):
            client.ask(jute.PingInstance, xid)
        client.ask(jute.Exists("/t", None), 5)
        assert [client.answer()[0] for _ in range(3)] == [PING, PING, 5]
        assert proxied.hits(3) == {APIS["ping"]: 2}


def test_what_is_answered_out_of_order_passes_and_hides_no_answer(
    direct: KazooClient, client: Client, proxied: Proxied
) -> None:
    with proxied.rule(act="error", code="SystemError", apis=("create",)):
        client.ask(create("/t/a"), 6)
        client.ask(jute.Auth(0, "digest", "a:b"), AUTH)
        found = {xid: error for xid, error, _ in (client.answer(), client.answer())}
    assert found == {6: -1, AUTH: 0}


def test_a_refusal_never_reaches_the_server_and_comes_in_its_turn(
    direct: KazooClient, client: Client, proxied: Proxied
) -> None:
    rule = {"act": "error", "side": "request", "code": "SessionMoved", "first": 1}
    with proxied.rule(**rule, apis=("create",)):
        with proxied.rule(act="delay", apis=("exists",), fault="slow"):
            client.ask(jute.Exists("/t", None), 1)
            client.ask(create("/t/a"), 2)
            client.ask(create("/t/b"), 3)
            wait_until(lambda: direct.exists("/t/b"), within_s=WITHIN_S)
            assert client.silent()
        assert [client.answer()[:2] for _ in range(3)] == [(1, 0), (2, -118), (3, 0)]
    assert direct.get_children("/t") == ["b"]


def test_a_session_that_is_not_granted(proxied: Proxied) -> None:
    with proxied.rule(act="drop", apis=("createSession",)):
        made = Client(proxied.port, session=False)
        proxied.await_hit(APIS["createSession"])
        assert made.silent()
    with pytest.raises(ConnectionResetError):
        made.answer()


def multi(*operations: Any) -> Any:
    return jute.Transaction(operations)


@pytest.mark.parametrize(
    ("request_", "met"),
    [
        (create("/t/a"), True),
        (create("/t/a/b"), True),
        (create("/t/ab"), False),
        (jute.Create2("/t/a", b"", OPEN_ACL_UNSAFE, 0), True),
        (jute.Delete("/t/a", -1), True),
        (jute.Exists("/t/a", None), True),
        (jute.GetData("/t/a", None), True),
        (jute.SetData("/t/a", b"x", -1), True),
        (jute.GetACL("/t/a"), True),
        (jute.SetACL("/t/a", OPEN_ACL_UNSAFE, -1), True),
        (jute.GetChildren("/t/a", None), True),
        (jute.GetChildren2("/t/a", None), True),
        (jute.Sync("/t/a"), True),
        (jute.Sync("/t"), False),
        (jute.PingInstance, False),
        (multi(jute.CheckVersion("/t", -1), create("/t/x"), create("/t/a")), True),
        (multi(jute.SetData("/t", b"x", -1), jute.Delete("/t/a", -1)), True),
        (multi(jute.SetData("/t", b"/t/a", -1), create("/t/x")), False),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, bool) else str(value),
)
def test_a_path_means_a_znode_and_all_below_it(
    direct: KazooClient, client: Client, proxied: Proxied, request_: Any, met: bool
) -> None:
    with proxied.rule(act="count", side="request", below="/t/a"):
        client.ask(request_)
        client.answer()
        assert bool(proxied.hits(1)) == met


@pytest.mark.parametrize(("word", "said"), [(b"ruok", b"imok"), (b"isro", b"rw")])
def test_four_letter_words_pass(proxied: Proxied, word: bytes, said: bytes) -> None:
    address = ("127.0.0.1", proxied.port)
    with proxied.rule(act="reset"), socket.create_connection(address, timeout=WITHIN_S) as asked:
        asked.sendall(word)
        assert asked.makefile("rb").read() == said


def test_kazoo_reports_a_lost_connection_for_a_znode_that_is_there(
    direct: KazooClient, proxied: Proxied
) -> None:
    client = KazooClient(f"127.0.0.1:{proxied.port}", timeout=10)
    client.start(timeout=WITHIN_S)
    try:
        with proxied.rule(act="count", apis=("create",)):
            client.create_async("/t/counted").get(timeout=WITHIN_S)
        with proxied.rule(act="reset", apis=("create",)), pytest.raises(ConnectionLoss) as lost:
            client.create_async("/t/a").get(timeout=WITHIN_S)
    finally:
        client.stop()
        client.close()
    assert outcome(lost.value)[0] == "info"
    assert sorted(direct.get_children("/t")) == ["a", "counted"]
