"""The result of judging a run, before it is written: a document, and the findings.

A worker that judges on another machine hands this back, and the process that requested it writes:
into the run's folder here, or at the URL where the run was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import EnvironmentFailure, HistoryError
from harness.history.parquet_writer import COMPRESSION
from harness.history.remote_run import RemoteRun
from harness.history.run_folder import RunDir
from harness.machine.files import replace_file
from harness.protocols import FaultWindow

Document = dict[str, Any]


@dataclass(frozen=True)
class Judged:
    """One run: its `result.json`, the Parquet files below `findings/` by the name of their check
    (what an earlier check found goes), and the same of its cells by their names. Of a run that is
    `refused`, since its evidence cannot be read, this only replaces what an earlier check wrote."""

    document: Document
    findings: Mapping[str, bytes] = field(default_factory=dict)
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
        body = orjson.dumps(self.document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
        yield rundir.result.as_posix(), body + b"\n"


def fault_document(window: FaultWindow, *, ops_begun: int, ops_acknowledged: int) -> Document:
    """A fault as result.json has it, with what was counted while it was in force."""
    window_only = {name: value for name, value in asdict(window).items() if name != "why"}
    return {**window_only, "ops_begun": ops_begun, "ops_acknowledged": ops_acknowledged}


def packed(findings: pa.Table | None) -> bytes:
    """Findings as the content of a Parquet file, empty if there are none."""
    if findings is None or not findings.num_rows:
        return b""
    sink = pa.BufferOutputStream()
    pq.write_table(findings, sink, compression=COMPRESSION)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _store(path: Path, content: bytes | None) -> None:
    """Write what a check found, or remove what an earlier one found."""
    try:
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(exist_ok=True)
            replace_file(path, content)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write what was found: {error.strerror or error}", file=str(path)
        ) from error
