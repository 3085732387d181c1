"""Judges a run with cells: each cell as a separate run, then the complete run by its cells.

A run is `invalid` if one of its cells is, else `unknown` if one of them is, or is missing, or if
the run itself did not end as it should; otherwise `valid`. Counts are those of all cells together;
rates are only given per cell, because rates of a mixture say nothing about any setting.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from checkers.judging.contract import unjudged
from checkers.judging.results import Document, Judged, fault_document
from harness.errors import AcklossError, HistoryError
from harness.faults.journal import windows
from harness.history.documents import result_of
from harness.history.facts import as_written
from harness.history.gaps import gaps_of_files
from harness.history.run_folder import SCHEMA_VERSION, RunDir, cell_id
from harness.protocols import (
    DONE,
    DOUBTS,
    FAILED,
    INVALID,
    OUTCOME_DOUBTS,
    UNKNOWN,
    VALID,
    FaultWindow,
)

_NOTHING = {"attempted": 0, "acknowledged": 0, "lost": 0}


def judge_cells(rundir: RunDir, judge: Callable[[RunDir], Judged]) -> Judged:
    """Judge every cell by `judge`, and the run by its cells. A cell that cannot be judged has a
    result too, `unknown`: that of an earlier check is none.

    Raises HistoryError where the run's own documents cannot be read, and for a run that was pruned:
    it keeps its result.
    """
    run, plan = _documents(rundir)
    folders = rundir.cells()
    if run["state"] == DONE and folders and not any(each.parts(each.history) for each in folders):
        raise HistoryError("holds no history in any cell", file=str(rundir.cells_path))
    return _by_cells(rundir, run, plan, judge)


def stored_result(rundir: RunDir) -> Document | None:
    """The result of a run as it is stored; `None` if there is none. A shared run of a campaign was
    judged cell by cell, since the campaign counts cells: without a result.json for it, its cells
    are summed up from theirs, as `judge_cells` does. Nothing is judged or written.

    Raises HistoryError for what cannot be read.
    """
    if rundir.result.exists():
        return rundir.read_json(rundir.result)
    campaign = rundir.read_json(rundir.run).get("campaign")
    if not isinstance(campaign, dict) or campaign.get("cell") is not None:
        return None  # not a run that cells of a campaign shared
    folders = rundir.cells()
    judged = [each.result.is_file() for each in folders]
    if not any(judged) or not all(
        done or each.read_json(each.run).get("state") == FAILED
        for each, done in zip(folders, judged, strict=True)
    ):
        return None
    run, plan = _documents(rundir)
    try:
        return _by_cells(rundir, run, plan, _as_stored).document
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HistoryError(
            f"the result of a cell is not as this ackloss writes it: {error!r}",
            file=str(rundir.cells_path),
            hint=f"`ackloss check {rundir.path}` writes it again",
        ) from error


def _as_stored(cell: RunDir) -> Judged:
    """What an earlier check wrote. Raises HistoryError if it cannot be read, or if there is
    none."""
    if not cell.result.is_file():
        raise HistoryError(f"the run failed: {cell.read_json(cell.run).get('error')}")
    document = cell.read_json(cell.result)
    result_of(document, file=cell.result)
    return Judged(document)


def _by_cells(
    rundir: RunDir, run: Document, plan: Document, judge: Callable[[RunDir], Judged]
) -> Judged:
    """Every cell by `judge`, and the run by its cells."""
    begun_s = time.monotonic()
    expected = {each["name"]: each.get("expect") for each in plan.get("cells") or []}
    listed = {each["name"]: each for each in run["cells"]}
    judged = [
        (listed.get(name, {"name": name}), _judged(rundir.cell(name), run, judge))
        for name in dict.fromkeys([*listed, *expected, *_there(rundir)])
    ]
    cells = [
        _cell(each, answer) | {"expect": expected.get(each["name"])} for each, answer in judged
    ]
    by_name = {each["name"]: answer for each, answer in judged if isinstance(answer, Judged)}
    known = [answer.document for answer in by_name.values()]
    faults, unread = _journal(rundir)
    timings = {name: run["timings"].get(name) for name in ("cluster_s", "run_s", "read_s")}
    check_s = round(time.monotonic() - begun_s, 3)
    document = {
        **_of_run(run, plan, known),
        **_verdict(cells, [*_doubts(rundir, run, plan), *unread]),
        "faults": _faults(faults, known),
        "cells": cells,
        "timings": {**timings, "check_s": check_s, "report_s": None},
    }
    there = {path.name for path in rundir.cells_path.glob("*")}
    without = {
        each["name"]: Judged(_unjudged(each["name"], answer, run, plan))
        for each, answer in judged
        if isinstance(answer, str) and each["name"] in there
    }
    return Judged(document, cells=by_name | without)


def _documents(rundir: RunDir) -> tuple[Document, Document]:
    """run.json and plan.json. Raises HistoryError if they lack what every run has."""
    run, plan = rundir.read_json(rundir.run), rundir.read_json(rundir.plan)
    with as_written(rundir):
        _ = run["run_id"], run["seed"], run["state"], run["timings"].get("run_s"), plan["name"]
        _ = [each["name"] for each in (*run["cells"], *(plan.get("cells") or []))]
    return run, plan


def _there(rundir: RunDir) -> list[str]:
    """The names of the cells whose folders are there, listed or not."""
    return sorted(path.parent.name for path in rundir.cells_path.glob(f"*/{rundir.run.name}"))


def _judged(
    folder: RunDir, run: Mapping[str, Any], judge: Callable[[RunDir], Judged]
) -> Judged | str:
    """The result of a cell, or why there is none: the folder of another cell does not count."""
    name = folder.path.name
    if not folder.run.is_file():
        return f"missing: cells/{name} (it has no run.json)"
    try:
        if (found := folder.read_json(folder.run).get("run_id")) != cell_id(run["run_id"], name):
            return f"of another cell or run: cells/{name} ({found})"
        return judge(folder)
    except AcklossError as error:
        return str(error)


def _cell(listed: Mapping[str, Any], answer: Judged | str) -> Document:
    """One cell as the run's result.json has it."""
    entry: Document = {"name": listed["name"], "overrides": listed.get("overrides") or {}}
    if isinstance(answer, str):
        return entry | _unknown(answer) | {"counts": dict(_NOTHING), "rates": {}}
    result = answer.document
    taken = ("verdict", "reason", "counter_examples", "doubts", "eligible", "complete")
    return entry | {
        **{key: result[key] for key in (*taken, "counts", "rates")},
        "leaders": result.get("leaders") or [],
    }


