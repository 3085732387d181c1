"""Two runs with cells are compared cell by cell, on one page and as JSON."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checkers.judging.one_run import judge_run
from harness.history.run_folder import RunDir
from tests.fixtures.command_line import ackloss
from tests.fixtures.memory_cells import CELLS, PLAN, run_of_cells
from tests.fixtures.pictures import drawn
from tests.reports.test_page import Parsed, policy

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

CHANGES = {"cells.1.target.defects": [], "final.settle_s": 12, "cells.0.name": "renamed"}


@pytest.fixture(scope="module")
def judged(
    run_with_cells: RunDir, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RunDir, RunDir]:
    """The plan, and the same with one defect less, another time to settle and a cell of another
    name."""
    other = run_of_cells(tmp_path_factory.mktemp("other"), CHANGES)
    judge_run(other)
    return run_with_cells, other


@pytest.fixture
def runs(judged: tuple[RunDir, RunDir], tmp_path: Path) -> tuple[RunDir, RunDir]:
    """Copies that may be changed."""
    a, b = (
        RunDir(Path(shutil.copytree(run.path, tmp_path / name / "run")))
        for name, run in zip("ab", judged, strict=True)
    )
    return a, b


def compared(a: RunDir, b: RunDir, page: Path) -> tuple[Parsed, dict[str, Any]]:
    done = ackloss("compare", str(a.path), str(b.path), "--page", str(page), "--json")
    assert done.exit_code == 0, done.stderr
    return Parsed(page.read_text(encoding="utf-8")), json.loads(done.stdout)


Whole = tuple[Parsed, dict[str, Any], Path]


@pytest.fixture(scope="module")
def whole(
    judged: tuple[RunDir, RunDir], undrawn: None, tmp_path_factory: pytest.TempPathFactory
) -> Whole:
    """Both compared, cell by cell: the page, the document, and the folder of the page."""
    folder = tmp_path_factory.mktemp("compared")
    return *compared(*judged, folder / "compare.html"), folder


def refused(a: Path, b: Path) -> str:
    done = ackloss("compare", str(a), str(b))
    assert done.exit_code == 4, done.output
    (sentence,) = done.stderr.strip().splitlines()
    return str(sentence)


def test_whole_runs_with_cells_are_compared_cell_by_cell(whole: Whole) -> None:
    page, document, _ = whole
    assert [cell["name"] for cell in document["cells"]] == ["unclean", "early", "two"]
    assert (document["only_a"], document["only_b"]) == (["safe"], ["renamed"])
    assert document["not_compared"] == {}
    assert document["simulated"] is True
    verdicts = {cell["name"]: (cell["a"]["verdict"], cell["b"]["verdict"])
                for cell in document["cells"]}  # fmt: skip
    assert verdicts == {
        "unclean": ("invalid", "valid"),
        "early": ("invalid", "invalid"),
        "two": ("valid", "valid"),
    }
    assert document["cells"][0]["a"]["run_id"] == "run.unclean"
    order = [
        "Simulated.", "The verdict differs in 1 of 3 cells: unclean",
        "2 of 4 cells lost acknowledged writes", "1 of 4 cells lost acknowledged writes",
        "Cells", "25 of 600 acknowledged writes were lost (4.2 %)",
        "Only memory: cells, run run has: safe.", "Differences of all cells",
        "unclean", "unclean-election", "verdict invalid valid", "Run them again",
    ]  # fmt: skip
    at = 0
    for words in order:
        at = page.words.find(words, at)
        assert at >= 0, words
    assert policy(page)["default-src"] == "'none'"


def test_what_differs_in_every_cell_is_listed_once(whole: Whole) -> None:
    page, document, _ = whole
    assert [(d["key"], d["a"], d["b"]) for d in document["differences"]] == [
        ("final.settle_s", "10", "12")
    ]
    for cell in document["cells"]:
        assert document["differences"][0] in cell["differences"], "each is complete by itself"
    assert page.words.count("final.settle_s") == 1
    defects = {d["key"]: d for d in document["cells"][0]["differences"] if "defects" in d["key"]}
    assert {(d["a"], d["b"]) for d in defects.values()} == {("unclean-election", "")}


def test_a_pair_has_the_differences_of_its_cells_compared_alone(
    judged: tuple[RunDir, RunDir], whole: Whole, tmp_path: Path
) -> None:
    _, document, _ = whole
    for cell in document["cells"]:
        a, b = (run.cell(cell["name"]) for run in judged)
        _, alone = compared(a, b, tmp_path / "alone.html")
        assert alone["differences"] == cell["differences"]
        assert (alone["a"], alone["b"]) == (cell["a"], cell["b"])


def test_it_links_to_the_pages_that_exist(whole: Whole) -> None:
    page, _, folder = whole
    links = [str(link["href"]) for link in page.named("a")]
    outside = [link for link in links if not link.startswith("#")]
    assert len(outside) == 4, "the first run and its three cells in the pairs"
    assert all((folder / link).is_file() for link in outside)
    inside = [link for link in links if link.startswith("#cell-")]
    assert inside == [f"#cell-{number}" for number in (1, 2, 3)]


def test_a_run_and_itself_do_not_differ(judged: tuple[RunDir, RunDir], tmp_path: Path) -> None:
    page, document = compared(judged[0], judged[0], tmp_path / "compare.html")
    assert "The verdict is the same in each of 4 compared cells" in page.words
    assert document["differences"] == document["only_a"] == document["only_b"] == []
    assert [cell["differences"] for cell in document["cells"]] == [[]] * len(CELLS)


def without(run: RunDir) -> None:
    shutil.rmtree(run.cell("early").path)


def damaged(run: RunDir) -> None:
    run.cell("early").result.write_text("{")


@pytest.mark.parametrize("harm", [without, damaged], ids=lambda harm: harm.__name__)
def test_a_cell_that_cannot_be_read_does_not_keep_others_from_being_compared(
    runs: tuple[RunDir, RunDir], tmp_path: Path, harm: Callable[[RunDir], None]
) -> None:
    harm(runs[1])
    page, document = compared(*runs, tmp_path / "compare.html")
    assert [cell["name"] for cell in document["cells"]] == ["unclean", "two"]
    assert list(document["not_compared"]) == ["early"]
    assert str(runs[1].cell("early").path) in document["not_compared"]["early"]
    assert "early is not compared: " in page.words


def test_if_no_cell_can_be_read_nothing_is_compared(runs: tuple[RunDir, RunDir]) -> None:
    shutil.rmtree(runs[1].cells_path)
    assert "no cell can be compared: " in refused(runs[0].path, runs[1].path)


def test_a_run_that_was_not_checked_is_compared_by_what_its_cells_have(
    runs: tuple[RunDir, RunDir], tmp_path: Path
) -> None:
    """The cells of a campaign's shared run are judged, and the run itself is not."""
    runs[1].result.unlink()
    runs[1].cell("two").result.unlink()
    page, document = compared(*runs, tmp_path / "compare.html")
    assert document["b"]["verdict"] == "unchecked"
    verdicts = {cell["name"]: cell["b"]["verdict"] for cell in document["cells"]}
    assert verdicts == {"unclean": "valid", "early": "invalid", "two": "unchecked"}
    assert "not checked" in page.words


