"""`ackloss campaign compare`, and how a campaign without further runs ends: output, files and exit
codes. None of it needs Docker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import Result

from tests.fixtures.budget import full
from tests.fixtures.campaign_folder import AXES, OFF, ON, build
from tests.fixtures.command_line import ackloss
from tests.fixtures.result_documents import lossy, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

QUIET = {ON: [lossy()] * 20, OFF: [run()] * 20}
WORSE = {ON: [lossy()] * 20, OFF: [lossy()] * 10 + [run()] * 10}


def compare(*words: object) -> Result:
    return ackloss("campaign", "compare", *words)


def test_the_exit_code_is_1_only_when_a_cell_got_worse(tmp_path: Path) -> None:
    old = build(tmp_path / "old", QUIET).path
    new = build(tmp_path / "new", WORSE).path
    worse = compare(old, new)
    assert worse.exit_code == 1, worse.output
    assert "1 regression" in worse.output
    assert compare(new, old).exit_code == 0
    assert compare(old, build(tmp_path / "same", QUIET).path).exit_code == 0
    assert compare(old, old).exit_code == 4, "one campaign is not two samples"


def test_of_three_campaigns_the_last_two_are_compared(tmp_path: Path) -> None:
    first = build(tmp_path / "a", QUIET).path
    second = build(tmp_path / "b", WORSE).path
    third = build(tmp_path / "c", WORSE).path
    done = compare(first, second, third, "--json")
    assert done.exit_code == 0, done.output
    document = orjson.loads(done.stdout)
    assert (document["old"], document["new"]) == ("b", "c")
    assert [len(cell["nights"]) for cell in document["trend"]] == [3, 3]


def test_it_writes_the_requested_files(tmp_path: Path) -> None:
    old = build(tmp_path / "old", QUIET).path
    new = build(tmp_path / "new", WORSE).path
    page, text = tmp_path / "n.html", tmp_path / "n.md"
    done = compare(old, new, "--html", page, "--markdown", text, "--json")
    assert done.exit_code == 1
    assert orjson.loads(done.stdout)["regressions"] == 1
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert text.read_text().startswith("# 1 regression in 2 cells: new against old; runs with")


def test_one_campaign_is_too_few_and_any_other_folder_is_refused(tmp_path: Path) -> None:
    old = build(tmp_path / "old", QUIET).path
    assert compare(old).exit_code == 2
    (tmp_path / "empty").mkdir()
    done = compare(old, tmp_path / "empty")
    assert done.exit_code == 4
    assert "it has no campaign.toml" in done.output


@pytest.mark.parametrize(("lost", "code"), [([run()], 0), ([lossy()], 1)])
def test_a_campaign_ends_with_its_policy_and_writes_what_ci_reads(
    tmp_path: Path, lost: list[dict[str, object]], code: int
) -> None:
    folder = build(tmp_path / "c", {ON: lost, OFF: [run()]}, head="repetitions = 1")
    done = ackloss("campaign", "resume", folder.path)
    assert done.exit_code == code, done.output
    assert folder.junit.read_bytes().count(b"<failure") == code
    assert "2 of 2 runs" in folder.summary.read_text()


UNKNOWN = run("unknown", doubts=("starved",))
BROKE = {"error": "the disk is full"}
UNPROVEN = run(proven=False)


@pytest.mark.parametrize(
    ("inconclusive", "policy", "others", "code"),
    [
        ([UNKNOWN] * 10, "", [run()], 3),
        pytest.param([BROKE] * 10, "", [run()], 3, marks=pytest.mark.full),
        pytest.param([UNPROVEN] * 10, "", [run()], 3, marks=pytest.mark.full),
        ([], "", [run()], 3),
        ([UNKNOWN] * 10, "", [lossy()], 1),  # a broken policy goes first
        ([], "fail_on = 'all'", [run()], 3),
        ([UNPROVEN] * 10, "fail_on = 'never'", [run()], 0),
        ([BROKE] * 10, "fail_on = 'never'", [UNKNOWN], 3),
        ([UNKNOWN] * 10, "share = 0.5", [lossy(doubts=("starved",))], 3),
    ],
)
def test_nothing_conclusive_is_never_green(
    tmp_path: Path, inconclusive: list[Any], policy: str, others: list[Any], code: int
) -> None:
    axes = f"{AXES}\n[budget]\nhours = 1e-9\n[policy]\n{policy}"
    runs = {ON: others, OFF: inconclusive}
    folder = build(tmp_path / "c", runs, axes=axes, head="repetitions = 10")
    done = ackloss("campaign", "resume", folder.path)
    assert done.exit_code == code, done.output
    assert ("no share is known of" in done.output) == ("never" not in policy or code == 3)
    assert folder.junit.read_bytes().count(b'type="nothing conclusive"') == (
        2 if others == [UNKNOWN] or "share" in policy else 1
    )


@pytest.mark.parametrize("inconclusive", [[UNKNOWN] * 20, [], *full([BROKE] * 20, [UNPROVEN] * 20)])
def test_a_comparison_without_conclusive_runs_on_one_side_is_not_green(
    tmp_path: Path, inconclusive: list[Any]
) -> None:
    old = build(tmp_path / "old", QUIET, head="repetitions = 20").path
    new = build(tmp_path / "new", {**QUIET, ON: inconclusive}, head="repetitions = 20").path
    for pair in ((old, new), (new, old)):
        done = compare(*pair)
        assert done.exit_code == 3, done.output
        assert "one of the two has no conclusive run" in done.output
        assert "No regression in 2 cells, 1 of 2 cells cannot be compared: " in done.output
    none = build(tmp_path / "none", {ON: inconclusive, OFF: inconclusive}).path
    nothing = compare(old, none)
    assert nothing.exit_code == 3
    assert nothing.output.startswith("Nothing could be compared: none against old")
    worse = build(tmp_path / "worse", {**WORSE, ON: inconclusive}, head="repetitions = 20").path
    assert compare(old, worse).exit_code == 1, "a regression goes first"


def test_the_failures_of_another_campaign_can_come_first(tmp_path: Path) -> None:
    old = build(tmp_path / "old", WORSE).path
    build(tmp_path / "new", {}, axes=f"{AXES}\n[budget]\nhours = 1e-9")
    words = ["campaign", "run", str(tmp_path / "new-inputs" / "c.toml")]
    words += ["--out", str(tmp_path / "out"), "--first-failures-of"]
    done = ackloss(*words, old)
    assert done.exit_code == 3, done.output
    assert "the budget of hours is spent" in done.output
    assert "no run of the campaign is conclusive" in done.output
    (tmp_path / "out").rename(tmp_path / "moved")
    done = ackloss(*words, tmp_path)
    assert done.exit_code == 4
    assert "it has no campaign.toml" in done.output
    assert not (tmp_path / "out").exists()
