"""The data of the timeline's script: a Timeline as small JSON.

Times are whole milliseconds, latencies whole microseconds, both in columns, so a mark takes about
twenty bytes. Names are listed once; everything else refers to them by index. -1 means "unknown".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.lanes import PARTITIONS_AT_MOST
from analysis.latency import OUTCOMES
from analysis.palette import FAULT_TINTS
from analysis.timeline import Timeline
from harness.protocols.runs import NULL

Payload = Mapping[str, Any]
"""The JSON of one timeline; reports/static/timeline.js reads it."""


def payload(line: Timeline, *, title: str, labels: Mapping[str, str]) -> Payload:
    """The data of one timeline, with a title and the labels of the outcomes."""
    scale = line.scale
    return {
        "title": title,
        "scale": {
            "start": scale.start_s,
            "end": scale.end_s,
            "latency": list(scale.latency_ms),
            "rate": scale.rate_per_s,
        },
        "outcomes": [
            {"key": key, "label": labels[key], "total": line.total[key]} for key in OUTCOMES
        ],
        "marks": _marks(line),
        "bars": {
            "width": line.bar_s,
            **{name: line.bars[name].tolist() for name in line.bars.columns},
        },
        "faults": [
            {
                "id": fault.id,
                "what": f"{fault.nemesis} {', '.join(fault.nodes)}".strip(),
                "from": fault.from_s,
                "to": fault.to_s,
                "proven": fault.proven,
                "proof": fault.proof,
                "tint": place % FAULT_TINTS + 1,
            }
            for place, fault in enumerate(line.drawn_faults)
        ],
        "nodes": line.nodes,
        "partitions": [_partition(line, partition) for partition in line.by_loss],
        "lanes": PARTITIONS_AT_MOST,
        "controllers": [
            [round(from_s, 3), round(to_s, 3), name]
            for from_s, to_s, name in line.leadership.controllers.itertuples(index=False)
        ],
    }


def _marks(line: Timeline) -> dict[str, list[int]]:
    marks = line.marks
    latency_us = np.nan_to_num(marks["latency_ms"].to_numpy().astype(float) * 1e3, nan=-1)
    return {
        "time": np.rint(marks["begin_s"].to_numpy() * 1e3).astype(int).tolist(),
        "latency": np.rint(latency_us).astype(int).tolist(),
        **{
            name: _known(marks[name]).tolist()
            for name in ("outcome", "value", "process", "partition", "offset", "count")
        },
    }


def _known(column: pd.Series) -> pd.Series:
    """An integer column; -1 where it is NULL."""
    return column.astype("int64").replace(NULL, -1)


def _partition(line: Timeline, partition: int) -> Payload:
    """One partition's views (from, to, leader, epoch, members) and beliefs (node, from, to, epoch);
    nodes are indices."""
    place = {node: number for number, node in enumerate(line.nodes)}
    views, beliefs = (
        table[table["partition"] == partition]
        for table in (line.leadership.views, line.leadership.beliefs)
    )
    columns = (views[name] for name in ("from_s", "to_s", "leader", "epoch", "members"))
    return {
        "id": partition,
        "views": [
            [round(from_s, 3), round(to_s, 3), place.get(leader, -1), max(int(epoch), -1),
             [place[member] for member in members]]
            for from_s, to_s, leader, epoch, members in zip(*columns, strict=True)
        ],
        "beliefs": [
            [place[node], round(from_s, 3), round(to_s, 3), int(epoch)]
            for _, node, from_s, to_s, epoch in beliefs.itertuples(index=False)
        ],
    }  # fmt: skip
