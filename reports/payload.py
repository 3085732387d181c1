"""What the timeline's script draws from: a Timeline as small JSON data.

Numbers are whole (milliseconds of time, microseconds of latency) and stand in columns, as a mark is
then some twenty bytes; names stand once and are referred to by their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from analysis.lanes import PARTITIONS_AT_MOST
from analysis.latency import OUTCOMES
from analysis.palette import FAULT_TINTS
from analysis.timeline import Timeline


def payload(line: Timeline, *, title: str, called: Mapping[str, str]) -> dict[str, Any]:
    """The data of one timeline. `title` says whose it is, `called` what each outcome is called."""
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
            {"key": key, "label": called[key], "total": line.total[key]} for key in OUTCOMES
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
            name: marks[name].astype(int).tolist()
            for name in ("outcome", "value", "process", "partition", "offset", "count")
        },
    }


def _partition(line: Timeline, partition: int) -> dict[str, Any]:
    """One partition's views (from, to, leader, epoch, members) and beliefs (node, from, to, epoch),
    nodes by their place, -1 for none."""
    place = {node: number for number, node in enumerate(line.nodes)}
    views, beliefs = (
        table[table["partition"] == partition]
        for table in (line.leadership.views, line.leadership.beliefs)
    )
    columns = (views[name] for name in ("from_s", "to_s", "leader", "epoch", "isr"))
    return {
        "id": partition,
        "views": [
            [round(from_s, 3), round(to_s, 3), place.get(leader, -1), int(epoch),
             [place[member] for member in isr]]
            for from_s, to_s, leader, epoch, isr in zip(*columns, strict=True)
        ],
        "beliefs": [
            [place[node], round(from_s, 3), round(to_s, 3), int(epoch)]
            for _, node, from_s, to_s, epoch in beliefs.itertuples(index=False)
        ],
    }  # fmt: skip
