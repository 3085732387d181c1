"""Kafka on a cluster that ackloss did not start: one topic of ours, clients, and nothing else.

Which version it is, how many brokers and controllers there are and how they are set up is the
cluster's own: a plan's keys for that are left out, but for `target.settings`, which are compared
with what brokers report, as far as we may read it. The topic has its own name in each run.

How the cluster is reached is in the cluster file, by librdkafka's names; what both librdkafka and
kafka-python can be given, and nothing else.
"""

from __future__ import annotations

import logging
import secrets
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from harness.errors import EnvironmentFailure, HarnessFailure, PlanError, nearest
from harness.faults.own_traffic import NoAnswer
from harness.models import LOG
from harness.protocols import (
    Access,
    Client,
    Cluster,
    End,
    Finding,
    GuestTarget,
    Member,
    Node,
    NodeView,
    RunCluster,
    Status,
    with_role,
)
from harness.protocols.systems import JSON
from harness.servers import await_none, setting_text
from targets.kafka import effective, wire
from targets.kafka.brokers import Values, broker_name, partitions, why_not_whole
from targets.kafka.clients import library_of
from targets.kafka.clients.kafka_python import KafkaPython
from targets.kafka.clients.librdkafka import Librdkafka
from targets.kafka.definitions import by_pattern
from targets.kafka.effective import OURS, shortened
from targets.kafka.log import KafkaLog
from targets.kafka.plan import KafkaPlan
from targets.kafka.reading import Source, ends_of

PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
CHECKED: Final = "ssl.endpoint.identification.algorithm"
_CERTIFICATE, _KEY = "ssl.certificate.location", "ssl.key.location"
_USER, _PASSWORD, _KEY_PASSWORD = "sasl.username", "sasl.password", "ssl.key.password"

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

SECRET: Final = frozenset({_PASSWORD, _KEY_PASSWORD})
"""What may only be given by reference."""

FILES: Final = frozenset({"ssl.ca.location", _CERTIFICATE, _KEY, "ssl.crl.location"})
"""Files in PEM; relative names are relative to the cluster file."""

_ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {
    PROTOCOL: _PROTOCOLS,
    MECHANISM: _MECHANISMS,
    CHECKED: ("https", "none"),
}

_KAFKA_PYTHON: Final[Mapping[str, str]] = {
    PROTOCOL: "security_protocol",
    MECHANISM: "sasl_mechanism",
    _USER: "sasl_plain_username",
    _PASSWORD: "sasl_plain_password",
    "ssl.ca.location": "ssl_cafile",
    _CERTIFICATE: "ssl_certfile",
    _KEY: "ssl_keyfile",
    _KEY_PASSWORD: "ssl_password",
    "ssl.crl.location": "ssl_crlfile",
    CHECKED: "ssl_check_hostname",
}
"""By property, kafka-python's keyword. librdkafka has the same names."""

_SAME: Final[Mapping[str, str]] = {"sasl.mechanisms": MECHANISM}

