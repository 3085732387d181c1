"""Settings of Kafka and of its clients: one table, and what may be done with each of them.

    definitions  what Kafka itself has, by version: `settings.tsv`, which scripts/kafka_settings.py
                 writes from the definitions in its jars, 0.8.0 to the newest. A line a setting:
                 name, levels with the first and last minor version that has it, type, default,
                 allowed words, the topic's setting that a broker's is the default of, and Kafka's
                 first sentence about it; of what no plan sets, only levels, type and default,
                 all names with the same in one line
    CLIENTS      what a plan may set of producers and consumers, by the names of each library:
                 `clients.tsv`. A plan may come from a stranger: `plugin.library.paths` alone would
                 load a library
    why_refused  whether a plan may set it; why_unknown: whether a version knows it;
                 is_secret, of_topic, needed_by: what else to know before a user's file is used

Plans name clients' settings as librdkafka does. Its own second names and the Java client's, as
people paste them from a producer.properties, are taken for the setting that they mean, whichever
library writes. kafka-python's names are Java's, with underscores.

What they promise for the writes of a run (`promises`, from its stored plan and effective settings;
`acks_of`) is here alone: what `acks`, `enable.idempotence`, `min.insync.replicas` and the
settings of retention and compaction mean for a verdict. No client library reads them, which may
read more than is meant: librdkafka takes 0.0, 00 and 0abc for 0, with which no broker acknowledges
writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal

from harness import registry
from harness.errors import PlanError, nearest
from harness.models import LOG, REGISTER, SET
from harness.plan import Scalar, number_of
from harness.protocols import Promises
from harness.protocols.systems import SettingHelp
from targets.kafka import wire

_LIKE: Final = 0.8
"""How alike a name is to the one that was meant: a vendor's shares words with Kafka's."""

Level = Literal["broker", "topic", "producer", "consumer"]
Library = Literal["librdkafka", "java", "kafka-python"]
LIBRDKAFKA: Final[Library] = "librdkafka"
JAVA: Final[Library] = "java"
KAFKA_PYTHON: Final[Library] = "kafka-python"
"""Client libraries by their names in plans."""

PLACES: Final[Mapping[Level, str]] = {
    "broker": "target.settings",
    "topic": "topic.settings",
    "producer": "workload.producer",
    "consumer": "workload.consumer",
}
"""Where a plan sets them."""

_OWNED: Final = "ackloss sets it itself"
_CODE: Final = "it loads code or reads files, and a plan may do neither"
_BROKER_REFUSED: Final[tuple[tuple[str, str], ...]] = (
    (r"(controller\.)?listener.*|(early\.start\.)?listeners|.*\.listener\.names?", _OWNED),
    (r"advertised\..*|security\..*|port|host\.name", _OWNED),
    (r"node\.id|broker\.id(\..*)?|reserved\.broker\.max\.id|broker\.rack", _OWNED),
    (r"process\.roles|log\.dirs?|metadata\.log\.dir", _OWNED),
    (r"controller\.quorum\.(?!.*\.ms$).*", _OWNED),
    (r"zookeeper\.(?!(session|connection)\.timeout\.ms$).*", _OWNED),
    (r"ssl\..*|sasl\..*|.*\.sasl\..*|.*\.ssl\..*|password\..*|delegation\..*", _OWNED),
    (r".*\.class(\.name|\.path|es)?|.*\.reporters|config\.providers.*|.*\.location", _CODE),
)
OPTIONS: Final[Mapping[str, str]] = {
    "enable.auto.commit": 'workload.options.commit says who commits, such as commit = "auto"',
    "auto.commit.interval.ms": "use workload.options.commit_interval_s",
    "auto.offset.reset": "use workload.options.reset",
    "session.timeout.ms": "use workload.options.session_s",
    "max.poll.records": "use workload.options.batch_count",
    "group.protocol": "use workload.options.protocol",
    "partition.assignment.strategy": "use workload.options.protocol",
}
"""Consumers' settings that an option of the workload stands for."""

