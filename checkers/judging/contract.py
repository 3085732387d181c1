"""Checks what a checker returns against its contract (`harness.protocols.CheckResult`) before any
of it is counted or written. A checker is a plug-in: a wrong result is its own named failure.

A checker that raises, or whose process dies, makes that run `unknown`, and no other.

What broke the checker may be in the run's Parquet files, so nothing here opens one.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import orjson
import pyarrow as pa

from harness import failures
from harness.errors import HistoryError
from harness.failures import what
from harness.history.run_folder import RunDir
from harness.models import LOG, MODELS, Model
from harness.protocols import (
    DOUBTS,
    UNKNOWN,
    CheckResult,
    Facts,
    Operations,
    Promises,
    Statement,
    Writes,
)
from harness.protocols.runs import INT64, INVOKED, OK

_NEEDED = ("attempted", "acknowledged")
_COLUMNS = ("run_id", "kind")


Findings: TypeAlias = "pa.Table | pa.RecordBatchReader | None"


class BrokenCheckerError(Exception):
    """A checker raised, or returned something that is not a result: one sentence that names it."""


def accepted(name: str, result: object, facts: Facts) -> CheckResult:
    """What `merge` returned, if it is a result. Raises BrokenCheckerError for anything else."""
    if not isinstance(result, CheckResult):
        given = "None" if result is None else f"a {type(result).__name__}"
        why: str | None = f"returns {given}, not a CheckResult"
    else:
        why = next(_breaches(result, facts), None)
        if why is None:
            return replace(result, findings=_checked(name, result.findings, facts))
    raise BrokenCheckerError(f"the checker {name!r}: merge() {why}")


def _breaches(result: CheckResult, facts: Facts) -> Iterator[str]:
    for group, numbers in {"counts": result.counts, "rates": result.rates}.items():
        if not isinstance(numbers, Mapping):
            yield f"returns {group} that are a {type(numbers).__name__}, not a mapping"
            return
        for key, number in numbers.items():
            if number is not None and type(number) not in (int, float):
                given = f"{group}[{key!r}] = {number!r:.40}, a {type(number).__name__}"
                yield f"returns {given}; use int, float or None"
            elif isinstance(number, int) and number not in INT64:
                yield f"returns {group}[{key!r}] = {number!s:.40}, which 64 bits do not hold"
    for key in _NEEDED:
        number = result.counts.get(key)
        if not isinstance(number, int) or number < 0:
            yield f"returns no counts[{key!r}]: how many writes of the run are {key}"
    yield from _wrong_counts(result)
    yield from _wrong_statements(result)
    yield from _wrong_findings(result, facts)
    if not isinstance(result.all_well, str):
        yield "returns an all_well that is not a sentence"
    try:
        orjson.dumps(dict(result.details))
    except TypeError as error:
        yield f"returns details that are not JSON: {what(error)}"


def _wrong_counts(result: CheckResult) -> Iterator[str]:
    """Counts by names of result.json that are no numbers of writes."""
    odd = [key for key, number in result.counts.items() if type(number) is not int or number < 0]
    if not odd:
        return
    from harness.history.documents import Counts  # takes long to import, and is seldom needed

    for key in sorted({each.name for each in fields(Counts)}.intersection(odd)):
        given = f"{result.counts[key]!s:.40}"
        yield f"returns counts[{key!r}] = {given}; this count is a whole number from 0 on"


def _wrong_statements(result: CheckResult) -> Iterator[str]:
    groups = {"counter_examples": result.counter_examples, "doubts": result.doubts}
    for group, statements in groups.items():
        if isinstance(statements, Statement) or not isinstance(statements, tuple):
            given = type(statements).__name__
            yield f"returns {group} that are a {given}, not a tuple of Statement(name, sentence)"
        elif wrong := [each for each in statements if not isinstance(each, Statement)]:
            yield f"returns {group} with {wrong[0]!r:.60}, which is not a Statement(name, sentence)"
        elif group == "doubts" and (strange := {each.name for each in statements} - {*DOUBTS}):
            yield f"returns the doubt {min(strange)!r}; there are: {', '.join(DOUBTS)} (DOUBTS)"


def _wrong_findings(result: CheckResult, facts: Facts) -> Iterator[str]:
    findings = result.findings
    if findings is None:
        return
    if not isinstance(findings, pa.Table | pa.RecordBatchReader):
        yield f"returns findings that are a {type(findings).__name__}, not a pyarrow.Table"
        return
    for column in _COLUMNS:
        if column not in findings.schema.names:
            yield f"returns findings without the column {column!r}"
    if isinstance(findings, pa.Table) and (why := _of_another_run(findings, facts)):
        yield why


def _of_another_run(findings: pa.Table | pa.RecordBatch, facts: Facts) -> str | None:
    if others := {*findings.column("run_id").unique().to_pylist()} - {facts.run_id}:
        return f"returns findings whose run_id is {min(map(repr, others))}, not {facts.run_id!r}"
    return None


def _checked(name: str, findings: Findings, facts: Facts) -> Findings:
    """The findings; those that are read as they are written raise BrokenCheckerError then."""
    if findings is None or isinstance(findings, pa.Table):
        return findings

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in findings:
            if why := _of_another_run(batch, facts):
                raise BrokenCheckerError(f"the checker {name!r}: merge() {why}")
            yield batch

    return pa.RecordBatchReader.from_batches(findings.schema, batches())


class Tally:
    """How many operations of a history were begun, and how many of its writes were begun and
    acknowledged, part by part."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.operations = self.begun = self.acknowledged = 0

    def add(self, rows: Writes | Operations) -> None:
        """Count some rows."""
        mark = rows.mark
        self.operations += int(np.count_nonzero(mark == INVOKED))
        if isinstance(rows, Operations):
            mark = mark[rows.f.isin(self._model.writes)]
        self.begun += int(np.count_nonzero(mark == INVOKED))
        self.acknowledged += int(np.count_nonzero(mark == OK))

    def held_against(self, name: str, result: CheckResult, facts: Facts) -> CheckResult:
        """The result, with a doubt if it counts none of the writes that the history holds: then it
        has judged nothing, whatever it reports."""
        held = {"attempted": self.begun}
        if facts.promises.acknowledges:
            held["acknowledged"] = self.acknowledged
        for key, number in held.items():
            if number and result.counts[key] == 0:
                sentence = (
                    f"the checker {name!r} counts no write as {key}: the history has {number:,}"
                )
                return replace(result, doubts=(*result.doubts, Statement(DOUBTS.vacuous, sentence)))
        return result


