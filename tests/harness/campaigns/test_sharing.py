"""Which cells share a run, the plan of a shared run, and what `campaign plan` shows of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.campaigns.folder import CampaignDir
from harness.campaigns.loading import load_campaign
from harness.campaigns.plan import Campaign, Cell
from harness.campaigns.scheduler import estimate
from harness.campaigns.sharing import groups_of, groups_of_campaign, shared_plan, split
from harness.errors import PlanError
from harness.plan import parse_plan
from targets.kafka.target import Kafka
from tests.fixtures.campaign_folder import BASE
from tests.fixtures.command_line import ackloss

KEYS = ("topic.settings", "topic.replication_factor", "workload.producer")
AXES = """
[axes.unclean]
key = 'topic.settings."unclean.leader.election.enable"'
values = [true, false]
[axes.version]
key = "target.version"
values = ["4.2.0", "4.3.1"]
[axes.acks]
key = "workload.producer.acks"
values = ["1", "all"]
"""


@pytest.fixture
def kafka_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kafka, "cell_keys", KEYS, raising=False)


def cell(name: str, *, rate_per_s: float = 100, processes: int = 10, **document: Any) -> Cell:
    load = SimpleNamespace(rate_per_s=rate_per_s, processes=processes)
    resolved: Any = SimpleNamespace(plan=SimpleNamespace(workload=load))
    return Cell({"a": name}, document, resolved, 1)


def names(groups: list[tuple[Cell, ...]]) -> list[str]:
    return ["".join(each.key["a"] for each in group) for group in groups]


def grouped(*cells: Cell, most: int = 16) -> list[str]:
    return names(groups_of(cells, lambda _: KEYS, most=most))


def file_of(folder: Path, head: str, axes: str = AXES) -> Path:
    (folder / "base.toml").write_text(BASE)
    file = folder / "c.toml"
    file.write_text(f'schema = 1\nname = "c"\nplan = "base.toml"\n{head}\n{axes}')
    return file


def campaign(folder: Path, head: str, axes: str = AXES) -> Campaign:
    return load_campaign(file_of(folder, head, axes))


def test_cells_share_a_run_if_only_keys_of_cells_differ() -> None:
    cells = [
        cell("x", topic={"settings": {"a": 1}, "partitions": 1}),
        cell("y", topic={"settings": {"b": 2}, "partitions": 1}),
        cell("z", topic={"partitions": 1}, workload={"producer": {"acks": "1"}}),
    ]
    assert grouped(*cells) == ["xyz"]
    assert grouped(*cells, cell("w", topic={"partitions": 3})) == ["xyz", "w"]


@pytest.mark.parametrize(
    "other",
    [
        {"target": {"version": "4.2.0"}},
        {"target": {"settings": {"a": 1}}},
        {"faults": [{"id": "k", "nemesis": "kill", "at_s": 2}]},
        {"workload": {"rate_per_s": 10}},
        {"topic": {"settings_of_another_kind": 1}},
    ],
)
def test_cells_with_other_versions_nodes_faults_or_load_do_not(other: dict[str, Any]) -> None:
    same = {"topic": {"settings": {"a": 1}}}
    assert grouped(cell("x", **same), cell("y", **{**same, **other})) == ["x", "y"]
    assert grouped(cell("x", **same), cell("y", **same)) == ["xy"]


def test_without_keys_every_cell_runs_alone() -> None:
    cells = [cell("x", topic={}), cell("y", topic={})]
    assert names(groups_of(cells, lambda _: ())) == ["x", "y"]


def test_large_groups_are_cut_evenly_in_the_order_of_the_cells() -> None:
    cells = [cell(letter) for letter in "abcdefghijklmnopqrstuvwx"]
    assert grouped(*cells) == ["abcdefghijkl", "mnopqrstuvwx"]
    assert grouped(*cells[:17]) == ["abcdefgh", "ijklmnopq"]
    assert grouped(*cells[:16]) == ["abcdefghijklmnop"]
    assert grouped(*cells[:5], most=2) == ["a", "bc", "de"]
    assert grouped(*cells, most=1) == list("abcdefghijklmnopqrstuvwx")


@pytest.mark.parametrize(
    ("load", "groups"),
    [
        ({"rate_per_s": 1000}, ["ab", "cde"]),
        ({"rate_per_s": 2000}, ["a", "bc", "de"]),
        ({"rate_per_s": 2001}, ["a", "b", "c", "d", "e"]),
        ({"rate_per_s": 0}, ["a", "b", "c", "d", "e"]),
        ({"processes": 10_000}, ["a", "bc", "de"]),
        ({"processes": 10_001}, ["a", "b", "c", "d", "e"]),
    ],
)
def test_cells_with_much_load_share_with_few_others(
    load: dict[str, Any], groups: list[str]
) -> None:
    assert grouped(*(cell(letter, **load) for letter in "abcde")) == groups


def sizes_by(axis: str, shared: Campaign) -> dict[str, list[int]]:
    """The sizes of its groups, by their value on an axis."""
    sizes: dict[str, list[int]] = {}
    for group in groups_of_campaign(shared):
        sizes.setdefault(group[0].key[axis], []).append(len(group))
    return sizes


@pytest.mark.usefixtures("kafka_shares")
def test_cells_of_a_choice_that_shares_no_run_stay_alone(tmp_path: Path) -> None:
    axes = f"""{AXES}
