"""Plans on hosts over SSH: what they find, and that a host is afterwards as it was before, however
the run ends. The hosts are containers that know nothing of ackloss (`tests.fixtures.ssh_hosts`)."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.ssh.scripts import LEASE_S
from harness.images.java import kept_jars
from harness.registry import target_named
from targets.kafka.versions import release_line
from tests.fixtures import budget, machine
from tests.fixtures.campaign_process import wait_for
from tests.fixtures.command_line import ackloss, ackloss_json
from tests.fixtures.machine import ROOT, fault_is_on
from tests.fixtures.ssh_hosts import Hosts, ssh_hosts

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.usefixtures("own_state")]

FULL = pytest.mark.full
ROUNDS = int(os.environ.get("ACKLOSS_TORTURE_ROUNDS", "1"))
CUT = "faults/clients-cut-safe"
LONG_CUT = """
schema = 1
name = "long-cut"

[target]
system = "kafka"
version = "4.3.1"
brokers = 3
controllers = 1

[workload]
duration_s = 70

[[faults]]
id = "long"
at_s = 1
nemesis = "partition"
nodes = "role:broker"
peers = "clients"
for_s = 60
"""
CAMPAIGN = f"""
schema = 1
name = "two-inventories"
plan = "{ROOT}/plans/zookeeper/short-set.toml"
repetitions = 1

[axes.fault.choices.kill-leader.set]
faults = [{{ id = "f", at_s = 3, nemesis = "kill", nodes = "leader", for_s = 4 }}]

[axes.fault.choices.isolate-leader.set]
faults = [{{ id = "f", at_s = 3, nemesis = "partition", nodes = "leader", for_s = 7 }}]

[policy]
fail_on = "never"
"""
BEHIND = f"""
name = "behind"
{
    (ROOT / "plans/zookeeper/short-set.toml")
    .read_text()
    .partition("[[faults]]")[0]
    .replace('name = "short-set"', "")
    .replace("duration_s = 16", "duration_s = 22")
}
[[faults]]
id = "kill"
at_s = 2
nemesis = "kill"
nodes = "leader"
for_s = 4

[[faults]]
id = "cut"
at_s = 12
nemesis = "partition"
nodes = "leader"
for_s = 7
"""
OWN_RULE = ["INPUT", "-p", "udp", "-m", "udp", "--dport", "7", "-j", "DROP"]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Six hosts that filter something themselves: a plan of four nodes takes the first four."""
    with ssh_hosts(tmp_path_factory.mktemp("hosts"), 6) as made:
        filter_something(made)
        yield made


@pytest.fixture(autouse=True)
def _own_register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path / "state"))


@pytest.fixture
def before(hosts: Hosts) -> Iterator[dict[str, object]]:
    """The hosts before a run, as which they must be after the test."""
    state = states(hosts)
    assert all("-A INPUT -p udp" in " ".join(host["rules"]) for host in state.values())
    yield dict(state)
    assert states(hosts) == state


def filter_something(hosts: Hosts) -> None:
    for name in hosts.addresses:
        hosts.on(name, "iptables", "-A", *OWN_RULE)


def states(hosts: Hosts) -> dict[str, dict[str, list[str]]]:
    with ThreadPoolExecutor(len(hosts.addresses)) as pool:
        return dict(zip(hosts.addresses, pool.map(hosts.state, hosts.addresses), strict=True))


def begun(out: Path, plan: str, inventory: Path, *sets: str) -> subprocess.Popen[str]:
    return machine.started(out, plan, *sets, words=("--inventory", str(inventory)))


def run(out: Path, plan: str, inventory: Path, *sets: str) -> tuple[int, str]:
    changes = [word for change in sets for word in ("--set", change)]
    done = ackloss("run", plan, "--inventory", inventory, "--out", out, *changes)
    return done.exit_code, done.output


def clean(inventory: Path) -> dict[str, list[str]]:
    return machine.clean("--inventory", str(inventory))


def result(out: Path) -> dict[str, object]:
    (path,) = out.glob("*/result.json")
    return dict(json.loads(path.read_text()))