def _unknown(why: str) -> Document:
    """What is stated of a cell that cannot be judged."""
    return {**unjudged(why, DOUBTS.incomplete), "leaders": []}


def _unjudged(name: str, why: str, run: Document, plan: Document) -> Document:
    """The result of a cell that cannot be judged: it replaces that of an earlier check."""
    timings = {"cluster_s": None, "run_s": None, "read_s": None, "check_s": None, "report_s": None}
    return {
        **_of_run({**run, "run_id": cell_id(run["run_id"], name)}, plan, []),
        **_unknown(why),
        "faults": [],
        "timings": timings,
    }


def _of_run(run: Document, plan: Document, known: Sequence[Document]) -> Document:
    """What a run's result states beside its verdict and its faults."""
    first = known[0] if known else {}
    return {
        "schema": SCHEMA_VERSION,
        "run_id": run["run_id"],
        "plan": plan["name"],
        "seed": run["seed"],
        "model": first.get("model", "log"),
        "simulated": bool(run.get("simulated")),
        "gaps": [],
        "forced": list(dict.fromkeys(forced for each in known for forced in each["forced"])),
        "counts": _sum(each["counts"] for each in known) or dict(_NOTHING),
        "rates": {},
        "checks": [],
        "availability": {},
        "errors": {
            kind: _sum(each["errors"].get(kind, {}) for each in known)
            for kind in dict.fromkeys(kind for each in known for kind in each["errors"])
        },
        "clients": None,
        "lost_spans": [],
    }


