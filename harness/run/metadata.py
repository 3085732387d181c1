"""run.json: what this run is, in what state, on what; rewritten completely whenever it changes.

A run with cells has one, and each of its cells has another that says all of it, so that the folder
of a cell can be judged and moved by itself: what is noted for the run is noted for its cells.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from harness import __version__, failures
from harness.errors import EnvironmentFailure, Interrupted
from harness.history.documents import RunProcess
from harness.history.manifest import write_manifest
from harness.history.run_folder import SCHEMA_VERSION, RunDir, cell_id
from harness.plan import Plan
from harness.plan.parsing import checkout
from harness.protocols import FAILED, Unsupported


@dataclass
class RunMetadata:
    """The document of one run; `state` goes preparing, running, reading, done, or else
    interrupted or failed."""

    rundir: RunDir
    document: dict[str, Any] = field(default_factory=dict)
    cells: list[RunMetadata] = field(default_factory=list)
    of_cells: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What is known of a cell before it begins, by its name."""

    @classmethod
    def begin(
        cls,
        rundir: RunDir,
        plan: Plan,
        *,
        command: list[str],
        file: str,
        simulated: bool = False,
        forced: Iterable[Unsupported] = (),
    ) -> RunMetadata:
        """Write plan.json and the first run.json. `forced`: what its version does not honour;
        `simulated`: nothing real is tested."""
        rundir.write_json(rundir.plan, plan.document())
        record = cls(rundir)
        record.update(
            schema=SCHEMA_VERSION,
            run_id=rundir.run_id,
            state="preparing",
            manifest=True,
            simulated=simulated,
            wall_time=None,
            seed=plan.seed,
            plan_file=file,
            plan_digest=plan.digest(),
            command=command,
            versions={"ackloss": __version__, "commit": commit(checkout())},
            timings={},
            warnings=[],
            forced=[{"key": each.key, "what": each.what, "source": each.source} for each in forced],
            yours=plan.yours.model_dump(mode="json"),
            error=None,
            process=asdict(RunProcess.own()),
        )
        return record

    def begin_cell(self, name: str, plan: Plan, *, overrides: Mapping[str, Any]) -> RunMetadata:
        """Make the folder of a cell of this run, with its plan.json and its first run.json."""
        rundir, overrides = RunDir.create(self.rundir.cells_path, name), dict(overrides)
        rundir.write_json(rundir.plan, plan.document())
        cell = RunMetadata(rundir, {k: v for k, v in self.document.items() if k != "cells"})
        cell.update(
            run_id=cell_id(self.document["run_id"], name),
            plan_digest=plan.digest(),
            cell={"run_id": self.document["run_id"], "name": name, "overrides": overrides},
            **self.of_cells.get(name, {}),
        )
        listed = [*self.document.get("cells", []), {"name": name, "overrides": overrides}]
        self._write(cells=listed)
        self.cells.append(cell)
        return cell

    def update(self, **fields: Any) -> None:
        """Set fields and write the document, and those of its cells."""
        self._write(**fields)
        for cell in self.cells:
            if not cell.has_failed:
                cell.update(**fields)

    def _write(self, **fields: Any) -> None:
        self.document |= fields
        self.rundir.write_json(self.rundir.run, self.document)

    @property
    def has_failed(self) -> bool:
        """Whether this run, or this cell alone, has failed: how it did stays as it is."""
        return bool(self.document.get("state") == FAILED)

    def finish(self) -> None:
        """Note that the run is done, then write the manifest of all that it has left.

        In this order: the manifest covers run.json too, and a run that is killed before its last
        file is there has no manifest, which `"manifest": true` in run.json makes detectable. Cells
        come first, as the run's manifest names theirs.
        """
        for cell in self.cells:
            cell.document["timings"] = self.document["timings"]
            cell.finish()
        if not self.has_failed:
            self._write(state="done")
        write_manifest(self.rundir, self.document["run_id"])

    def fail(self, error: Exception) -> None:
        """Note that the run has failed; or a cell alone, and the run continues."""
        self._end(state=FAILED, error=failures.reason(error))

    def copy_journal(self) -> None:
        """Give each cell a copy of the run's journal of faults."""
        for cell in self.cells if self.rundir.faults.exists() else ():
            shutil.copyfile(self.rundir.faults, cell.rundir.faults)

    def warn(self, *sentences: str) -> None:
        """Add warnings, to the cells' too, and write the document."""
        if sentences:
            self._write(warnings=[*self.document["warnings"], *sentences])
        for cell in self.cells:
            cell.warn(*sentences)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Note how long a phase took, under `timings`; added to what is already there."""
        begun, before_s = time.monotonic(), self.document["timings"].get(name, 0)
        try:
            yield
        finally:
            took_s = round(before_s + time.monotonic() - begun, 3)
            self.document["timings"] = {**self.document["timings"], name: took_s}

    @contextmanager
    def outcome(self) -> Iterator[None]:
        """Note how the run ended, whatever happens inside."""
        try:
            yield
        except Interrupted as error:
            folder = self.rundir.path
            error.hint = f"what was recorded is kept: `ackloss check {folder}` judges it"
            self._end(state="interrupted")
            raise
        except Exception as error:
            self.fail(error)
            raise

    def _end(self, **fields: Any) -> None:
        with suppress(EnvironmentFailure):  # a full disk does not hide what went wrong
            self.update(**fields)


def client_versions(writer: str, first: str, *others: str) -> dict[str, str]:
    """What wrote, and what read or would have read, with their installed versions."""
    second = ", ".join(map(_named, others))
    return {"client": writer, "reader": _named(first), "second_reader": second}


def _named(reader: str) -> str:
    """A reader with its installed version; by its name alone where it is not a package."""
    try:
        return f"{reader} {installed(reader)}"
    except (PackageNotFoundError, ValueError):
        return reader


def commit(root: Path | None) -> str | None:
    """The commit of ackloss' own checkout at `root`; `None` if there is none.

    `root` must be the root of the repository: a user's repository may hold a copy of ackloss, and
    its commits say nothing about the code that ran.
    """
    if root is None or (top := _git(root, "rev-parse", "--show-toplevel")) is None:
        return None
    return _git(root, "rev-parse", "HEAD") if Path(top).resolve() == root.resolve() else None


def _git(root: Path, *words: str) -> str | None:
    """What git prints in this folder; `None` where it fails. Variables of a git command that calls
    us, such as GIT_DIR in a hook, would point it at another repository."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
            env=env,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
