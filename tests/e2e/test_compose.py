"""Plans on a compose project of somebody else: what they find, and that the project is afterwards
as it was, however a run ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

import ackloss
from tests.e2e.test_any_client import SHORT
from tests.fixtures.command_line import ackloss as command_line
from tests.fixtures.command_line import ackloss_json
from tests.fixtures.machine import ROOT, apart, containers_of_runs
from tests.fixtures.their_project import (
    SERVICES,
    TheirProject,
    kafka_project,
    seen,
)
from tests.fixtures.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.usefixtures("own_state")]

KILLS = """
schema = 1
name = "kills"
seed = 7
[topic]
partitions = 1
settings = { "unclean.leader.election.enable" = true, "min.insync.replicas" = 1 }
[workload]
rate_per_s = 200
duration_s = 21
producer = { acks = 1 }
[[faults]]
id = "cut"
at_s = 1
nemesis = "partition"
nodes = "role:broker - leader"
peers = "leader"
ports = [9092]
direction = "out"
[[faults]]
id = "kill-leader"
when = "isr == [leader]"
within_s = 10
after_s = 3
nemesis = "kill"
nodes = "leader"
[[faults]]
id = "back"
when = "leader moved"
within_s = 10
after_s = 2
heal = "all"
"""
SAFE = """
schema = 1
name = "safe"
seed = 7
[topic]
partitions = 1
settings = { "min.insync.replicas" = 2 }
[workload]
rate_per_s = 100
duration_s = 30
[workload.producer]
"enable.idempotence" = true
"message.timeout.ms" = 40000
"max.in.flight" = 1
"batch.num.messages" = 4
[[faults]]
id = "pause"
at_s = 2
nemesis = "pause"
nodes = "node:b3"
for_s = 4
[[faults]]
id = "lossy"
at_s = 2
nemesis = "lossy"
nodes = "node:b2"
share = 0.2
for_s = 4
[[faults]]
id = "isolate"
at_s = 11
nemesis = "partition"
nodes = "leader"
for_s = 5
[[faults]]
id = "kill"
at_s = 22
nemesis = "kill"
nodes = "leader"
for_s = 3
"""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TheirProject]:
    with kafka_project(tmp_path_factory.mktemp("theirs")) as made:
        wait_until(lambda: len(topics_and_brokers(made)[1]) == 3, within_s=120)
        yield made


@pytest.fixture
def untouched(theirs: TheirProject, tmp_path: Path) -> Iterator[None]:
    """The project is afterwards as before, it has no topic of ours, and no container of ours is
    left. What strangers on this machine make and remove meanwhile is not looked at."""
    before, others = seen(theirs.client, theirs.name), containers_of_runs(outside=tmp_path)
    yield
    assert seen(theirs.client, theirs.name) == before
    assert containers_of_runs(outside=tmp_path) <= others
    wait_until(lambda: len(topics_and_brokers(theirs)[1]) == 3, within_s=60)
    assert topics_and_brokers(theirs)[0] == set()


def topics_and_brokers(theirs: TheirProject) -> tuple[set[str], set[int]]:
    """The topics, but Kafka's own, and the brokers; nothing while none answers."""
    servers = ",".join(f"127.0.0.1:{port}" for port in theirs.ports.values())
    try:
        listed = AdminClient({"bootstrap.servers": servers, "log_level": 0}).list_topics(timeout=5)
    except Exception:
        return set(), set()
    return {name for name in listed.topics if name[:2] != "__"}, set(listed.brokers)


def words_of(tmp_path: Path, plan: str, cluster: Path, *more: str) -> list[str]:
    tmp_path.mkdir(exist_ok=True)
    path = tmp_path / "plan.toml"
    path.write_text(plan)
    return ["run", str(path), "--cluster", str(cluster), "--out", str(tmp_path / "out"), *more]


def command(tmp_path: Path, plan: str, cluster: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "ackloss", *words_of(tmp_path, plan, cluster, *more)]


def run(tmp_path: Path, plan: str, cluster: Path, *more: str) -> tuple[int, str]:
    done = apart(*words_of(tmp_path, plan, cluster, *more), within_s=300)
    printed = done.stdout + done.stderr
    assert "Traceback" not in printed, printed
    return done.returncode, printed


