"""Kafka's own Java client: producers in separate JVMs, each in a node k1, k2 ... of the cluster.

The program in a node, Driver.java, has a producer for each connection, which reads writes line by
line. Beginning a connection blocks, and is done where that does no harm; afterwards nothing blocks:
writes gather until they are flushed, and answers are taken as they have come.

Each process belongs to one driver, or while that one is away, to another. When a connection is lost
(the driver was killed, say), whatever was in progress in it ends in info, and a thread tries until
the driver is back, with a new producer. A driver that is paused, or cut from here, is not away: its
answers are late.
"""

from __future__ import annotations

import re
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final
from urllib.parse import quote

from harness.errors import HarnessFailure, PlanError
from harness.images.keeping import Say
from harness.protocols import (
    CLIENT_ROLE,
    INFO,
    NODE_DATA,
    OK,
    STORED,
    Client,
    Cluster,
    Done,
    ImageRef,
    Ingredients,
    Invoke,
    Node,
    NodeSpec,
    completion,
)
from harness.run.cells import transactions_of
from harness.run.client_pool import routes
from targets.kafka import definitions
from targets.kafka.clients.library import Library, bootstrap, bootstrap_of, outcome, refusals
from targets.kafka.definitions import ALL, JAVA, acks_of, canonical, place_of, requested
from targets.kafka.jars import compiled
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import ReleaseLine, is_before

DRIVER_PORT: Final = 9095

_AGAIN_S: Final = 0.1
_BLOCK: Final = 1 << 16


class Refused(Exception):
    """The Java client does not accept a setting; says why in its own words."""


class Lost(Exception):
    """There is no connection, or no longer any."""


class Line:
    """A connection whose producer is ready. `reported` is its configuration, `pending` holds the
    processes that wait for an answer."""

    def __init__(
        self, address: tuple[str, int], topic: str, settings: Mapping[str, str], *, within_s: float
    ) -> None:
        """Raises Refused, or Lost when no producer was ready in time."""
        self.pending: set[int] = set()
        self.reported: dict[str, str] = {}
        self._out = bytearray()
        self._in = b""
        deadline = time.monotonic() + within_s
        self.socket = connected(address, deadline)
        try:
            self._begin(topic, settings, deadline)
        except BaseException:
            self.socket.close()
            raise
        self.socket.setblocking(False)

    def _begin(self, topic: str, settings: Mapping[str, str], deadline: float) -> None:
        given = [f"set {key}={value}" for key, value in settings.items()]
        lines = [f"topic {topic}", *given, "begin", ""]
        try:
            self.socket.sendall("\n".join(lines).encode())
            while True:
                self.socket.settimeout(max(0.01, deadline - time.monotonic()))
                for line in self._split(self.socket.recv(_BLOCK)):
                    word, _, rest = line.decode().partition(" ")
                    if word == "set":
                        key, _, self.reported[key] = rest.partition("=")
                    elif word == "ready":
                        return
                    elif word == "refused":
                        raise Refused(rest)
                    else:
                        raise Lost(f"its producer did not start: {rest}")
        except OSError as error:
            raise Lost(f"its producer was not ready: {error}") from error

    def write(self, process: int, partition: int, value: str, key: str | None) -> None:
        """Have something written once it is flushed; `process` waits for the answer."""
        self.pending.add(process)
        text = "" if key is None else f" ={quote(key, safe='')}"
        self.say(f"{process} {partition} {value}{text}")

    def say(self, line: str) -> None:
        """Have a line sent once it is flushed."""
        self._out += line.encode() + b"\n"

    def flush(self) -> bool:
        """Send what has gathered as far as it goes now; whether all of it went."""
        with suppress(BlockingIOError):
            while self._out:
                del self._out[: self.socket.send(self._out)]
        return not self._out

    def answers(self) -> list[list[bytes]]:
        """The words of what has been answered. Raises Lost at the end of the connection."""
        try:
            return [line.split(b" ") for line in self._split(self.socket.recv(_BLOCK))]
        except BlockingIOError:
            return []
        except OSError as error:
            raise Lost(str(error)) from error

    def _split(self, received: bytes) -> list[bytes]:
        if not received:
            raise Lost("the driver has ended the connection")
        *lines, self._in = (self._in + received).split(b"\n")
        return lines


