"""Checks what a target returns to the runner against its contract (`harness.protocols.Target`): a
target is a plug-in, and a wrong return value is its own named failure, not one of a later stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson
import pyarrow as pa

from harness.errors import HarnessFailure
from harness.history import READS
from harness.models import MODELS
from harness.plan import Plan
from harness.protocols import Client, Cluster, End, Promises, Range, ReadsRanges, Target
from harness.run.own_settings import origins_of

Ranges = Mapping[int, Sequence[Range]]

_READ = pa.schema([field for field in READS if field.name != "run_id"])


@dataclass(frozen=True, kw_only=True)
class SettingsRead:
    """Settings and features in groups, requested and effective, and what could not be read.
    `origins`: of each setting that is not a default, who decided it; `shortened`: time-outs that
    are shorter than the system's own, with its own."""

    requested: Mapping[str, Any]
    effective: Mapping[str, Any]
    requested_features: Mapping[str, Any]
    effective_features: Mapping[str, Any]
    warnings: tuple[str, ...]
    origins: Mapping[str, Mapping[str, str]]
    shortened: Mapping[str, Mapping[str, str]]


def settings_of(target: Target[Any], cluster: Cluster, plan: Plan) -> SettingsRead:
    """What the cluster has, and what the plan requests. Raises as `Target.effective` does."""
    effective = target.effective(cluster, plan)
    _check_settings(target, "effective", effective)
    requested = target.requested(plan)
    _check_settings(target, "requested", requested)
    return SettingsRead(
        requested=requested["settings"],
        effective=effective["settings"],
        requested_features=requested.get("features", {}),
        effective_features=effective.get("features", {}),
        warnings=tuple(effective.get("warnings", ())),
        origins=origins_of(plan, requested["settings"], effective.get("origins", {})),
        shortened=effective.get("shortened", {}),
    )


def _check_settings(target: Target[Any], method: str, document: object) -> None:
    settings = document.get("settings") if isinstance(document, dict) else None
    if not isinstance(settings, dict) or not all(isinstance(v, dict) for v in settings.values()):
        _refuse(target, method, document, 'settings in groups: {"settings": {"node": {...}}}')
    try:
        orjson.dumps(document)
    except TypeError as error:
        _refuse(target, method, document, f"JSON: {error}")


def promises_of(
    target: Target[Any], plan: Plan, effective: Mapping[str, Any], *, model: str
) -> Promises:
    """What the target promises the operations of this plan, which are of that model."""
    promises = target.promises(plan.document(), effective)
    if not isinstance(promises, Promises):
        _refuse(target, "promises", promises, "Promises(...)")
    if promises.model != model:
        given = f"model = {promises.model!r}"
        _refuse(target, "promises", given, f"that of the plan's workload, {model!r}", shown=True)
    if promises.partitions != plan.partitions:
        given = f"partitions = {promises.partitions}"
        _refuse(
            target, "promises", given, f"as many as the plan has, {plan.partitions}", shown=True
        )
    return promises


def client_of(target: Target[Any], cluster: Cluster, plan: Plan) -> Client:
    """A client for the workload."""
    client = target.client(cluster, plan)
    if not all(callable(getattr(client, name, None)) for name in ("submit", "poll", "close")):
        _refuse(target, "client", client, "a Client; blocking ones become one by ThreadedClient")
    return client


def readers_of(target: Target[Any], plan: Plan) -> tuple[str, str]:
    """The two readers: a second opinion from the first reader would be none. If no model of the
    target has a final read, there is no answer."""
    readers = target.readers(plan)
    wanted = 2 if any(MODELS[name].final_read for name in target.models) else 1
    if not isinstance(readers, tuple) or len(readers) != 2 or len({*readers}) < wanted:
        _refuse(target, "readers", readers, "the names of two that read differently")
    return readers


def writer_of(target: Target[Any], plan: Plan) -> str:
    """The library that writes."""
    writer = target.writer(plan)
    if not isinstance(writer, str):
        _refuse(target, "writer", writer, "a name")
    return writer


def read_by(
    target: Target[Any], cluster: Cluster, plan: Plan, reader: str
) -> tuple[pa.Table, list[End]]:
    """All that a reader has read, in the columns of READS but `run_id`, and how far it got."""
    given = target.read_all(cluster, plan, reader=reader, timeout_s=plan.final.read_s)
    return _found(target, "read_all", given, reader)


def ranges_by(
    target: Target[Any], cluster: Cluster, plan: Plan, reader: str, ranges: Ranges
) -> tuple[pa.Table, list[End]]:
    """The same for ranges only, by a target that is a `ReadsRanges`."""
    assert isinstance(target, ReadsRanges)
    given = target.read_ranges(
        cluster, plan, reader=reader, ranges=ranges, timeout_s=plan.final.read_s
    )
    return _found(target, "read_ranges", given, reader)


def _found(
    target: Target[Any], method: str, given: object, reader: str
) -> tuple[pa.Table, list[End]]:
    if not isinstance(given, tuple) or len(given) != 2:
        _refuse(target, method, given, "a table and a list of End")
    table, ends = given
    if not isinstance(ends, list) or not all(isinstance(end, End) for end in ends):
        _refuse(target, method, ends, "a list of End beside its table")
    return _as_read(target, method, table, reader), ends


def _as_read(target: Target[Any], method: str, table: object, reader: str) -> pa.Table:
    if not isinstance(table, pa.Table):
        _refuse(target, method, table, "a pyarrow.Table beside its list of End")
    if {*table.column_names} != {*_READ.names}:
        columns = f"a table with the columns {', '.join(table.column_names)}"
        _refuse(target, method, columns, ", ".join(_READ.names), shown=True)
    try:
        read: pa.Table = table.select(_READ.names).cast(_READ)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
        _refuse(target, method, f"a table that cannot be read ({error})", "", shown=True)
    if others := {*read.column("reader").unique().to_pylist()} - {reader}:
        _refuse(target, method, f"rows of the reader {min(others)!r}", f"{reader!r}", shown=True)
    return read


def _refuse(
    target: Target[Any], method: str, given: object, right: str, *, shown: bool = False
) -> NoReturn:
    text = str(given) if shown else repr(given)
    what = text if shown or (len(text) <= 80 and "\n" not in text) else f"a {type(given).__name__}"
    instead = f", not {right}" if right else ""
    raise HarnessFailure(f"the target {target.plugin!r}: {method}() returns {what}{instead}")
