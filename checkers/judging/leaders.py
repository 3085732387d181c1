"""Whether a fault met a leader: evidence beside a verdict, not part of it.

Of the observer's rows an answer counts while no answer before it has had a higher leader epoch, as
in `analysis.leadership`. The leader at an instant is the one of the last such answer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.faults.affected import affected_nodes
from harness.history.arrays import one_batch
from harness.history.parquet_reader import integers, texts
from harness.history.run_folder import RunDir

_COLUMNS = ["time_ns", "partition", "leader", "leader_epoch"]


@dataclass(frozen=True, kw_only=True)
class MetLeader:
    """One fault: who led when it came into force, or while it was; whether it affected one of them,
    `None` if no leader is known."""

    fault: str
    leaders: tuple[str, ...]
    met: bool | None


def met_leaders(
    rundir: RunDir, faults: Sequence[dict[str, Any]], nodes: Collection[str]
) -> list[MetLeader]:
    """Each fault of `nodes` that was in force, as result.json has it, compared with who led
    meanwhile. A fault of clients or of consumers meets no leader. `nodes` is empty if they were not
    recorded: then all faults are taken to be faults of nodes."""
    answers_of, affected = _answers(rundir), affected_nodes(rundir.faults)
    return [
        _met(answers_of, fault, affected.get(fault["id"], fault["nodes"]))
        for fault in faults
        if fault["from_s"] is not None and (not nodes or not set(nodes).isdisjoint(fault["nodes"]))
    ]


def leaders_of_cell(
    rundir: RunDir, faults: Sequence[dict[str, Any]]
) -> list[dict[str, Any]] | None:
    """`leaders` of result.json: as `met_leaders`, for the folder of a cell; `None` for a run
    without cells, whose faults are about its own object."""
    run = rundir.read_json(rundir.run)
    if not run.get("cell"):
        return None
    nodes = [node["name"] for node in run.get("nodes") or []]
    met = met_leaders(rundir, faults, nodes)
    return [{**asdict(each), "leaders": list(each.leaders)} for each in met]


Answers = dict[int, list[tuple[float, str | None]]]
"""By partition who led from when on, in seconds since the run's start."""


def _met(answers_of: Answers, fault: dict[str, Any], affected: Collection[str]) -> MetLeader:
    until_s = fault["to_s"] if fault["to_s"] is not None else float("inf")
    led: dict[str, None] = {}
    for answers in answers_of.values():
        before = [leader for at_s, leader in answers if at_s <= fault["from_s"]]
        during = [leader for at_s, leader in answers if fault["from_s"] < at_s <= until_s]
        led |= {leader: None for leader in (*before[-1:], *during) if leader is not None}
    met = not led.keys().isdisjoint(affected) if led else None
    return MetLeader(fault=fault["id"], leaders=tuple(led), met=met)


def _answers(rundir: RunDir) -> Answers:
    """What the observer's files hold; nothing if one of them is damaged."""
    parts = rundir.parts(rundir.observations)
    try:
        tables = [pq.read_table(part, columns=_COLUMNS) for part in parts]
    except (OSError, pa.ArrowException):
        return {}
    if not tables:
        return {}
    table = pa.concat_tables(tables)
    table = table.filter(pc.is_valid(table["partition"])).sort_by("time_ns")
    rows = one_batch(table)
    times, partitions, epochs = (integers(rows, name) for name in _COLUMNS[:2] + _COLUMNS[3:])
    leaders = texts(rows, "leader").objects()
    found: Answers = {}
    for partition in np.unique(partitions).tolist():
        own = partitions == partition
        newest = epochs[own] == np.maximum.accumulate(epochs[own])
        pairs = zip((times[own][newest] / 1e9).tolist(), leaders[own][newest], strict=True)
        found[partition] = _changes(list(pairs))
    return found


def _changes(answers: list[tuple[float, str | None]]) -> list[tuple[float, str | None]]:
    """The first of each run of equal answers."""
    return [
        answer
        for place, answer in enumerate(answers)
        if not place or answer[1] != answers[place - 1][1]
    ]