def test_only_one_with_cells_is_one_sentence(judged: tuple[RunDir, RunDir]) -> None:
    run, cell = judged[0].path, judged[0].cell("safe").path
    for pair in ((run, cell), (cell, run)):
        sentence = refused(*pair)
        assert f"{run}: has cells, and {cell} has none: there is nothing to pair" in sentence
        assert f"or one of its cells, such as {cell}" in sentence


def test_no_common_cell_is_one_sentence(runs: tuple[RunDir, RunDir]) -> None:
    document = runs[1].read_json(runs[1].run)
    for each in document["cells"]:
        each["name"] = f"new-{each['name']}"
    runs[1].write_json(runs[1].run, document)
    sentence = refused(runs[0].path, runs[1].path)
    assert f"has no cell in common with {runs[1].path}: safe, unclean, early, two; new-" in sentence
    assert "cells are paired by name" in sentence


def test_simulated_and_real_runs_are_not_compared(runs: tuple[RunDir, RunDir]) -> None:
    document = runs[1].read_json(runs[1].run)
    runs[1].write_json(runs[1].run, {**document, "simulated": False})
    result = runs[1].read_json(runs[1].result)
    runs[1].write_json(runs[1].result, {**result, "simulated": False})
    assert "simulated and real runs are not compared" in refused(runs[0].path, runs[1].path)


@pytest.mark.full
def test_run_compares_two_plans_with_cells(tmp_path: Path) -> None:
    shutil.copy(PLAN, tmp_path / "other.toml")
    out = tmp_path / "runs"
    done = ackloss("run", PLAN, tmp_path / "other.toml", "--compare", "--out", out)
    assert done.exit_code == 1, done.output
    (page,) = out.glob("compare-*.html")
    assert "compared cell" in page.read_text(encoding="utf-8")


def test_run_refuses_plans_whose_cells_cannot_be_paired_before_it_starts(tmp_path: Path) -> None:
    text = PLAN.read_text(encoding="utf-8")
    for name in CELLS:
        text = text.replace(f'name = "{name}"', f'name = "new-{name}"')
    (tmp_path / "other.toml").write_text(text, encoding="utf-8")
    out = tmp_path / "runs"
    for other, why in (
        (tmp_path / "other.toml", "no cell in common"),
        (PLAN.with_name("log.toml"), "in one of them only"),
    ):
        done = ackloss("run", PLAN, other, "--compare", "--out", out)
        assert done.exit_code == 4, done.output
        (sentence,) = done.stderr.strip().splitlines()
        assert f"{PLAN}: cells: --compare pairs cells by name" in sentence
        assert why in sentence
        assert not out.exists()


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1440])
def test_it_opens_in_a_browser_without_trouble(
    judged: tuple[RunDir, RunDir], tmp_path: Path, visit: Any, width: int
) -> None:
    with drawn():
        compared(*judged, tmp_path / "compare.html")
    page = visit(tmp_path / "compare.html", width=width)
    assert page.troubles == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
