"""The scheduler of a campaign, in virtual time: workers that answer, die, hang or break off.

Workers are simulated: each answers an assignment through a real pipe. The campaign, its folder, its
order and its journal are the real ones.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.campaigns import scheduler as scheduling
from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import (
    Entry,
    Journal,
    Progress,
    Run,
    RunBegun,
    RunDone,
    SessionBegun,
    SessionEnded,
    read_progress,
)
from harness.campaigns.loading import load_campaign
from harness.campaigns.scheduler import Scheduler, limit_of
from harness.campaigns.worker import Answer, Assignment, Built
from harness.errors import EnvironmentFailure, HarnessFailure
from harness.faults.journal import entries
from harness.plan import parse_plan
from targets.kafka.target import Kafka
from tests.fixtures.campaign_folder import AXES, BASE, OFF, ON
from tests.fixtures.virtual_time import S, VirtualTime

Behaviour = Callable[["Worker", Assignment], None]
"""What a worker does with an assignment."""


def answers(worker: Worker, assignment: Assignment, **how: Any) -> None:
    worker.theirs.send(Answer(assignment.run_id, 1.0, **(how or {"verdict": "valid"})))


def dies(worker: Worker, _: Assignment) -> None:
    worker.alive, worker.exitcode = False, -9
    worker.theirs.close()


def hangs(_: Worker, __: Assignment) -> None:
    pass


def fails(worker: Worker, assignment: Assignment) -> None:
    answers(worker, assignment, error="HarnessFailure: no room")


def breaks(worker: Worker, assignment: Assignment) -> None:
    answers(worker, assignment, error="its cluster was unusable", broken=True)


class Worker:
    """A worker's process and the pipe to it in one, with the behaviour of a test."""

    def __init__(self, number: int, behave: Behaviour) -> None:
        self.number, self._behave = number, behave
        self.ours, self.theirs = Pipe()
        self.assignments: list[Assignment] = []
        self.alive, self.exitcode = True, 0
        self.ended: list[str] = []

    def send(self, assignment: Assignment | None) -> None:
        if assignment is None:
            self.ended.append("reported to end")
            self.alive = False
            return
        self.assignments.append(assignment)
        self.theirs.send(Built(f"cluster-{self.number}"))
        self._behave(self, assignment)

    def fileno(self) -> int:
        return self.ours.fileno()

    def recv(self) -> Any:
        return self.ours.recv()

    def poll(self, timeout: float) -> bool:
        return self.ours.poll(timeout)

    def close(self) -> None:
        self.ours.close()

    def is_alive(self) -> bool:
        return self.alive

    def join(self, timeout: float | None = None) -> None:
        pass

    def terminate(self) -> None:
        self.ended.append("terminated")
        self.alive = False

    def kill(self) -> None:
        self.ended.append("killed")
        self.alive = False


class Outcome(NamedTuple):
    why: str
    workers: list[Worker]
    messages: list[str]
    after: list[str]
    removed: list[str]


HEAD = "repetitions = 3"


