"""The page of a run with cells, its tables, and what the command line says of it."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from junitparser import Error, Failure, JUnitXml

from checkers.judging.one_run import judge_run
from harness.history.run_folder import RunDir
from reports.page import write_page
from tests.fixtures.command_line import ackloss
from tests.fixtures.memory_cells import CELLS, PLAN
from tests.reports.test_page import parsed, policy

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]


@pytest.fixture
def judged(run_with_cells: RunDir) -> RunDir:
    return run_with_cells


@pytest.fixture
def run(judged: RunDir, tmp_path: Path) -> RunDir:
    """A copy that may be changed."""
    return RunDir(Path(shutil.copytree(judged.path, tmp_path / "run")))


def test_the_page_compares_the_cells_and_leads_to_the_page_of_each(judged: RunDir) -> None:
    page = parsed(judged)
    assert "2 of 4 cells lost acknowledged writes" in page.words
    assert "Simulated." in page.words
    links = [link["href"] for link in page.named("a")]
    for name in CELLS:
        assert f"cells/{name}/report.html" in links
        assert judged.cell(name).report.is_file()
    assert [link for link in links if str(link).startswith("cells/")] == [
        f"cells/{name}/report.html" for name in CELLS
    ]
    for words in ("defects", "min_insync", "acknowledge-before-replication", "4.2 %", "cut-leader"):
        assert words in page.words
    assert policy(page)["default-src"] == "'none'"


def test_the_page_of_a_cell_leads_back(judged: RunDir) -> None:
    page = parsed(judged.cell("unclean"))
    assert "../../report.html" in [link["href"] for link in page.named("a")]
    assert "a cell of run run" in page.words
    assert "25 of 600 acknowledged writes were lost" in page.words


def test_a_cell_whose_leader_no_fault_met_says_so(run: RunDir) -> None:
    result = run.read_json(run.result)
    for each in result["cells"][0]["leaders"]:
        each["met"] = False
    run.write_json(run.result, result)
    write_page(run)
    assert "not met" in parsed(run).words
    assert "(no fault met its leader)" in ackloss("show", str(run.path)).stdout


def test_the_load_of_each_cell_is_shown(run: RunDir) -> None:
    """Cells of one run are compared: one that had less load than planned shows it."""
    document = run.read_json(run.result)
    document["cells"][1]["counts"]["attempted"] = 300
    run.write_json(run.result, document)
    plan = run.cell("two").read_json(run.cell("two").plan)
    run.cell("two").write_json(run.cell("two").plan, {**plan, "workload": 3})
    write_page(run)
    words = parsed(run).words
    assert words.count("100 of 100 planned") == 2
    assert "50 of 100 planned" in words
    with run.cells_csv.open(encoding="utf-8", newline="") as file:
        loads = [row["attempted_per_s"] for row in csv.DictReader(file)]
    assert loads == ["100", "50", "100", ""], "of a plan that is damaged it is not known"


def test_a_missing_cell_has_a_row_and_no_link(run: RunDir) -> None:
    shutil.rmtree(run.cell("early").path)
    judge_run(run)
    write_page(run)
    page = parsed(run)
    assert "missing: cells/early" in page.words
    assert "cells/early/report.html" not in [link["href"] for link in page.named("a")]
    assert "1 of 4 cells lost acknowledged writes; of 1 it is not known" in page.words


def unknown(run: RunDir, *names: str) -> None:
    """Rewrite results: these cells are unknown, and no write of theirs counts as lost."""
    result = run.read_json(run.result)
    result["cells"] = [
        each | _NOT_KNOWN if each["name"] in names else each for each in result["cells"]
    ]
    run.write_json(run.result, result | {"verdict": "unknown"})
    for name in names:
        cell = run.cell(name)
        cell.write_json(cell.result, cell.read_json(cell.result) | _NOT_KNOWN)


_NOT_KNOWN: dict[str, Any] = {
    "verdict": "unknown",
    "reason": "900 acknowledged writes may stand beyond what was read",
    "counter_examples": [],
    "counts": {"attempted": 900, "acknowledged": 900, "lost": 0, "not_yet_visible": 900},
    "rates": {"ack": 1.0, "loss": 0.0},
}


def test_losses_of_unknown_cells_are_unknown_everywhere(run: RunDir) -> None:
    unknown(run, *CELLS)
    write_page(run)
    page = parsed(run)
    assert "It is not known of any of 4 cells whether it lost acknowledged writes" in page.words
    assert page.words.count("900 unknown unknown") == 4
    with run.cells_csv.open(encoding="utf-8", newline="") as file:
        assert {(row["lost"], row["loss_rate"]) for row in csv.DictReader(file)} == {("", "")}
    cell = run.cell("safe").path
    shown = ackloss("show", str(run.path)).stdout + ackloss("show", str(cell)).stdout
    assert "  safe     UNKNOWN  900 acknowledged, losses unknown" in shown
    assert "lost unknown" in shown
    assert "loss rate unknown" in shown
    listed = ackloss("ls", "--out", str(cell.parent)).stdout
    assert listed.count("900") == 4
    for text in (page.words, shown, listed):
        assert not re.search(r"(?<!success rate )\b0 %|\blost 0|loss rate 0|\b0 +900", text), text


def test_a_headline_counts_only_cells_with_a_verdict(run: RunDir) -> None:
    unknown(run, "unclean", "early")
    write_page(run)
    words = "None of 2 conclusive cells lost acknowledged writes; of 2 it is not known"
    assert words in parsed(run).words


def test_a_run_that_was_not_checked_has_a_page_that_says_so(run: RunDir) -> None:
    run.result.unlink()
    write_page(run)
    assert "This run has not been checked" in parsed(run).words


def test_warnings_and_what_was_not_counted_are_on_the_page(run: RunDir) -> None:
    forced = {"key": "min.insync.replicas", "what": "is ignored", "source": "KAFKA-1"}
    metadata = run.read_json(run.run) | {
        "forced": [forced],
        "load": {"starved": True, "why": "the disk was full"},
        "warnings": ["the clock was set back"],
        "state": "interrupted",
    }
    run.write_json(run.run, metadata)
    result = run.read_json(run.result)
    result["faults"][0] |= {"ops_begun": None}
    run.write_json(run.result, result)
    write_page(run)
    words = parsed(run).words
    for said in (
        "Forced: this version does not honour a requested setting. min.insync.replicas: is ignored",
        "The load generator starved. The disk was full.",
        "Note. the clock was set back",
        "This run was interrupted",
        "healed 1.60 s; met the leader of",
    ):
        assert said in words
    assert words.index("This run was interrupted") < words.index("2 of 4 cells lost")
    assert "not defined" not in words


def test_the_tables_have_a_row_and_a_case_for_each_cell(judged: RunDir) -> None:
    with judged.cells_csv.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["cell"] for row in rows] == list(CELLS)
    assert rows[1]["target.defects"] == "unclean-election"
    assert rows[3]["target.min_insync"] == "2"
    assert int(rows[1]["lost"]) == 25
    assert float(rows[1]["loss_rate"]) == pytest.approx(25 / 600)
    assert rows[1]["leader_met"] == "true"
    assert {row["simulated"] for row in rows} == {"true"}
    assert {(row["planned_per_s"], row["attempted_per_s"]) for row in rows} == {("100", "100")}
    assert int(rows[1]["attempted"]) == 600, "in 6 s"
    (suite,) = JUnitXml.fromfile(str(judged.junit))
    assert [case.name for case in suite] == list(CELLS)
    assert (suite.failures, suite.errors) == (0, 0), "all is as expected"
    stated = {each.name: each.value for each in suite.properties()}
    assert stated == {"run": judged.run_id, "simulated": "true"}


def test_no_text_of_a_run_is_a_formula_or_hidden(run: RunDir) -> None:
    result = run.read_json(run.result)
    cell = result["cells"][0]
    cell |= {"reason": '=HYPERLINK("http://x")\u202e', "overrides": {"=x": "=cmd|/C calc!A0"}}
    run.write_json(run.result, result)
    plan = run.cell("safe").read_json(run.cell("safe").plan)
    run.cell("safe").write_json(run.cell("safe").plan, plan | {"=x": "=cmd|/C calc!A0"})
    write_page(run)
    with run.cells_csv.open(encoding="utf-8", newline="") as file:
        row = next(csv.DictReader(file))
    assert row["reason"] == '\'=HYPERLINK("http://x")\\u202e'
    assert row["'=x"] == "'=cmd|/C calc!A0"
    assert not [name for name in row if name.startswith("=")]


def test_a_case_fails_that_is_invalid_or_not_as_expected(run: RunDir) -> None:
    result = run.read_json(run.result)
    expected: list[Any] = [None, None, "valid", None]
    verdicts = ["valid", "invalid", "invalid", "unknown"]
    for cell, expect, verdict in zip(result["cells"], expected, verdicts, strict=True):
        cell |= {"expect": expect, "verdict": verdict}
    run.write_json(run.result, result)
    write_page(run)
    (suite,) = JUnitXml.fromfile(str(run.junit))
    kinds = [[type(each) for each in case.result] for case in suite]
    assert kinds == [[], [Failure], [Failure], [Error]]


def test_show_and_check_print_a_line_for_each_cell(judged: RunDir) -> None:
    shown = ackloss("show", str(judged.path)).stdout
    assert "  unclean  INVALID  lost 25 of 600 acknowledged (4.2 %)" in shown
    assert "  safe     VALID    lost 0 of 600 acknowledged" in shown
    document = json.loads(ackloss("show", str(judged.path), "--json").stdout)
    assert [cell["name"] for cell in document["cells"]] == list(CELLS)


def test_as_expected_looks_at_each_cell_or_at_the_run(tmp_path: Path) -> None:
    text = PLAN.read_text(encoding="utf-8").replace('expect = "invalid"\n', "", 1)
    (plan := tmp_path / "plan.toml").write_text(text, encoding="utf-8")
    run = ("run", str(plan), "--as-expected", "--out", str(tmp_path / "runs"))
    done = ackloss(*run)
    assert done.exit_code == 0, done.stdout
    assert "  two      VALID    lost 0 of 600 acknowledged" in done.stdout
    plan.write_text(text.replace('expect = "valid"\n', "", 1), encoding="utf-8")
    done = ackloss(*run)
    assert done.exit_code == 4
    assert "or each of its cells" in done.stderr
    done = ackloss(*("run", str(PLAN)), *run[2:], "--set", "cells.3.expect=invalid")
    assert done.exit_code == 1
    assert "memory: cells: two: valid, expected invalid" in done.stdout
    assert "NOT AS EXPECTED: invalid" in done.stdout


@pytest.mark.browser
def test_it_opens_in_a_browser_without_trouble(judged: RunDir, visit: Any) -> None:
    page = visit(judged.report, width=(width := 390))
    assert page.troubles == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click("a:has-text('unclean')")
    assert "25 of 600 acknowledged writes were lost" in page.inner_text("h1")
    page.click("a:has-text('run run')")
    assert "2 of 4 cells lost acknowledged writes" in page.inner_text("h1")