@pytest.mark.parametrize(
    ("plan", "code", "verdict"),
    [
        pytest.param("zookeeper/kill-leader", 0, "valid", marks=pytest.mark.full),
        pytest.param("faults/kill-leader-safe", 0, "valid", marks=pytest.mark.full),
        pytest.param(CUT, 0, "valid", marks=pytest.mark.full),
    ],
)
def test_a_plan_finds_on_hosts_what_it_finds_in_containers(
    hosts: Hosts, before: object, tmp_path: Path, plan: str, code: int, verdict: str
) -> None:
    exit_code, output = run(tmp_path, plan, hosts.inventory())
    found = result(tmp_path)
    assert (exit_code, found["verdict"]) == (code, verdict), output
    assert_proven(found)


@pytest.mark.full
@pytest.mark.parametrize(
    "plan",
    [
        "etcd/lag-kill",
        "redis/isolate-leader",
        "redis/isolate-leader-wait",
        "postgresql/isolate-leader",
        "postgresql/isolate-leader-synchronous",
        "rabbitmq/kill-leader-quorum",
        "galera/isolate-leader",
    ],
)
def test_systems_on_hosts_lose_what_they_lose_in_containers(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, plan: str
) -> None:
    path = ROOT / "plans" / f"{plan}.toml"
    expected = tomllib.loads(path.read_text())["expect"]
    needed = target_named(plan.partition("/")[0]).source.needed.values()
    with ssh_hosts(tmp_path_factory.mktemp("hosts"), 3, tuple(needed)) as made:
        filter_something(made)
        before = states(made)
        exit_code, output = run(tmp_path, plan, made.inventory())
        assert states(made) == before
    found = result(tmp_path)
    assert (exit_code, found["verdict"]) == (int(expected == "invalid"), expected), output
    assert_proven(found)


@pytest.mark.full
@pytest.mark.parametrize("plan", ["faults/unacknowledged-reset", "zookeeper/unacknowledged-reset"])
def test_a_proxy_on_hosts_withholds_responses_and_leaves_nothing(
    hosts: Hosts, before: object, tmp_path: Path, plan: str
) -> None:
    exit_code, output = run(tmp_path, plan, hosts.inventory())
    found = result(tmp_path)
    assert (exit_code, found["verdict"]) == (0, "valid"), output
    assert_proven(found)
    counts = found["counts"]
    assert isinstance(counts, dict)
    assert counts["unacknowledged_found"] > 100


@pytest.mark.full
def test_a_loss_on_hosts_is_explained_as_in_containers(
    hosts: Hosts, before: object, tmp_path: Path
) -> None:
    """What the leader's log lost was copied over SFTP, and its metrics came as a file."""
    exit_code, output = run(tmp_path, "short-unclean", hosts.inventory())
    found: Any = result(tmp_path)
    assert (exit_code, found["verdict"]) == (1, "invalid"), output
    lost = found["counts"]["lost"]
    assert lost > 50
    assert (sum(found["causes"].values()), found["unexplained"]) == (lost, 0)
    assert found["removed"]["not_copied"] == []
    assert (found["removed"]["lost"], found["removed"]["left_over"]) == (lost, 0)
    assert {alarm["fired_s"] is None for alarm in found["alarms"]} == {True, False}


def assert_proven(found: dict[str, object]) -> None:
    faults = found["faults"]
    assert isinstance(faults, list)
    assert faults
    assert all(fault["proven"] for fault in faults), faults


@pytest.mark.full
def test_a_host_lets_us_in_again_by_itself_when_the_harness_dies_in_a_cut(
    hosts: Hosts, before: dict[str, object], tmp_path: Path
) -> None:
    """Nobody cleans: the hosts do, within the lease; and our SSH passed while clients were cut."""
    inventory, plan, out = hosts.inventory(), tmp_path / "long-cut.toml", tmp_path / "out"
    plan.write_text(LONG_CUT)
    process = begun(out, str(plan), inventory)
    try:
        wait_for(lambda: fault_is_on(out), within_s=180)
        assert any("ackloss/long" in " ".join(host["rules"]) for host in states(hosts).values())
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
    wait_for(lambda: states(hosts) == before, within_s=LEASE_S + 30)
    assert [line for line in clean(inventory)["removed"] if "h1" in line] == []


