"""What `campaign run` and `resume` print about the campaign, once its session is over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.campaigns.folder import CampaignDir
from harness.cli import main
from tests.fixtures.campaign_folder import build
from tests.fixtures.lakes import ROOT
from tests.fixtures.result_documents import run

AXES = """
[axes.defect.choices]
on.set = {}
off.set = { "target.defects" = [] }
"""


@pytest.fixture
def finished(tmp_path: Path) -> CampaignDir:
    """A campaign of the reference system of which no run is left."""
    simulated = {**run(), "simulated": True}
    return build(
        tmp_path / "c",
        {"defect=on": [simulated], "defect=off": [simulated]},
        axes=AXES,
        base=(ROOT / "plans/memory/duplicate-on-retry.toml").read_text(),
        head="repetitions = 1\nworkers = 1",
    )


def resume(folder: CampaignDir, *words: str) -> Result:
    return CliRunner().invoke(main, ["campaign", "resume", str(folder.path), *words])


def test_a_campaign_whose_session_is_over_is_not_running(finished: CampaignDir) -> None:
    done = resume(finished)
    assert done.exit_code == 0, done.output
    assert "0 runs are left; the campaign is not running" in done.stdout
    assert json.loads(resume(finished, "--json").stdout)["alive"] is False
