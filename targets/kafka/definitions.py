"""Kafka's own settings: what each version knows of a name, before anything is started.

`settings.tsv` comes from the definitions in Kafka's jars, 0.8.0 to the newest supported version
(`scripts/kafka_settings.py`): a line a setting with its name, its levels with the first and last
minor version that has it, type, default, allowed words, the topic's setting that a broker's stands
for, and Kafka's own first sentence about it. What ackloss adds, stands in this module: which of a
broker's settings no plan may touch, which names hold secrets, and which settings do nothing without
a class that no plan may name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Final, Literal

from harness.plan import number_of

_LIKE: Final = 0.8
"""How alike a name is to the one that was meant: a vendor's shares words with Kafka's."""

Level = Literal["broker", "topic", "producer", "consumer"]

PLACES: Final[Mapping[Level, str]] = {
    "broker": "target.settings",
    "topic": "topic.settings",
    "producer": "workload.producer",
    "consumer": "workload.consumer",
}
"""Where a plan sets them."""

_OWNED: Final = "ackloss sets it itself"
_CODE: Final = "it loads code or reads files, and a plan may do neither"
_REFUSED: Final[tuple[tuple[str, str], ...]] = (
    (r"(controller\.)?listener.*|listeners|advertised\..*|.*\.listener\.names?", _OWNED),
    (r"listener\.security\.protocol\.map|security\..*|port|host\.name", _OWNED),
    (r"node\.id|broker\.id(\..*)?|reserved\.broker\.max\.id|broker\.rack", _OWNED),
    (r"process\.roles|log\.dirs?|metadata\.log\.dir", _OWNED),
    (r"controller\.quorum\.(?!.*\.ms$).*", _OWNED),
    (r"zookeeper\.(?!(session|connection)\.timeout\.ms$).*", _OWNED),
    (r"ssl\..*|sasl\..*|.*\.sasl\..*|.*\.ssl\..*|password\..*|delegation\..*", _OWNED),
    (r".*\.class(\.name|\.path|es)?|.*\.reporters|config\.providers.*|.*\.location", _CODE),
)
_SECRET: Final = re.compile(
    r"secret|passw|passphrase|token|credential|licen[cs]e|jaas|auth[._-]?info|user[._-]?info"
    r"|(access|private|api|account|encryption|shared|keystore|pem)[._-]?keys?\b"
    r"|certificate[._-]?chain",
    re.IGNORECASE,
)
_OPEN: Final = ("boolean", "int", "long", "short", "double")
"""Types that hold no secret, whatever the name: `delegation.token.expiry.time.ms`."""

_NEEDS: Final[tuple[tuple[str, str], ...]] = (
    (r"remote\.log\.(?!storage\.manager\.class).*|r[sl]m+\.config\..*",
     "remote.log.storage.manager.class.name"),
    (r"(local\.|log\.local\.)retention\..*|remote\.storage\.enable|(log\.)?remote\.copy\..*",
     "remote.log.storage.manager.class.name"),
    (r"super\.users|allow\.everyone\.if\.no\.acl\.found", "authorizer.class.name"),
    (r"kafka\.metrics\.polling\.interval\.secs", "kafka.metrics.reporters"),
)  # fmt: skip
"""Settings that do nothing, or stop a broker, without another one that names a class."""

_UNDEFINED: Final = re.compile(
    r"listener\.name\..+|(rsm|rlmm)\.config\..+|config\.providers\..+|super\.users"
    r"|allow\.everyone\.if\.no\.acl\.found"
)
"""What brokers read although no definition names it: prefixes, and the authorizer's."""


@dataclass(frozen=True)
class Span:
    """The minor versions that have a setting, the last included; without one, the newest has it."""

    since: str
    last: str | None

    def has(self, minor: str) -> bool:
        """Whether this version does."""
        return number_of(self.since) <= number_of(minor) and (
            self.last is None or number_of(minor) <= number_of(self.last)
        )


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A setting of Kafka's; `default` and `help` are those of the newest version that has it.
    `topic`: the topic's setting that this one of a broker is the default of, in its own unit
    `factor` of which make one."""

    name: str
    levels: Mapping[Level, Span]
    type: str
    default: str
    words: tuple[str, ...]
    topic: str | None
    factor: int
    help: str


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """Why a version does not know a name at a level, as a predicate of the name. `foreign`: no
    version knows it at any level, and it is like no other name: a vendor's."""

    what: str
    hint: str | None = None
    foreign: bool = False


