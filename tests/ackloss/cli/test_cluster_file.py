"""`--cluster FILE` on the command line: what is refused, with which exit code, and that nothing is
left behind."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from click.testing import Result

from harness.run.resolving import resolve  # noqa: F401 - imported once, not by each command
from tests.fixtures.command_line import ackloss

PLAN = 'schema = 1\nname = "p"\n[target]\nversion = "4.3.1"\n[workload]\nduration_s = 2\n'
FAULT = '[[faults]]\nid = "f"\nat_s = 1\n'


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path / "state"))


def refused_port() -> int:
    """A port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def run(tmp_path: Path, plan: str, *more: str, client: str = "") -> Result:
    (tmp_path / "plan.toml").write_text(plan)
    text = f'kind = "external"\nbootstrap = ["127.0.0.1:{refused_port()}"]\n[client]\n{client}'
    (tmp_path / "theirs.toml").write_text(text)
    files = ("--cluster", tmp_path / "theirs.toml", "--out", tmp_path / "out")
    return ackloss("run", tmp_path / "plan.toml", *files, *more)


def refusal(done: Result, code: int, tmp_path: Path) -> str:
    """The one sentence of a run that is refused and leaves nothing."""
    assert done.exit_code == code, done.stderr
    (sentence,) = done.stderr.strip().splitlines()
    assert not list((tmp_path / "state").rglob("*.json"))
    return sentence


@pytest.mark.parametrize(
    ("plan", "client", "code", "what"),
    [
        (PLAN, "", 5, "cannot be reached: 127.0.0.1:"),
        (PLAN, '"sasl.password" = "pw"', 4, "a secret may not stand in this file"),
        (PLAN, '"sasl.password" = { env = "NOT_SET" }', 5, "NOT_SET is not set"),
        (
            PLAN + FAULT + 'nemesis = "kill"',
            "",
            4,
            "faults.f.nemesis: kill cannot be made: ackloss causes no faults on a cluster that",
        ),
        (PLAN + FAULT + 'nemesis = "manual"', "", 4, "there is no terminal here"),
        (PLAN + 'client = "java"', "", 4, "kafka has no client 'java'"),
        (PLAN + 'client = "exec"', "", 4, "is a command of yours; name it with --client CMD"),
        (
            'schema = 1\nname = "p"\n[target]\nsystem = "zookeeper"\nversion = "3.9.4"\n'
            '[workload]\nname = "set"\n',
            "",
            4,
            "the plan is for zookeeper, the cluster is kafka",
        ),
    ],
)
def test_what_cannot_be_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, plan: str, client: str, code: int, what: str
) -> None:
    done = run(tmp_path, plan, client=client)
    assert what in refusal(done, code, tmp_path)
    assert "pw" not in done.output


def test_nobody_reads_that_a_cluster_of_theirs_is_taken_down(tmp_path: Path) -> None:
    done = run(tmp_path, PLAN)
    assert "] reaching the cluster" in done.output
    assert "] leaving the cluster as it was" in done.output
    assert "down" not in done.output


def test_faults_on_our_own_clients_are_accepted_and_nothing_is_started(tmp_path: Path) -> None:
    done = run(tmp_path, PLAN + FAULT + 'nemesis = "client"', "--dry-run", "--json")
    assert done.exit_code == 0, done.output
    (plan,) = json.loads(done.stdout)["plans"]
    assert (plan["nodes"], plan["image"]) == ([], None)
    assert plan["plan"]["cluster"] == {"kind": "external"}
    assert plan["plan"]["target"]["version"] is None
    assert plan["plan"]["topic"]["name"].startswith("ackloss-run-")


def test_each_run_has_a_topic_of_its_own(tmp_path: Path) -> None:
    names = set()
    for _ in range(2):
        document = json.loads(run(tmp_path, PLAN, "--dry-run", "--json").stdout)
        names.add(document["plans"][0]["plan"]["topic"]["name"])
    assert len(names) == 2


