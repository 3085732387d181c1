"""What systems have in common that are one server process on each node, in a replicated group.

A target that inherits `ServerSystem` says where the server comes from, its command, its ports, what
a server reports of who leads, and how a client connects. All else has a default: nodes and files,
when the cluster is ready, settings and how they are read back, who is in sync, selectors and
conditions, clients that move on to the next server, pages. docs/how-to/new-system.md builds one
step by step.
"""

from __future__ import annotations

import functools
import http.client
import json
import re
import shlex
import socket
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from select import select
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple, TypeVar

from pydantic import Field

from harness import registry
from harness.errors import HarnessFailure, PlanError
from harness.faults.leaders import quorum_vocabulary
from harness.faults.own_traffic import own_connection
from harness.images import java
from harness.images.recipe import PROGRAMS, Recipe, Source, kept_program
from harness.models import LOG, WATCH
from harness.models.micro_ops import Read, Step, answered, steps_of
from harness.plan import Plan, Slug, TargetPlan, WorkloadPlan
from harness.plan.model import at, is_default
from harness.protocols import (
    FAIL,
    INFO,
    NODE_DATA,
    NULL,
    OK,
    BlockingClient,
    Client,
    Cluster,
    Completion,
    End,
    Explanation,
    FaultWindow,
    ImageRef,
    Ingredients,
    Invoke,
    Node,
    NodeSpec,
    NodeView,
    PartitionView,
    Promises,
    Target,
    Vocabulary,
    completion,
    raised,
)
from harness.protocols.checkers import counted
from harness.protocols.explanations import (
    MAJORITY_CAUSES,
    WITHOUT,
    Happened,
    Holding,
    Line,
    LogRow,
    Waits,
)
from harness.run.client_pool import ThreadedClient
from harness.run.client_pool import limited as limited

if TYPE_CHECKING:
    import pyarrow as pa

    from harness.history.run_folder import RunDir

# Plans of such systems: these sections, and further keys of the system's own.

OBJECT: Final = "ackloss"
CLIENT_KEYS: Final = ("workload.connect", "workload.request_ms", "workload.clients")
"""The keys of clients, which each cell of a run has separately."""


class ServerTargetPlan(TargetPlan):
    """The servers."""

    nodes: Literal[1, 2, 3, 5, 7] = Field(3, description="How many servers.")
    object: Slug = Field(
        OBJECT,
        exclude_if=lambda name: name == OBJECT,
        description="What clients write to: the name of the queue, or what names of keys begin "
        "with. Each cell of a run has its own.",
    )


class ServerWorkloadPlan(WorkloadPlan):
    """The workload and the clients that run it. Each process has its own client, if there are
    enough clients."""

    processes: int = Field(
        12, ge=1, le=20_000, description="Logical clients, each with one operation in flight."
    )
    clients: int = Field(
        12, ge=1, le=64, description="Real clients, each with one operation in flight."
    )
    connect: Literal["all", "one"] = Field(
        "all",
        description="The servers that a client tries, in turn after each failure: all of them, or "
        "one each.",
    )
    request_ms: int = Field(
        2000, ge=100, le=600_000, description="How long a client waits for one answer."
    )


class ServerPlan(Plan):
    """A plan for such a system. Every server holds everything."""

    target: ServerTargetPlan
    workload: ServerWorkloadPlan = Field(default_factory=lambda: ServerWorkloadPlan())

    @property
    def replicas(self) -> int:
        """As many as there are servers."""
        return self.target.nodes


# What ends an operation without an answer, or with one that is an error.


class NotSent(Exception):
    """The request surely did not reach a server: it could not be connected."""


class ErrorAnswer(Exception):
    """The server answered with an error: its code and its text."""

    def __init__(self, code: int | str, text: str = "") -> None:
        super().__init__(f"{code}: {text}")
        self.code, self.text = code, text


NO_ANSWER: Final = (NotSent, ErrorAnswer, OSError, http.client.HTTPException, ValueError)
"""What the connections below raise where an answer does not come, or cannot be read."""


class ErrorRow(NamedTuple):
    """One row of a table of errors. `ends` is FAIL only for an error that proves that nothing was
    changed: the server checks it before it changes anything, and the client sent the request once.
    All that is in no row is INFO."""

    code: int | str
    name: str
    ends: str
    why: str


NOT_CONNECTED: Final = "NotConnected"
DIFFERS: Final = "Differs"
"""The error of a compare-and-set whose register held another value, and of a transaction that was
refused because of another one: the connection is as good as before."""


