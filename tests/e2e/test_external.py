"""Plans on a cluster of somebody else, with TLS, SCRAM and access rules: what they find, that
it has no topic of ours afterwards however a run ends, and that no secret is written down."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from tests.fixtures.budget import full_of
from tests.fixtures.command_line import ackloss
from tests.fixtures.machine import ROOT, clean
from tests.fixtures.secured_kafka import STRANGER, USER, TheirCluster, secured_kafka
from tests.fixtures.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.docker]

ALL_WELL = """
schema = 1
name = "guest"
[target]
system = "kafka"
version = "3.9.1"
[topic]
partitions = 2
settings = { "min.insync.replicas" = 2 }
[workload]
rate_per_s = 100
duration_s = 8
"""
LOSES = """
schema = 1
name = "guest-loses"
[topic]
settings = { "unclean.leader.election.enable" = true, "min.insync.replicas" = 1 }
[workload]
rate_per_s = 200
duration_s = 45
producer = { acks = 1 }
[[faults]]
id = "kill-leader"
at_s = 3
nemesis = "manual"
nodes = "leader"
instruction = "stop the followers, wait until the leader is alone, kill it, go on with them"
undo_instruction = "start the broker again"
for_s = 12
at_most_s = 90
"""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TheirCluster]:
    with secured_kafka(tmp_path_factory.mktemp("theirs")) as made:
        yield made


@pytest.fixture(autouse=True)
def _own_register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path / "state"))


@pytest.fixture
def before(theirs: TheirCluster) -> Iterator[None]:
    """The topics are afterwards as they were before, as soon as every broker has learnt of it."""
    topics = theirs.topics()
    yield
    wait_until(lambda: theirs.topics() == topics, within_s=10)


@dataclass
class Running:
    """`ackloss run` of a plan, with all that it prints."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def until(self, pattern: str, timeout_s: float = 90) -> re.Match[str]:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for line in list(self.lines):
                if found := re.search(pattern, line):
                    return found
            if self.process.poll() is not None:
                time.sleep(0.5)
                break
            time.sleep(0.05)
        raise AssertionError(f"no {pattern!r} in: {self.printed}")

    @property
    def printed(self) -> str:
        return "".join(self.lines)

    def end(self, timeout_s: float = 240) -> int:
        code = self.process.wait(timeout_s)
        time.sleep(0.3)
        assert "Traceback" not in self.printed, self.printed
        return code


def words_of(tmp_path: Path, plan: str, cluster: Path, *more: str) -> list[str]:
    path = tmp_path / "plan.toml"
    path.write_text(plan)
    return ["run", str(path), "--cluster", str(cluster), "--out", str(tmp_path / "out"), *more]


def begun(tmp_path: Path, plan: str, cluster: Path, *more: str, **env: str) -> Running:
    words = words_of(tmp_path, plan, cluster, *more)
    process = subprocess.Popen(
        [sys.executable, "-m", "ackloss", *words],
        cwd=ROOT,
        start_new_session=True,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **env},
    )
    running = Running(process)

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            running.lines.append(line)

    threading.Thread(target=read, daemon=True).start()
    return running


def run(tmp_path: Path, plan: str, cluster: Path, *more: str, **env: str) -> tuple[int, str]:
    done = ackloss(*words_of(tmp_path, plan, cluster, *more), **env)
    return done.exit_code, done.output


def result(tmp_path: Path) -> dict[str, Any]:
    (found,) = (tmp_path / "out").glob("*/result.json")
    return dict(json.loads(found.read_bytes()))


def metadata(tmp_path: Path) -> dict[str, Any]:
    (found,) = (tmp_path / "out").glob("*/run.json")
    return dict(json.loads(found.read_bytes()))


def files_with(text: str, *folders: Path) -> list[Path]:
    """The files below these folders that hold a text."""
    paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    assert len(paths) > 5  # there is something to look through
    return [path for path in paths if text.encode() in path.read_bytes()]


