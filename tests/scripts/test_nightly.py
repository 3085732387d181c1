"""scripts/nightly with the real `compare` and `prune`, but without runs, which need Docker."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from analysis.lake.delta import open_lake
from tests.fixtures.campaign_folder import OFF, ON, build
from tests.fixtures.result_documents import lossy, run

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
QUIET = {ON: [lossy()] * 12, OFF: [run()] * 12}
WORSE = {ON: [lossy()] * 12, OFF: [lossy()] * 12}


def night(folder: Path, runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    """The folder of a campaign. What a lake would read of its runs is not there, in place of
    Parquet that is none."""
    made = build(folder, runs).path
    for inner in ("findings", "observations"):
        for each in made.glob(f"runs/*/{inner}"):
            shutil.rmtree(each)
    return made


@pytest.fixture
def nights(tmp_path: Path) -> Path:
    """Three nightly campaigns, the first of them old, and other folders beside them."""
    folder = tmp_path / "nights"
    folder.mkdir()
    for name in ("2020-01-01", "2020-01-02", "2020-01-03"):
        night(tmp_path / name, QUIET).rename(folder / name)
    (folder / "2020-01-04").mkdir()
    night(tmp_path / "other", WORSE).rename(folder / "other")
    return folder


def nightly(nights: Path, tonight: Path, *, code: int = 0) -> tuple[int, list[str]]:
    """Run a night whose campaign is a copy of `tonight`: its exit code and the calls of ackloss."""
    calls, ackloss = tonight.parent / "calls", tonight.parent / "ackloss"
    run, resume = f"cp -r {tonight} $5; exit {code}", f"exit {code}"
    ackloss.write_text(
        f'#!/bin/bash\necho "$*" >>{calls}\n'
        f'case "$2" in run) {run};; resume) {resume};; esac\n'
        f'exec {shlex.quote(sys.executable)} -m ackloss "$@"\n'
    )
    ackloss.chmod(0o755)
    done = subprocess.run(
        ["bash", ROOT / "scripts" / "nightly", nights, "C.toml"],
        env={**os.environ, "ACKLOSS": str(ackloss), "KEEP_NIGHTS": "3", "KEEP_RUNS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, calls.read_text().splitlines()


def test_a_night_that_got_worse_is_reported_by_page_and_exit_code(
    nights: Path, tmp_path: Path
) -> None:
    code, calls = nightly(nights, night(tmp_path / "tonight", WORSE))
    tonight = nights / date.today().isoformat()
    assert code == 1
    assert calls[0] == (
        f"campaign run C.toml --out {tonight} --first-failures-of {nights}/2020-01-03"
    )
    assert (tonight / "nights.html").is_file()
    assert "unclean=false" in (tonight / "nights.md").read_text()
    older = {path.name for path in nights.iterdir()} - {tonight.name, "lake"}
    assert older == {"2020-01-02", "2020-01-03", "2020-01-04", "other"}
    whole = sorted(path.parent.name for path in (nights / "2020-01-03").glob("runs/*/history"))
    assert whole == [f"{n:05}-2020-01-03" for n in (*range(12), 23)]
    assert len(list(tonight.glob("runs/*/history"))) == 24


@pytest.mark.full
def test_an_inconclusive_night_is_compared_and_is_not_green(nights: Path, tmp_path: Path) -> None:
    inconclusive = {**QUIET, ON: [run("unknown", doubts=("starved",))] * 12}
    code, calls = nightly(nights, night(tmp_path / "tonight", inconclusive), code=3)
    assert code == 3
    assert any(line.startswith("campaign compare") for line in calls)
    assert (nights / date.today().isoformat() / "nights.html").is_file()


@pytest.mark.full
def test_a_night_like_the_last_ends_with_the_exit_code_of_the_campaign(
    nights: Path, tmp_path: Path
) -> None:
    tonight = night(tmp_path / "tonight", QUIET)
    assert nightly(nights, tonight, code=1)[0] == 1
    assert not (nights / "2020-01-01").exists()
    code, calls = nightly(nights, tonight)  # again on this day
    assert code == 0
    assert [call.split()[1] for call in calls[-4:]] == ["resume", "build", "compare", "prune"]
    # The trend goes on showing the night that was removed.
    html = (nights / date.today().isoformat() / "nights.html").read_text()
    assert "2020-01-01" in html
    assert len(open_lake(nights / "lake").campaigns) == 4


@pytest.mark.full
def test_a_night_that_cannot_be_read_is_not_removed(nights: Path, tmp_path: Path) -> None:
    run, *_ = (nights / "2020-01-02" / "runs").iterdir()
    (run / "findings").mkdir()
    (run / "findings" / "loss.parquet").write_bytes(b"no Parquet")
    code, calls = nightly(nights, night(tmp_path / "tonight", QUIET))
    assert (code, calls[-1].split()[1]) == (4, "build")
    assert (nights / "2020-01-01").is_dir()


def test_a_night_that_could_not_run_is_not_compared(nights: Path, tmp_path: Path) -> None:
    code, calls = nightly(nights, night(tmp_path / "tonight", WORSE), code=5)
    assert code == 5
    assert len(calls) == 1
    assert (nights / "2020-01-01").is_dir()


def test_the_first_night_has_nothing_to_compare_with(tmp_path: Path) -> None:
    code, calls = nightly(tmp_path / "nights", night(tmp_path / "tonight", QUIET))
    assert code == 0
    assert [call.split()[1] for call in calls] == ["run", "build"]
    assert "--first-failures-of" not in calls[0]