_CLIENT_REFUSED: Final[tuple[tuple[str, str], ...]] = (
    (r"bootstrap\.servers|metadata\.broker\.list", "clients speak to the run's own cluster only"),
    (r"plugin\..*", "it would load a library into ackloss"),
    (r"(sasl|ssl|security|enable\.s[sa]?sl)\..*|.*\.(location|password|pem)|oauth.*|https\..*",
     "a plan may not set how to reach the cluster, nor files and secrets of this machine"),
    (r"client\.id|client\.rack", "ackloss names its clients itself"),
    (r"transactional\.id|transaction\..*", "appends are not transactional"),
    (r"partitioner.*|sticky\..*", "it has no effect: every write names its partition"),
    (r".*\.(de)?serializer.*|.*\.class(es)?|.*\.reporters|.*\.providers.*",
     "it names code of the Java client"),
    (r"max\.block\.ms", "this client never blocks: a full queue is back-pressure"),
    (r"delivery\.report\..*|.*_cb|on_delivery", "ackloss needs every delivery report"),
    (r"debug|log.*|statistics\..*", "what the client reports belongs to ackloss"),
)  # fmt: skip
_SECRET: Final = re.compile(
    r"secret|passw|passphrase|token|credential|licen[cs]e|jaas|auth[._-]?info|user[._-]?info"
    r"|(access|private|api|account|encryption|shared|keystore|pem)[._-]?keys?\b"
    r"|certificate[._-]?chain",
    re.IGNORECASE,
)
_WHOLE: Final = (r"[-+]?\d+", "a whole number")
_FORMS: Final[Mapping[str, tuple[str, str]]] = {
    "boolean": ("true|false", "true or false"),
    "int": _WHOLE,
    "long": _WHOLE,
    "short": _WHOLE,
    "double": (r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", "a number"),
}
"""How values of some types are written, and how to say it."""

OPEN: Final = tuple(_FORMS)
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
    """A setting of Kafka's; defaults and `help` are those of the newest version that has it.
    `topic`: the topic's setting that this one of a broker is the default of, in its own unit
    `factor` of which make one."""

    name: str
    levels: Mapping[Level, Span]
    type: str
    defaults: Mapping[Level, str]
    words: tuple[str, ...]
    topic: str | None
    factor: int
    help: str


@cache
def definitions() -> Mapping[str, Definition]:
    """All of them, by name."""
    return {each.name: each for line in _lines("settings.tsv")[1:] for each in _definitions(line)}


@cache
def _lines(table: str) -> list[str]:
    return files("targets.kafka").joinpath(table).read_text("utf-8").splitlines()


@cache
def versions() -> tuple[str, ...]:
    """The minor versions that the definitions are of, in order."""
    return tuple(_lines("settings.tsv")[0].removeprefix("# ").split())


def _definitions(line: str) -> Iterator[Definition]:
    called, levels, kind, default, words, topic, sentence = line.split("\t")
    of_topic, _, factor = topic.partition("*")
    spans = dict(map(_level, levels.split()))
    defaults = default.split("|") if "|" in default else [default] * len(spans)
    for name in called.split():
        yield Definition(
            name=name,
            levels=spans,
            type=kind,
            defaults=dict(zip(spans, defaults, strict=True)),
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


def why_unknown(name: str, level: Level, version: str | None) -> str | None:
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
            return f"it came with Kafka {span.since}"
        return f"it went after Kafka {span.last}"
    if known is not None:
        others = [each for each in PLACES if each in known.levels]
        hint = f"it belongs in {PLACES[others[0]]}"
        if level == "topic" and known.topic:
            hint = f"a topic calls it {known.topic!r}"
        elif level == "broker" and (called := of_brokers().get(name)):
            hint += f", or brokers call it {called!r}"
        return f"it is a setting of {' and '.join(f'{each}s' for each in others)}; {hint}"
    near = get_close_matches(name, names(level, version), n=1, cutoff=_LIKE)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"it is known to no version of Kafka{hint}"


@cache
def of_brokers() -> Mapping[str, str]:
    """What brokers call a topic's setting, in its own unit."""
    every = reversed(tuple(definitions().values()))  # of two names the first goes before
    return {each.topic: each.name for each in every if each.topic and each.factor == 1}


def why_refused(name: str, level: Level = "broker", library: Library = "librdkafka") -> str | None:
    """Why a plan may not set this; `None` when it may. Names of clients are those of any library,
    if this one has the setting that they mean."""
    if level == "topic":
        return None
    if level == "broker":
        return by_pattern(_BROKER_REFUSED, name)
    found = meant(name, level)
    if found is not None and found.name_in(library):
        return None
    if level == "consumer" and name in OPTIONS:
        return f"an option of the workload stands for it: {OPTIONS[name]}"
    if why := by_pattern(_CLIENT_REFUSED, name):
        return why
    if found is not None:
        return f"{library} has no setting that means it"
    return f"it is not on the list of {level} settings that a plan may set"


def by_pattern(table: Iterable[tuple[str, str]], name: str) -> str | None:
    """What the first pattern of a table that matches a name stands for."""
    return next((meaning for pattern, meaning in table if re.fullmatch(pattern, name)), None)


def why_not(name: str, value: Scalar) -> str | None:
    """Why this is not a value of a broker's or a topic's setting, by its type and by the words that
    it may be, as Kafka's `ConfigDef.parseType` reads them; `None` where it is one."""
    known = definitions().get(name)
    given = str(value).strip()
    if known is None:
        return None
    form, what = _FORMS.get(known.type, (".*", ""))
    if known.type == "string" and known.words:
        form = "|".join(re.escape(word.lower()) for word in known.words)
        what = f"one of {', '.join(known.words)}"
    return None if re.fullmatch(form, given.lower(), re.DOTALL) else f"{given!r} is not {what}"


def is_secret(name: str) -> bool:
    """Whether a value of this name may be a secret: Kafka says so, or the name does."""
    known = definitions().get(name)
    if known is not None and (known.type == "password" or known.type in OPEN):
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
    return by_pattern(_NEEDS, name)


@dataclass(frozen=True)
class ClientSetting:
    """What a plan may set of clients, and its name in librdkafka and in Java, if there is one.

    `kind` is a number, a flag, acks, any text, or the words that it may be. `also` are librdkafka's
    second names. Java's value is `factor` times librdkafka's.
    """

    librdkafka: str
    java: str
    help: str
    kind: str
    also: tuple[str, ...]
    factor: int
    levels: tuple[Level, ...]

    def name_in(self, library: Library) -> str:
        """What it is called in the settings of a library's clients; empty: it has no such setting.
        What kafka-python has, it says itself; plans and results call it as librdkafka does."""
        if library == "java":
            return self.java
        if library == "kafka-python":
            known = wire.KafkaProducer if "producer" in self.levels else wire.KafkaConsumer
            return self.librdkafka if self.keyword in known.DEFAULT_CONFIG else ""
        return self.librdkafka

    @property
    def keyword(self) -> str:
        """The keyword of kafka-python's."""
        return self.java.replace(".", "_")

    def text(self, key: str, value: Any, library: Library) -> str:
        """A value, given under this of its names, as the library has it. Raises ValueError:
        librdkafka would read 1.5 or 5x as a number, silently cut off."""
        text = str(value).lower() if isinstance(value, bool) else str(value).strip()
        if self.kind == "text":
            return text
        if self.kind == "acks":
            if (acks := acks_of(value)) is None:
                raise ValueError(f"acks is {SPELLINGS}, not {value!r}")
            return acks
        if self.kind != "number":
            words = ("true", "false") if self.kind == "flag" else self.kind.split()
            if (text := text.lower()) not in words:
                raise ValueError(f"{value!r} is not one of {', '.join(words)}")
            return text
        if not re.fullmatch(r"-?\d{1,15}", text):
            raise ValueError(f"{value!r} is not an integer")
        if self.factor == 1 or (key == self.java) == (library == "java"):
            return str(int(text))
        return str(int(text) * self.factor if library == "java" else int(text) // self.factor)


def _client(line: str) -> ClientSetting:
    librdkafka, java, kind, levels, also, factor, sentence = line.split("\t")
    at: tuple[Level, ...] = tuple(levels.split())  # type: ignore[arg-type]
    return ClientSetting(librdkafka, java, sentence, kind, tuple(also.split()), int(factor), at)


CLIENTS: Final = tuple(map(_client, _lines("clients.tsv")[1:]))
"""What a plan may set of clients: nothing else."""

DEFAULTS: Final[Mapping[str, str]] = {
    "acks": "all",
    "enable.idempotence": "false",
    "message.timeout.ms": "8000",
    "socket.timeout.ms": "3000",
    "topic.metadata.refresh.interval.ms": "1000",
    "reconnect.backoff.max.ms": "500",
}
"""What ackloss sets of producers in Python unless the plan says otherwise: a run takes a minute, so
timeouts are short; the rest is what the library does by itself."""


@cache
def _by_name(level: Level) -> Mapping[str, ClientSetting]:
    """The settings of clients by all their names; a library's own name goes before another's."""
    found: dict[str, ClientSetting] = {}
    of_level = [each for each in CLIENTS if level in each.levels]
    for each in of_level:
        found |= dict.fromkeys(filter(None, (each.librdkafka, *each.also)), each)
    for each in of_level:
        found.setdefault(each.java, each)
    found.pop("", None)
    return found


def meant(name: str, level: Level = "producer") -> ClientSetting | None:
    """The setting of clients that this name means, in any library's words."""
    return _by_name(level).get(name)


@cache
def same(library: Library = "librdkafka", level: Level = "producer") -> Mapping[str, str]:
    """What a library's clients call what each name means that a plan may use."""
    called = {name: each.name_in(library) for name, each in _by_name(level).items()}
    return {name: own for name, own in called.items() if own}


def canonical(name: str, library: Library = "librdkafka", level: Level = "producer") -> str:
    """What a library's clients call what this name means; the name itself where nothing does."""
    return same(library, level).get(name, name)


def requested(
    settings: Mapping[str, Any], library: Library, level: Level = "producer"
) -> dict[str, str]:
    """What a plan requests of clients, by the names of their library, in its units. Raises
    PlanError for the first setting that is refused, given twice, or of a wrong value."""
    made: dict[str, str] = {}
    for key, value in settings.items():
        place, found = f'{PLACES[level]}."{key}"', meant(key, level)
        if found is None or not found.name_in(library):
            hint = "remove it, or use another client" if found else "remove it"
            if found is None and (near := nearest(key, list(same(library, level)))):
                hint = f"did you mean {near!r}?"
            why = why_refused(key, level, library)
            raise PlanError(f"this setting is refused: {why}", key=place, hint=hint)
        name = found.name_in(library)
        if name in made:
            raise PlanError(f"{name} is set twice, under two names", key=place)
        try:
            made[name] = found.text(key, value, library)
        except ValueError as error:
            keeps = 'acks = "all" is what keeps a write' if found.kind == "acks" else None
            raise PlanError(str(error), key=place, hint=keeps) from error
    return made


def typed(name: str, text: str, level: Level) -> str | int | bool:
    """A value of a library's setting as the language has it."""
    kind = found.kind if (found := meant(name, level)) else "text"
    return int(text) if kind == "number" else text == "true" if kind == "flag" else text


def place_of(name: str, settings: Mapping[str, Any], library: Library = "librdkafka") -> str:
    """Where a plan sets this of producers, under whatever name; the whole table where it does
    not."""
    keys = (key for key in settings if canonical(key, library) == name)
    return next((f'{PLACES["producer"]}."{key}"' for key in keys), PLACES["producer"])


def listed() -> list[SettingHelp]:
    """All settings, level by level: of clients first what a plan may set."""
    found = []
    for level in PLACES:
        ours = [each for each in CLIENTS if level in each.levels]
        found += [_help(level, definitions().get(each.java), each) for each in ours]
        named = {each.java for each in ours}
        others = (one for one in definitions().values() if level in one.levels)
        found += [_help(level, each, None) for each in others if each.name not in named]
    return found


def _help(level: Level, known: Definition | None, client: ClientSetting | None) -> SettingHelp:
    """A setting that Kafka's definitions have, or that a plan may set of clients, or both."""
    span = known.levels.get(level) if known else None
    called, refused, secret = dict[Library, str](), None, False
    if client is not None:
        called = {each: client.name_in(each) for each in (LIBRDKAFKA, JAVA)}
        called[KAFKA_PYTHON] = client.keyword if client.name_in(KAFKA_PYTHON) else ""
        kinds = {"number": "int", "flag": "boolean", "acks": SPELLINGS, "text": "string"}
        name, sentence = client.librdkafka or client.java, client.help
        values = kinds.get(client.kind, client.kind.replace(" ", ", "))
    else:
        assert known is not None
        name, sentence = known.name, known.help
        values = ", ".join(known.words) or known.type
        refused, secret = why_refused(name, level, JAVA), is_secret(name)
    return SettingHelp(
        name=name,
        level=level,
        place=PLACES[level],
        values=values,
        default=known.defaults[level] if known and span else "",
        since=span.since if span else None,
        last=span.last if span else None,
        names={library: each for library, each in called.items() if each},
        refused=refused,
        secret=secret,
        help=sentence,
    )


OF_METADATA: Final = frozenset({REGISTER.name, SET.name})
"""The models whose operations are changes of metadata."""

_DELETES: Final = ("retention.", "log.retention.", "log.cleaner.", "min.compaction.lag.")
_POLICIES: Final = ("cleanup.policy", "log.cleanup.policy")
_LEAST: Final = "min.insync.replicas"
_IN_FLIGHT: Final = "max.in.flight.requests.per.connection"


def promises(plan: Mapping[str, Any], producer: Mapping[str, Any]) -> Promises:
    """What a plan (plan.json) promises with these settings of its producers.

    Raises KeyError, TypeError or ValueError for a document that is not a plan.
    """
    once = str(producer.get("enable.idempotence", False)).lower() == "true"
    clients = int(plan["workload"].get("clients") or 1)
    return Promises(
        model=model_of(plan["workload"].get("name")),
        # Earlier versions took "00" and "0abc", which are 0 on the wire: no broker acknowledges.
        acknowledges=(acks_of(producer.get("acks", ALL)) or NOBODY) != NOBODY,
        once=once,
        deletes=_deletes(plan),
        partitions=int(plan["topic"]["partitions"]),
        replicas=max(int(plan["topic"]["replication_factor"]), min_insync_replicas(plan)),
        clients=clients,
        producers=clients,
        # A request that is sent again is overtaken by those in flight behind it; an idempotent
        # producer numbers its batches, and the broker refuses one that is out of sequence.
        ordered=once or str(producer.get(_IN_FLIGHT)) == "1",
    )


def model_of(workload: object) -> str:
    """The model of a workload's operations; that of runs of earlier versions is a log."""
    plugin = registry.plugins("workloads").get(str(workload))
    return str(plugin.model) if plugin is not None else LOG.name


def min_insync_replicas(plan: Mapping[str, Any]) -> int:
    """How many in-sync replicas a write with acks=all needs: the topic's setting, else the
    broker's, else Kafka's default."""
    topic, target = plan["topic"]["settings"], plan["target"]["settings"]
    return int(topic.get(_LEAST, target.get(_LEAST, 1)))


def _deletes(plan: Mapping[str, Any]) -> bool:
    """Whether the plan puts retention, compaction or clocks under test."""
    settings = {**plan["target"]["settings"], **plan["topic"]["settings"]}
    return (
        any(key.startswith(_DELETES) and str(value) != "-1" for key, value in settings.items())
        or any("compact" in str(settings.get(policy, "")) for policy in _POLICIES)
        or any("clock" in str(step.get("nemesis")) for step in plan["faults"])
    )


NOBODY: Final = "0"
LEADER: Final = "1"
ALL: Final = "all"
SPELLINGS: Final = "0, 1, -1 or all"

_MEANS: Final = {"0": NOBODY, "1": LEADER, "-1": ALL, "all": ALL}


def acks_of(value: object) -> str | None:
    """`NOBODY`, `LEADER` or `ALL`; null for what is not one of `SPELLINGS`, as a whole number or as
    text."""
    whole = isinstance(value, int | str)  # True and False are, and none of the spellings
    return _MEANS.get(str(value).strip().lower()) if whole else None
