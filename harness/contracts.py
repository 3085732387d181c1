"""Whether a plug-in keeps the contract of its kind, as far as its class shows: found out when a
plan names it, before anything starts.

The contracts are the protocols in `harness.protocols`, which are above this module and therefore
reached by name. What only a call shows is checked where the call is made.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping, Set
from functools import cache
from typing import TYPE_CHECKING, Any

from harness.wrong_values import first_of, remedy, what_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

CONTRACTS = {
    "nemeses": ("faults.Nemesis", "crashes.ClientNemesis"),
    "workloads": ("operations.Workload",),
    "targets": ("systems.Target",),
    "checkers": ("checkers.Checker",),
    "clusters": ("clusters.Provider",),
}
"""By kind, the protocols in `harness.protocols` of which a plug-in has one."""

_OPTIONAL = {
    "checkers": ("checkers.HasPrimaryFinding", "checkers.HasMeasures"),
}
"""By kind, protocols of abilities that are properties, which a plug-in has by their name alone."""

_SHARED_KEYS = {
    "nemeses": ("steps.FaultStep", "steps.Family"),
    "checkers": ("model.Check",),
    "clusters": ("model.ClusterPlan",),
}
"""By kind, the tables of `harness.plan` in which its options stand beside keys of the core."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


def adapter(plugin: Any) -> TypeAdapter[Any]:
    """pydantic's view of a plug-in, a class: validates its options and knows their JSON schema."""
    return _adapter(plugin)


@cache
def _adapter(plugin: type[Any]) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter, with_config

    return TypeAdapter(with_config(ConfigDict(extra="forbid"))(plugin))


@cache
def why_unusable(kind: str, plugin: Any) -> str | None:
    """Why a plug-in cannot be used, a predicate without a full stop; `None` if it can."""
    parameters = getattr(plugin, "__dataclass_params__", None)
    if parameters is None or not parameters.frozen:
        return "is not a frozen dataclass"
    contracts = [_named("protocols", path) for path in CONTRACTS[kind]]
    contract, lacking = min(
        ((each, _lacking(plugin, each)) for each in contracts), key=lambda pair: len(pair[1])
    )
    if lacking:
        return f"lacks {', '.join(lacking)} of the protocol {contract.__name__}"
    return next(_breaches(kind, plugin, contract), None)


def file_of(plugin: type[Any]) -> str:
    """The source file of a plug-in, or else its module."""
    try:
        return inspect.getsourcefile(plugin) or plugin.__module__
    except TypeError:
        return plugin.__module__


def _breaches(kind: str, plugin: type[Any], contract: type[Any]) -> Iterator[str]:
    """What a plug-in that lacks nothing declares otherwise than its contract."""
    from pydantic.errors import PydanticUserError

    if not _NAME.fullmatch(plugin.plugin):
        yield f"has the name {plugin.plugin!r}, which no plan can hold: use a-z, 0-9, '-'"
    fields = dataclasses.fields(plugin)
    for field in fields:
        if field.name in contract.__annotations__:
            yield f"declares `{field.name}` as an option: annotate it as ClassVar"
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            yield f"has an option without a default: {field.name}"
    for path in _SHARED_KEYS.get(kind, ()):
        table = _named("plan", path)
        taken = {field.alias or key for key, field in table.model_fields.items()}
        for name in sorted({field.name for field in fields} & taken):
            yield f"has an option {name!r}, which is a key of every such table in a plan: rename it"
    yield from _wrong_signatures(plugin, contract)
    yield from _methods_for_properties(kind, plugin, contract)
    yield from _wrong_variables(plugin)
    if kind == "targets":
        yield from _wrong_records(plugin)
    try:
        adapter(plugin).json_schema()
        yield from _wrong_defaults(plugin)
    except PydanticUserError as error:
        what = str(error).partition(". ")[0]
        yield f"has an option of a type that no plan can hold: {what}"


def _named(package: str, path: str) -> Any:
    module, _, name = path.partition(".")
    return getattr(importlib.import_module(f"harness.{package}.{module}"), name)


def _lacking(plugin: type[Any], contract: type[Any]) -> list[str]:
    """What a plug-in has not of a protocol, and what it inherits without a body."""
    abstract: frozenset[str] = contract.__abstractmethods__
    unwritten: frozenset[str] = getattr(plugin, "__abstractmethods__", frozenset())
    absent = {name for name in abstract if getattr(plugin, name, None) is None}
    variables = {name for name in contract.__annotations__ if not hasattr(plugin, name)}
    return [*sorted(variables), *(f"{name}()" for name in sorted(absent | unwritten))]