[axes.run.choices.together]
[axes.run.choices.alone]
share = "never"
"""
    sizes = sizes_by("run", campaign(tmp_path, 'share = "auto"', axes))
    assert sizes == {"together": [4, 4], "alone": [1] * 8}


def test_a_plan_is_split_into_what_is_common_and_what_is_of_the_cell() -> None:
    document = {
        "name": "n",
        "expect": "valid",
        "topic": {"name": "t", "settings": {"min.insync.replicas": 2}},
        "workload": {"producer": {"acks": "1"}},
    }
    common, own = split(document, KEYS)
    assert common == {"name": "n", "topic": {"name": "t"}}
    assert own == {
        "expect": "valid",
        "topic": {"settings": {"min.insync.replicas": 2}},
        "workload": {"producer": {"acks": "1"}},
    }


def test_keys_with_dots_are_found() -> None:
    document = {"topic": {"settings": {"a.b": 1, "c": 2}}}
    assert split(document, ['topic.settings."a.b"']) == (
        {"topic": {"settings": {"c": 2}}},
        {"topic": {"settings": {"a.b": 1}}},
    )


@pytest.mark.usefixtures("kafka_shares")
def test_a_campaign_shares_what_its_target_allows(tmp_path: Path) -> None:
    never = groups_of_campaign(campaign(tmp_path, "repetitions = 3"))
    assert [len(group) for group in never] == [1] * 8, "never is the default"
    groups = groups_of_campaign(campaign(tmp_path, 'repetitions = 3\nshare = "auto"'))
    assert [len(group) for group in groups] == [4, 4]
    assert [{each.key["version"] for each in group} for group in groups] == [{"4.2.0"}, {"4.3.1"}]


def test_clients_of_which_a_run_has_no_cells_run_alone(tmp_path: Path) -> None:
    clients = '[axes.client]\nkey = "workload.client"\nvalues = ["librdkafka", "java"]\n'
    sizes = sizes_by("client", campaign(tmp_path, 'share = "auto"', AXES + clients))
    assert sizes == {"librdkafka": [4, 4], "java": [1] * 8}


@pytest.mark.usefixtures("kafka_shares")
def test_the_plan_of_a_shared_run_gives_each_cell_its_own_keys(tmp_path: Path) -> None:
    group = groups_of_campaign(campaign(tmp_path, 'share = "auto"'))[0]
    document, cells = shared_plan(group)
    assert cells == ("cell-1", "cell-2", "cell-3", "cell-4")
    assert document["target"] == {"version": "4.2.0", "controllers": 1}
    assert document["workload"] == {
        "duration_s": 10,
        "rate_per_s": 4 * 50,
        "processes": 4 * 500,  # as many as 50 a second need
        "producer": {"acks": "1"},
    }
    assert document["cells"] == [
        {
            "name": name,
            "topic": {"settings": {"unclean.leader.election.enable": unclean}},
            "workload": {"producer": {"acks": acks}},
        }
        for name, (unclean, acks) in zip(
            cells, [(True, "1"), (True, "all"), (False, "1"), (False, "all")], strict=True
        )
    ]
    assert shared_plan(group[:1]) == (group[0].document, ())


@pytest.mark.parametrize("copies", ["[2]", "[1, 2]"])
def test_the_plan_of_a_shared_run_is_valid_without_its_cells(tmp_path: Path, copies: str) -> None:
    """Two brokers, and a topic has three replicas where the plan does not say otherwise."""
    axes = """
