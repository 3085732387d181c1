"""The front door: a session resolves plans, runs and judges them, and reports what is stored.

    session = Session(folder=Path("runs"))
    plan, changes = Path("memory/log"), ["workload.rate_per_s=500"]
    resolved = session.resolve(plan, changes)
    rundir, result = session.run(resolved, plan=plan, command=session.command(plan, changes))

The command line and the functions `ackloss.run` and `ackloss.check` are made of it. How a run is
shown while it lasts, and where remarks go, is the caller's to say. The import takes no library.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import PlanError

if TYPE_CHECKING:
    from ackloss.stored import Run
    from harness.history.documents import RunResult
    from harness.history.remote_run import RemoteRun
    from harness.history.run_folder import RunDir
    from harness.run.interrupts import Interrupts
    from harness.run.own_settings import OwnSettings
    from harness.run.resolving import ResolvedPlan
    from harness.run.runner import Status

PathLike = str | os.PathLike[str]
Document = dict[str, Any]
Watching = Callable[["ResolvedPlan", str, "Status"], AbstractContextManager[object]]
"""Shows a run, which has this id, while it lasts."""


@dataclass(frozen=True, kw_only=True)
class Session:
    """What the user names besides plans: where runs are made, and on what; their clients, settings
    files and hosts, which no plan may name; and who judges.

    `folder`: of run folders. `client`: the command line of the user's own client. `inventory`,
    `cluster`: the file of hosts, or of a cluster that the user runs. `own`: settings files.
    `force`: settings that a version does not support are run all the same. `master`: Spark's, which
    judges where it is named. `say`: takes each remark.
    """

    folder: Path = Path("runs")
    client: str | None = None
    inventory: Path | None = None
    cluster: Path | None = None
    own: OwnSettings | None = None
    force: bool = False
    keep_cluster: bool = False
    master: str | None = None
    say: Callable[[str], None] = lambda _: None
    watching: Watching = lambda *_: nullcontext()

    def resolve(
        self, plan: Path, changes: Sequence[str] = (), seed: int | None = None, *, run: bool = True
    ) -> ResolvedPlan:
        """Read a plan, a file or a shipped one, apply the changes (`KEY=VALUE`), validate it, and
        find its plug-ins, on the hosts or the cluster of this session; what of the plan is ignored
        there is a remark. `run`: with the clients that a run takes. Raises PlanError."""
        from harness.plan import parse_plan, read_plan
        from harness.plan.parsing import PLANS, find
        from harness.run.client_process import client_command
        from harness.run.own_settings import blaming, lengthened
        from harness.run.resolving import (
            HOSTS,
            Place,
            on_cluster,
            refuse_unsupported,
            resolve,
            with_client,
        )

        file, document = str(plan), read_plan(find(PLANS, plan), changes)
        if seed is not None:
            document["seed"] = seed
        if self.inventory is not None:
            document["cluster"] = {"kind": HOSTS}
        place: Place | None = None
        if self.cluster is not None:
            document, place, ignored = on_cluster(document, self.cluster, file=file)
            for sentence in ignored:
                self.say(f"{file}: {sentence}")
        if self.own:
            document = lengthened(self.own.applied(document))
        with blaming(document):
            resolved = resolve(
                parse_plan(document, file=file), file=file, inventory=self.inventory, place=place
            )
            refuse_unsupported(resolved, file=file, force=self.force)
        if not run:
            return resolved
        command = None if self.client is None else client_command(self.client)
        return with_client(resolved, command, file=file)

    def command(self, plan: Path, changes: Sequence[str] = (), **files: Path | None) -> list[str]:
        """The command that runs a plan again, without options that only affect the output."""
        places = {"inventory": self.inventory, "cluster": self.cluster, **files}
        own = self.own.files if self.own else {}
        named = {**own, **{name: path for name, path in places.items() if path is not None}}
        return [
            *("ackloss", "run", str(plan)),
            *(word for change in changes for word in ("--set", change)),
            *(word for name, path in named.items() for word in (f"--{name}", str(path))),
            *(("--client", self.client) if self.client is not None else ()),
            *(("--force",) if self.force else ()),
            *(self.own.flags if self.own else ()),
        ]

    def run(
        self, resolved: ResolvedPlan, *, plan: Path, command: list[str], page: bool = False
    ) -> tuple[RunDir, Document]:
        """Run a resolved plan and judge it, with its page or without; its folder and the result.
        What dead runs left on this machine is removed first. Raises EnvironmentFailure when this
        machine lacks something, HarnessFailure when the cluster did not come up, Interrupted."""
        from harness.history.run_folder import new_run_id
        from harness.run.runner import RunOptions, Status, clean_before, require, run_plan

        run_id, status = new_run_id(), Status()
        clean_before(resolved.provider, self.say)
        require(resolved.provider, resolved.order, runs=self.folder)
        if page:
            import reports.page  # noqa: F401  # takes a second: not when the run is over
        with _interrupts(self.say) as interrupts, self.watching(resolved, run_id, status):
            how = RunOptions(
                run_id=run_id,
                folder=self.folder,
                interrupts=interrupts,
                status=status,
                keep_cluster=self.keep_cluster,
                command=command,
                plan_file=str(plan),
            )
            rundir = run_plan(resolved, how)
            with interrupts.repeatable(rundir):
                status.enter("checking")
                (result,) = self.judge([rundir])
                if page:
                    status.enter("writing the page")
                    begun_s = time.monotonic()
                    self.report(rundir.path)
                    result["timings"]["report_s"] = round(time.monotonic() - begun_s, 3)
                    rundir.write_json(rundir.result, result)
        interrupts.check()
        return rundir, result

    def judge(self, runs: Sequence[RunDir | RemoteRun]) -> list[Document]:
        """Judge stored runs as `check` does; the results that are written, in the order given."""
        from checkers.judging.many_runs import check_runs

        return check_runs(runs, master=self.master, here=True)

    def report(self, path: Path) -> Path:
        """Write the page of a stored run or campaign from its results; its path. What the page of a
        campaign cannot show is a remark."""
        from harness.campaigns.folder import CampaignDir
        from harness.history.run_folder import RunDir

        if (campaign := CampaignDir(path)).exists:
            from reports.campaign import write_campaign  # scipy takes a second

            return write_campaign(campaign, self.say)
        from reports.page import write_report

        return write_report(RunDir.open(path))


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
    from ackloss.stored import Run
    from harness.plan.parsing import change_of
    from harness.run.by_hand import refuse_manual

    session = Session(
        folder=Path(out),
        client=client,
        cluster=Path(cluster) if cluster is not None else None,
        force=force,
        keep_cluster=keep_cluster,
        watching=_progress,
    )
    file = Path(plan)
    try:
        changes = [change_of(key, value) for key, value in (set or {}).items()]
        resolved = replace(session, say=_warn).resolve(file, changes, seed)
    except PlanError as error:
        error.file = error.file or str(plan)
        raise
    refuse_manual(resolved)
    rundir, _ = session.run(resolved, plan=file, command=session.command(file, changes))
    return Run(rundir.path)


def _warn(remark: str) -> None:
    warnings.warn(remark, stacklevel=4)


def check(paths: Iterable[str | os.PathLike[str]], *, master: str | None = None) -> list[RunResult]:
    """Judge run folders, or all runs of folders of runs and of campaigns, as `ackloss check` does;
    needs no cluster. A path may be a URL, such as `s3://bucket/folder`. Writes each run's
    `result.json` and returns the results in the order given.

    The runs are judged one after another in this process. With `master`, such as `local[*]`, they
    are distributed by Spark, which needs Java and takes seconds to start: `ackloss check` starts
    it for 1,000 runs or more, and judges fewer by processes of this machine.

    Raises HistoryError for the first run that cannot be judged, after judging all others.
    """
    from harness.campaigns.folder import stored_runs
    from harness.history.documents import result_of

    runs = [run for path in paths for run in stored_runs(os.fspath(path)).runs]
    return [result_of(each) for each in Session(master=master).judge(runs)]


@contextmanager
def _progress(_plan: ResolvedPlan, _run_id: str, status: Status) -> Iterator[None]:
    """A line about a run while it lasts, in a notebook."""
    from ackloss.stored import notebook
    from harness.run.recorder import Live

    if notebook() is None:
        yield
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
        yield
    finally:
        over.set()
        thread.join()
        show("")


@contextmanager
def _interrupts(say: Callable[[str], None]) -> Iterator[Interrupts]:
    """Signals stop a run in the main thread; in another thread Python delivers none."""
    from harness.run.interrupts import Interrupts

    interrupts = Interrupts(say=say)
    if threading.current_thread() is threading.main_thread():
        with interrupts:
            yield interrupts
    else:
        yield interrupts
