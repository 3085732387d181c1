"""Transactional producers of the Java client, over a real socket; at its other end a peer that says
the lines of `Transactor.java`, as a test has it. (Java does not take librdkafka's mock brokers for
brokers; with Kafka it runs in `plans/transactions/transactions-java.toml`.)"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from harness.models.micro_ops import COMMIT, CRASH, FENCE, MicroOp
from harness.protocols.groups import TransactionSettings
from targets.kafka.clients.java import Line
from targets.kafka.transactions.client import TransactionWriter
from targets.kafka.transactions.instances import Answered, ClientError, Consumed, JavaProducer
from tests.targets.kafka.transactions.test_transactions_on_a_mock import (
    done,
    logs,
    send,
    steps,
    txn,
)

pytestmark = pytest.mark.real_time

WITHIN_S = 5
METADATA = b"CGMDv2:\x07\x00\x00\x00group\x00member-1\x00\x01"


class Peer:
    """A JVM's stand-in: `replies` to each line, or not (`None`: it ends the connection). Sends get
    the next offset."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.replies: dict[str, str | None] = {}
        self.offset = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._server.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rwb") as lines:
            for line in lines:
                said = self._said(line.decode().strip())
                if said is None:
                    return
                lines.write(said.encode())
                lines.flush()

    def _said(self, line: str) -> str | None:
        self.heard.append(line)
        word, *rest = line.split(" ")
        if word in self.replies:
            return self.replies[word]
        if word == "send":
            self.offset += 1
            return f"{rest[2]} sent {self.offset}\n"
        answers = {"begin": "ready\n", "topic": "", "set": ""}
        return answers.get(word, "done\n")


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()


def instance(peer: Peer, answered: Answered, within_s: float = WITHIN_S) -> JavaProducer:
    def connect(within_s: float) -> Line:
        return Line(peer.address, "t", {"acks": "all"}, within_s=within_s)

    return JavaProducer(connect, answered, within_s=within_s)


def writer(peer: Peer, within_s: float = WITHIN_S) -> TransactionWriter:
    return TransactionWriter(
        lambda answered: instance(peer, answered),
        logs("t").place,
        TransactionSettings(),
        within_s=within_s,
    )


def test_a_commit_has_the_offsets_of_its_sends(peer: Peer) -> None:
    one = writer(peer)
    first, aborted = one.run(txn((0, 1), (1, 2))), one.run(txn((0, 3), abort=True))
    assert (first[0], aborted[0], aborted[2]) == ("ok", "fail", "aborted")
    assert [(each.key, each.value, each.offset) for each in done(first)] == [(0, 1, 1), (1, 2, 2)]
    asked = [line for line in peer.heard if line.split(" ")[0] not in ("topic", "set", "begin")]
    sends = [f"send t {key} {value:010d}" for key, value in ((0, 1), (1, 2), (0, 3))]
    first_txn = ["transaction", *sends[:2], "commit"]
    assert asked == ["init", *first_txn, "transaction", sends[2], "abort"]


def test_a_commit_that_fails_is_unknown_and_another_instance_goes_on(peer: Peer) -> None:
    one = writer(peer)
    peer.replies["commit"] = "failed PRODUCER_FENCED\n"
    failed = one.run(txn((0, 1)))
    peer.replies.clear()
    after = one.run(txn((0, 2)))
    assert (failed[0], failed[2], after[0]) == ("info", "PRODUCER_FENCED", "ok")
    assert peer.heard.count("init") == 2


@pytest.mark.parametrize(("commit", "error"), [("", "_TIMED_OUT"), (None, "_CLIENT_LOST")])
def test_nor_is_one_known_whose_answer_never_comes(
    peer: Peer, commit: str | None, error: str
) -> None:
    one = writer(peer, within_s=0.5)
    peer.replies["commit"] = commit
    ended = one.run(txn((0, 1)))
    assert (ended[0], ended[2]) == ("info", error)


def test_a_send_that_is_refused_fails_the_transaction(peer: Peer) -> None:
    one = writer(peer)
    peer.replies["send"] = "0000000001 unsent INVALID_TXN_STATE\n"
    ended = one.run(txn((0, 1)))
    assert (ended[0], ended[2]) == ("fail", "_UNDELIVERED")
    assert peer.heard[-1] == "abort"


def test_nothing_was_begun_without_a_jvm(peer: Peer) -> None:
    peer.replies["begin"] = None
    ended = writer(peer).run(txn((0, 1)))
    assert (ended[0], ended[2]) == ("fail", "_CLIENT_LOST")


def test_it_crashes_and_is_taken_over(peer: Peer) -> None:
    one = writer(peer)
    crashed = one.run(steps(1, send(0, 1), MicroOp(COMMIT), MicroOp(CRASH)))
    assert (crashed[0], crashed[2]) == ("info", "crashed")
    peer.replies["commit"] = "failed PRODUCER_FENCED\n"
    over = one.run(steps(2, send(0, 2), MicroOp(FENCE), send(1, 3), MicroOp(COMMIT)))
    assert (over[0], over[2]) == ("fail", "taken-over")
    assert FENCE in {each.kind for each in done(over)}


def test_offsets_name_the_member_that_consumed(peer: Peer) -> None:
    one = instance(peer, {}.__setitem__)
    one.begin()
    one.store(Consumed(METADATA, "t", {0: 5, 2: 9}), WITHIN_S)
    assert peer.heard[-1] == "offsets t 7 group member-1 0=5,2=9"
    with pytest.raises(ClientError, match="_NO_MEMBER"):
        one.store(Consumed(b"CGMDv2:\xff\xff\xff\xffgroup\x00\x00\x01", "t", {0: 1}), WITHIN_S)


def test_answers_that_come_with_another_answer_are_taken(peer: Peer) -> None:
    taken: dict[int, int] = {}
    one = instance(peer, taken.__setitem__)
    one.begin()
    peer.replies |= {"send": "", "offsets": "done\n0000000004 sent 8\n"}
    one.send("t", 0, b"0000000004")
    one.store(Consumed(METADATA, "t", {0: 5}), WITHIN_S)
    if one.waits:
        one.serve(1)
    assert (taken, one.waits) == ({4: 8}, False)
