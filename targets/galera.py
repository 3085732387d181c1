"""MariaDB with Galera: every server takes writes, and certifies each transaction in the order that
all of them agree on before it answers a COMMIT.

A server without a majority leaves the primary component and refuses statements. After all servers
were down, somebody has to choose the one to begin with: here each node does what an operator does,
as Pacemaker's resource agent for Galera (`RECOVERY`). Clients are PyMySQL's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field

from harness.images.recipe import Debian, Source
from harness.plan import Plan, Slug
from harness.protocols import FAIL, NODE_DATA, STORED, Cluster, Node
from harness.protocols.explanations import MAJORITY_CAUSES, UNDISTURBED, LogRow, Prevention, Waits
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
    connected,
    setting_text,
)

if TYPE_CHECKING:
    from pymysql.connections import Connection

PORT, GROUP_PORT, IST_PORT, SST_PORT, STATE_PORT = 3306, 4567, 4568, 4444, 4569
_DATA: Final = f"{NODE_DATA}/{STORED}/mysql"
_FILE: Final = f"{NODE_DATA}/galera.cnf"


class GaleraTargetPlan(ServerTargetPlan):
    """Galera's servers: n1, n2 ... `leader` in faults is the first member of the primary component
    (`wsrep_local_index` 0): every server takes writes, and all of them name the same one."""

    system: Slug = Field("galera", description="The system under test, a plug-in in targets/.")


class GaleraWorkloadPlan(ServerWorkloadPlan):
    """The workload and the clients that run it."""

    isolation: Literal["repeatable read", "read committed", "serializable"] = Field(
        "repeatable read",
        description="The isolation level of transactions, which a server keeps among its own.",
    )
    sync_wait: int = Field(
        0,
        ge=0,
        le=15,
        description="`wsrep_sync_wait`: before which statements a server waits until it has what "
        "the others had committed; 1: before reads.",
    )


class GaleraPlan(ServerPlan):
    """A plan whose target is Galera."""

    target: GaleraTargetPlan = Field(default_factory=lambda: GaleraTargetPlan())
    workload: GaleraWorkloadPlan = Field(default_factory=lambda: GaleraWorkloadPlan())


NOT_PREPARED, DEADLOCK = 1047, 1213
ERRORS: Final = (
    ErrorRow(
        NOT_PREPARED,
        "NotPrepared",
        FAIL,
        "a server outside the primary component refuses a statement before it executes it",
    ),
    ErrorRow(
        DEADLOCK,
        DIFFERS,
        FAIL,
        "a deadlock, or another server's transaction came first: this one is rolled back",
    ),
    NOT_COMMITTED,
)
"""Errors that prove that nothing was changed. Not 1180 (an error during COMMIT): the servers that
go on may have it. Nor 1205, 1317 and a connection that is lost."""


def _asked(connection: Connection[Any], statement: str, *values: Any) -> Any:
    """The cursor after a statement. Raises ErrorAnswer, or PyMySQL's error without an answer."""
    import pymysql  # which takes as long to import as a target does

    cursor = connection.cursor()
    try:
        cursor.execute(statement, values)
    except pymysql.MySQLError as failed:
        code = failed.args[0] if failed.args else 0
        if 1000 <= code < 2000 or code >= 3000:  # the others are the library's
            raise ErrorAnswer(code, str(failed.args[-1])) from failed
        raise
    return cursor


def _opened(address: str, *, timeout_s: float, own: bool = False, **more: Any) -> Connection[Any]:
    """A connection. Raises NotSent."""
    import pymysql

    made = pymysql.connect(
        user="root",
        ssl_disabled=True,
        autocommit=True,
        read_timeout=timeout_s,
        write_timeout=timeout_s,
        defer_connect=True,
        **more,
    )
    try:
        made.connect(connected(address, PORT, timeout_s=timeout_s, own=own))
    except pymysql.MySQLError as failed:
        raise NotSent(str(failed)) from failed
    return made


