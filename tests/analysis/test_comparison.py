"""Campaigns compared: planted changes are found, and no others."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from analysis.comparison import (
    ComparedCell,
    SampledCampaign,
    cell_in_words,
    cells_compared,
    compare_campaigns,
    trend,
)
from analysis.statistics.cells import sample_of
from analysis.statistics.contrasts import ALPHA, adjusted, exact_test
from analysis.statistics.intervals import Share
from checkers.loss import Loss
from harness.campaigns.folder import CampaignDir
from harness.campaigns.plan import Cell
from harness.errors import HistoryError
from tests.fixtures.budget import budget
from tests.fixtures.campaign_folder import AXES, BASE, OFF, ON, build
from tests.fixtures.result_documents import FAILED, lossy, run
from tests.fixtures.synthetic_results import outcome

pytestmark = pytest.mark.slow

UNKNOWN = run("unknown", doubts=("incomplete",))
VACUOUS = run("unknown", doubts=("vacuous",))
WRONG = run("invalid", counter_examples=("duplicates",))
Runs = list[dict[str, Any]]


def campaign(cells: dict[str, Runs]) -> SampledCampaign:
    """A campaign in memory; cells by the value of their one axis."""
    unused: Any = None
    keys = {name: frozenset({("a", name)}) for name in cells}
    return SampledCampaign(
        unused,
        unused,
        unused,
        {key: Cell({"a": name}, {}, unused, 1) for name, key in keys.items()},
        {keys[name]: sample_of(map(outcome, runs)) for name, runs in cells.items()},
        {},
    )


def compared(old: dict[str, Runs], new: dict[str, Runs]) -> dict[str, ComparedCell]:
    """The compared cells, by the value of their axis."""
    cells = cells_compared(campaign(old), campaign(new), Loss().primary)
    return {str(cell.key["a"]): cell for cell in cells}


def runs(lost: int, none: int, unknown: int = 0) -> Runs:
    return [lossy()] * lost + [run()] * none + [UNKNOWN] * unknown


def drawn(shares: list[float], *, each: int, draws: np.random.Generator) -> dict[str, Runs]:
    counts = draws.binomial(each, shares).tolist()
    return {str(place): runs(lost, each - lost) for place, lost in enumerate(counts)}


def test_a_regression_that_was_planted_is_found_where_it_is_and_nowhere_else() -> None:
    old = {"w": runs(0, 30), "x": runs(3, 27), "y": runs(15, 15), "z": runs(30, 0)}
    cells = compared(old, {**old, "w": runs(9, 21)})
    assert cells["w"].status == "regression"
    assert {cells[name].status for name in "xyz"} == {"no difference shown"}
    assert cells["w"].difference == pytest.approx(0.3)
    assert cells["w"].low > 0
    assert cells["w"].p < cells["w"].p_adjusted < 0.05
    assert (
        "lost writes more often: 0 of 30 with lost writes before, 9 of 30 with lost writes now"
        in cells["w"].in_words
    )


@pytest.mark.full
def test_equal_campaigns_rarely_differ() -> None:
    called = 0
    for seed in range(120):
        draws = np.random.default_rng(seed)
        shares = [0.02, 0.1, 0.3, 0.5, 0.98]
        pair = [drawn(shares, each=20, draws=draws) for _ in range(2)]
        called += any(cell.status != "no difference shown" for cell in compared(*pair).values())
    assert called <= 0.05 * 120


def test_a_large_regression_is_nearly_always_found() -> None:
    found, tried = 0, budget(8, 20)
    for seed in range(tried):
        draws = np.random.default_rng(seed)
        old = drawn([0.02, 0.02, 0.5], each=40, draws=draws)
        new = drawn([0.40, 0.02, 0.5], each=40, draws=draws)
        found += compared(old, new)["0"].status == "regression"
    assert found >= 0.95 * tried


def test_one_small_p_among_many_cells_is_not_called() -> None:
    old, new = {"0": runs(0, 20)}, {"0": runs(5, 15)}
    assert compared(old, new)["0"].status == "regression"
    same = {str(place): runs(10, 10) for place in range(1, 10)}
    cell = compared({**old, **same}, {**new, **same})["0"]
    assert cell.status == "no difference shown"
    assert cell.p < 0.05 < cell.p_adjusted


@pytest.mark.parametrize(
    ("old", "new", "status", "words"),
    [
        (runs(9, 21), runs(0, 30), "improvement", "lost writes less often"),
        (runs(0, 30), runs(20, 8, unknown=2), "regression", "lost writes more often"),
        (runs(10, 0), runs(0, 5, unknown=15), "doubtful", "15 runs that do not count may explain"),
        # those that do not count would reverse it; or they are the lossless ones of before
        (runs(10, 10, unknown=100), runs(0, 30, unknown=300), "doubtful", "p = 1 with those runs"),
        (runs(5, 25), runs(5, 0, unknown=25), "doubtful", "25 runs that do not count may explain"),
    ],
)
def test_unknown_runs_make_a_difference_doubtful_where_they_may_explain_it(
    old: Runs, new: Runs, status: str, words: str
) -> None:
    cell = compared({"x": old}, {"x": new})["x"]
    assert cell.p_adjusted < 0.05
    assert cell.status == status
    assert words in cell.in_words


def test_too_few_runs_are_reported_as_such() -> None:
    cell = compared({"x": runs(0, 2)}, {"x": runs(2, 0)})["x"]
    assert cell.status == "no difference shown"
    assert "so few runs cannot show a difference" in cell.in_words


@pytest.mark.parametrize("silent", [[UNKNOWN] * 9, [VACUOUS] * 9, [FAILED] * 9, []])
def test_a_campaign_without_a_conclusive_run_is_neither(silent: Runs) -> None:
    for old, new, when in ((runs(9, 0), silent, "now"), (silent, runs(9, 0), "before")):
        cell = compared({"x": old}, {"x": new})["x"]
        assert cell.status == "not judged"
        assert f"no conclusive run {when}" in cell.in_words


def test_the_runs_needed_are_those_of_a_single_test() -> None:
    """199 runs of each distinguish 10 % from 20 %, with 80 % power: not if 11 other cells of the
    comparison do not differ."""
    equal: Runs = [run()] * 30
    old = {"x": runs(3, 27), **{f"y{n}": equal for n in range(11)}}
    x = compared(old, {**old, "x": runs(6, 24)})["x"]
    needed = "199 runs per campaign would show it with 80 % power"
    assert f"; if these shares are true, {needed}, before the correction for 12 cells" in x.in_words
    alone = compared({"x": runs(3, 27)}, {"x": runs(6, 24)})["x"]
    assert alone.in_words.endswith(f"; if these shares are true, {needed}")
    share_a, share_b = Share(20, 199), Share(40, 199)
    p = exact_test(share_a, share_b).p
    assert p is not None
    assert p <= ALPHA < (adjusted([p] + [1.0] * 11)[0] or 0.0)


def test_a_small_difference_does_not_read_0() -> None:
    cell = compared({"x": runs(5, 45)}, {"x": runs(6, 44)})["x"]
    for low, high, text in (
        (0.003, 0.04, "; +0.3 to +4.0 points (95 %)"),
        (-0.003, 0.004, "; −0.3 to +0.4 points (95 %)"),
    ):
        assert text in cell_in_words(
            replace(cell, shown_low=low, shown_high=high), Loss().primary, cells=1
        )


def test_new_and_vanished_verdict_classes_and_flaky_cells() -> None:
    cell = compared({"x": [run(), VACUOUS]}, {"x": [run(), lossy(), WRONG, FAILED]})["x"]
    assert cell.new_classes == ["loss", "wrong", "harness_failure"]
    assert cell.vanished_classes == ["vacuous"]
    assert cell.flaky == ["new"]


def test_the_trend_has_each_campaign_that_has_the_cell() -> None:
    three: Sequence[dict[str, Runs]] = (
        {"x": runs(1, 9)}, {"y": runs(0, 9)}, {"x": runs(2, 8), "y": []},
    )  # fmt: skip
    found = {cell.name: cell.campaigns for cell in trend([campaign(each).named for each in three])}
    assert [each.campaign for each in found["a=x"]] == [0, 2]
    assert [each.lossy_share.estimate for each in found["a=x"]] == [0.1, 0.2]
    assert [each.judged for each in found["a=y"]] == [9, 0]


def test_two_folders_are_read_and_compared(tmp_path: Path) -> None:
    old = build(tmp_path / "old", {ON: runs(9, 1), OFF: runs(0, 10)})
    new = build(tmp_path / "new", {ON: runs(9, 1), OFF: runs(8, 2)})
    document = compare_campaigns([old, new]).json()
    assert document["regressions"] == 1
    assert document["improvements"] == 0
    assert document["differs"] == []
    assert document["conclusion"][0] == (
        "1 of 2 cells has lost writes more often than in the baseline: unclean=false."
    )
    assert "the same in both campaigns" in document["conclusion"][-1]
    assert [each["runs"] for each in document["campaigns"]] == [20, 20]
    assert document["nights"] == document["campaigns"], "the earlier name"
    assert (document["old"], document["new"]) == (document["baseline"], document["current"])
    points = document["trend"][0]["nights"]
    assert [(each["night"], each["campaign"]) for each in points] == [(0, 0), (1, 1)]


def test_cells_of_one_side_are_listed_and_axes_may_change_places(tmp_path: Path) -> None:
    least = "[axes.least]\nkey = 'topic.settings.\"min.insync.replicas\"'\nvalues = [{}]\n"
    old = build(tmp_path / "old", {}, axes=AXES + least.format("1, 2"))
    new = build(tmp_path / "new", {}, axes=least.format("2, 3") + AXES)
    document = compare_campaigns([old, new]).json()
    assert [cell["name"] for cell in document["cells"]] == [
        "least=2, unclean=true",
        "least=2, unclean=false",
    ]
    assert document["only_old"] == ["unclean=true, least=1", "unclean=false, least=1"]
    assert document["only_new"] == ["least=3, unclean=true", "least=3, unclean=false"]
    assert any("Only the baseline has" in sentence for sentence in document["conclusion"])
    assert [(d["what"], d["key"]) for d in document["differs"]] == [
        ("campaign", "plan_hash"),
        ("axis", "least.1"),
        ("axis", "least.3"),
    ]


def test_campaigns_without_a_common_cell_cannot_be_compared(tmp_path: Path) -> None:
    old = build(tmp_path / "old", {}, axes="")
    new = build(tmp_path / "new", {})
    with pytest.raises(HistoryError, match="no cell in common"):
        compare_campaigns([old, new])


def test_other_differences_are_named_by_their_keys(tmp_path: Path) -> None:
    old = build(tmp_path / "old", {OFF: [run()]})
    new = build(
        tmp_path / "new",
        {OFF: [run()]},
        base=BASE.replace("rate_per_s = 50", "rate_per_s = 60")
        + '[topic]\nsettings = { "segment.ms" = 60000 }',
        head="repetitions = 5",
        versions={"ackloss": "0.1.0", "target": "4.4.0"},
    )
    differs = {
        (d["what"], d["key"]): (d["old"], d["new"])
        for d in compare_campaigns([old, new]).json()["differs"]
    }
    plan_hash = differs.pop(("campaign", "plan_hash"))
    assert plan_hash[0] != plan_hash[1]
    assert differs == {
        ("campaign", "repetitions"): (10, 5),
        ("plan", "workload.rate_per_s"): (50, 60),
        ("plan", "topic"): (None, {"settings": {"segment.ms": 60000}}),
        ("version", "target"): (["4.3.1"], ["4.4.0"]),
    }


def test_no_regression_is_invented_by_runs_whose_fault_is_not_proven() -> None:
    """25 lossy and 25 lossless runs, all of them unproven: p was 1e-5."""
    old = [lossy()] * 25 + [run()] * 25
    new = [lossy(proven=False)] * 25 + [run(proven=False)] * 25
    assert compared({"x": old}, {"x": new})["x"].status == "not judged"
    # If the lossy runs counted, as they did, the lossless ones would contradict them.
    cell = compared({"x": old}, {"x": [lossy()] * 25 + [run(proven=False)] * 25})["x"]
    assert cell.p_adjusted < 2e-5
    assert cell.status == "doubtful"


def test_no_improvement_is_invented_by_runs_over_their_limit() -> None:
    """25 lossless runs, and 25 that exceeded their time limit: p was 1e-5."""
    old = [lossy()] * 25 + [run()] * 25
    cell = compared({"x": old}, {"x": [run()] * 25 + [FAILED] * 25})["x"]
    assert cell.p_adjusted < 1e-4
    assert cell.status == "doubtful"
    assert "25 runs that do not count" in cell.in_words
    assert cell.bounds.p_against == 1


def test_campaigns_that_are_equivalent_within_a_margin_are_reported_as_such() -> None:
    cell = compared({"x": runs(0, 60)}, {"x": runs(0, 60)})["x"]
    assert cell.equivalence.equivalent
    assert not cell.equivalence.doubtful
    assert cell.in_words.endswith(
        "; equivalent within 5 points (p = 0.046, two one-sided exact tests)"
    )
    few = compared({"x": runs(20, 30)}, {"x": runs(20, 30)})["x"]
    assert not few.equivalence.equivalent, "no difference shown is not equivalence"
    assert "equivalent" not in few.in_words


def test_an_equivalence_that_other_runs_can_refute_is_doubtful() -> None:
    cell = compared({"x": runs(0, 60)}, {"x": runs(0, 60, unknown=6)})["x"]
    assert cell.equivalence.equivalent
    assert cell.equivalence.doubtful
    assert "the runs that do not count could refute it" in cell.in_words
    silent = compared({"x": runs(0, 60)}, {"x": [FAILED]})["x"]
    assert silent.equivalence is None


def test_the_number_of_workers_is_one_of_the_conditions(tmp_path: Path) -> None:
    old = build(tmp_path / "old", {OFF: [run()]})
    new = build(tmp_path / "new", {OFF: [run()]}, workers=3)
    document = compare_campaigns([old, new]).json()
    assert [each["workers"] for each in document["campaigns"]] == [1, 3]
    assert [(d["key"], d["old"], d["new"]) for d in document["differs"]] == [("workers", 1, 3)]


def test_how_many_cells_share_a_run_is_one_of_the_conditions(tmp_path: Path) -> None:
    """However it came about: by the campaign's `share`, an axis', or a load that fits no run."""
    runs = {ON: [run(), run()], OFF: [run(), run()]}
    old, new = build(tmp_path / "old", runs), build(tmp_path / "new", runs, shared=True)
    document = compare_campaigns([old, new]).json()
    assert [(d["key"], d["old"], d["new"]) for d in document["differs"]] == [
        ("cells_per_run", 1, 2)
    ]
    assert "differ in their conditions (1 key of the campaign)" in document["conclusion"][-1]


def test_few_runs_show_a_difference_if_enough_cells_have_it() -> None:
    """The correction leaves the p-value of cells that all differ, so those that do not are not
    called too few."""
    old = {str(n): runs(0, 4) for n in range(7)}
    new = {**old, "5": runs(4, 0), "6": runs(4, 0)}
    cells = compared(old, {**new, "0": runs(4, 0), "1": runs(4, 0), "2": runs(4, 0)})
    assert cells["6"].status == "regression"
    assert "so few runs" not in cells["3"].in_words


def written(path: Path, base: str = BASE, *, client: str | None = None) -> CampaignDir:
    """A campaign in a folder; the command of its runs names this client."""
    folder = build(path, {ON: [run()] * 3, OFF: [run()] * 3}, base=base)
    for file in folder.runs.glob("*/run.json"):
        words = ["ackloss", "run", "plan.json", *(["--client", client] if client else [])]
        file.write_bytes(orjson.dumps({**orjson.loads(file.read_bytes()), "command": words}))
    return folder


def test_a_baseline_that_began_later_is_pointed_out(tmp_path: Path) -> None:
    first, second = written(tmp_path / "night-9"), written(tmp_path / "night-10")
    assert "began after" not in " ".join(compare_campaigns([first, second]).conclusion)
    sentence = compare_campaigns([second, first]).conclusion[0]
    assert sentence.startswith("The baseline night-10 began after night-9")


def test_another_client_is_a_difference_and_the_same_command_may_be_another_program(
    tmp_path: Path,
) -> None:
    own = BASE + 'client = "exec"\n'
    old, new, same = (
        written(tmp_path / name, own, client=client)
        for name, client in (("a", "./old-client"), ("b", "./new-client"), ("c", "./new-client"))
    )
    found = compare_campaigns([old, new])
    assert [(each.what, each.old, each.new) for each in found.differs] == [
        ("client", ["./old-client"], ["./new-client"])
    ]
    assert "1 client" in found.conclusion[-1]
    repeated = compare_campaigns([new, same])
    assert not repeated.differs
    assert "from your client if its program is another one" in repeated.conclusion[-1]
    plain = compare_campaigns([written(tmp_path / "d"), written(tmp_path / "e")])
    assert "your client" not in plain.conclusion[-1]


def test_campaigns_that_share_runs_are_refused(tmp_path: Path) -> None:
    """A copy that was continued is not a second sample: 20 runs each would be 30."""
    first = build(tmp_path / "first", {ON: [run()] * 3, OFF: [run()] * 3})
    shutil.copytree(first.path, tmp_path / "copy")
    copy = CampaignDir(tmp_path / "copy")
    for pair in ([first, copy], [first, first]):
        with pytest.raises(HistoryError, match="have 6 runs in common"):
            compare_campaigns(pair)
    compare_campaigns([first, build(tmp_path / "second", {ON: [run()] * 3, OFF: [run()] * 3})])


def test_equivalence_is_corrected_for_the_number_of_cells() -> None:
    """At 59 runs each, two cells without loss are equivalent at p = 0.048 alone."""
    alone = compared({"0": runs(0, 59)}, {"0": runs(0, 59)})["0"].equivalence
    assert alone.equivalent
    assert alone.p_adjusted == alone.p
    others = {str(n): runs(10, 10) for n in range(1, 4)}
    cell = compared({"0": runs(0, 59), **others}, {"0": runs(0, 59), **others})["0"]
    assert cell.equivalence.p == alone.p
    assert cell.equivalence.p_adjusted == pytest.approx(4 * alone.p)
    assert not cell.equivalence.equivalent
    assert "equivalent" not in cell.in_words
