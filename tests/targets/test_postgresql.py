"""PostgreSQL's client and what is asked of Patroni, against servers that do what is requested first
and then answer an error: only what proves a refusal ends an operation in fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from harness.history.autopsy import in_order
from harness.models.micro_ops import APPEND, HELD, READ, MicroOp, elements_of
from harness.plan import parse_plan
from harness.protocols import FAIL, INFO, OK, Completion, Invoke, Line, invoke
from harness.protocols.runs import NULL
from harness.run.resolving import resolve
from harness.servers import DIFFERS, NotSent, Report, Server
from targets import postgresql
from targets.postgresql import ERRORS, Postgresql, PostgresqlClient, PostgresqlPlan
from tests.fixtures.dry_run import DryRunNode
from tests.fixtures.fake_postgresql import FakePostgresql
from tests.fixtures.fake_server import HERE

NOTHING = "127.0.0.2"
PLAN: dict[str, Any] = {"schema": 1, "name": "p", "target": {"system": "postgresql"}}
SYNCREP = "canceling wait for synchronous replication due to user request"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakePostgresql]:
    made = FakePostgresql()
    monkeypatch.setattr(postgresql, "PORT", made.port)
    yield made
    made.close()


def plan_of(**sections: Any) -> PostgresqlPlan:
    given = {**PLAN, "workload": {"name": "set", "duration_s": 1}, **sections}
    plan = resolve(parse_plan(given)).plan
    assert isinstance(plan, PostgresqlPlan)
    return plan


def called(op: Invoke, *servers: str, **load: Any) -> Completion:
    plan = plan_of(workload={"name": "set", "duration_s": 1} | load)
    named = [(f"n{number}", address) for number, address in enumerate(servers or [HERE], start=1)]
    client = PostgresqlClient(HERE, plan)
    client.servers = named
    try:
        return client.call(op)
    finally:
        client.close()


def test_an_element_is_added_once_at_the_leader_and_has_a_position(server: FakePostgresql) -> None:
    server.rows["INSERT INTO elements"] = ["83886448"]
    assert called(invoke("add", 7), NOTHING, HERE) == (OK, 83886448, None, "n2", None)
    ((statement, value),) = server.asked
    assert (statement.split(" ON ")[0], value) == ("INSERT INTO elements VALUES ($1)", "7")


def test_a_set_is_read_where_the_client_is_or_at_the_leader(server: FakePostgresql) -> None:
    server.rows["FROM elements"] = ["3", "12"]
    assert called(invoke("read")) == (OK, None, None, "n1", (3, 12))
    server.is_standby = True
    assert called(invoke("read"))[0] == OK
    for op, load in ((invoke("read"), {"read": "leader"}), (invoke("add", 1), {})):
        with pytest.raises(NotSent, match=r"session is read-only|server is in hot standby"):
            called(op, **load)
    assert {asked[0].split()[0] for asked in server.asked} == {"SELECT"}


def test_registers_are_written_read_and_compared(server: FakePostgresql) -> None:
    assert called(invoke("write", 1, key="k"))[0] == OK
    assert called(invoke("delete", 1, key="k"))[0] == OK
    assert called(invoke("read", key="k"))[0::4] == (OK, None)
    server.rows["FROM registers"] = ["5"]
    assert called(invoke("read", key="k"))[0::4] == (OK, 5)
    assert called(invoke("cas", 2, key="k", expected=1))[0] == OK
    assert server.asked[-1][1:] == ("2", "k", "1")


@pytest.mark.parametrize("code", [*(row.code for row in ERRORS), "57P01", "57014", "53100"])
def test_a_statement_is_sent_once_and_its_error_decides(server: FakePostgresql, code: str) -> None:
    server.refuses["elements"] = code
    type_, _, error, *_ = called(invoke("add", 1))
    assert len(server.asked) == len(server.committed) == 1
    named = {row.code: (row.ends, row.name) for row in ERRORS}
    assert (type_, error) == named.get(code, (INFO, "as the test wants it"))
    assert all(row.ends == FAIL and row.why for row in ERRORS)


def test_a_success_whose_wait_was_cancelled_is_unknown(server: FakePostgresql) -> None:
    server.warns = SYNCREP
    assert called(invoke("add", 1))[::2][:2] == (INFO, SYNCREP)
    server.warns = ""
    assert called(invoke("add", 1))[0] == OK


def test_a_client_that_cancels_takes_the_success_for_one(server: FakePostgresql) -> None:
    server.is_silent, server.warns = True, SYNCREP
    assert called(invoke("add", 1), on_timeout="cancel", request_ms=1000)[0] == OK
    assert server.cancelled == 1


def test_cells_of_a_run_have_separate_tables(server: FakePostgresql) -> None:
    """The one that cancels takes its success for one; both have theirs below their own name."""
    server.warns = SYNCREP
    two = [{"name": "cut"}, {"name": "cancel", "workload": {"on_timeout": "cancel"}}]
    resolved = resolve(parse_plan({**PLAN, "workload": {"name": "set"}, "cells": two}))
    files = dict(Postgresql().files(Server("n1", HERE, {"n1": HERE}), resolved.plan))  # type: ignore[arg-type]
    ends = []
    for cell in resolved.cells:
        client = PostgresqlClient(HERE, cell.plan)  # type: ignore[arg-type]
        ends.append(client.call(invoke("add", 7))[0])
        client.close()
        schema = f"ackloss-{cell.name}"
        assert f'search_path="{schema}"'.encode() in server.started
        assert (
            f'CREATE SCHEMA "{schema}";\nSET search_path = "{schema}";'.encode()
            in files["schema.sql"]
        )
    assert ends == [INFO, OK]


@pytest.mark.parametrize(
    ("how", "error"),
    [({"is_silent": True}, "TimeoutError"), ({"hangs_up": "elements"}, "OperationalError")],
)
def test_a_call_without_an_answer_is_unknown_and_never_cancelled(
    server: FakePostgresql, how: dict[str, Any], error: str
) -> None:
    vars(server).update(how)
    assert called(invoke("add", 1), request_ms=100)[::2][:2] == (INFO, error)
    assert server.cancelled == 0
    assert server.committed


def transacted(*steps: tuple[int, int, int], **load: Any) -> Completion:
    elements = elements_of(*(MicroOp(kind, key, value=value) for kind, key, value in steps))
    op = invoke("txn", 1, expected=elements)
    return called(op, name="list-append", **load)


def test_a_transaction_is_committed_as_one_and_returns_its_reads(server: FakePostgresql) -> None:
    server.rows["FROM lists"] = ["{3,5}"]
    ended = transacted((READ, 1, NULL), (APPEND, 2, 9), isolation="repeatable read")
    read = MicroOp(READ, 1, 2), MicroOp(HELD, 3, 5, NULL)
    assert (ended[0], ended[4]) == (OK, elements_of(*read, MicroOp(APPEND, 2, value=9)))
    first, _, append, last = server.asked
    assert (first, last) == (("BEGIN ISOLATION LEVEL repeatable read",), ("COMMIT",))
    assert append[1:] == ("2", "9")
    assert server.committed == [append]


@pytest.mark.parametrize("where", ["INTO lists", "COMMIT"])
@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_a_transaction_that_was_rolled_back_has_failed(
    server: FakePostgresql, where: str, code: str
) -> None:
    server.refuses[where] = code
    assert transacted((APPEND, 2, 9))[::2][:2] == (FAIL, DIFFERS)
    last = server.asked[-1][0]
    assert last == ("COMMIT" if where == "COMMIT" else "ROLLBACK")


@pytest.mark.parametrize("where", ["INTO lists", "COMMIT"])
def test_only_a_commit_without_an_answer_leaves_it_open(server: FakePostgresql, where: str) -> None:
    server.hangs_up = where
    type_, _, error, *_ = transacted((APPEND, 2, 9))
    assert len(server.committed) == (where == "COMMIT")
    is_open = (INFO, "OperationalError")
    assert (type_, error) == (is_open if where == "COMMIT" else (FAIL, "NotCommitted"))


def test_a_commit_whose_wait_was_cancelled_is_unknown(server: FakePostgresql) -> None:
    server.warns, server.warns_at = SYNCREP, "COMMIT"
    assert transacted((APPEND, 2, 9))[::2][:2] == (INFO, SYNCREP)


ANSWERS: dict[str, dict[str, Any]] = {}


class Patroni(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        answer = ANSWERS.get(self.path)
        body = json.dumps(answer).encode()
        self.send_response(503 if answer is None else 200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def patroni(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, dict[str, Any]]]:
    rest = ThreadingHTTPServer((HERE, 0), Patroni)
    Thread(target=rest.serve_forever, args=[0.02], daemon=True).start()
    monkeypatch.setattr(postgresql, "REST_PORT", rest.server_port)
    ANSWERS.clear()
    yield ANSWERS
    rest.shutdown()
    rest.server_close()


def test_a_leader_names_itself_and_a_standby_whom_etcd_has(
    patroni: dict[str, dict[str, Any]],
) -> None:
    def reported() -> Report | None:
        return Postgresql().report(HERE, timeout_s=2)

    assert reported() is None
    own = {"timeline": 3, "patroni": {"name": "n2"}}
    running = {"state": "running", **own}
    patroni["/patroni"] = {**running, "role": "primary", "xlog": {"location": 90}}
    assert reported() == Report("n2", 3, 90)
    patroni["/patroni"] |= {"state": "stopping"}
    assert reported() == Report(None, 3, 90)
    log = {"received_location": 95, "replayed_location": 88}
    patroni["/patroni"] = {**running, "role": "replica", "xlog": log}
    assert reported() == Report(None, 3, 88)
    members = [{"name": "n2", "role": "replica"}, {"name": "n1", "role": "leader"}]
    patroni["/cluster"] = {"members": members}
    assert reported() == Report("n1", 3, 88)
    assert Postgresql().report(NOTHING, timeout_s=2) is None


@pytest.mark.parametrize(
    ("synchronous", "state", "is_ready"),
    [("off", "async", True), ("on", "async", False), ("on", "sync", True), ("strict", "x", True)],
)
def test_a_synchronous_leader_is_ready_when_a_standby_is_waited_for(
    patroni: dict[str, dict[str, Any]], synchronous: str, state: str, is_ready: bool
) -> None:
    patroni["/patroni"] = {"role": "primary", "replication": [{"sync_state": state}]}
    node = DryRunNode("n1", frozenset({"server"}), HERE)
    plan = plan_of(target={"system": "postgresql", "synchronous": synchronous})
    assert Postgresql().is_ready(node, plan) is is_ready
    patroni["/patroni"]["role"] = "replica"
    assert Postgresql().is_ready(node, plan)


def test_what_a_plan_sets_is_in_the_configuration() -> None:
    settings = {"fsync": False, "synchronous_commit": "remote_apply"}
    target = {"system": "postgresql", "synchronous": "strict", "ttl": 40, "settings": settings}
    plan, addresses = plan_of(target=target), {"n1": "198.18.0.11", "n2": "198.18.0.12"}
    files = Postgresql().files(Server("n2", addresses["n2"], addresses), plan)
    document = json.loads(files["patroni.yml"])
    shared = document["bootstrap"]["dcs"]
    assert (shared["ttl"], shared["synchronous_mode_strict"]) == (40, True)
    parameters = shared["postgresql"]["parameters"]
    assert (parameters["fsync"], parameters["synchronous_commit"]) == ("off", "remote_apply")
    assert document["etcd3"]["hosts"] == ["198.18.0.11:2379", "198.18.0.12:2379"]
    assert Postgresql().wanted(plan)["fsync"] == "off"


LOG = """n2 INFO: initialized a new cluster
n1 [51] LOG:  starting PostgreSQL 15.20
n1 [55] LOG:  started streaming WAL from primary at 0/4000000 on timeline 1
n1 [50] LOG:  invalid record length at 0/401E888: wanted 24, got 0
n1 [50] LOG:  redo done at 0/401E860 system usage
n1 [50] LOG:  selected new timeline ID: 2
n2 [59] LOG:  starting PostgreSQL 15.20
n2 [60] LOG:  invalid record length at 1/40573D0: wanted 24, got 0
n2 INFO:  stderr=pg_rewind: servers diverged at WAL location 0/401E888 on timeline 1"""


def test_logs_say_with_which_log_a_server_started_and_was_promoted() -> None:
    lines = [
        Line(at_s=float(at), node=line[:2], place="", text=line[3:])
        for at, line in enumerate(LOG.splitlines())
    ]
    assert len([*Postgresql().happened(lines)]) == len(lines)
    events = in_order(Postgresql().happened(lines))
    found = [(e.kind, e.line.node, e.at_s, e.end, e.epoch) for e in events if e.kind != "follows"]
    assert found == [
        ("leads", "n2", 0, None, 1),
        ("starts", "n1", 1, None, 0),
        ("leads", "n1", 5, 0x401E860, 2),
        ("starts", "n2", 6, (1 << 32) + 0x40573D0, 0),
        ("cut", "n2", 8, 0x401E888, 0),
    ]


@pytest.mark.parametrize(
    ("synchronous", "on_timeout", "change"),
    [
        ("off", "cut", ("target.synchronous", "strict")),
        ("off", "cancel", ("target.synchronous", "strict")),
        ("on", "cancel", ("workload.on_timeout", "cut")),
        ("strict", "cut", None),
    ],
)
def test_what_would_have_kept_a_write_is_said_where_nothing_waits_for_standbys(
    synchronous: str, on_timeout: str, change: tuple[str, str] | None
) -> None:
    plan = {"target": {"synchronous": synchronous}, "workload": {"on_timeout": on_timeout}}
    key, value = Postgresql().waits(plan).others
    section, _, name = key.partition(".")
    assert ((key, value) if plan[section][name] != value else None) == change