def connected(address: tuple[str, int], deadline: float) -> socket.socket:
    """A connection, tried until a driver listens. Raises Lost."""
    while True:
        left_s = deadline - time.monotonic()
        try:
            made = socket.create_connection(address, timeout=max(0.01, left_s))
        except OSError as error:
            if left_s < _AGAIN_S:
                raise Lost(f"nothing answers at {address[0]}:{address[1]}: {error}") from error
            time.sleep(_AGAIN_S)
        else:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return made


_DRIVER: Final = Path(__file__).parents[1] / "java" / "Driver.java"
_LOGS: Final = "log"
_HEAP_MB: Final = 64
_MEMORY_MB: Final = 256


def jvm(
    name: str,
    roles: frozenset[str],
    program: tuple[str, str, int],
    release: ReleaseLine,
    ingredients: Ingredients,
) -> NodeSpec:
    """A node of a program of ours, beside Kafka's jars: its class, its jar among the ingredients,
    and the port at which it listens."""
    main_class, jar, port = program
    argv = release.process(
        main_class,
        config=str(port),
        log_config=f"{NODE_DATA}/{release.log_file}",
        log_folder=f"{NODE_DATA}/{_LOGS}",
        heap_mb=_HEAP_MB,
        archive=next(iter(ingredients.mounts.values()), None),
    )
    path = argv.index("-cp") + 1
    argv[path] += f":{NODE_DATA}/{jar}"
    return NodeSpec(
        name=name,
        roles=roles,
        argv=argv,
        files={
            jar: ingredients.files.get(jar, b""),
            release.log_file: release.log_config.encode(),
            f"{_LOGS}/server.log": b"",
            f"{STORED}/none": b"",  # it stores nothing, and faults of the disk find the folder
        },
        mounts=ingredients.mounts,
        memory_mb=_MEMORY_MB,
    )


LOST: Final = "_CLIENT_LOST"
"""The error of operations that were in progress in a driver whose connection was lost."""

UNREPORTED: Final = "_UNREPORTED"
"""The error of operations that were still in progress at the end."""

START_S: Final = 40.0
"""How long a driver may take until its producer is ready: it starts while brokers do."""

_AWAY_S: Final = 0.5
_RESTART_S: Final = 10.0
_CLOSE_S: Final = 2.0

Begin = Callable[[int, float], Line]
"""Begins the nth producer of a place, within so many seconds."""


