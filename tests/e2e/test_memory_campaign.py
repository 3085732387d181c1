"""A campaign of simulated runs: it works like any other, says what it is, and never mixes with a
real one."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import asdict
from pathlib import Path

import orjson
import pytest
from click.testing import Result

from harness.campaigns.folder import CampaignDir
from harness.errors import HistoryError
from harness.history.documents import read_run
from harness.history.run_folder import RunDir
from reports.campaign import write_campaign
from tests.fixtures.command_line import ackloss
from tests.fixtures.synthetic_campaign import ONE_AXIS, Synthetic, build_campaign
from tests.reports.test_page import Parsed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

ROOT = Path(__file__).parents[2]
SIMULATED = "Simulated: no real system was tested."


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


def test_its_status_says_what_it_is(finished: tuple[Result, CampaignDir], tmp_path: Path) -> None:
    real, _ = build_campaign(tmp_path / "real", Synthetic(axes=ONE_AXIS, runs=1))
    for folder, simulated in ((finished[1], True), (real, False)):
        shown = ackloss("campaign", "status", str(folder.path)).stdout
        assert (SIMULATED in shown) is simulated
        document = json.loads(ackloss("campaign", "status", str(folder.path), "--json").stdout)
        assert document["simulated"] is simulated


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, CampaignDir]:
    """Three cells that share their runs, one of which loses writes, and one that shares with none
    because its faults differ."""
    folder = tmp_path_factory.mktemp("shared")
    text = (ROOT / "plans/memory/cells.toml").read_text(encoding="utf-8")
    head, faults = text.partition("[[cells]]")[0], text[text.index("[[faults]]") :]
    for old, new in (
        ("rate_per_s = 400", "rate_per_s = 100"),
        ("processes = 40", "processes = 10"),
    ):
        head = head.replace(old, new)
    (folder / "base.toml").write_text(head + faults, encoding="utf-8")
    path, out = folder / "shared.toml", folder / "out"
    path.write_text(
        """
        schema = 1
        name = "shared"
        plan = "base.toml"
        repetitions = 2
        workers = 1
        share = "auto"
        [axes.system.choices]
        safe.set = { expect = "valid" }
        two.set = { expect = "valid", "target.min_insync" = 2 }
        unclean.set = { expect = "invalid", "target.defects" = ["unclean-election"] }
        unmet.set = { expect = "unknown", faults = [] }
        """,
        encoding="utf-8",
    )
    return ackloss("campaign", "run", str(path), "--out", str(out)), CampaignDir(out)


def test_cells_share_runs_and_are_judged_and_compared_as_pairs(
    shared: tuple[Result, CampaignDir],
) -> None:
    done, folder = shared
    assert done.exit_code == 1, done.output
    document = json.loads(folder.result.read_bytes())
    verdicts = {cell["key"]["system"]: cell["verdicts"] for cell in document["cells"]}
    assert {name: verdicts[name]["loss"] for name in verdicts} == {
        "safe": 0,
        "two": 0,
        "unclean": 2,
        "unmet": 0,
    }
    assert verdicts["safe"]["none"] == verdicts["two"]["none"] == 2
    begun = [
        orjson.loads(line)
        for line in folder.journal.read_bytes().splitlines()
        if b'"shared"' in line
    ]
    by_run: dict[str, list[str]] = {each["shared"]: [] for each in begun if each["shared"]}
    for each in begun:
        if each["shared"]:
            by_run[each["shared"]].append(each["cell"])
    assert (
        sorted(map(sorted, by_run.values()))
        == [["system=safe", "system=two", "system=unclean"]] * 2
    )
    assert len([each for each in begun if not each["shared"]]) == 2
    pairs = {(c["a"]["system"], c["b"]["system"]): c for c in document["comparisons"]}
    apart = pairs["safe", "unclean"]
    assert apart["pairs"] == {
        "both": 0,
        "only_a": 0,
        "only_b": 2,
        "neither": 0,
        "incomplete": 0,
    }
    assert pairs["unclean", "unmet"]["pairs"]["only_a"] == 0


@pytest.mark.full
def test_a_shared_run_is_shown_by_the_results_of_its_cells(
    shared: tuple[Result, CampaignDir], tmp_path: Path
) -> None:
    first = min(path.parents[1] for path in shared[1].runs.glob("*/cells/cell-1"))
    run = RunDir(Path(shutil.copytree(first, tmp_path / first.name)))
    files = ("result.json", "report.html", "cells.csv", "junit.xml")
    assert not any((run.path / name).exists() for name in files)
    done = ackloss("show", str(run.path))
    assert "INVALID: 1 of 3 cells is invalid" in done.stdout
    shown = json.loads(ackloss("show", "--json", str(run.path)).stdout)
    listed = json.loads(ackloss("ls", "--json", "--out", str(tmp_path)).stdout)["runs"]
    assert [each["verdict"] for each in listed] == ["invalid"]
    assert ackloss("check", str(run.path)).exit_code == 1
    assert run.read_json(run.result) | {"timings": None} == shown | {"timings": None}
    assert ackloss("report", str(run.path)).exit_code == 0
    assert all((run.path / name).exists() for name in files)


def test_a_cell_has_the_load_of_its_plan_alone_or_with_others(
    shared: tuple[Result, CampaignDir],
) -> None:
    _, folder = shared
    attempted = [
        json.loads(run.result.read_bytes())["counts"]["attempted"]
        for run in folder.runs_with_history()
    ]
    assert len(attempted) == 8
    assert max(attempted) - min(attempted) < 0.1 * max(attempted), attempted


def test_each_run_says_what_it_is_in_the_campaign(shared: tuple[Result, CampaignDir]) -> None:
    _, folder = shared
    lines = map(orjson.loads, folder.journal.read_bytes().splitlines())
    begun = {line["run_id"]: line for line in lines if line["type"] == "begun"}
    stored = {run.run_id: read_run(run).campaign for run in folder.runs_with_history()}
    assert {run_id: asdict(place) if place else None for run_id, place in stored.items()} == {
        run_id: {"name": "shared", "cell": each["cell"], "repetition": each["repetition"]}
        for run_id, each in begun.items()
    }
    for run_id in {each["shared"] for each in begun.values()} - {None}:
        place = read_run(RunDir(folder.runs / run_id)).campaign
        assert place is not None
        assert (place.name, place.cell) == ("shared", None)


@pytest.mark.full
def test_each_cell_of_a_shared_run_can_have_a_page(
    shared: tuple[Result, CampaignDir], tmp_path: Path
) -> None:
    folder = CampaignDir(tmp_path / "copy")
    shutil.copytree(shared[1].path, folder.path)
    done = ackloss("report", str(folder.path), "--each")
    assert "8 pages of runs" in done.stdout + done.stderr
    runs = [run for run in folder.runs_with_history() if "." in run.run_id]
    assert len(runs) == 6
    assert all(run.report.is_file() for run in runs)
    unclean = next(run for run in runs if run.run_id.endswith("cell-3"))
    words = Parsed(unclean.report.read_text(encoding="utf-8")).words
    assert re.search(r"system=unclean, repetition [01] of the campaign shared", words), words[:500]


def test_a_shared_run_is_pruned_with_the_last_of_its_cells(
    shared: tuple[Result, CampaignDir], tmp_path: Path
) -> None:
    path = tmp_path / "copy"
    shutil.copytree(shared[1].path, path)
    before = ackloss("campaign", "prune", str(path), "--keep", "0", "--json")
    assert before.exit_code == 0, before.output
    left = {run.run_id for run in CampaignDir(path).runs_with_history()}
    assert len(left) == 2, "those that lost"
    assert all(run_id.endswith(".cell-3") for run_id in left)
    nodes = [run.parent for run in CampaignDir(path).runs.glob("*/cells")]
    assert len(nodes) == 2
    assert all((run / "nodes").is_dir() for run in nodes), "a failure stays complete"


@pytest.mark.full
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
    assert document["finding"]["noun"] == "inconsistent registers"
    shares = {cell["key"]["defect"]: cell["lossy_share"]["estimate"] for cell in document["cells"]}
    assert shares == {"on": 1, "off": 0}
    page = Parsed(folder.report.read_text(encoding="utf-8"))
    assert "Simulated: Inconsistent registers in 1 of 2 cells" in page.words
    assert not re.search(r"\b(lost|loss|lossy)\b", page.words), page.words
    summary = folder.summary.read_text(encoding="utf-8")
    assert "inconsistent / conclusive runs" in summary
    assert "lost" not in summary


def test_campaigns_that_are_simulated_are_compared_and_real_ones_are_not_among_them(
    finished: tuple[Result, CampaignDir], file: Path, tmp_path: Path
) -> None:
    _, folder = finished
    again = str(tmp_path / "again")
    ackloss("campaign", "run", str(file), "--out", again)
    same = ackloss("campaign", "compare", str(folder.path), again, "--json")
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
