"""The trend of a comparison begins with campaigns that only the lake still has."""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson
import pytest
from click.testing import Result

from harness.campaigns.folder import CampaignDir
from tests.fixtures.campaign_folder import OFF, ON
from tests.fixtures.command_line import ackloss
from tests.fixtures.lakes import ROOT, campaign, lake_of
from tests.fixtures.result_documents import FAILED, lossy, run

pytestmark = pytest.mark.slow


def compare(*words: object) -> Result:
    return ackloss("campaign", "compare", *words, "--json")


def started(folder: CampaignDir, at: str) -> CampaignDir:
    """The campaign as if it had begun on another day."""
    lines = [orjson.loads(line) for line in folder.journal.read_bytes().splitlines()]
    lines[0]["at"] = at
    folder.journal.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return folder


def nights(path: Path) -> list[CampaignDir]:
    path.mkdir()
    documents = (
        {ON: [lossy()] * 3, OFF: [run(), lossy(4)]},
        {ON: [lossy()] * 2 + [FAILED], OFF: [run()] * 2},
        {ON: [run()] * 2, OFF: [run("unknown", doubts=("starved",)), run()]},
    )
    return [
        started(campaign(path / f"n{day}", runs), f"2026-01-0{day}T22:00:00.000+00:00")
        for day, runs in enumerate(documents, 1)
    ]


def test_the_trend_is_the_same_when_the_first_folder_is_gone(tmp_path: Path) -> None:
    first, second, third = nights(tmp_path / "nights")
    lake_of(tmp_path / "lake", third, first, second)
    with_folder = compare(first.path, second.path, third.path)
    shutil.rmtree(first.path)
    with_lake = compare(second.path, third.path, "--lake", tmp_path / "lake")
    assert with_lake.exit_code == with_folder.exit_code == 0, with_lake.output
    expected, found = (orjson.loads(done.stdout) for done in (with_folder, with_lake))
    assert found["trend"] == expected["trend"]
    assert [len(cell["campaigns"]) for cell in found["trend"]] == [3, 3]
    assert found["trend"][0]["campaigns"][0]["lossy"] == 3
    assert found["cells"] == expected["cells"]
    for mine, other in zip(found["campaigns"], expected["campaigns"], strict=True):
        assert {**mine, "folder": ""} == {**other, "folder": ""}
    without = orjson.loads(compare(second.path, third.path).stdout)
    assert [len(cell["campaigns"]) for cell in without["trend"]] == [2, 2]


def test_a_campaign_whose_start_is_not_known_is_not_earlier(tmp_path: Path) -> None:
    """It may be one of those that are compared, and would be in the trend twice."""
    first, second, third = nights(tmp_path / "nights")
    lines = second.journal.read_bytes().splitlines(keepends=True)
    second.journal.write_bytes(b"".join(lines[1:]))
    lake_of(tmp_path / "lake", first, second, third)
    found = orjson.loads(compare(second.path, third.path, "--lake", tmp_path / "lake").stdout)
    assert [each["id"] for each in found["campaigns"]] == ["n1", "n2", "n3"]


def test_a_simulated_lake_is_not_the_past_of_real_campaigns(tmp_path: Path) -> None:
    _, second, third = nights(tmp_path / "nights")
    base = (ROOT / "plans/memory/log.toml").read_text(encoding="utf-8")
    runs = {"the plan as it is": [{**run(), "simulated": True}]}
    simulated = campaign(tmp_path / "simulated", runs, axes="", base=base)
    lake_of(tmp_path / "lake", started(simulated, "2025-01-01T00:00:00.000+00:00"))
    done = compare(second.path, third.path, "--lake", tmp_path / "lake")
    assert done.exit_code == 4
    assert "simulated and real campaigns are not compared" in done.stderr
