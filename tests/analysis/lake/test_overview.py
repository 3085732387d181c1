"""The overview of a lake: every number is what it says, and nothing is counted together that was
not run in the same way. Each test plants one lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from deltalake import write_deltalake

from analysis.lake.delta import CELLS
from analysis.lake.overview import Group, Overview, Pool, natural, overview_of
from analysis.statistics.intervals import Share, share_in_words
from harness.campaigns.folder import CampaignDir
from harness.errors import HistoryError
from tests.fixtures.campaign_folder import BASE, OFF, ON
from tests.fixtures.lakes import add_run, campaign, lake_of
from tests.fixtures.result_documents import FAILED, lossy, run

pytestmark = pytest.mark.slow

VERSIONS = """
[axes.version.choices."{}".set]
"target.version" = "{}"
[axes.version.choices."{}".set]
"target.version" = "{}"
"""
OLD, NEW = "0.9.0.1", "0.10.2.2"
AXES = VERSIONS.format(NEW, NEW, OLD, OLD)
UNKNOWN = run("unknown", doubts=("starved",))
Runs = Mapping[str, Sequence[dict[str, Any]]]


def versions(path: Path, old: Sequence[Any], new: Sequence[Any] = (), **how: Any) -> CampaignDir:
    """A campaign of two versions; its runs have seeds that no other campaign's have."""
    seed = sum(path.name.encode()) * 1_000
    runs = {f"version={OLD}": old, f"version={NEW}": new}
    seeded = {
        name: [each if "error" in each else {"seed": seed + n, **each} for n, each in enumerate(of)]
        for name, of in runs.items()
        if of
    }
    return campaign(path, seeded, **{"axes": AXES, "name": path.name, **how})


def overview(path: Path, *folders: CampaignDir, names: Sequence[str] = ()) -> Overview:
    return overview_of(lake_of(path / "lake", *folders), names)


def only(found: Overview) -> Group:
    (group,) = found.groups
    return group


def pools(found: Overview, version: str) -> list[Pool]:
    """The pools of the only setting in this version."""
    (row,) = only(found).settings
    at = row.at(version)
    return list(at.pools) if at else []


def noted(found: Overview, words: str) -> bool:
    return any(words in sentence for sentence in found.notes)


def test_two_sessions_of_one_plan_are_one_table(tmp_path: Path) -> None:
    first = versions(tmp_path / "versions-1", [lossy()] * 4 + [run()] * 6, [run()] * 10)
    second = versions(tmp_path / "versions-2", [lossy()] * 5 + [run()] * 5, [run()] * 10)
    found = overview(tmp_path, first, second)
    (old,), (new,) = pools(found, OLD), pools(found, NEW)
    assert (old.lossy, old.conclusive, old.runs) == (9, 20, 20)
    assert old.lossy_share.in_words == share_in_words(Share(9, 20))
    assert [(part.campaign, part.lossy) for part in old.campaigns] == [
        ("versions-1", 4),
        ("versions-2", 5),
    ]
    assert (new.lossy, new.conclusive) == (0, 20)
    assert new.loss_rate.median == 0
    assert old.repeated_seeds == 0
    assert noted(found, "Runs of several campaigns are counted together where their plans are")
    assert [len(line.campaigns) for line in only(found).trend] == [2, 2]


@pytest.mark.parametrize(
    "how",
    [
        {"base": BASE.replace("duration_s = 10", "duration_s = 20")},
        {
            "base": BASE
            + '[[faults]]\nid = "k"\nat_s = 1\nnemesis = "kill"\nnodes = "all"\nfor_s = 1\n'
        },
        {"versions": {"target": "4.3.1", "client": "another 2.0"}},
        {"shared": True},
    ],
    ids=["load", "faults", "client", "in shared runs"],
)
def test_other_conditions_are_not_counted_together(tmp_path: Path, how: dict[str, Any]) -> None:
    """Though the cells have equal names."""
    first = versions(tmp_path / "a", [lossy()] * 5, [run()] * 5)
    second = versions(tmp_path / "b", [run()] * 5, [run()] * 5, **how)
    found = overview(tmp_path, first, second)
    every = [pool for group in found.groups for pool in group.pools]
    assert sorted((pool.lossy, pool.conclusive) for pool in every) == [(0, 5)] * 3 + [(5, 5)]
    assert all(len(pool.campaigns) == 1 for pool in every)
    assert not noted(found, "Runs of several campaigns are counted together")