[axes.replicas]
key = "topic.replication_factor"
values = VALUES
[axes.acks]
key = "workload.producer.acks"
values = ["1", "all"]
[axes.brokers]
key = "target.brokers"
values = [2]
"""
    axes = axes.replace("VALUES", copies)
    (group,) = groups_of_campaign(campaign(tmp_path, 'share = "auto"', axes))
    document, names = shared_plan(group)
    assert len(names) == len(group)
    plan = parse_plan({**document, "seed": 0})
    assert [each.name for each in plan.cells] == list(names)


@pytest.mark.usefixtures("kafka_shares")
def test_a_shared_run_takes_the_time_of_one_and_a_little_for_each_further_cell(
    tmp_path: Path,
) -> None:
    alone = estimate(campaign(tmp_path, "repetitions = 3"), workers=1)
    shared = campaign(tmp_path, 'repetitions = 3\nshare = "auto"')
    together = estimate(shared, workers=1)
    assert (alone.runs, alone.executions) == (24, 24)
    assert (together.runs, together.executions) == (24, 6)
    cell = shared.possible[0]
    kept, new = (
        cell.resolved.provider.cost(cell.resolved.order, kept=kept) for kept in (True, False)
    )
    assert kept.further_cell_s > 0
    starts_s = 2 * new.seconds
    assert alone.seconds == pytest.approx(24 * kept.seconds + starts_s)
    further_s = 3 * kept.further_cell_s
    assert together.seconds == pytest.approx(6 * (kept.seconds + further_s) + starts_s)
    first = groups_of_campaign(shared)[0]
    left = estimate(shared, [(each.name, 0) for each in first[1:]], workers=1)
    assert (left.runs, left.executions) == (21, 6), "the cell that is left runs alone"


@pytest.mark.usefixtures("kafka_shares")
@pytest.mark.parametrize(
    ("repetitions", "workers", "clusters"),
    [
        (3, 1, 2),  # one for each of the two versions
        (3, 2, 2),
        (3, 3, 3),  # the third worker needs one, too
        (20, 1, 8),  # a version has its turn for five rounds
        (20, 2, 2),  # each has its own worker
        (100, 1, 20),
    ],
)
def test_an_estimate_counts_the_clusters_that_are_started_and_warmed_up(
    tmp_path: Path, repetitions: int, workers: int, clusters: int
) -> None:
    given = campaign(tmp_path, f"repetitions = {repetitions}")
    cell = given.possible[0]
    kept_s, new_s = (
        cell.resolved.provider.cost(cell.resolved.order, kept=kept).seconds
        for kept in (True, False)
    )
    estimated = estimate(given, workers=workers)
    assert estimated.seconds * workers == pytest.approx(8 * repetitions * kept_s + clusters * new_s)


@pytest.mark.usefixtures("kafka_shares")
def test_campaign_plan_shows_which_cells_share_a_run(tmp_path: Path) -> None:
    file = str(file_of(tmp_path, 'repetitions = 3\nshare = "auto"'))
    shown = ackloss("campaign", "plan", file)
    assert shown.exit_code == 0
    assert shown.output.count("one run for 4 cells:") == 2
    assert "8 cells, 24 results of 6 shared runs, about" in " ".join(shown.output.split())
    document = json.loads(ackloss("campaign", "plan", file, "--json").stdout)
    assert document["executions"] == 6
    assert [len(each["shares_with"]) for each in document["cells"]] == [3] * 8
    assert {each["version"] for each in document["cells"][0]["shares_with"]} == {"4.2.0"}


def test_campaign_plan_says_in_one_line_along_which_axes_runs_are_shared(tmp_path: Path) -> None:
    clients = '[axes.client]\nkey = "workload.client"\nvalues = ["librdkafka", "java"]\n'
    one = '[axes.read]\nkey = "final.read_s"\nvalues = [60]\n'
    file = str(file_of(tmp_path, 'share = "auto"', AXES + clients + one))
    shown = ackloss("campaign", "plan", file)
    assert "shared runs: in part along unclean, acks; not along version, client\n" in shown.output
    document = json.loads(ackloss("campaign", "plan", file, "--json").stdout)
    along = {"unclean": "some", "acks": "some", "version": "none", "client": "none"}
    assert document["shared"] == along
    file = str(file_of(tmp_path, 'share = "auto"'))
    shown = ackloss("campaign", "plan", file)
    assert "shared runs: along unclean, acks; not along version\n" in shown.output
    assert "shared runs:" not in ackloss("campaign", "plan", file, "-q").output


def with_share(axes: str, *names: str) -> str:
    """These axes, of which some are to share their runs always."""
    for name in names:
        axes = axes.replace(f"[axes.{name}]", f'[axes.{name}]\nshare = "always"')
    return axes


OF_CELLS = AXES.replace('["4.2.0", "4.3.1"]', '["4.3.1"]')


@pytest.mark.parametrize(
    ("head", "axes", "groups"),
    [
        ('share = "always"', OF_CELLS, [4]),
        ('share = "auto"', with_share(AXES, "unclean", "acks"), [4, 4]),
        ('share = "auto"', with_share(AXES, "acks"), [4, 4]),
        ("", with_share(AXES, "acks"), [2, 2, 2, 2]),
        ('share = "never"', with_share(AXES, "unclean", "acks"), [4, 4]),
        ('share = "always"', "", [1]),
    ],
)
def test_cells_share_their_runs_where_the_file_demands_it(
    tmp_path: Path, head: str, axes: str, groups: list[int]
) -> None:
    shared = groups_of_campaign(campaign(tmp_path, head, axes))
    assert [len(group) for group in shared] == groups
    for group in shared:
        assert len({each.key.get("version") for each in group}) == 1
        assert len({each.key.get("acks") for each in group}) == min(2, len(group))


def test_no_cut_separates_cells_that_must_share(tmp_path: Path) -> None:
    cells = [
        Cell({"a": str(a), "b": str(b)}, {}, cell("x").resolved, 1)
        for a in range(4)
        for b in range(6)
    ]
    for together, sizes in (((), [12, 12]), (("a",), [12, 12]), (("b",), [12, 12])):
        groups = groups_of(cells, lambda _: KEYS, together=together)
        assert [len(group) for group in groups] == sizes
        for group in groups:
            assert [each.name for each in group] == [
                each.name for each in cells if each in group
            ], "in the order of the cells"
    by_b = groups_of(cells, lambda _: KEYS, together=("a",))
    assert [{each.key["a"] for each in group} for group in by_b] == [set("0123")] * 2
    groups = groups_of(cells, lambda _: KEYS, most=7, together=("b",))
    assert [len(group) for group in groups] == [6] * 4


@pytest.mark.parametrize(
    ("head", "axes", "key", "why"),
    [
        ("", with_share(AXES, "version"), "axes.version", "they differ in target.version;"),
        ('share = "always"', AXES, "axes.version", "they differ in target.version;"),
        (
            'share = "auto"',
            """
            [axes.faults]
            share = "always"
            [axes.faults.choices.kill.set]
            faults = [{ id = "k", at_s = 2, nemesis = "kill", for_s = 2 }]
            [axes.faults.choices.none]
            """,
            "axes.faults",
            "they differ in faults;",
        ),
        (
            "",
            '[axes.fsync]\nshare = "always"\nkey = \'target.settings."num.io.threads"\'\n'
            "values = [2, 4]",
            "axes.fsync",
            'they differ in target.settings."num.io.threads";',
        ),
        (
            'share = "always"',
            f'{OF_CELLS}[axes.run.choices.a]\n[axes.run.choices.b]\nshare = "never"',
            "axes.unclean",
            'the choice run=b has `share = "never"`;',
        ),
        (
            'share = "always"',
            '[axes.acks]\nkey = "workload.producer.acks"\nvalues = ["1", "all"]\n'
            '[axes.client]\nkey = "workload.client"\nvalues = ["java"]\n',
            "axes.acks",
            "clients in their own nodes (k1, k2, k3) would be shared",
        ),
        (
            'share = "always"',
            "[axes.a]\nkey = 'topic.partitions'\nvalues = [1, 2]\n"
            "[axes.rate]\nkey = 'workload.rate_per_s'\nvalues = [0]\n",
            "axes.a",
            "their load has no limit (workload.rate_per_s = 0);",
        ),
        (
            'share = "always"',
            "[axes.a]\nkey = 'topic.partitions'\nvalues = [1, 2, 3]\n"
            "[axes.rate]\nkey = 'workload.rate_per_s'\nvalues = [1500]\n",
            "axes.a",
            "one run has at most 1 of these 3 cells;",
        ),
        (
            'share = "always"',
            "[axes.a]\nkey = 'topic.partitions'\nvalues = [1, 2, 3, 4, 5]\n"
            "[axes.b]\nkey = 'topic.settings.\"retention.ms\"'\nvalues = [1, 2, 3, 4]\n",
            "share",
            "cells that differ in a, b alone cannot share their runs",
        ),
        (
            "",
            "[axes.a]\nkey = 'topic.partitions'\nvalues = [1, 2, 3, 4, 5]\nshare = 'always'\n"
            "[axes.b]\nkey = 'topic.settings.\"retention.ms\"'\nvalues = [1, 2, 3, 4]\n"
            "share = 'always'",
            "axes",
            "one run has at most 16 of these 20 cells;",
        ),
    ],
)
def test_an_axis_that_cannot_be_shared_although_the_file_demands_it_is_refused(
    tmp_path: Path, head: str, axes: str, key: str, why: str
) -> None:
    with pytest.raises(PlanError, match='as `share = "always"` demands') as refused:
        campaign(tmp_path, head, axes)
    assert (refused.value.file, refused.value.key) == (str(tmp_path / "c.toml"), key)
    assert why in str(refused.value)


def test_a_stored_campaign_is_read_whatever_it_demands(tmp_path: Path) -> None:
    """Its runs are there: a later ackloss may let cells share less."""
    folder = CampaignDir.create(tmp_path / "out", campaign(tmp_path, 'share = "always"', OF_CELLS))
    folder.file.write_text(folder.file.read_text().replace('["4.3.1"]', '["4.2.0", "4.3.1"]'))
    assert [len(group) for group in groups_of_campaign(folder.campaign())] == [4, 4]


def test_plans_with_cells_of_their_own_share_no_run(tmp_path: Path) -> None:
    """The plan of a shared run has the campaign's cells, so theirs would be lost."""
    cells = "".join(f'[[cells]]\nname = "{name}"\n' for name in ("one", "two"))
    (tmp_path / "cells.toml").write_text(BASE + cells)
    axes = '[axes.acks]\nkey = "workload.producer.acks"\nvalues = ["1", "all"]\n'
    file = file_of(tmp_path, 'share = "auto"', axes)
    file.write_text(file.read_text().replace("base.toml", "cells.toml"))
    shared = load_campaign(file)
    assert [len(each.resolved.cells) for each in shared.cells] == [2, 2]
    assert [len(group) for group in groups_of_campaign(shared)] == [1, 1]
    file.write_text(file.read_text().replace('"auto"', '"always"'))
    with pytest.raises(PlanError, match="their plan has cells itself"):
        load_campaign(file)
