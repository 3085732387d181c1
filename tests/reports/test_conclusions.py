"""What a reader is told to conclude: never more than the numbers say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from analysis.statistics.cells import cell_of
from analysis.statistics.comparisons import comparisons_of
from reports.conclusions import conclusions
from tests.fixtures.result_documents import FAILED, lossy, run

Key = dict[str, str]
UNKNOWN = run("unknown", doubts=("incomplete",))
VACUOUS = run("unknown", doubts=("vacuous",))


def campaign(*cells: tuple[Key, Sequence[Any]], planned: int | None = None) -> dict[str, Any]:
    told = [
        {
            "name": ", ".join(f"{axis}={label}" for axis, label in key.items()),
            "planned": len(documents),
            **cell_of(key, documents),
        }
        for key, documents in cells
    ]
    runs = sum(cell["runs"] for cell in told)
    return {
        "cells": told,
        "comparisons": comparisons_of([(key, list(documents)) for key, documents in cells]),
        "runs": runs,
        "planned": runs if planned is None else planned,
        "versions": {"target": ["4.3.1"]},
    }


TRUE, FALSE = {"unclean": "true"}, {"unclean": "false"}


def test_one_lossy_cell_is_named_with_its_interval() -> None:
    told = conclusions(campaign((TRUE, [lossy()] * 49 + [run()]), (FALSE, [run()] * 50)))
    assert told.headline == "Acknowledged writes were lost in 1 of 2 cells"
    assert told.sentences[0] == (
        "Acknowledged writes were lost in 1 of 2 cells: unclean=true, in 49 of 50 conclusive runs "
        "(95 % interval: 89.4 % to 99.949 %)."
    )
    assert told.sentences[1] == (
        "Nothing was lost in unclean=false, 50 conclusive runs; that still allows a chance of loss "
        "of up to 7.1 % a run (95 %)."
    )
    assert told.cautions == ()


def grid(lossy_where: str, runs: int = 50) -> dict[str, Any]:
    cells = []
    for unclean in ("true", "false"):
        for acks in ("1", "all"):
            key = {"unclean": unclean, "acks": acks}
            loses = lossy_where in (f"unclean={unclean}", f"acks={acks}", "everywhere")
            cells.append((key, [lossy()] * runs if loses else [run()] * runs))
    return campaign(*cells)


def test_what_all_lossy_cells_have_in_common_is_said() -> None:
    sentence = conclusions(grid("unclean=true")).sentences[0]
    assert (
        "in 2 of 4 cells, all of them with unclean=true; most often in 2 of them alike" in sentence
    )
    assert "all of them with acks=1;" in conclusions(grid("acks=1")).sentences[0]


def test_nothing_in_common_is_claimed_where_no_other_choice_is_conclusive() -> None:
    told = conclusions(grid("everywhere"))
    assert "all of them with" not in told.sentences[0]
    assert told.sentences[1] == "No cell was without loss."
    silent = campaign((TRUE, [lossy()] * 30), (FALSE, [UNKNOWN] * 30), ({"unclean": "x"}, []))
    assert "all of them with" not in conclusions(silent).sentences[0]


def test_no_loss_is_never_told_without_what_it_allows() -> None:
    told = conclusions(campaign((TRUE, [run()] * 50), (FALSE, [run()] * 10)))
    assert told.headline == "No acknowledged write was lost in 60 conclusive runs"
    assert told.sentences[0] == (
        "No loss was seen: 0 of 60 conclusive runs in 2 cells lost an acknowledged write."
    )
    assert told.sentences[1] == (
        "Nothing was lost in 2 cells of 10 to 50 conclusive runs each; that still allows a chance "
        "of loss of up to 7.1 % a run in the best known, 30.8 % in the least (95 %)."
    )
    assert told.cautions[0].startswith("1 cell of 2 has fewer than 20 conclusive runs: too few")


def test_many_runs_that_do_not_count_widen_what_is_told() -> None:
    told = conclusions(
        campaign((TRUE, [lossy()] * 20 + [UNKNOWN] * 20), (FALSE, [run()] * 30 + [UNKNOWN] * 10))
    )
    assert (
        "20 of 20 conclusive runs (95 % interval, all other runs taken either way: 33.8 % to 100 %)"
        in (told.sentences[0])
    )
    assert "up to 41.2 % a run (95 %), all other runs taken for lossy" in told.sentences[1]
    assert told.cautions[0] == (
        "30 of 80 runs do not count, more than 5 % of the runs of 2 cells: if whether a run counts "
        "depends on whether it loses, the truth is between best and worst case."
    )


def test_losses_in_runs_that_do_not_count_are_told() -> None:
    starved = [lossy(doubts=("starved",))] * 3 + [UNKNOWN] * 4
    told = conclusions(campaign((TRUE, [run()] * 40 + starved)))
    assert told.headline == (
        "No acknowledged write was lost in 40 conclusive runs; 3 runs that do not count lost some"
    )
    assert told.cautions[0].startswith("3 of the 7 runs that do not count lost writes: ")
    assert told.sentences[0].startswith("No run that counts lost anything: 0 of 40 conclusive runs")
    assert told.sentences[1] == "No cell was without loss."
    told = conclusions(campaign((TRUE, [run()] * 40 + starved), (FALSE, [lossy()] * 40)))
    assert told.headline == (
        "Acknowledged writes were lost in 1 of 2 cells, and in 1 more by runs that do not count"
    )
    assert "Nothing was lost" not in told.sentences[1]


def test_a_difference_that_other_runs_may_have_made_is_doubtful() -> None:
    starved = [run("unknown", doubts=("starved",))] * 27
    document = campaign(
        (TRUE, [lossy()] * 15 + [run()] * 35), (FALSE, [lossy()] * 15 + [run()] * 8 + starved)
    )
    told = conclusions(document)
    assert any(each.startswith("1 difference between cells is doubtful") for each in told.cautions)
    assert "beyond chance" not in told.sentences[2]


def test_runs_of_one_cluster_that_resemble_each_other_are_a_caution() -> None:
    document = campaign((TRUE, [run()] * 40))
    alike = {"groups": 4, "runs": 40, "correlation": 0.213, "p": 0.002, "why": None}
    other = {"groups": 4, "runs": 40, "correlation": 0.01, "p": 0.4, "why": None}
    document["resemblance"] = {"cluster": {"lossy": alike}, "worker": {"lossy": other}}
    assert conclusions(document).cautions == (
        "Runs of one cluster resemble each other in whether they lose (intraclass correlation "
        "0.21, p = 0.002, 4 clusters): intervals, which take runs as independent, are narrower "
        "than they should be.",
    )


def test_runs_that_are_wrong_spoil_a_cell_without_loss() -> None:
    wrong = run("invalid", counter_examples=("unexpected",))
    told = conclusions(campaign((TRUE, [run()] * 40 + [wrong] * 2)))
    assert told.sentences[1].endswith("; 2 runs there are invalid for something else.")


def test_what_clients_paid_is_told_in_medians_and_by_pairs() -> None:
    waits = [run(longest_gap_s=8.0, refused=120)] * 30
    told = conclusions(campaign((TRUE, [lossy(longest_gap_s=1.2, refused=0)] * 30), (FALSE, waits)))
    assert told.sentences[2] == (
        "In cells without loss the median run went 8 s without an acknowledgement and had 120 "
        "writes refused; in cells with loss 1.2 s and 0; in the one pair that differs beyond "
        "chance the safer cell waited longer."
    )


def test_pairs_that_chance_explains_are_not_told() -> None:
    told = conclusions(campaign((TRUE, [lossy()] + [run()] * 29), (FALSE, [run()] * 30)))
    assert "pair" not in told.sentences[2]


@pytest.mark.parametrize("runs", [[], [FAILED] * 5, [UNKNOWN] * 5, [VACUOUS] * 5])
def test_without_a_conclusive_run_nothing_is_concluded(runs: list[Any]) -> None:
    told = conclusions(campaign((TRUE, runs), planned=10))
    assert told.headline == "No run is conclusive"
    assert told.sentences[:2] == (
        "Nothing can be said of loss: no run is conclusive.",
        "Nothing can be said of safety either.",
    )
    assert any(f"{len(runs)} of 10 planned runs are finished" in told for told in told.cautions)


def test_failures_vacuous_runs_and_versions_are_cautions() -> None:
    document = campaign((TRUE, [run()] * 40 + [FAILED] * 5 + [VACUOUS] * 5))
    document["versions"] = {"target": ["4.3.0", "4.3.1"]}
    told = " ".join(conclusions(document).cautions)
    assert "5 of 50 runs failed, more than 5 % of the runs of 1 cell: the harness broke" in told
    assert "5 of 50 runs are vacuous" in told
    assert "Runs differ in their version of target: 4.3.0, 4.3.1." in told