def test_one_name_of_a_version_for_two_sets_of_keys_is_two_rates(tmp_path: Path) -> None:
    more = f'{AXES}"target.controllers" = 3\n'  # of the last choice, the old version
    first = versions(tmp_path / "a", [lossy()] * 5, [run()] * 5)
    second = versions(tmp_path / "b", [run()] * 5, [run()] * 5, axes=more)
    found = overview(tmp_path, first, second)
    assert sorted((pool.lossy, pool.conclusive) for pool in pools(found, OLD)) == [(0, 5), (5, 5)]
    assert [pool.conclusive for pool in pools(found, NEW)] == [10]
    assert noted(found, "1 setting in one version has several rates")


def test_a_trend_never_joins_two_plans_of_one_name(tmp_path: Path) -> None:
    name = "the plan as it is"
    first = campaign(tmp_path / "a", {name: [lossy()] * 3}, axes="")
    other = BASE.replace("rate_per_s = 50", "rate_per_s = 90")
    second = campaign(tmp_path / "b", {name: [run()] * 3}, axes="", base=other)
    found = overview(tmp_path, first, second)
    lines = [line for group in found.groups for line in group.trend]
    assert [[point.lossy for point in line.campaigns] for line in lines] == [[3], [0]]
    assert len(found.groups) == 2, "they have nothing in common"


def test_plans_of_one_name_in_one_group_have_names_of_their_own(tmp_path: Path) -> None:
    choices = "[axes.faults.choices.none]\n[axes.faults.choices.some.set]\nfaults = [{}]\n"
    kill = '{{ id = "k", at_s = {}, nemesis = "kill", nodes = "all", for_s = 1 }}'
    runs = {"faults=none": [run()] * 2, "faults=some": [lossy()] * 2}
    folders = [
        campaign(tmp_path / name, runs, axes=choices.format(kill.format(at)), name=name)
        for name, at in (("a", 1), ("b", 2))
    ]
    group = only(overview(tmp_path, *folders))
    names = [row.name for row in group.settings]
    assert names[0] == "faults=none"
    assert [name.split(" (plan ")[0] for name in names[1:]] == ["faults=some"] * 2
    assert len(set(names)) == 3
    assert [pool.conclusive for pool in group.pools] == [4, 2, 2]
    assert [len(line.campaigns) for line in group.trend] == [2, 1, 1]


def test_a_campaign_that_is_named_twice_counts_once(tmp_path: Path) -> None:
    first = versions(tmp_path / "a", [lossy()] * 3)
    second = versions(tmp_path / "b", [run()] * 3)
    found = overview(tmp_path, first, second, names=["a", "a"])
    (pool,) = pools(found, OLD)
    assert (pool.lossy, pool.conclusive) == (3, 3)
    assert [each.id for each in found.campaigns] == ["a"]


def test_a_lake_that_has_a_run_twice_is_refused(tmp_path: Path) -> None:
    """As a stranger may have written it."""
    lake = lake_of(tmp_path / "lake", versions(tmp_path / "a", [run()]))
    write_deltalake(tmp_path / "lake" / "cells", lake.rows(CELLS), mode="append")
    with pytest.raises(HistoryError, match=r"has the run .* twice"):
        overview(tmp_path)


def test_inconclusive_runs_are_never_runs_without_loss(tmp_path: Path) -> None:
    starved = lossy(doubts=("starved",))
    folder = versions(tmp_path / "a", [run(), lossy(), UNKNOWN, starved, FAILED], [UNKNOWN] * 4)
    found = overview(tmp_path, folder)
    (old,), (new,) = pools(found, OLD), pools(found, NEW)
    assert (old.lossy, old.conclusive, old.inconclusive, old.inconclusive_lossy) == (1, 2, 3, 1)
    assert (new.conclusive, new.lossy_share.estimate, new.inconclusive) == (0, None, 4)
    assert new.lossy_share.in_words == "no conclusive run"
    assert new.loss_rate.median is None
    assert noted(found, "7 of 9 runs do not count, and are not runs without lost writes; 1 of them")
    assert noted(found, "1 rate has no conclusive run: nothing is known there")


def test_versions_are_in_their_order(tmp_path: Path) -> None:
    labels = ["0.8.0", "0.8.2.2", "0.10.2.2", "3.9.2", "4.0.1", "4.0.1-elr", "4.10.0", "trunk"]
    assert sorted(sorted(labels, reverse=True), key=natural) == labels
    assert only(overview(tmp_path, versions(tmp_path / "a", [run()], [run()]))).versions == [
        OLD,
        NEW,
    ]