@cache
def definitions() -> Mapping[str, Definition]:
    """All of them, by name."""
    return {each.name: each for each in map(_definition, _lines()[1:])}


@cache
def _lines() -> list[str]:
    text = files("targets.kafka").joinpath("settings.tsv").read_text(encoding="utf-8")
    return text.splitlines()


@cache
def versions() -> tuple[str, ...]:
    """The minor versions that the definitions are of, in order."""
    return tuple(_lines()[0].removeprefix("# ").split())


def _definition(line: str) -> Definition:
    name, levels, kind, default, words, topic, sentence = line.split("\t")
    of_topic, _, factor = topic.partition("*")
    return Definition(
        name=name,
        levels=dict(map(_level, levels.split())),
        type=kind,
        default=default,
        words=tuple(filter(None, words.split(","))),
        topic=of_topic or None,
        factor=int(factor or 1),
        help=sentence,
    )


def _level(text: str) -> tuple[Level, Span]:
    level, _, span = text.partition(":")
    since, _, last = span.partition("-")
    return level, Span(since, last or None)  # type: ignore[return-value]


def minor(version: str) -> str:
    """A version without its patch: 3.9 of 3.9.2, 0.10.2 of 0.10.2.2."""
    return ".".join(version.split(".")[: 3 if version.startswith("0.") else 2])


@cache
def names(level: Level, version: str | None = None) -> tuple[str, ...]:
    """What a version knows at a level; without a version, what any of them does."""
    return tuple(
        each.name
        for each in definitions().values()
        if (span := each.levels.get(level)) and (version is None or span.has(minor(version)))
    )


def why_unknown(name: str, level: Level, version: str | None) -> Unknown | None:
    """Why this version does not know a name; `None` where it does, or where that cannot be said:
    the version is newer than the definitions, or unknown while others know the name."""
    known = definitions().get(name)
    span = known.levels.get(level) if known else None
    if level == "broker" and _UNDEFINED.fullmatch(name):
        return None
    if version is not None and number_of(minor(version)) > number_of(versions()[-1]):
        return None
    if span is not None:
        if version is None or span.has(minor(version)):
            return None
        if number_of(minor(version)) < number_of(span.since):
            return Unknown(what=f"came with Kafka {span.since}")
        return Unknown(what=f"went after Kafka {span.last}")
    if known is not None:
        others = [each for each in PLACES if each in known.levels]
        hint = f"use {PLACES[others[0]]}"
        if level == "topic" and known.topic:
            hint = f"a topic calls it {known.topic!r}"
        elif level == "broker" and (called := _of_brokers().get(name)):
            hint = f"brokers call it {called!r}, and {hint} is for the plan's topic"
        return Unknown(
            what=f"is a setting of {' and '.join(f'{each}s' for each in others)}", hint=hint
        )
    near = get_close_matches(name, names(level, version), n=1, cutoff=_LIKE)
    return Unknown(
        what="is known to no version of Kafka",
        hint=f"did you mean {near[0]!r}?" if near else None,
        foreign=not near,
    )


@cache
def _of_brokers() -> Mapping[str, str]:
    """What brokers call a topic's setting, in its own unit."""
    return {
        each.topic: each.name for each in definitions().values() if each.topic and each.factor == 1
    }


def why_refused(name: str) -> str | None:
    """Why a plan may not set this of brokers; `None` when it may."""
    return next((why for pattern, why in _REFUSED if re.fullmatch(pattern, name)), None)


def is_secret(name: str) -> bool:
    """Whether a value of this name may be a secret: Kafka says so, or the name does."""
    known = definitions().get(name)
    if known is not None and (known.type == "password" or known.type in _OPEN):
        return known.type == "password"
    return _SECRET.search(name) is not None


def of_topic(name: str, value: str) -> tuple[str, str] | None:
    """The topic's setting that a broker's is the default of, with the value in its unit:
    `log.retention.hours` 2 is `retention.ms` 7200000."""
    known = definitions().get(name)
    if known is None or known.topic is None:
        return None
    whole = re.fullmatch(r"\s*(\d+)\s*", value)
    return known.topic, str(int(whole[1]) * known.factor) if whole and known.factor > 1 else value


def needed_by(name: str) -> str | None:
    """The setting with a class's name without which this one does nothing, or stops a broker:
    `remote.log.storage.system.enable` without a storage manager."""
    return next((needed for pattern, needed in _NEEDS if re.fullmatch(pattern, name)), None)
