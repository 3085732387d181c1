"""Which producer settings a plan may set, under which names, and what they are when it does not.

A plan may come from a stranger, so there is a list of what is allowed; `plugin.library.paths` alone
would load a library into this process. Names are librdkafka's. Its own second names and the Java
client's, as people paste them from a producer.properties, are taken for the setting they mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from harness.errors import PlanError, nearest
from targets.kafka.acks import ALL, SPELLINGS, acks_of

WHERE: Final = "workload.producer"

_NUMBERS: Final[Mapping[str, str]] = {
    "retries": "how often a write is tried again",
    "retry.backoff.ms": "wait before it is",
    "retry.backoff.max.ms": "longest wait before it is",
    "message.timeout.ms": "how long a write may take with all its attempts",
    "request.timeout.ms": "how long the leader may wait for its followers",
    "linger.ms": "how long to wait for a batch to fill",
    "batch.size": "largest batch, in bytes",
    "batch.num.messages": "largest batch, in messages",
    "message.max.bytes": "largest request",
    "message.copy.max.bytes": "largest message that is copied rather than referred to",
    "compression.level": "level of the compression",
    "max.in.flight.requests.per.connection": "requests under way on a connection",
    "queue.buffering.max.messages": "the client's queue, in messages",
    "queue.buffering.max.kbytes": "the client's queue, in KiB",
    "queue.buffering.backpressure.threshold": "requests under way before batches may grow",
    "socket.timeout.ms": "how long a request may go without an answer",
    "socket.connection.setup.timeout.ms": "how long to wait for a connection",
    "socket.send.buffer.bytes": "the socket's send buffer",
    "socket.receive.buffer.bytes": "the socket's receive buffer",
    "socket.max.fails": "timeouts before a connection is closed",
    "connections.max.idle.ms": "idle time before a connection is closed",
    "reconnect.backoff.ms": "wait before connecting again",
    "reconnect.backoff.max.ms": "longest wait before connecting again",
    "topic.metadata.refresh.interval.ms": "how often to query who leads",
    "topic.metadata.refresh.fast.interval.ms": "how often to query while no broker leads",
    "topic.metadata.propagation.max.ms": "how long a new topic may be unknown",
    "metadata.recovery.rebootstrap.trigger.ms": "time without metadata before starting over",
    "api.version.request.timeout.ms": "how long to wait for the broker's versions",
    "api.version.fallback.ms": "how long to assume the fallback version",
}
_FLAGS: Final[Mapping[str, str]] = {
    "enable.idempotence": "the broker drops what it has already",
    "enable.gapless.guarantee": "a failed batch fails all that follow",
    "topic.metadata.refresh.sparse": "ask for known topics only",
    "socket.keepalive.enable": "TCP keep-alive",
    "socket.nagle.disable": "TCP_NODELAY",
    "api.version.request": "ask brokers for their versions (false for 0.8 and 0.9)",
}
_WORDS: Final[Mapping[str, str]] = {
    "acks": "who must have a write before it is acknowledged: 0, 1, -1 or all",
    "compression.type": "none, gzip, snappy, lz4 or zstd",
    "queuing.strategy": "fifo or lifo",
    "metadata.recovery.strategy": "none or rebootstrap",
    "broker.version.fallback": "the version to assume of a broker that reports none",
}
ALLOWED: Final[Mapping[str, str]] = {**_WORDS, **_FLAGS, **_NUMBERS}
"""What a plan may set, with a few words each."""

SAME: Final[Mapping[str, str]] = {
    # librdkafka's second names
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "delivery.timeout.ms": "message.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "compression.codec": "compression.type",
    # the Java client's names
    "max.request.size": "message.max.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
    "buffer.memory": "queue.buffering.max.kbytes",
}
"""Other names that are taken, and the setting that they mean. `buffer.memory` is in bytes."""

DEFAULTS: Final[Mapping[str, str]] = {
    "acks": ALL,
    "enable.idempotence": "false",
    "message.timeout.ms": "8000",
    "socket.timeout.ms": "3000",
    "topic.metadata.refresh.interval.ms": "1000",
    "reconnect.backoff.max.ms": "500",
}
"""What ackloss sets unless the plan says otherwise: a run takes a minute, so timeouts are short;
the rest is what librdkafka does by itself."""

_REFUSED: Final[tuple[tuple[str, str], ...]] = (
    (r"bootstrap\.servers|metadata\.broker\.list", "clients speak to the run's own cluster only"),
    (r"plugin\..*", "it would load a library into ackloss"),
    (r"(sasl|ssl|security|enable\.s[sa]?sl)\..*|.*\.(location|password|pem)|oauth.*|https\..*",
     "a plan may not set how to reach the cluster, nor files and secrets of this machine"),
    (r"client\.id|client\.rack", "ackloss names its clients itself"),
    (r"transactional\.id|transaction\..*", "appends are not transactional"),
    (r"partitioner.*|sticky\..*", "it has no effect: every write names its partition"),
    (r".*\.(de)?serializer.*|.*\.class(es)?|.*\.reporters|.*\.providers.*",
     "it names code of the Java client"),
    (r"max\.block\.ms", "librdkafka never blocks: a full queue is back-pressure"),
    (r"delivery\.report\..*|.*_cb|on_delivery", "ackloss needs every delivery report"),
    (r"debug|log.*|statistics\..*", "what the client reports belongs to ackloss"),
)  # fmt: skip
_NOT_LISTED = "it is not on the list of producer settings that a plan may set"


def why_refused(key: str) -> str | None:
    """Why a plan may not set this producer setting; null when it may."""
    if SAME.get(key, key) in ALLOWED:
        return None
    return next((why for pattern, why in _REFUSED if re.fullmatch(pattern, key)), _NOT_LISTED)


def check_producer_settings(settings: Mapping[str, Any]) -> None:
    """Raise PlanError for the first setting that is refused, given twice, or of a wrong value."""
    effective = effective_settings(settings)
    try:
        Producer({**effective, "log_level": 0})
    except KafkaException as error:
        raise _librdkafkas_refusal(error.args[0].str(), settings) from error


def effective_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """What the producers are started with, but for their addresses: defaults, then what is
    requested.

    Names are those of `ALLOWED`. Raises PlanError as `check_producer_settings` does, but for values
    that only librdkafka knows to be wrong.
    """
    return {**DEFAULTS, **requested_settings(settings)}


def requested_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """What a plan requests, without the defaults; raises PlanError as `effective_settings`."""
    requested: dict[str, str] = {}
    for key, value in settings.items():
        name = SAME.get(key, key)
        if why := why_refused(key):
            near = nearest(key, [*ALLOWED, *SAME])
            hint = f"did you mean {near!r}?" if near else "remove it"
            raise PlanError(f"this setting is refused: {why}", key=_place(key), hint=hint)
        if name in requested:
            raise PlanError(f"{name} is set twice, under two names", key=_place(key))
        requested[name] = _text(name, key, value)
    return requested


def place_of(name: str, settings: Mapping[str, Any]) -> str:
    """Where a plan sets this, under whatever name; the whole table where it does not."""
    return next((_place(key) for key in settings if SAME.get(key, key) == name), WHERE)


def attempts_once(effective: Mapping[str, str]) -> bool:
    """Whether these effective settings forbid a producer to retry a write. (Some retry anyway:
    `targets.kafka.clients.outcomes`.)"""
    return effective["enable.idempotence"] != "true" and effective.get("retries") == "0"


def acks_text(key: str, value: Any) -> str:
    """A plan's acks in the form that is used everywhere: 0, 1 or all. Raises PlanError."""
    acks = acks_of(value)
    if acks is None:
        hint = 'acks = "all" is what keeps a write'
        raise PlanError(f"acks is {SPELLINGS}, not {value!r}", key=_place(key), hint=hint)
    return acks