def test_campaigns_of_one_version_each_make_one_table(tmp_path: Path) -> None:
    def of(version: str, runs: Runs) -> CampaignDir:
        base = BASE.replace("4.3.1", version)
        return campaign(tmp_path / version, runs, base=base, name="n", versions={"target": version})

    found = overview(
        tmp_path,
        of("4.10.0", {ON: [lossy()] * 2, OFF: [run()]}),
        of("4.9.0", {ON: [run()] * 2, OFF: [FAILED]}),
    )
    group = only(found)
    assert group.versions == ["4.9.0", "4.10.0"]
    assert [row.name for row in group.settings] == [OFF, ON]
    assert [[at.pools[0].lossy for at in row.versions] for row in group.settings] == [
        [0, 0],
        [0, 2],
    ]


def test_a_run_that_failed_before_its_version_was_known_stands_with_the_others(
    tmp_path: Path,
) -> None:
    folder = campaign(tmp_path / "c", {ON: [run(), FAILED], OFF: [FAILED]})
    for path in sorted(folder.runs.iterdir())[1:]:
        (path / "run.json").unlink()
    group = only(overview(tmp_path, folder))
    assert group.versions == ["4.3.1", "version not recorded"]
    known, unknown = (row.versions[0] for row in reversed(group.settings))
    assert (known.version, known.pools[0].runs, known.pools[0].conclusive) == ("4.3.1", 2, 1)
    assert (unknown.version, unknown.pools[0].runs) == ("version not recorded", 1)


def test_runs_of_the_users_own_clients_are_not_counted_with_others(tmp_path: Path) -> None:
    """No plan names that program, so it may have been another one."""
    base = BASE.replace("[workload]", '[workload]\nclient = "exec"')
    folders = [versions(tmp_path / name, [run()] * 3, base=base) for name in ("a", "b")]
    found = overview(tmp_path, *folders)
    assert [pool.conclusive for pool in pools(found, OLD)] == [3, 3]
    assert noted(found, "clients are a program of the user's")


def test_campaigns_that_differ_beyond_chance_are_marked(tmp_path: Path) -> None:
    alike = versions(tmp_path / "b", [lossy()] * 10 + [run()] * 10)
    folders = [versions(tmp_path / "a", [lossy()] * 10 + [run()] * 10), alike]
    (pool,) = pools(overview(tmp_path, *folders), OLD)
    assert pool.p_campaigns == pytest.approx(1)
    found = overview(tmp_path, versions(tmp_path / "c", [run()] * 40))
    (pool,) = pools(found, OLD)
    assert (pool.lossy, pool.conclusive) == (20, 80), "an outcome does not decide what is counted"
    assert pool.p_campaigns is not None
    assert pool.p_campaigns < 0.001
    assert noted(found, "In 1 rate of 1 the campaigns that are counted together differ beyond")


def test_runs_of_one_seed_are_reported(tmp_path: Path) -> None:
    twins = [{**run(), "seed": seed} for seed in (1, 2, 3)]
    folders = [versions(tmp_path / name, twins) for name in ("a", "b")]
    found = overview(tmp_path, *folders)
    assert pools(found, OLD)[0].repeated_seeds == 3
    assert noted(found, "3 conclusive runs have the seed of another one")


def test_cells_of_shared_runs_are_not_called_independent(tmp_path: Path) -> None:
    alone = overview(tmp_path / "1", versions(tmp_path / "a", [run()], [run()]))
    assert not noted(alone, "Cells that shared a run")
    folder = versions(tmp_path / "b", [run()], [run()], shared=True)
    shared = overview(tmp_path / "2", folder)
    assert noted(shared, "Cells that shared a run met the same faults at the same time")


def test_a_run_alone_is_not_counted_with_shared_runs(tmp_path: Path) -> None:
    """As a cell is repeated whose part of a shared run broke off."""
    shared = versions(tmp_path / "a", [lossy()] * 4, [run()] * 3, shared=True)
    alone = versions(tmp_path / "b", [run()] * 5)
    add_run(shared, f"version={NEW}", 3, run())
    add_run(shared, f"version={OLD}", 4, run())
    found = overview(tmp_path, shared, alone)
    rates = {
        version: sorted(
            (pool.in_run, pool.lossy, pool.conclusive) for pool in pools(found, version)
        )
        for version in (OLD, NEW)
    }
    assert rates == {OLD: [(1, 0, 6), (2, 4, 4)], NEW: [(1, 0, 1), (2, 0, 3)]}
    assert noted(found, "2 settings in one version have several rates")