@pytest.mark.usefixtures("before")
@pytest.mark.parametrize(
    "client", ["librdkafka", pytest.param("kafka-python", marks=pytest.mark.full)]
)
def test_what_loses_nothing_is_valid_and_no_secret_is_written(
    theirs: TheirCluster, tmp_path: Path, client: str
) -> None:
    cluster = theirs.file(sasl_password='{ env = "THEIR_PASSWORD" }')
    secret = theirs.passwords[USER]
    running = begun(
        tmp_path,
        ALL_WELL,
        cluster,
        "--set",
        f"workload.client={client}",
        THEIR_PASSWORD=secret,
    )
    running.until(r"\] running")
    words = Path(f"/proc/{running.process.pid}/cmdline").read_bytes()
    assert running.end() == 0, running.printed
    judged, reported = result(tmp_path), metadata(tmp_path)
    assert judged["verdict"] == "valid", judged["reason"]
    assert judged["counts"]["acknowledged"] > 500
    assert judged["counts"]["lost"] == 0
    assert [node["name"] for node in reported["nodes"]] == ["b1", "b2", "b3"]
    assert reported["settings"]["effective"]["topic"]["min.insync.replicas"] == "2"
    assert reported["settings"]["effective"]["broker"]["auto.create.topics.enable"] == "false"
    assert "metadata.version" in reported["features"]["effective"]
    assert reported["versions"]["target"] is None  # the plan's version is not that of the cluster
    assert "target.version is ignored" in running.printed
    pages = list((tmp_path / "out").glob("*/report.html"))
    assert pages
    assert files_with("guest", tmp_path / "out")  # the search finds what is there
    assert files_with(secret, tmp_path / "out", tmp_path / "state") == []
    assert secret not in running.printed
    assert secret.encode() not in words


@pytest.mark.full
@pytest.mark.usefixtures("before")
def test_a_process_of_the_users_writes_there_with_a_password_of_its_own(
    theirs: TheirCluster, tmp_path: Path
) -> None:
    """It gets addresses and properties; the secret it has from its environment alone."""
    client = f"{sys.executable} {ROOT / 'docs/examples/clients/kafka_python_client.py'}"
    words = ["--client", client, "--set", "workload.client=exec"]
    secret = theirs.passwords[USER]
    code, printed = run(tmp_path, ALL_WELL, theirs.file(), *words, KAFKA_PASSWORD=secret)
    assert code == 0, printed
    judged = result(tmp_path)
    assert judged["verdict"] == "valid", judged["reason"]
    assert judged["counts"]["acknowledged"] > 500
    assert judged["clients"]["software"].startswith("kafka-python ")
    assert judged["clients"]["incidents"] == []
    assert files_with(secret, tmp_path / "out", tmp_path / "state") == []


def killed_by_hand(
    theirs: TheirCluster, tmp_path: Path, kill: Callable[[TheirCluster, str], None], *words: str
) -> tuple[Running, str]:
    """A run whose operator kills the leader, when both are done, and which broker that was."""
    signals = tmp_path / "signals"
    signals.mkdir()
    running = begun(tmp_path, LOSES, theirs.file(), "--signals", str(signals), *words)
    leader = running.until(r"OPERATOR, fault 'kill-leader': stop .* \((b\d): ")[1]
    try:
        kill(theirs, leader)
        (signals / "kill-leader.begun").touch()
        running.until(r"OPERATOR, fault 'kill-leader': start the broker again")
    finally:
        theirs.start(leader)
    (signals / "kill-leader.ended").touch()
    return running, leader


@pytest.mark.full
@pytest.mark.usefixtures("before")
def test_a_loss_under_a_fault_by_hand_is_found_and_the_fault_is_claimed(
    theirs: TheirCluster, tmp_path: Path
) -> None:
    running, leader = killed_by_hand(theirs, tmp_path, kill_alone)
    assert running.end() == 1, running.printed
    judged = result(tmp_path)
    assert judged["verdict"] == "invalid"
    assert judged["counts"]["lost"] > 0
    (fault,) = judged["faults"]
    assert (fault["claimed"], fault["proven"], fault["nodes"]) == (True, False, [leader])
    assert fault["to_s"] - fault["from_s"] > 10
    assert files_with(theirs.passwords[USER], tmp_path / "out", tmp_path / "state") == []
    wait_until_whole(theirs)


