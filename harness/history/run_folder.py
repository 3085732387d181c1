"""The folder of a run: the only place where its file names are defined.

    plan.json  run.json  faults.jsonl  manifest.json
    result.json  report.html  lost.csv  timeline.png
    history/part-*.parquet  reads/part-*.parquet  reads/ends.parquet
    observations/part-*.parquet  ballast/part-*.parquet  deliveries/part-*.parquet
    findings/*.parquet  metrics.parquet
    explanations.parquet  explanations.json
    nodes/<node>/*.log  clients/client-<n>.log

A run with cells has no history of its own; each of its cells is a run folder of the same kind:

    cells/<name>/plan.json  cells/<name>/run.json  cells/<name>/history/part-*.parquet ...
    plan.json  run.json  faults.jsonl  nodes/<node>/*.log  manifest.json  result.json  report.html
    cells.csv

Files are written under a dot name, fsynced and renamed, so a reader never sees half a file, and a
crash keeps what was done.
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import orjson

from harness.errors import EnvironmentFailure, HistoryError, TooNewError, disk_errors
from harness.machine.files import replace_file

SCHEMA_VERSION = 1
CELLS: Final = "cells"
"""Where a run has the folders of its cells."""


_RUN_ID: Final = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")


def new_run_id() -> str:
    """A fresh slug such as `20260102-030405-a3f901`: sorts by time, never holds a plan's name."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def cell_id(run_id: str, cell: str) -> str:
    """The run id of a cell: those of runs hold no dot."""
    return f"{run_id}.{cell}"


