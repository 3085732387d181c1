"""PostgreSQL, whose servers Patroni manages: it elects one by a lease in etcd, of which each node
has a member, and has the others replicate from it.

The isolation of transactions is PostgreSQL's. Whether an acknowledged write survives the leader is
Patroni's: by default a standby may lag, and what it had not received is thrown away by pg_rewind.
Clients are psycopg's, over libpq, which looks for the server that takes writes.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field

from harness.errors import PlanError
from harness.images.recipe import PROGRAMS, Source, Wheel
from harness.models import LIST_APPEND
from harness.plan import Plan, Slug
from harness.protocols import (
    FAIL,
    NODE_DATA,
    STORED,
    Completion,
    Invoke,
    Node,
    completion,
    raised,
)
from harness.protocols.explanations import ASYNCHRONOUS_CAUSES, LogRow, Waits
from harness.registry import model_of
from harness.run.cells import cell_plans
from harness.servers import (
    CLIENT_KEYS,
    DIFFERS,
    NOT_COMMITTED,
    ErrorAnswer,
    ErrorRow,
    NotSent,
    Report,
    Server,
    ServerPlan,
    ServerSystem,
    ServerTargetPlan,
    ServerWorkloadPlan,
    SqlClient,
    ask_json,
    limited,
    scraped,
    setting_text,
)

if TYPE_CHECKING:
    import psycopg

PORT, REST_PORT, ETCD_PORT, ETCD_PEER_PORT = 5432, 8008, 2379, 2380
_BIN: Final = "/usr/lib/postgresql/15/bin"
_DATA: Final = f"{NODE_DATA}/{STORED}/postgresql"
_SCHEMA: Final = "schema.sql"
_TABLES: Final = """\
CREATE SCHEMA "{0}";
SET search_path = "{0}";
CREATE TABLE registers (key text PRIMARY KEY, value bigint NOT NULL);
CREATE TABLE lists (key text PRIMARY KEY, list bigint[] NOT NULL);
CREATE TABLE elements (element bigint PRIMARY KEY);
"""


class PostgresqlTargetPlan(ServerTargetPlan):
    """PostgreSQL's servers: n1, n2 ..., each with Patroni and a member of etcd. A fault that is
    shorter than `ttl` does not make another server lead."""

    system: Slug = Field("postgresql", description="The system under test, a plug-in in targets/.")
    synchronous: Literal["off", "on", "strict"] = Field(
        "off",
        description="Patroni's synchronous_mode: whether a write waits for a standby (`on`: while "
        "there is one; `strict`: always), and only such a standby may lead next.",
    )
    ttl: int = Field(
        20,
        ge=20,
        le=600,
        description="Patroni's: how long a leader's lease lasts, in seconds. Its own default is "
        "30.",
    )
    loop_wait: int = Field(
        2, ge=1, le=60, description="Patroni's: how often it acts, in seconds. Its default is 10."
    )
    retry_timeout: int = Field(
        5,
        ge=3,
        le=60,
        description="Patroni's: how long it tries to reach etcd or PostgreSQL before the leader "
        "gives up its lease, in seconds. Its default is 10.",
    )


class PostgresqlWorkloadPlan(ServerWorkloadPlan):
    """The workload and the clients that run it."""

    isolation: Literal["serializable", "repeatable read", "read committed"] = Field(
        "serializable", description="The isolation level of transactions."
    )
    read: Literal["leader", "replica"] = Field(
        "replica",
        description="Where a set is read: at the server that takes writes, or at the one that the "
        "client has (client N, from 0: server N + 1).",
    )
    on_timeout: Literal["cut", "cancel"] = Field(
        "cut",
        description="What a client does after `request_ms`: it cuts the connection; or it requests "
        "to cancel, as drivers do for a time limit of a statement, and takes a success with a "
        "warning for a success.",
    )


class PostgresqlPlan(ServerPlan):
    """A plan whose target is PostgreSQL."""

    target: PostgresqlTargetPlan = Field(default_factory=lambda: PostgresqlTargetPlan())
    workload: PostgresqlWorkloadPlan = Field(default_factory=lambda: PostgresqlWorkloadPlan())


_WARNING: Final = "01000"

ERRORS: Final = (
    ErrorRow("25006", "ReadOnly", FAIL, "a standby refuses what writes before it executes it"),
    ErrorRow("40001", DIFFERS, FAIL, "the server has rolled back, also if it answers so to COMMIT"),
    ErrorRow("40P01", DIFFERS, FAIL, "a deadlock: the server has rolled this transaction back"),
    NOT_COMMITTED,
)
"""Errors that prove that nothing was changed. Not 57P01 (the server is shut down) nor a connection
that is lost: both may come after the commit. Nor is a success one whose warning (class 01) says
that the wait for a standby was cancelled: it is committed on the leader alone."""


class PostgresqlClient(SqlClient):
    """A connection to the first of its servers that takes writes: so some stay with an isolated
    leader, as libpq does; and one to the first of them, for reads of the set."""

    errors: ClassVar[Sequence[ErrorRow]] = ERRORS
    rolled_back: ClassVar[Sequence[str]] = ("40001", "40P01")

    def __init__(self, address: str, plan: PostgresqlPlan) -> None:
        self.servers, self._load = [(address, address)], plan.workload
        self._schema = plan.target.object
        is_of_lists = model_of(plan.workload.name) == LIST_APPEND.name
        read = _READ_LIST if is_of_lists else _READ
        self.steps = {"r": read, "append": _APPEND, "w": _WRITE}
        self.begin = f"BEGIN ISOLATION LEVEL {self._load.isolation}"
        self._limit_s = plan.workload.request_ms / 1000
        self._connections: dict[str, psycopg.Connection[Any]] = {}
        self._warning: str | None = None

    def _connected(self, session: str) -> psycopg.Connection[Any]:
        """The connection to the first server that offers such a session. Raises NotSent."""
        import psycopg  # which takes as long to import as a target does

        connection = self._connections.get(session)
        if connection is None:
            own = self.servers[:1] if session == "any" else self.servers
            try:
                connection = psycopg.connect(
                    host=",".join(address for _, address in own),
                    port=PORT,
                    user="postgres",
                    dbname="postgres",
                    target_session_attrs=session,
                    connect_timeout=2,
                    tcp_user_timeout=4000,
                    autocommit=True,
                    prepare_threshold=None,
                    options=f'-c search_path="{self._schema}"',
                )
            except psycopg.Error as failed:
                raise NotSent(str(failed)) from failed
            connection.add_notice_handler(self._noticed)
            self._connections[session] = connection
        return connection

    def _noticed(self, said: psycopg.errors.Diagnostic) -> None:
        if said.sqlstate == _WARNING:
            self._warning = said.message_primary

    def call(self, op: Invoke) -> Completion:
        """Execute an operation, within the time that a request has."""
        is_of_set = op[0] == "read" and op[3] is None
        self._session = "any" if is_of_set and self._load.read == "replica" else "read-write"
        connection, self._warning = self._connected(self._session), None
        address, cancels = connection.info.hostaddr, self._load.on_timeout == "cancel"
        timer = threading.Timer(self._limit_s, _cancel, [connection]) if cancels else None
        try:
            with limited(connection.fileno, self._limit_s * (2 if cancels else 1)):
                if timer is not None:
                    timer.start()
                type_, position, error, _, result = super().call(op)
        except Exception as failed:
            type_, position, error, _, result = raised(failed)
        finally:
            if timer is not None:
                timer.cancel()
        node = {address: name for name, address in self.servers}.get(address)
        return completion(type_, position, error, node, result)

    def execute(self, statement: str, *values: Any) -> psycopg.Cursor[Any]:
        import psycopg

        try:
            done = self._connections[self._session].execute(statement.encode(), values)
        except psycopg.Error as failed:
            if failed.sqlstate is None:  # not an answer: the connection was lost
                raise
            raise ErrorAnswer(failed.sqlstate, f"{failed}".partition("\n")[0]) from failed
        if self._warning is not None and self._load.on_timeout == "cut":
            raise ErrorAnswer(_WARNING, self._warning)
        return done

    def read(self, key: str) -> int | None:
        found: int | None = self.value(_READ, key)
        return found

    def write(self, key: str, value: int) -> None:
        self.execute(_WRITE, key, value)

    def delete(self, key: str) -> None:
        self.execute("DELETE FROM registers WHERE key = %s", key)

    def compare_and_set(self, key: str, expected: int, value: int) -> bool:
        changed = "UPDATE registers SET value = %s WHERE key = %s AND value = %s"
        return self.execute(changed, value, key, expected).rowcount == 1

    def add(self, value: int) -> int | None:
        """Its position is where the log ended just before it was committed."""
        at = self.value(
            "INSERT INTO elements VALUES (%s) ON CONFLICT DO NOTHING "
            "RETURNING pg_current_wal_insert_lsn() - '0/0'::pg_lsn",
            value,
        )
        return None if at is None else int(at)

    def close(self) -> None:
        for connection in self._connections.values():
            with suppress(Exception):
                connection.close()


def _cancel(connection: psycopg.Connection[Any]) -> None:
    with suppress(Exception):  # the server cannot be reached, or has answered by now
        connection.cancel_safe(timeout=2)


_READ: Final = "SELECT value FROM registers WHERE key = %s"
_READ_LIST: Final = "SELECT list FROM lists WHERE key = %s"
_WRITE: Final = (
    "INSERT INTO registers VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
)
_APPEND: Final = (
    "INSERT INTO lists VALUES (%s, ARRAY[%s]::bigint[]) "
    "ON CONFLICT (key) DO UPDATE SET list = lists.list || excluded.list"
)


_METRICS: Final = re.compile(r"patroni_(?!version|postgres_server_version|postmaster_start_time)")
_LSN: Final = "(?P<end>[0-9A-F]+/[0-9A-F]+)"
EVENTS: Final = (
    LogRow("begins", "starting PostgreSQL", "started"),
    LogRow("follows", "started streaming WAL", "went on with what the leader sends"),
    LogRow("ends", f"(?:invalid record length|redo done) at {_LSN}", "{0}"),
    LogRow(
        "cut",
        f"servers diverged at WAL location {_LSN}",
        "threw away what its log had after {0} (pg_rewind)",
    ),
    LogRow(
        "leads", r"selected new timeline ID: (?P<epoch>\d+)", "was promoted to timeline {epoch}"
    ),
    LogRow("leads", "initialized a new cluster", "created the database, on timeline 1", epoch=1),
)
"""Where the log of a server ends, it says when it starts and before it is promoted: one that
replays more says where its last record begins. pg_rewind says where it cut."""


@dataclass(frozen=True)
class Postgresql(ServerSystem[PostgresqlPlan]):
    """PostgreSQL 15 with Patroni 4: servers n1, n2 ..."""

    plugin: ClassVar[str] = "postgresql"
    plan: ClassVar[type[Plan]] = PostgresqlPlan
    models: ClassVar[frozenset[str]] = frozenset({"register", "set", "list-append", "rw-register"})
    alarms: ClassVar[Path | None] = Path(__file__).parent / "postgresql_alarms.toml"
    source: ClassVar[Source] = Wheel(
        "patroni",
        program="patroni/__main__.py",
        versions={"4.1.5": "7aad8c1539e6c51c269a8005169dd54ddc7668437b7900fa6099d7894e224c84"},
        further=(
            *("postgresql-15", "etcd-server", "python3-psycopg2", "python3-etcd", "python3-click"),
            *("python3-dateutil", "python3-prettytable", "python3-psutil", "python3-yaml"),
        ),
    )
    version_commands: ClassVar[Mapping[str, Sequence[str]]] = {
        "PostgreSQL": (f"{_BIN}/postgres", "--version"),
        "Patroni": ("env", f"PYTHONPATH={PROGRAMS}", "python3", "-m", "patroni", "--version"),
    }
    ports: ClassVar[tuple[int, ...]] = (PORT, REST_PORT, ETCD_PORT, ETCD_PEER_PORT)
    settings: ClassVar[Sequence[str]] = (
        "synchronous_commit",
        "fsync",
        "full_page_writes",
        "wal_writer_delay",
        "commit_delay",
    )
    setting_keys: ClassVar[Mapping[str, str]] = {
        "ttl": "target.ttl",
        "loop_wait": "target.loop_wait",
        "retry_timeout": "target.retry_timeout",
        "synchronous_mode": "target.synchronous",
        "synchronous_mode_strict": "target.synchronous",
    }
    causes: ClassVar[Mapping[str, str]] = ASYNCHRONOUS_CAUSES
    events: ClassVar[Sequence[LogRow]] = EVENTS
    switch: ClassVar[tuple[str, str]] = ("off", "on")
    connect = PostgresqlClient
    metrics = scraped(REST_PORT, _METRICS)
    cell_keys: ClassVar[tuple[str, ...]] = (
        *(f"workload.{key}" for key in ("isolation", "read", "on_timeout")),
        *CLIENT_KEYS,
    )
    changes_user: ClassVar[bool] = True
    synced: ClassVar[tuple[str, Any]] = ("target.settings.fsync", True)
    starters: ClassVar[Mapping[str, str]] = {
        "safe": """