class JavaClient:
    """See `harness.protocols.Client`. `places` begin a producer each, again when it was lost."""

    def __init__(self, places: Sequence[Begin]) -> None:
        self._places = places
        self._begun = [1] * len(places)
        self._selector = selectors.DefaultSelector()
        self._back: list[tuple[int, Line]] = []
        self._closing = threading.Event()
        with ThreadPoolExecutor(max_workers=len(places)) as pool:
            began = [pool.submit(place, 1, START_S) for place in places]
        try:
            self._lines: list[Line | None] = [line.result() for line in began]
        except (Lost, Refused) as error:
            raise HarnessFailure(f"a Java client did not start: {error}") from error
        proofs = [refusals(JAVA, line.reported) for line in self._living]
        self._proof = proofs[0] if all(proofs) else {}
        for line in self._living:
            self._selector.register(line.socket, selectors.EVENT_READ, line)
        self._routes = routes(self._lines)

    @property
    def _living(self) -> list[Line]:
        return [line for line in self._lines if line]

    def submit(self, process: int, op: Invoke) -> bool:
        """Queue a write. False: no driver is there."""
        line = self._routes[process % len(self._routes)]
        if line is None:
            return False
        _, value, partition, key, _ = op
        line.write(process, partition, f"{value:010d}", key)
        return True

    def poll(self, timeout_s: float, done: Done) -> None:
        while self._back:
            place, line = self._back.pop()
            self._lines[place] = line
            self._selector.register(line.socket, selectors.EVENT_READ, line)
            self._routes = routes(self._lines)
        deadline = time.monotonic() + timeout_s
        while not self._exchange(max(0.0, deadline - time.monotonic()), done):
            if time.monotonic() >= deadline:
                return

    def close(self, timeout_s: float, done: Done) -> None:
        """Wait for what is in progress, close the producers, end the rest in info."""
        deadline = time.monotonic() + timeout_s
        while any(line.pending for line in self._living) and time.monotonic() < deadline:
            self._exchange(deadline - time.monotonic(), done)
        self._closing.set()
        for line in self._living:
            line.say("close")  # what it still answers is to be read until it is `closed`
        deadline = time.monotonic() + _CLOSE_S
        while self._living and time.monotonic() < deadline:
            self._exchange(deadline - time.monotonic(), done)
        for line in self._living:
            self._lose(line, UNREPORTED, done)
        self._selector.close()
        while self._back:
            self._back.pop()[1].socket.close()

    def _exchange(self, timeout_s: float, done: Done) -> int:
        for line in self._living:
            self._send(line)
        answers = 0
        for key, _ in self._selector.select(timeout_s):
            line = key.data
            self._send(line)
            answers += self._receive(line, done)
        return answers

    def _send(self, line: Line) -> None:
        try:
            sent = line.flush()
        except OSError:
            return  # what it still answered can be received, and then its end
        wanted = selectors.EVENT_READ | (0 if sent else selectors.EVENT_WRITE)
        if self._selector.get_key(line.socket).events != wanted:
            self._selector.modify(line.socket, wanted, line)

    def _receive(self, line: Line, done: Done) -> int:
        try:
            answers = line.answers()
        except Lost:
            lost = len(line.pending)
            self._lose(line, LOST, done)
            return lost
        for words in answers:
            self._answered(line, words, done)
        return len(answers)

    def _answered(self, line: Line, words: Sequence[bytes], done: Done) -> None:
        if words[0] == b"closed":
            self._lose(line, UNREPORTED, done)
            return
        process = int(words[0])
        line.pending.remove(process)
        if words[1] == b"ok":
            offset = int(words[2])
            done(process, (OK, offset if offset >= 0 else None, None, None, None))
        else:
            type_ = outcome(int(words[3]), self._proof)
            done(process, completion(type_, error=words[2].decode()))

    def _lose(self, line: Line, error: str, done: Done) -> None:
        """The connection is over: what is pending is unknown, and others take the processes."""
        self._selector.unregister(line.socket)
        line.socket.close()
        place = self._lines.index(line)
        self._lines[place] = None
        self._routes = routes(self._lines)
        for process in line.pending:
            done(process, completion(INFO, error=error))
        if not self._closing.is_set():
            seek = partial(self._seek, place)
            threading.Thread(target=seek, name=f"seek client {place + 1}", daemon=True).start()

    def _seek(self, place: int) -> None:
        """Begin a producer once more, until there is one or the client is closed."""
        self._begun[place] += 1
        while not self._closing.wait(_AWAY_S):
            try:
                line = self._places[place](self._begun[place], _RESTART_S)
            except (Lost, Refused):
                continue
            if self._closing.is_set():
                line.socket.close()
            else:
                self._back.append((place, line))
            return


_MOST: Final = 9
_OLDEST: Final = "2.0.0"
_DELIVERY, _REQUEST = "delivery.timeout.ms", "request.timeout.ms"
_REQUEST_MS, _LINGER_MS = 30_000, 5  # Java's own defaults
_UNSAID: Final = r"(ssl|sasl|security|bootstrap|key|value)\..*|client\.id"


@dataclass(frozen=True)
class Java(Library):
    """kafka-clients, the Java client"""

    plugin: ClassVar[str] = JAVA
    naming: ClassVar[definitions.Library] = "java"

    def check(self, plan: KafkaPlan) -> None:
        requested_settings(plan.workload.producer)
        if is_before(plan, _OLDEST):
            raise PlanError(
                f"the Java client needs Kafka {_OLDEST} or later, not {plan.target.version}",
                key="workload.client",
                hint='client = "librdkafka"',
            )
        check_count(plan)

    def settings(self, plan: KafkaPlan) -> dict[str, str]:
        return requested_settings(plan.workload.producer)

    def reported_settings(self, plan: KafkaPlan, cluster: Cluster) -> dict[str, str]:
        node = cluster.nodes[self.names(plan)[0]]
        begin = partial(_begin, node, 0, bootstrap(cluster), plan, 0)
        return reported_by(begin, plan.workload.producer, self.software(plan))

    def software(self, plan: KafkaPlan) -> str:
        return f"kafka-clients {plan.target.version or f'of {plan.target.image}'} (Java)"

    def client(self, cluster: Cluster, plan: KafkaPlan) -> Client:
        addresses = bootstrap(cluster)
        clients = [cluster.nodes[name] for name in self.names(plan)]
        return JavaClient(
            [partial(_begin, node, n, addresses, plan) for n, node in enumerate(clients)]
        )

    def names(self, plan: KafkaPlan) -> list[str]:
        return [f"k{number}" for number in range(1, plan.workload.clients + 1)]

    def files(self, plan: KafkaPlan, image: ImageRef, say: Say) -> dict[str, bytes]:
        main_class, jar = _program(plan)
        sources = sorted({_DRIVER, _DRIVER.with_name(f"{main_class}.java")})
        return {jar: compiled(image, jar, sources, say, needed_by="workload.client")}

    def nodes(
        self, plan: KafkaPlan, release: ReleaseLine, ingredients: Ingredients
    ) -> list[NodeSpec]:
        """A JVM for each client, which listens for us and logs what its Kafka client reports."""
        ran = (*_program(plan), DRIVER_PORT)
        roles = frozenset({CLIENT_ROLE})
        return [jvm(name, roles, ran, release, ingredients) for name in self.names(plan)]