_INSTEAD: Final[tuple[tuple[str, str], ...]] = (
    (r"bootstrap\.servers|metadata\.broker\.list", "write it as `bootstrap` above the table"),
    (r"sasl\.jaas\.config", f"write {_USER} and {_PASSWORD}: only the Java client has it"),
    (r"ssl\.truststore\..*", "write ssl.ca.location, a file in PEM: only the Java client has it"),
    (r"ssl\.keystore\..*", f"write {_CERTIFICATE} and {_KEY}, files in PEM: kafka-python has none"),
    (r"ssl\.(ca|certificate|key)\.pem", "name a file in PEM: kafka-python has no such property"),
    (r"sasl\.(kerberos|oauthbearer|login)\..*|sasl\.oauth.*",
     f"{MECHANISM} is one of {', '.join(_MECHANISMS)} here"),
    (r"enable\.ssl\.certificate\.verification",
     f'write {CHECKED} = "none" where names do not match: certificates themselves are verified'),
    (r"acks|retries|.*\.timeout\.ms|linger\.ms|batch\..*|enable\.idempotence|compression\..*",
     "a plan sets what the clients do, in workload.producer"),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ClientProperties:
    """What each library is given beside the addresses. Both hold secrets: never printed.
    `secret`: the names of what the cluster file refers to."""

    librdkafka: Mapping[str, str] = field(repr=False)
    kafka_python: Mapping[str, Any] = field(repr=False)
    secret: frozenset[str]

    @property
    def shown(self) -> dict[str, str]:
        """Those that are not secret, by the names of the cluster file."""
        return {name: value for name, value in self.librdkafka.items() if name not in self.secret}

    @property
    def encrypted(self) -> bool:
        """Whether connections are TLS."""
        return str(self.librdkafka[PROTOCOL]).endswith("SSL")


def client_properties(access: Access) -> ClientProperties:
    """The properties of an access for both libraries. Raises PlanError that quotes no value."""
    given = _by_name(access)
    folder = access.file.resolve().parent
    values = {
        name: str(folder / Path(value).expanduser()) if name in FILES else value
        for name, value in given.items()
    }
    _check(values, access)
    values = {PROTOCOL: "PLAINTEXT", CHECKED: "https", **values}
    kafka_python: dict[str, Any] = {_KAFKA_PYTHON[name]: each for name, each in values.items()}
    kafka_python[_KAFKA_PYTHON[CHECKED]] = values[CHECKED] == "https"
    secret = frozenset(_SAME.get(name, name) for name in access.secrets)
    return ClientProperties(librdkafka=values, kafka_python=kafka_python, secret=secret)


def _by_name(access: Access) -> dict[str, str]:
    secret = {name: each.reveal() for name, each in access.secrets.items()}
    given: dict[str, str] = {}
    for name, value in {**access.properties, **secret}.items():
        known = _SAME.get(name, name)
        if known not in _KAFKA_PYTHON:
            why = by_pattern(_INSTEAD, name)
            why = why or "librdkafka and kafka-python cannot both be given it"
            near = nearest(name, list(_KAFKA_PYTHON))
            hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(_KAFKA_PYTHON)}"
            _refuse(f"this property is refused: {why}", access, name, hint)
        if known in given:
            _refuse(f"{known} is set twice, under two names", access, name)
        if known in SECRET and name in access.properties:
            hint = 'refer to it: { env = "VARIABLE" } or { file = "NAME" }'
            _refuse("a secret may not stand in this file", access, name, hint)
        given[known] = value
    return given


def _check(values: Mapping[str, str], access: Access) -> None:
    for name, allowed in _ALLOWED.items():
        if name in values and values[name] not in allowed:
            _refuse(f"is not one of {', '.join(allowed)}", access, name)
    protocol = values.get(PROTOCOL, "PLAINTEXT")
    if protocol.startswith("SASL"):
        for name in (MECHANISM, _USER, _PASSWORD):
            if name not in values:
                _refuse(f"is missing: {PROTOCOL} is {protocol}", access, name, "add it")
    for name in values:
        sasl = name.startswith("sasl.") and not protocol.startswith("SASL")
        if sasl or (name.startswith("ssl.") and not protocol.endswith("SSL")):
            _refuse(f"has no effect: {PROTOCOL} is {protocol}", access, name, "remove it")
    if (_CERTIFICATE in values) != (_KEY in values):
        missing = _KEY if _CERTIFICATE in values else _CERTIFICATE
        _refuse("is missing: a client's certificate and its key go together", access, missing)
    for name in sorted(FILES & values.keys()):
        if not Path(values[name]).is_file():
            _refuse(f"there is no file {values[name]}", access, name)


def _refuse(what: str, access: Access, name: str, hint: str | None = None) -> None:
    raise PlanError(what, file=str(access.file), key=f'client."{name}"', hint=hint)


# At the level DEBUG kafka-python writes its configuration, with passwords, to every log
# destination.
logging.getLogger("kafka").setLevel(logging.WARNING)
logging.getLogger("kafka").addHandler(logging.NullHandler())
_SILENT: Final = logging.getLogger("ackloss.kafka.external")
_SILENT.addHandler(logging.NullHandler())
_SILENT.propagate = False

_CONNECT_S: Final = 5.0
_REQUEST_MS: Final = 5000