@pytest.mark.full
@pytest.mark.usefixtures("before")
def test_without_a_loss_a_claimed_fault_leaves_the_verdict_unknown(
    theirs: TheirCluster, tmp_path: Path
) -> None:
    sets = [
        "topic.settings={}",
        'workload.producer={ acks = "all" }',
        "workload.duration_s=14",
        "faults.0.for_s=4",
    ]
    words = [word for change in sets for word in ("--set", change)]
    running, _ = killed_by_hand(
        theirs, tmp_path, lambda theirs, leader: theirs.signal(leader, "KILL"), *words
    )
    assert running.end() == 3, running.printed
    judged = result(tmp_path)
    assert judged["verdict"] == "unknown"
    assert judged["counts"]["lost"] == 0
    assert "kill-leader (claimed, not proven)" in judged["reason"]
    wait_until_whole(theirs)


@pytest.mark.usefixtures("before")
def test_what_a_killed_run_made_is_removed_and_nothing_else(
    theirs: TheirCluster, tmp_path: Path
) -> None:
    theirs.admin.create_topics([NewTopic("ackloss-of-another", 1, 3)])["ackloss-of-another"].result(
        20
    )
    try:
        cluster = theirs.file()
        running = begun(tmp_path, ALL_WELL, cluster, "--set", "workload.duration_s=60")
        running.until(r"\] running")
        (ours,) = theirs.topics() - {"ackloss-of-another"}
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(20)
        assert ours in theirs.topics()
        would = clean("--cluster", str(cluster), "--dry-run")
        assert f"topic {ours}" in would["removed"]
        assert ours in theirs.topics()
        did = clean("--cluster", str(cluster))
        assert f"topic {ours}" in did["removed"]
        assert [line for line in did["left"] if line.startswith("topic ackloss-of-another")]
        wait_until(lambda: theirs.topics() == {"ackloss-of-another"}, within_s=10)
        assert clean("--cluster", str(cluster))["removed"] == []
    finally:
        theirs.admin.delete_topics(["ackloss-of-another"])["ackloss-of-another"].result(20)
        wait_until(lambda: "ackloss-of-another" not in theirs.topics(), within_s=60)


@pytest.mark.usefixtures("before")
@pytest.mark.parametrize(
    ("user", "changes", "what"),
    [
        (STRANGER, {}, "the cluster refuses the topic ackloss-run-"),
        (USER, {"ssl_ca_location": '"other-ca.pem"'}, "its certificate is not accepted: "),
        *full_of(
            (
                USER,
                {"sasl_password": '{ env = "WRONG" }'},
                "the cluster does not answer librdkafka: ",
            ),
            (USER, {"sasl_mechanism": '"PLAIN"'}, "the cluster does not answer librdkafka: "),
        ),
    ],
)
def test_a_cluster_that_does_not_let_us_is_an_environment_that_does_not_fit(
    theirs: TheirCluster, tmp_path: Path, user: str, changes: dict[str, str], what: str
) -> None:
    from tests.fixtures.secured_kafka import Authority

    (theirs.folder / "other-ca.pem").write_bytes(Authority().pem)
    cluster = theirs.file(user, **changes)
    code, printed = run(tmp_path, ALL_WELL, cluster, WRONG="not-the-password")
    assert code == 5, printed
    assert what in printed
    assert "not-the-password" not in printed
    assert clean()["removed"] == []


@pytest.mark.usefixtures("before")
def test_a_setting_that_the_cluster_does_not_have_is_the_plans_mistake(
    theirs: TheirCluster, tmp_path: Path
) -> None:
    change = 'topic.settings."min.insync.replicas"=0'
    code, printed = run(tmp_path, ALL_WELL, theirs.file(), "--set", change)
    assert code == 4, printed
    assert "topic.settings" in printed


def kill_alone(theirs: TheirCluster, leader: str) -> None:
    """Have the leader acknowledge alone, kill it, and let those go on that lack its last writes."""
    followers = sorted(theirs.brokers.keys() - {leader})
    try:
        for name in followers:
            theirs.signal(name, "STOP")
        # Their sessions end after 4 s, and the leader is the ISR; then it takes writes for a while.
        time.sleep(8)
        theirs.signal(leader, "KILL")
    finally:
        for name in followers:
            theirs.signal(name, "CONT")


def wait_until_whole(theirs: TheirCluster) -> None:
    """Every broker is back."""
    wait_until(lambda: len(theirs.admin.list_topics(timeout=10).brokers) == 3, within_s=60)
