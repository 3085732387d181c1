"""The border of judging: what a checker returns is checked here before any of it is counted or
written, and what it raises becomes one sentence.

A checker is a plug-in. One that raises, whose process dies, or that returns something other than a
result (`harness.protocols.CheckResult`) makes its run `unknown`, and no other.
"""

from __future__ import annotations

import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from harness.errors import HistoryError
from harness.failures import what
from harness.history.documents import result_of
from harness.models import Model
from harness.protocols import (
    DOUBTS,
    INVALID,
    UNKNOWN,
    VALID,
    CheckResult,
    Facts,
    Operations,
    Statement,
    Writes,
)
from harness.protocols.runs import INVOKED, OK

DIED: Final = "the checker's process died, killed or out of memory"


class BrokenCheckerError(Exception):
    """A checker raised, or returned something that is not a result: one sentence that names it."""


def accepted(name: str, result: object, facts: Facts) -> CheckResult:
    """What `merge` returned, if it is a result. Raises BrokenCheckerError for anything else."""
    try:
        if not isinstance(result, CheckResult):
            raise TypeError(f"returns a {type(result).__name__}, not a CheckResult")
        _refuse_unreadable(name, result, facts)
        _refuse_findings(result.findings, facts)
    except (HistoryError, TypeError, ValueError, AttributeError) as error:
        raise BrokenCheckerError(f"the checker {name!r}: merge() {error}") from error
    return result


def _refuse_unreadable(name: str, result: CheckResult, facts: Facts) -> None:
    """Raise an error for what no reader of result.json could use."""
    if strange := {each.name for each in result.doubts} - {*DOUBTS}:
        raise ValueError(f"returns the doubt {min(strange)!r}; there are: {', '.join(DOUBTS)}")
    check = check_document(name, result)
    document = {"verdict": UNKNOWN, "reason": result.all_well, "model": facts.promises.model}
    try:
        result_of({**document, "counts": check["counts"], "checks": [check]})
    except (HistoryError, TypeError) as error:
        raise ValueError(f"returns what result.json cannot hold: {error}") from error


def _refuse_findings(findings: object, facts: Facts) -> None:
    if findings is None:
        return
    if not isinstance(findings, pa.Table):
        raise TypeError(f"returns findings that are a {type(findings).__name__}, not a Table")
    for column in ("run_id", "kind"):
        if column not in findings.schema.names:
            raise ValueError(f"returns findings without the column {column!r}")
    if others := {*findings["run_id"].unique().to_pylist()} - {facts.run_id}:
        found = min(map(repr, others))
        raise ValueError(f"returns findings whose run_id is {found}, not {facts.run_id!r}")


def check_document(name: str, result: CheckResult) -> dict[str, Any]:
    """What one checker says, by itself, as result.json has it: its verdict leaves out what is
    stated about the complete run."""
    verdict = INVALID if result.counter_examples else UNKNOWN if result.doubts else VALID
    return {
        "name": name,
        "verdict": verdict,
        "counter_examples": [list(each) for each in result.counter_examples],
        "doubts": [list(each) for each in result.doubts],
        "counts": dict(result.counts),
        "rates": dict(result.rates),
        "details": dict(result.details),
    }


class Tally:
    """How many operations of a history were begun, and how many of its writes were begun and
    acknowledged, part by part."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.operations = self.ended = self.begun = self.acknowledged = 0

    def add(self, rows: Writes | Operations) -> None:
        mark = rows.mark
        begun = int(np.count_nonzero(mark == INVOKED))
        self.operations += begun
        self.ended += len(mark) - begun
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
            if number and not result.counts.get(key):
                sentence = (
                    f"the checker {name!r} counts no write as {key}: the history has {number:,}"
                )
                return replace(result, doubts=(*result.doubts, Statement(DOUBTS.vacuous, sentence)))
        return result


def raised(error: BaseException) -> str:
    """What was raised and where, in one sentence; of a checker with its name."""
    return str(error) if isinstance(error, BrokenCheckerError) else f"judging raised {_what(error)}"


def broken_by(name: str, error: BaseException) -> BrokenCheckerError:
    """What a checker raised, with its name."""
    return BrokenCheckerError(f"the checker {name!r} raised {_what(error)}")


def _what(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{what(error)}{where}"
