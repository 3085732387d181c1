"""Processes that judge: how they end."""

from __future__ import annotations

import atexit
import os
import signal
from pathlib import Path

import pytest

from checkers.judging.isolation import Isolated
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
    with Processes(leaving_something, 1) as processes:
        assert processes.judged([[(5, tmp_path)]]) == [(5, {"left": True})]
    assert not (tmp_path / "left").exists()
    assert capfd.readouterr() == ("", SAID), "what a checker prints is none of our output"


def dying_at_the_last(file: Path) -> Document:
    """Judges nothing; notes that it was asked; dies at a file of this name."""
    with file.open("a") as asked:
        asked.write("asked ")
    if file.name == "last":
        os.kill(os.getpid(), signal.SIGKILL)
    return {"name": file.name}


def test_what_was_answered_before_one_died_is_not_judged_again(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("first", "second", "last")]
    with Processes(dying_at_the_last, 1) as processes:
        isolated = Isolated(processes.judged, lambda file: {"died": file.name}, at_once=1)
        answers = isolated.judged([[(place, file)] for place, file in enumerate(files)])
    assert sorted(answers) == [
        (0, {"name": "first"}),
        (1, {"name": "second"}),
        (2, {"died": "last"}),
    ]
    assert [file.read_text().split() for file in files] == [["asked"], ["asked"], ["asked"] * 2]