class KeyValueClient(BlockingClient):
    """A connection to one server, for the models that a system serves. Each method is one request,
    sent once: it raises NotSent, ErrorAnswer, or whatever its library raises (the operation is then
    unknown). `errors` is the table of what the server answers."""

    errors: ClassVar[Sequence[ErrorRow]] = ()
    server: str | None = None
    """The address of the server that executed the last request, if it is another one."""
    servers: Sequence[tuple[str, str]] = ()
    """The names and addresses of the servers that its client tries, in turn from its own."""

    def read(self, key: str) -> int | None:
        """The value of a register; `None` if it has none."""
        raise NotImplementedError

    def write(self, key: str, value: int) -> int | None:
        """Set a register; its position as `add` has it."""
        raise NotImplementedError

    def watch(self, key: str) -> tuple[int, tuple[int, ...]]:
        """Read a register and leave a watch: position and `elements` of the model `watch`."""
        raise NotImplementedError

    def delete(self, key: str) -> None:
        """Take the value of a register away."""
        raise NotImplementedError

    def compare_and_set(self, key: str, expected: int, value: int) -> bool:
        """Set a register if it has the expected value; whether it had."""
        raise NotImplementedError

    def add(self, value: int) -> int | None:
        """Add an element to the set; its position in the order of all writes, if the answer says
        it."""
        raise NotImplementedError

    def read_all(self) -> Iterable[int]:
        """All elements of the set."""
        raise NotImplementedError

    def enqueue(self, value: int) -> None:
        """Put an element into the queue."""
        raise NotImplementedError

    def dequeue(self) -> int | None:
        """Take an element out of the queue; `None` if it found nothing."""
        raise NotImplementedError

    def drain(self) -> Iterable[int]:
        """Take all elements out; raises if any may be left, or be out with another client."""
        raise NotImplementedError

    def append(self, partition: int, value: int) -> int | None:
        """Append a value to a log; its position there, if the answer says it."""
        raise NotImplementedError

    def transact(self, steps: Sequence[Step]) -> Sequence[Read]:
        """Execute steps in their order as one transaction, sent once: ("append", key, value),
        ("w", key, value), ("r", key, None). What its reads returned, in their order: lists, or
        values of registers. `errors` ends in FAIL only what surely did not commit."""
        raise NotImplementedError

    def call(self, op: Invoke) -> Completion:
        """Execute an operation, and look up in the table how an error ends it."""
        f, value, partition, key, expected = op
        position = None
        try:
            if f == "add":
                position = self.add(value)
            elif f == "enqueue":
                self.enqueue(value)
            elif f == "dequeue":
                return completion(OK, result=self.dequeue())
            elif f == "drain":
                return completion(OK, result=tuple(self.drain()))
            elif f == "append":
                position = self.append(partition, value)
            elif f == "read":
                found = tuple(self.read_all()) if key is None else self.read(key)
                return completion(OK, result=found)
            elif f == "write" and key is not None:
                position = self.write(key, value)
            elif f == "watch" and key is not None:
                position, seen = self.watch(key)
                return completion(OK, position, result=seen)
            elif f == "delete" and key is not None:
                self.delete(key)
            elif f == "txn" and isinstance(expected, tuple):
                reads = self.transact(steps_of(expected))
                return completion(OK, result=answered(expected, reads))
            elif key is None or not isinstance(expected, int):
                raise NotImplementedError(f)
            elif not self.compare_and_set(key, expected, value):
                return completion(FAIL, error=DIFFERS)
            return completion(OK, position)
        except ErrorAnswer as refused:
            for code, name, ends, _ in self.errors:
                if code in (refused.code, refused.text):
                    return completion(ends, error=name)
            return completion(INFO, error=f"{refused.text or refused.code:.100}")


NOT_COMMITTED: Final = ErrorRow(
    "before COMMIT", "NotCommitted", FAIL, "without its COMMIT a transaction is rolled back"
)


class SqlClient(KeyValueClient):
    """A connection to a server that speaks SQL, where a set is the table `elements`."""

    rolled_back: ClassVar[Sequence[int | str]] = ()
    """The codes of errors with which the server itself has ended a transaction."""
    begin: str = "BEGIN"
    """What begins a transaction."""
    steps: Mapping[str, str] = {}
    """The statement of each step of a transaction: "r" of a key, others of a key and a value."""

    def execute(self, statement: str, *values: Any) -> Any:
        """Send a statement once; the cursor that has its rows (PEP 249). Raises as `add` does."""
        raise NotImplementedError

    def value(self, statement: str, *values: Any) -> Any:
        """The first column of the first row, if there is one."""
        row = self.execute(statement, *values).fetchone()
        return None if row is None else row[0]

    def read_all(self) -> Iterable[int]:
        return [row[0] for row in self.execute("SELECT element FROM elements")]

    def transact(self, steps: Sequence[Step]) -> Sequence[Read]:
        """Each step is a statement of its own: only COMMIT, which is sent once, can leave it open
        whether they were executed."""
        reads = list[Read]()
        try:
            self.execute(self.begin)
            for f, key, value in steps:
                if f == "r":
                    reads.append(self.value(self.steps[f], key))
                else:
                    self.execute(self.steps[f], key, value)
        except Exception as failed:
            if isinstance(failed, ErrorAnswer) and failed.code in self.rolled_back:
                self.execute("ROLLBACK")
                raise
            raise ErrorAnswer(NOT_COMMITTED.code) from failed
        self.execute("COMMIT")
        return reads


