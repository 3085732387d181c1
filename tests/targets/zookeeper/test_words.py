"""What servers of several versions answer to four-letter words, as they were recorded."""

from __future__ import annotations

import socket
import threading

import pytest

from harness.faults.own_traffic import NoAnswer
from targets.zookeeper import asking

SRVR_34 = """\
Zookeeper version: 3.4.14-4c25d480e66aadd371de8bd2fd8da255ac140bcf, built on 03/06/2019 16:18 GMT
Latency min/avg/max: 0/0/0
Received: 2
Sent: 1
Connections: 1
Outstanding: 0
Zxid: 0x100000007
Mode: follower
Node count: 5
"""
SRVR_39 = """\
Zookeeper version: 3.9.4-7246445ec281f3dbf53dc54e970c914f39713903, built on 2025-08-19 19:53 UTC
Latency min/avg/max: 0/0.0/0
Received: 3
Sent: 2
Connections: 1
Outstanding: 0
Zxid: 0x200000000
Mode: leader
Node count: 13
Proposal sizes last/min/max: 36/36/48
"""
NOT_SERVING = "This ZooKeeper instance is not currently serving requests\n"
MNTR = "zk_version\t3.9.4\nzk_synced_followers\t2\nzk_cnt_fsynctime\t12.0\n"
CONF = "clientPort=2181\ntickTime=500\nserver.1=198.18.0.11:2888:3888:participant\nversion=0"


@pytest.mark.parametrize(
    ("answer", "mode", "epoch", "version"),
    [
        (SRVR_34, "follower", 1, "3.4.14"),
        (SRVR_39, "leader", 2, "3.9.4"),
        (NOT_SERVING, None, 0, ""),
        (SRVR_39.replace("leader", "read-only"), None, 0, ""),
    ],
)
def test_a_server_says_what_it_is(answer: str, mode: str | None, epoch: int, version: str) -> None:
    status = asking.status_of(answer)
    assert (status.mode, status.epoch, status.version) == (mode, epoch, version)


@pytest.mark.parametrize("answer", ["", "imok", SRVR_39.replace("Zxid", "Zyid"), "Mode: leader\n"])
def test_what_is_no_status_is_no_answer(answer: str) -> None:
    with pytest.raises(NoAnswer):
        asking.status_of(answer)


def test_figures_and_settings_are_by_name() -> None:
    assert asking.figures_of(MNTR)["synced_followers"] == "2"
    assert asking.figures_of(NOT_SERVING) == {}
    assert asking.settings_of(CONF) == {
        "clientPort": "2181",
        "tickTime": "500",
        "server.1": "198.18.0.11:2888:3888:participant",
        "version": "0",
    }


def test_metrics_have_the_names_of_exporters_and_of_zookeeper() -> None:
    follower = "zk_server_state\tfollower\nzk_avg_latency\t0.4\nzk_p99_fsynctime\t3\n"
    assert asking.metrics_of(follower) == {
        "zk_server_leader": 0,
        "zk_avg_latency": 0.4,
        "avg_latency": 0.4,
    }
    leader = asking.metrics_of(f"zk_server_state\tleader\n{MNTR}")
    assert (leader["zk_server_leader"], leader["zk_synced_followers"]) == (1, 2)
    assert leader["fsynctime_count"] == leader["zk_cnt_fsynctime"] == 12
    assert asking.metrics_of(NOT_SERVING) == {"zk_server_leader": 1}, "as the exporter has it"


def answering(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    """A server on loopback that answers one word and closes the connection."""
    listening = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setattr(asking, "CLIENT_PORT", listening.getsockname()[1])

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, listening:
            connection.recv(4)
            for byte in answer:
                connection.sendall(bytes([byte]))

    threading.Thread(target=serve, daemon=True).start()


def test_an_answer_ends_with_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, b"imok")
    assert asking.ask_word("127.0.0.1", "ruok", timeout_s=2) == "imok"


@pytest.mark.parametrize(
    "answer", [b"", b"mntr is not executed because it is not in the whitelist.\n"]
)
def test_no_words_are_no_answer(monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    answering(monkeypatch, answer)
    with pytest.raises(NoAnswer):
        asking.ask_word("127.0.0.1", "mntr", timeout_s=2)
    with pytest.raises(NoAnswer):
        asking.ask_word("127.0.0.1", "mntr", timeout_s=0.2)  # nobody is there any more
