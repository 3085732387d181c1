"""The user's own server.properties, producer.properties and consumer.properties: what each key of
them sets in a plan, or why it sets nothing.

Only what Kafka's own definitions name (`targets.kafka.definitions`) and a plan may set is used: an
allow-list, so that no secret comes into a plan; and no message quotes a value. One reader for all
forms of a file, whose content decides which it is, so a name without an ending will do:

    .properties   as java.util.Properties reads it
    environment   NAME=VALUE lines by the images' convention: KAFKA_MIN_INSYNC_REPLICAS
    YAML          a Strimzi resource, a compose file, a ConfigMap, values of a Helm chart, a map
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.errors import PlanError
from harness.plan import Scalar
from harness.plan.model import IGNORED, UNKNOWN, USED, OwnKey, State
from harness.protocols.groups import GroupSettings
from harness.run.cells import group_of, transactions_of
from harness.wrong_values import dotted
from targets.kafka import definitions
from targets.kafka.clients import library_of
from targets.kafka.definitions import ALL, Level
from targets.kafka.groups.settings import check_group
from targets.kafka.limits import KINDS, limits_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.transactions.settings import TIMEOUT
from targets.kafka.versions import version_of

_MOST_BYTES: Final = 4 << 20
_NATURAL_LINE: Final = re.compile(r"\r\n|\r|\n")
_BLANK: Final = " \t\f"
_PAIR: Final = re.compile(r"((?:\\.|[^ \t\f:=\\])*)[ \t\f]*[:=]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_VARIABLE: Final = re.compile(r"\s*(?:export\s+)?([A-Z][A-Z0-9_]*)=(.*)")
_QUOTED: Final = re.compile(r"(?:\"((?:\\.|[^\"\\])*)\"|'((?:\\.|[^'\\])*)')\s*(?:#.*)?")
_OF_KAFKA: Final = re.compile(r"KAFKA_(?:CFG_)?([A-Z0-9_]+)")
_OF_THE_IMAGE: Final = re.compile(
    r"(.*_)?OPTS|LOG4J_.*|TOOLS_LOG4J_.*|JMX_.*|VERSION|HOME|.*_HOSTNAME|SCALA_VERSION"
)
"""Variables that the images keep for themselves, after the prefix."""

Values = dict[str, str]
Known = Callable[[str], bool]
"""Whether a name is one of a setting, of those that the file is for."""


@dataclass
class Settings:
    """What a file holds. `twice`: keys that are there several times, of which the last counts;
    `unclear`: keys with different values at several places, with these; `foreign`: names that are
    not settings."""

    values: Values = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)
    unclear: dict[str, list[str]] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)

    def add(self, key: str, value: str) -> None:
        """One more line; a later one overrides."""
        if key in self.values:
            self.twice.add(key)
        self.values[key] = value.strip()


def read_settings(path: Path, known: Known) -> Settings:
    """The settings of a file. Raises PlanError for one that cannot be read, or has none."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES)
    except OSError as error:
        raise PlanError(f"cannot be read: {error.strerror}", file=str(path)) from error
    content = content.removeprefix(codecs.BOM_UTF8)
    if b"\0" in content:
        raise PlanError("cannot be read: it is not text", file=str(path))
    try:
        text = content.decode()
    except UnicodeDecodeError:  # what java.util.Properties was made for
        text = content.decode("latin-1")
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        return _of_yaml(text, path, known)
    return _of_text(text)