DIED: Final = "the checker's process died, killed or out of memory"


def raised(error: BaseException) -> str:
    """What was raised and where, in one sentence; of a checker with its name."""
    if isinstance(error, BrokenCheckerError):
        return str(error)
    return f"judging raised {_what(error)}"


def broken_by(name: str, error: BaseException) -> BrokenCheckerError:
    """What a checker raised, with its name."""
    return BrokenCheckerError(f"the checker {name!r} raised {_what(error)}")


def _what(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{failures.what(error)}{where}"


def unjudged(why: str, doubt: str = DOUBTS.checker) -> dict[str, Any]:
    """The verdict's part of the result document of what could not be judged."""
    return {
        "verdict": UNKNOWN,
        "reason": why,
        "counter_examples": [],
        "doubts": [doubt],
        "eligible": False,
        "complete": False,
    }


def nameless(run_id: str) -> Facts:
    """Of a run of which nothing else is known."""
    return Facts(run_id=run_id, history=(), reads=(), ends=())


def named_by(rundir: RunDir) -> Facts:
    """What run.json (or else an earlier result) and plan.json say of a run, as far as they can be
    read."""
    run = _document(rundir, rundir.run) or _document(rundir, rundir.result)
    plan = _document(rundir, rundir.plan)
    run_id, name, seed = run.get("run_id"), plan.get("name"), run.get("seed")
    promises = run.get("promises")
    model = promises.get("model") if isinstance(promises, dict) else None
    return Facts(
        run_id=run_id if isinstance(run_id, str) else rundir.run_id,
        folder=rundir.path,
        history=(),
        reads=(),
        ends=(),
        plan=name if isinstance(name, str) else None,
        seed=seed if isinstance(seed, int) else None,
        promises=Promises(model=model if model in MODELS else LOG.name),
        simulated=run.get("simulated") is True,
    )


def _document(rundir: RunDir, path: Path) -> dict[str, Any]:
    try:
        return rundir.read_json(path)
    except HistoryError:
        return {}
