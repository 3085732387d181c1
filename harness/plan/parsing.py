"""Reads plans: TOML or a stored plan.json, changes from the command line, named schedules and mixes
written out; finds those that come with ackloss by name, and where this ackloss comes from.

`harness/shipped/` holds links to the checkout's `plans/` and `campaigns/`; a wheel has the files
themselves in their place. So what is found by name needs no clone. A name is the path below
`plans/` or `campaigns/` without `.toml` (`faults/storm`), or its last part where that is unique
(`storm`). A file that exists always wins over a name.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import ValidationError

from harness import registry
from harness.errors import PlanError, nearest
from harness.plan.model import PROCESSES_MOST, Plan, keys_of, plan_model
from harness.plan.steps import VERSION, concrete, named_schedule
from harness.wrong_values import dotted, explain, whole_key

PLANS: Final = "plans"
CAMPAIGNS: Final = "campaigns"
"""What comes with ackloss and is found by name: folders in `harness/shipped/`."""

_HERE: Final = Path(__file__).resolve().parents[1]
_SUFFIX: Final = ".toml"


def checkout(package: Path = _HERE) -> Path | None:
    """The root of ackloss' own checkout; `None` where `package`, the harness, was installed.

    A folder that merely contains an installed ackloss, such as a user's repository with a virtual
    environment in it, is not one: the root holds ackloss' own pyproject.toml.
    """
    root = package.resolve().parent
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return root if project["name"] == "ackloss" else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def shipped(kind: str) -> Path:
    """The folder of the plans or campaigns that come with this ackloss."""
    return _HERE / "shipped" / kind


def named_files(kind: str) -> dict[str, Path]:
    """The shipped files of a kind by their full names, sorted; those at the top come first."""
    folder = shipped(kind)
    files = folder.rglob(f"*{_SUFFIX}")
    named = {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}
    return dict(sorted(named.items(), key=lambda item: ("/" in item[0], item[0])))


def abouts(kind: str) -> dict[str, str]:
    """What each shipped file is about, in one sentence, by its full name."""
    return {name: _about(file) for name, file in named_files(kind).items()}


def _about(file: Path) -> str:
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    words = " ".join(str(document.get("about") or document.get("name", "")).split())
    return re.split(r"(?<=[.?!]) ", words, maxsplit=1)[0]


def is_path(text: str) -> bool:
    """Whether this can only be a path, whether or not the file exists."""
    return text.endswith(_SUFFIX) or text.startswith((".", "/", "~"))


def find(kind: str, given: str | Path) -> Path:
    """The file that a path or a name means.

    Raises PlanError for what is neither (the nearest name is suggested), and for the last part of
    several names.
    """
    text, one = str(given), kind.removesuffix("s")
    if Path(text).is_file() or is_path(text):
        return Path(text)
    files = named_files(kind)
    if text in files:
        return files[text]
    meant = [name for name in files if name.rpartition("/")[2] == text]
    if len(meant) == 1:
        return files[meant[0]]
    if meant:
        raise PlanError(f"several {kind} have the name {text!r}", hint=f"use {' or '.join(meant)}")
    raise PlanError(
        f"there is no file {text!r}, and no {one} of this name comes with ackloss",
        hint=_suggestion(text, kind, list(files)),
    )


def _suggestion(text: str, kind: str, names: list[str]) -> str:
    by_last_part = {name.rpartition("/")[2]: name for name in reversed(names)}
    near = nearest(text, names) or by_last_part.get(nearest(text, list(by_last_part)) or "")
    return f"did you mean {near!r}?" if near else f"`ackloss list {kind}` shows them"


# One key of a plan's document changed, before it is validated: `--set KEY=VALUE`, and axes of
# campaigns.


def apply_change(document: dict[str, Any], change: str) -> list[str]:
    """Apply one `KEY=VALUE`: KEY a TOML dotted key, VALUE a TOML value or else raw text. Returns
    the keys that it changed.

    A part that is a number, or the `id` or `name` of an entry, steps into a list (`faults.0.at_s`,
    `faults.kill.at_s`). Where the schema wants text and VALUE reads as a TOML number
    (`target.version=4.1`), the raw text is taken; quoted, what is in the quotes.
    """
    key, equals, raw = change.partition("=")
    if not equals or not key.strip():
        raise PlanError(f"{change!r} is not KEY=VALUE", key="--set")
    parts = dotted_parts(key.strip())
    value = _value_of(parts, raw)
    set_key(document, parts, value)
    return [dotted(each) for each in keys_set(document, parts, value)]


def keys_set(document: Mapping[str, Any], parts: list[str], value: Any) -> list[tuple[str, ...]]:
    """The keys of a plan, each as its parts, that this value of a key sets: those in a table."""
    whole = whole_key(parts, _model_of(document))
    within = keys_of(value) if isinstance(value, Mapping) else [()]
    return [(*whole, *each) for each in within]


def change_of(key: str, value: object) -> str:
    """The `KEY=VALUE` that sets a key to this value when it is applied."""
    if isinstance(value, str) and _value_of(dotted_parts(key), value) == value:
        return f"{key}={value}"
    return f"{key}={_as_toml(value)}"


def toml_of(document: Mapping[str, object]) -> str:
    """A document as TOML, a line for each key."""
    return "".join(f"{json.dumps(key)} = {_as_toml(value)}\n" for key, value in document.items())


def _as_toml(value: object) -> str:
    """A value as TOML in one line, where texts, numbers and lists are written as in JSON."""
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(key)} = {_as_toml(inner)}" for key, inner in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_as_toml, value))}]"
    return json.dumps(value, default=str, ensure_ascii=False)


def set_key(document: dict[str, Any], parts: list[str], value: Any) -> None:
    """Put a value where the parts of a dotted key lead, in a table with free keys the rest of them.
    Raises PlanError if they lead nowhere."""
    key = ".".join(parts)
    parts = whole_key(parts, _model_of(document))
    place: Any = document
    for part in parts[:-1]:
        place = _step_into(place, part, key)
    last: Any = parts[-1]
    if isinstance(place, list):
        last = _index(place, last, key)
    place[last] = value


def dotted_parts(key: str) -> list[str]:
    """The parts of a TOML dotted key. Raises PlanError if it is not one."""
    try:
        node: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError as error:
        raise PlanError(
            f"{key!r} is not a TOML key", key="--set", hint='quote parts that hold dots: a."b.c"'
        ) from error
    parts = []
    while isinstance(node, dict):
        part, node = next(iter(node.items()))
        parts.append(part)
    return parts


def _step_into(place: Any, part: str, key: str) -> Any:
    if isinstance(place, list):
        return place[_index(place, part, key)]
    inner = place.setdefault(part, {})
    if not isinstance(inner, dict | list):
        raise PlanError(f"{part!r} is a value, nothing is below it", key=f"--set {key}")
    return inner


def _index(place: list[Any], part: str, key: str) -> int:
    for number, entry in enumerate(place):
        own = (entry.get("id"), entry.get("name")) if isinstance(entry, dict) else ()
        if part == str(number) or part in own:
            return number
    raise PlanError(f"the list has no entry {part!r}", key=f"--set {key}")


def _model_of(document: Mapping[str, Any]) -> type[Plan]:
    """The plan that a document is to be; what is wrong with its system is reported later."""
    target = document.get("target")
    try:
        return plan_model(target.get("system") if isinstance(target, dict) else None)
    except PlanError:
        return Plan


_TEXT_KEYS = {("name",), ("about",), ("expect",), ("target", "version"), ("target", "image")}


def _value_of(parts: list[str], raw: str) -> Any:
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        return raw
    return raw if tuple(parts) in _TEXT_KEYS and not isinstance(value, str) else value


_SPARE: Final = 1.25
"""Processes for each operation that waits: completions come late too."""
_OF_PLANS: Final = ("cluster", "target", "workload")
"""Tables of a plan: it has one of them at least, and a campaign has none."""


def parse_plan(document: Mapping[str, Any], *, file: str = "plan") -> Plan:
    """A validated plan. Raises PlanError that names the key and what would be right."""
    schema = document.get("schema")
    if isinstance(schema, int) and schema > 1:
        raise PlanError(
            f"this plan has schema {schema}, this ackloss reads 1",
            file=file,
            key="schema",
            hint="use a newer ackloss",
        )
    refuse_campaign(document, file=file)
    section = document.get("target", {})
    model = plan_model(section.get("system") if isinstance(section, dict) else None, file=file)
    try:
        named = section.get("version") if isinstance(section, dict) else None
        if isinstance(named, str) and not re.fullmatch(VERSION, named):  # its system says which
            target = registry.target_named(section.get("system") or registry.default_target() or "")
            target.check_version(named, key="target.version")
        plan = model.model_validate(document)
        if plan.schedule:
            document = {**document, "schedule": None, **named_schedule(plan.schedule)}
            plan = model.model_validate(document)
        steps = concrete(plan.faults, plan.mix, seed=plan.seed, duration_s=plan.workload.duration_s)
        document = {**plan.document(), "faults": steps}
        load, blocked_s = plan.workload, plan.blocked_s
        if "processes" not in load.model_fields_set and load.rate_per_s and blocked_s is not None:
            needed = math.ceil(load.rate_per_s * blocked_s * _SPARE)
            document["workload"]["processes"] = min(needed, PROCESSES_MOST)
        return model.model_validate(document)
    except ValidationError as error:
        targets = registry.plugins("targets")
        others = {name: targets[name].plan for name in registry.usable("targets")}
        raise explain(error, model, file=file, document=document, others=others) from error
    except PlanError as error:
        error.file = error.file or file
        raise


def refuse_campaign(document: Mapping[str, Any], *, file: str) -> None:
    """Raise PlanError for the document of a campaign: it names a plan, and holds none of a plan's
    tables."""
    if "plan" in document and document.keys().isdisjoint(_OF_PLANS):
        raise PlanError(
            "is a campaign, not a plan",
            file=file,
            hint="use the plan that it names, or run it with `ackloss campaign run`",
        )


def load_plan(path: Path, changes: Iterable[str] = ()) -> Plan:
    """Read a TOML plan, apply `--set KEY=VALUE` changes in order, and validate it."""
    return parse_plan(read_plan(path, changes), file=str(path))


def read_plan(path: Path, changes: Iterable[str] = ()) -> dict[str, Any]:
    """The raw document of a plan with changes applied, not yet validated: of a TOML file, or of the
    plan.json of a run's folder."""
    text, is_json = read_text(path), path.suffix == ".json"
    why: str | None = None
    try:
        document: dict[str, Any] = orjson.loads(text) if is_json else tomllib.loads(text)
    except (tomllib.TOMLDecodeError, orjson.JSONDecodeError) as error:
        why = f"{'is not JSON' if is_json else 'cannot be read'}: {error}"
    else:
        if not isinstance(document, dict):
            why = "is not a JSON object"
        elif is_json and "schema" not in document:
            why = "is JSON, and not the plan.json of a run"
    if why is not None:
        raise PlanError(why, file=str(path), hint="a plan is TOML (docs/reference/plan.md)")
    changed = [key for change in changes for key in apply_change(document, change)]
    if changed:
        yours = document.setdefault("yours", {})
        yours["set"] = list(dict.fromkeys([*yours.get("set", []), *changed]))
    return document


def read_text(path: Path) -> str:
    """The text of a file. Raises PlanError."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PlanError("is not UTF-8 text", file=str(path)) from error
    except OSError as error:
        raise PlanError(f"cannot be read: {error.strerror}", file=str(path)) from error
