"""The conclusions of a campaign: never more than the numbers support."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.campaign import CampaignCell, CampaignDocument, results_of, summarised
from analysis.statistics.cells import MedianAndMax, cell_of
from analysis.statistics.comparisons import comparisons_of
from analysis.statistics.contrasts import Resemblance
from checkers.loss import Loss
from checkers.register import Register
from reports.conclusions import closing, conclusions
from tests.fixtures import campaign_folder, result_documents
from tests.fixtures.synthetic_results import FAILED, lossy, run

Key = dict[str, str]
UNKNOWN = run("unknown", doubts=("incomplete",))
VACUOUS = run("unknown", doubts=("vacuous",))


def campaign(*cells: tuple[Key, Sequence[Any]], planned: int | None = None) -> CampaignDocument:
    entries = [
        CampaignCell(
            name=", ".join(f"{axis}={label}" for axis, label in key.items()),
            planned=len(outcomes),
            **vars(cell_of(key, outcomes)),
            leader_not_met=0,
            attempted_per_s=MedianAndMax(median=None, max=None, runs=0),
        )
        for key, outcomes in cells
    ]
    runs = sum(cell.runs for cell in entries)
    return CampaignDocument(
        id="c",
        name="c",
        about="",
        plan_hash="",
        started=None,
        ended=None,
        axes={},
        cells=entries,
        comparisons=comparisons_of([(key, list(outcomes)) for key, outcomes in cells]),
        resemblance={},
        finding=Loss().primary,
        runs=runs,
        executions=runs,
        planned=runs if planned is None else planned,
        versions={"target": ["4.3.1"]},
        mixed_versions={},
    )


TRUE, FALSE = {"unclean": "true"}, {"unclean": "false"}


def test_one_lossy_cell_is_named_with_its_interval() -> None:
    found = conclusions(campaign((TRUE, [lossy()] * 49 + [run()]), (FALSE, [run()] * 50)))
    assert found.headline == "Lost writes in 1 of 2 cells"
    assert found.sentences[0] == (
        "Lost writes in 1 of 2 cells: unclean=true, in 49 of 50 conclusive runs "
        "(95 % interval: 89.4 % to 99.949 %)."
    )
    assert found.sentences[1] == (
        "No lost writes in unclean=false, 50 conclusive runs; up to 7.1 % of runs may still have "
        "them (95 %)."
    )
    assert found.cautions == ()


def test_results_whose_leader_no_fault_met_are_a_caution() -> None:
    document = campaign((TRUE, [run()] * 50), (FALSE, [run()] * 50))
    assert conclusions(document).cautions == ()
    on, off = document.cells
    for spared, words in ((1, "1 result of 1 cell no"), (3, "3 results of 1 cell no")):
        cells = [replace(on, leader_not_met=spared), off]
        (caution,) = conclusions(replace(document, cells=cells)).cautions
        assert caution == (
            f"In {words} fault, or none of a family, met a leader: they count, and show only how "
            "the cell bears such faults of other nodes."
        )


def test_sentences_are_in_the_words_of_the_finding() -> None:
    document = campaign((TRUE, [lossy()] * 49 + [run()]), (FALSE, [run()] * 50 + [UNKNOWN] * 9))
    found = conclusions(replace(document, finding=Register().primary))
    assert found.headline == "Inconsistent registers in 1 of 2 cells"
    assert found.sentences[0] == (
        "Inconsistent registers in 1 of 2 cells: unclean=true, in 49 of 50 conclusive "
        "runs (95 % interval: 89.4 % to 99.949 %)."
    )
    assert found.sentences[1].startswith("No inconsistent registers in unclean=false, 50 ")
    assert (
        "of runs may still have them (95 %), with all other runs counted as having inc"
        in (found.sentences[1])
    )
    assert found.sentences[2].startswith(
        "In cells without inconsistent registers the median run went "
    )
    words = " ".join((found.headline, *found.sentences, *found.cautions))
    assert not re.search(r"\b(loss|lost|lossy|writes? w)", words), words


def test_no_finding_is_in_its_words_too() -> None:
    document = replace(campaign((TRUE, [run()] * 50)), finding=Register().primary)
    found = conclusions(document)
    assert found.headline == "No inconsistent registers in 50 conclusive runs"
    assert found.sentences[0] == (
        "No run that counts has inconsistent registers: 0 of 50 conclusive runs in 1 cell."
    )


def grid(lossy_where: str, runs: int = 50) -> CampaignDocument:
    cells = []
    for unclean in ("true", "false"):
        for acks in ("1", "all"):
            key = {"unclean": unclean, "acks": acks}
            loses = lossy_where in (f"unclean={unclean}", f"acks={acks}", "everywhere")
            cells.append((key, [lossy()] * runs if loses else [run()] * runs))
    return campaign(*cells)


def test_a_choice_that_all_lossy_cells_have_in_common_is_named() -> None:
    sentence = conclusions(grid("unclean=true")).sentences[0]
    assert "in 2 of 4 cells, all of them with unclean=true; the highest share is " in sentence
    assert sentence.endswith(" (also in 1 other cell).")
    assert "all of them with acks=1;" in conclusions(grid("acks=1")).sentences[0]


def test_nothing_in_common_is_claimed_where_no_other_choice_is_conclusive() -> None:
    found = conclusions(grid("everywhere"))
    assert "all of them with" not in found.sentences[0]
    assert found.sentences[1] == "No cell was without lost writes."
    silent = campaign((TRUE, [lossy()] * 30), (FALSE, [UNKNOWN] * 30), ({"unclean": "x"}, []))
    assert "all of them with" not in conclusions(silent).sentences[0]


def test_no_loss_always_comes_with_what_is_still_possible() -> None:
    found = conclusions(campaign((TRUE, [run()] * 50), (FALSE, [run()] * 10)))
    assert found.headline == "No lost writes in 60 conclusive runs"
    assert found.sentences[0] == (
        "No run that counts has lost writes: 0 of 60 conclusive runs in 2 cells."
    )
    assert found.sentences[1] == (
        "No lost writes in 2 cells of 10 to 50 conclusive runs each; up to 7.1 % of runs in the "
        "cell with the most evidence, and up to 30.8 % in the one with the least, may still have "
        "them (95 %)."
    )
    assert found.cautions[0].startswith("1 cell of 2 has fewer than 20 conclusive runs: too few")


def test_many_runs_that_do_not_count_widen_the_interval() -> None:
    found = conclusions(
        campaign((TRUE, [lossy()] * 20 + [UNKNOWN] * 20), (FALSE, [run()] * 30 + [UNKNOWN] * 10))
    )
    assert (
        "20 of 20 conclusive runs (95 % interval from best to worst case of all runs: 33.8 % to "
        "100 %)" in (found.sentences[0])
    )
    assert (
        "up to 41.2 % of runs may still have them (95 %), with all other runs counted as having "
        "lost writes" in found.sentences[1]
    )
    assert found.cautions[0] == (
        "30 of 80 runs do not count, more than 5 % of the runs of 2 cells: if lost writes affect "
        "whether a run counts, the true share lies between the best and the worst case."
    )


def test_losses_in_runs_that_do_not_count_are_reported() -> None:
    starved = [lossy(doubts=("starved",))] * 3 + [UNKNOWN] * 4
    found = conclusions(campaign((TRUE, [run()] * 40 + starved)))
    assert found.headline == (
        "No lost writes in 40 conclusive runs; 3 runs that do not count have lost writes"
    )
    assert found.cautions[0].startswith("3 of the 7 runs that do not count have lost writes: ")
    assert found.sentences[0].startswith(
        "No run that counts has lost writes: 0 of 40 conclusive runs"
    )
    assert found.sentences[1] == "No cell was without lost writes."
    found = conclusions(campaign((TRUE, [run()] * 40 + starved), (FALSE, [lossy()] * 40)))
    assert found.headline == (
        "Lost writes in 1 of 2 cells, and in 1 more in runs that do not count"
    )
    assert "No lost writes" not in found.sentences[1]


def test_a_difference_that_other_runs_may_explain_is_doubtful() -> None:
    starved = [run("unknown", doubts=("starved",))] * 27
    document = campaign(
        (TRUE, [lossy()] * 15 + [run()] * 35), (FALSE, [lossy()] * 15 + [run()] * 8 + starved)
    )
    found = conclusions(document)
    assert any(each.startswith("1 difference between cells is doubtful") for each in found.cautions)
    assert "significant" not in found.sentences[2]


def test_similar_runs_of_one_cluster_are_a_caution() -> None:
    document = campaign((TRUE, [run()] * 40))
    similar = Resemblance(groups=4, runs=40, correlation=0.213, p=0.002)
    other = Resemblance(groups=4, runs=40, correlation=0.01, p=0.4)
    found = {"cluster": {"lossy": similar}, "worker": {"lossy": other}}
    assert conclusions(replace(document, resemblance=found)).cautions == (
        "Runs of one cluster are similar in whether they have lost writes (intraclass correlation "
        "0.21, p = 0.002, 4 clusters): intervals assume independent runs, and are therefore too "
        "narrow.",
    )


def test_an_estimate_that_contradicts_the_test_of_similar_runs_is_left_out() -> None:
    """Cells of unequal variance bias the correlation; the permutation test holds."""
    document = campaign((TRUE, [run()] * 40))
    similar = Resemblance(groups=163, runs=1_153, correlation=-0.28, p=0.048)
    found = conclusions(replace(document, resemblance={"cluster": {"loss_rate": similar}}))
    assert found.cautions == (
        "Runs of one cluster are similar in how much they lose (p = 0.048, 163 clusters): "
        "intervals assume independent runs, and are therefore too narrow.",
    )


def test_runs_that_are_wrong_spoil_a_cell_without_loss() -> None:
    wrong = run("invalid", counter_examples=("unexpected",))
    found = conclusions(campaign((TRUE, [run()] * 40 + [wrong] * 2)))
    assert found.sentences[1].endswith("; 2 runs there are invalid for another reason.")


def test_the_price_for_clients_is_reported_in_medians_and_by_pairs() -> None:
    waits = [run(longest_gap_s=8.0, refused=120)] * 30
    found = conclusions(
        campaign((TRUE, [lossy(longest_gap_s=1.2, refused=0)] * 30), (FALSE, waits))
    )
    assert found.sentences[2] == (
        "In cells without lost writes the median run went 8 s without an acknowledgement and had "
        "120 failed writes; in cells with lost writes, 1.2 s and 0; in the one pair with a "
        "significant difference, the safer cell waited longer."
    )


def test_pairs_that_chance_explains_are_not_reported() -> None:
    found = conclusions(campaign((TRUE, [lossy()] + [run()] * 29), (FALSE, [run()] * 30)))
    assert "pair" not in found.sentences[2]


@pytest.mark.parametrize("runs", [[], [FAILED] * 5, [UNKNOWN] * 5, [VACUOUS] * 5])
def test_without_a_conclusive_run_nothing_is_concluded(runs: list[Any]) -> None:
    found = conclusions(campaign((TRUE, runs), planned=10))
    assert found.headline == "No run is conclusive"
    assert found.sentences[:2] == (
        "Nothing is known about lost writes: no run is conclusive.",
        "Nothing is known about safety either.",
    )
    assert any(f"{len(runs)} of 10 planned runs are finished" in each for each in found.cautions)


def test_failures_vacuous_runs_and_versions_are_cautions() -> None:
    document = campaign((TRUE, [run()] * 40 + [FAILED] * 5 + [VACUOUS] * 5))
    document = replace(document, mixed_versions={"target": ["4.3.0", "4.3.1"]})
    found = " ".join(conclusions(document).cautions)
    assert "5 of 50 runs failed, more than 5 % of those of 1 cell: the harness failed" in found
    assert "5 of 50 runs are vacuous" in found
    assert "Runs of one cell differ in their version of target: 4.3.0, 4.3.1." in found


def test_losses_that_were_seen_in_runs_that_do_not_count_are_not_nothing() -> None:
    seen = lossy(doubts=("starved",))
    sentence, *_ = (
        each
        for each in conclusions(campaign((TRUE, [seen] * 2), (FALSE, [run()] * 30))).cautions
        if "no conclusive run" in each
    )
    assert sentence.endswith("no share is known of it, and lost writes were seen in 1.")


def ended(tmp_path: Path, on: Sequence[Any], off: Sequence[Any], **more: Any) -> str:
    """The closing sentence of a campaign of these two cells."""
    tmp_path.mkdir(exist_ok=True)
    folder = campaign_folder.build(
        tmp_path / "c", {campaign_folder.ON: on, campaign_folder.OFF: off}, **more
    )
    progress, planned = folder.progress(), folder.campaign()
    document = summarised(folder, progress, list(results_of(folder, progress)))
    return closing(document, folder, planned, progress).replace(str(folder.path), "C")


LOSSY, SAFE = result_documents.lossy(), result_documents.run()


def test_a_campaign_ends_with_what_would_decide_it(tmp_path: Path) -> None:
    sentence = ended(tmp_path, [LOSSY] * 3 + [SAFE] * 7, [SAFE] * 10)
    assert sentence.startswith(
        "unclean=true lost in 3 of 10, unclean=false in 0 of 10: not yet decided, p = 0.088; 22 a "
        "cell would do, about 5 min: `ackloss campaign resume C --repetitions 22`"
    )
    assert '`share = "auto"` would take half the time' in sentence, "it is not shared"
    assert "only for cells side by side" in sentence


def test_a_campaign_that_is_decided_or_doubtful_says_so(tmp_path: Path) -> None:
    sentence = ended(tmp_path, [LOSSY] * 9 + [SAFE], [SAFE] * 10)
    assert re.fullmatch(
        r"unclean=true lost in 9 of 10, unclean=false in 0 of 10: decided, p (= 0.0\d+|< 0.0001)\.",
        sentence,
    )
    unknown = result_documents.run("unknown", doubts=("unmet",))
    sentence = ended(tmp_path / "x", [LOSSY] * 6 + [SAFE] * 2, [SAFE] * 8 + [unknown] * 8)
    assert "doubtful (p = 0.0" in sentence
    assert "runs that do not count could reverse it" in sentence


def test_a_campaign_without_loss_says_what_its_runs_exclude(tmp_path: Path) -> None:
    assert ended(tmp_path, [SAFE] * 10, [SAFE] * 10) == (
        "No lost writes in 20 conclusive runs of 2 cells: a share above 30.8 % of "
        "any cell is excluded (95 %)."
    )
    failed = {"error": "no disk"}
    assert ended(tmp_path / "x", [failed], [failed]) == "No run is conclusive: nothing is decided."


def test_the_closing_sentence_counts_results_of_pairs_and_what_the_others_showed(
    tmp_path: Path,
) -> None:
    unmet = result_documents.lossy(doubts=("unmet",))
    sentence = ended(tmp_path, [LOSSY] * 3 + [SAFE] * 7, [SAFE] * 8 + [unmet] * 2, shared=True)
    assert sentence.startswith(
        "unclean=true lost in 3 of 10, unclean=false in 0 of 8 (2 of 2 others): not yet decided"
    )
    assert "share =" not in sentence, "it is shared"
    assert ended(tmp_path / "x", [SAFE] * 3, [SAFE] * 3, shared=True).startswith(
        "No lost writes in 6 conclusive results of 2 cells"
    )


def test_cells_in_which_the_outcome_chose_the_runs_are_shown_with_bounds() -> None:
    unmet = [lossy(doubts=("unmet",))] * 6 + [run("unknown", doubts=("unmet",))] * 6
    document = campaign((TRUE, [lossy()] * 2 + [run()] * 86 + unmet), (FALSE, [run()] * 100))
    found = conclusions(document)
    assert (
        "2 of 88 conclusive runs (95 % interval from best to worst case of all runs: 3.5 %"
        in (found.sentences[0])
    )
    assert any("the bounds over all runs stand there instead" in each for each in found.cautions)
    fair = campaign((TRUE, [lossy()] * 50 + [run()] * 38 + unmet), (FALSE, [run()] * 100))
    assert not any("stand there instead" in each for each in conclusions(fair).cautions)