def _program(plan: KafkaPlan) -> tuple[str, str]:
    """The class and the jar of the driver of producers, or of those that make transactions, which
    older versions lack."""
    name = "Driver" if transactions_of(plan) is None else "Transactor"
    return name, f"{name.lower()}.jar"


def reported_by(
    begin: Callable[[float], Line], given: Mapping[str, Any], software: str
) -> dict[str, str]:
    """The settings that a producer reports, where a plan has `given` settings. Raises PlanError and
    HarnessFailure."""
    try:
        line = begin(START_S)
    except Refused as error:
        raise javas_refusal(str(error), given) from error
    except Lost as error:
        raise HarnessFailure(f"the Java client did not start: {error}") from error
    line.socket.close()
    return checked_settings(line.reported, given, software)


def requested_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """What the producers are given: all that the plan requests, and nothing else, since the point
    of this client is what it does by itself.

    One thing more where it must be: Java refuses a delivery.timeout.ms below request.timeout.ms +
    linger.ms, so a plan that only shortens the first has the second shortened with it. Raises
    PlanError."""
    own = requested(settings, "java")
    if _DELIVERY in own and _REQUEST not in own:
        left = int(own[_DELIVERY]) - int(own.get("linger.ms", _LINGER_MS))
        if 0 < left < _REQUEST_MS:
            own[_REQUEST] = str(left)
    return own


def checked_settings(
    reported: Mapping[str, str], plan_settings: Mapping[str, Any], software: str
) -> dict[str, str]:
    """The settings that a producer reports, but for addresses, names and what no plan may set.

    Raises PlanError for a setting that its version does not know, or took for another value.
    """
    for name, wanted in requested(plan_settings, "java").items():
        place = place_of(name, plan_settings, "java")
        if name not in reported:
            raise PlanError(f"{software} does not know this setting", key=place)
        if reported[name] != ("-1" if wanted == ALL else wanted):
            raise PlanError(
                f"{software} has {reported[name]!r}, but {wanted!r} was requested", key=place
            )
    return {
        name: acks_of(value) or value if name == "acks" else value
        for name, value in reported.items()
        if value not in ("null", "") and not re.fullmatch(_UNSAID, name)
    }


def javas_refusal(sentence: str, settings: Mapping[str, Any]) -> PlanError:
    """The Java client's own sentence, at the plan's key that it is about."""
    names = (canonical(key, "java") for key in settings)
    name = next((each for each in names if each in sentence), "")
    place = place_of(name, settings, "java")
    return PlanError(f"the Java client refuses it: {sentence}", key=place)


def check_count(plan: KafkaPlan) -> None:
    """Refuse more clients than there may be. Raises PlanError."""
    if plan.workload.clients > _MOST:
        raise PlanError(
            f"{plan.workload.clients} Java clients are too many: each has its own node",
            key="workload.clients",
            hint=f"at most {_MOST}",
        )


def _begin(
    node: Node, client: int, addresses: str, plan: KafkaPlan, begun: int, within_s: float
) -> Line:
    settings = {
        **Java().settings(plan),
        "bootstrap.servers": bootstrap_of(client, addresses, plan),
        "client.id": f"ackloss-{client + 1}.{begun}",
    }
    where = (node.address, DRIVER_PORT)
    return Line(where, plan.topic.name, settings, within_s=within_s)
