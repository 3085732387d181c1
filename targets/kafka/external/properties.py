"""How clients reach a cluster of the user's, in the words of librdkafka and of kafka-python.

Both libraries write or read in every run, so a property counts only if both can be given it. There
is one set of names, Kafka's own where it has one (`security.protocol`, `sasl.mechanism`) and
librdkafka's for files in PEM. What cannot be expressed for both is refused with what to write
instead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.errors import PlanError, nearest
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
    """All values, secret ones too, each under its one name."""
    secret = {name: each.reveal() for name, each in access.secrets.items()}
    given: dict[str, str] = {}
    for name, value in {**access.properties, **secret}.items():
        known = _SAME.get(name, name)
        if known not in _KAFKA_PYTHON:
            _refuse(f"this property is refused: {_why(name)}", access, name, _near(name))
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


def _why(name: str) -> str:
    found = next((why for pattern, why in _INSTEAD if re.fullmatch(pattern, name)), None)
    return found or "librdkafka and kafka-python cannot both be given it"


def _near(name: str) -> str:
    near = nearest(name, list(_KAFKA_PYTHON))
    return f"did you mean {near!r}?" if near else f"there are: {', '.join(_KAFKA_PYTHON)}"


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