nodes = 3
synchronous = "on"               # "off": a write waits for no standby

[workload]
name = "set"
""",
    }

    def check(self, plan: PostgresqlPlan) -> None:
        """Refuse times that Patroni would change by itself, too."""
        super().check(plan)
        least = plan.target.loop_wait + 2 * plan.target.retry_timeout
        if plan.target.ttl < least:
            raise PlanError(
                f"it is less than loop_wait + 2 * retry_timeout, which is {least}: Patroni would "
                "use other times",
                key="target.ttl",
            )

    def wanted(self, plan: PostgresqlPlan) -> dict[str, Any]:
        """Those of PostgreSQL, and those of Patroni that all servers share."""
        mode = plan.target.synchronous
        of_mode = {"synchronous_mode": mode != "off", "synchronous_mode_strict": mode == "strict"}
        return {**super().wanted(plan), **of_mode}

    def beside(self, server: Server, plan: PostgresqlPlan) -> list[list[str]]:
        """A member of etcd."""
        members = [f"{name}=http://{ip}:{ETCD_PEER_PORT}" for name, ip in server.addresses.items()]
        client = f"http://{server.address}:{ETCD_PORT}"
        peer = f"http://{server.address}:{ETCD_PEER_PORT}"
        return [
            [
                "etcd",
                f"--name={server.name}",
                f"--data-dir={NODE_DATA}/{STORED}/etcd",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster={','.join(members)}",
                "--pre-vote=true",
            ]
        ]

    def argv(self, server: Server, plan: PostgresqlPlan) -> list[str]:
        """Patroni, as another user: PostgreSQL refuses to run as root."""
        start = (
            f"[ -d {_DATA} ] || install -d -o postgres -g postgres -m 700 {_DATA}; "
            f"chmod 755 {NODE_DATA}/{STORED}; "  # which etcd may have made, for root alone
            "exec setpriv --reuid=postgres --regid=postgres --clear-groups "
            f"env PYTHONPATH={PROGRAMS} HOME={_DATA} "
            f"/usr/bin/python3 -m patroni {NODE_DATA}/patroni.yml"
        )
        return ["/bin/sh", "-c", start]

    def files(self, server: Server, plan: PostgresqlPlan) -> dict[str, bytes]:
        """Patroni's configuration, as JSON, which is YAML too."""
        wanted = self.wanted(plan)
        shared = {name: wanted.pop(name) for name in self.setting_keys}
        parameters = {"max_connections": 200, **wanted}
        document = {
            "scope": "ackloss",
            "name": server.name,
            "restapi": {
                "listen": f"0.0.0.0:{REST_PORT}",
                "connect_address": f"{server.address}:{REST_PORT}",
            },
            "etcd3": {"hosts": [f"{ip}:{ETCD_PORT}" for ip in server.addresses.values()]},
            "bootstrap": {
                "dcs": {**shared, "postgresql": {"use_pg_rewind": True, "parameters": parameters}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C.UTF-8"}, "data-checksums"],
                "post_init": f"{_BIN}/psql -qf {NODE_DATA}/{_SCHEMA}",
            },
            "postgresql": {
                "listen": f"0.0.0.0:{PORT}",
                "connect_address": f"{server.address}:{PORT}",
                "data_dir": f"{_DATA}/data",
                "bin_dir": _BIN,
                "authentication": {
                    "superuser": {"username": "postgres"},
                    "replication": {"username": "replicator"},
                },
                "pg_hba": [
                    "local all all trust",
                    "host all all all trust",
                    "host replication all all trust",
                ],
                "parameters": {"unix_socket_directories": _DATA, "shared_buffers": "32MB"},
            },
        }
        tables = (_TABLES.format(each.plan.target.object) for each in cell_plans(plan, self))  # type: ignore[attr-defined]
        return {"patroni.yml": json.dumps(document).encode(), _SCHEMA: "".join(tables).encode()}

    def report(self, address: str, *, timeout_s: float) -> Report | None:
        """Patroni's of its own server, which needs no etcd, and of a standby the leader's name, as
        etcd has it."""
        own = _ask(address, "/patroni", timeout_s=timeout_s)
        if own is None:
            return None
        epoch, log = int(own.get("timeline") or 0), own.get("xlog") or {}
        position = int(log.get("location") or log.get("replayed_location") or 0)
        leader = None
        if own["state"] == "running":
            if own["role"] == "primary":
                leader = own["patroni"]["name"]
            else:
                cluster = _ask(address, "/cluster", timeout_s=timeout_s) or {}
                members = cluster.get("members", ())
                leader = next((m["name"] for m in members if m["role"] == "leader"), None)
        return Report(leader, epoch, position)

    def number(self, text: str) -> int:
        """A place in the log: 32 bits on each side of the stroke."""
        high, stroke, low = text.partition("/")
        return int(high, 16) << 32 | int(low, 16) if stroke else int(text)

    def waits(self, plan: Mapping[str, Any]) -> Waits:
        """Standbys lag unless they are synchronous, or where a client ends the wait for them. With
        `on`, Patroni may turn the wait off."""
        if plan["target"]["synchronous"] == "off":
            return Waits(("target.synchronous", "strict"))
        return Waits(("workload.on_timeout", "cut"))

    def reported(self, node: Node, plan: PostgresqlPlan) -> dict[str, str]:
        """What PostgreSQL uses, and what Patroni has in etcd."""
        query = "SELECT name || '=' || setting FROM pg_settings"
        listed = node.run([f"{_BIN}/psql", "-h", node.address, "-U", "postgres", "-Atc", query])
        found = dict(line.split("=", 1) for line in listed.output.splitlines() if "=" in line)
        shared = _ask(node.address, "/config", timeout_s=5) or {}
        of_patroni = {
            name: setting_text(shared[name]) for name in self.setting_keys if name in shared
        }
        return found | of_patroni

    def is_ready(self, node: Node, plan: PostgresqlPlan) -> bool:
        """Of a leader in synchronous mode, whether its writes wait for a standby by now."""
        own = _ask(node.address, "/patroni", timeout_s=2) or {}
        standbys = own.get("replication") or ()
        awaited = plan.target.synchronous != "off" and plan.replicas > 1
        is_synchronous = any(each["sync_state"] != "async" for each in standbys)
        return own.get("role") != "primary" or is_synchronous or not awaited


def _ask(address: str, path: str, *, timeout_s: float) -> dict[str, Any] | None:
    """What Patroni answers to the harness; `None` if it does not."""
    found: dict[str, Any] | None = ask_json(address, REST_PORT, path, timeout_s=timeout_s)
    return found