def _of_text(text: str) -> Settings:
    """Lines of an environment, if all of them are that, else a .properties file."""
    lines = [line for line in _NATURAL_LINE.split(text) if line.strip(_BLANK)[:1] not in ("", "#")]
    found = [_VARIABLE.fullmatch(line) for line in lines]
    if lines and all(found):
        return _of_variables({each[1]: _unquoted(each[2]) for each in found if each})
    settings = Settings()
    for line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        assert pair is not None
        settings.add(_unescaped(pair[1]), _unescaped(pair[2]))
    return settings


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, each with those that continue it."""
    pending = ""
    for natural in [*_NATURAL_LINE.split(text), ""]:
        line = natural.lstrip(_BLANK)
        if not pending and line[:1] in ("", "#", "!"):
            continue
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending += line[:-1]
            continue
        if pending + line:
            yield pending + line
        pending = ""


def _unescaped(text: str) -> str:
    def meant(escape: re.Match[str]) -> str:
        code = escape[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPED.get(code, code)

    return _ESCAPE.sub(meant, text)


def _unquoted(value: str) -> str:
    """A value of an environment file, as compose reads it."""
    value = value.strip()
    if quoted := _QUOTED.fullmatch(value):
        return re.sub(r"\\(.)", r"\1", quoted[1] if quoted[1] is not None else quoted[2])
    return re.sub(r"\s+#.*", "", value)


def _of_variables(variables: Mapping[str, str]) -> Settings:
    """By the convention of the images: KAFKA_, then `_` is a dot, `__` is `_`, `___` is a dash."""
    settings = Settings()
    for name, value in variables.items():
        found = _OF_KAFKA.fullmatch(name)
        if found is None or _OF_THE_IMAGE.fullmatch(found[1]):
            settings.foreign.append(name)
            continue
        key = found[1].lower().replace("_", ".").replace("...", "-").replace("..", "_")
        settings.add(key, value)
    return settings


def _of_yaml(text: str, path: Path, known: Known) -> Settings:
    """Every place of a YAML file that holds settings; they must agree."""
    import yaml

    try:
        documents = list(yaml.load_all(text, Loader=_text_loader()))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f": line {mark.line + 1}" if mark is not None else ""
        raise PlanError(f"is not YAML{where}", file=str(path), hint="correct it") from error
    places = [place for each in documents for place in _places(each, (), path.parent, known)]
    if not places:
        raise PlanError(
            "holds no settings of Kafka that can be found",
            file=str(path),
            hint="copy its lines `key: value` into a file whose name ends in .properties",
        )
    settings, first = Settings(), dict[str, str]()
    for where, found in places:
        settings.twice |= found.twice
        settings.foreign += [name for name in found.foreign if name not in settings.foreign]
        for key, value in found.values.items():
            if settings.values.setdefault(key, value) != value:
                settings.unclear.setdefault(key, [first[key]]).append(where)
            first.setdefault(key, where)
    for key in settings.unclear:
        del settings.values[key]
    return settings


def _text_loader() -> Any:
    """Every value as the text that it is, and tags such as compose's `!reset` are read over."""
    import yaml

    def untagged(loader: Any, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    merge = [("tag:yaml.org,2002:merge", re.compile(r"<<"))]
    own: Any = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": {"<": merge}})
    own.add_constructor(None, untagged)
    return own


def _places(
    node: Any, where: tuple[str, ...], folder: Path, known: Known
) -> Iterator[tuple[str, Settings]]:
    name = ".".join(where) or "the file"
    if isinstance(node, str):
        if "=" in node and any(map(known, (found := _of_text(node)).values)):
            yield name, found
    elif isinstance(node, list):
        if env := {e["name"]: str(e.get("value", "")) for e in node if _is_variable(e)}:
            yield name, _of_variables(env)
        elif node and all(isinstance(each, str) and "=" in each for each in node):
            yield from _places("\n".join(node), where, folder, known)
        else:
            for number, each in enumerate(node):
                yield from _places(each, (*where, str(number)), folder, known)
    elif isinstance(node, dict):
        if "strimzi" in str(node.get("apiVersion")):
            if node.get("kind") == "Kafka":
                config = (node.get("spec") or {}).get("kafka", {}).get("config")
                yield from _places(config, (*where, "spec", "kafka", "config"), folder, known)
            return
        if not where and isinstance(node.get("services"), dict):  # a compose file, without `x-...`
            node = {"services": node["services"]}
        if variables := _of_service(node, folder):
            yield name, _of_variables(variables)
            return
        scalars = {str(key): value for key, value in node.items() if isinstance(value, str)}
        if any(known(key) and ("." in key or not where) for key in scalars):
            yield name, Settings({key: value.strip() for key, value in scalars.items()})
            return
        for key, each in node.items():
            yield from _places(each, (*where, str(key)), folder, known)


def _of_service(node: Mapping[Any, Any], folder: Path) -> Values:
    """The environment of a service of a compose file, its `env_file`s first; or of a mapping that
    is one."""
    variables = Values()
    files = node.get("env_file") or []
    for each in files if isinstance(files, list) else [files]:
        file = folder / str(each.get("path") if isinstance(each, dict) else each)
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise PlanError(f"cannot be read: {error}", file=str(file)) from error
        variables |= {v[1]: _unquoted(v[2]) for line in lines if (v := _VARIABLE.fullmatch(line))}
    inner = node.get("environment", node)
    if isinstance(inner, list):
        inner = dict(str(each).partition("=")[::2] for each in inner)
    if isinstance(inner, dict):
        variables |= {str(key): value for key, value in inner.items() if isinstance(value, str)}
    return variables if any(map(_OF_KAFKA.fullmatch, variables)) else {}


def _is_variable(node: Any) -> bool:
    return isinstance(node, dict) and bool(_OF_KAFKA.fullmatch(str(node.get("name"))))


FILES: Final = {
    "broker-settings": "Your server.properties, for every broker.",
    "producer-settings": "Your producer.properties.",
    "consumer-settings": "Your consumer.properties.",
}
"""The options that name them, each with its help."""

_MARK: Final = re.compile(
    r"\$\{.*?\}|\$\([^)]+\)|\$[A-Za-z_]\w*|%\w+%|\{\{.*?\}\}|<%.*?%>|@[A-Za-z_][\w.]*@"
)
"""What a template leaves to be replaced."""

_UNREPLACED: Final = "its value is a mark that nothing has replaced"
_TWICE: Final = "it is there more than once, and the last one counts"
_IDEMPOTENCE, _ACKS = "enable.idempotence", "acks"
_ASSIGNORS: Final = {
    "range": "range",
    "RangeAssignor": "range",
    "cooperative-sticky": "cooperative-sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def own_keys(plan: KafkaPlan, option: str, file: Path) -> list[OwnKey]:
    """See `Target.own_keys`."""
    level: Level = option.removesuffix("-settings")  # type: ignore[assignment]
    read = read_settings(file, {*definitions.definitions(), *definitions.same()}.__contains__)
    means = {"broker": _of_broker, "producer": _of_producer, "consumer": _of_consumer}[level]
    keys = []
    for key, value in {**read.values, **dict.fromkeys(read.unclear, "")}.items():
        meaning = means(plan, key, value, read.values)
        if key in read.unclear and meaning.state == USED:
            raise PlanError(
                f"has several values, at {' and at '.join(read.unclear[key])}",
                file=str(file),
                key=key,
                hint="copy the lines that are meant into a file whose name ends in .properties",
            )
        if _MARK.search(value):
            why = "; ".join(filter(None, [meaning.why, _UNREPLACED]))
            used = meaning.state == USED
            meaning = _unused(key, UNKNOWN if used else meaning.state, _UNREPLACED if used else why)
        elif key in read.twice:
            meaning = meaning.model_copy(update={"why": meaning.why or _TWICE})
        keys.append(meaning)
    keys += [_unused(n, IGNORED, "it is for the image, not a setting") for n in read.foreign]
    return keys + (list(_implied(keys)) if level == "producer" else [])


def _unused(key: str, state: State, why: str) -> OwnKey:
    printable = "".join(c if c.isprintable() else "?" for c in key)[:200]
    return OwnKey(key=printable, state=state, why=why)


def _used(key: str, value: str, *places: tuple[str, ...], why: str = "") -> OwnKey:
    return OwnKey(
        key=key, state=USED, value=scalar(value), places=[dotted(each) for each in places], why=why
    )


def scalar(value: str) -> Scalar:
    """A value of a file as a plan has it; Kafka reads `TRUE` as true."""
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    return int(value) if re.fullmatch(r"-?(0|[1-9]\d{0,17})", value) else value


def _of_broker(plan: KafkaPlan, key: str, value: str, file: Mapping[str, str]) -> OwnKey:
    if why := definitions.why_refused(key):
        return _unused(key, IGNORED, why)
    if unknown := _why_unknown(key, "broker", version_of(plan)):
        return _unused(key, UNKNOWN, unknown)
    if needed := definitions.needed_by(key):
        return _unused(key, IGNORED, f"it does nothing without {needed}, which no plan may set")
    if definitions.is_secret(key):
        return _unused(key, IGNORED, "its value may be a secret")
    if why := _why_not_honoured(plan, key, value):
        return _unused(key, IGNORED, why)
    if key == "num.partitions":
        return _unused(key, IGNORED, "the plan says how many partitions its topic has")
    if key == "default.replication.factor":
        if value.isdigit() and not 1 <= int(value) <= plan.target.brokers:
            return _unused(key, IGNORED, f"the plan has {plan.target.brokers} brokers")
        return _used(key, value, ("topic", "replication_factor"), why="for the plan's topic")
    own = ("target", "settings", key)
    name, in_its_unit = definitions.of_topic(key, value) or ("", value)
    if name not in plan.topic.settings or _finer(key, name, file):
        return _used(key, value, own)
    if in_its_unit == value:
        why = "of brokers and of the topic"
        return _used(key, value, own, ("topic", "settings", name), why=why)
    return _used(key, in_its_unit, ("topic", "settings", name), why=f"as the topic's {name}")


def _finer(key: str, topic: str, file: Mapping[str, str]) -> bool:
    """Whether the file also has the setting in a smaller unit, which overrides."""
    known = definitions.definitions()
    others = (known[each] for each in file if each in known)
    return any(each.topic == topic and each.factor < known[key].factor for each in others)


def _why_unknown(key: str, level: Level, version: str | None) -> str | None:
    if unknown := definitions.why_unknown(key, level, version):
        return unknown
    if key in definitions.definitions() or definitions.needed_by(key):
        return None
    return "no version of Kafka that ackloss knows has it"


def _why_not_honoured(plan: KafkaPlan, key: str, value: str) -> str | None:
    """Why it has no effect in this version. Raises PlanError for a value that brokers refuse."""
    for limit in limits_of(plan):
        if limit.names("broker", key) and limit.values.meant(scalar(value)):
            why = f"Kafka {version_of(plan)} {KINDS[limit.kind]}: {limit.reason} ({limit.source})"
            if limit.kind == "refused":
                raise PlanError(why, key=key, hint="change it")
            return why
    return None


def _of_producer(plan: KafkaPlan, key: str, value: str, file: Mapping[str, str]) -> OwnKey:
    del file
    why = library_of(plan).why_refused(key)
    if why is None or (key == TIMEOUT and transactions_of(plan) is not None):
        return _used(key, value, ("workload", "producer", key))
    return _refused(key, "producer", why)


def _refused(key: str, level: Level, why: str) -> OwnKey:
    """A setting of clients that a plan may not set, or that does not exist."""
    unknown = None if definitions.meant(key, level) else _why_unknown(key, level, None)
    return _unused(key, UNKNOWN, unknown) if unknown else _unused(key, IGNORED, why)


def _implied(keys: list[OwnKey]) -> Iterator[OwnKey]:
    """What Kafka's own producer concludes from a file, so that the plan's value may not stay: other
    acks than all, no retries and many requests under way switch idempotence off, unless it is asked
    for; and with it, acks are all."""
    given = {definitions.canonical(each.key): each for each in keys if each.state == USED}
    value = {name: str(each.value).lower() for name, each in given.items()}
    in_flight = value.get("max.in.flight.requests.per.connection", "5")
    without = {
        _ACKS: value.get(_ACKS, ALL) not in (ALL, "-1"),
        "retries": value.get("retries") == "0",
        "max.in.flight.requests.per.connection": in_flight.isdigit() and int(in_flight) > 5,
    }
    if _IDEMPOTENCE not in value and any(without.values()):
        name = next(name for name, does in without.items() if does)
        why = f"not in the file: its {given[name].key} = {value[name]} switches it off"
        yield _used(_IDEMPOTENCE, "false", ("workload", "producer", _IDEMPOTENCE), why=why)
    if value.get(_IDEMPOTENCE) == "true" and _ACKS not in value:
        why = f"not in the file: an idempotent producer has acks = {ALL}"
        yield _used(_ACKS, ALL, ("workload", "producer", _ACKS), why=why)


def _of_consumer(plan: KafkaPlan, key: str, value: str, file: Mapping[str, str]) -> OwnKey:
    if (group := group_of(plan)) is None:
        why = f"the plan's workload, {plan.workload.name}, has no group of consumers"
        return _unused(key, IGNORED, why)
    if key in definitions.OPTIONS:
        option = _option(key, value, file, group)
        if isinstance(option, str):
            return _unused(key, IGNORED, option)
        where, why = dotted(("workload", "options", option[0])), "as an option of the workload"
        return OwnKey(key=key, state=USED, value=option[1], places=[where], why=why)
    tried = plan.workload.model_copy(update={"consumer": {key: scalar(value)}})
    try:
        check_group(plan.model_copy(update={"workload": tried}))
    except PlanError as error:
        return _refused(key, "consumer", error.what)
    return _used(key, value, ("workload", "consumer", key))


_NUMBERS: Final = {
    "auto.commit.interval.ms": ("commit_interval_s", 1000),
    "session.timeout.ms": ("session_s", 1000),
    "max.poll.records": ("batch_count", 1),
}
"""The options that numbers stand for, and how many of the setting's are one of theirs."""


def _option(
    key: str, value: str, file: Mapping[str, str], group: GroupSettings
) -> tuple[str, Scalar] | str:
    """The option of the workload that a consumer's setting stands for, or why there is none."""
    automatic = file.get("enable.auto.commit", str(group.commit == "auto")).lower() == "true"
    assignor = _ASSIGNORS.get(value.split(",")[0].rpartition(".")[2])
    if key == "enable.auto.commit":
        manual = "after" if group.commit == "auto" else group.commit
        return "commit", "auto" if automatic else manual
    if key in _NUMBERS and re.fullmatch(r"\d{1,9}", value) and int(value):
        if key == "auto.commit.interval.ms" and not automatic:
            return "nothing commits by itself"
        option, factor = _NUMBERS[key]
        return option, int(value) / factor if factor > 1 else int(value)
    if key == "auto.offset.reset" and value in ("earliest", "latest"):
        return "reset", value
    if key == "group.protocol" and value == "consumer":
        return "protocol", value
    if key == "group.protocol" and value == "classic":
        return "protocol", "range" if group.protocol == "consumer" else group.protocol
    if key == "partition.assignment.strategy" and assignor:
        if file.get("group.protocol") == "consumer":
            return "the group protocol consumer lets brokers assign"
        return "protocol", assignor
    return "no option of the workload has this value"