def written(tmp_path: Path, name: str) -> dict[str, Any]:
    (found,) = (tmp_path / "out").glob(f"*/{name}")
    return dict(json.loads(found.read_bytes()))


def states(tmp_path: Path) -> list[str]:
    found = (tmp_path / "out").glob("*/run.json")
    return [str(json.loads(path.read_bytes())["state"]) for path in found]


@pytest.mark.alone
@pytest.mark.usefixtures("untouched")
def test_a_leader_that_is_killed_alone_loses_and_the_project_is_as_before(
    theirs: TheirProject, tmp_path: Path
) -> None:
    code, printed = run(tmp_path, KILLS, theirs.file())
    assert code == 1, printed
    judged, reported = written(tmp_path, "result.json"), written(tmp_path, "run.json")
    assert judged["verdict"] == "invalid"
    assert judged["counts"]["lost"] > 0
    assert {fault["id"]: fault["proven"] for fault in judged["faults"]} == {
        "cut": True,
        "kill-leader": True,
    }, judged["faults"]
    roles = {node["name"]: node["roles"] for node in reported["nodes"]}
    assert roles["b2"] == ["broker", "service:kafka-2"]
    assert roles["controller"] == ["controller", "service:controller"]


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.usefixtures("untouched")
def test_safe_settings_lose_nothing_under_proven_faults(
    theirs: TheirProject, tmp_path: Path
) -> None:
    (tmp_path / "plan.toml").write_text(SAFE)
    with pytest.warns(UserWarning, match=r"target\.version is ignored"):
        done = ackloss.run(
            tmp_path / "plan.toml",
            set={"target.version": "3.9.1"},
            cluster=theirs.file(),
            out=tmp_path / "out",
        )
    assert done.result.verdict == "valid", done.result.reason
    judged = written(tmp_path, "result.json")
    assert judged["counts"]["acknowledged"] > 1000
    proven = {fault["id"]: fault["proven"] for fault in judged["faults"]}
    assert proven == dict.fromkeys(("pause", "lossy", "isolate", "kill"), True), judged["faults"]
    assert "--cluster" in done.metadata.command


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("client", "code"), [("kafka_python_client.py", 0), ("liar.py", 1)], ids=["honest", "liar"]
)
def test_a_client_of_the_users_is_judged_on_a_project_of_theirs(
    theirs: TheirProject, tmp_path: Path, client: str, code: int
) -> None:
    """By the plan that judges them anywhere; the liar acknowledges what it has not sent."""
    plan = (ROOT / "plans/clients/lose.toml").read_text()
    words = ["--client", f"{sys.executable} {ROOT / 'docs/examples/clients' / client}"]
    words += [word for change in SHORT for word in ("--set", change)]
    ended, printed = run(tmp_path, plan, theirs.file(), *words)
    judged = written(tmp_path, "result.json")
    assert (ended, judged["verdict"]) == (code, "invalid" if code else "valid"), printed
    assert all(fault["proven"] for fault in judged["faults"]), judged["faults"]
    assert bool(judged["counts"]["lost"]) == bool(code)


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.usefixtures("untouched")
def test_a_run_that_is_killed_in_mid_fault_is_undone_by_clean(
    theirs: TheirProject, tmp_path: Path
) -> None:
    plan = SAFE.replace("at_s = 11", "at_s = 3").replace("for_s = 5", "for_s = 60")
    plan = plan.replace("at_s = 22", "at_s = 4").replace("for_s = 3\n", "for_s = 60\n")
    plan = plan.replace('nodes = "leader"\nfor_s = 60\n', 'nodes = "node:b1"\nfor_s = 60\n')
    plan = plan.replace("for_s = 4", "for_s = 60").replace("duration_s = 30", "duration_s = 60")
    cluster = theirs.file()
    process = subprocess.Popen(
        command(tmp_path, plan, cluster), cwd=ROOT, start_new_session=True, stdin=subprocess.DEVNULL
    )

    def in_force() -> bool:
        journals = list((tmp_path / "out").glob("*/faults.jsonl"))
        return bool(journals) and journals[0].read_text().count('"type":"on"') == 4

    wait_until(in_force, within_s=90)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(20)
    assert not theirs.container("kafka-1")["State"]["Running"]
    would = ackloss_json("clean", "--dry-run")
    assert not theirs.container("kafka-1")["State"]["Running"]
    did = ackloss_json("clean")
    assert did["removed"] == would["removed"]
    assert sum("-infra" in name for name in did["removed"]) == 4
    assert len([name for name in did["removed"] if name.startswith("topic ackloss-")]) == 1
    assert len(did["undone"]) >= 4
    assert ackloss_json("clean")["removed"] == []
    for service in ("kafka-1", "kafka-2", "kafka-3"):
        pid = theirs.container(service)["State"]["Pid"]
        rules = ["nsenter", "-t", str(pid), "-n", "iptables-save"]
        printed = subprocess.run(rules, capture_output=True, text=True, check=True).stdout
        assert "ACKLOSS" not in printed
        states = subprocess.run(
            ["ps", "--ppid", str(pid), "-p", str(pid), "-o", "state="],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert "T" not in states


@pytest.mark.full
def test_a_project_that_does_not_run_is_started_and_is_afterwards_as_it_was(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    plan = SAFE.partition("[[faults]]")[0].replace("duration_s = 30", "duration_s = 4")
    with kafka_project(tmp_path_factory.mktemp("stopped"), up=False) as stopped:
        before = seen(stopped.client, stopped.name)
        code, printed = run(tmp_path, plan, stopped.file())
        assert code == 5
        assert "start it" in printed
        code, printed = run(tmp_path, plan, stopped.file(start=True))
        assert code == 0, printed
        after = seen(stopped.client, stopped.name)
        assert set(after.pop("volumes")) == {f"{stopped.name}_data-{s}" for s in SERVICES.values()}
        before.pop("volumes")
        assert after == before
        stopped.run("up", "-d", "kafka-1", "controller")
        stopped.run("stop", "kafka-1")
        before = seen(stopped.client, stopped.name)
        code, printed = run(tmp_path, plan, stopped.file(start=True))
        assert code == 0, printed
        assert seen(stopped.client, stopped.name) == before
        long = plan.replace("duration_s = 4", "duration_s = 60")
        process = subprocess.Popen(
            command(tmp_path / "killed", long, stopped.file(start=True)),
            cwd=ROOT,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )
        wait_until(lambda: "running" in states(tmp_path / "killed"), within_s=90)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(20)
        assert seen(stopped.client, stopped.name) != before
        did = ackloss_json("clean")
        again = [name for name in did["removed"] if name.endswith(" (stopped again)")]
        assert any("kafka-1" in name for name in again), did
        assert seen(stopped.client, stopped.name) == before


def test_doctor_says_who_is_there_and_makes_nothing(theirs: TheirProject) -> None:
    topics = topics_and_brokers(theirs)[0]
    reported = ackloss_json("doctor", "--cluster", str(theirs.file()))
    found = {each["name"]: each for each in reported["findings"] if each["needed_for"] == "compose"}
    assert reported["clusters"][0]["ok"], reported
    assert "kafka-1, kafka-2, kafka-3, controller" in found[f"project {theirs.name}"]["detail"]
    for name, port in theirs.ports.items():
        assert f"{name} 127.0.0.1:{port}" in found["cluster"]["detail"]
    assert found["topic of a run"]["status"] == "ok"
    assert topics_and_brokers(theirs)[0] == topics
    nobody = theirs.file(bootstrap='["127.0.0.1:1"]')
    reported = ackloss_json("doctor", "--cluster", str(nobody))
    assert reported["clusters"][0]["lacks"] == ["cluster"]


@pytest.mark.parametrize(
    ("changes", "code", "what"),
    [
        ({"bootstrap": '["127.0.0.1:1"]'}, 5, "cannot be reached: 127.0.0.1:1: no connection"),
        ({"project": '"nobodys"'}, 5, "no project 'nobodys' is on this machine"),
    ],
)
@pytest.mark.alone
@pytest.mark.usefixtures("untouched")
def test_what_is_not_there_is_one_sentence_and_leaves_nothing(
    theirs: TheirProject,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
    code: int,
    what: str,
) -> None:
    monkeypatch.setattr("harness.clusters.compose.cluster._UP_S", 0)  # they have just been started
    done = command_line(*words_of(tmp_path, SAFE, theirs.file(**changes)))
    assert done.exit_code == code, done.output
    assert what in done.output
    assert ackloss_json("clean")["removed"] == []
