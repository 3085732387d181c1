"""Queries and requests to an external cluster, over connections that are kept.

Each broker is queried on its own connection (a client's metadata may come from any broker);
connections are kept, since a handshake with TLS and SCRAM for each question would be a load of its
own. Encoding, versions of requests, TLS and SASL are kafka-python's.

Before that it is found out, in words, why a cluster does not answer: kafka-python tries again
without a word until its time is over.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from threading import Lock
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import errors as theirs

from harness.errors import EnvironmentFailure
from harness.faults.own_traffic import NoAnswer
from harness.protocols import Access
from targets.kafka.external.properties import ClientProperties

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
        raise self._failure(f"does not answer librdkafka: {_why(reasons, self._access.addresses)}")

    def _failure(self, what: str, *, key: str | None = None) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"the cluster {what}",
            file=str(self._access.file),
            key=key,
            hint="check the addresses and properties in this file",
        )


def _why(reasons: Sequence[KafkaError], addresses: Sequence[str]) -> str:
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