class GaleraClient(SqlClient):
    """A connection to one server, which executes what it is sent itself."""

    errors: ClassVar[Sequence[ErrorRow]] = ERRORS
    rolled_back: ClassVar[Sequence[int]] = (DEADLOCK,)
    begin: str = "START TRANSACTION"
    steps: Mapping[str, str] = {
        "r": "SELECT list FROM lists WHERE name = %s",
        "append": "INSERT INTO lists VALUES (%s, %s) "
        "ON DUPLICATE KEY UPDATE list = CONCAT(list, ',', VALUES(list))",
    }

    def __init__(self, address: str, plan: GaleraPlan) -> None:
        load = plan.workload
        level = load.isolation.replace(" ", "-")
        self._connection = _opened(
            address,
            timeout_s=load.request_ms / 1000,
            database=plan.target.object,
            init_command=f"SET SESSION tx_isolation='{level}', wsrep_sync_wait={load.sync_wait}",
        )

    def execute(self, statement: str, *values: Any) -> Any:
        if not self._connection.open:
            raise NotSent("the connection was lost before")
        return _asked(self._connection, statement, *values)

    def value(self, statement: str, *values: Any) -> Any:
        """A list is a text of numbers, with commas between."""
        found = super().value(statement, *values)
        return json.loads(f"[{found}]") if statement == self.steps["r"] and found else found

    def add(self, value: int) -> int | None:
        """Its position is how far the server's log went just after it was committed."""
        self.execute("INSERT INTO elements VALUES (%s)", value)
        with suppress(Exception):
            return int(self.execute("SHOW STATUS LIKE 'wsrep_last_committed'").fetchone()[1])
        return None

    def close(self) -> None:
        self._connection.close()


EVENTS: Final = (
    LogRow("starts", r"ackloss: recovered (?P<end>-?\d+)", "started with all up to {end:,}"),
    LogRow("leads", r"ackloss: begins (?P<end>-?\d+)", "began the cluster, at {end:,}", epoch=-1),
)

_SCRIPT: Final = "galera.sh"
RECOVERY: Final = files("targets").joinpath(_SCRIPT).read_text("utf-8")


@dataclass(frozen=True)
class Galera(ServerSystem[GaleraPlan]):
    """MariaDB 10.11 with Galera 4: servers n1, n2 ..., each of which takes writes."""

    plugin: ClassVar[str] = "galera"
    plan: ClassVar[type[Plan]] = GaleraPlan
    models: ClassVar[frozenset[str]] = frozenset({"set", "list-append"})
    source: ClassVar[Source] = Debian(
        "mariadb-server", program="mariadbd", further=("galera-4", "rsync", "socat")
    )
    ports: ClassVar[tuple[int, ...]] = (PORT, GROUP_PORT, IST_PORT, SST_PORT, STATE_PORT)
    settings: ClassVar[Sequence[str]] = (
        *("innodb_flush_log_at_trx_commit", "innodb_flush_log_at_timeout", "innodb_doublewrite"),
        *("innodb_snapshot_isolation", "wsrep_slave_threads"),
    )
    synced: ClassVar[tuple[str, Any]] = ("target.settings.innodb_flush_log_at_trx_commit", 1)
    causes: ClassVar[Mapping[str, str]] = {
        **MAJORITY_CAUSES,
        UNDISTURBED: "The servers were killed while they had them in memory, and not on disk",
    }
    switch: ClassVar[tuple[str, str]] = ("OFF", "ON")
    alarms: ClassVar[Path | None] = Path(__file__).parent / "galera_alarms.toml"
    events: ClassVar[Sequence[LogRow]] = EVENTS
    connect = GaleraClient
    cell_keys: ClassVar[tuple[str, ...]] = (
        *("workload.isolation", "workload.sync_wait"),
        *CLIENT_KEYS,
    )
    changes_user: ClassVar[bool] = True
    starters: ClassVar[Mapping[str, str]] = {
        "safe": """
nodes = 3
settings = { innodb_flush_log_at_trx_commit = 1 } # the default; 2 or 0: fsync once a second

[workload]
name = "set"
""",
    }

    def argv(self, server: Server, plan: GaleraPlan) -> list[str]:
        """A script that becomes the server, as another user."""
        start = (
            f"[ -d {_DATA} ] || install -d -o mysql -g mysql -m 700 {_DATA}; "
            "exec setpriv --reuid=mysql --regid=mysql --clear-groups env "
            f"DATA={_DATA} FILE={_FILE} SELF={server.address} STATE_PORT={STATE_PORT} "
            f"SERVERS='{' '.join(server.addresses.values())}' /bin/sh {NODE_DATA}/{_SCRIPT}"
        )
        return ["/bin/sh", "-c", start]

    def files(self, server: Server, plan: GaleraPlan) -> dict[str, bytes]:
        settings = {
            "datadir": _DATA,
            "socket": f"{_DATA}/mysqld.sock",
            "skip_grant_tables": "ON",
            "skip_name_resolve": "ON",
            "innodb_buffer_pool_size": "64M",
            "innodb_log_file_size": "32M",
            "binlog_format": "ROW",
            "wsrep_on": "ON",
            "wsrep_provider": "/usr/lib/galera/libgalera_smm.so",
            "wsrep_provider_options": '"gcache.size=32M"',
            "wsrep_cluster_name": "ackloss",
            "wsrep_cluster_address": f"gcomm://{','.join(server.addresses.values())}",
            "wsrep_node_name": server.name,
            "wsrep_node_address": server.address,
            "wsrep_node_incoming_address": f"{server.address}:{PORT}",
            **self.wanted(plan),
        }
        lines = ["[mysqld]", *(f"{name} = {setting_text(v)}" for name, v in settings.items()), ""]
        return {Path(_FILE).name: "\n".join(lines).encode(), _SCRIPT: RECOVERY.encode()}

    def create(self, cluster: Cluster, plan: GaleraPlan) -> None:
        node = next(iter(cluster.nodes.values()))
        with closing(_opened(node.address, timeout_s=20, own=True)) as connection:
            for name in (each.plan.target.object for each in cell_plans(plan, self)):  # type: ignore[attr-defined]
                _asked(connection, f"CREATE DATABASE IF NOT EXISTS `{name}`")
                for table in _TABLES:
                    _asked(connection, f"CREATE TABLE IF NOT EXISTS `{name}`.{table}")

    def report(self, address: str, *, timeout_s: float) -> Report | None:
        """Of one in the primary component, its first member, by its table: after it joined, its
        `wsrep_incoming_addresses` may lack another one. In sync is one that is Synced."""
        with suppress(Exception):
            status = _shown(address, "STATUS", _METRICS, timeout_s=timeout_s)
            if status["wsrep_cluster_status"] != "Primary":
                return Report(leader=None, epoch=0)
            first = _rows(address, _FIRST_MEMBER, timeout_s=timeout_s)[0][0].partition(":")[0]
            epoch = _signed(status["wsrep_cluster_conf_id"])
            is_synced = status["wsrep_local_state"] == _SYNCED
            position = _signed(status["wsrep_last_committed"]) if is_synced else -1
            return Report(first if epoch >= 0 else None, max(epoch, 0), position)
        return None

    def waits(self, plan: Mapping[str, Any]) -> Waits:
        """With 0 a server's log is in its memory for a second, so that killing it is enough."""
        return Waits(prevents={UNDISTURBED: _WRITTEN})

    def is_ready(self, node: Node, plan: GaleraPlan) -> bool:
        """Whether it is Synced and takes statements."""
        with suppress(Exception):
            status = _shown(node.address, "STATUS", _METRICS, timeout_s=2)
            return (status["wsrep_local_state"], status["wsrep_ready"]) == (_SYNCED, "ON")
        return False

    def metrics(self, node: Node, plan: GaleraPlan, *, timeout_s: float) -> Mapping[str, float]:
        """What its status has, by the names and numbers that mysqld_exporter gives."""
        status = _shown(node.address, "STATUS", _METRICS, timeout_s=timeout_s)
        return {
            f"mysql_global_status_{name}": float(_NUMBERS.get(status[name], status[name]))
            for name in _METRICS
        }

    def reported(self, node: Node, plan: GaleraPlan) -> dict[str, str]:
        return _shown(node.address, "VARIABLES", self.settings, timeout_s=5)