def test_a_plan_may_not_name_such_a_cluster_without_its_file(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(PLAN + '[cluster]\nkind = "external"\n')
    done = ackloss("run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "out"))
    assert done.exit_code == 4
    assert "name its file with --cluster FILE" in done.stderr


def test_two_clusters_at_once_are_a_mistake_of_usage(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.toml"
    hosts.touch()
    for verb in (["run", "kafka-safe"], ["clean"]):
        assert ackloss(*verb, "--cluster", hosts, "--inventory", hosts).exit_code == 2


COMPOSE = "services: { server-1: { image: x }, server-2: { image: x } }\n"


def compose_file(tmp_path: Path, **changes: str) -> Path:
    (tmp_path / "docker-compose.yml").write_text(COMPOSE)
    keys = {
        "kind": '"compose"',
        "file": '"docker-compose.yml"',
        "bootstrap": f'["127.0.0.1:{refused_port()}"]',
        **changes,
    }
    text = "".join(f"{key} = {value}\n" for key, value in keys.items())
    path = tmp_path / "project.toml"
    path.write_text(text + "[services]\nserver-1 = {}\nserver-2 = {}\n")
    return path


def on_a_project(tmp_path: Path, plan: str, *more: str, **changes: str) -> Result:
    (tmp_path / "plan.toml").write_text(plan)
    files = ("--cluster", compose_file(tmp_path, **changes), "--out", tmp_path / "out")
    return ackloss("run", tmp_path / "plan.toml", *files, *more)


@pytest.mark.parametrize(
    ("fault", "what"),
    [
        ("clock", "the processes of a project of yours were not started with libfaketime"),
        ("power-loss", "the disks of a project of yours cannot lose power"),
        ("disk", "the data of a container of yours are not touched"),
        ("membership", "does not offer the lever"),
    ],
)
def test_what_cannot_be_done_to_a_project_is_refused_when_the_plan_is_read(
    tmp_path: Path, fault: str, what: str
) -> None:
    done = on_a_project(tmp_path, f'{PLAN}{FAULT}nemesis = "{fault}"\n')
    sentence = refusal(done, 4, tmp_path)
    assert f"faults.f.nemesis: {fault} cannot be made: " in sentence
    assert what in sentence


@pytest.mark.parametrize(
    "fault", ["kill", "pause", "partition", "lossy", "stress", "client", "manual"]
)
def test_what_can_be_done_to_a_project_is_accepted_and_nothing_is_started(
    tmp_path: Path, fault: str
) -> None:
    plan_of_one = f'{PLAN}{FAULT}nemesis = "{fault}"\n'
    done = on_a_project(tmp_path, plan_of_one, "--dry-run", "--json")
    assert done.exit_code == 0, done.output
    (plan,) = json.loads(done.stdout)["plans"]
    assert plan["plan"]["cluster"] == {"kind": "compose"}
    assert plan["faults"][0]["nemesis"] == fault


@pytest.mark.docker
@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({}, ": project: "),
        ({"project": '"nobodys-project"'}, "no project 'nobodys-project' is on this machine"),
    ],
)
def test_a_project_that_is_not_there_is_one_sentence_and_leaves_nothing(
    tmp_path: Path, changes: dict[str, str], what: str
) -> None:
    assert what in refusal(on_a_project(tmp_path, PLAN, **changes), 5, tmp_path)


def test_doctor_asks_the_cluster_of_a_file(tmp_path: Path) -> None:
    text = f'kind = "external"\nbootstrap = ["127.0.0.1:{refused_port()}"]\n'
    (tmp_path / "theirs.toml").write_text(text)
    done = ackloss("doctor", "--cluster", str(tmp_path / "theirs.toml"), "--json")
    assert done.exit_code == 5, done.output
    reported = json.loads(done.stdout)
    (kind,) = reported["clusters"]
    assert (kind["kind"], kind["lacks"]) == ("external", ["cluster"])
    (found,) = [each for each in reported["findings"] if each["needed_for"] == "external"]
    assert "cannot be reached: 127.0.0.1:" in found["detail"]
    assert ackloss("doctor", "external", "--json").exit_code == 0


def test_doctor_refuses_a_wrong_file_as_a_run_does(tmp_path: Path) -> None:
    (tmp_path / "theirs.toml").write_text('kind = "external"\n')
    done = ackloss("doctor", "--cluster", str(tmp_path / "theirs.toml"))
    assert done.exit_code == 4
    assert "bootstrap: is missing" in done.stderr