def _journal(rundir: RunDir) -> tuple[list[FaultWindow], list[tuple[str, str]]]:
    """The faults of the run's own journal, of which its cells have copies. Where it cannot be read
    there are none, and a doubt: cells that can be judged by their copies still are."""
    try:
        return windows(rundir.faults), []
    except HistoryError as error:
        return [], [(DOUBTS.incomplete, str(error))]


def _faults(faults: Sequence[FaultWindow], known: Sequence[Document]) -> list[Document]:
    """The faults with what all cells counted while each was in force. A cell whose checker broke,
    or whose copy of the journal is damaged, does not have them all."""
    begun, acknowledged = (_in_force(name, known) for name in ("ops_begun", "ops_acknowledged"))
    return [
        fault_document(fault, ops_begun=begun[fault.id], ops_acknowledged=acknowledged[fault.id])
        for fault in faults
    ]


def _in_force(name: str, known: Sequence[Document]) -> Counter[str]:
    """What all cells counted under this name, by the fault."""
    total: Counter[str] = Counter()
    for each in known:
        total.update({fault["id"]: fault[name] for fault in each["faults"]})
    return total


def _sum(counts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts added up; those that are not whole numbers, such as ages, are left out."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update({name: value for name, value in each.items() if type(value) is int})
    return dict(total)


def _doubts(rundir: RunDir, run: Document, plan: Document) -> list[tuple[str, str]]:
    """Doubts from the run's own folder, whatever its cells report: names and sentences."""
    gaps = gaps_of_files(rundir, run)
    doubts = [(DOUBTS.incomplete, sentence) for sentence in gaps.sentences]
    requested = [each["name"] for each in plan.get("cells") or []]
    listed = [each["name"] for each in run["cells"]]
    if sorted(listed) != sorted(requested):
        sentence = (
            f"not the cells of its plan, {', '.join(requested)}: run.json lists {', '.join(listed)}"
        )
        doubts.append((DOUBTS.incomplete, sentence))
    if strange := [f"cells/{name}" for name in _there(rundir) if name not in requested]:
        doubts.append((DOUBTS.incomplete, f"not of its plan: {', '.join(strange)}"))
    if (state := run["state"]) != DONE:
        name = DOUBTS.interrupted if state == "interrupted" else DOUBTS.failed
        why = f": {run['error']}" if run.get("error") else ""
        doubts.insert(0, (name, f"the run is {state}, not done{why}"))
    return doubts


def _verdict(cells: Sequence[Document], doubts: Sequence[tuple[str, str]]) -> Document:
    """The run's verdict, from those of its cells and the doubts about the complete run."""
    by_verdict = {
        verdict: [cell["name"] for cell in cells if cell["verdict"] == verdict]
        for verdict in (INVALID, UNKNOWN, VALID)
    }
    sentences = [
        f"{len(names)} of {len(cells)} cells {'is' if len(names) == 1 else 'are'} {verdict}"
        + (f": {', '.join(names)}" if verdict != VALID else "")
        for verdict, names in by_verdict.items()
        if names
    ]
    names = dict.fromkeys(name for name, _ in doubts)
    names |= dict.fromkeys(name for cell in cells for name in cell["doubts"])
    verdict = INVALID if by_verdict[INVALID] else VALID
    if verdict == VALID and (by_verdict[UNKNOWN] or doubts):
        verdict = UNKNOWN
    whole = not doubts
    return {
        "verdict": verdict,
        "reason": "; ".join([*(sentence for _, sentence in doubts), *sentences]),
        "counter_examples": list(
            dict.fromkeys(name for cell in cells for name in cell["counter_examples"])
        ),
        "doubts": list(names),
        "eligible": OUTCOME_DOUBTS.issuperset(names),
        "complete": whole and all(cell["complete"] for cell in cells),
    }
