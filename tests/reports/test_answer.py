"""What a campaign answers about the choice that its policy names: each sentence from its runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from analysis.campaign import results_of, rows_of
from harness.campaigns.folder import CampaignDir
from reports.answer import Answer, answer
from reports.campaign import write_campaign
from tests.fixtures.campaign_folder import BASE, build
from tests.fixtures.result_documents import run
from tests.reports.test_page import Parsed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

AXES = """
[axes.faults.choices.kill]
about = "the leader was killed"
[axes.faults.choices.cut]
about = "the leader was cut off"
set = { "workload.duration_s" = 11 }
[axes.faults.choices.power]
about = "all lost power"
set = { "workload.duration_s" = 12 }

[axes.settings]
share = "always"
distinct = true
[axes.settings.choices.yours]
about = "your settings"
[axes.settings.choices.acks.set]
"workload.producer.acks" = "all"
[axes.settings.choices.clean.set]
'topic.settings."unclean.leader.election.enable"' = false
[axes.settings.choices.safe]
about = "safe settings"
[axes.settings.choices.safe.set]
"workload.producer.acks" = "all"
'topic.settings."unclean.leader.election.enable"' = false

[policy]
cells = { settings = "yours", faults = ["kill", "cut"] }
"""
UNSAFE = BASE + 'producer = { acks = "1" }\n'
SAFE = """
[topic]
settings = { "unclean.leader.election.enable" = false }
"""
Results = Mapping[str, Sequence[dict[str, Any]]]


def finished(path: Path, of_cells: Results, *, base: str = UNSAFE, head: str = "") -> CampaignDir:
    """A campaign with these results of `FAULT SETTINGS`."""
    cells = {
        f"faults={fault}, settings={settings}": results
        for (fault, settings), results in ((key.split(), each) for key, each in of_cells.items())
    }
    return build(path / "c", cells, axes=AXES, base=base, head=f"repetitions = 2\n{head}")


def answered(path: Path, of_cells: Results, **how: str) -> Answer:
    folder = finished(path, of_cells, **how)
    results = list(results_of(folder, folder.progress()))
    found = answer(folder.campaign(), results, rows_of(results, {}))
    assert found is not None
    return found


LOSSY = run("invalid", lost=200, longest_gap_s=2.0)
RARE = run("invalid", lost=3, longest_gap_s=1.0)
CLEAN = run(longest_gap_s=9.0)
VOID = run("unknown", doubts=("starved",))
ALL_CLEAN = {
    f"{fault} {of}": [CLEAN, CLEAN] for fault in ("kill", "cut") for of in ("yours", "safe")
}


def test_what_one_fault_lost_is_the_headline(tmp_path: Path) -> None:
    found = answered(
        tmp_path,
        {
            **ALL_CLEAN,
            "cut yours": [LOSSY, CLEAN],
            "cut acks": [CLEAN, CLEAN],
            "kill acks": [CLEAN, CLEAN],
            "cut clean": [LOSSY, LOSSY],
            "kill clean": [CLEAN, CLEAN],
            "power yours": [LOSSY],
            "power safe": [LOSSY],
        },
    )
    assert found.verdict == "invalid"
    assert found.headline == (
        "Your settings lost 200 of 2,000 acknowledged writes when the leader was cut off (in 1 of "
        "2 runs); nothing under the other fault"
    )
    assert found.sentences == [
        "Safe settings lost nothing under any of the 2 faults.",
        "Longest time without an acknowledgement: 9.0 s with your settings, 9.0 s with safe "
        "settings.",
        "The smallest change that lost nothing: acks=all.",
        "Not in the verdict: when all lost power, your settings lost 200 of 1,000, safe settings "
        "lost 200 of 1,000.",
        "2 runs of each fault may miss a loss that happens in up to 84.2 % of runs (95 %); 36 runs "
        "bring that down to 10 %.",
    ]
    assert [(each.setting, each.value, each.reference) for each in found.changes] == [
        ("acks", "1", "all"),
        ("unclean.leader.election.enable", None, "false"),
    ]


def test_choices_that_are_not_run_are_no_ways(tmp_path: Path) -> None:
    """As with `--only settings=yours,safe`."""
    cells = {**ALL_CLEAN, "cut yours": [LOSSY]}
    found = answered(tmp_path, cells, head='exclude = [{ settings = ["acks", "clean"] }]')
    assert found.verdict == "invalid"
    assert not any("change" in sentence for sentence in found.sentences)


def test_losses_under_several_faults(tmp_path: Path) -> None:
    found = answered(
        tmp_path,
        {
            **ALL_CLEAN,
            "cut yours": [LOSSY],
            "kill yours": [RARE],
            "kill acks": [RARE],
            "cut acks": [CLEAN],
            "kill clean": [VOID],
            "cut clean": [CLEAN],
        },
    )
    assert found.headline == "Your settings lost acknowledged writes under 2 of 2 faults"
    assert found.sentences[0] == (
        "Your settings lost 3 of 1,000 acknowledged writes when the leader was killed, "
        "200 of 1,000 when the leader was cut off."
    )
    assert "No smaller change than to safe settings lost nothing." in found.sentences


def test_what_is_not_known_is_never_nothing(tmp_path: Path) -> None:
    found = answered(tmp_path, {**ALL_CLEAN, "cut yours": [VOID], "cut safe": [VOID]})
    assert found.verdict == "unknown"
    assert found.headline == (
        "Your settings lost nothing under 1 fault; no conclusive run when the leader was cut off"
    )
    assert found.sentences[0].startswith("Safe settings lost nothing under 1 fault; no conclusive")
    cut = next(fault for fault in found.faults if "cut" in fault.about)
    assert [each.in_short for each in cut.shown] == ["not known"] * 2


def test_the_faults_are_not_listed_where_none_is_known(tmp_path: Path) -> None:
    found = answered(tmp_path, {**ALL_CLEAN, "cut yours": [VOID], "kill yours": [VOID]})
    assert found.headline == "Your settings have no conclusive run under any of the 2 faults"


def test_only_what_the_policy_names_decides(tmp_path: Path) -> None:
    """Safe settings may lose, and so may yours under a fault that it leaves out."""
    lossy = {"kill safe": [LOSSY], "power yours": [LOSSY], "power safe": [LOSSY]}
    assert answered(tmp_path, {**ALL_CLEAN, **lossy}).verdict == "valid"


def test_choices_that_change_nothing_are_left_out(tmp_path: Path) -> None:
    """Your settings are the safe ones: no way between has another plan."""
    base = BASE + 'producer = { acks = "all" }\n' + SAFE
    found = answered(tmp_path, ALL_CLEAN, base=base)
    assert [each.choice for each in found.faults[0].tested] == ["yours", "safe"]
    assert found.changes == []
    assert found.headline == "Your settings lost nothing under any of the 2 faults"


def test_duplicates_are_no_loss_and_are_said(tmp_path: Path) -> None:
    twice = {
        **run("invalid", counter_examples=("duplicates",)),
        "counts": {"lost": 0, "acknowledged": 9, "duplicates": 4},
    }
    found = answered(tmp_path, {**ALL_CLEAN, "kill yours": [twice]})
    assert found.verdict == "invalid"
    assert "stored duplicates or other wrong records when the leader was killed" in found.headline
    assert found.faults[0].shown[0].duplicates == 4


@pytest.mark.parametrize("lost", [True, False])
def test_the_page_begins_with_the_answer(tmp_path: Path, lost: bool) -> None:
    folder = finished(tmp_path, {**ALL_CLEAN, "cut yours": [LOSSY if lost else CLEAN]})
    page = Parsed(write_campaign(folder).read_text(encoding="utf-8"))
    headline = "Your settings lost " + ("200 of 1,000" if lost else "nothing under any of")
    assert ("✕ invalid" if lost else "✓ valid") in page.words[:200]
    assert headline in page.words[:400]
    assert "The leader was cut off" in page.words
    assert ("unclean.leader.election.enable not set: the default false" in page.words) is True
    document = json.loads(folder.result.read_bytes())
    assert document["answer"]["headline"].startswith(headline)


def test_a_campaign_without_such_a_policy_has_none(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {"unclean=true": [LOSSY]})
    write_campaign(folder)
    assert json.loads(folder.result.read_bytes())["answer"] is None
