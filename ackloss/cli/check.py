"""`ackloss check`: judges stored runs again, or histories of other tools."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from ackloss.cli.options import PathOrUrl, key_and_value
from ackloss.cli.output import Output, with_output
from ackloss.cli.results import merged_exit_code, print_verdict
from harness.errors import AcklossError
from harness.machine.files import scratch
from harness.urls import is_url

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

    from ackloss.session import Session
    from checkers.judging.many_runs import Stored

_PATH = click.Path(exists=True, allow_dash=True, path_type=Path)


@click.command()
@click.argument("runs", nargs=-1, type=PathOrUrl())
@click.option(
    "--history",
    "histories",
    multiple=True,
    type=_PATH,
    help="JSON, EDN, a folder of Jepsen's store, or - (repeatable).",
)
@click.option("--checker", default="loss", show_default=True, help="The checker for --history.")
@click.option("--option", "options", multiple=True, metavar="K=V", help="The checker's options.")
@click.option("--master", help="Spark's master; for many runs local[*] (docs/how-to/scale.md).")
@click.option(
    "--conf", "conf", multiple=True, metavar="K=V", help="Any Spark setting (repeatable)."
)
@with_output
def check(
    out: Output,
    runs: tuple[str, ...],
    histories: tuple[Path, ...],
    checker: str,
    options: tuple[str, ...],
    master: str | None,
    conf: tuple[str, ...],
) -> None:
    """Judge RUNS (the folder of a run, of several runs or of a campaign; a path or a URL such as
    s3://bucket/folder) or --history files: fewer than 1,000 by processes of this machine, more
    by Spark, which --master and --conf start for any number.

    Needs no cluster. The exit code is 4 if any input was bad (the others are still checked), else 5
    or 6 if judging one failed, else 1 if any is invalid, else 3 if any is unknown, else 0.
    """
    if bool(runs) == bool(histories):
        raise click.UsageError("name either run folders, or histories with --history")
    from ackloss.session import Session

    errors: list[AcklossError] = []
    settings = dict(key_and_value("--conf", text) for text in conf)
    given = dict(key_and_value("--option", text) for text in options)
    session = Session(master=master, conf=settings)
    with _processes([*runs, *map(str, histories)], session) as processes:
        if runs:
            stored = _stored(runs, out, errors)
            results = session.judge(stored, errors=errors, processes=processes)
        else:
            results = _check_histories(histories, checker, given, session, processes, errors)
    if not results and len(errors) == 1:
        raise errors[0]
    for error in errors:
        out.error(error)
    for result in results:
        print_verdict(out, result)
    single = len(results) == 1 and len(runs) + len(histories) == 1
    out.document(results[0] if single else {"schema": 1, "results": results})
    sys.exit(merged_exit_code([result["verdict"] for result in results], errors=errors))


@contextmanager
def _processes(inputs: Sequence[str], session: Session) -> Iterator[ProcessPoolExecutor | None]:
    """Those that are started to get ready while this one looks for what they are to judge, only one
    for one run or one file; none where Spark judges."""
    from checkers.judging.processes import pool_of, start

    if session.by_spark:
        yield None
        return
    with pool_of(1 if len(inputs) == 1 and _is_one(inputs[0]) else None) as processes:
        start(processes)
        yield processes


def _is_one(given: str) -> bool:
    """Whether an input is known to be one file, or the folder of one run."""
    path = None if is_url(given) else Path(given)
    with suppress(OSError):  # what cannot be read is reported by who judges it
        return path is not None and (path.is_file() or (path / "run.json").is_file())
    return False


def _stored(paths: Sequence[str], out: Output, errors: list[AcklossError]) -> list[Stored]:
    """The runs in these folders, each once; what is wrong with a folder is one of `errors`."""
    from harness.campaigns.folder import stored_runs

    runs: dict[str, Stored] = {}  # by their place: `runs/` and `runs/x` name one of them twice
    for given in paths:
        try:
            found = stored_runs(given)
        except AcklossError as error:
            errors.append(error)
            continue
        runs.update((_place(run), run) for run in found.runs)
        if number := found.without_history:
            have = "run has" if number == 1 else "runs have"
            out.progress(f"{number:,} {have} no history and cannot be judged: {given}")
    return [*runs.values()]


def _place(run: Stored) -> str:
    from harness.history.run_folder import RunDir

    return str(run.path.resolve()) if isinstance(run, RunDir) else run.folder.url


def _check_histories(
    paths: Sequence[Path],
    checker: str,
    options: dict[str, str],
    session: Session,
    processes: ProcessPoolExecutor | None,
    errors: list[AcklossError],
) -> list[dict[str, Any]]:
    with scratch() as folder:  # for standard input, which other processes cannot read
        stdin = Path(folder) / "stdin"
        if Path("-") in paths:
            with stdin.open("wb") as copy:
                shutil.copyfileobj(sys.stdin.buffer, copy)
        files = [stdin if path == Path("-") else path for path in paths]
        results = session.judge_histories(files, checker, options, errors, processes)
    for error in errors:
        error.file = error.file and error.file.replace(str(stdin), "-")
    return results
