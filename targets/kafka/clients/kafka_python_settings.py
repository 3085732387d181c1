"""The producer settings of plans, in kafka-python's words.

Plans name settings as librdkafka does, whatever client writes. Those that kafka-python has under
another name are translated, the others are refused: a setting that does nothing would mislead. One
difference in kind: kafka-python has one timeout for a request, where librdkafka has one for the
response (`socket.timeout.ms`) and one that it sends to the leader (`request.timeout.ms`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka.codec import has_lz4, has_snappy, has_zstd

from harness.errors import PlanError
from targets.kafka.acks import ALL, LEADER, NOBODY
from targets.kafka.clients.library import protocol
from targets.kafka.clients.producer_settings import (
    DEFAULTS,
    SAME,
    place_of,
    requested_settings,
)
from targets.kafka.clients.producer_settings import why_refused as why_never
from targets.kafka.plan import KafkaPlan

_REQUEST, _SOCKET = "request.timeout.ms", "socket.timeout.ms"

_NUMBERS: Final[Mapping[str, str]] = {
    "retries": "retries",
    "retry.backoff.ms": "retry_backoff_ms",
    "message.timeout.ms": "delivery_timeout_ms",
    _REQUEST: "request_timeout_ms",
    "linger.ms": "linger_ms",
    "batch.size": "batch_size",
    "message.max.bytes": "max_request_size",
    "max.in.flight.requests.per.connection": "max_in_flight_requests_per_connection",
    "socket.send.buffer.bytes": "send_buffer_bytes",
    "socket.receive.buffer.bytes": "receive_buffer_bytes",
    "connections.max.idle.ms": "connections_max_idle_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms",
}
_ACKS: Final[Mapping[str, int]] = {ALL: -1, LEADER: 1, NOBODY: 0}
_CODECS: Final = {
    "none": lambda: True,
    "gzip": lambda: True,
    "snappy": has_snappy,
    "lz4": has_lz4,
    "zstd": has_zstd,
}
TAKEN: Final = frozenset(
    {*_NUMBERS, _SOCKET, "acks", "enable.idempotence", "compression.type"},
)
"""What a plan may set for kafka-python."""

_LINGER_MS: Final = "0"  # kafka-python's own default
_MOST_IN_FLIGHT: Final = 5


def settings_in_force(plan: KafkaPlan) -> dict[str, str]:
    """What the producers are started with, by the names that plans use: the protocol, if brokers do
    not report it, and defaults of ackloss; then what is requested. Raises PlanError."""
    settings = plan.workload.producer
    requested = requested_settings(settings)
    for name in requested:
        if why := why_refused(name):
            raise PlanError(
                why,
                key=place_of(name, settings),
                hint="remove it, or write with another client",
            )
    if requested.get(_REQUEST, requested.get(_SOCKET)) != requested.get(
        _SOCKET, requested.get(_REQUEST)
    ):
        raise PlanError(
            f"kafka-python has one timeout for both {_REQUEST} and {_SOCKET}",
            key=place_of(_SOCKET, settings),
            hint="set one of them",
        )
    force = {**DEFAULTS, **requested}
    force[_REQUEST] = requested.get(_REQUEST, force[_SOCKET])
    del force[_SOCKET]
    return {**protocol(plan), **force}


def why_refused(key: str) -> str | None:
    """Why a plan may not set this producer setting with kafka-python; null when it may."""
    name = SAME.get(key, key)
    return why_never(key) or (None if name in TAKEN else f"kafka-python has no setting {name}")


def check_settings(plan: KafkaPlan) -> None:
    """Raise PlanError for settings that kafka-python does not have, or values that it does not
    accept."""
    force = settings_in_force(plan)
    for name, why in _wrong(force):
        raise PlanError(why, key=place_of(name, plan.workload.producer))


def keyword_arguments(force: Mapping[str, str]) -> dict[str, Any]:
    """The settings in force as `KafkaProducer` takes them."""
    arguments: dict[str, Any] = {
        ours: int(force[name]) for name, ours in _NUMBERS.items() if name in force
    }
    arguments["acks"] = _ACKS[force["acks"]]
    arguments["enable_idempotence"] = force["enable.idempotence"] == "true"
    if (codec := force.get("compression.type", "none")) != "none":
        arguments["compression_type"] = codec
    if speaks := force.get("broker.version.fallback"):
        arguments["api_version"] = tuple(map(int, speaks.split(".")))
    return arguments


def _wrong(force: Mapping[str, str]) -> list[tuple[str, str]]:
    """Each value that is wrong: the setting, and why."""
    wrong = [(name, f"{name} is below 0") for name in _NUMBERS if int(force.get(name, "0")) < 0]
    in_flight = int(force.get("max.in.flight.requests.per.connection", "1"))
    if in_flight == 0:
        wrong.append(("max.in.flight.requests.per.connection", "no request may be under way"))
    codec = force.get("compression.type", "none")
    if codec not in _CODECS:
        wrong.append(("compression.type", f"{codec!r} is not one of {', '.join(_CODECS)}"))
    elif not _CODECS[codec]():
        wrong.append(("compression.type", f"kafka-python finds no Python package for {codec}"))
    if force["enable.idempotence"] == "true":
        if force["acks"] != ALL:
            wrong.append(("acks", "an idempotent producer needs acks = all"))
        if force.get("retries") == "0":
            wrong.append(("retries", "an idempotent producer needs retries"))
        if in_flight > _MOST_IN_FLIGHT:
            why = f"an idempotent producer has at most {_MOST_IN_FLIGHT} requests under way"
            wrong.append(("max.in.flight.requests.per.connection", why))
    needed_ms = int(force.get("linger.ms", _LINGER_MS)) + int(force[_REQUEST])
    if int(force["message.timeout.ms"]) < needed_ms:
        why = f"kafka-python needs at least linger.ms + {_REQUEST}, {needed_ms} here"
        wrong.append(("message.timeout.ms", why))
    return wrong
