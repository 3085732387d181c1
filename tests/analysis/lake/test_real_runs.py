"""Campaigns that were really run, on simulated nodes: the lake agrees with their documents, with
shared runs, with plans of several cells, after pruning, and with operations on request."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from analysis import frames
from analysis.campaign import campaign_document
from analysis.lake.build import build
from analysis.lake.delta import (
    CELLS,
    FAULTS,
    FINDINGS,
    OBSERVATIONS,
    OPS,
    RUNS,
    StoredLake,
    folder_of,
)
from analysis.lake.overview import overview_of
from analysis.lake.stored import cells_of
from analysis.statistics.cells import SEVERAL_SETTINGS, CellStatistics, cell_of
from analysis.statistics.intervals import Estimate, Spread
from harness.campaigns.folder import CampaignDir
from harness.history.documents import read_result
from tests.fixtures.command_line import ackloss
from tests.fixtures.lakes import ROOT, by_duckdb, files_of, in_order, lake_of, memory_campaign

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

PLAN = (ROOT / "plans/memory/cells.toml").read_text(encoding="utf-8")


def run_campaign(folder: Path, name: str, text: str) -> CampaignDir:
    path = memory_campaign(folder, name, text)
    out = folder / "campaigns" / name
    done = ackloss("campaign", "run", path, "--out", out)
    assert done.exit_code in (0, 1), done.output
    return CampaignDir(out)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> CampaignDir:
    """Two cells that share a run, of which one loses writes, and one that runs alone."""
    folder = tmp_path_factory.mktemp("shared")
    head, faults = PLAN.partition("[[cells]]")[0], PLAN[PLAN.index("[[faults]]") :]
    head = head.replace("rate_per_s = 400", "rate_per_s = 100")
    (folder / "base.toml").write_text(head.replace("processes = 40", "processes = 10") + faults)
    return run_campaign(
        folder,
        "shared",
        """
        plan = "base.toml"
        repetitions = 2
        share = "auto"
        [axes.system.choices]
        safe.set = { expect = "valid" }
        unclean.set = { expect = "invalid", "target.defects" = ["unclean-election"] }
        unmet.set = { expect = "valid", faults = [] }
        """,
    )


@pytest.fixture(scope="module")
def celled(tmp_path_factory: pytest.TempPathFactory) -> CampaignDir:
    """A plan with four cells, run once."""
    return run_campaign(
        tmp_path_factory.mktemp("celled"),
        "celled",
        f'plan = "{ROOT / "plans/memory/cells.toml"}"\nrepetitions = 1\n',
    )


@pytest.fixture(scope="module")
def lake(
    tmp_path_factory: pytest.TempPathFactory, shared: CampaignDir, celled: CampaignDir
) -> StoredLake:
    return lake_of(tmp_path_factory.mktemp("lake") / "lake", shared, celled)


def of(frame: pd.DataFrame, folder: CampaignDir) -> pd.DataFrame:
    return frame[frame["campaign"] == folder.path.name].reset_index(drop=True)


@pytest.mark.full
def test_its_statistics_are_those_of_the_campaign(lake: StoredLake, shared: CampaignDir) -> None:
    found = {
        cell.name: cell_of(cell.key, cell.outcomes) for cell in cells_of(lake, "shared").values()
    }
    document = campaign_document(shared)
    assert {cell.name: cell.conclusive_lossy for cell in document.cells}["system=unclean"] == 2
    for cell in document.cells:
        assert found[cell.name] == CellStatistics(
            **{name: getattr(cell, name) for name in CellStatistics.__dataclass_fields__}
        )


def test_no_rate_describes_the_own_cells_of_a_plan(celled: CampaignDir) -> None:
    """They have different settings."""
    (cell,) = campaign_document(celled).cells
    assert (cell.conclusive, cell.conclusive_lossy) == (1, 1)
    assert cell.pooled_loss_rate == Estimate(why=SEVERAL_SETTINGS)
    assert cell.lost_per_fault_s == Estimate(why=SEVERAL_SETTINGS)
    assert cell.loss_rate == Spread(why=SEVERAL_SETTINGS)
    assert cell.unacknowledged_success_rate == Spread(why=SEVERAL_SETTINGS)


def test_the_query_of_the_page_has_the_rate_of_each_of_them(
    lake: StoredLake, shared: CampaignDir, celled: CampaignDir
) -> None:
    page = (ROOT / "docs" / "how-to" / "lake.md").read_text(encoding="utf-8")
    _, _, of_rates = page.partition("**The rate of each cell**")
    sql = of_rates.partition("```sql\n")[2].partition("```")[0]
    answer = by_duckdb(lake, sql)
    found = {row[0]: (row[1], row[3]) for row in answer}
    campaigns = (shared, celled)
    reported = {
        c.name: (c.runs, c.conclusive_lossy) for f in campaigns for c in campaign_document(f).cells
    }
    own = reported.pop("the plan as it is")
    assert own == (1, 1)
    assert found == reported | {
        "the plan as it is, early": (1, 1),
        "the plan as it is, safe": (1, 0),
        "the plan as it is, two": (1, 0),
        "the plan as it is, unclean": (1, 1),
    }


def test_an_overview_knows_the_cells_of_each_run(lake: StoredLake) -> None:
    in_run = {
        row.name: [(pool.in_run, pool.conclusive) for pool in row.versions[0].pools]
        for group in overview_of(lake).groups
        for row in group.settings
    }
    shared = {name: each for name, each in in_run.items() if name.startswith("system=")}
    assert shared == {
        "system=safe": [(2, 2)],
        "system=unclean": [(2, 2)],
        "system=unmet": [(1, 2)],
    }
    assert [each for name, each in in_run.items() if name not in shared] == [[(4, 1)]] * 4


def test_a_shared_run_is_one_run_and_a_row_for_each_cell(
    lake: StoredLake, shared: CampaignDir
) -> None:
    runs, cells = of(lake.read(RUNS), shared), of(lake.read(CELLS), shared)
    assert len(runs) == 4
    assert len(cells) == 6
    together = runs[runs["cells"] == 2]
    assert list(together["verdict"]) == ["invalid"] * 2
    assert together["cell"].isna().all()
    assert set(together["reason"]) == {"1 of 2 cells: valid; 1 of 2 cells: invalid"}
    for run_id, lost, attempted in together[["run_id", "lost", "attempted"]].itertuples(
        index=False
    ):
        mine = cells[cells["run_id"] == run_id]
        assert list(mine["shared"].notna()) == [True, True]
        assert lost == mine["lost"].sum() > 0
        assert attempted == mine["attempted"].sum()
        assert set(mine["run_cell"]) == {"cell-1", "cell-2"}
    alone = cells[cells["run_cell"].isna()]
    assert set(alone["cell"]) == {"system=unmet"}
    assert set(alone["verdict"]) == {"valid"}
    assert set(lake.read(CELLS)["system"]) == {"memory"}
    assert lake.simulated
    assert lake.read(RUNS)["started"].notna().all()


def test_each_cell_of_a_plan_has_a_row(lake: StoredLake, celled: CampaignDir) -> None:
    cells, (run,) = of(lake.read(CELLS), celled), celled.runs.iterdir()
    document = read_result(celled.run(run.name))
    expected = {each.name: (each.verdict, each.counts.lost) for each in document.cells}
    rows = cells.set_index("run_cell")
    assert {name: tuple(rows.loc[name, ["verdict", "lost"]]) for name in rows.index} == expected
    assert set(cells["rate_per_s"]) == {100.0}, "of the run's 400, shared out"
    assert rows.loc["two", "setting"] == {"target.min_insync": "2"}
    (row,) = of(lake.read(RUNS), celled).to_dict("records")
    assert (row["verdict"], row["lost"]) == (document.verdict, document.counts.lost)
    assert row["rate_per_s"] == 400
    assert row["cell"] == "the plan as it is"


def test_faults_findings_and_observations_are_those_of_the_runs(
    lake: StoredLake, celled: CampaignDir
) -> None:
    (run,) = celled.runs.iterdir()
    folder = celled.run(run.name).cell("early")
    result = read_result(folder)

    def early(table: pd.DataFrame) -> pd.DataFrame:
        mine = of(table, celled)
        return mine[mine["run_cell"] == "early"]

    faults = early(lake.read(FAULTS))
    assert list(faults["fault"]) == [fault.id for fault in result.faults]
    assert list(faults["ops_begun"]) == [fault.ops_begun for fault in result.faults]
    assert faults["proven"].all()
    findings = early(lake.read(FINDINGS))
    lost = findings[findings["kind"] == "lost"]
    expected = frames.findings(folder)
    assert len(lost) == result.counts.lost > 0
    assert sorted(lost["value"]) == sorted(expected[expected["kind"] == "lost"]["value"])
    seen, observed = early(lake.read(OBSERVATIONS)), frames.observations(folder)
    assert len(seen) == len(observed) > 0
    assert list(seen["leader"]) == list(observed["leader"])
    assert list(map(list, seen["members"].dropna())) == list(map(list, observed["isr"].dropna()))


def test_each_fault_says_whether_it_met_who_led_the_cell(
    lake: StoredLake, shared: CampaignDir, celled: CampaignDir
) -> None:
    faults = lake.read(FAULTS)
    alone, together = (
        of(faults, shared)[of(faults, shared)["run_cell"].isna() == is_alone]
        for is_alone in (True, False)
    )
    assert alone["leader_met"].isna().all()
    assert len(together) == 2 * 2 * 3
    for row in together.to_dict("records"):
        result = read_result(shared.run(f"{row['run_id']}.{row['run_cell']}"))
        expected = {each.fault: each.met for each in result.leaders or ()}
        assert row["leader_met"] == expected[row["fault"]]
    assert set(together["leader_met"]) == {True, False}
    (run,) = celled.runs.iterdir()
    for cell in read_result(celled.run(run.name)).cells:
        mine = of(faults, celled)
        mine = mine[mine["run_cell"] == cell.name]
        assert list(mine["leader_met"]) == [each.met for each in cell.leaders]


def test_a_run_whose_plan_has_cells_is_judged_again_with_them(
    celled: CampaignDir, tmp_path: Path
) -> None:
    """Else the campaign and the lake go on counting what was found at first."""
    folder = CampaignDir(tmp_path / "celled")
    shutil.copytree(celled.path, folder.path)
    before = lake_of(tmp_path / "lake", folder).read(CELLS, ["verdict"])
    assert campaign_document(folder).cells[0].verdicts["loss"] == 1
    assert "invalid" in set(before["verdict"])
    for reads in folder.runs.glob("*/cells/*/reads"):
        shutil.rmtree(reads)
    done = ackloss("check", f"local://{folder.path}")
    assert done.exit_code == 3, done.output
    assert "no history" not in done.output
    assert campaign_document(folder).cells[0].verdicts["loss"] == 0
    lake = lake_of(tmp_path / "lake", folder)
    for table in (RUNS, CELLS):
        assert set(lake.read(table, ["verdict"])["verdict"]) == {"unknown"}


def test_a_cell_that_is_judged_again_by_itself_replaces_its_row(
    celled: CampaignDir, tmp_path: Path
) -> None:
    folder = CampaignDir(tmp_path / "celled")
    shutil.copytree(celled.path, folder.path)
    lake_of(tmp_path / "lake", folder)
    (run,) = folder.runs.iterdir()
    shutil.rmtree(folder.run(f"{run.name}.unclean").reads)
    done = ackloss("check", run / "cells" / "unclean")
    assert done.exit_code == 3, done.output
    cells = lake_of(tmp_path / "lake", folder).read(CELLS, ["run_cell", "verdict"])
    assert dict(cells.to_numpy())["unclean"] == "unknown"


def test_what_is_pruned_stays_in_the_lake(
    shared: CampaignDir, lake: StoredLake, tmp_path: Path
) -> None:
    folder = CampaignDir(tmp_path / "shared")
    shutil.copytree(shared.path, folder.path)
    before = lake_of(tmp_path / "lake", folder).read(OBSERVATIONS)
    done = ackloss("campaign", "prune", folder.path, "--keep", "0")
    assert done.exit_code == 0, done.output
    files = files_of(tmp_path / "lake")
    after = lake_of(tmp_path / "lake", folder)
    assert files_of(tmp_path / "lake") == files
    assert in_order(after.read(OBSERVATIONS)) == in_order(before)
    fresh = lake_of(tmp_path / "fresh", folder)
    assert len(fresh.read(OBSERVATIONS)) < len(before), "the folder has fewer of them"
    columns = [name for name in CELLS.schema.names if name not in ("setting",)]
    mine = of(lake.read(CELLS, columns), shared)
    assert in_order(fresh.read(CELLS, columns)) == in_order(mine)


def test_operations_are_added_on_request(shared: CampaignDir, tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", shared)
    assert lake.read(OPS).empty
    cells = lake.read(CELLS, ["run_id", "lost"])
    built = build(folder_of(tmp_path / "lake"), shared, ops=True)
    assert (built.added, built.replaced) == (0, 4)
    files = files_of(tmp_path / "lake")
    lake = lake_of(tmp_path / "lake", shared, ops=True)
    assert files_of(tmp_path / "lake") == files
    ops = lake.read(OPS)
    histories = [frames.history(run) for run in shared.runs_with_history()]
    assert len(ops) == sum(map(len, histories)) > 0
    assert ops["time_s"].sum() == pytest.approx(sum(each["time_s"].sum() for each in histories))
    assert in_order(lake.read(CELLS, ["run_id", "lost"])) == in_order(cells)
    assert lake.read(RUNS)["with_ops"].all()
    lake_of(tmp_path / "lake", shared)
    assert files_of(tmp_path / "lake") == files, "without --ops nothing is taken away"