def _place(key: str) -> str:
    return f'{WHERE}."{key}"'


def _text(name: str, key: str, value: Any) -> str:
    """A value as librdkafka reads it; it would read 1.5 or 5x as a number, silently cut off."""
    if name == "acks":
        return acks_text(key, value)
    text = str(value).lower() if isinstance(value, bool) else str(value).strip()
    if name in _NUMBERS and not re.fullmatch(r"-?\d{1,12}", text):
        raise PlanError(f"{value!r} is not an integer", key=_place(key))
    if name in _FLAGS and (text := text.lower()) not in ("true", "false"):
        raise PlanError(f"{value!r} is neither true nor false", key=_place(key))
    if name not in _NUMBERS:
        return text
    return str(int(text) // 1024 if key == "buffer.memory" else int(text))


def _librdkafkas_refusal(sentence: str, settings: Mapping[str, Any]) -> PlanError:
    """librdkafka's own sentence, at the plan's key that it is about."""
    refusal = sentence.strip().removeprefix("Failed to create producer: ")
    named = {SAME.get(name, name) for name in re.findall(r'["`]([a-z0-9._]+)["`]', refusal)}
    keys = [key for key in settings if SAME.get(key, key) in named]
    return PlanError(
        f"librdkafka refuses it: {refusal[:1].lower()}{refusal[1:]}",
        key=_place(keys[0]) if keys else WHERE,
    )
