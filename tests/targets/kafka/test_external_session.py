"""Why a cluster does not answer is reported in a sentence: on servers of this process, which are no
Kafka."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from harness.errors import EnvironmentFailure
from harness.protocols import Access
from targets.kafka.external import Session, client_properties
from targets.kafka.external import _why_silent as _why
from tests.fixtures.secured_kafka import Authority


def session(folder: Path, port: int, **properties: str) -> Session:
    given = {key.replace("_", "."): value for key, value in properties.items()}
    access = Access(file=folder / "theirs.toml", addresses=(f"127.0.0.1:{port}",), properties=given)
    return Session(access, client_properties(access))


@contextmanager
def secured(
    folder: Path, issued_for: str = "127.0.0.1", days: int = 30, *, known: bool = True, **more: str
) -> Iterator[Session]:
    """Asks a server with such a certificate, of an authority that is known or not."""
    authority = Authority()
    (folder / "ca.pem").write_bytes((authority if known else Authority()).pem)
    (folder / "server.pem").write_bytes(authority.issued([issued_for], days=days))
    with server(folder / "server.pem") as port:
        yield session(folder, port, security_protocol="SSL", ssl_ca_location="ca.pem", **more)


@contextmanager
def server(pem: Path | None = None) -> Iterator[int]:
    """Takes connections, with TLS where it has a certificate, and says nothing."""
    context = None
    if pem is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
    listening = socket.create_server(("127.0.0.1", 0))
    kept = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
                connection.settimeout(5)
                kept.append(
                    context.wrap_socket(connection, server_side=True) if context else connection
                )
            except ssl.SSLError:
                continue
            except OSError:
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(5)
        for each in kept:
            each.close()


@pytest.mark.parametrize(
    ("issued_for", "days", "known", "what"),
    [
        ("127.0.0.1", -1, True, "its certificate is not accepted: certificate has expired"),
        ("127.0.0.2", 30, True, "its certificate is not accepted: IP address mismatch"),
        ("127.0.0.1", 30, False, "its certificate is not accepted: certificate signature failure"),
    ],
)
def test_a_certificate_that_is_not_good_is_reported(
    tmp_path: Path, issued_for: str, days: int, known: bool, what: str
) -> None:
    served = secured(tmp_path, issued_for, days, known=known)
    with served as asked, pytest.raises(EnvironmentFailure, match=what) as refused:
        asked.reach(1)
    assert refused.value.key == "bootstrap"
    assert "127.0.0.1:" in str(refused.value)


def test_dry_clean_up_reports_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`clean` asks kafka-python alone, which tries again without a word."""
    monkeypatch.setattr("targets.kafka.external._CONNECT_S", 2.0)
    expired = pytest.raises(EnvironmentFailure, match="certificate has expired")
    with secured(tmp_path, days=-1) as asked, expired:
        _ = asked.admin


@pytest.mark.parametrize(
    ("issued_for", "more"),
    [("127.0.0.1", {}), ("127.0.0.2", {"ssl_endpoint_identification_algorithm": "none"})],
    ids=["good", "of another name, where that is asked for"],
)
def test_a_certificate_is_taken_and_the_silence_behind_it_is_reported(
    tmp_path: Path, issued_for: str, more: dict[str, str]
) -> None:
    silent = pytest.raises(EnvironmentFailure, match="does not answer librdkafka: ")
    with secured(tmp_path, issued_for, **more) as asked, silent:
        asked.reach(1)


def test_nobody_there_and_no_tls_there_are_reported(tmp_path: Path) -> None:
    with server() as port:
        pass
    with pytest.raises(EnvironmentFailure, match="no connection: Connection refused"):
        session(tmp_path, port).reach(1)
    with server() as port, pytest.raises(EnvironmentFailure, match="does not answer librdkafka"):
        session(tmp_path, port).reach(1)


def test_a_key_that_its_password_does_not_open_is_reported(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "ca.pem").write_text("no certificate")
    with server() as port:
        asked = session(tmp_path, port, security_protocol="SSL", ssl_ca_location="ca.pem")
        with pytest.raises(EnvironmentFailure, match="it is not such a file in PEM") as refused:
            asked.reach(1)
        assert refused.value.key == 'client."ssl.ca.location"'
        (tmp_path / "ca.pem").write_bytes(authority.pem)
        (tmp_path / "me.pem").write_bytes(authority.pem)
        asked = session(
            tmp_path,
            port,
            security_protocol="SSL",
            ssl_ca_location="ca.pem",
            ssl_certificate_location="me.pem",
            ssl_key_location="me.pem",
        )
        with pytest.raises(EnvironmentFailure, match="it is not such a file in PEM") as refused:
            asked.reach(1)
        assert refused.value.key == 'client."ssl.key.location"'


def test_what_could_not_be_reached_is_said_and_not_a_librarys_count() -> None:
    down = KafkaError(KafkaError._ALL_BROKERS_DOWN, "0/2 brokers are down")
    refused = KafkaError(KafkaError._TRANSPORT, "k1:9092/bootstrap: Connect failed: refused")
    addresses = ["k1:9092", "k2:9092"]
    assert _why([down], addresses) == "no connection to k1:9092 or k2:9092"
    assert _why([down, refused], addresses) == "k1:9092/bootstrap: Connect failed: refused"
    assert _why([], addresses) == "no answer in time"
