"""`report.html`: the page of one run in one file, and the files that it links to.

report.html    the page; opens from disk, needs no network
lost.csv       every lost write
timeline.png   the timeline with its headline, for mail
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from analysis import drawing, figures
from analysis.drawing import FAULT_TINTS
from analysis.figures import PARTITIONS_AT_MOST
from analysis.findings import write_csv
from analysis.latency import OUTCOMES
from analysis.panels import AGAIN, COMMITTED, TONE_OF, Floats, Panel
from analysis.timeline import Timeline, logged
from harness.history.run_folder import RunDir, write_atomically
from harness.protocols.runs import NULL
from reports import checks, html
from reports.cells import csv, junit
from reports.references import compared
from reports.run_view import RunView, malformed_is_history_error, run_view

# The data of the timeline's script: a Timeline as small JSON.
#
# Times are whole milliseconds, latencies whole microseconds, both in columns, so a mark takes about
# twenty bytes. Names are listed once; everything else refers to them by index. -1 means "unknown".

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
        "panels": [_panel(panel) for panel in line.panels],
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
            name: marks[name].astype("int64").replace(NULL, -1).tolist()
            for name in ("outcome", "value", "process", "partition", "offset", "count")
        },
    }


def _panel(panel: Panel) -> Payload:
    """One chart: lines as columns with null where they break, areas and marks as rows."""
    kinds = list(panel.counts)
    labels = {kind: checks.words(panel.check, kind).label for kind in kinds}
    return {
        "partition": panel.partition,
        "title": panel.title,
        "top": panel.top,
        "kinds": [
            {"label": label, "tone": TONE_OF.get(kind, "lost"), "hatched": kind == AGAIN}
            for kind, label in labels.items()
        ],
        "tracks": [
            {"name": track.name, "tone": track.tone, "step": track.name == COMMITTED,
             "time": _whole(track.time_s * 1e3), "height": _whole(track.height)}
            for track in panel.tracks
        ],
        "areas": [
            [kinds.index(a.kind), round(a.from_s, 3), round(a.to_s, 3), a.low, a.high, a.count]
            for a in panel.areas
        ],
        "marks": [
            [kinds.index(kind), round(time_s, 3), round(height, 3), int(count)]
            for kind, time_s, height, count in panel.marks.itertuples(index=False)
        ],
    }  # fmt: skip


def _whole(numbers: Floats) -> list[int | None]:
    return [None if np.isnan(each) else round(each) for each in numbers.tolist()]


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


def write_report(run: RunDir) -> Path:
    """Write the page of a run, its table of lost writes and its picture; returns the page's path.
    Of a run with cells each cell gets such a page, and the run one that compares them, with a table
    (cells.csv) and test cases (junit.xml) instead.

    Raises HistoryError when the run's files cannot be read, EnvironmentFailure when the page cannot
    be written.
    """
    for cell in run.cells() if run.cell_names() else ():
        write_page(cell)
    return write_page(run)


def write_page(run: RunDir) -> Path:
    """As `write_report`, but no page of a cell."""
    with malformed_is_history_error(run):
        view = run_view(run)
        files: dict[Path, bytes] = {}
        if view.cells:
            files = {run.cells_csv: csv(view.cells), run.junit: junit(view.cells, view.name)}
        page = html.render(
            "report.html.j2",
            view=view,
            simulated=view.simulated,
            files=run,
            **({"data": []} if view.has_cells else _of_one_cell(view)),
        )
        if not view.has_cells:
            files[run.figure] = drawing.png(drawn(view))
    if view.result is not None and not view.has_cells:
        write_csv(view.all_lost, run.lost_csv)
    for path, content in files.items():
        write_atomically(path, content)
    write_atomically(run.report, page)
    return run.report


def _of_one_cell(view: RunView) -> dict[str, Any]:
    """What the page shows of operations."""
    return {
        "data": [payload(view.line, title=view.name, labels=view.outcome_labels)],
        "stills": stills(view),
        "reference_rows": compared([view.counts], view.references),
        "logged": logged(view.run, wall_time=view.metadata.wall_time, end_s=view.line.scale.end_s),
    }


def drawn(view: RunView) -> drawing.Picture:
    """The timeline with its headline: a picture that is seen without its page."""
    return figures.draw(
        view.line,
        headline=f"Simulated: {view.headline}" if view.simulated else view.headline,
        sentence=f"nothing real was tested, {view.sentence}" if view.simulated else view.sentence,
        labels=view.outcome_labels,
    )


def stills(view: RunView) -> dict[str, str]:
    """The timeline as still pictures on light and on dark paper, as data URIs."""
    return html.on_both_papers(
        lambda colours: drawing.svg(
            figures.draw(view.line, colours=colours, labels=view.outcome_labels)
        )
    )
