"""A campaign of simulated runs: it works like any other, says what it is, and never mixes with a
real one."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner, Result

from harness.campaigns.folder import CampaignDir
from harness.cli import main
from harness.errors import HistoryError
from reports.campaign import write_campaign
from tests.fixtures.synthetic_campaign import ONE_AXIS, Synthetic, build_campaign
from tests.reports.test_page import Parsed

ROOT = Path(__file__).parents[2]
SIMULATED = "Simulated: no real system was tested."


def ackloss(*args: str) -> Result:
    done = CliRunner().invoke(main, args, prog_name="ackloss")
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.output
    return done


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "memory.toml"
    path.write_text(
        f"""
        schema = 1
        name = "memory"
        plan = "{ROOT / "plans/memory/duplicate-on-retry.toml"}"
        repetitions = 2
        workers = 1
        [axes.defect.choices]
        on.set = {{}}
        off.set = {{ "target.defects" = [] }}
        """,
        encoding="utf-8",
    )
    return path


@pytest.fixture(scope="module")
def finished(file: Path) -> tuple[Result, CampaignDir]:
    folder = file.parent / "campaign"
    return ackloss("campaign", "run", str(file), "--out", str(folder)), CampaignDir(folder)


def test_it_is_run_judged_and_reported(finished: tuple[Result, CampaignDir]) -> None:
    done, folder = finished
    assert done.exit_code == 1, done.output
    assert SIMULATED in done.stdout
    document = json.loads(folder.result.read_bytes())
    assert document["simulated"] is True
    verdicts = {cell["key"]["defect"]: cell["verdicts"] for cell in document["cells"]}
    assert verdicts["on"]["wrong"] == 2
    assert verdicts["off"]["none"] == 2
    page = Parsed(folder.report.read_text(encoding="utf-8"))
    assert "No real system was tested" in page.words[:400]
    assert 'name="simulated" value="true"' in folder.junit.read_text(encoding="utf-8")
    assert SIMULATED in folder.summary.read_text(encoding="utf-8")


def test_a_campaign_of_registers_speaks_of_registers(tmp_path: Path) -> None:
    path = tmp_path / "registers.toml"
    path.write_text(
        f"""
        schema = 1
        name = "registers"
        plan = "{ROOT / "plans/memory/stale-reads.toml"}"
        repetitions = 2
        workers = 1
        [axes.defect.choices]
        on.set = {{}}
        off.set = {{ "target.defects" = [] }}
        """,
        encoding="utf-8",
    )
    folder = CampaignDir(tmp_path / "campaign")
    done = ackloss("campaign", "run", str(path), "--out", str(folder.path))
    assert done.exit_code == 1, done.output
    document = json.loads(folder.result.read_bytes())
    assert document["finding"]["noun"] == "inconsistency"
    shares = {cell["key"]["defect"]: cell["lossy_share"]["estimate"] for cell in document["cells"]}
    assert shares == {"on": 1, "off": 0}
    page = Parsed(folder.report.read_text(encoding="utf-8"))
    assert "Simulated: Registers were not linearizable in 1 of 2 cells" in page.words
    assert not re.search(r"\b(lost|loss|lossy)\b", page.words), page.words
    summary = folder.summary.read_text(encoding="utf-8")
    assert "inconsistent / conclusive runs" in summary
    assert "lost" not in summary


def test_campaigns_that_are_simulated_are_compared_and_real_ones_are_not_among_them(
    finished: tuple[Result, CampaignDir], tmp_path: Path
) -> None:
    _, folder = finished
    same = ackloss("campaign", "compare", str(folder.path), str(folder.path), "--json")
    assert same.exit_code == 0, same.stderr
    assert json.loads(same.stdout)["simulated"] is True

    real, _ = build_campaign(tmp_path / "real", Synthetic(axes=ONE_AXIS, runs=1))
    for pair in ((folder, real), (real, folder)):
        done = ackloss("campaign", "compare", *(str(each.path) for each in pair))
        assert done.exit_code == 4
        (sentence,) = done.stderr.strip().splitlines()
        assert "simulated and real campaigns are not compared" in sentence
        assert str(folder.path) in sentence


def test_a_real_result_in_a_simulated_campaign_is_refused(
    finished: tuple[Result, CampaignDir], tmp_path: Path
) -> None:
    path = tmp_path / "copy"
    shutil.copytree(finished[1].path, path)
    folder = CampaignDir(path)
    run = sorted(folder.runs.iterdir())[0]
    result = orjson.loads((run / "result.json").read_bytes())
    (run / "result.json").write_bytes(orjson.dumps({**result, "simulated": False}))
    with pytest.raises(HistoryError, match="is real, and the campaign is simulated") as refused:
        write_campaign(folder)
    assert run.name in str(refused.value)
    done = ackloss("report", str(path))
    assert done.exit_code == 4


def test_a_simulated_result_in_a_real_campaign_is_refused(tmp_path: Path) -> None:
    folder, _ = build_campaign(tmp_path / "real", Synthetic(axes=ONE_AXIS, runs=1))
    run = next(path for path in sorted(folder.runs.iterdir()) if (path / "result.json").exists())
    result = orjson.loads((run / "result.json").read_bytes())
    (run / "result.json").write_bytes(orjson.dumps({**result, "simulated": True}))
    with pytest.raises(HistoryError, match="is simulated, and the campaign is not"):
        write_campaign(folder)
