"""Settings of Kafka as people have them in files: one reader for all forms.

    .properties   as java.util.Properties reads it
    environment   NAME=VALUE lines by the images' convention: KAFKA_MIN_INSYNC_REPLICAS
    YAML          a Strimzi resource, a compose file, a ConfigMap, values of a Helm chart, a map

Its content decides which, so a name without an ending will do. No message quotes a value: it
may be a secret.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.errors import PlanError

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
    """Each place below a node that holds settings."""
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
    """Whether it is one of a Kubernetes container's variables."""
    return isinstance(node, dict) and bool(_OF_KAFKA.fullmatch(str(node.get("name"))))
