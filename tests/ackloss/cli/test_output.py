"""What the command line prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ackloss.cli.output import Output, _print_losses
from analysis.wording import about
from harness.history.documents import Alarm, Counts, RunResult
from tests.fixtures.command_line import ackloss

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

SHORT = ("--set", "workload.duration_s=2", "--set", "faults=[]")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "about 0 min"), (70, "about 2 min"), (3599, "about 60 min"), (9360, "about 2.6 h")],
)
def test_an_estimated_time_has_a_fitting_unit(seconds: float, text: str) -> None:
    assert about(seconds) == text


def test_a_quiet_command_prints_its_result_and_nothing_else(tmp_path: Path) -> None:
    run = ackloss("run", "memory/log", *SHORT, "--out", tmp_path, "-q")
    (folder,) = tmp_path.iterdir()
    first, *_, last = run.stdout.splitlines()
    assert first.startswith("VALID: ")
    assert last.startswith(f"  page {folder}/report.html")
    assert "checking" not in run.output
    assert ackloss("show", folder, "-q").stdout == ackloss("show", folder).stdout == run.stdout
    (line,) = ackloss("check", folder, "-q").stdout.splitlines()
    assert line.startswith(f"{folder.name}  VALID")
    assert ackloss("report", folder, "-q").stdout == f"{folder}/report.html\n"


@pytest.mark.parametrize("lost", [5, 0])
def test_a_loss_says_why_and_whether_an_alarm_fired(
    lost: int, capsys: pytest.CaptureFixture[str]
) -> None:
    result = RunResult(
        verdict="invalid" if lost else "valid",
        counts=Counts(acknowledged=9, lost=lost),
        causes={"deleted": lost} if lost else {},
        unexplained=0,
        alarms=(Alarm(rule="r", source="s", chance=0.0),),
    )
    _print_losses(Output(), result)
    said = capsys.readouterr().out
    assert ("why lost: 5 deleted" in said) is bool(lost)
    assert ("alarms: 0 of 1 rules before the first loss, 0 after, 1 never" in said) is bool(lost)


def test_a_quiet_command_leaves_out_remarks() -> None:
    words = ("campaign", "plan", "isr-settings")
    whole, quiet = (ackloss(*words, *q).stdout.splitlines() for q in ((), ("-q",)))
    assert quiet == [line for line in whole if not line.startswith("shared runs")]
    assert 0 < len(quiet) < len(whole)


def test_a_quiet_document_has_nothing_beside_it(tmp_path: Path) -> None:
    run = ackloss("run", "memory/log", *SHORT, "--out", tmp_path, "--json", "-q")
    assert json.loads(run.stdout)["verdict"] == "valid"
    assert run.stderr == ""