_WRITTEN: Final = Prevention(
    key=Galera.synced[0],
    value="1",
    because="only processes were killed",
    else_="each would have been written to a disk when it was acknowledged",
)


def _signed(number: str) -> int:
    """What is not known yet is -1, of which the status has the 64 bits without a sign."""
    return -1 if int(number) == 2**64 - 1 else int(number)


_METRICS: Final = (
    *("wsrep_ready", "wsrep_cluster_status", "wsrep_cluster_size", "wsrep_cluster_conf_id"),
    *("wsrep_local_state", "wsrep_local_recv_queue", "wsrep_last_committed"),
)
_SYNCED: Final = "4"
_FIRST_MEMBER: Final = (
    "SELECT node_incoming_address FROM mysql.wsrep_cluster_members ORDER BY node_uuid LIMIT 1"
)
_NUMBERS: Final = {"ON": 1, "OFF": 0, "Primary": 1, "non-Primary": 0, "Disconnected": 0}
_TABLES: Final = (
    "elements (element BIGINT PRIMARY KEY)",
    "lists (name VARCHAR(64) PRIMARY KEY, list LONGTEXT NOT NULL)",
)


def _rows(address: str, statement: str, *, timeout_s: float) -> list[Any]:
    """What a server answers to a statement of the harness. Raises."""
    with closing(_opened(address, timeout_s=timeout_s, own=True)) as connection:
        return [*_asked(connection, statement).fetchall()]


def _shown(address: str, what: str, names: Sequence[str], *, timeout_s: float) -> dict[str, str]:
    """What a server shows to the harness of its STATUS or its VARIABLES, by these names. Raises."""
    listed = ", ".join(f"'{name}'" for name in names)
    shown = f"SHOW GLOBAL {what} WHERE Variable_name IN ({listed})"
    return dict(_rows(address, shown, timeout_s=timeout_s))