@pytest.mark.timeout(600 * ROUNDS)
def test_clean_of_another_process_undoes_a_killed_run_at_once(
    hosts: Hosts, before: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory, draw = hosts.inventory(), random.Random(ROUNDS)
    temporary = tmp_path / "tmp"  # or it would remove what a test beside this one has left
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    for number in range(ROUNDS):
        out = tmp_path / str(number)
        out.mkdir()
        process = begun(out, CUT, inventory)
        kill_at_s = draw.uniform(4, 60)
        try:
            process.communicate(timeout=kill_at_s)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate(timeout=30)
        removed = clean(inventory)["removed"]
        print(f"round {number + 1}: killed after {kill_at_s:.1f} s, removed {len(removed)}")
        assert states(hosts) == before, removed
        assert clean(inventory)["removed"] == []
    assert list(temporary.iterdir()) == []


@pytest.mark.full
@pytest.mark.parametrize("jump", [False, True], ids=["direct", "behind"])
def test_a_host_that_vanishes_fails_the_run_and_cleans_itself_when_it_is_back(
    hosts: Hosts, before: dict[str, object], tmp_path: Path, jump: bool
) -> None:
    """Behind a jump host, whose connection to us is not lost with it, too."""
    way = {"jump": f"lab@{hosts.addresses['h6']}"} if jump else {}
    inventory = hosts.inventory(["h1", "h2", "h3", "h4"], **way)
    process = begun(tmp_path, "faults/kill-leader-safe", inventory)
    try:
        wait_for(lambda: fault_is_on(tmp_path), within_s=180)
        hosts.vanish("h3")
        vanished_at = time.monotonic()
        output, _ = process.communicate(timeout=240)
        assert time.monotonic() - vanished_at < 75, "it was noticed, and not waited for"
    finally:
        hosts.come_back("h3")
    assert process.returncode == 6, output
    assert "Traceback" not in output
    assert "h3 (" in output
    assert "does not answer" in output
    wait_for(lambda: states(hosts)["h1"] == before["h1"], within_s=5)
    wait_for(lambda: states(hosts) == before, within_s=LEASE_S + 30)
    clean(inventory)


@pytest.fixture
def behind(hosts: Hosts) -> Iterator[str]:
    """The address of h6, from which alone the first three can be reached by SSH."""
    ours = hosts.on("h1", "ip", "-4", "route", "show", "default").split()[2]
    drop = ["INPUT", "-s", ours, "-p", "tcp", "-m", "tcp", "--dport", "22", "-j", "DROP"]
    for name in ("h1", "h2", "h3"):
        hosts.on(name, "iptables", "-A", *drop)
    with pytest.raises(TimeoutError):
        socket.create_connection((hosts.addresses["h1"], 22), timeout=2)
    yield hosts.addresses["h6"]
    for name in ("h1", "h2", "h3"):
        hosts.on(name, "iptables", "-D", *drop)


@pytest.mark.full
def test_faults_on_hosts_behind_a_jump_host(
    hosts: Hosts, behind: str, before: object, tmp_path: Path
) -> None:
    """A kill and a cut of leaders. While it is cut, what lets us in is the jump host's address."""
    plan, out = tmp_path / "behind.toml", tmp_path / "out"
    plan.write_text(BEHIND)
    process = begun(out, str(plan), hosts.inventory(["h1", "h2", "h3"], jump=f"lab@{behind}"))
    rules: list[str] = []
    try:
        wait_for(lambda: bool(cut_rules(hosts, rules)), within_s=120)
    finally:
        output, _ = process.communicate(timeout=240)
    exempt = [rule for rule in rules if "ackloss:exempt" in rule]
    assert {rule.split()[1] for rule in exempt} == {"ACKLOSS-IN", "ACKLOSS-OUT"}, rules
    assert all(f"{behind}/32" in rule for rule in exempt), exempt
    found = result(out)
    assert (process.returncode, found["verdict"]) == (0, "valid"), output
    faults = found["faults"]
    assert isinstance(faults, list)
    assert [fault["proven"] for fault in faults] == [True, True], faults


def cut_rules(hosts: Hosts, seen: list[str]) -> list[str]:
    """`seen`, with the rules of the host on which a cut is in force, if there is one."""
    for name in ("h1", "h2", "h3"):
        rules = hosts.on(name, "iptables-save").splitlines()
        if any("ackloss/cut" in rule for rule in rules):
            seen += rules
    return seen


@pytest.mark.full
def test_clean_works_behind_a_jump_host(
    hosts: Hosts, behind: str, before: dict[str, object], tmp_path: Path
) -> None:
    plan = tmp_path / "behind.toml"
    plan.write_text(BEHIND)
    inventory = hosts.inventory(["h1", "h2", "h3"], jump=f"lab@{behind}:22")
    process = begun(tmp_path / "out", str(plan), inventory)
    try:
        wait_for(lambda: "holder" in hosts.on("h3", "ls", "/run/ackloss"), within_s=120)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
    assert clean(inventory)["removed"]
    assert states(hosts) == before


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        ("key", "the host key of jump host {gate} ({gate}:22) is not known"),
        pytest.param("port", "jump host {gate}:1 ({gate}:1) does not answer", marks=FULL),
        pytest.param(
            "user", "jump host {gate} ({gate}:22) does not let the user nobody-here in", marks=FULL
        ),
        pytest.param(
            "host",
            "does not answer: jump host {gate} ({gate}:22) says 'Connect failed'",
            marks=FULL,
        ),
        ("node", "faults.cut.nodes: 'leader' may be z"),
    ],
)
def test_a_jump_host_that_cannot_be_used_is_refused_in_one_sentence(
    hosts: Hosts, before: object, tmp_path: Path, spoil: str, what: str
) -> None:
    gate, names = hosts.addresses["h6"], ["h1", "h2", "h3"]
    jump = {"port": f"lab@{gate}:1", "user": f"nobody-here@{gate}"}.get(spoil, f"lab@{gate}")
    inventory = hosts.inventory(names, jump=jump)
    text = inventory.read_text()
    if spoil == "key":
        known = tmp_path / "known"
        lines = hosts.known_hosts.read_text().splitlines()
        known.write_text("\n".join(line for line in lines if not line.startswith(gate)))
        text = text.replace(str(hosts.known_hosts), str(known))
    if spoil == "host":
        text = text.replace(address := f'"{hosts.addresses["h1"]}"', f"{address}\nport = 1")
    if spoil == "node":
        text = text.replace(f'"{hosts.addresses["h2"]}"', f'"{gate}"\njump = "none"')
    inventory = tmp_path / "hosts.toml"
    inventory.write_text(text)
    plan = tmp_path / "behind.toml"
    plan.write_text(BEHIND)
    code, output = run(tmp_path / "out", str(plan), inventory)
    assert what.format(gate=gate) in output, output
    assert code == (4 if spoil == "node" else 5)