class Moving(BlockingClient):
    """A client that goes on to the next of its servers after each operation that did not succeed,
    and knows which served it, unless the connection itself says so."""

    def __init__(
        self,
        connect: Callable[[str], KeyValueClient],
        servers: Sequence[tuple[str, str]],
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._connect, self._servers, self._turn, self._names = connect, servers, 0, names
        self._client: KeyValueClient | None = None

    def call(self, op: Invoke) -> Completion:
        name, address = self._servers[self._turn % len(self._servers)]
        try:
            if (client := self._client) is None:
                client = self._client = self._connect(address)
                client.servers = in_turn(self._servers, "all", self._turn)
            type_, position, error, node, result = client.call(op)
            node = node or self._names.get(client.server or "")
        except NotSent:
            type_, position, error, node, result = completion(FAIL, error=NOT_CONNECTED)
        except Exception as failed:  # whatever its library raises: it says nothing of the outcome
            type_, position, error, node, result = raised(failed)
        if type_ != OK and error != DIFFERS:
            self.close()
            self._turn += 1
        return completion(type_, position, error, node or name, result)

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                client.close()


def connected(address: str, port: int, *, timeout_s: float, own: bool = False) -> socket.socket:
    """A TCP connection to a server. `own`: it is the harness' and not the workload's, so that no
    fault counts what it sends. Raises NotSent."""
    try:
        if own:
            made = own_connection(address, port, timeout_s=timeout_s)
        else:
            made = socket.create_connection((address, port), timeout_s)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise NotSent(str(error)) from error
    return made


class JsonOverHttp:
    """A connection over which JSON documents are sent, each once. `own`: see `connected`; `headers`
    go with each request."""

    def __init__(
        self,
        address: str,
        port: int,
        *,
        timeout_s: float,
        own: bool = False,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._headers, self._came = headers, b""
        self._http = http.client.HTTPConnection(address, port, timeout=timeout_s)
        self._http.sock = connected(address, port, timeout_s=timeout_s, own=own)

    def begin(self, path: str, document: object = None, *, method: str = "POST") -> None:
        """Send a request, without a document a GET, and do not wait for its answer."""
        body = None if document is None else json.dumps(document)
        self._http.request(method if body else "GET", path, body, dict(self._headers))

    def ask(self, path: str, document: object = None, *, method: str = "POST") -> str:
        """The text of the answer to such a request. Raises ErrorAnswer for a status that is not
        2xx, with its text; OSError or HTTPException when none comes."""
        self.begin(path, document, method=method)
        answer = self._http.getresponse()
        text = answer.read().decode(errors="replace")
        if answer.status // 100 != 2:
            raise ErrorAnswer(answer.status, text)
        return text

    def post(self, path: str, document: Mapping[str, Any]) -> dict[str, Any]:
        """The document that answers another one. Raises as `ask` does."""
        made: dict[str, Any] = json.loads(self.ask(path, document))
        return made

    def came(self, what: bytes, wait_s: float) -> int:
        """Of an answer that goes on and on, such as a stream of changes, whether this has come
        after this time at most; NULL: the connection ended before."""
        with suppress(OSError):
            while what not in self._came:
                if not select([self._http.sock], [], [], wait_s)[0]:
                    return 0
                if not (more := self._http.sock.recv(65536)):
                    return NULL
                self._came += more
            return 1
        return NULL

    def close(self) -> None:
        """Disconnect."""
        self._http.close()


def fetched(
    address: str,
    port: int,
    path: str,
    document: object = None,
    *,
    timeout_s: float,
    method: str = "POST",
    headers: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """What a server answers to the harness, as `JsonOverHttp` has it."""
    own = JsonOverHttp(address, port, timeout_s=timeout_s, own=True, headers=headers)
    with closing(own) as connection:
        return connection.ask(path, document, method=method)


def ask_json(address: str, port: int, path: str, *request: object, timeout_s: float) -> Any:
    """The same, of a GET or, with a document, a POST, as a document; `None`: no answer."""
    with suppress(*NO_ANSWER):
        return json.loads(fetched(address, port, path, *request, timeout_s=timeout_s))
    return None


_SERIES: Final = re.compile(r"(?m)^(\w+(?:\{[^}]*\})?) (\S+)")


def scraped(port: int, wanted: re.Pattern[str]) -> Callable[..., Mapping[str, float]]:
    """The method `metrics` of a system whose servers export series for Prometheus (`/metrics`):
    those whose names match."""

    def metrics(self: object, node: Node, plan: Plan, *, timeout_s: float) -> Mapping[str, float]:  # noqa: ARG001
        found = _SERIES.findall(fetched(node.address, port, "/metrics", timeout_s=timeout_s))
        return {name: float(value) for name, value in found if wanted.match(name)}

    return metrics


# Settings that were requested and those that servers report.


def setting_text(value: Any) -> str:
    """A setting's value as files and command lines have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def properties(values: Mapping[str, Any]) -> bytes:
    """A file of Java's properties."""
    escaped = {key: setting_text(value).replace("\\", "\\\\") for key, value in values.items()}
    return "".join(f"{key}={value}\n" for key, value in escaped.items()).encode()


def compare_settings(
    requested: Mapping[str, Any],
    reported: Mapping[str, Mapping[str, str]],
    *,
    keys: Mapping[str, str] = MappingProxyType({}),
) -> list[str]:
    """What no server reports, one sentence each; `reported` by the server's name. Raises PlanError
    for a setting of which a server has another value. `keys`: as `ServerSystem.setting_keys`."""
    unreported = []
    for key, value in requested.items():
        place = keys.get(key, f'target.settings."{key}"')
        having = {name: found[key] for name, found in reported.items() if key in found}
        for name, found in having.items():
            if found != setting_text(value):
                raise PlanError(
                    f"{name} has {found!r}, but {setting_text(value)!r} was requested", key=place
                )
        if not having:
            unreported.append(f"{place}: servers do not report it")
    return unreported


def shared_settings(reported: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The settings that are equal on all servers."""
    first, *others = reported.values()
    return {
        key: value
        for key, value in first.items()
        if all(other.get(key) == value for other in others)
    }


# Nodes.


class Server(NamedTuple):
    """A node as its command and files need it: its name and address, and those of all, in order."""

    name: str
    address: str
    addresses: Mapping[str, str]


class Report(NamedTuple):
    """Who leads, as one server alone reports it (its name or its address; `None`: nobody), in which
    epoch or term, and how far its own log goes. `in_sync`: who is in sync, where a leader reports
    that itself."""

    leader: str | None
    epoch: int
    position: int = 0
    in_sync: tuple[str, ...] | None = None


class Log(NamedTuple):
    """All that one server has of a log: the positions of its first record and after its last one,
    and its records, each with its position and value."""

    start: int
    end: int
    records: Sequence[tuple[int, int]]


_LEADER: Final = "the leader"
_VERSION: Final = re.compile(r"\d+(?:\.\d+)+")
_ASK_S: Final = 2.0
_POLL_S: Final = 0.1
_LOOK_S: Final = 2.0
ADDRESSES: Final = "addresses"
"""Our own file on each node: names and addresses of all."""
START: Final = "start.sh"
"""Our own file on each node of several processes: it starts them, and becomes the server."""

PlanT = TypeVar("PlanT", bound=Plan, contravariant=True)


class ServerSystem(Target[PlanT]):
    """A system of servers n1, n2 ..., all alike."""

    models: ClassVar[frozenset[str]] = frozenset({"register", "set"})
    source: ClassVar[Source]
    """Where the server comes from."""
    version_commands: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The commands that print the versions of a node's programs, by name; by default its server's,
    unless an image has what a `default_version` names."""
    ports: ClassVar[tuple[int, ...]]
    """The TCP ports on which a server listens."""
    settings: ClassVar[Sequence[str]] = ()
    """The settings of servers that a plan may set in `target.settings`: those that load no code and
    name no file, address or port."""
    causes: ClassVar[Mapping[str, str]] = MAJORITY_CAUSES
    defects: ClassVar[frozenset[str]] = frozenset({WITHOUT})
    events: ClassVar[Sequence[LogRow]] = ()
    """What servers log of elections and of what they started with, for `explain`."""
    object_lines: ClassVar[re.Pattern[str]] = re.compile("(?!)()")
    """What names an object in such a line, as its first group: it is read for that object alone."""
    synced: ClassVar[tuple[str, Any]] = ("", None)
    """The key of a plan, and its value with which a server calls fsync before it acknowledges."""
    lacks: ClassVar[Mapping[str, Sequence[str]]] = {}
    """The keys of a plan that versions do not have."""
    switch: ClassVar[tuple[str, str]] = ("false", "true")
    """How servers write that a setting is off, and on."""
    changes_user: ClassVar[bool] = False
    """Whether its command begins as root and goes on as another user."""
    voters: ClassVar[frozenset[str]] = frozenset()
    """The roles of servers with a vote; none: all have one."""
    either: ClassVar[Sequence[tuple[str, str]]] = (("report", "observe"), ("connect", "client"))
    """Of each pair a system has to override one method."""

    @abstractmethod
    def argv(self, server: Server, plan: PlanT) -> Sequence[str]:
        """The command of a server; what it stores is below `NODE_DATA`/`STORED`."""

    def beside(self, server: Server, plan: PlanT) -> Sequence[Sequence[str]]:  # noqa: ARG002
        """Further commands of a server's node, which are started before its own, as its children:
        whatever ends or stops it does the same to them."""
        return ()

    def files(self, server: Server, plan: PlanT) -> Mapping[str, bytes]:  # noqa: ARG002
        """The files that a server starts with, by their names below `NODE_DATA`."""
        return {}

    def role(self, name: str) -> str:  # noqa: ARG002
        """The role of a server."""
        return "server"

    def report(self, address: str, *, timeout_s: float) -> Report | None:
        """What the server at this address alone reports; `None` if it does not answer. What
        it opens counts as the harness' own (`own_traffic`)."""
        raise NotImplementedError

    def connect(self, address: str, plan: PlanT) -> KeyValueClient:
        """A connection of the workload to this server. Raises NotSent."""
        raise NotImplementedError

    def read_log(self, node: Node, partition: int, plan: PlanT, *, timeout_s: float) -> Log:
        """What this server itself has of a log, for the final read of the model `log`. Raises
        whatever it likes when it cannot be read, or not to its end."""
        raise NotImplementedError

    def happened(self, lines: Iterable[Line]) -> Iterable[Happened]:
        """What lines of servers' logs say by `events`, of which the first that matches counts:
        those of a server in their order, one server after the other."""
        for line in lines:
            for row in self.events:
                if (found := re.search(row.pattern, line.text)) is None:
                    continue
                known: dict[str, Any] = {"end": row.end, "epoch": row.epoch}
                for name, text in found.groupdict().items():
                    known[name] = text if name in ("of", "peer") else self.number(text)
                text = row.text.format(*found.groups(), **known)
                yield Happened(kind=row.kind, line=line, text=text, cause=row.cause, **known)
                break

    def number(self, text: str) -> int:
        """A position or an epoch as its servers log it: decimal, or hexadecimal after 0x."""
        return int(text.replace(",", ""), 0)

    def waits(self, plan: Mapping[str, Any]) -> Waits:  # noqa: ARG002
        """Whom a leader waits for before it acknowledges a write, by a plan.json; see `causes`."""
        return Waits()

    def held(self, rundir: RunDir) -> Iterable[Holding]:  # noqa: ARG002
        """What servers' own logs have at the end of a run, where `logs` has kept them."""
        return ()

    def is_ready(self, node: Node, plan: PlanT) -> bool:  # noqa: ARG002
        """Whether a server that reports a leader takes requests."""
        return True

    def reported(self, node: Node, plan: PlanT) -> Mapping[str, str]:  # noqa: ARG002
        """The settings that a server uses: by default, `--name=value` on its command line, as the
        kernel shows it."""
        line = node.admin(["cat", f"/proc/{node.pid()}/cmdline"]).output.split("\0")
        pairs = (each.removeprefix("--").partition("=") for each in line if each.startswith("--"))
        return {name: value for name, _, value in pairs}

    def wanted(self, plan: PlanT) -> Mapping[str, Any]:
        """The settings that every server is started with, as far as the plan decides them: those
        with their own key that the version has, and `target.settings`."""
        lacked = self._lacked(plan)
        own = {name: at(plan, key) for name, key in self.setting_keys.items() if key not in lacked}
        found = {**own, **plan.target.settings}
        return {k: self.switch[v] if isinstance(v, bool) else v for k, v in found.items()}

    # What has a default, and may be overridden all the same.

    def check(self, plan: PlanT) -> None:
        """Refuse settings that are not in `settings`, and versions where there is one."""
        for key in plan.target.settings:
            if key not in self.settings:
                raise PlanError(
                    "no plan may set this setting",
                    key=f'target.settings."{key}"',
                    hint=f"there are: {', '.join(self.settings)}",
                )
        self.source.version(plan.target.version)
        for key in self._lacked(plan):
            if not is_default(plan, key):
                having = " ".join(filter(None, (self.plugin, plan.target.version)))
                raise PlanError(f"{having} has no such setting", key=key, hint="leave it out")
        load: Any = plan.workload
        if registry.model_of(load.name) == WATCH.name and load.processes > load.clients:
            raise PlanError(
                f"{load.name} needs a client for each process",
                key="workload.clients",
                hint=f"set it to workload.processes ({load.processes})",
            )

    def _lacked(self, plan: PlanT) -> Sequence[str]:
        """The keys that its version does not have, nor a system without cells."""
        lacked = self.lacks.get(plan.target.version or "", ())
        return lacked if self.cell_keys else (*lacked, "target.object")

    def warnings(self, plan: PlanT) -> list[str]:
        """About two servers: a majority of them is both."""
        both = "target.nodes: a majority of 2 servers is both: while one is away there is none"
        return [both] if len(self.names(plan)) == 2 else []

    def vocabulary(self) -> Vocabulary:
        """Words for systems in which one server leads by a majority."""
        return quorum_vocabulary(self.plugin, voters=self.voters)

    def names(self, plan: PlanT) -> list[str]:
        """n1, n2 ..."""
        target: Any = plan.target
        return [f"n{number}" for number in range(1, target.nodes + 1)]

    def prepare(self, plan: PlanT, say: Callable[[str], None]) -> Ingredients:
        """The image that the plan names, or the one with the server's packages."""
        from harness.images.building import ensure, pulled  # imports Docker's client

        if plan.target.image is not None:
            return Ingredients(image=pulled(plan.target.image, say))
        return Ingredients(image=ensure(self.recipe(plan.target.version), say))

    def for_hosts(self, plan: PlanT, say: Callable[[str], None]) -> Ingredients:
        """What hosts must have, and what is copied to them."""
        source = self.source.of(plan.target.version)
        recipe = self.recipe(plan.target.version)
        folders = {java.kept_jars(recipe, say): recipe.jar_folder} if recipe.jars else {}
        folders |= {kept_program(recipe, say): PROGRAMS} if recipe.fetched else {}
        image = ImageRef(
            reference=f"{source.package} {recipe.version or 'of the hosts'}",
            id=recipe.digest() if folders else "",
            version=recipe.version,
        )
        return Ingredients(image=image, folders=folders, programs=source.needed)

    def recipe(self, version: str | None) -> Recipe:
        """The image of a version."""
        chosen = self.source.version(version)
        return self.source.of(chosen).recipe(self.plugin, chosen)

    def check_version(self, version: str, *, key: str) -> None:
        """Refuse versions that the source does not have."""
        self.source.version(version, key=key)

    def prepare_version(self, version: str, say: Callable[[str], None]) -> str | None:
        """The image."""
        from harness.images.building import ensure  # imports Docker's client
        from harness.images.daemon import output_of

        image = ensure(self.recipe(version), say)
        return self._versions(version, lambda argv: output_of(image.id, argv))

    def running(self, node: Node, plan: PlanT) -> str | None:
        """By `version_commands`."""
        return self._versions(plan.target.version, lambda argv: node.run(argv).output)

    def _versions(self, version: str | None, run: Callable[[Sequence[str]], str]) -> str | None:
        own = {} if self.default_version else {"": (self.source.of(version).command, "--version")}
        commands = self.version_commands or own
        found = {name: _VERSION.search(run(argv)) for name, argv in commands.items()}
        return ", ".join(f"{k} {v[0]}".strip() for k, v in found.items() if v is not None) or None

    def made(self, version: str) -> dict[str, bool]:
        """The image."""
        from harness.images.building import base_reference, find  # imports Docker's client

        if not version:
            return {}
        reference = self.recipe(version).reference(base_reference())
        return {f"image of {type(self).__name__} {version}": find(reference) is not None}

    def nodes(
        self, plan: PlanT, ingredients: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        """Every server with its command and files."""
        listed = "".join(f"{name} {addresses[name]}\n" for name in self.names(plan)).encode()
        servers = [Server(name, addresses[name], addresses) for name in self.names(plan)]

        def spec(server: Server) -> NodeSpec:
            argv, beside = self.argv(server, plan), self.beside(server, plan)
            files = {**self.files(server, plan), ADDRESSES: listed}
            if beside:
                lines = [f"{shlex.join(each)} &\n" for each in beside]
                files[START] = "".join([*lines, f"exec {shlex.join(argv)}\n"]).encode()
                argv = ["/bin/sh", f"{NODE_DATA}/{START}"]
            return NodeSpec(
                name=server.name,
                roles=frozenset({self.role(server.name)}),
                argv=argv,
                files=files,
                mounts=ingredients.mounts,
                memory_mb=plan.target.memory_mb,
                ports=self.ports,
                changes_user=self.changes_user,
            )

        return [spec(server) for server in servers]

    def create(self, cluster: Cluster, plan: PlanT) -> None:
        """Create what clients write to, where a write does not do so itself: tried again until it
        raises nothing."""

    def bring_up(self, cluster: Cluster, plan: PlanT, *, timeout_s: float) -> None:
        """What clients write to is created, and every server is ready and in sync with the one
        leader that all of them report."""
        deadline = time.monotonic() + timeout_s

        def uncreated() -> str | None:
            try:
                self.create(cluster, plan)
            except NO_ANSWER as failed:
                return f"what clients write to is not created: {failed}"
            return None

        await_none(cluster, uncreated, deadline)
        await_none(cluster, lambda: self._missing(cluster, plan), deadline)

    def _missing(self, cluster: Cluster, plan: PlanT) -> str | None:
        leaders = set[str]()
        for node in cluster.nodes.values():
            view = self.observe(node, plan, timeout_s=_ASK_S)
            if view is None:
                return f"{node.name} does not answer"
            for seen in view.partitions:
                if seen.leader is None:
                    return f"{node.name} has no leader"
                if view.authority and len(seen.members) != plan.replicas:
                    return f"in sync with {node.name} are {list(seen.members)}"
                leaders.add(seen.leader)
            if not self.is_ready(node, plan):
                return f"{node.name} is not ready"
        return None if len(leaders) == 1 else f"several lead: {sorted(leaders)}"

    def observe(self, node: Node, plan: PlanT, *, timeout_s: float) -> NodeView | None:
        """A server's own report. Where it leads by it, the others are asked too: in sync are those
        that follow it in its epoch and have what it had."""
        said = self.report(node.address, timeout_s=timeout_s)
        if said is None:
            return None
        leads, others = said.leader in (node.name, node.address), dict[str, str]()
        if leads or said.leader not in (None, *self.names(plan)):
            others = {**addresses_of(node)}
        names = {address: name for name, address in others.items()}
        members = [node.name]
        if leads and said.in_sync is not None:
            members = [*said.in_sync]
        elif leads:
            del others[node.name]
            reports = {name: self.report(others[name], timeout_s=timeout_s / 4) for name in others}
            members += [
                name
                for name, each in reports.items()
                if each is not None
                and (each.leader, each.epoch) == (said.leader, said.epoch)
                and each.position >= said.position
            ]
        view = PartitionView(
            partition=0,
            leader=names.get(said.leader or "", said.leader),
            leader_epoch=said.epoch,
            members=tuple(sorted(members)),
            replicas=tuple(self.names(plan)),
            unnamed=0 if leads else None,
        )
        return NodeView(answered_by=node.name, partitions=(view,), authority=leads)

    def of_cell(self, plan: PlanT, name: str, number: int) -> Plan:  # noqa: ARG002
        """With its own object, first led by the same server as those of the other cells."""
        target: Any = plan.target
        own = target.model_copy(update={"object": f"{target.object}-{name}"})
        return plan.model_copy(update={"target": own})

    def observe_cells(
        self, node: Node, plans: Sequence[PlanT], *, timeout_s: float
    ) -> list[NodeView | None]:
        """A server's own view, which is the same of all that it holds."""
        return [self.observe(node, plans[0], timeout_s=timeout_s)] * len(plans)

    def requested(self, plan: PlanT) -> dict[str, Any]:
        """The settings of every server, as the plan has them."""
        return {"settings": {"server": {k: setting_text(v) for k, v in self.wanted(plan).items()}}}

    def effective(self, cluster: Cluster, plan: PlanT) -> dict[str, Any]:
        """What every server reports, compared with the plan's."""
        reported = {node.name: self.reported(node, plan) for node in cluster.nodes.values()}
        warnings = compare_settings(self.wanted(plan), reported, keys=self.setting_keys)
        return {"settings": {"server": shared_settings(reported)}, "warnings": warnings}

    def promises(self, plan: Mapping[str, Any], effective: Mapping[str, Any]) -> Promises:
        """Whatever its settings: what is acknowledged stays, once."""
        del effective
        return Promises(
            model=registry.model_of(plan["workload"]["name"]),
            once=True,
            replicas=self.replicas(plan),
            clients=int(plan["workload"]["clients"]),
            readers_are_replicas=self.replicas(plan) > 1,
        )

    def replicas(self, plan: Mapping[str, Any]) -> int:
        """How many servers have everything, from a plan.json."""
        return int(plan["target"]["nodes"])

    def client(self, cluster: Cluster, plan: PlanT) -> Client:
        """As many clients as the plan has; each begins with another server."""
        load: Any = plan.workload
        servers = [(node.name, node.address) for node in cluster.nodes.values()]
        names = {address: name for name, address in servers}

        def moving(number: int) -> BlockingClient:
            own = in_turn(servers, load.connect, number)
            return Moving(lambda address: self.connect(address, plan), own, names)

        return ThreadedClient(moving, threads=load.clients)

    def readers(self, plan: PlanT) -> tuple[str, ...]:
        """Each server, as each has a replica; the leader twice, where there is only one."""
        if LOG.name not in self.models:
            return super().readers(plan)
        return tuple(self.names(plan)) if plan.replicas > 1 else (_LEADER, f"{_LEADER}, again")

    def read_all(
        self, cluster: Cluster, plan: PlanT, *, reader: str, timeout_s: float
    ) -> tuple[pa.Table, list[End]]:
        """All that one server has of every partition; tried again until the time is up. A server
        that is not in sync then shows only what it has: what it lacks it may get yet, and what it
        has may be taken back."""
        from harness.history import READS  # imports pyarrow, which takes as long as a target does
        from harness.history.parquet_writer import table_of

        deadline, rows, ends = time.monotonic() + timeout_s, list[tuple[Any, ...]](), list[End]()
        for partition in range(plan.partitions):
            records, end = self._read(cluster, plan, reader, partition, deadline)
            at_ns = time.monotonic_ns()
            rows += [(reader, None, partition, *each, None, at_ns) for each in records]
            ends.append(end)
        return table_of(rows, [field for field in READS if field.name != "run_id"]), ends

    def _read(
        self, cluster: Cluster, plan: PlanT, reader: str, partition: int, deadline: float
    ) -> tuple[Sequence[tuple[int, int]], End]:
        """What one server has of a partition, or why that is not known."""
        log, end, name, error = None, End(partition=partition), None, "no server leads"
        while log is None and (left_s := deadline - time.monotonic()) > 0:
            for node in cluster.nodes.values():
                view = self.observe(node, plan, timeout_s=_ASK_S)
                if view and view.authority:
                    seen = view.partitions[partition]
                    end = replace(
                        end,
                        leader=seen.leader,
                        leader_epoch=seen.leader_epoch,
                        members=seen.members,
                    )
            name = reader if reader in cluster.nodes else end.leader
            try:
                if name is not None:
                    log = self.read_log(cluster.nodes[name], partition, plan, timeout_s=left_s)
            except Exception as failed:  # whatever its library raises: nothing is known of the log
                error = f"{type(failed).__name__}: {failed}"[:200]
            if log is None:
                time.sleep(_POLL_S)
        whole = log is not None and name in end.members
        if log is not None and not whole:
            error = f"it is not in sync with the leader, {end.leader or 'which is unknown'}"
        start, behind, records = log or (None, None, ())
        return records, replace(
            end,
            log_start_offset=start,
            end_offset=behind,
            position=behind,
            complete=whole,
            error=None if whole else f"{reader}: {error}",
        )

    def explain(self, folder: Path, lost: pa.Table) -> list[Explanation]:
        """By who was elected, with which log: see `harness.history.autopsy`."""
        from harness.faults.journal import windows
        from harness.history.autopsy import Autopsy, Promotions, in_order  # imports pyarrow
        from harness.history.run_folder import RunDir

        rundir = RunDir(folder)
        faults = windows(rundir.faults)
        events = in_order(self.happened(self.lines(rundir, faults)))
        plan = rundir.read_json(rundir.plan)
        lacks = self.lacks.get(plan["target"].get("version"), ())
        synced = self.synced if self.synced[0] not in lacks else ServerSystem.synced
        waits = self.waits(plan)
        found_by = Promotions if waits.copied else Autopsy
        holdings = [*self.held(rundir)]
        return found_by(rundir, lost, faults, events, synced, waits, holdings).explanations()

    def lines(self, rundir: RunDir, faults: Sequence[FaultWindow]) -> Iterator[Line]:
        """The lines that `happened` reads of servers' logs, without those of other objects."""
        from harness.history.autopsy import lines_of  # imports pyarrow

        own = rundir.read_json(rundir.plan)["target"].get("object", OBJECT)
        wanted = [re.compile(row.pattern.encode()).search for row in self.events]
        for line in lines_of(rundir, lambda raw: any(each(raw) for each in wanted), faults):
            named = self.object_lines.search(line.text)
            if named is None or named[1] == own:
                yield line

    def size(self, plan: Mapping[str, Any]) -> list[str]:
        """The servers."""
        nodes = (plan.get("target") or {}).get("nodes")
        return [counted(nodes, "{n} [server|servers]")] if nodes else []

    def stored_request(self, plan: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The settings of every server."""
        with suppress(Exception):  # a plan of a later version
            own: Any = type(self).plan.model_validate(plan)
            return {"server": self.wanted(own)}
        return {"server": (plan.get("target") or {}).get("settings") or {}}


T = TypeVar("T")


@functools.lru_cache(maxsize=64)
def addresses_of(node: Node) -> Mapping[str, str]:
    """The servers' addresses by their names, as the file that each server began with has them. It
    is read once: an observer asks for them several times a second. Raises HarnessFailure."""
    answer = node.admin(["cat", f"{NODE_DATA}/{ADDRESSES}"])
    if answer.exit_code:
        raise HarnessFailure(f"{node.name}: its {ADDRESSES} cannot be read: {answer.output}")
    return dict(line.split() for line in answer.output.splitlines())


def in_turn(servers: Sequence[T], connect: str, number: int) -> list[T]:
    """The servers for client `number`, from 0, in the order in which it tries them."""
    first = number % len(servers)
    return [*servers[first:], *servers[:first]][: 1 if connect == "one" else None]


def await_none(cluster: Cluster, missing: Callable[[], str | None], deadline: float) -> None:
    """Wait until nothing is missing. Raises TimeoutError: with what is, or when a node's process
    has ended."""
    look_s = time.monotonic() + _LOOK_S
    while (what := missing()) is not None:
        if (now_s := time.monotonic()) > look_s:
            look_s = now_s + _LOOK_S
            for node in cluster.nodes.values():
                if not (process := node.process()).running:
                    raise TimeoutError(f"the process of {node.name} ended with {process.exit_code}")
        if now_s > deadline:
            raise TimeoutError(what)
        time.sleep(_POLL_S)
