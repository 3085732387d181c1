"""Which leaders each fault met: evidence beside a verdict, not part of it.

Of the observer's rows an answer counts while no answer before it has had a higher leader epoch, as
in `analysis.leadership`. The leader at an instant is the one of the last such answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.faults.journal import affected_nodes
from harness.history import MEMBERS
from harness.history.arrays import one_batch
from harness.history.parquet_reader import integers, texts
from harness.history.run_folder import RunDir
from harness.protocols import CLIENT_ROLE

_COLUMNS = ["time_ns", "partition", "leader", "leader_epoch", MEMBERS]


def leaders_of_run(
    rundir: RunDir, faults: Sequence[dict[str, Any]], footers: Mapping[Path, Any] | None = None
) -> dict[str, Any]:
    """`leaders` and `cautions` of result.json: each fault of nodes that was in force compared with
    who led meanwhile, and a sentence for each family of proven faults that met no leader, though
    its nodes hold what is led. Faults of clients or of consumers meet no leader.

    `footers`: of Parquet files that were opened before, by path.
    """
    nodes = rundir.read_json(rundir.run).get("nodes") or []
    data = [each["name"] for each in nodes if CLIENT_ROLE not in (each.get("roles") or ())]
    observed, affected = _observed(rundir, footers or {}), affected_nodes(rundir.faults)
    # Where nodes were not recorded, all faults are taken to be faults of nodes.
    in_force = [
        fault
        for fault in faults
        if fault["from_s"] is not None and (not nodes or not set(data).isdisjoint(fault["nodes"]))
    ]
    on = {fault["id"]: affected.get(fault["id"], set(fault["nodes"])) for fault in in_force}
    leaders = [_met(observed.leads, fault, on[fault["id"]]) for fault in in_force]
    families: dict[str, dict[str, bool | None]] = {}
    for fault, each in zip(in_force, leaders, strict=True):
        if (fault["proven"] or fault["claimed"]) and observed.holders & on[fault["id"]]:
            families.setdefault(fault["nemesis"], {})[fault["id"]] = each["met"]
    cautions = [
        f"no fault of the family {family} met a leader ({', '.join(met)}): "
        "this run does not show what such a fault does to one"
        for family, met in families.items()
        if not any(each is not False for each in met.values())
    ]
    return {"leaders": leaders, "cautions": cautions}


class _Observed(NamedTuple):
    """By partition who led from when on, in seconds since the run's start; and the nodes that were
    leaders or in-sync members at any time."""

    leads: dict[int, list[tuple[float, str | None]]]
    holders: frozenset[str]


def _met(
    leads: Mapping[int, Sequence[tuple[float, str | None]]],
    fault: dict[str, Any],
    affected: Collection[str],
) -> dict[str, Any]:
    """Who led when a fault came into force, or while it was, and whether it affected one of them;
    `None` if no leader is known."""
    until_s = fault["to_s"] if fault["to_s"] is not None else float("inf")
    led: dict[str, None] = {}
    partitions = []
    for partition, answers in leads.items():
        before = [leader for at_s, leader in answers if at_s <= fault["from_s"]]
        during = [leader for at_s, leader in answers if fault["from_s"] < at_s <= until_s]
        own = {leader: None for leader in (*before[-1:], *during) if leader is not None}
        led |= own
        if not own.keys().isdisjoint(affected):
            partitions.append(partition)
    met = bool(partitions) if led else None
    return {"fault": fault["id"], "leaders": list(led), "met": met, "partitions": partitions}


def _observed(rundir: RunDir, footers: Mapping[Path, Any]) -> _Observed:
    """What the observer's files hold; nothing if one of them is damaged."""
    parts = rundir.parts(rundir.observations)
    try:
        files = (pq.ParquetFile(part, metadata=footers.get(part)) for part in parts)
        tables = [file.read(_COLUMNS).select(_COLUMNS) for file in files]
    except (OSError, KeyError, pa.ArrowException):
        return _Observed({}, frozenset())
    if not tables:
        return _Observed({}, frozenset())
    table = pa.concat_tables(tables)
    table = table.filter(pc.is_valid(table["partition"])).sort_by("time_ns")
    rows = one_batch(table)
    times, partitions, epochs = (integers(rows, name) for name in _COLUMNS[:2] + _COLUMNS[3:4])
    leaders = texts(rows, "leader").objects()
    found: dict[int, list[tuple[float, str | None]]] = {}
    for partition in np.unique(partitions).tolist():
        own = partitions == partition
        newest = epochs[own] == np.maximum.accumulate(epochs[own])
        pairs = zip((times[own][newest] / 1e9).tolist(), leaders[own][newest], strict=True)
        found[partition] = _changes(list(pairs))
    members = pc.unique(pc.list_flatten(table[MEMBERS])).to_pylist()
    return _Observed(found, frozenset({*members, *table["leader"].unique().to_pylist()} - {None}))


def _changes(answers: list[tuple[float, str | None]]) -> list[tuple[float, str | None]]:
    """The first of each run of equal answers."""
    return [
        answer
        for place, answer in enumerate(answers)
        if not place or answer[1] != answers[place - 1][1]
    ]