HOME, JAVA_HOME = "/opt/kafka", "/usr/lib/jvm/java-17-openjdk-amd64"
KILL = """
schema = 1
name = "installed"

[target]
system = "kafka"
version = "4.3.1"
brokers = 3
controllers = 1

[topic]
replication_factor = 3
settings = { "min.insync.replicas" = 2 }

[workload]
duration_s = 12

[[faults]]
id = "kill"
at_s = 3
nemesis = "kill"
nodes = "leader(0)"
for_s = 4
"""


@pytest.fixture(scope="module")
def with_kafka(hosts: Hosts) -> Hosts:
    """Kafka on the first four hosts as its users install it: a folder with the version in its name,
    and a link to it."""
    jars = kept_jars(release_line("4.3.1").recipe("4.3.1"))
    for name in ("h1", "h2", "h3", "h4"):
        hosts.on(name, "mkdir", f"{HOME}_2.13-4.3.1")
        hosts.give(name, jars, f"{HOME}_2.13-4.3.1/libs")
        hosts.on(name, "ln", "-s", "kafka_2.13-4.3.1", HOME)
    return hosts


@pytest.fixture
def no_java_in_path(hosts: Hosts) -> Iterator[None]:
    for name in hosts.addresses:
        hosts.on(name, "mv", "/usr/bin/java", "/usr/bin/nojava")
    yield
    for name in hosts.addresses:
        hosts.on(name, "mv", "/usr/bin/nojava", "/usr/bin/java")


def installed(hosts: Hosts, *, home: str = HOME, java_home: str | None = None) -> Path:
    java = f'java_home = "{java_home}"\n' if java_home else ""
    return hosts.inventory(more=f'[systems.kafka]\ninstalled = true\nhome = "{home}"\n{java}')


def content(hosts: Hosts, name: str) -> str:
    """All of Kafka on a host: contents, names, modes and times."""
    hashes = f"find {HOME}/ -type f -exec sha256sum {{}} + | sort"
    times = f"find {HOME}/ -printf '%p %m %u %s %T@ %C@\\n' | sort"
    return hosts.on(name, "sh", "-c", f"{hashes}; {times}")


