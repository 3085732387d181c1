"""Galera's client, what is asked of its servers, and who begins a cluster that was down. A server
does what is requested first and then answers an error: only what proves a refusal ends in fail."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkers.judging.alarms import published
from harness.history.autopsy import dated_lines, in_order
from harness.models.micro_ops import APPEND, HELD, READ, MicroOp, elements_of
from harness.plan import parse_plan
from harness.protocols import FAIL, INFO, OK, Completion, Invoke, Line, invoke
from harness.protocols.runs import NULL
from harness.run.resolving import resolve
from harness.servers import DIFFERS, Moving, NotSent, Report, Server
from targets import galera
from targets.galera import ERRORS, RECOVERY, Galera, GaleraClient, GaleraPlan
from tests.fixtures.dry_run import DryRunNode
from tests.fixtures.fake_mariadb import FakeMariadb
from tests.fixtures.fake_server import HERE

NOTHING = "127.0.0.2"
PLAN: dict[str, Any] = {"schema": 1, "name": "p", "target": {"system": "galera"}}
STATUS = {
    "wsrep_cluster_status": "Primary",
    "wsrep_local_state": "4",
    "wsrep_cluster_conf_id": "3",
    "wsrep_cluster_size": "2",
    "wsrep_local_recv_queue": "0",
    "wsrep_last_committed": "90",
    "wsrep_ready": "ON",
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMariadb]:
    made = FakeMariadb()
    monkeypatch.setattr(galera, "PORT", made.port)
    yield made
    made.close()


def plan_of(**sections: Any) -> GaleraPlan:
    given = {**PLAN, "workload": {"name": "set", "duration_s": 1}, **sections}
    plan = resolve(parse_plan(given)).plan
    assert isinstance(plan, GaleraPlan)
    return plan


def called(op: Invoke, **load: Any) -> Completion:
    plan = plan_of(workload={"name": "set", "duration_s": 1, "request_ms": 20_000} | load)
    client = Moving(lambda address: GaleraClient(address, plan), [("n1", HERE)])
    try:
        return client.call(op)
    finally:
        client.close()


def test_an_element_is_added_once_and_has_a_position(server: FakeMariadb) -> None:
    server.rows["wsrep_last_committed"] = [("wsrep_last_committed", "516")]
    assert called(invoke("add", 7), sync_wait=1)[:3] == (OK, 516, None)
    assert server.committed == ["INSERT INTO elements VALUES (7)"]
    assert server.database == "ackloss"
    assert "tx_isolation='repeatable-read', wsrep_sync_wait=1" in " ".join(server.started)


def test_an_element_that_is_committed_stays_so_without_a_position(server: FakeMariadb) -> None:
    server.hangs_up = "wsrep_last_committed"
    client = GaleraClient(HERE, plan_of())
    assert client.call(invoke("add", 7))[:3] == (OK, None, None)
    with pytest.raises(NotSent):
        client.call(invoke("add", 8))
    assert server.committed == ["INSERT INTO elements VALUES (7)"]


def test_a_set_is_read_whole(server: FakeMariadb) -> None:
    server.rows["FROM elements"] = [(3,), (12,)]
    assert called(invoke("read")) == (OK, None, None, "n1", (3, 12))


@pytest.mark.parametrize("code", [*(r.code for r in ERRORS[:2]), 1180, 1205, 1317, 1053, 1062])
def test_a_statement_is_sent_once_and_its_error_decides(server: FakeMariadb, code: int) -> None:
    server.refuses["elements"] = code
    type_, _, error, *_ = called(invoke("add", 1))
    assert len(server.asked) == len(server.committed) == 1
    named = {row.code: (row.ends, row.name) for row in ERRORS}
    assert (type_, error) == named.get(code, (INFO, "as the test wants it"))
    assert all(row.ends == FAIL and row.why for row in ERRORS)


@pytest.mark.parametrize("how", [{"hangs_up": "elements"}, {"is_silent": True}])
def test_a_statement_without_an_answer_is_unknown(server: FakeMariadb, how: dict[str, Any]) -> None:
    vars(server).update(how)
    assert called(invoke("add", 1), request_ms=1000)[::2][:2] == (INFO, "OperationalError")
    assert server.committed


def test_a_server_that_cannot_be_reached_was_sent_nothing(server: FakeMariadb) -> None:
    with pytest.raises(NotSent):
        GaleraClient(NOTHING, plan_of())


def transacted(*steps: tuple[int, int, int], **load: Any) -> Completion:
    elements = elements_of(*(MicroOp(kind, key, value=value) for kind, key, value in steps))
    return called(invoke("txn", 1, expected=elements), name="list-append", **load)


def test_a_transaction_is_committed_as_one_and_returns_its_reads(server: FakeMariadb) -> None:
    server.rows["FROM lists"] = [("3,5",)]
    ended = transacted((READ, 1, NULL), (APPEND, 2, 9))
    read = MicroOp(READ, 1, 2), MicroOp(HELD, 3, 5, NULL)
    assert (ended[0], ended[4]) == (OK, elements_of(*read, MicroOp(APPEND, 2, value=9)))
    first, _, append, last = server.asked
    assert (first, last) == ("START TRANSACTION", "COMMIT")
    assert server.committed == [append]
    assert "VALUES ('2', 9)" in append


@pytest.mark.parametrize("where", ["INTO lists", "COMMIT"])
def test_a_transaction_that_was_rolled_back_has_failed(server: FakeMariadb, where: str) -> None:
    server.refuses[where] = 1213
    assert transacted((APPEND, 2, 9))[::2][:2] == (FAIL, DIFFERS)
    assert server.asked[-1] == ("COMMIT" if where == "COMMIT" else "ROLLBACK")


@pytest.mark.parametrize("where", ["INTO lists", "COMMIT"])
def test_only_a_commit_without_an_answer_leaves_it_open(server: FakeMariadb, where: str) -> None:
    server.hangs_up = where
    type_, _, error, *_ = transacted((APPEND, 2, 9))
    assert len(server.committed) == (where == "COMMIT")
    is_open = (INFO, "OperationalError")
    assert (type_, error) == (is_open if where == "COMMIT" else (FAIL, "NotCommitted"))


def reported(server: FakeMariadb, **status: str) -> Report | None:
    server.rows["GLOBAL STATUS"] = [*(STATUS | status).items()]
    server.rows["node_incoming_address FROM mysql.wsrep_cluster_members"] = [("198.18.0.12:3306",)]
    return Galera().report(HERE, timeout_s=2)


def test_the_first_member_of_the_primary_component_is_the_leader(server: FakeMariadb) -> None:
    stale = {"wsrep_incoming_addresses": "198.18.0.13:3306,198.18.0.11:3306"}
    assert reported(server, **stale) == reported(server) == Report("198.18.0.12", 3, 90)
    assert "ORDER BY node_uuid LIMIT 1" in server.asked[-1]
    assert reported(server, wsrep_local_state="3") == Report("198.18.0.12", 3, -1)
    alone = {"wsrep_cluster_status": "non-Primary", "wsrep_cluster_conf_id": f"{2**64 - 1}"}
    assert reported(server, **alone) == Report(None, 0)
    assert reported(server, wsrep_last_committed=f"{2**64 - 1}") == Report("198.18.0.12", 3, -1)
    assert reported(server, wsrep_cluster_conf_id=f"{2**64 - 1}") == Report(None, 0, 90)
    assert Galera().report(NOTHING, timeout_s=0.2) is None


def test_a_server_is_ready_once_it_is_synced(server: FakeMariadb) -> None:
    node = DryRunNode("n1", frozenset({"server"}), HERE)
    for status, is_ready in (({}, True), ({"wsrep_local_state": "2"}, False)):
        reported(server, **status)
        assert Galera().is_ready(node, plan_of()) is is_ready
    reported(server, wsrep_ready="OFF")
    assert not Galera().is_ready(node, plan_of())


def test_the_status_is_the_metrics_of_its_alarms(server: FakeMariadb) -> None:
    reported(server, wsrep_ready="OFF")
    node = DryRunNode("n1", frozenset({"server"}), HERE)
    found = Galera().metrics(node, plan_of(), timeout_s=2)
    assert found["mysql_global_status_wsrep_ready"] == 0
    assert found["mysql_global_status_wsrep_cluster_status"] == 1
    assert found["mysql_global_status_wsrep_last_committed"] == 90
    assert Galera.alarms is not None
    rules = tomllib.loads(Galera.alarms.read_text())["rules"]
    assert len(published(Galera.alarms)) == len(rules)
    assert {rule["metric"] for rule in rules} - {"up"} <= {*found}


def test_what_a_plan_sets_is_in_the_configuration() -> None:
    settings = {"innodb_flush_log_at_trx_commit": 0, "innodb_snapshot_isolation": True}
    plan = plan_of(target={"system": "galera", "settings": settings})
    addresses = {"n1": "198.18.0.11", "n2": "198.18.0.12"}
    lines = Galera().files(Server("n2", addresses["n2"], addresses), plan)["galera.cnf"].decode()
    assert "innodb_flush_log_at_trx_commit = 0\n" in lines
    assert "innodb_snapshot_isolation = ON\n" in lines
    assert "wsrep_cluster_address = gcomm://198.18.0.11,198.18.0.12\n" in lines
    assert "wsrep_node_incoming_address = 198.18.0.12:3306\n" in lines


# Who begins. The script runs as it is, with programs that answer what a test wants.

FAKES = {
    "mariadbd": 'case "$*" in *--wsrep-recover) cat "$FAKES/recovered" ;; '
    '*) echo "mariadbd $*" >>"$FAKES/did"; [ -f "$FAKES/ends" ] || exec /bin/sleep 60 ;; esac',
    "mariadb": 'echo asked >>"$FAKES/asked"; cat "$FAKES/mariadb.$3" 2>/dev/null; '
    'case "$*" in *bootstrap*) echo "bootstrap $3" >>"$FAKES/did"; '
    'printf "wsrep_cluster_status\\tPrimary\\n" >"$FAKES/mariadb.$3" ;; esac',
    "socat": 'case "$1" in TCP-LISTEN*) echo "$2" >"$FAKES/serves" ;; '
    '*) address=${3#TCP:}; cat "$FAKES/socat.${address%%:*}" 2>/dev/null ;; esac',
    "mariadb-install-db": 'echo installed >>"$FAKES/did"',
    "sleep": "exec /bin/sleep 0.01",
}


def text_of(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def started(tmp_path: Path, recovered: str | None, *, starts: int = 1, **others: str) -> list[str]:
    """What the script of 10.0.0.1 did until it had started its server so often, or had asked 20
    times, where 10.0.0.2 and 10.0.0.3 answer so: to `mariadb` or, once stopped, to `socat`."""
    fakes, data = tmp_path / "fakes", tmp_path / "data"
    fakes.mkdir()
    data.mkdir()
    if starts > 1:
        (fakes / "ends").touch()
    for name, body in FAKES.items():
        (fakes / name).write_text(f"#!/bin/sh\n{body}\n")
        (fakes / name).chmod(0o755)
    if recovered is not None:
        (data / "mysql").mkdir()
        (data / "grastate.dat").write_text("seqno:   -1\nsafe_to_bootstrap: 0\n")
        (fakes / "recovered").write_text(f"2026-11-29  6:27:17 0 [Note] WSREP: {recovered}\n")
    for name, answer in others.items():
        kind = "socat" if answer.startswith("stopped") else "mariadb"
        status, _, number = answer.partition(" ")
        rows = f"wsrep_last_committed\t{number}\nwsrep_cluster_status\t{status}\n"
        text = f"{answer}\n" if kind == "socat" else rows
        (fakes / f"{kind}.10.0.0.{name[1:]}").write_text(text)
    (tmp_path / "script").write_text(RECOVERY)
    environment = {
        "PATH": f"{fakes}:{os.environ['PATH']}",
        "FAKES": str(fakes),
        "DATA": str(data),
        "FILE": "galera.cnf",
        "SELF": "10.0.0.1",
        "SERVERS": "10.0.0.1 10.0.0.2 10.0.0.3",
        "STATE_PORT": "4569",
    }
    did, asked, until_s = fakes / "did", fakes / "asked", time.monotonic() + 60
    with subprocess.Popen(["/bin/sh", str(tmp_path / "script")], env=environment) as running:
        try:
            while time.monotonic() < until_s and text_of(asked).count("asked") <= 20:
                if text_of(did).count("mariadbd") >= starts:
                    break
                time.sleep(0.02)
        finally:
            running.terminate()
        assert running.wait(timeout=30) == 143
    return text_of(did).splitlines()


UUID = "d2481dc3-ebbd-11f1-86fb-861a8fc4526a"
RECOVERED = f"Recovered position: {UUID}:311"


def test_of_stopped_servers_the_one_with_the_highest_number_begins(tmp_path: Path) -> None:
    (did,) = started(tmp_path, RECOVERED, n2="stopped 290", n3="stopped 311")
    assert shlex.split(did)[2:] == [f"--wsrep-start-position={UUID}:311", "--wsrep-new-cluster"]
    assert "safe_to_bootstrap: 1" in (tmp_path / "data/grastate.dat").read_text()
    assert (tmp_path / "fakes/serves").read_text() == "SYSTEM:echo stopped 311\n"


@pytest.mark.parametrize(
    "others",
    [
        {"n2": "stopped 312", "n3": "stopped 290"},
        {"n2": "stopped 290"},
        {"n2": "stopped 290", "n3": "Disconnected 290"},
    ],
    ids=["another-is-ahead", "one-does-not-answer", "one-starts"],
)
def test_a_server_does_not_begin_without_being_sure(tmp_path: Path, others: dict[str, str]) -> None:
    assert started(tmp_path, RECOVERED, **others) == []


def test_a_server_joins_whoever_is_in_the_primary_component(tmp_path: Path) -> None:
    (did,) = started(tmp_path, RECOVERED, n3="Primary 900")
    assert shlex.split(did)[2:] == [f"--wsrep-start-position={UUID}:311"]


def test_a_server_that_runs_without_a_majority_and_is_ahead_is_made_to_begin(
    tmp_path: Path,
) -> None:
    did = started(tmp_path, RECOVERED, n2="non-Primary 320", n3="non-Primary 290")
    assert did[0] == "bootstrap 10.0.0.2"
    assert shlex.split(did[-1])[2:] == [f"--wsrep-start-position={UUID}:311"]


def test_a_server_that_ended_by_itself_is_started_again(tmp_path: Path) -> None:
    """As one does whose donor is killed."""
    first, second = started(tmp_path, RECOVERED, starts=2, n3="Primary 900")
    assert first == second


def test_the_first_of_new_servers_begins_and_creates_the_system_tables(tmp_path: Path) -> None:
    did = started(tmp_path, None, n2="stopped -1", n3="stopped -1")
    assert did[0] == "installed"
    assert did[1].endswith(":-1 --wsrep-new-cluster")


def test_logs_say_with_what_servers_came_back_and_which_began(tmp_path: Path) -> None:
    log = "2026-11-29 06:29:43 0 [Note] ackloss: recovered 311\n"
    log += "2026-11-29  6:29:43 0 [Note] WSREP: Quorum results:\n"
    log += "2026-11-29 06:29:44 0 [Note] ackloss: begins 311\n"
    (tmp_path / "console.log").write_text(log)
    lines = [
        Line(at_s=at, node="n1", place=f"{number}", text=raw.decode())
        for number, at, raw in dated_lines(tmp_path / "console.log", len)
    ]
    found = [(e.kind, e.end, e.epoch) for e in in_order(Galera().happened(lines))]
    assert found == [("starts", 311, 0), ("leads", 311, 1)]
