"""Processes that judge: how they end."""

from __future__ import annotations

import atexit
from pathlib import Path

import pytest

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
