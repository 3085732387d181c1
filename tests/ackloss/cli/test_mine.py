"""`ackloss mine`: the shipped campaign with the user's own files, as far as nothing is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.campaigns.loading import load_campaign
from harness.campaigns.plan import Campaign
from harness.campaigns.sharing import groups_of_campaign
from harness.plan.parsing import CAMPAIGNS, find
from harness.run.own_settings import OwnSettings
from tests.fixtures.command_line import ackloss, ackloss_json

pytestmark = pytest.mark.slow

UNSAFE = {
    "broker.properties": "unclean.leader.election.enable=true\nmin.insync.replicas=1\n"
    "broker.id=1\n",
    "producer.properties": "acks=1\nenable.idempotence=false\nlinger.ms=20\n",
}
SAFE = {
    "broker.properties": "unclean.leader.election.enable=false\nmin.insync.replicas=2\n",
    "producer.properties": "acks=all\nenable.idempotence=true\n",
}
FAULTS = ["kill", "isolated", "zone", "restart", "power"]


def files(folder: Path, texts: dict[str, str]) -> list[str]:
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [
        *("--broker-settings", str(folder / "broker.properties")),
        *("--producer-settings", str(folder / "producer.properties")),
    ]


@pytest.fixture
def shipped() -> Campaign:
    return load_campaign(find(CAMPAIGNS, "mine"))


def test_all_settings_share_each_run_of_each_fault(shipped: Campaign) -> None:
    groups = groups_of_campaign(shipped)
    assert [group[0].key["faults"] for group in groups] == FAULTS
    for group in groups:
        labels = [cell.key["settings"] for cell in group]
        assert (labels[0], labels[-1]) == ("yours", "safe")
    assert {cell.key["settings"] for cell in shipped.of_policy} == {"yours"}
    assert [cell.key["faults"] for cell in shipped.of_policy] == FAULTS[:-1]


def test_it_takes_a_few_minutes(monkeypatch: pytest.MonkeyPatch, shipped: Campaign) -> None:
    from harness.campaigns.scheduler import estimate

    assert estimate(shipped).seconds < 600, "a few minutes, one run at a time"


def test_a_dry_run_shows_the_cells_and_what_of_the_files_is_not_used(tmp_path: Path) -> None:
    done = ackloss("mine", *files(tmp_path, UNSAFE), "--dry-run")
    assert done.exit_code == 0, done.output
    assert "faults=isolated, settings=yours" in done.output
    assert "faults=isolated, settings=acks-min-isr" in done.output
    assert "broker.id" in done.output
    assert not list(Path().glob("runs/mine-*"))


def test_ways_that_change_nothing_of_the_files_are_left_out(tmp_path: Path) -> None:
    document = ackloss_json("mine", *files(tmp_path, SAFE), "--dry-run")
    labels = {cell["key"]["settings"] for cell in document["cells"]}
    assert labels == {"yours", "safe"}


def test_a_setting_under_another_name_is_run_all_the_same(tmp_path: Path) -> None:
    """librdkafka's name of acks: the axis decides in some cells only, and under its own name."""
    (tmp_path / "p").write_text("request.required.acks=1\n")
    own = OwnSettings(files={"producer-settings": tmp_path / "p"})
    campaign = load_campaign(find(CAMPAIGNS, "mine"), only={"faults": ["kill"]}, own=own)
    acks = {
        cell.key["settings"]: dict(cell.document["workload"]["producer"])["acks"]  # type: ignore[index]
        for cell in campaign.cells
    }
    assert acks["yours"] == acks["clean"] == 1
    assert acks["acks"] == acks["safe"] == "all"


def test_one_fault_and_fewer_runs(tmp_path: Path) -> None:
    document = ackloss_json("mine", "--only", "faults=kill,zone", "--repetitions", 1, "--dry-run")
    assert {cell["key"]["faults"] for cell in document["cells"]} == {"kill", "zone"}
    assert document["executions"] == 2


@pytest.mark.parametrize(
    ("only", "says"),
    [
        ("fault=kill", "no axis is named 'fault'; its axes are faults, settings"),
        ("faults=kil", "the axis faults has no choice 'kil'; its choices are kill, isolated,"),
        ("kill", "--only 'kill' is not K=V"),
        ("faults=power", "policy.cells: names no cell that is run"),
    ],
)
def test_a_choice_that_is_not_there_is_refused(only: str, says: str) -> None:
    done = ackloss("mine", "--only", only, "--dry-run")
    assert done.exit_code in (2, 4)
    assert says in " ".join(done.output.replace("│", " ").split())
