"""Who makes faults by hand reports it by Enter at a terminal, or by a file."""

from __future__ import annotations

import os
import pty
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from harness.errors import PlanError
from harness.run.by_hand import Person
from harness.run.interrupts import Interrupts


@dataclass
class Terminal:
    """A terminal: `keys` is what a program reads, `type` what a person does."""

    master: int
    keys: IO[str]

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    master, slave = pty.openpty()
    with os.fdopen(slave, "r") as keys:
        yield Terminal(master, keys)
    os.close(master)


def later(what: object, after_s: float = 0.3) -> threading.Timer:
    assert callable(what)
    timer = threading.Timer(after_s, what)
    timer.start()
    return timer


def test_a_file_reports_what_was_asked_for(tmp_path: Path) -> None:
    said: list[str] = []
    person = Person(say=said.append, folder=tmp_path)
    person.begin(["kill"])
    for begun, name in ((True, "kill.begun"), (False, "kill.ended")):
        later((tmp_path / name).touch)
        assert person.done("kill", "do it", begun=begun, at_most_s=10)
        assert f"make the file {tmp_path / name}" in said[-1]
    assert said[0] == "OPERATOR, fault 'kill': do it"


def test_the_file_of_another_fault_reports_nothing(tmp_path: Path) -> None:
    person = Person(say=lambda _: None, folder=tmp_path)
    (tmp_path / "other.begun").touch()
    (tmp_path / "kill.ended").touch()
    assert not person.done("kill", "do it", begun=True, at_most_s=0.4)


def test_enter_reports_it_and_what_was_typed_before_does_not(terminal: Terminal) -> None:
    said: list[str] = []
    person = Person(say=said.append, keys=terminal.keys)
    person.begin(["kill"])
    terminal.type("\n\n")
    assert not person.done("kill", "do it", begun=True, at_most_s=0.5)
    later(lambda: terminal.type("done\n"))
    assert person.done("kill", "do it", begun=True, at_most_s=10)
    assert "press Enter" in said[1]
    assert said[2] == "  It was not reported in time."


def test_no_fault_begins_once_the_load_is_over_and_each_may_still_end(tmp_path: Path) -> None:
    person = Person(say=lambda _: None, folder=tmp_path)
    later(person.give_up)
    begun_s = time.monotonic()
    assert not person.done("kill", "do it", begun=True, at_most_s=30)
    assert time.monotonic() - begun_s < 5
    assert not person.done("next", "do it", begun=True, at_most_s=30)
    later((tmp_path / "kill.ended").touch)
    assert person.done("kill", "undo it", begun=False, at_most_s=10)
    person.begin(["kill-again"])  # of the next run
    later((tmp_path / "kill-again.begun").touch)
    assert person.done("kill-again", "do it", begun=True, at_most_s=10)


def test_a_report_that_is_there_before_the_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kill.ended").touch()
    person = Person(say=lambda _: None, folder=tmp_path)
    person.begin(["other"])
    with pytest.raises(PlanError, match=r"kill\.ended exists before anything was requested"):
        person.begin(["kill"])
    with pytest.raises(PlanError, match="there is no folder"):
        Person(say=lambda _: None, folder=tmp_path / "none").begin(["kill"])


def test_the_second_ctrl_c_ends_the_wait_for_the_end_of_a_fault_and_the_first_does_not(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    person = Person(say=said.append, folder=tmp_path)
    person.begin(["kill"])
    ended: list[bool] = []

    def wait() -> None:
        ended.append(person.done("kill", "undo it", begun=False, at_most_s=60))

    with Interrupts(say=said.append) as interrupts:
        interrupts.at_second(person.leave)
        waiting = threading.Thread(target=wait)
        waiting.start()
        os.kill(os.getpid(), signal.SIGINT)
        waiting.join(0.6)
        assert interrupts.stop.is_set()
        assert waiting.is_alive()
        os.kill(os.getpid(), signal.SIGINT)
        waiting.join(5)
        assert not waiting.is_alive()
    assert ended == [False]
    assert said[-1] == "  No longer waiting for what was requested for fault 'kill'."
    person.begin(["kill"])  # of the next run
    later((tmp_path / "kill.ended").touch)
    assert person.done("kill", "undo it", begun=False, at_most_s=10)