@pytest.mark.full
@pytest.mark.usefixtures("no_java_in_path")
def test_kafka_is_used_as_it_is_installed_and_stays_as_it_is(
    with_kafka: Hosts, before: object, tmp_path: Path
) -> None:
    hosts, out = with_kafka, tmp_path / "out"
    names = ["h1", "h2", "h3", "h4"]
    (plan := tmp_path / "plan.toml").write_text(KILL)
    kafka = {name: content(hosts, name) for name in names}
    assert all(text.count(".jar") > 50 for text in kafka.values())
    for name in names:
        hosts.on(name, "rm", "-rf", "/var/cache/ackloss")
    process = begun(out, str(plan), installed(hosts, java_home=JAVA_HOME))
    try:
        wait_for(lambda: fault_is_on(out), within_s=120)
        inside = "nsenter -t $(cut -d' ' -f1 /run/ackloss/holder) -m"
        for path in (f"{HOME}/new", f"{HOME}/libs/new", f"{HOME}_2.13-4.3.1/libs/new"):
            said = hosts.on("h1", "sh", "-c", f"{inside} touch {path}")
            assert "Read-only file system" in said, (path, said)
    finally:
        output, _ = process.communicate(timeout=240)
    found = result(out)
    assert (process.returncode, found["verdict"]) == (0, "valid"), output
    faults = found["faults"]
    assert isinstance(faults, list)
    assert all(fault["proven"] for fault in faults), faults
    assert {name: content(hosts, name) for name in names} == kafka
    assert all("No such" in hosts.on(name, "ls", "/var/cache/ackloss") for name in names)
    (metadata,) = out.glob("*/run.json")
    image = json.loads(metadata.read_text())["image"]["reference"]
    assert image == "kafka 4.3.1 as installed in /opt/kafka"


@pytest.mark.parametrize(
    ("paths", "version", "what"),
    [
        *budget.full_of(
            ({"home": "/opt/nothing"}, "4.3.1", "has no folder /opt/nothing/libs"),
            ({"home": "/opt/empty"}, "4.3.1", "has no kafka in /opt/empty/libs"),
        ),
        ({}, "3.9.2", "has kafka 4.3.1 in /opt/kafka, not 3.9.2"),
        *budget.full_of(({"java_home": "/opt/java"}, "4.3.1", "has no /opt/java/bin/java")),
    ],
    ids=["home", "empty", "version", "java"],
)
def test_what_is_not_installed_as_the_inventory_says_is_refused(
    with_kafka: Hosts,
    before: object,
    tmp_path: Path,
    paths: dict[str, str],
    version: str,
    what: str,
) -> None:
    for name in with_kafka.addresses:
        with_kafka.on(name, "mkdir", "-p", "/opt/empty/libs")
    (plan := tmp_path / "plan.toml").write_text(KILL.replace("4.3.1", version))
    inventory = installed(with_kafka, **paths)
    try:
        code, output = run(tmp_path / "out", str(plan), inventory)
    finally:
        for name in with_kafka.addresses:
            with_kafka.on(name, "rm", "-r", "/opt/empty")
    key = "java_home" if "java_home" in paths else "home"
    assert f"{inventory}: systems.kafka.{key}: h" in output, output
    assert what in output, output
    assert code == 5


def test_doctor_says_what_is_not_installed(with_kafka: Hosts, tmp_path: Path) -> None:
    found = {}
    for home in (HOME, "/opt/nothing"):
        inventory = installed(with_kafka, home=home, java_home=JAVA_HOME)
        checks = ackloss_json("doctor", "ssh", "--inventory", inventory)["findings"]
        found[home] = {c["name"]: (c["status"], c["detail"]) for c in checks}
    assert found[HOME]["h1: kafka"] == ("ok", "installed in /opt/kafka")
    assert found["/opt/nothing"]["h1: kafka"] == ("missing", "there is no /opt/nothing")


