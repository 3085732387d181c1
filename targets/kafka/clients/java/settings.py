"""What a plan may set of the Java client, and under which names.

Nothing is set that the plan does not request: the point of this client is what it does by itself.
`requested_settings` describes the one exception. Names are the Java client's own; librdkafka's are
mapped to the setting that they mean, so that one plan can be run with either client. Like there, it
is a list of what is allowed, since a plan may come from a stranger and Java's settings name
classes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from harness.errors import PlanError, nearest
from targets.kafka.acks import ALL, acks_of
from targets.kafka.clients.producer_settings import WHERE, acks_text
from targets.kafka.clients.producer_settings import why_refused as why_never

_NUMBERS: Final = frozenset(
    {
        "retries",
        "retry.backoff.ms",
        "retry.backoff.max.ms",
        "delivery.timeout.ms",
        "request.timeout.ms",
        "linger.ms",
        "batch.size",
        "buffer.memory",
        "max.block.ms",
        "max.request.size",
        "max.in.flight.requests.per.connection",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "connections.max.idle.ms",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "socket.connection.setup.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "send.buffer.bytes",
        "receive.buffer.bytes",
    }
)
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "enable.idempotence": ("true", "false"),
    "compression.type": ("none", "gzip", "snappy", "lz4", "zstd"),
    "metadata.recovery.strategy": ("none", "rebootstrap"),
}
ALLOWED: Final = _NUMBERS | _WORDS.keys() | {"acks"}
"""What a plan may set; which of it a version knows, its producer says itself."""

SAME: Final[Mapping[str, str]] = {
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery.timeout.ms",
    "socket.timeout.ms": "request.timeout.ms",
    "queue.buffering.max.ms": "linger.ms",
    "queue.buffering.max.kbytes": "buffer.memory",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "compression.codec": "compression.type",
    "message.max.bytes": "max.request.size",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
}
"""librdkafka's names, and the Java client's setting that means the same."""

_REQUEST_MS: Final = 30_000  # Java's own defaults
_LINGER_MS: Final = 5
_UNSAID: Final = r"(ssl|sasl|security|bootstrap|key|value)\..*|client\.id"


def why_refused(key: str) -> str | None:
    """Why a plan may not set this producer setting with the Java client; null when it may."""
    if SAME.get(key, key) in ALLOWED:
        return None
    return why_never(key) or "the Java client has no setting that means it"


def requested_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """What the producers are given, by Java's names: all that the plan requests.

    One thing more where it must be: Java refuses a delivery.timeout.ms below request.timeout.ms +
    linger.ms, so a plan that only shortens the first has the second shortened with it. Raises
    PlanError for a setting that is refused, given twice, or of a wrong value.
    """
    requested: dict[str, str] = {}
    for key, value in settings.items():
        name = SAME.get(key, key)
        if why := why_refused(key):
            raise _refusal(key, why)
        if name in requested:
            raise PlanError(f"{name} is set twice, under two names", key=_place(key))
        requested[name] = _text(name, key, value)
    if "delivery.timeout.ms" in requested and "request.timeout.ms" not in requested:
        left = int(requested["delivery.timeout.ms"]) - int(requested.get("linger.ms", _LINGER_MS))
        if 0 < left < _REQUEST_MS:
            requested["request.timeout.ms"] = str(left)
    return requested


def checked_settings(
    reported: Mapping[str, str], plan_settings: Mapping[str, Any], software: str
) -> dict[str, str]:
    """The settings that a producer reports, but for addresses, names and what no plan may set.

    Raises PlanError for a setting that its version does not know, or took for another value.
    """
    requested = requested_settings(plan_settings)
    for key in plan_settings:
        name = SAME.get(key, key)
        wanted = requested[name]
        if name not in reported:
            raise PlanError(f"{software} does not know this setting", key=_place(key))
        if _plain(reported[name]) != _plain(wanted):
            raise PlanError(
                f"{software} has {reported[name]!r}, but {wanted!r} was requested", key=_place(key)
            )
    return {
        name: acks_of(value) or value if name == "acks" else value
        for name, value in reported.items()
        if value not in ("null", "") and not re.fullmatch(_UNSAID, name)
    }


def javas_refusal(sentence: str, settings: Mapping[str, Any]) -> PlanError:
    """The Java client's own sentence, at the plan's key that it is about."""
    named = [key for key in settings if SAME.get(key, key) in sentence]
    where = _place(named[0]) if named else WHERE
    return PlanError(f"the Java client refuses it: {sentence}", key=where)


def _refusal(key: str, why: str) -> PlanError:
    near = nearest(key, [*ALLOWED, *SAME])
    hint = f"did you mean {near!r}?" if near else "remove it"
    return PlanError(f"this setting is refused: {why}", key=_place(key), hint=hint)


def _text(name: str, key: str, value: Any) -> str:
    if name == "acks":
        return acks_text(key, value)
    text = str(value).strip().lower()
    if name in _WORDS:
        if text not in _WORDS[name]:
            known = ", ".join(_WORDS[name])
            raise PlanError(f"{value!r} is not one of {known}", key=_place(key))
        return text
    if isinstance(value, bool) or not re.fullmatch(r"-?\d{1,15}", text):
        raise PlanError(f"{value!r} is not an integer", key=_place(key))
    return str(int(text) * 1024 if key == "queue.buffering.max.kbytes" else int(text))


def _plain(value: str) -> str:
    """acks = all is -1 to Java."""
    return "-1" if value == ALL else value


def _place(key: str) -> str:
    return f'{WHERE}."{key}"'
