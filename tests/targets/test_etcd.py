"""etcd's client and what is asked of its servers, against a server that does what is requested
first and then answers an error: only what proves a refusal ends an operation in fail."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.errors import PlanError
from harness.history.autopsy import dated_lines, in_order
from harness.models.micro_ops import APPEND, HELD, READ, MicroOp, elements_of, micro_ops
from harness.plan import parse_plan
from harness.protocols import FAIL, INFO, NULL, OK, Completion, Invoke, Line, invoke
from harness.run.resolving import resolve
from harness.servers import DIFFERS, NOT_CONNECTED, ErrorAnswer, Report, Server, scraped
from targets import etcd
from targets.etcd import ERRORS, Etcd, EtcdClient, EtcdPlan
from tests.fixtures.dry_run import DryRunCluster, DryRunNode
from tests.fixtures.fake_etcd import HERE, FakeEtcd

NOTHING = "127.0.0.2"
"""No server is there."""
PLAN: dict[str, Any] = {"schema": 1, "name": "p", "target": {"system": "etcd"}}
WATCHES = {"name": "watches", "request_ms": 300, "duration_s": 1}
OTHERS = ("etcdserver: request timed out", "etcdserver: leader changed", "etcdserver: no leader")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEtcd]:
    made = FakeEtcd()
    monkeypatch.setattr(etcd, "CLIENT_PORT", made.port)
    yield made
    made.close()


def plan_of(**sections: Any) -> EtcdPlan:
    given = {**PLAN, "workload": {"name": "register", "duration_s": 1}, **sections}
    plan = resolve(parse_plan(given)).plan
    assert isinstance(plan, EtcdPlan)
    return plan


def called(op: Invoke) -> Completion:
    client = EtcdClient(HERE, plan_of())
    try:
        return client.call(op)
    finally:
        client.close()


def test_registers_are_written_read_and_compared(server: FakeEtcd) -> None:
    assert called(invoke("read", key="k"))[0::4] == (OK, None)
    assert called(invoke("cas", 2, key="k", expected=1))[::2][:2] == (FAIL, DIFFERS)
    assert called(invoke("write", 1, key="k"))[0] == OK
    assert called(invoke("cas", 2, key="k", expected=1))[0] == OK
    assert called(invoke("read", key="k"))[0::4] == (OK, 2)


def test_a_set_is_read_without_other_keys(server: FakeEtcd) -> None:
    assert called(invoke("read"))[0::4] == (OK, ())
    called(invoke("write", 9, key="settings"))
    for value in (3, 12):
        assert called(invoke("add", value))[0] == OK
    type_, *_, result = called(invoke("read"))
    assert (type_, set(result)) == (OK, {3, 12})  # type: ignore[arg-type]


def test_cells_of_a_run_have_separate_keys(server: FakeEtcd) -> None:
    for name in ("a", "a-b"):
        client = EtcdClient(HERE, plan_of(target={"system": "etcd", "object": name}))
        assert [client.call(each)[4] for each in (invoke("read"), invoke("read", key="k"))] == [
            (),
            None,
        ]
        for op in (invoke("add", 1), invoke("write", 2, key="k")):
            assert client.call(op)[0] == OK
        assert client.call(invoke("read"))[4] == (1,)
        client.close()
    assert len(server.keys) == 4


@pytest.mark.parametrize("silent", [False, True])
def test_a_watch_waits_for_the_event_of_a_change_that_it_read(
    server: FakeEtcd, silent: bool
) -> None:
    client, other = (EtcdClient(HERE, plan_of(workload=WATCHES)) for _ in range(2))
    watch = invoke("watch", key="k")
    session = client.call(watch)[4][-1]  # type: ignore[index]
    assert client.call(watch)[:2] == (OK, 0)
    server.silent = silent
    assert other.call(invoke("write", 7, key="k"))[0] == OK
    assert client.call(watch)[1::3] == (2, (7, int(not silent), session))
    assert client.call(watch)[1::3] == (2, (7, 0, session))
    assert other.call(watch)[4] == (7, NULL, session + 1)  # type: ignore[operator]
    client.close()
    other.close()


def test_an_event_counts_that_came_before_its_change_was_read(server: FakeEtcd) -> None:
    client, watch = EtcdClient(HERE, plan_of(workload=WATCHES)), invoke("watch", key="k")
    client.call(watch)
    server.revisions[client._name("k")] = 5
    time.sleep(0.1)
    assert client.call(watch)[4][1] == 1  # type: ignore[index]
    client.close()


def test_watches_need_a_client_for_each_process() -> None:
    with pytest.raises(PlanError) as refused:
        Etcd().check(plan_of(workload={**WATCHES, "processes": 13}))
    assert (refused.value.key, "12" in str(refused.value)) == ("workload.clients", False)


def test_a_transaction_reads_what_it_appended_itself_and_is_refused_after_another_one(
    server: FakeEtcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, read = MicroOp(APPEND, 1, value=5), MicroOp(READ, 1)
    assert transacted(append, read, MicroOp(APPEND, 2, value=6)) == {1: [[5]]}
    assert transacted(read, MicroOp(APPEND, 1, value=7), read, MicroOp(READ, 3)) == {
        1: [[5], [5, 7]],
        3: [[]],
    }
    assert server.asked == ["/v3/kv/txn"] * 4
    assert transacted(MicroOp(READ, 2)) == {2: [[6]]}
    assert len(server.asked) == 5, "reads alone are one request"
    revisions = server.revisions
    between: list[dict[str, int]] = [{}, {key: n + 1 for key, n in revisions.items()}]
    monkeypatch.setattr(FakeEtcd, "revisions", property(lambda _: between.pop()), raising=False)
    del server.__dict__["revisions"]
    op = invoke("txn", 8, expected=elements_of(MicroOp(APPEND, 1, value=8)))
    assert called(op)[:3] == (FAIL, None, DIFFERS)


def transacted(*micro: MicroOp) -> dict[int, list[list[int]]]:
    """What a transaction read, by key."""
    type_, *_, result = called(invoke("txn", 1, expected=elements_of(*micro)))
    assert type_ == OK
    assert isinstance(result, tuple)
    found: dict[int, list[list[int]]] = {}
    for each in micro_ops(result):
        if each.kind == READ:
            last = found.setdefault(each.key, [])
            last.append([])
        elif each.kind == HELD:
            last[-1] += [value for value in each[1:] if value != NULL]
    return found


def test_a_register_that_is_deleted_has_no_value(server: FakeEtcd) -> None:
    assert called(invoke("write", 7, key="k"))[0] == OK
    assert called(invoke("delete", 8, key="k"))[0] == OK
    assert called(invoke("read", key="k")) == (OK, None, None, None, None)
    assert server.keys == {}


@pytest.mark.parametrize("text", [*(row.code for row in ERRORS), *OTHERS])
def test_a_request_is_sent_once_and_its_error_decides(server: FakeEtcd, text: str) -> None:
    server.refuses = text
    type_, _, error, *_ = called(invoke("write", 1, key="k"))
    assert server.asked == ["/v3/kv/put"]
    named = {row.code: (row.ends, row.name) for row in ERRORS}
    assert (type_, error) == named.get(text, (INFO, text))
    assert all(row.ends == FAIL and row.why for row in ERRORS)


def test_an_operation_without_an_answer_is_unknown(server: FakeEtcd) -> None:
    server.hangs_up = True
    client = EtcdClient(HERE, plan_of())
    with pytest.raises(ConnectionError):
        client.call(invoke("write", 1, key="k"))
    assert server.asked == ["/v3/kv/put"]
    assert server.keys


def test_what_was_not_sent_has_failed_and_the_next_server_is_tried(server: FakeEtcd) -> None:
    cluster = DryRunCluster(
        {n: DryRunNode(n, frozenset(), at) for n, at in (("n1", NOTHING), ("n2", HERE))}
    )

    plan = plan_of(workload={"name": "register", "clients": 1})
    client = Etcd().client(cluster, plan)  # type: ignore[arg-type]
    done: list[Completion] = []
    for number in (1, 2):
        assert client.submit(0, invoke("write", 1, key="k"))
        while len(done) < number:
            client.poll(1, lambda _, completion: done.append(completion))
    first, second = done
    assert (first[0], *first[2:4]) == (FAIL, NOT_CONNECTED, "n1")
    assert (second[0], second[3]) == (OK, "n2")
    assert server.asked == ["/v3/kv/put"]
    client.close(1, lambda *_: None)


def test_the_leader_is_named_by_the_list_of_members(server: FakeEtcd) -> None:
    assert Etcd().report(HERE, timeout_s=2) == Report(leader="n1", epoch=3, position=12)
    server.refuses = "etcdserver: not ready"
    assert Etcd().report(HERE, timeout_s=2) is None
    assert Etcd().report(NOTHING, timeout_s=2) is None


METRICS = """# HELP etcd_server_has_leader Whether or not a leader exists.
# TYPE etcd_server_has_leader gauge
etcd_server_has_leader 1
etcd_server_leader_changes_seen_total 2
etcd_server_slow_bucket{le="0.1"} 7
etcd_network_peer_sent_failures_total{To="a8266ecf031671f3"} 1.5e+01
etcd_network_peer_sent_bytes_total{To="a8266ecf031671f3"} 8839
etcd_disk_wal_fsync_duration_seconds_bucket{le="0.001"} 3
etcd_disk_wal_fsync_duration_seconds_sum 0.25
etcd_disk_wal_fsync_duration_seconds_count 41
go_goroutines 88
"""


def test_what_a_server_exports_is_its_metrics(server: FakeEtcd) -> None:
    server.metrics = METRICS
    node = DryRunNode("n1", frozenset({"server"}), HERE)
    metrics = scraped(etcd.CLIENT_PORT, etcd._METRICS)
    assert metrics(Etcd(), node, plan_of(), timeout_s=2) == {
        "etcd_server_has_leader": 1,
        "etcd_server_leader_changes_seen_total": 2,
        'etcd_network_peer_sent_failures_total{To="a8266ecf031671f3"}': 15,
        "etcd_disk_wal_fsync_duration_seconds_sum": 0.25,
        "etcd_disk_wal_fsync_duration_seconds_count": 41,
    }
    server.metrics = ""
    with pytest.raises(ErrorAnswer):
        metrics(Etcd(), node, plan_of(), timeout_s=2)


def test_settings_are_on_the_command_line() -> None:
    plan = plan_of(target={"system": "etcd", "settings": {"unsafe-no-fsync": True}})
    addresses = {"n1": "198.18.0.11", "n2": "198.18.0.12", "n3": "198.18.0.13"}
    argv = Etcd().argv(Server("n2", addresses["n2"], addresses), plan)
    assert argv[-1] == "--unsafe-no-fsync=true"
    assert "--listen-client-urls=http://198.18.0.12:2379" in argv
    assert any(each.startswith("--initial-cluster=n1=http://198.18.0.11:2380,n2=") for each in argv)


def test_each_version_has_its_program() -> None:
    addresses = {"n1": "198.18.0.11"}
    for version, command in ((None, "etcd"), ("3.7.3", "/opt/programs/etcd")):
        target = {"system": "etcd", **({"version": version} if version else {})}
        assert (
            Etcd().argv(Server("n1", "198.18.0.11", addresses), plan_of(target=target))[0]
            == command
        )
    assert Etcd().recipe("3.5.35").fetched[:3] == ("go", "go.etcd.io/etcd/server/v3", "3.5.35")
    assert Etcd().recipe(None).packages == ("etcd-server",)


def test_servers_logs_are_read_in_the_format_of_each_version(tmp_path: Path) -> None:
    zap = '{"level":"info","ts":"%s","logger":"raft","caller":"raft/raft.go:987","msg":"%s"}'
    lines = (
        zap % ("2026-11-28T10:00:00.250000Z", "restarting local member"),
        zap % ("2026-11-28T10:00:01.500000Z", "8e9e05c52164694d became leader at term 3"),
        "2026-11-28 10:00:02.750000 I | raft: 8e9e05c52164694d became leader at term 4",
    )
    (tmp_path / "console.log").write_text("\n".join(lines))
    zero = datetime(2026, 11, 28, 10, tzinfo=UTC).timestamp()
    found = [
        Line(at_s=at - zero, node="n1", place=f"{number}", text=raw.decode())
        for number, at, raw in dated_lines(tmp_path / "console.log", len)
    ]
    happened = in_order(Etcd().happened(found))
    assert [(each.kind, each.at_s, each.epoch) for each in happened] == [
        ("starts", 0.25, 0),
        ("leads", 1.5, 3),
        ("leads", 2.75, 4),
    ]