@pytest.mark.full
def test_a_host_takes_one_run_at_a_time_which_finds_what_it_finds_in_containers(
    hosts: Hosts, before: object, tmp_path: Path
) -> None:
    inventory = hosts.inventory()
    first, second = tmp_path / "first", tmp_path / "second"
    process = begun(first, "short-unclean", inventory)
    try:
        wait_for(lambda: "holder" in hosts.on("h1", "ls", "/run/ackloss"), within_s=120)
        code, output = run(second, "short-unclean", inventory)
    finally:
        process.communicate(timeout=240)
    assert (code, "is in use by the run" in output) == (5, True), output
    found = result(first)
    assert (process.returncode, found["verdict"]) == (1, "invalid")
    assert_proven(found)


@pytest.mark.full
def test_the_workers_of_a_campaign_are_two_inventories(
    hosts: Hosts, before: object, tmp_path: Path
) -> None:
    names = list(hosts.addresses)
    file, out = tmp_path / "campaign.toml", tmp_path / "out"
    file.write_text(CAMPAIGN)
    inventories = [hosts.inventory(names[:3]), hosts.inventory(names[3:])]
    given = [word for path in inventories for word in ("--inventory", str(path))]
    done = machine.apart("campaign", "run", file, "--out", out, *given, within_s=900)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = [json.loads(path.read_text()) for path in out.glob("runs/*/run.json")]
    addresses = [{node["address"] for node in run["nodes"]} for run in runs]
    assert len(runs) == 2
    assert not addresses[0] & addresses[1], "each worker has hosts of its own"
    verdicts = {json.loads(path.read_text())["verdict"] for path in out.glob("runs/*/result.json")}
    assert verdicts == {"valid"}


def _strange_key(hosts: Hosts) -> dict[str, str]:
    lines = hosts.known_hosts.read_text().splitlines()
    keys = [line.split() for line in lines]
    keys[0][2], keys[1][2] = keys[1][2], keys[0][2]
    path = hosts.folder / "strange"
    path.write_text("".join(f"{' '.join(words)}\n" for words in keys))
    return {"known_hosts": str(path)}


def _no_keys(hosts: Hosts) -> dict[str, str]:
    path = hosts.folder / "none"
    path.write_text("")
    return {"known_hosts": str(path)}


@pytest.mark.parametrize(
    ("of_all", "what"),
    [
        (_no_keys, "the host key of h"),
        (_strange_key, "has another host key than the one that is known"),
        (lambda _: {"user": "nobody-here"}, "does not let the user nobody-here in"),
        (lambda _: {"user": "plain"}, "plain may not become root by `sudo -n`"),
        (lambda _: {"key": "/nowhere/id"}, "cannot be read: No such file or directory"),
        (lambda _: {"port": "1"}, "does not answer"),
    ],
    ids=["unknown-key", "changed-key", "user", "sudo", "no-key", "port"],
)
def test_a_host_that_cannot_be_used_is_refused_in_one_sentence(
    hosts: Hosts,
    before: object,
    tmp_path: Path,
    of_all: Callable[[Hosts], dict[str, str]],
    what: str,
) -> None:
    given = of_all(hosts)
    inventory = hosts.inventory(**given)
    if "port" in given:
        inventory.write_text(inventory.read_text().replace('port = "1"', "port = 1"))
    code, output = run(tmp_path, "short-unclean", inventory)
    assert (code, what in output) == (5, True), output


@pytest.mark.parametrize(
    ("spoil", "repair", "what"),
    [
        ("mv /usr/bin/java /usr/bin/nojava", "mv /usr/bin/nojava /usr/bin/java", "has no java"),
        (
            "setsid nc -lk -p 9092 >/dev/null 2>&1 </dev/null & sleep 0.5",
            "kill $(pgrep -x nc)",
            "port 9092 is taken by nc (process",
        ),
        (
            "mkdir /var/lib/ackloss && mount -t tmpfs -o size=1m tmpfs /var/lib/ackloss",
            "umount /var/lib/ackloss; rmdir /var/lib/ackloss",
            "0.0 GiB are free on the disk of /var/lib/ackloss",
        ),
    ],
    ids=["java", "port-taken", "disk-full"],
)
def test_what_a_host_lacks_is_named_with_what_would_be_right(
    hosts: Hosts, before: object, tmp_path: Path, spoil: str, repair: str, what: str
) -> None:
    hosts.on("h2", "sh", "-c", spoil)
    try:
        code, output = run(tmp_path, "short-unclean", hosts.inventory())
    finally:
        hosts.on("h2", "sh", "-c", repair)
    assert (code, what in output) == (5, True), output
    assert "h2 (" in output
