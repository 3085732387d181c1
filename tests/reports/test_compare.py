"""Two runs on one page: first what differs, then both on the same axes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.history.run_folder import RunDir
from reports.compare import Comparison, Difference, differences, write_comparison
from reports.page import write_report
from tests.fixtures.synthetic_run import Story, build
from tests.reports.test_page import Parsed

pytestmark = [pytest.mark.slow, pytest.mark.pages, pytest.mark.usefixtures("undrawn")]


def compared(a: RunDir, b: RunDir, path: Path) -> tuple[Parsed, Comparison]:
    document = write_comparison(a, b, path)
    assert "cells" not in document
    return Parsed(path.read_text(encoding="utf-8")), document


def test_what_differs_comes_first(runs: dict[str, RunDir], tmp_path: Path) -> None:
    page, document = compared(runs["unclean"], runs["safe"], tmp_path / "compare.html")
    text = page.words
    order = [
        "kafka-unclean lost 842 acknowledged writes (21.1 %), kafka-safe lost none of 3,153",
        "Differences", "topic min.insync.replicas 1 2",
        "topic unclean.leader.election.enable true false", "Outcome",
        "verdict invalid valid", "loss 21.1 % 0 %", "writes lost 842 0",
        "Both timelines on the same axes", "Faults and their proof",
    ]  # fmt: skip
    places = [text.find(sentence) for sentence in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)
    assert document["a"] == {
        "run_id": runs["unclean"].run_id, "verdict": "invalid",
        "headline": "842 of 3,995 acknowledged writes were lost (21.1 %)",
    }  # fmt: skip
    topic = [d for d in document["differences"] if d["group"] == "topic"]
    assert {d["key"] for d in topic} == {"min.insync.replicas", "unclean.leader.election.enable"}


def test_the_causes_of_both_are_side_by_side(runs: dict[str, RunDir], tmp_path: Path) -> None:
    shutil.copytree(runs["unclean"].path, tmp_path / "a")
    result = json.loads((tmp_path / "a" / "result.json").read_text())
    causes = {"unclean-election": 840}
    result |= {"causes": causes, "unexplained": 2, "survivable": 30}
    alarm = {"rule": "r", "source": "s", "fired_s": 9.0, "chance": 1.0, "before_first_loss_s": -2}
    result["alarms"] = [alarm, {"rule": "never", "source": "s", "chance": 0.0}]
    (tmp_path / "a" / "result.json").write_text(json.dumps(result))
    _, document = compared(RunDir(tmp_path / "a"), runs["safe"], tmp_path / "compare.html")
    why = {d["key"]: (d["a"], d["b"]) for d in document["differences"] if d["group"] == "why lost"}
    assert why == {
        "unclean-election": ("840", None),
        "unexplained": ("2", None),
        "would have survived with the longest log": ("30", None),
    }
    said = {d["key"]: (d["a"], d["b"]) for d in document["differences"]}["alarms"]
    assert said == ("0 of 2 rules before the first loss, 1 after, 1 never", None)


def test_losses_of_an_unknown_run_are_unknown(runs: dict[str, RunDir], tmp_path: Path) -> None:
    page, document = compared(runs["unknown"], runs["unclean"], tmp_path / "compare.html")
    assert "loss unknown 21.1 %" in page.words
    assert "writes lost unknown 842" in page.words
    losses = [d for d in document["differences"] if d["key"] in ("loss", "lost")]
    assert [d["a"] for d in losses] == ["unknown", "unknown"]


def test_only_proven_losses_are_in_the_headline(runs: dict[str, RunDir], tmp_path: Path) -> None:
    run = RunDir(Path(shutil.copytree(runs["unclean"].path, tmp_path / "run")))
    result = run.read_json(run.result)
    result["checks"][0]["details"]["confirmed"] = {"duplicates": 1}
    run.write_json(run.result, result)
    page, document = compared(run, runs["safe"], tmp_path / "compare.html")
    assert "kafka-unclean is invalid, kafka-safe lost none" in page.words
    assert "it is not known whether acknowledged writes were lost" in document["a"]["headline"]


def test_both_share_their_axes(runs: dict[str, RunDir], tmp_path: Path) -> None:
    page, _ = compared(runs["unclean"], runs["safe"], tmp_path / "compare.html")
    (data, _) = (raw[2] for raw in page.raw if raw[0] == "script")
    first, second = json.loads(data)
    assert first["scale"] == second["scale"]
    assert (first["title"], second["title"]) == ("kafka-unclean", "kafka-safe")


def test_settings_are_compared_once_whatever_the_system(tmp_path: Path) -> None:
    """A table of the plan that a target shows as settings is not compared a second time."""
    a, b = (build(tmp_path, Story(rate_per_s=10), run_id=f"run-{n}") for n in "ab")
    for run, size in ((a, 100), (b, 200)):
        plan = run.read_json(run.plan)
        plan.pop("topic")
        plan["target"] = {"system": "zookeeper", "settings": {"preAllocSize": size}}
        plan["ensemble"] = {"servers": 3, "forceSync": True}
        run.plan.write_text(json.dumps(plan))
    _, document = compared(a, b, tmp_path / "compare.html")
    found = [d for d in document["differences"] if "preAllocSize" in d["key"]]
    assert [(d["group"], d["a"], d["b"]) for d in found] == [("server", "100", "200")]


def test_a_run_and_itself_do_not_differ(runs: dict[str, RunDir], tmp_path: Path) -> None:
    page, document = compared(runs["safe"], runs["safe"], tmp_path / "compare.html")
    assert document["differences"] == []
    assert "The same verdict, and the same counts." in page.words


def test_runs_of_one_plan_are_labelled_by_their_ids(tmp_path: Path) -> None:
    a, b = (build(tmp_path, Story(rate_per_s=10), run_id=f"run-{n}") for n in "ab")
    page, _ = compared(a, b, tmp_path / "compare.html")
    assert "kafka-unclean, run run-a" in page.words
    assert "kafka-unclean, run run-b" in page.words


def test_it_links_to_existing_pages(runs: dict[str, RunDir], tmp_path: Path) -> None:
    bare = build(tmp_path, Story(name="bare", rate_per_s=10))
    page, _ = compared(runs["safe"], bare, tmp_path / "pages.html")
    links = [a["href"] or "" for a in page.named("a") if not (a["href"] or "").startswith("#")]
    assert len(links) == 1
    assert (tmp_path / links[0]).resolve() == runs["safe"].report.resolve()


def test_a_run_that_was_not_checked_is_compared_as_such(
    runs: dict[str, RunDir], tmp_path: Path
) -> None:
    page, document = compared(runs["safe"], runs["stopped"], tmp_path / "compare.html")
    assert "kafka-stopped was not checked" in page.words
    assert document["b"]["verdict"] == "unchecked"


def test_cells_of_a_campaign_are_named_and_defaults_of_a_fault_are_no_difference(
    runs: dict[str, RunDir], tmp_path: Path
) -> None:
    """Their plans have the name of the base, and another schedule: a run of `kill-all` was shown as
    `isolate-leader`, with what that says of itself; and a step that one of them lacks was a dozen
    lines without a value."""
    for name in ("kill-leader", "kill-all"):
        folder = shutil.copytree(runs["unclean"].path, tmp_path / name)
        run = json.loads((folder / "run.json").read_text())
        run["campaign"] = {"name": "nightly", "repetition": 0, "cell": f"schedule={name}"}
        (folder / "run.json").write_text(json.dumps(run))
        plan = json.loads((folder / "plan.json").read_text())
        plan |= {"about": "The leader alone."}
        if name == "kill-all":
            plan["faults"].append({"id": "more", "at_s": 9.5, "for_s": None, "nemesis": "kill"})
        (folder / "plan.json").write_text(json.dumps(plan))
    a, b = RunDir(tmp_path / "kill-leader"), RunDir(tmp_path / "kill-all")
    page, document = compared(a, b, tmp_path / "compare.html")
    assert "nightly: schedule=kill-leader lost 842" in page.words
    assert "kafka-unclean lost" not in page.words
    number = len(json.loads((a.path / "plan.json").read_text())["faults"])
    keys = {d["key"] for d in document["differences"] if d["group"] == "plan"}
    assert keys == {f"faults.{number}.{key}" for key in ("id", "at_s", "nemesis")}
    assert "The leader alone." not in write_report(a).read_text()


def test_a_pruned_run_has_no_timeline(runs: dict[str, RunDir], tmp_path: Path) -> None:
    pruned = RunDir(shutil.copytree(runs["unclean"].path, tmp_path / "pruned"))
    shutil.rmtree(pruned.history)
    page, _ = compared(pruned, runs["safe"], tmp_path / "compare.html")
    assert len(page.named("figure")) == 1
    assert page.words.count("The history of this run is not here") == 1


def test_differences_keep_their_order_and_mark_missing_values() -> None:
    a = {"plan": {"x": "1", "same": "s", "empty": ""}, "only": {"k": "v"}}
    b = {"plan": {"same": "s", "y": "2", "x": "3"}}
    assert list(differences(a, b)) == [
        Difference("plan", "x", "1", "3"),
        Difference("plan", "y", None, "2"),
        Difference("only", "k", "v", None),
    ]