class Stage:
    """A campaign of two cells that can be run several times."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.folder: CampaignDir | None = None

    def make(self, head: str = HEAD, axes: str = AXES) -> CampaignDir:
        (self.path / "base.toml").write_text(BASE)
        file = self.path / "c.toml"
        file.write_text(f'schema = 1\nname = "c"\nplan = "base.toml"\n{head}\n{axes}')
        self.folder = CampaignDir.create(self.path / "campaign", load_campaign(file))
        return self.folder

    def run(
        self,
        *behaviour: Behaviour,
        workers: int = 1,
        stop: threading.Event | None = None,
        stop_after: int | None = None,
        **how: Any,
    ) -> Outcome:
        """Run it; the nth run that begins behaves as the nth of `behaviour`, further ones answer.
        `stop_after`: Ctrl-C when this many runs have ended. Reading the clock takes a second.
        """
        folder = self.folder or self.make()
        left = iter(behaviour)
        stop = stop or threading.Event()
        messages: list[str] = []
        after: list[str] = []
        removed: list[str] = []
        made: list[Worker] = []
        self.now_s = 0.0

        def start(number: int, _runs: Path, _judge: Any) -> tuple[Worker, Worker]:
            made.append(
                Worker(number, lambda worker, assignment: next(left, answers)(worker, assignment))
            )
            return made[-1], made[-1]

        def ended(run: Run, progress: Progress) -> None:
            assert progress == read_progress(folder.journal)
            assert progress.runs[run.run_id] == run
            after.append(run.run_id)
            if len(after) == stop_after:
                stop.set()

        def tick() -> float:
            self.now_s += 1
            return self.now_s

        scheduler = Scheduler(
            folder.campaign(),
            folder,
            lambda _: {},
            workers=workers,
            stop=stop,
            say=messages.append,
            after=ended,
            start=start,
            remove=removed.append,
            now_s=tick,
            tick_s=0,
            **how,
        )
        return Outcome(scheduler.run(), made, messages, after, removed)

    def lines(self, *kinds: str) -> list[dict[str, Any]]:
        assert self.folder is not None
        return [line for line in entries(self.folder.journal) if line["type"] in kinds]

    def states(self) -> Counter[str]:
        assert self.folder is not None
        return Counter(run.state for run in read_progress(self.folder.journal).runs.values())


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_every_run_of_every_cell_is_executed_and_journalled(stage: Stage) -> None:
    outcome = stage.run()
    assert outcome.why == "finished"
    begun = [(line["cell"], line["repetition"]) for line in stage.lines("begun")]
    assert begun == [(ON, 0), (OFF, 0), (ON, 1), (OFF, 1), (ON, 2), (OFF, 2)]
    assert [line["verdict"] for line in stage.lines("done")] == ["valid"] * 6
    assert outcome.after == [line["run_id"] for line in stage.lines("begun")]
    assert [line["type"] for line in stage.lines("begun", "done")] == ["begun", "done"] * 6
    assert [line["why"] for line in stage.lines("ended")] == ["finished"]
    assert {line["shared"] for line in stage.lines("begun")} == {None}
    assert not outcome.messages


def test_runs_of_one_repetition_have_one_seed_and_their_own_plan(stage: Stage) -> None:
    (worker,) = stage.run().workers
    assert stage.folder is not None
    campaign = stage.folder.campaign()
    seeds = [assignment.plan["seed"] for assignment in worker.assignments]
    assert seeds == [campaign.seed(number) for number in (0, 0, 1, 1, 2, 2)]
    unclean = [
        assignment.plan["topic"]["settings"]["unclean.leader.election.enable"]
        for assignment in worker.assignments
    ]
    assert unclean == [True, False] * 3
    assert all(parse_plan(assignment.plan) for assignment in worker.assignments)


def test_workers_without_further_runs_are_ended(stage: Stage) -> None:
    outcome = stage.run(workers=2)
    assert [worker.ended for worker in outcome.workers] == [["reported to end"]] * 2
    assert outcome.removed == ["cluster-1", "cluster-2"]  # whatever is left of them


@pytest.mark.parametrize(("workers", "made"), [(2, 2), (9, 6)])
def test_there_are_no_more_workers_than_runs(stage: Stage, workers: int, made: int) -> None:
    outcome = stage.run(workers=workers)
    assert len(outcome.workers) == made
    assert {line["worker"] for line in stage.lines("begun")} == set(range(1, made + 1))
    assert stage.states() == {"done": 6}


def test_a_worker_that_dies_is_replaced_and_its_run_has_failed(stage: Stage) -> None:
    outcome = stage.run(answers, dies)
    assert outcome.why == "finished"
    assert stage.states() == {"done": 5, "failed": 1}
    (failed,) = stage.lines("failed")
    assert [worker.number for worker in outcome.workers] == [1, 2]
    assert [len(worker.assignments) for worker in outcome.workers] == [2, 4]
    assert outcome.removed[0] == "cluster-1"
    assert outcome.workers[0].ours.closed
    assert outcome.after[1] == failed["run_id"]
    assert failed["error"] == "its worker died (exit code -9)"


def test_a_run_that_takes_too_long_has_failed_and_its_worker_is_ended(stage: Stage) -> None:
    stage.make(f"{HEAD}\nlimit_s = 50")
    outcome = stage.run(answers, answers, hangs)
    (failed,) = stage.lines("failed")
    assert failed["error"] == "it took longer than its limit of 50 s"
    assert stage.states() == {"done": 5, "failed": 1}
    assert [worker.ended for worker in outcome.workers] == [["terminated"], ["reported to end"]]
    assert outcome.removed[0] == "cluster-1"


def test_without_a_limit_in_the_campaign_the_plan_determines_it(stage: Stage) -> None:
    stage.run(hangs)
    (failed,) = stage.lines("failed")
    plan = parse_plan({"schema": 1, "name": "x", "workload": {"duration_s": 10}})
    assert failed["error"] == f"it took longer than its limit of {limit_of(plan):.0f} s"
    assert limit_of(plan) == 240 + 2 * (
        10 + plan.final.drain_s + plan.final.settle_s + plan.final.read_s
    )
    assert stage.now_s > limit_of(plan)


def test_a_run_that_was_judged_while_another_worker_was_ended_has_not_failed(stage: Stage) -> None:
    """Ending a worker that hangs takes up to 45 s, and by then its limit is over, too."""
    stage.make(f"{HEAD}\nlimit_s = 50")
    other: list[tuple[Worker, Assignment]] = []

    def hangs_long(worker: Worker, _: Assignment) -> None:
        def terminate() -> None:
            worker.alive = False
            stage.now_s += 45
            answers(*other[0])

        worker.terminate = terminate  # type: ignore[method-assign]

    def answers_later(worker: Worker, assignment: Assignment) -> None:
        other.append((worker, assignment))

    stage.run(hangs_long, answers_later, workers=2)
    assert stage.states() == {"done": 5, "failed": 1}
    (failed,) = stage.lines("failed")
    assert failed["run_id"] != other[0][1].run_id


def test_a_run_that_fails_is_not_repeated_and_the_worker_goes_on(stage: Stage) -> None:
    outcome = stage.run(fails)
    assert stage.states() == {"done": 5, "failed": 1}
    assert len(outcome.workers) == 1
    assert len(stage.lines("begun")) == 6
    assert stage.run().why == "finished"
    assert len(stage.lines("begun")) == 6


def test_six_failures_in_a_row_stop_the_campaign(stage: Stage) -> None:
    stage.make("repetitions = 5")
    with pytest.raises(HarnessFailure, match="6 runs in a row failed") as stopped:
        stage.run(*[fails] * 10)
    assert str(stage.folder and stage.folder.journal) in str(stopped.value)
    assert stage.states() == {"failed": 6}
    assert [line["why"] for line in stage.lines("ended")] == ["6 runs in a row failed: stopped"]


def test_failures_with_a_success_between_are_not_in_a_row(stage: Stage) -> None:
    stage.make("repetitions = 6")
    assert stage.run(*[fails] * 5, answers, *[dies] * 5, answers).why == "finished"
    assert stage.states() == {"done": 2, "failed": 10}


def test_a_run_that_broke_off_is_repeated_before_all_others(stage: Stage) -> None:
    stage.run(answers, breaks)
    begun = [(line["cell"], line["repetition"]) for line in stage.lines("begun")]
    assert begun[:4] == [(ON, 0), (OFF, 0), (OFF, 0), (ON, 1)]
    assert stage.states() == {"done": 6, "broken": 1}


def test_a_run_that_breaks_off_again_and_again_has_failed(stage: Stage) -> None:
    stage.run(*[breaks] * 4)
    assert [line["cell"] for line in stage.lines("begun")][:5] == [*[ON] * 4, OFF]
    assert stage.states() == {"done": 5, "broken": 3, "failed": 1}
    assert stage.lines("failed")[0]["error"] == "its cluster was unusable"


def test_the_repeats_of_each_run_are_counted_separately(stage: Stage) -> None:
    stage.run(*[breaks] * 3, answers, *[breaks] * 3, answers)
    assert stage.states() == {"done": 6, "broken": 6}


def test_a_budget_of_runs_ends_the_session_after_the_runs_that_began(stage: Stage) -> None:
    stage.make(f"{HEAD}\n[budget]\nruns = 3")
    assert stage.run(workers=2).why == "the budget of runs is spent"
    assert stage.states() == {"done": 3}
    assert stage.run().why == "the budget of runs is spent"  # of each session
    assert stage.states() == {"done": 6}


def test_a_budget_of_hours_ends_the_session(stage: Stage) -> None:
    stage.make(f"{HEAD}\n[budget]\nhours = 0.005")  # the clock is read 18 times
    assert stage.run().why == "the budget of hours is spent"
    assert 1 <= stage.states()["done"] < 6
    assert set(stage.states()) == {"done"}


def test_ctrl_c_ends_workers_at_once_and_their_runs_are_repeated(stage: Stage) -> None:
    outcome = stage.run(answers, hangs, workers=2, stop_after=3)
    assert outcome.why == "interrupted"
    assert stage.states() == {"done": 3, "broken": 1}
    (broken,) = stage.lines("broken")
    assert broken["why"] == "interrupted"
    assert [worker.ended for worker in outcome.workers] == [["terminated"]] * 2
    cut = [line for line in stage.lines("begun") if line["run_id"] == broken["run_id"]]

    assert stage.run().why == "finished"
    assert stage.states() == {"done": 6, "broken": 1}
    again = [line for line in stage.lines("begun") if line["cell"] == cut[0]["cell"]]
    assert sorted(line["repetition"] for line in again) == [0, 0, 1, 2]
    assert len(stage.lines("session")) == 2


def test_a_stop_before_the_first_run_begins_no_run(stage: Stage) -> None:
    stop = threading.Event()
    stop.set()
    assert stage.run(stop=stop).why == "interrupted"
    assert not stage.lines("begun")


def test_runs_of_a_process_that_was_killed_are_repeated(stage: Stage) -> None:
    folder = stage.make()
    journal = Journal(folder.journal)
    journal.write(SessionBegun(workers=1))
    for number, run_id in enumerate(("finished", "killed")):
        journal.write(RunBegun(cell=ON, repetition=number, run_id=run_id, worker=1))
    journal.write(RunDone(run_id="finished", verdict="valid", seconds=1))
    journal.close()
    stage.run()
    (broken,) = stage.lines("broken")
    assert (broken["run_id"], broken["why"]) == ("killed", "its process ended")
    begun = Counter((line["cell"], line["repetition"]) for line in stage.lines("begun"))
    assert begun == {**dict.fromkeys([(OFF, 0), (ON, 2), (OFF, 1), (OFF, 2), (ON, 0)], 1),
                     (ON, 1): 2}  # fmt: skip


def test_cells_that_lost_come_first_in_their_round(stage: Stage) -> None:
    stage.run(first=(OFF,))
    assert [line["cell"] for line in stage.lines("begun")] == [OFF, ON] * 3


def room(monkeypatch: pytest.MonkeyPatch, free_mb: Iterator[int]) -> None:
    class Usage(NamedTuple):
        free: int

    monkeypatch.setattr(
        scheduling.shutil, "disk_usage", lambda _: Usage(next(free_mb, 10**6) * 2**20)
    )


def test_no_run_begins_while_the_disk_is_nearly_full(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stage.make()
    room(monkeypatch, iter([1024, 1023, 7, 7]))
    outcome = stage.run()
    assert outcome.why == "finished"
    assert outcome.messages == [
        f"only 1023 MiB of disk are free: {folder.path}; waiting for 1024 MiB"
    ]
    assert stage.states() == {"done": 6}


def test_the_scheduler_waits_until_the_journal_can_be_written(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.make()
    full = iter([True, True])
    write = Journal.write

    def refusing(journal: Journal, entry: Entry) -> None:
        if isinstance(entry, RunBegun) and next(full, False):
            raise EnvironmentFailure("cannot write the campaign's journal: no space")
        write(journal, entry)

    monkeypatch.setattr(Journal, "write", refusing)
    stop = VirtualTime(ends_s=1000)
    outcome = stage.run(stop=stop)
    assert outcome.messages == ["cannot write the campaign's journal: no space"] * 2
    assert stop.now_ns() == 10 * S
    assert stage.states() == {"done": 6}


def test_a_user_who_stops_need_not_wait_for_the_disk(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.make()

    def refusing(journal: Journal, entry: Entry) -> None:
        if isinstance(entry, RunBegun | SessionEnded):
            raise EnvironmentFailure("cannot write the campaign's journal: no space")

    monkeypatch.setattr(Journal, "write", refusing)
    with pytest.raises(EnvironmentFailure, match="no space"):
        stage.run(stop=VirtualTime(ends_s=12))


class Stubborn(Worker):
    """A process that SIGTERM does not end."""

    def terminate(self) -> None:
        self.ended.append("terminated")


def test_a_worker_that_does_not_end_is_killed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "Worker", Stubborn)
    stage.make(f"{HEAD}\nlimit_s = 30")
    outcome = stage.run(hangs)
    assert outcome.workers[0].ended == ["terminated", "killed"]
    assert stage.states() == {"done": 5, "failed": 1}


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch, stage: Stage) -> Stage:
    """Both cells share their runs; the worker answers for each."""
    monkeypatch.setattr(Kafka, "cell_keys", ("topic.settings",), raising=False)
    stage.make(f'{HEAD}\nshare = "auto"')
    return stage


def each(*how: dict[str, Any]) -> Behaviour:
    """Answers for the cells of a run in turn, in these ways; less of them: silent for the rest."""

    def behave(worker: Worker, assignment: Assignment) -> None:
        for run_id, one in zip(assignment.run_ids, how, strict=False):
            worker.theirs.send(Answer(run_id, 1.0, **one))

    return behave


VALID, LOSSY, FAILING = {"verdict": "valid"}, {"verdict": "invalid"}, {"error": "no room"}
BREAKING = {"error": "its cluster was unusable", "broken": True}


def begun(stage: Stage) -> list[tuple[str, int]]:
    return [(line["cell"], line["repetition"]) for line in stage.lines("begun")]


def test_cells_of_a_shared_run_begin_together_and_are_journalled_each(shared: Stage) -> None:
    outcome = shared.run(*[each(VALID, LOSSY)] * 3)
    assert outcome.why == "finished"
    assert begun(shared) == [(ON, 0), (OFF, 0), (ON, 1), (OFF, 1), (ON, 2), (OFF, 2)]
    assert [line["verdict"] for line in shared.lines("done")] == ["valid", "invalid"] * 3
    runs = [line["shared"] for line in shared.lines("begun")]
    assert runs[::2] == runs[1::2]
    assert len(set(runs)) == 3
    assert outcome.after == [f"{run}.cell-{n}" for run in runs[::2] for n in (1, 2)]
    (worker,) = outcome.workers
    assert [assignment.run_id for assignment in worker.assignments] == runs[::2]
    plan = worker.assignments[0].plan
    assert [cell["name"] for cell in plan["cells"]] == ["cell-1", "cell-2"]
    assert shared.folder is not None
    assert plan["seed"] == shared.folder.campaign().seed(0)


def test_a_cell_that_broke_off_is_repeated_alone(shared: Stage) -> None:
    shared.run(each(VALID, BREAKING), answers, *[each(VALID, VALID)] * 2)
    assert begun(shared)[:5] == [(ON, 0), (OFF, 0), (OFF, 0), (ON, 1), (OFF, 1)]
    assert shared.states() == {"done": 6, "broken": 1}
    assert shared.lines("begun")[2]["shared"] is None


def test_cells_that_broke_off_together_share_the_repeat(shared: Stage) -> None:
    shared.run(*[each(BREAKING, BREAKING)] * 4, *[each(VALID, VALID)] * 2)
    assert begun(shared)[:8] == [(ON, 0), (OFF, 0)] * 4
    assert shared.states() == {"done": 4, "broken": 6, "failed": 2}


def test_a_worker_that_dies_fails_the_cells_that_it_has_not_answered_for(shared: Stage) -> None:
    def answers_once_and_dies(worker: Worker, assignment: Assignment) -> None:
        each(VALID)(worker, assignment)
        dies(worker, assignment)

    outcome = shared.run(answers_once_and_dies, *[each(VALID, VALID)] * 2)
    assert shared.states() == {"done": 5, "failed": 1}
    assert shared.lines("failed")[0]["run_id"].endswith(".cell-2")
    assert len(outcome.after) == 6


def test_a_shared_run_in_which_every_cell_failed_is_one_failure(shared: Stage) -> None:
    """Six cells failed in a row, in three runs."""
    assert shared.run(*[each(FAILING, FAILING)] * 3).why == "finished"
    assert shared.states() == {"failed": 6}


def test_of_an_interrupted_shared_run_the_missing_cells_are_repeated(shared: Stage) -> None:
    assert shared.run(each(VALID), stop_after=1).why == "interrupted"
    assert shared.states() == {"done": 1, "broken": 1}
    assert shared.run(answers, *[each(VALID, VALID)] * 2).why == "finished"
    assert begun(shared)[2:] == [(OFF, 0), (ON, 1), (OFF, 1), (ON, 2), (OFF, 2)]
    assert shared.states() == {"done": 6, "broken": 1}


def test_a_cell_that_was_judged_before_an_interrupt_is_not_repeated(shared: Stage) -> None:
    """Both have been answered for; the interrupt comes when the first answer is taken."""
    assert shared.run(each(VALID, LOSSY), stop_after=1).why == "interrupted"
    assert [line["verdict"] for line in shared.lines("done")] == ["valid", "invalid"]
    assert shared.states() == {"done": 2}


def test_a_budget_of_runs_counts_each_cell(shared: Stage) -> None:
    shared.path = shared.path / "budget"
    shared.path.mkdir()
    shared.make(f'{HEAD}\nshare = "auto"\n[budget]\nruns = 3')
    outcome = shared.run(*[each(VALID, VALID)] * 3)
    assert outcome.why == "the budget of runs is spent"
    assert shared.states() == {"done": 4}
