"""The page of a campaign as a file: it agrees with the known truth, and its text is only text."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from checkers.judging.one_run import judge_run
from harness.campaigns.folder import CampaignDir
from harness.errors import EnvironmentFailure, HistoryError
from reports import campaign
from reports.campaign import write_campaign, write_run_pages
from reports.junit import Junit, write_summary
from tests.fixtures import campaign_folder, result_documents
from tests.fixtures.pictures import drawn
from tests.fixtures.synthetic_campaign import (
    ONE_AXIS,
    Chances,
    Synthetic,
    Truth,
    build_campaign,
)
from tests.reports.conftest import EVIL
from tests.reports.test_page import Parsed, policy

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

VERSIONS_COMPARED = Path(__file__).parents[2] / "campaigns" / "versions.toml"
STORED_RUNS = Path(__file__).parents[1] / "histories" / "runs"


def made(path: Path, kind: Synthetic) -> tuple[Parsed, Truth, CampaignDir]:
    folder, truth = build_campaign(path, kind)
    page = write_campaign(folder)
    assert page == folder.report
    return Parsed(page.read_text(encoding="utf-8")), truth, folder


@pytest.fixture(scope="module")
def matrix36(tmp_path_factory: pytest.TempPathFactory) -> tuple[Parsed, Truth, CampaignDir]:
    kind = Synthetic(runs=8, pages=3, events=("Worker 2 died; its cluster was rebuilt.",))
    with drawn():
        return made(tmp_path_factory.mktemp("c") / "campaign", kind)


def data_of(page: Parsed) -> dict[str, Any]:
    return dict(json.loads(page.raw[1][2]))


def test_the_result_comes_first(matrix36: tuple[Parsed, Truth, CampaignDir]) -> None:
    page, truth, _ = matrix36
    lossy = sum(1 for counts in truth.cells.values() if counts["loss"])
    order = [
        "campaign synthetic", "finished", f"Lost writes in {lossy} of 36 cells",
        "Which settings keep acknowledged writes?", "all 288 planned runs",
        "36: unclean (2), min_isr (3), acks (2), faults (3)", "target 4.3.1", "Conclusions",
        "Runs with lost writes", "faults=kill faults=storm",
        "Lost writes against availability", "Lost writes and waiting times of all runs",
        "Cells compared",
        "Verdict classes", "All runs",
        "Harness failures", "Worker 2 died; its cluster was rebuilt.", "campaign.json",
    ]  # fmt: skip
    places = [page.words.find(sentence) for sentence in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)


def test_every_cell_agrees_with_the_truth(matrix36: tuple[Parsed, Truth, CampaignDir]) -> None:
    page, truth, folder = matrix36
    squares = [a for a in page.named("a") if "data-cell" in a]
    assert len(squares) == 36
    cells = json.loads(folder.result.read_text())["cells"]
    for cell in cells:
        counts = truth.cells[cell["name"]]
        assert {key: n for key, n in cell["verdicts"].items() if n} == dict(counts)
        conclusive = counts["loss"] + counts["none"] + counts["wrong"]
        assert cell["conclusive"] == conclusive
        (square,) = (a for a in squares if f", {cell['name']}: " in (a["aria-label"] or ""))
        assert f": {counts['loss']} of {conclusive}: " in (square["aria-label"] or "")


def test_the_data_and_the_tables_hold_every_run(
    matrix36: tuple[Parsed, Truth, CampaignDir],
) -> None:
    page, truth, folder = matrix36
    data = data_of(page)
    runs = data["runs"]
    assert {len(column) for column in runs.values()} == {288}
    names = ["loss", "none", "wrong", "vacuous", "unknown", "harness_failure"]
    assert dict(zip(runs["id"], (names[n] for n in runs["class"]), strict=True)) == truth.runs
    assert sum(lost or 0 for lost in runs["lost"]) == truth.lost
    assert [lost is not None for lost in runs["lost"]] == [n in (0, 1, 2) for n in runs["class"]]
    assert runs["page"][:4] == [2, 2, 2, 1], "a page, or else the folder"
    with (folder.tables / "runs.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {row["run_id"]: row["class"] for row in rows} == truth.runs
    assert sum(int(row["lost"] or 0) for row in rows) == truth.lost
    assert pq.read_table(folder.tables / "runs.parquet").num_rows == 288
    assert pq.read_table(folder.tables / "cells.parquet").num_rows == 36
    assert pq.read_table(folder.tables / "comparisons.parquet").num_rows == 108


def test_the_limit_of_pairs_hides_no_doubtful_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = campaign_folder.build(
        tmp_path / "c",
        {
            campaign_folder.ON: [result_documents.lossy()] * 2,
            campaign_folder.OFF: [result_documents.run()] * 2,
        },
    )
    view = campaign._view(folder)
    (pair,) = view.document.comparisons
    significant = replace(pair, difference=0.5, p_adjusted=0.001, doubtful=False)
    doubtful = replace(significant, difference=0.4, doubtful=True)
    pairs = [significant] * 250 + [doubtful] * 10 + [replace(pair, p_adjusted=1.0)] * 5
    many = replace(view, document=replace(view.document, comparisons=pairs))
    monkeypatch.setattr(campaign, "_view", lambda _: many)
    words = Parsed(write_campaign(folder).read_text(encoding="utf-8")).words
    assert "unclean 250 of 265, 10 doubtful" in words
    assert "238 more significant differences, of which 188 are listed" in words
    assert "10 doubtful differences" in words
    assert words.count("doubtful: over all runs") == 10
    assert "pairs without a significant difference" not in words
    assert "Showing 210 of 265" in words


def test_the_runs_needed_are_those_of_a_single_test(tmp_path: Path) -> None:
    kinds = [result_documents.lossy()], [result_documents.run()]
    folder = campaign_folder.build(
        tmp_path / "c",
        {
            campaign_folder.ON: kinds[0] * 6 + kinds[1] * 24,
            campaign_folder.OFF: kinds[0] * 3 + kinds[1] * 27,
        },
    )
    words = Parsed(write_campaign(folder).read_text(encoding="utf-8")).words
    needed = "199 runs of each would show it if this difference is true"
    assert f"no difference shown; {needed} (80 % power, before the correction)" in words


def test_figures_are_written(matrix36: tuple[Parsed, Truth, CampaignDir]) -> None:
    page, _, folder = matrix36
    links = {a["href"] or "" for a in page.named("a")}
    for name in ("matrix", "trade-off", "distributions"):
        assert (folder.figures / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (folder.figures / f"{name}.svg").read_bytes().startswith(b"<?xml")
    for link in links - {"#runs", "#matrix"}:
        assert (folder.path / link).is_file(), link


def test_the_policy_allows_one_style_one_script_and_nothing_else(
    matrix36: tuple[Parsed, Truth, CampaignDir],
) -> None:
    page = matrix36[0]
    assert policy(page)["default-src"] == "'none'"
    assert [raw[0] for raw in page.raw] == ["style", "script", "script"]
    names = {name for _, attributes in page.tags for name in attributes}
    assert not [name for name in names if name == "style" or name.startswith("on")]


def test_a_cell_without_a_conclusive_run_is_not_0(tmp_path: Path) -> None:
    chances = {"true": Chances(loss=1), "false": Chances(unknown=1)}
    kind = Synthetic(axes=ONE_AXIS, runs=10, chances=lambda key: chances[key["unclean"]])
    page, _, _ = made(tmp_path / "c", kind)
    assert "2 no conclusive run 10 of 10 planned runs finished" in page.words
    assert "1 cell has no conclusive run: no share is known of it." in page.words
    assert "10 of 20 runs do not count" in page.words


def test_many_runs_that_do_not_count_come_with_best_and_worst_case(tmp_path: Path) -> None:
    chances = Chances(loss=0.5, unknown=0.4)
    page, truth, _ = made(tmp_path / "c", Synthetic(axes="", runs=30, chances=lambda key: chances))
    (counts,) = truth.cells.values()
    assert f"{counts['unknown']} more do not count" in page.words
    assert "best: " in page.words
    assert "; worst: " in page.words


@pytest.mark.parametrize(
    ("changes", "state", "sentence"),
    [
        ({"finished": 4}, "finished", "all 8 planned runs"),
        ({"finished": 1, "ended": "interrupted"}, "interrupted", "2 of 8 planned runs; `ackloss"),
        ({"finished": 2, "ended": None}, "broken off", "4 of 8 planned runs; `ackloss"),
        (
            {"finished": 3, "ended": "the budget of hours is spent"},
            "stopped early",
            "6 of 8 planned runs: the budget of hours is spent",
        ),
    ],
)  # fmt: skip
def test_the_state(tmp_path: Path, changes: dict[str, Any], state: str, sentence: str) -> None:
    kind = replace(Synthetic(axes=ONE_AXIS, runs=4), **changes)
    page, _, _ = made(tmp_path / "c", kind)
    assert f"{state} " in page.words
    assert sentence in page.words


def test_a_running_campaign_is_marked(tmp_path: Path) -> None:
    folder, _ = build_campaign(
        tmp_path / "c", Synthetic(axes=ONE_AXIS, runs=4, finished=2, ended=None)
    )
    with folder.locked():
        page = Parsed(write_campaign(folder).read_text(encoding="utf-8"))
    assert "running" in page.words
    assert "4 of 8 planned runs so far" in page.words


def test_before_any_run_is_finished(tmp_path: Path) -> None:
    page, _, _ = made(tmp_path / "c", Synthetic(finished=0, ended=None))
    assert "No run is conclusive" in page.words
    assert "No run is finished." in page.words
    assert page.words.count("no conclusive run 0 of ") == 36
    assert data_of(page)["runs"]["id"] == []
    folder, _ = build_campaign(tmp_path / "one", Synthetic(axes=ONE_AXIS, finished=0, ended=None))
    folder.journal.unlink()
    assert "not started" in Parsed(write_campaign(folder).read_text(encoding="utf-8")).words


def test_failures_are_listed_by_their_error(tmp_path: Path) -> None:
    chances = Chances(harness_failure=1)
    page, _, _ = made(tmp_path / "c", Synthetic(axes=ONE_AXIS, runs=4, chances=lambda key: chances))
    assert "8 the broker b2 did not start within 30 s" in page.words
    assert "in no share above" in page.words
    assert "8 of 8 runs failed" in page.words


def test_untrusted_text_is_text(tmp_path: Path) -> None:
    chances = Chances(loss=0.3, unknown=0.3, harness_failure=0.3)
    kind = Synthetic(axes="", runs=20, chances=lambda key: chances, error=EVIL, reason=EVIL)
    page, _, _ = made(tmp_path / "c", replace(kind, events=(EVIL,)))
    assert len([raw for raw in page.raw if raw[0] == "script"]) == 2
    assert page.words.count("</script><script>window.hacked=1</script>") == 2
    assert "\\u202eevil" in page.words


def test_a_run_that_cannot_be_read_is_a_failure_and_no_end(tmp_path: Path) -> None:
    folder, truth = build_campaign(tmp_path / "c", Synthetic(axes=ONE_AXIS, runs=4))
    run_id = next(run for run, name in truth.runs.items() if name == "none")
    folder.run(run_id).result.write_text("{")
    page = Parsed(write_campaign(folder).read_text(encoding="utf-8"))
    assert "Harness failures" in page.words
    assert Counter(truth.runs.values())["none"] - 1 == data_of(page)["runs"]["class"].count(1)


def test_a_result_of_another_program_is_reported_in_one_sentence(tmp_path: Path) -> None:
    folder, truth = build_campaign(tmp_path / "c", Synthetic(axes=ONE_AXIS, runs=2))
    folder.run(next(iter(truth.runs))).result.write_text('{"schema": 1, "verdict": "invalid"}')
    with pytest.raises(HistoryError, match="holds something that this ackloss does not write"):
        write_campaign(folder)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    folder, _ = build_campaign(tmp_path / "c", Synthetic(axes=ONE_AXIS, runs=2))
    folder.figures.write_text("in the way")
    with pytest.raises(EnvironmentFailure, match="cannot make the folder"):
        write_campaign(folder)


def test_every_run_that_still_has_its_history_gets_a_page(tmp_path: Path) -> None:
    _, _, folder = made(tmp_path / "campaign", Synthetic(axes=ONE_AXIS, runs=1))
    stored = [STORED_RUNS / name for name in ("unclean-election-loses", "transactions-torn")]
    for run in stored:
        shutil.copytree(run, folder.runs / run.name)
        judge_run(folder.run(run.name))
    assert write_run_pages(folder) == len(stored)
    assert {page.parent.name for page in folder.runs.glob("*/report.html")} == {
        run.name for run in stored
    }


VERSIONS = """
[axes.unclean]
key = 'topic.settings."unclean.leader.election.enable"'
values = [true, false]
[axes.version.choices."0.8.1.1".set]
target = { version = "0.8.1.1" }
[axes.version.choices."4.3.1"]
"""


def test_a_cell_that_never_runs_is_a_dash_with_its_reason(tmp_path: Path) -> None:
    page, truth, folder = made(tmp_path / "c", Synthetic(axes=VERSIONS, runs=4))
    vain = "unclean=false, version=0.8.1.1"
    assert "all 12 planned runs" in page.words
    assert len([a for a in page.named("a") if "data-cell" in a]) == 3
    (dash,) = (a for a in page.named("a") if "impossible" in (a.get("aria-label") or ""))
    assert vain in (dash["aria-label"] or "")
    (place,) = (td for td in page.named("td") if td.get("title"))
    assert "KAFKA-1028" in (place["title"] or "")
    assert "cells 4 (1 impossible)" in page.words
    assert f"(KAFKA-1028): {vain}" in page.words
    assert "no conclusive run" not in page.words
    document = json.loads(folder.result.read_text())
    assert [cell["name"] for cell in document["cells"] if cell["impossible"]] == [vain]
    assert document["planned"] == 12
    assert not truth.cells[vain]
    compared = [each[side] for each in document["comparisons"] for side in ("a", "b")]
    assert len(compared) == 4
    assert {"unclean": "false", "version": "0.8.1.1"} not in compared
    with (folder.tables / "cells.csv").open(newline="") as stream:
        kind = [bool(row["impossible"]) for row in csv.DictReader(stream)]
    assert kind == [False, False, True, False]


@pytest.mark.parametrize(
    ("shared", "test"),
    [(True, "paired, McNemar's exact test"), (False, "Barnard's exact test")],
)
def test_the_page_names_the_test_of_each_comparison(
    tmp_path: Path, shared: bool, test: str
) -> None:
    lossy, none = [result_documents.lossy()] * 20, [result_documents.run()] * 20
    runs = {campaign_folder.ON: lossy, campaign_folder.OFF: none}
    head = "repetitions = 20"
    folder = campaign_folder.build(tmp_path / "c", runs, head=head, shared=shared)
    page = Parsed(write_campaign(folder).read_text(encoding="utf-8"))
    assert test in page.text
    assert ("McNemar" in page.text) == shared


def test_unacknowledged_success_has_a_table_with_intervals_where_there_is_any(
    matrix36: tuple[Parsed, Truth, CampaignDir], tmp_path: Path
) -> None:
    assert "Unacknowledged success" not in matrix36[0].words
    kind = Synthetic(axes=ONE_AXIS, runs=12, chances=lambda _: Chances())
    _, _, folder = made(tmp_path / "c", kind)
    for number, path in enumerate(sorted(folder.path.glob("runs/*/result.json"))):
        document = json.loads(path.read_text())
        counts = document["counts"]
        counts["attempted"], counts["unknown"] = counts["acknowledged"] + 10, 10
        counts["unacknowledged_found"] = counts["unknown_found"] = 1 + number % 4
        rate = counts["unacknowledged_found"] / counts["acknowledged"]
        document["rates"]["unacknowledged_success"] = rate
        path.write_text(json.dumps(document))
    page = Parsed(write_campaign(folder).read_text(encoding="utf-8"))
    words = page.words[page.words.index("Unacknowledged success") :]
    rows = folder.result.read_text()
    for cell in json.loads(rows)["cells"]:
        found = cell["unacknowledged_success_rate"]
        assert found["low"] < found["mean"] < found["high"]
    assert words.count(" of 120 ") == 2, "found, of those without acknowledgement, by cell"


def test_why_writes_were_lost_is_summed_up_by_setting(tmp_path: Path) -> None:
    """Of the conclusive runs that were asked: one of an earlier ackloss, and one that does not
    count, are in no sum."""
    why = {"causes": {"unclean-election": 60, "deleted": 30}, "unexplained": 10, "survivable": 25}
    asked = result_documents.lossy(100) | why
    starved = result_documents.lossy(100, doubts=("starved",)) | why
    nothing = result_documents.run() | {"causes": {}, "unexplained": 0, "survivable": 0}
    on = [asked, asked | {"unexplained": 0, "counts": {"lost": 90, "acknowledged": 1000}}, starved]
    runs = {campaign_folder.ON: [*on, result_documents.lossy(7)], campaign_folder.OFF: [nothing]}
    folder = campaign_folder.build(tmp_path / "c", runs)
    page = Parsed(write_campaign(folder).read_text(encoding="utf-8"))
    words = page.words[page.words.index("Why writes were lost") :]
    row = "190 120 A replica from outside the ISR was elected, which never had them 60 The log's"
    assert row in words
    assert "deleted them ✕ 10 unexplained 50 (26.3 %)" in words
    on_cell, off_cell = json.loads(folder.result.read_text())["cells"]
    assert on_cell["causes"] == {"unclean-election": 120, "deleted": 60}
    assert (on_cell["unexplained"], on_cell["survivable"]) == (10, 50)
    assert on_cell["survivable_rate"] == pytest.approx(50 / 190)
    assert (off_cell["causes"], off_cell["unexplained"]) == ({}, 0)
    with (folder.tables / "runs.csv").open(newline="") as file:
        first, _, _, earlier, none = csv.DictReader(file)
    assert (first["causes.unclean-election"], first["unexplained"]) == ("60", "10")
    assert (first["survivable"], first["survivable_rate"]) == ("25", "0.25")
    assert (earlier["causes.deleted"], earlier["unexplained"]) == ("", "")
    assert (none["unexplained"], none["survivable_rate"]) == ("0", "")
    Junit(folder, folder.campaign()).write()
    words = "why lost: 120 unclean-election, 60 deleted, 10 unexplained"
    assert folder.junit.read_text().count(words) == 2, "the failure, and the output"


def test_what_was_lost_without_an_alarm_is_a_matrix(tmp_path: Path) -> None:
    """Of the conclusive runs that lost writes; a rule that was not evaluated is in no count."""

    def alarms(urp: float, unclean: float | None) -> dict[str, object]:
        rules = {"urp": {"chance": urp}, "unclean": {"chance": unclean}}
        rules["unclean"] |= {} if unclean is not None else {"why_not": "no node reports it"}
        return {"alarms": [{"rule": name, "source": "s", **each} for name, each in rules.items()]}

    lost, starved = result_documents.lossy(100), result_documents.lossy(100, doubts=("starved",))
    on = [lost | alarms(1, 0), lost | alarms(0.4, None), starved | alarms(0, 0), lost]
    runs = {
        campaign_folder.ON: on,
        campaign_folder.OFF: [result_documents.run() | alarms(0, 0)],
    }
    folder = campaign_folder.build(tmp_path / "c", runs)
    page = Parsed(write_campaign(folder).read_text(encoding="utf-8"))
    words = page.words[page.words.index("Lost without an alarm") :]
    assert "urp 1 / 2 1.3 % to 98.7 % unclean 1 / 1 2.5 % to 100 %" in words
    on_cell, off_cell = json.loads(folder.result.read_text())["cells"]
    assert on_cell["silent_alarms"]["urp"]["runs"] == 1
    assert off_cell["silent_alarms"] == {}
    with (folder.tables / "runs.csv").open(newline="") as file:
        assert [row["alarmed"] for row in csv.DictReader(file)] == ["1", "0", "0", "", "0"]
    Junit(folder, folder.campaign()).write()
    assert "no alarm rule fires in 1 of 2 that lost" in folder.junit.read_text()


def test_the_page_of_36_cells_is_well_below_a_megabyte(
    matrix36: tuple[Parsed, Truth, CampaignDir],
) -> None:
    assert matrix36[2].report.stat().st_size < 400_000


def test_the_table_of_very_many_runs_lists_first_what_matters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(campaign, "_LISTED", 9)
    chances = {"true": Chances(loss=0.3, unknown=0.2), "false": Chances()}
    kind = Synthetic(axes=ONE_AXIS, runs=20, chances=lambda key: chances[key["unclean"]])
    page, truth, folder = made(tmp_path / "campaign", kind)
    data = data_of(page)
    assert Counter(data["runs"]["cell"]) == {0: 4, 1: 4}
    assert data["all"] == 40
    with (folder.tables / "runs.csv").open() as table:
        runs = {row["run_id"]: row["cell"] for row in csv.DictReader(table)}
    assert len(runs) == 40
    for place, cell in enumerate(truth.cells):
        places = zip(data["runs"]["id"], data["runs"]["cell"], strict=True)
        listed = [run for run, at in places if at == place]
        of_cell = [run for run, name in runs.items() if name == cell]
        telling = [run for run in of_cell if truth.runs[run] != "none"]
        assert listed == (telling if place == 0 else of_cell)[:4], "loss and unknown before none"
    assert len(telling) == 0
    assert (
        "The table lists at most 4 runs of each cell, so that this page stays small: first those "
        "with lost writes, those that are invalid for another reason or do not count, then the "
        "others, in the order in which they ran. 32 runs are left out; tables/runs.csv has all 40."
    ) in page.words


def test_cells_with_few_runs_leave_their_places_in_the_table_to_others() -> None:
    most = campaign._most_of_each({"a": 1, "b": 3, "c": 2_000, "d": 2_000})
    assert 1 + 3 + 2 * most <= campaign._LISTED < 1 + 3 + 2 * (most + 1)
    assert campaign._most_of_each(dict.fromkeys(map(str, range(1_200)), 2)) == 1


@pytest.mark.full
def test_the_page_of_every_version_with_14800_runs_is_below_700_kilobytes(tmp_path: Path) -> None:
    """The axes of `campaigns/versions.toml`, with all its runs; its tables are for other programs,
    and are small enough to be kept once they are compressed."""
    text = VERSIONS_COMPARED.read_text()
    axes = text[text.index("[axes.") : text.index("[policy]")]
    with drawn():
        page, truth, folder = made(tmp_path / "c", Synthetic(axes=axes, runs=100))
    assert (len(truth.cells), len(truth.runs)) == (168, 14_800)
    assert 888 <= len(data_of(page)["runs"]["id"]) <= 1_000
    assert data_of(page)["all"] == 14_800
    assert folder.report.stat().st_size < 700_000
    assert len(gzip.compress((folder.tables / "runs.csv").read_bytes())) < 600_000


def test_every_table_prints_the_bounds_where_the_others_lost_more_often(tmp_path: Path) -> None:
    unmet, unknown = (
        result_documents.lossy(doubts=("unmet",)),
        result_documents.run("unknown", doubts=("unmet",)),
    )
    folder = campaign_folder.build(
        tmp_path / "c",
        {
            campaign_folder.ON: [result_documents.run()] * 44 + [unmet] * 3 + [unknown] * 3,
            campaign_folder.OFF: [result_documents.run()] * 44 + [unknown] * 6,
        },
    )
    page = Parsed(write_campaign(folder).read_text(encoding="utf-8"))
    write_summary(folder)
    Junit(folder, folder.campaign()).write()
    selected = "0 of 44; 3 of 6 others lost: 1.3 % to 24.3 % of all 50"
    on, off = json.loads(folder.result.read_bytes())["cells"]
    assert on["lossy_share"]["in_words"] == selected
    assert (on["lossy_share"]["shown"], off["lossy_share"]["shown"]) == (0.06, 0)
    assert [cell["lossy_share"]["chosen_by_outcome"] for cell in (on, off)] == [True, False]
    labels = [a["aria-label"] for a in page.named("a") if "data-cell" in a]
    assert any(selected in (label or "") for label in labels)
    assert "≥ 6.0 %" in page.words
    assert "3 of 6 others lost" in page.words
    for file in (folder.summary, folder.junit, folder.tables / "cells.csv"):
        text = file.read_text(encoding="utf-8")
        assert selected in text
        assert "0 of 44: at most 8.0 %" in text, "and the interval where nothing selects"


def test_cells_that_share_runs_have_results(tmp_path: Path) -> None:
    runs = {
        campaign_folder.ON: [result_documents.lossy()] * 3,
        campaign_folder.OFF: [result_documents.run()] * 3,
    }
    for shared, words, wrong in (
        (True, "results all 6 planned results, of 3 shared runs", "conclusive run"),
        (False, "runs all 6 planned runs", "conclusive result"),
    ):
        folder = campaign_folder.build(
            tmp_path / str(shared), runs, head="repetitions = 3", shared=shared
        )
        page = Parsed(write_campaign(folder).read_text(encoding="utf-8"))
        write_summary(folder)
        assert words in page.words
        document = json.loads(folder.result.read_bytes())
        assert (document["runs"], document["executions"]) == (6, 3 if shared else 6)
        for text in (page.words, folder.summary.read_text(), document["closing"]):
            assert wrong not in text
