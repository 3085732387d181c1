"""Which cells share a run, the plan of a shared run, and what `campaign plan` shows of it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from harness.campaigns.estimate import estimate
from harness.campaigns.plan import Campaign, Cell, load_campaign
from harness.campaigns.sharing import groups_of, groups_of_campaign, shared_plan, split
from harness.cli import main
from harness.plan import parse_plan
from targets.kafka.target import Kafka
from tests.fixtures.campaign_folder import BASE

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


@pytest.mark.usefixtures("kafka_shares")
def test_cells_of_a_choice_that_shares_no_run_stay_alone(tmp_path: Path) -> None:
    axes = f"""{AXES}
[axes.run.choices.together]
[axes.run.choices.alone]
share = "never"
"""
    groups = groups_of_campaign(campaign(tmp_path, 'share = "auto"', axes))
    sizes = {
        run: [len(group) for group in groups if group[0].key["run"] == run]
        for run in ("together", "alone")
    }
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
    shared = campaign(tmp_path, 'share = "auto"', AXES + clients)
    groups = groups_of_campaign(shared)
    sizes = {
        client: [len(group) for group in groups if group[0].key["client"] == client]
        for client in ("librdkafka", "java")
    }
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
        "processes": 4 * 1000,
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
    further_s = cell.resolved.provider.cost(cell.resolved.order, kept=True).further_cell_s
    assert further_s > 0
    assert together.seconds == pytest.approx(alone.seconds / 4 + 6 * 3 * further_s)
    first = groups_of_campaign(shared)[0]
    left = estimate(shared, [(each.name, 0) for each in first[1:]], workers=1)
    assert (left.runs, left.executions) == (21, 6), "the cell that is left runs alone"


@pytest.mark.usefixtures("kafka_shares")
def test_campaign_plan_shows_which_cells_share_a_run(tmp_path: Path) -> None:
    file = str(file_of(tmp_path, 'repetitions = 3\nshare = "auto"'))
    shown = CliRunner().invoke(main, ["campaign", "plan", file])
    assert shown.exit_code == 0
    assert shown.output.count("one run for 4 cells:") == 2
    assert "8 cells, 24 runs in 6 executions, about" in " ".join(shown.output.split())
    document = json.loads(CliRunner().invoke(main, ["campaign", "plan", file, "--json"]).stdout)
    assert document["executions"] == 6
    assert [len(each["shares_with"]) for each in document["cells"]] == [3] * 8
    assert {each["version"] for each in document["cells"][0]["shares_with"]} == {"4.2.0"}


def test_campaign_plan_without_shared_runs_says_nothing_of_them(tmp_path: Path) -> None:
    shown = CliRunner().invoke(main, ["campaign", "plan", str(file_of(tmp_path, ""))])
    assert "one run for" not in shown.output
    assert "executions" not in shown.output


def test_an_unknown_way_of_sharing_is_refused(tmp_path: Path) -> None:
    shown = CliRunner().invoke(main, ["campaign", "plan", str(file_of(tmp_path, 'share = "all"'))])
    assert shown.exit_code == 4
    assert "share" in shown.output
    assert "Traceback" not in shown.output