def _wrong_signatures(plugin: type[Any], contract: type[Any]) -> Iterator[str]:
    """Methods that cannot be called as their protocols say, also of the optional protocols."""
    protocols = [base for base in plugin.__mro__ if base.__dict__.get("_is_protocol", False)]
    for protocol in dict.fromkeys([contract, *protocols]):
        for name in sorted(getattr(protocol, "__abstractmethods__", ())):
            declared, own = protocol.__dict__.get(name), getattr(plugin, name, None)
            if not inspect.isfunction(declared):
                continue
            if not callable(own):
                yield f"has {name}, which is not a method"
                continue
            _self, *parameters = inspect.signature(declared).parameters.values()
            by_name = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
            by_place = [each.name for each in parameters if each.name not in by_name]
            bound = [] if inspect.ismethod(own) or _is_static(plugin, name) else [_self.name]
            try:
                inspect.signature(own).bind(*bound, *by_place, **dict.fromkeys(by_name))
            except TypeError as error:
                takes = ", ".join([*by_place, *(f"{each}=" for each in by_name)])
                yield f"has a method {name}() that cannot be called as {name}({takes}): {error}"


def _methods_for_properties(kind: str, plugin: type[Any], contract: type[Any]) -> Iterator[str]:
    """Methods where a protocol has a property: the method itself is what is returned."""
    optional = (_named("protocols", path) for path in _OPTIONAL.get(kind, ()))
    for protocol in (contract, *optional):
        for name, declared in vars(protocol).items():
            own = inspect.getattr_static(plugin, name, None)
            if isinstance(declared, property) and inspect.isfunction(own):
                yield f"has a method {name}(), which is a property: write @property above it"


def _wrong_defaults(plugin: type[Any]) -> Iterator[str]:
    """Defaults that a plan could not hold. This does not check which options exclude each other."""
    from pydantic import ValidationError

    defaults = {f.name: f.default for f in dataclasses.fields(plugin) if f.init}
    given = {name: value for name, value in defaults.items() if value is not dataclasses.MISSING}
    try:
        adapter(plugin).validate_python(given)
    except ValidationError as error:
        findings = first_of(error.errors(include_url=False))
        if loc := findings[0]["loc"]:
            name, why = str(loc[0]), remedy(findings) or what_of(findings)
            yield f"has an option {name!r} with the default {given[name]!r:.40}: {why}"
    except Exception:  # of its __post_init__: reported, with its line, when it is created
        return


def _wrong_records(plugin: type[Any]) -> Iterator[str]:
    """Undo records of a target's own levers that another process could not read, and levers without
    one: nothing could undo what they have done."""
    core: Mapping[str, type[Any]] = _named("faults", "records.RECORD_TYPES")
    types: object = getattr(plugin, "record_types", {})
    levers: object = getattr(plugin, "own_levers", frozenset[str]())
    if not isinstance(types, Mapping):
        yield f"has record_types = {types!r:.60}, which is not a mapping of levers to undo records"
        return
    if not isinstance(levers, Set):
        yield f"has own_levers = {levers!r:.60}, which is not a frozenset"
        return
    for lever, record in types.items():
        if lever in core:
            yield f"declares an undo record for {lever!r}, a lever of ackloss: rename its own"
        if why := _why_no_record(record):
            yield f"declares for the lever {lever!r} an undo record that {why}"
    if without := sorted(map(str, levers - core.keys() - types.keys())):
        yield f"has the lever {without[0]!r} without an undo record: declare it in record_types"


def _why_no_record(record: object) -> str | None:
    """Why a journal could not hold a record; `None` if it can."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    base: type[Any] = _named("protocols", "faults.UndoRecord")
    if not (inspect.isclass(record) and issubclass(record, base)):
        return f"is not a subclass of UndoRecord: {record!r:.60}"
    parameters = vars(record).get("__dataclass_params__")  # those of its own, not of its base
    if parameters is None or not parameters.frozen:
        return f"is not a frozen dataclass: {record.__name__}"
    try:
        TypeAdapter(record).json_schema()
    except (PydanticUserError, NameError) as error:
        return f"is not data: {record.__name__}: {str(error).partition('. ')[0]}"
    return None


def _is_static(plugin: type[Any], name: str) -> bool:
    return isinstance(inspect.getattr_static(plugin, name), staticmethod)


def _wrong_variables(plugin: type[Any]) -> Iterator[str]:
    """Models that do not exist, and a plan of an unknown target."""
    known = importlib.import_module("harness.models").MODELS
    if hasattr(plugin, "model") and plugin.model not in known:
        yield f"has the model {plugin.model!r}; there are: {', '.join(known)}"
    models: object = getattr(plugin, "models", frozenset[str]())
    if not isinstance(models, frozenset):
        yield f"has models = {models!r}, which is not a frozenset"
    elif strange := sorted(map(str, models - known.keys())):
        yield f"has the model {strange[0]!r}; there are: {', '.join(known)}"
    plan = getattr(plugin, "plan", None)
    if plan is not None and not (
        inspect.isclass(plan) and issubclass(plan, _named("plan", "model.Plan"))
    ):
        yield "has a `plan` that is not a subclass of harness.plan.Plan"
