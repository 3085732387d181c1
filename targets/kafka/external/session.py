"""Queries and requests to a cluster of the user's, over connections that are kept, and how clients
reach it, in the words of librdkafka and of kafka-python.

Both libraries write or read in every run, so a property counts only if both can be given it. There
is one set of names, Kafka's own where it has one (`security.protocol`, `sasl.mechanism`) and
librdkafka's for files in PEM. What cannot be expressed for both is refused with what to write
instead.

Each broker is queried on its own connection (a client's metadata may come from any broker);
connections are kept, since a handshake with TLS and SCRAM for each question would be a load of its
own. Before that it is found out, in words, why a cluster does not answer: kafka-python tries again
without a word until its time is over.
"""

from __future__ import annotations

import logging
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import errors as theirs

from harness.errors import EnvironmentFailure, PlanError, nearest
from harness.faults.own_traffic import NoAnswer
from harness.protocols import Access

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

_KAFKA_PYTHON: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    PROTOCOL: ("security_protocol", str),
    MECHANISM: ("sasl_mechanism", str),
    _USER: ("sasl_plain_username", str),
    _PASSWORD: ("sasl_plain_password", str),
    "ssl.ca.location": ("ssl_cafile", str),
    _CERTIFICATE: ("ssl_certfile", str),
    _KEY: ("ssl_keyfile", str),
    _KEY_PASSWORD: ("ssl_password", str),
    "ssl.crl.location": ("ssl_crlfile", str),
    CHECKED: ("ssl_check_hostname", lambda value: value == "https"),
}
"""By property, kafka-python's keyword and how the value is converted. librdkafka has the same
names."""

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
    kafka_python = {}
    for name, value in values.items():
        keyword, translated = _KAFKA_PYTHON[name]
        kafka_python[keyword] = translated(value)
    secret = frozenset(_SAME.get(name, name) for name in access.secrets)
    return ClientProperties(librdkafka=values, kafka_python=kafka_python, secret=secret)


def _by_name(access: Access) -> dict[str, str]:
    secret = {name: each.reveal() for name, each in access.secrets.items()}
    given: dict[str, str] = {}
    for name, value in {**access.properties, **secret}.items():
        known = _SAME.get(name, name)
        if known not in _KAFKA_PYTHON:
            why = next((why for pattern, why in _INSTEAD if re.fullmatch(pattern, name)), None)
            why = why or "librdkafka and kafka-python cannot both be given it"
            near = nearest(name, list(_KAFKA_PYTHON))
            hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(_KAFKA_PYTHON)}"
            _refuse(f"this property is refused: {why}", access, name, hint)
        if known in given:
            _refuse(f"{known} is set twice, under two names", access, name)
        if known in SECRET and name in access.properties:
            _refuse(
                "a secret may not stand in this file",
                access,
                name,
                'refer to it: { env = "VARIABLE" } or { file = "NAME" }',
            )
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
        if name.startswith("sasl.") and not protocol.startswith("SASL"):
            _refuse(f"has no effect: {PROTOCOL} is {protocol}", access, name, "remove it")
        if name.startswith("ssl.") and not protocol.endswith("SSL"):
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
        self._client: KafkaAdminClient | None = None
        self._lock = Lock()

    @property
    def admin(self) -> KafkaAdminClient:
        """kafka-python's client of administrators. Raises EnvironmentFailure."""
        with self._lock:
            if self._client is None:
                self._client = self._opened(_CONNECT_S)
            return self._client

    def reach(self, timeout_s: float) -> None:
        """Raise EnvironmentFailure, with the reason, when either library cannot be served."""
        self._shake_hands()
        self._ask_by_librdkafka(timeout_s)
        with self._lock:
            if self._client is None:
                self._client = self._opened(timeout_s)

    def brokers(self) -> Mapping[int, Any]:
        """Every broker by its id, as kafka-python knows it after its own look.

        Raises EnvironmentFailure."""
        try:
            described = self.admin.describe_cluster()
        except theirs.KafkaError as error:
            raise self._failure(f"does not report its brokers: {_named(error)}") from error
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
        except (theirs.KafkaError, EnvironmentFailure, OSError, ValueError) as error:
            raise NoAnswer(f"broker {broker}: {_named(error)}") from error

    def close(self) -> None:
        """End every connection."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _opened(self, timeout_s: float) -> KafkaAdminClient:
        try:
            return KafkaAdminClient(
                bootstrap_servers=list(self._access.addresses),
                bootstrap_timeout_ms=int(timeout_s * 1000),
                client_id="ackloss-admin",
                request_timeout_ms=_REQUEST_MS,
                reconnect_backoff_max_ms=1000,
                metadata_max_age_ms=2000,
                **self._properties.kafka_python,
            )
        except theirs.KafkaError as error:
            self._shake_hands()  # says why, where it fails
            raise self._failure(f"does not answer kafka-python: {_named(error)}") from error

    def _shake_hands(self) -> None:
        """Connect to the addresses of the file, until one takes us."""
        reasons = []
        for address in self._access.addresses:
            if (why := self._why_not(address)) is None:
                return
            reasons.append(f"{address}: {why}")
        raise self._failure(f"cannot be reached: {'; '.join(reasons)}", key="bootstrap")

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
            while not _answers(client):
                if reasons or time.monotonic() > deadline:
                    break
            else:
                return
        except KafkaException as error:
            reasons.append(error.args[0])
        raise self._failure(
            f"does not answer librdkafka: {_why_silent(reasons, self._access.addresses)}"
        )

    def _failure(self, what: str, *, key: str | None = None) -> EnvironmentFailure:
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
