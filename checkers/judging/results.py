"""What judging returns: a checker its result, and a judged run its document and findings.

At this border of judging, what a checker returns is checked before any of it is counted or written,
and what it raises becomes one sentence. A checker is a plug-in. One that raises, whose process
dies, or that returns something other than a result (`harness.protocols.CheckResult`) makes its run
`unknown`, and no other.

A worker that judges on another machine hands back the result of a run before it is written, and the
process that requested it writes: into the run's folder here, or at the URL where the run was read.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from harness.errors import EnvironmentFailure, HarnessFailure, HistoryError, disk_errors
from harness.failures import what
from harness.history.documents import result_of
from harness.history.remote_run import RemoteRun
from harness.history.run_folder import RunDir
from harness.machine.files import replace_file
from harness.models import Model
from harness.protocols import (
    DOUBTS,
    INVALID,
    UNKNOWN,
    VALID,
    CheckResult,
    Facts,
    FaultWindow,
    Operations,
    Statement,
    Writes,
)
from harness.protocols.runs import INVOKED, OK

DIED: Final = "the checker's process died, killed or out of memory"


class WorkerDied(HarnessFailure):
    """A process that was judging is gone: killed, or out of memory."""


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


Document = dict[str, Any]


@dataclass(frozen=True)
class Judged:
    """One run: its `result.json`, the Parquet files below `findings/` by the name of their check
    (what an earlier check found goes), why its lost writes were lost by the files' names, and the
    same of its cells by their names. Of a run that is `refused`, since its evidence cannot be read,
    this only replaces what an earlier check wrote."""

    document: Document
    findings: Mapping[str, bytes] = field(default_factory=dict)
    explanations: Mapping[str, bytes] = field(default_factory=dict)
    cells: Mapping[str, Judged] = field(default_factory=dict)
    refused: HistoryError | None = None

    def write(self, rundir: RunDir) -> Document:
        """Write it into the run's folder, the verdict last. Raises EnvironmentFailure, and why the
        run is refused."""
        return self._written(partial(self._write, rundir), rundir.result.exists)

    def _write(self, rundir: RunDir) -> None:
        for name, cell in self.cells.items():
            cell._write(rundir.cell(name))
        for path in rundir.findings.glob("*.parquet"):
            if path.stem not in self.findings:
                _store(path, None)
        for check, content in self.findings.items():
            _store(rundir.findings_of(check), content)
        for path in (rundir.explanations, rundir.chains):
            _store(path, self.explanations.get(path.name))
        rundir.write_json(rundir.result, self.document)

    def send(self, run: RemoteRun) -> Document:
        """Write it where the run is, as `write` does."""
        name = RunDir(Path()).result.as_posix()
        return self._written(partial(self._send, run), partial(run.folder.has, name))

    def _send(self, run: RemoteRun) -> None:
        files = dict(self._files(RunDir(Path())))
        for name in run.findings:
            if name not in files:
                run.folder.remove(name)
        for name, content in files.items():
            run.folder.write(name, content)

    def _written(self, write: Callable[[], None], judged_before: Callable[[], bool]) -> Document:
        if self.refused is None:
            write()
            return self.document
        with suppress(EnvironmentFailure):  # that the evidence is damaged is the greater trouble
            if judged_before():
                write()
        raise self.refused

    def _files(self, rundir: RunDir) -> Iterator[tuple[str, bytes]]:
        """The files by their names below the folder of the run, the verdict last."""
        for name, cell in self.cells.items():
            yield from cell._files(rundir.cell(name))
        for check, content in self.findings.items():
            yield rundir.findings_of(check).as_posix(), content
        for name, content in self.explanations.items():
            yield (rundir.path / name).as_posix(), content
        body = orjson.dumps(self.document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
        yield rundir.result.as_posix(), body + b"\n"


def fault_document(window: FaultWindow, *, ops_begun: int, ops_acknowledged: int) -> Document:
    """A fault as result.json has it, with what was counted while it was in force."""
    window_only = {name: value for name, value in asdict(window).items() if name != "why"}
    return {**window_only, "ops_begun": ops_begun, "ops_acknowledged": ops_acknowledged}


def _store(path: Path, content: bytes | None) -> None:
    """Write what a check found, or remove what an earlier one found."""
    with disk_errors("cannot write what was found", path):
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(exist_ok=True)
            replace_file(path, content)
