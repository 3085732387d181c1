"""A forced run: run.json, result.json and page state what was forced, and why."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from checkers.judging.one_run import judge_run
from harness.history.run_folder import RunDir
from harness.plan import parse_plan
from harness.protocols import Unsupported
from harness.run.metadata import RunMetadata
from reports.page import write_report

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

STORED = Path(__file__).parents[1] / "histories" / "runs" / "unclean-election-loses"
VAIN = Unsupported(key="topic.settings.x", what="2 is asked, and 0.8 has it not", source="KIP-0")


def test_the_metadata_has_what_was_forced(tmp_path: Path) -> None:
    rundir = RunDir.create(tmp_path, "r")
    plan = parse_plan({"schema": 1, "name": "p"})
    RunMetadata.begin(rundir, plan, command=[], file="p", forced=[VAIN])
    metadata = rundir.read_json(rundir.run)
    assert metadata["forced"] == [{"key": VAIN.key, "what": VAIN.what, "source": VAIN.source}]


def test_result_and_page_state_it(tmp_path: Path) -> None:
    shutil.copytree(STORED, tmp_path / "r")
    run = RunDir(tmp_path / "r")
    assert judge_run(run)["forced"] == []
    forced = [{"key": VAIN.key, "what": VAIN.what, "source": VAIN.source}]
    run.write_json(run.run, {**run.read_json(run.run), "forced": forced})
    assert judge_run(run)["forced"] == [str(VAIN)]
    page = write_report(run).read_text(encoding="utf-8")
    banner = page.index("Forced: this version does not honour a requested setting")
    assert banner < page.index("<h1>")
    assert page.index(f"{VAIN}.") > banner
