"""`ackloss.run`: one run of a plan, judged."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ackloss.stored import Run, notebook

if TYPE_CHECKING:
    from harness.run.interrupts import Interrupts
    from harness.run.resolving import ResolvedPlan
    from harness.run.runner import Status

PathLike = str | os.PathLike[str]


def run(
    plan: PathLike,
    *,
    set: Mapping[str, object] | None = None,
    out: PathLike = "runs",
    seed: int | None = None,
    client: str | None = None,
    cluster: PathLike | None = None,
    force: bool = False,
    keep_cluster: bool = False,
) -> Run:
    """Run a plan as `ackloss run` does, judge it, and return it. Takes as long as the plan says.

    `plan` is a file, or the name of a plan that comes with ackloss. `set` changes keys of the plan:
    TOML dotted keys and Python values, applied in order, as in
    `{"target.version": "3.9.2", 'topic.settings."min.insync.replicas"': 2}`. `seed` overrides the
    plan's. `out` is the folder in which the run's folder is made. `client` is the command line of a
    client of your own, for plans with `workload.client = "exec"` (docs/how-to/any-client.md).
    `cluster` is the file of a cluster of your own (docs/how-to/external.md); keys of the plan that
    are not used there are reported as warnings. `force` also runs settings that the version does
    not support. `keep_cluster` leaves the cluster up for `ackloss clean --kept`.

    What dead runs left on this machine is removed first. Ctrl-C stops the run and undoes all that
    it began, where this is called in the main thread. No page is written: `Run.report` does. In a
    notebook a line shows what is being done; it goes when the run is over.

    Raises PlanError before anything is started, EnvironmentFailure when this machine lacks
    something, HarnessFailure when the cluster did not come up, Interrupted after Ctrl-C.
    """
    from checkers.judging.one_run import judge_run
    from harness.history.run_folder import new_run_id
    from harness.run.runner import RunOptions, clean_before, require, run_plan

    changes, folder = dict(set or {}), Path(out)
    theirs = Path(cluster) if cluster is not None else None
    resolved = _resolved(Path(plan), changes, seed, client=client, cluster=theirs, force=force)
    clean_before(resolved.provider, lambda _: None)
    require(resolved.provider, resolved.order, runs=folder)
    with _interrupts() as interrupts, _progress() as status:
        how = RunOptions(
            status=status,
            run_id=new_run_id(),
            folder=folder,
            interrupts=interrupts,
            keep_cluster=keep_cluster,
            command=_command(Path(plan), changes, client, theirs, force=force),
            plan_file=str(plan),
        )
        rundir = run_plan(resolved, how)
        with interrupts.repeatable(rundir):
            judge_run(rundir)
    return Run(rundir.path)


def _resolved(
    plan: Path,
    changes: Mapping[str, object],
    seed: int | None,
    *,
    client: str | None,
    cluster: Path | None,
    force: bool,
) -> ResolvedPlan:
    """The plan with its changes and its plug-ins. Raises PlanError."""
    from harness.errors import PlanError
    from harness.plan import parse_plan, read_plan
    from harness.plan.parsing import dotted_parts, keys_set, set_key
    from harness.plan.shipped import PLANS, find
    from harness.run.by_hand import refuse_manual
    from harness.run.client_process import client_command
    from harness.run.resolving import Place, on_cluster, refuse_unsupported, resolve, with_client
    from harness.wrong_values import dotted

    document, sets = read_plan(find(PLANS, plan)), list[str]()
    try:
        for key, value in changes.items():
            set_key(document, parts := dotted_parts(key), value)
            sets += map(dotted, keys_set(document, parts, value))
    except PlanError as error:
        error.file = str(plan)
        raise
    if sets:
        document.setdefault("yours", {})["set"] = sets
    if seed is not None:
        document["seed"] = seed
    place: Place | None = None
    if cluster is not None:
        document, place, ignored = on_cluster(document, cluster, file=str(plan))
        for sentence in ignored:
            warnings.warn(f"{plan}: {sentence}", stacklevel=3)
    resolved = resolve(parse_plan(document, file=str(plan)), file=str(plan), place=place)
    resolved = with_client(resolved, client_command(client), file=str(plan))
    refuse_unsupported(resolved, file=str(plan), force=force)
    refuse_manual(resolved)
    return resolved


def _command(
    plan: Path,
    changes: Mapping[str, object],
    client: str | None,
    cluster: Path | None,
    *,
    force: bool,
) -> list[str]:
    """The command that runs the same plan from a shell, without the seed, as `ackloss run` notes
    it."""
    from harness.plan.parsing import change_of

    sets = [word for key, value in changes.items() for word in ("--set", change_of(key, value))]
    sets += ["--client", client] if client is not None else []
    sets += ["--cluster", str(cluster)] if cluster is not None else []
    return ["ackloss", "run", str(plan), *sets, *(["--force"] if force else [])]


@contextmanager
def _progress() -> Iterator[Status]:
    """The status of a run, shown in a notebook: the phase, how long it has taken, and the load."""
    from harness.run.recorder import Live
    from harness.run.runner import Status

    status = Status()
    if notebook() is None:
        yield status
        return
    from IPython.display import display

    shown = display({"text/plain": ""}, raw=True, display_id=True)  # type: ignore[no-untyped-call]
    begun_s, over = time.monotonic(), threading.Event()

    def show(text: str) -> None:
        shown.update({"text/plain": text}, raw=True)

    def follow() -> None:
        while not over.wait(1):
            load = Live.of_all(recorder.live() for recorder in status.recorders)
            counted = f", {load.attempted:,} attempted, {load.ok:,} acknowledged"
            show(
                f"{status.phase}, {time.monotonic() - begun_s:.0f} s"
                + (counted if status.recorders else "")
            )

    thread = threading.Thread(target=follow, name="progress", daemon=True)
    thread.start()
    try:
        yield status
    finally:
        over.set()
        thread.join()
        show("")


@contextmanager
def _interrupts() -> Iterator[Interrupts]:
    """Signals stop the run in the main thread; in another thread Python delivers none."""
    from harness.run.interrupts import Interrupts

    interrupts = Interrupts()
    if threading.current_thread() is threading.main_thread():
        with interrupts:
            yield interrupts
    else:
        yield interrupts
