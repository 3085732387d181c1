"""The user's own settings files: what is in one decides, and what is not used is named by key."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns.loading import load_campaign
from harness.plan.model import Yours
from harness.run.own_settings import OwnSettings
from tests.ackloss.cli.test_bad_input import ROOT, ackloss, refused

SAFE = "plans/kafka-safe.toml"
MEMORY_PLAN = "plans/memory/log.toml"
UNSAFE = """\
# three brokers in one zone
broker.id = 1
unclean.leader.election.enable = true
min.insync.replicas : 1
default.replication.factor=3
num.network.threads=4
log.retention.hours=72
"""


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@dataclass
class Planned:
    """What a dry run shows: the plan, and the lines before it."""

    plan: dict[str, Any]
    said: str
    stdout: str

    @property
    def yours(self) -> Yours:
        return Yours.model_validate(self.plan["yours"])

    def states(self, option: str) -> dict[str, tuple[str, str]]:
        """Of each key of a file: its state and why."""
        (file,) = (each for each in self.yours.files if each.option == option)
        return {each.key: (each.state, each.why) for each in file.keys}


class Files:
    """Makes the files, and dry runs with them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *options: str, plan: str = SAFE, **files: str) -> Planned:
        words = list(options)
        for kind, text in files.items():
            words += [f"--{kind}-settings", str(self.file(text, f"{kind}.properties"))]
        done = ackloss("run", plan, "--dry-run", "--json", *words)
        assert done.exit_code == 0, done.stderr
        return Planned(json.loads(done.stdout)["plans"][0]["plan"], done.stderr, done.stdout)

    def file(self, text: str, name: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


@pytest.fixture
def with_files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_what_is_in_a_file_decides_over_the_plan_of_the_topic_too(with_files: Files) -> None:
    made = with_files(broker=UNSAFE, producer="acks=1\nenable.idempotence=false\nlinger.ms=20\n")
    for settings in (made.plan["topic"]["settings"], made.plan["target"]["settings"]):
        assert settings["unclean.leader.election.enable"] is True
        assert settings["min.insync.replicas"] == 1
    producer = made.plan["workload"]["producer"]
    assert (producer["acks"], producer["enable.idempotence"], producer["linger.ms"]) == (
        1,
        False,
        20,
    )
    assert producer["message.timeout.ms"] == 40000, "what no file has stays the plan's"
    assert "5 keys used, 1 not applicable" in made.said
    assert "not applicable, ackloss sets it itself: broker.id" in made.said


def test_a_plans_expectation_is_of_its_own_settings(with_files: Files) -> None:
    made = with_files(broker=UNSAFE)
    assert made.plan["expect"] is None
    assert made.yours.expected == "valid"
    assert "expected: nothing; the plan expects valid of its own settings" in made.said
    unused = with_files(broker="broker.id=1\n")
    assert unused.plan["expect"] == "valid"


def test_set_decides_over_the_file_by_name_under_any_name(with_files: Files) -> None:
    made = with_files(
        *("--set", "topic.settings.min.insync.replicas=2"),
        *("--set", 'workload.producer."message.timeout.ms"=5000'),
        broker=UNSAFE,
        producer="delivery.timeout.ms=120000\n",
    )
    assert made.plan["topic"]["settings"]["min.insync.replicas"] == 2
    assert "min.insync.replicas" not in made.plan["target"]["settings"]
    assert made.plan["workload"]["producer"]["message.timeout.ms"] == 5000
    assert "delivery.timeout.ms" not in made.plan["workload"]["producer"]
    assert made.states("broker-settings")["min.insync.replicas"] == ("overruled", "--set")
    assert made.states("producer-settings")["delivery.timeout.ms"] == ("overruled", "--set")
    assert "1 overruled by --set" in made.said


def test_an_axis_goes_first_by_its_name_and_the_file_counts_elsewhere(tmp_path: Path) -> None:
    campaign, broker = tmp_path / "c.toml", tmp_path / "server.properties"
    campaign.write_text(
        'schema = 1\nname = "c"\nplan = "kafka-safe"\n'
        '[axes.least]\nkey = "topic.settings.min.insync.replicas"\nvalues = [1, 2]\n'
        "[axes.acks.choices]\nplans = {}\n"
        'one = { set = { "workload.producer.acks" = 1, '
        '"workload.producer.enable.idempotence" = false } }\n'
    )
    broker.write_text("min.insync.replicas=3\nunclean.leader.election.enable=true\n")
    loaded = load_campaign(campaign, own=OwnSettings(files={"broker-settings": broker}))
    for cell in loaded.cells:
        plan = cell.resolved.plan.document()
        assert str(plan["topic"]["settings"]["min.insync.replicas"]) == cell.key["least"]
        assert plan["topic"]["settings"]["unclean.leader.election.enable"] is True
        (file,) = Yours.model_validate(plan["yours"]).files
        assert [(each.key, each.state, each.why) for each in file.keys] == [
            ("min.insync.replicas", "overruled", "the axis least"),
            ("unclean.leader.election.enable", "used", "of brokers and of the topic"),
        ]


def test_a_cell_of_a_plan_goes_first_by_its_name(with_files: Files, tmp_path: Path) -> None:
    plan = tmp_path / "cells.toml"
    text = (ROOT / SAFE).read_text()
    cells = (
        '[[cells]]\nname = "one"\nexpect = "invalid"\n'
        'topic = { settings = { "min.insync.replicas" = 1 } }\n'
        '[[cells]]\nname = "two"\nexpect = "valid"\n'
    )
    plan.write_text(text + cells)
    made = with_files(plan=str(plan), broker="min.insync.replicas=3\n")
    assert made.states("broker-settings")["min.insync.replicas"] == (
        *("used", "where the cells one does not decide"),
    )
    assert made.plan["topic"]["settings"]["min.insync.replicas"] == 3
    assert [cell.get("expect") for cell in made.plan["cells"]] == [None, None]


def test_keys_are_ignored_by_name_and_reason(with_files: Files) -> None:
    made = with_files(
        broker="listeners=x\nvendor.balancer.enable=true\nunclean.leader.election.enable=TRUE\n"
        "remote.log.storage.system.enable=true\nlog.retention.ms={{ retention }}\n"
        "num.io.threads=${env:N}\nnode.id=%ID%\nmin.insync.replicas=2\nnum.partitions=12\n"
        "default.replication.factor=7\nzookeeper.connect=z:2181\nmin.insync.replica=1\n",
        producer="key.serializer=X\nlinger.ms=7\n",
        consumer="max.poll.records=5\n",
    )
    states = made.states("broker-settings")
    by_state = {
        state: {key for key, (own, _) in states.items() if own == state}
        for state in ("used", "not applicable", "unknown")
    }
    assert (
        by_state
        == {
            "used": {"unclean.leader.election.enable", "min.insync.replicas"},
            "unknown": {
                *("vendor.balancer.enable", "log.retention.ms", "num.io.threads"),
                *("min.insync.replica", "zookeeper.connect"),
            },
            "not applicable": {
                *("listeners", "remote.log.storage.system.enable", "node.id"),
                *("num.partitions", "default.replication.factor"),
            },
        }
        or states["zookeeper.connect"][0] == "not applicable"
    )
    assert made.plan["target"]["settings"]["unclean.leader.election.enable"] is True
    assert "storage.manager.class.name" in states["remote.log.storage.system.enable"][1]
    assert "mark that nothing has replaced" in states["log.retention.ms"][1]
    assert "mark that nothing has replaced" in states["node.id"][1]
    assert "did you mean 'min.insync.replicas'" in states["min.insync.replica"][1]
    ((state, why),) = made.states("consumer-settings").values()
    assert (state, "no group of consumers" in why) == ("not applicable", True)


def test_strict_refuses_what_is_unknown_and_not_what_ackloss_sets(
    with_files: Files, tmp_path: Path
) -> None:
    with_files("--strict", broker="broker.id=1\nlisteners=x\nmin.insync.replicas=2\n")
    for line in ("vendor.balancer.enable=true\n", "num.io.threads=${env:N}\n"):
        server = with_files.file(f"min.insync.replicas=2\n{line}", "server.properties")
        option = ("--strict", "--dry-run", "--broker-settings", str(server))
        sentence = refused("run", SAFE, *option, exit_code=4)
        assert line.partition("=")[0] in sentence
    assert list(tmp_path.glob("runs*")) == []


def test_no_secret_of_a_file_is_shown(with_files: Files) -> None:
    secrets = {
        "rsm.config.storage.s3.secret.access.key": "SECRET-1",
        "oauth.client.secret": "SECRET-2",
        "vendor.license": "SECRET-3",
        "my.vault.token": "SECRET-4",
        "listener.name.internal.plain.sasl.jaas.config": 'x password="SECRET-5";',
        "ssl.keystore.password": "SECRET-6",
        "anything.else": "SECRET-7",
    }
    lines = "".join(f"{key}={value}\n" for key, value in secrets.items())
    made = with_files(broker=f"min.insync.replicas=2\n{lines}", producer=lines, consumer=lines)
    assert "SECRET" not in made.said + made.stdout
    assert set(secrets) <= set(made.states("broker-settings"))
    assert all(key in made.said for key in secrets)


def test_what_kafkas_producer_concludes_from_a_file_is_what_is_run(with_files: Files) -> None:
    for line in ("acks=1", "retries=0", "max.in.flight.requests.per.connection=10"):
        made = with_files(producer=f"{line}\n")
        assert made.plan["workload"]["producer"]["enable.idempotence"] is False, line
        why = made.states("producer-settings")["enable.idempotence"][1]
        assert why.startswith("not in the file: its ")
    made = with_files(plan="kill-leader-acks1", producer="enable.idempotence=true\n")
    assert made.plan["workload"]["producer"]["acks"] == "all"


def test_own_producer_settings_are_those_of_the_client_that_writes(with_files: Files) -> None:
    text = "max.block.ms=7000\nsocket.nagle.disable=true\nlinger.ms=7\n"
    used = {}
    for client in ("librdkafka", "kafka-python", "java"):
        made = with_files("--set", f"workload.client={client}", producer=text)
        used[client] = {k for k, (s, _) in made.states("producer-settings").items() if s == "used"}
        assert used[client] <= set(made.plan["workload"]["producer"])
    assert used == {
        "librdkafka": {"socket.nagle.disable", "linger.ms"},
        "kafka-python": {"linger.ms"},
        "java": {"max.block.ms", "linger.ms"},
    }


def test_a_group_of_consumers_has_what_its_file_says(with_files: Files) -> None:
    made = with_files(
        plan="group-young",
        consumer="max.poll.records=500\nsession.timeout.ms=45000\nenable.auto.commit=true\n"
        "auto.commit.interval.ms=5000\nauto.offset.reset=latest\nfetch.max.wait.ms=100\n"
        "group.id=prod\nisolation.level=read_committed\n"
        "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor\n",
    )
    options = made.plan["workload"]["options"]
    assert {key: options[key] for key in ("batch_count", "session_s", "commit", "reset")} == {
        "batch_count": 500,
        "session_s": 45,
        "commit": "auto",
        "reset": "latest",
    }
    assert (options["commit_interval_s"], options["protocol"]) == (5, "cooperative-sticky")
    assert made.plan["workload"]["consumer"] == {"fetch.max.wait.ms": 100}
    states = made.states("consumer-settings")
    assert {states["group.id"][0], states["isolation.level"][0]} == {"not applicable"}


def test_real_timeouts_are_kafkas_and_the_waits_follow(with_files: Files) -> None:
    short, real = with_files(), with_files("--real-timeouts")
    settings = real.plan["target"]["settings"]
    assert settings["replica.lag.time.max.ms"] == 30000
    assert settings["broker.session.timeout.ms"] == 9000
    assert real.plan["workload"]["producer"]["message.timeout.ms"] == 120000
    assert real.plan["expect"] == "valid"
    longer = real.yours.longer_s
    assert 40 < longer < 60
    for before, after in zip(short.plan["faults"], real.plan["faults"], strict=True):
        assert after["within_s"] == before["within_s"] + (longer if before["when"] else 0)
    assert real.plan["final"]["settle_s"] == short.plan["final"]["settle_s"] + longer
    assert real.plan["workload"]["duration_s"] == 34 + 2 * longer
    assert f"each wait of the plan is {longer:g} s longer" in real.said
    again = with_files(broker="replica.lag.time.max.ms=9000\n")
    assert 0 < again.yours.longer_s < longer
    assert again.plan["faults"][1]["within_s"] == 8 + again.yours.longer_s
    both = with_files("--real-timeouts", broker="replica.lag.time.max.ms=9000\n")
    assert both.plan["target"]["settings"]["replica.lag.time.max.ms"] == 9000
    assert both.states("real-timeouts")["replica.lag.time.max.ms"][0] == "overruled"


def test_a_value_of_a_file_that_is_wrong_names_the_file_and_its_key(with_files: Files) -> None:
    for kind, line, words in (
        ("broker", "min.insync.replicas=7\n", "more than"),
        ("producer", "linger.ms=soon\n", "'soon' is not an integer"),
        ("producer", "acks=2\n", "acks is"),
    ):
        file = with_files.file(line, f"{kind}.properties")
        sentence = refused("run", SAFE, "--dry-run", f"--{kind}-settings", str(file), exit_code=4)
        assert f"{file}: {line.partition('=')[0]}: " in sentence
        assert words in sentence


def test_a_system_that_takes_no_files_of_settings_refuses_them(tmp_path: Path) -> None:
    server = tmp_path / "server.properties"
    server.write_text("num.io.threads=3\n")
    option = ("--broker-settings", str(server))
    sentence = refused("run", MEMORY_PLAN, "--dry-run", *option, exit_code=4)
    assert "target.system: memory takes no --broker-settings; leave it out" in sentence
    assert ackloss("run", MEMORY_PLAN, "--dry-run").exit_code == 0


def test_lines_about_a_file_are_printed_once_for_all_plans(with_files: Files) -> None:
    option = ("--broker-settings", str(with_files.file("broker.id=7\n", "server.properties")))
    done = ackloss("run", SAFE, "plans/kafka-unclean.toml", "--dry-run", "--json", *option)
    assert done.exit_code == 0, done.stderr
    assert done.stderr.count("broker.id") == 1


def test_a_plan_that_is_run_again_has_them_and_its_digest_is_that_of_the_run(
    with_files: Files,
) -> None:
    made = with_files(broker=UNSAFE)
    stored = with_files.file(json.dumps(made.plan), "plan.json")
    again = with_files(plan=str(stored))
    assert again.plan == made.plan
    helped = ackloss("run", "--help").output
    for option in ("broker", "producer", "consumer"):
        assert f"--{option}-settings" in helped