def parts_of(run_id: str) -> tuple[str, str]:
    """The run, and the cell in it; empty for a run without cells."""
    run, _, cell = run_id.partition(".")
    return run, cell


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file of a run folder (`replace_file`). Raises EnvironmentFailure."""
    with disk_errors("cannot write the run folder", path):
        replace_file(path, content)


@dataclass(frozen=True)
class Inside:
    """A path inside a folder that is known by its `path`."""

    name: str

    def __get__(self, folder: Any, _: object = None) -> Path:
        return Path(folder.path, self.name)


@dataclass(frozen=True)
class RunDir:
    """One run's folder, and the paths inside it."""

    path: Path

    plan = Inside("plan.json")
    run = Inside("run.json")
    faults = Inside("faults.jsonl")
    manifest = Inside("manifest.json")
    result = Inside("result.json")
    report = Inside("report.html")
    history = Inside("history")
    reads = Inside("reads")
    ends = Inside("reads/ends.parquet")
    observations = Inside("observations")
    ballast = Inside("ballast")
    """Who led the partitions that only weigh on the cluster, as observations; absent if there are
    none. Each row is a change since the node's answer before, one without a partition an answer."""
    metrics = Inside("metrics.parquet")
    """What nodes reported of themselves (`harness.history.metrics`); absent if they did not."""
    deliveries = Inside("deliveries")
    """What the consumers of a group did; absent if there are none."""
    findings = Inside("findings")
    loss = Inside("findings/loss.parquet")
    """What the loss checker found."""
    explanations = Inside("explanations.parquet")
    """Why each lost write was lost, a row each; absent where none was."""
    chains = Inside("explanations.json")
    """The events that lost them, each with its chain of facts."""
    lost_csv = Inside("lost.csv")
    figure = Inside("timeline.png")
    clients = Inside("clients")
    """The logs of clients that are processes of the user's; absent if there are none."""
    cells_path = Inside(CELLS)
    """The folder of the cells' folders; absent where the plan has no cells."""
    cells_csv = Inside("cells.csv")
    junit = Inside("junit.xml")
    """The cells as test cases."""

    @classmethod
    def create(cls, parent: Path, run_id: str) -> RunDir:
        """Make the folder of a new run. Raises EnvironmentFailure if it exists or cannot be
        created."""
        folder = parent / run_id
        hint = "choose a writable folder with --out"
        with disk_errors("cannot make the run folder", folder, hint=hint):
            try:
                folder.mkdir(parents=True)
            except FileExistsError as error:
                raise EnvironmentFailure(
                    "this run folder exists already", file=str(folder), hint="choose another --out"
                ) from error
            for name in ("history", "reads", "observations", "findings", "nodes"):
                (folder / name).mkdir()
        return cls(folder)

    @classmethod
    def open(cls, path: Path) -> RunDir:
        """The folder of an existing run. Raises HistoryError if it is not one."""
        if not (path / "run.json").is_file():
            raise HistoryError(
                "not a run folder: run.json is missing",
                file=str(path),
                hint="name a folder that `ackloss run` has made",
            )
        return cls(path)

    @property
    def run_id(self) -> str:
        """The run's; for a cell in its run's folder that of the run, a dot and the cell's name."""
        run = self.of_run
        return self.path.name if run is self else cell_id(run.path.name, self.path.name)

    @property
    def of_run(self) -> RunDir:
        """The folder of the run, of a cell inside it: cells share its nodes."""
        above = self.path.parent  # a user may give a folder of runs the name of that of cells
        in_cells = above.name == CELLS and not _RUN_ID.fullmatch(self.path.name)
        return RunDir(above.parent) if in_cells else self

    def findings_of(self, check: str) -> Path:
        """What a check found, one row each; absent when it found nothing."""
        return self.findings / f"{check}.parquet"

    def node(self, name: str) -> Path:
        return self.path / "nodes" / name

    def cell(self, name: str) -> RunDir:
        """The folder of a cell, which may be missing."""
        return RunDir(self.cells_path / name)

    def cell_names(self) -> tuple[str, ...]:
        """The cells that the run was to have, by its run.json; none for a run without cells. Raises
        HistoryError."""
        cells = self.read_json(self.run).get("cells") or []
        try:
            return tuple(str(each["name"]) for each in cells)
        except (KeyError, TypeError) as error:
            raise HistoryError(
                "is not a list of cells as ackloss writes it", file=str(self.run), key="cells"
            ) from error

    def cells(self) -> list[RunDir]:
        """The cells of the run that are there, in the order of the plan: one without `[[cells]]` is
        the only cell of itself. Raises HistoryError."""
        if not (names := self.cell_names()):
            return [self]
        found = map(self.cell, names)
        return [folder for folder in found if folder.run.is_file()]

    def with_cells(self) -> list[RunDir]:
        """The folders below `cells/`, whether or not their documents can be read, then its own."""
        inner = sorted(path for path in self.cells_path.glob("*") if path.is_dir())
        return [*map(RunDir, inner), self]

    def logs(self) -> list[Path]:
        """The log files of all nodes, by node and name: those of its run for a cell in its run's
        folder."""
        return sorted(self.of_run.path.glob("nodes/*/*.log"))

    def parts(self, folder: Path) -> list[Path]:
        """The finished Parquet parts of `history`, `reads` or `observations`, in order."""
        try:
            names = os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError, PermissionError):  # as of a pattern
            return []
        parts = (name for name in names if name.startswith("part-") and name.endswith(".parquet"))
        return [folder / name for name in sorted(parts)]

    def read_json(self, path: Path) -> dict[str, Any]:
        """One of this run's JSON documents. Raises HistoryError: absent, broken, or too new."""
        try:
            document = orjson.loads(path.read_bytes())
        except FileNotFoundError as error:
            raise HistoryError("this run has no such document", file=str(path)) from error
        except (OSError, orjson.JSONDecodeError) as error:
            raise HistoryError(f"cannot be read: {error}", file=str(path)) from error
        if not isinstance(document, dict):
            raise HistoryError("is not a JSON object", file=str(path))
        schema = document.get("schema")
        if schema != SCHEMA_VERSION:
            newer = isinstance(schema, int) and schema > SCHEMA_VERSION
            raise (TooNewError if newer else HistoryError)(
                f"has schema {schema!r}, this ackloss reads {SCHEMA_VERSION}",
                file=str(path),
                key="schema",
                hint="use the ackloss that wrote it, or a newer one",
            )
        return document

    def write_json(self, path: Path, document: dict[str, Any]) -> None:
        """Write one of this run's JSON documents, completely or not at all."""
        body = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
        write_atomically(path, body + b"\n")