class Session:
    """The connections to one cluster; opened for the first query."""

    def __init__(self, access: Access, properties: ClientProperties) -> None:
        self._access, self._properties = access, properties
        self._client: wire.KafkaAdminClient | None = None
        self._lock = Lock()

    @property
    def admin(self) -> wire.KafkaAdminClient:
        """kafka-python's client of administrators. Raises EnvironmentFailure."""
        return self._opened(_CONNECT_S)

    def reach(self, timeout_s: float) -> None:
        """Raise EnvironmentFailure, with the reason, when either library cannot be served."""
        self._shake_hands()
        self._ask_by_librdkafka(timeout_s)
        self._opened(timeout_s)

    def brokers(self) -> Mapping[int, Any]:
        """Every broker by its id, as kafka-python knows it after its own look.

        Raises EnvironmentFailure."""
        try:
            described = self.admin.describe_cluster()
        except wire.KafkaError as error:
            raise self.failure(f"does not report its brokers: {_named(error)}") from error
        return {int(each["broker_id"]): each for each in described["brokers"]}

    def ask(self, broker: int, request: Any, *, timeout_s: float) -> Any:
        """Ask one broker. Raises NoAnswer."""
        try:
            manager = self.admin._manager

            async def answered() -> Any:
                return await manager.wait_for(
                    manager.send(request, node_id=broker), int(timeout_s * 1000)
                )

            return manager.run(answered)
        except (wire.KafkaError, EnvironmentFailure, OSError, ValueError) as error:
            raise NoAnswer(f"broker {broker}: {_named(error)}") from error

    def close(self) -> None:
        """End every connection."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _opened(self, timeout_s: float) -> wire.KafkaAdminClient:
        with self._lock:
            if self._client is not None:
                return self._client
            try:
                self._client = wire.KafkaAdminClient(
                    bootstrap_servers=list(self._access.addresses),
                    bootstrap_timeout_ms=int(timeout_s * 1000),
                    client_id="ackloss-admin",
                    request_timeout_ms=_REQUEST_MS,
                    reconnect_backoff_max_ms=1000,
                    metadata_max_age_ms=2000,
                    **self._properties.kafka_python,
                )
            except wire.KafkaError as error:
                self._shake_hands()  # says why, where it fails
                raise self.failure(f"does not answer kafka-python: {_named(error)}") from error
            return self._client

    def _shake_hands(self) -> None:
        """Connect to the addresses of the file, until one takes us."""
        reasons = []
        for address in self._access.addresses:
            if (why := self._why_not(address)) is None:
                return
            reasons.append(f"{address}: {why}")
        raise self.failure(f"cannot be reached: {'; '.join(reasons)}", key="bootstrap")

    def _why_not(self, address: str) -> str | None:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        try:
            with socket.create_connection((host, int(port)), timeout=_CONNECT_S) as connection:
                if self._properties.encrypted:
                    self._context().wrap_socket(connection, server_hostname=host).close()
        except ssl.SSLCertVerificationError as error:
            return f"its certificate is not accepted: {error.verify_message}"
        except ssl.SSLError as error:
            return f"no TLS connection: {error.reason or 'it was refused'}"
        except TimeoutError:
            return "no answer in time"
        except (OSError, OverflowError) as error:
            return f"no connection: {getattr(error, 'strerror', None) or error}"
        return None

    def _context(self) -> ssl.SSLContext:
        """As kafka-python makes it. Raises EnvironmentFailure for files that are not certificates,
        or a key that its password does not open."""
        given = self._properties.kafka_python
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = given["ssl_check_hostname"]
        key = "ssl.ca.location"
        try:
            if ca := given.get("ssl_cafile"):
                context.load_verify_locations(ca)
            else:
                context.load_default_certs()
            key = "ssl.key.location"
            if certificate := given.get("ssl_certfile"):
                # an empty password, if there is none, keeps OpenSSL from prompting at the
                # terminal
                password = given.get("ssl_password", "")
                context.load_cert_chain(certificate, given["ssl_keyfile"], password)
        except (ssl.SSLError, OSError) as error:
            what = "cannot be used: it is not such a file in PEM format, or its password is wrong"
            raise EnvironmentFailure(
                what, file=str(self._access.file), key=f'client."{key}"'
            ) from error
        return context

    def _ask_by_librdkafka(self, timeout_s: float) -> None:
        reasons: list[KafkaError] = []
        configuration: dict[str, Any] = {
            "bootstrap.servers": ",".join(self._access.addresses),
            "client.id": "ackloss-admin",
            "error_cb": reasons.append,
            **self._properties.librdkafka,
        }
        try:
            client = AdminClient(configuration, logger=_SILENT)
            deadline = time.monotonic() + timeout_s
            while not reasons and time.monotonic() <= deadline:
                if _answers(client):
                    return
        except KafkaException as error:
            reasons.append(error.args[0])
        raise self.failure(
            f"does not answer librdkafka: {_why_silent(reasons, self._access.addresses)}"
        )

    def failure(self, what: str, *, key: str | None = None) -> EnvironmentFailure:
        """That the cluster cannot be used."""
        return EnvironmentFailure(
            f"the cluster {what}",
            file=str(self._access.file),
            key=key,
            hint="check the addresses and properties in this file",
        )


def _why_silent(reasons: Sequence[KafkaError], addresses: Sequence[str]) -> str:
    """What librdkafka reported, without its count of brokers, in which those that it has not heard
    of are missing (`0/2 brokers are down`)."""
    named = [each.str() for each in reasons if each.code() != KafkaError._ALL_BROKERS_DOWN]
    if named or not reasons:
        return named[0] if named else "no answer in time"
    return f"no connection to {' or '.join(addresses)}"


def _answers(client: AdminClient) -> bool:
    """Whether it has reported its brokers. (Metadata of a topic would create it, if brokers do.)"""
    try:
        client.describe_cluster(request_timeout=1.0).result(2.0)
    except (KafkaException, FutureTimeout):
        client.poll(0)  # serves error_cb, whose sentence says why
        return False
    return True


def _named(error: Exception) -> str:
    text = str(error)
    name = type(error).__name__
    return text if name in text else f"{name}: {text}" if text else name


ASK_S = 5.0

PREFIX: Final = "ackloss-"
"""What the names of all topics of ours begin with."""

_TOPIC_EXISTS, _UNKNOWN_TOPIC = 36, 3
_WRONG: Final = (40, 44)
"""INVALID_CONFIG, POLICY_VIOLATION."""

_POLL_S, _GONE_S, _SETTLE_S = 0.2, 20.0, 10.0
_OBJECT: Final = "topic "


def in_words(topic: str) -> str:
    """A topic as an object of ours: what kind of thing it is, and its name."""
    return f"{_OBJECT}{topic}"


_IGNORED: Final[Mapping[str, tuple[str, ...]]] = {
    "target": ("version", "image", "metadata", "controllers", "zookeepers", "racks", "combined",
               "founders", "coordinator", "features", "memory_mb"),
    "topic": ("leaders", "first_leader"),
}  # fmt: skip
"""Keys of a plan that are for a cluster of our own."""


@dataclass(frozen=True)
class KafkaGuest(KafkaLog, GuestTarget[KafkaPlan]):
    """Kafka that ackloss did not start. Brokers are named b and their id."""

    plugin: ClassVar[str] = "kafka"
    models: ClassVar[frozenset[str]] = frozenset({LOG.name})
    libraries: ClassVar[tuple[str, ...]] = (Librdkafka.plugin, KafkaPython.plugin)

    access: Access
    properties: ClientProperties

    @classmethod
    def reached_by(cls, access: Access) -> KafkaGuest:
        return cls(access, client_properties(access))

    @cached_property
    def session(self) -> Session:
        return Session(self.access, self.properties)

    def adapted(self, document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """The plan without the keys of `_IGNORED`, and a topic that no other run writes to."""
        made, ignored = dict(document), []
        for section, keys in _IGNORED.items():
            if isinstance(table := made.get(section), dict):
                ignored += [f"{section}.{key}" for key in keys if key in table]
                made[section] = {key: value for key, value in table.items() if key not in keys}
        topic = made.setdefault("topic", {})
        if isinstance(topic, dict):
            name = str(topic.get("name", "run"))
            made["topic"] = {**topic, "name": f"{PREFIX}{name[:32]}-{secrets.token_hex(6)}"}
        return made, [f"{key} is ignored: it is the cluster's own" for key in ignored]

    def objects(self, plan: KafkaPlan) -> tuple[str, ...]:
        return (in_words(plan.topic.name),)

    def members(self, plan: KafkaPlan, *, timeout_s: float) -> list[Member]:
        """The brokers. Raises EnvironmentFailure when there are fewer than replicas."""
        self.session.reach(timeout_s)
        brokers = self.session.brokers()
        factor = plan.topic.replication_factor
        if len(brokers) < factor:
            raise EnvironmentFailure(
                f"{factor} replicas need {factor} brokers, the cluster has {len(brokers)}",
                file=str(self.access.file),
                hint=f"--set topic.replication_factor={len(brokers)}",
            )
        return [
            Member(
                name=broker_name(number),
                roles=frozenset({"broker", *([f"rack:{each['rack']}"] if each["rack"] else [])}),
                address=f"{each['host']}:{each['port']}",
                number=number,
            )
            for number, each in sorted(brokers.items())
        ]

    def bring_up(self, cluster: Cluster, plan: KafkaPlan, *, timeout_s: float) -> None:
        """Make the topic and wait until it is fully replicated."""
        deadline = time.monotonic() + timeout_s
        self._make_topic(plan)
        brokers = with_role(cluster, "broker")
        await_none(cluster, lambda: why_not_whole(brokers, plan, self.observe), deadline)

    def observe(self, node: Node, plan: KafkaPlan, *, timeout_s: float) -> NodeView | None:
        """A broker's own view of the topic. Clients do not learn which controller is active, and
        nodes other than brokers are not queried."""
        if "broker" not in node.roles:
            return None
        try:
            (seen,) = partitions(self._ask, node.name, [plan.topic.name], timeout_s=timeout_s)
        except NoAnswer:
            return None
        return NodeView(answered_by=node.name, partitions=seen)

    def _ask(self, node: str, request: Any, *, timeout_s: float) -> Any:
        """Ask a broker by its node's name. Raises NoAnswer."""
        return self.session.ask(int(node[1:]), request, timeout_s=timeout_s)

    def effective(self, cluster: Cluster, plan: KafkaPlan) -> dict[str, Any]:
        """Settings of brokers and topic as far as we may read them, compared with the plan's."""
        brokers = {each.name: each for each in with_role(cluster, "broker")}  # clients reach these
        in_force = effective.reported(self._ask, brokers, plan)
        found = in_force["settings"]
        _refuse_compaction(plan, found["topic"])
        found["producer"] = producer = dict(library_of(plan).settings(plan))
        return {
            **in_force,
            "origins": {
                "broker": dict.fromkeys(found["broker"], "your cluster"),
                "topic": dict.fromkeys(found["topic"], "your cluster"),
                "producer": dict.fromkeys(producer, OURS),
            },
            "shortened": {"producer": shortened(plan, "producer", producer)},
        }

    def client(self, cluster: Cluster, plan: KafkaPlan) -> Client:
        library = library_of(plan)  # others are refused with the plan
        more = {
            Librdkafka.plugin: self.properties.librdkafka,
            KafkaPython.plugin: self.properties.kafka_python,
        }[library.plugin]
        run_id = cluster.run_id if isinstance(cluster, RunCluster) else ""
        return library.producing(self.addresses(cluster), plan, run_id=run_id, more=more)

    def connection(self, cluster: Cluster, plan: KafkaPlan, number: int) -> Mapping[str, JSON]:
        """Also the file's properties, without secrets: a
        process of the user's has its own way to those."""
        connection = super().connection(cluster, plan, number)
        return {**connection, "properties": {**self.properties.shown}}

    def addresses(self, cluster: Cluster) -> str:
        return ",".join(self.access.addresses)

    @contextmanager
    def source(self, cluster: Cluster, plan: KafkaPlan) -> Iterator[Source]:
        def ends() -> dict[int, End]:
            views = [self.observe(n, plan, timeout_s=ASK_S) for n in cluster.nodes.values()]

            return ends_of(self._ask, [view for view in views if view], plan)

        yield Source(
            addresses=self.addresses(cluster),
            ends=ends,
            ask=self._ask,
            librdkafka=self.properties.librdkafka,
        )

    def checkup(self, *, timeout_s: float) -> Sequence[Finding]:
        """Both client libraries are answered; the brokers; a topic that is validated and not
        made."""
        try:
            self.session.reach(timeout_s)
            brokers = self.session.brokers()
        except EnvironmentFailure as error:
            fix = "check the addresses and properties in the cluster file"
            return [Finding("cluster", Status.MISSING, error.what, fix)]
        named = [f"{broker_name(n)} {b['host']}:{b['port']}" for n, b in sorted(brokers.items())]
        answers = f"answers both client libraries; brokers: {', '.join(named)}"
        return [Finding("cluster", Status.OK, answers), self._topic_may_be_made()]

    def remove(self, objects: tuple[str, ...], *, dry_run: bool) -> list[str]:
        here = {each.removeprefix(_OBJECT) for each in objects} & self._names()
        if here and not dry_run:
            try:
                self._delete(here)
            except wire.KafkaError as error:
                raise self.session.failure(f"does not answer: {_named(error)}") from error
        return [in_words(name) for name in sorted(here)]

    def ours(self) -> list[str]:
        return [in_words(name) for name in sorted(self._names()) if name.startswith(PREFIX)]

    def close(self) -> None:
        self.session.close()

    def _make_topic(self, plan: KafkaPlan) -> None:
        """Raises PlanError for settings that the cluster refuses,
        EnvironmentFailure where it makes none."""
        wanted = {
            "num_partitions": plan.topic.partitions,
            "replication_factor": plan.topic.replication_factor,
            "configs": {key: setting_text(value) for key, value in plan.topic.settings.items()},
        }
        deadline, made = time.monotonic() + _SETTLE_S, [0]
        while True:
            try:
                answers = self.session.admin.create_topics(
                    {plan.topic.name: wanted}, raise_errors=False
                )
                break
            except wire.KafkaError as error:
                # brokers that have just started do not all know each other
                passes = error.retriable or isinstance(error, wire.UnknownBrokerIdError)
                if not passes or time.monotonic() > deadline:
                    raise self.session.failure(f"makes no topic: {_named(error)}") from error
            made = [0, _TOPIC_EXISTS]  # by a request that was not answered
            time.sleep(_POLL_S)
        code, why = answers["topics"][0]["error_code"], answers["topics"][0].get("error_message")
        if code in made:
            return
        sentence = f"{wire.for_code(code).__name__}{f': {why}' if why else ''}".rstrip(".")
        if code in _WRONG:
            raise PlanError(f"the cluster refuses the topic: {sentence}", key="topic.settings")
        raise self.session.failure(f"refuses the topic {plan.topic.name}: {sentence}")

    def _topic_may_be_made(self) -> Finding:
        """Whether a run could make its topic: one that is validated and not made."""
        what, name = "topic of a run", f"{PREFIX}doctor-{secrets.token_hex(6)}"
        wanted = {name: {"num_partitions": 1, "replication_factor": 1}}
        try:
            answer = self.session.admin.create_topics(
                wanted, validate_only=True, raise_errors=False
            )
        except wire.IncompatibleBrokerVersion:
            why = "may be made or not: these brokers do not say it without making one"
            return Finding(what, Status.WARN, why)
        except wire.KafkaError as error:
            why = f"the cluster does not say whether it may be made: {type(error).__name__}"
            return Finding(what, Status.MISSING, why, "run `ackloss doctor --cluster FILE` again")
        if code := answer["topics"][0]["error_code"]:
            fix = f"grant Create and Delete on topics with the prefix {PREFIX}"
            refused = f"the cluster refuses it: {wire.for_code(code).__name__}"
            return Finding(what, Status.MISSING, refused, fix)
        return Finding(what, Status.OK, "may be made (validated by the cluster; none was made)")

    def _delete(self, names: set[str]) -> None:
        deadline, left, why = time.monotonic() + _GONE_S, set(names), ""
        while left and time.monotonic() < deadline:
            answer = self.session.admin.delete_topics(sorted(left), raise_errors=False)
            codes = {topic["error_code"] for topic in answer["topics"]} - {0, _UNKNOWN_TOPIC}
            why = ", ".join(wire.for_code(code).__name__ for code in sorted(codes))
            time.sleep(_POLL_S)
            left = names & self._names()
        if left:
            raise HarnessFailure(
                f"the cluster still has {_OBJECT}{', '.join(sorted(left))}: {why or 'no reason'}",
                hint="delete it, or run `ackloss clean --cluster FILE`",
            )

    def _names(self) -> set[str]:
        try:
            return {*self.session.admin.list_topics()}
        except wire.KafkaError as error:
            raise self.session.failure(f"does not answer: {_named(error)}") from error


def _refuse_compaction(plan: KafkaPlan, topic: Values) -> None:
    """A topic that the cluster compacts by its own default loses writes as it should."""
    key = "cleanup.policy"
    if "compact" in str(topic.get(key)) and key not in plan.topic.settings:
        raise PlanError(
            "the cluster compacts topics by default, and what it compacts away would look lost",
            key=f'topic.settings."{key}"',
            hint='set it to "delete"',
        )
