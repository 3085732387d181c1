"""Each defect of the reference system is found by each check that fits when it is on, and nothing
is found when it is off: from a plan through a run to its verdict.

Some of them by one seed, so that the fast tests stay fast; `make e2e` runs all by 200.
docs/evidence/defects.md has what `scripts/defects.py` counted.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness import registry
from targets.memory.plan import DEFECTS
from tests.fixtures.budget import budget
from tests.fixtures.scripts import script

SEEDS = range(budget(1, 200))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(7_200)]  # 200 seeds take minutes each


defects = script("defects")


@cache
def tally(cell: Any) -> Any:
    """Of all seeds."""
    return defects.tally(defects.outcome_among_many(cell, seed) for seed in SEEDS)


@pytest.fixture(scope="module")
def run_as() -> Any:
    """The cell that is run for each, where the plans of several differ in words alone."""
    return defects.same_plans(defects.cells())


ON, OFF = ([cell for cell in defects.cells() if cell.on is on] for on in (True, False))
SOME = {
    *(
        (fit := [cell for cell in ON if cell.defect == defect])[number % len(fit)]
        for number, defect in enumerate(DEFECTS)
    ),
    *({cell.check: cell for cell in OFF}.values()),
}
"""Each defect once, and each check once without one: `make test` runs no more."""


def params(cells: list[Any]) -> list[Any]:
    return [
        pytest.param(cell, id=str(cell), marks=[pytest.mark.full] * (cell not in SOME))
        for cell in cells
    ]


@pytest.mark.parametrize("cell", params(ON))
def test_a_defect_that_is_on_is_found(cell: Any, run_as: Any) -> None:
    each = tally(run_as[cell])
    assert each.invalid >= defects.FOUND_SHARE * each.runs, each


@pytest.mark.parametrize("cell", params(OFF))
def test_nothing_is_found_where_it_is_off(cell: Any, run_as: Any) -> None:
    each = tally(run_as[cell])
    assert each.invalid == 0, each
    assert each.verdicts.get("valid", 0) >= defects.VALID_SHARE * each.runs, each


def test_a_transaction_without_an_end_in_the_log_of_one_replica_alone() -> None:
    """Replicas differ: it neither committed nor was aborted there, and that reading fails."""
    verdict, found = defects.outcome(defects.Cell("truncate-without-epochs", "kafka", True), 20)
    assert (verdict, "duplicate" in found) == ("invalid", True)


def test_every_defect_is_run_with_every_check_that_fits() -> None:
    run = {(cell.defect, cell.check) for cell in defects.cells()}
    every = {(defect, check) for defect in DEFECTS for check in defects.CHECKS}
    assert run | set(defects.UNFIT) == every
    assert not run & set(defects.UNFIT)
    assert {defect for defect, _ in run} == set(DEFECTS)


def test_every_checker_has_a_column_or_a_reason_for_having_none() -> None:
    assert not set(defects.CHECKS) & set(defects.ELSEWHERE)
    assert {*defects.CHECKS, *defects.ELSEWHERE} == set(registry.plugins("checkers"))
    named = re.findall(r"`([\w/.-]+\.(?:py|toml))`", " ".join(defects.ELSEWHERE.values()))
    folders = {".py": defects.ROOT, ".toml": defects.ROOT / "plans" / "zookeeper"}
    assert len(named) >= len(defects.ELSEWHERE)
    places = [(defects.ROOT / each, folders[Path(each).suffix] / each) for each in named]
    assert [each for each in places if not any(place.exists() for place in each)] == []


def test_on_and_off_differ_in_the_defect_alone() -> None:
    on, off = (defects.document(defects.Cell("stale-reads", "set", which), 3) for which in (1, 0))
    assert on["target"].pop("defects") == ["stale-reads"]
    assert off["target"].pop("defects") == []
    assert on == off
    assert (on["seed"], on["workload"]["name"], on["expect"]) == (3, "set", None)


def test_cells_are_run_as_one_only_where_their_plans_are_the_same(run_as: Any) -> None:
    assert list(run_as) == defects.cells()
    assert len(set(run_as.values())) < len(run_as)
    for cell, run in run_as.items():
        ours, theirs = defects.document(cell, 7), defects.document(run, 7)
        assert {**ours, "name": "", "about": ""} == {**theirs, "name": "", "about": ""}


def test_options_of_the_plans_own_check_are_kept() -> None:
    fits = defects.document(defects.Cell("offsets-outside-transactions", "kafka", True), 3)
    assert fits["checks"][0]["exactly_once"] is True
    assert defects.document(defects.Cell("deliver-aborted", "kafka", True), 3)["checks"] == [
        "kafka"
    ]


def test_the_page_counts_both_ways_and_names_what_cannot_be_seen() -> None:
    found = defects.Tally({"invalid": 9, "unknown": 1}, {"lost": 9})
    tallies = {
        cell: found if cell.on else defects.Tally({"valid": 10}, {}) for cell in defects.cells()
    }
    page = defects.page(tallies)
    both = "9/10 (1 unknown); 0/10"
    assert f"| stale-reads | - | {both} | {both} | {both} | - | - |" in page
    assert f"| non-atomic-cas | - | {both} | - | - | - | - |" in page
    checks = "`loss`, `set`, `delivery`, `kafka`, `queue`, `list-append`"
    assert f"- {checks}: its workload has no compare-and-set." in page


def test_checks_that_are_not_run_keep_what_the_page_says() -> None:
    some = {cell: defects.Tally({"valid": 3}, {"lost": 3}) for cell in defects.cells(["set"])}
    before = defects.page({cell: defects.Tally({"invalid": 7}, {}) for cell in defects.cells()})
    page = defects.page(some, before)
    kept, new = "7/7; 7/7", "0/3; 0/3"
    assert f"| unclean-election | {kept} | {kept} | {new} | {kept} | {kept} |" in page
    assert all(cell.defect == "stale-reads" for cell in defects.cells(defects=["stale-reads"]))


def test_the_page_in_docs_is_of_this_table() -> None:
    page = defects.PAGE.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and "; 0/" in line]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == list(DEFECTS)
    assert all("; 0/" in cell for row in rows for cell in row.split(" | ") if "; " in cell)
    assert defects.page({}, page) == page
