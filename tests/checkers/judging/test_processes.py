"""Processes that judge: how they end."""

from __future__ import annotations

import atexit
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool, _ExecutorManagerThread
from functools import partial
from multiprocessing import util as spawning
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from typing import Any

import psutil
import pytest

from checkers.judging.isolation import Isolated, WorkerDied
from checkers.judging.processes import Processes
from checkers.judging.results import Document

SAID = "in a buffer until the process ends"


def leaving_something(folder: Path) -> Document:
    """Judges nothing; what it leaves goes when its process ends."""
    left = folder / "left"
    left.touch()
    atexit.register(left.unlink)
    print(SAID, end="")
    return {"left": left.exists()}


def test_a_process_that_has_judged_tidies_up(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Processes(1) as processes:
        assert processes.judged(leaving_something, [[(5, tmp_path)]]) == [(5, {"left": True})]
    assert not (tmp_path / "left").exists()
    assert capfd.readouterr() == ("", SAID), "what a checker prints is not our output"


class Broken(ProcessPoolExecutor):
    """Its second process dies while tasks are handed out."""

    def submit(self, *args: Any, **kwargs: Any) -> Any:
        if getattr(self, "submitted", False):
            raise BrokenProcessPool("a child died")
        self.submitted = True
        return super().submit(*args, **kwargs)


def test_a_death_while_tasks_are_handed_out_is_one_of_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("checkers.judging.processes.ProcessPoolExecutor", Broken)
    with Processes(1) as processes, pytest.raises(WorkerDied):
        processes.judged(leaving_something, [[(0, tmp_path)], [(1, tmp_path)]])


def dying_at_the_last(file: Path) -> Document:
    """Judges nothing; notes that it was asked; dies at a file of this name."""
    with file.open("a") as asked:
        asked.write("asked ")
    if file.name == "last":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"name": file.name}


def test_what_was_answered_before_one_died_is_not_judged_again(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("first", "second", "last")]
    with Processes(1) as processes:
        job = partial(processes.judged, dying_at_the_last)
        isolated = Isolated(job, lambda file: {"died": file.name}, at_once=1)
        answers = isolated.judged([[(place, file)] for place, file in enumerate(files)])
    assert sorted(answers) == [
        (0, {"name": "first"}),
        (1, {"name": "second"}),
        (2, {"died": "last"}),
    ]
    assert [file.read_text().split() for file in files] == [["asked"], ["asked"], ["asked"] * 2]


def whose(_: Path) -> Document:
    """Judges nothing; says which process was to."""
    return {"process": os.getpid()}


def test_processes_that_were_started_beforehand_judge(tmp_path: Path) -> None:
    with Processes(2) as processes:
        processes.start()
        ready = {process.pid for process in processes._made}
        first = processes.judged(whose, [[(0, tmp_path)], [(1, tmp_path)], [(2, tmp_path)]])
        second = processes.judged(whose, [[(0, tmp_path)]])
    assert {answer["process"] for _, answer in first} <= ready
    assert len(ready) == 2
    assert second[0][1]["process"] not in ready, "they ended with the first call"


def test_processes_that_judge_nothing_end() -> None:
    with Processes(2) as processes:
        processes.start()
    assert all(not process.is_alive() for process in processes._made)
    with pytest.raises(RuntimeError, match="nothing is judged"):
        processes.judged(whose, [])


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Interrupts as in a terminal: a job in the background, and what it starts, ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_does_not_meet_a_process_that_starts(
    interruptible: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Processes(1) as processes:
        processes.start()
        (process,) = processes._made
        for _ in range(40):
            os.kill(process.pid or 0, signal.SIGINT)
            time.sleep(0.01)
        assert processes.judged(whose, [[(0, tmp_path)]]) == [(0, {"process": process.pid})]
    assert capfd.readouterr() == ("", "")
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


@pytest.mark.parametrize("moment", ["a thread of the pool starts", "the second process is made"])
def test_an_interrupt_while_processes_start_comes_once_they_have(
    moment: str,
    interruptible: None,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In between, the pool cannot end, or a process has not heard yet what it is to be."""
    ensure_running()  # it is made by the same function as the processes
    start, make = _ExecutorManagerThread.start, spawning.spawnv_passfds
    made: list[int] = []

    def starting(thread: _ExecutorManagerThread) -> None:
        if "thread" in moment:
            interrupt()
        start(thread)

    def making(*args: Any) -> int:
        made.append(make(*args))
        if "second" in moment and len(made) == 2:
            interrupt()
        return made[-1]

    monkeypatch.setattr(_ExecutorManagerThread, "start", starting)
    monkeypatch.setattr(spawning, "spawnv_passfds", making)
    with pytest.raises(KeyboardInterrupt), Processes(2) as processes:
        processes.start()
    _, running = psutil.wait_procs(map(psutil.Process, filter(psutil.pid_exists, made)), 20)
    assert (len(made), running) == (2, [])
    assert capfd.readouterr() == ("", "")


def interrupt() -> None:
    """As Ctrl-C does, at this instant."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)
