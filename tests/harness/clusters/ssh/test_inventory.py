"""Inventories: what is read from one, and one sentence for each that cannot be used."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from harness import registry
from harness.clusters.ssh.equipment import installation
from harness.clusters.ssh.host import hosts_of
from harness.clusters.ssh.inventory import read_inventory
from harness.errors import EnvironmentFailure, PlanError
from harness.plan import Plan, parse_plan
from harness.protocols import (
    Distribution,
    ImageRef,
    Ingredients,
    Order,
    Provider,
)
from harness.run.resolving import resolve

THREE = """
[defaults]
user = "lab"
key = "keys/id"
known_hosts = "known"

[jumps.gate]
address = "gate.example"
port = 2222

[[hosts]]
name = "h1"
address = "10.0.0.1"
jump = "gate"

[[hosts]]
name = "h2"
address = "10.0.0.2"
user = "root"
roles = ["controller"]

[[hosts]]
name = "h3"
address = "10.0.0.3"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "hosts.toml"
    path.write_text(text, encoding="utf-8")
    return path


def provider(path: Path) -> Provider:
    kind = registry.make("clusters", "ssh", {}, key="k")
    assert isinstance(kind, Provider)
    return kind.with_file(path)


def order(**target: object) -> Order:
    document = {
        "schema": 1,
        "name": "p",
        "cluster": {"kind": "ssh"},
        "target": {"version": "4.3.1", **target},
        "topic": {"replication_factor": 1},
    }
    return resolve(parse_plan(document)).order


def test_defaults_hold_for_hosts_and_jump_hosts_and_paths_are_beside_the_file(
    tmp_path: Path,
) -> None:
    inventory = read_inventory(write(tmp_path, THREE))
    first, second, _ = inventory.hosts
    assert (first.user, second.user, inventory.jumps["gate"].user) == ("lab", "root", "lab")
    assert first.key == tmp_path / "keys" / "id"
    assert first.known_hosts == inventory.jumps["gate"].known_hosts == tmp_path / "known"
    assert (first.port, inventory.jumps["gate"].port) == (22, 2222)


@pytest.mark.parametrize(
    ("text", "key", "what"),
    [
        ("hosts = [", None, "cannot be read"),
        ("", "hosts", "is missing"),
        ('[[hosts]]\nname = "h1"', "hosts.0.address", "is missing"),
        ('[[hosts]]\nname = "h1"\naddress = "10.0.0.1"\nprot = 22', "hosts.0.prot", "'port'"),
        ('[[hosts]]\nname = "h1"\naddress = "-oProxyCommand=x"', "hosts.0.address", "must match"),
        (
            THREE + '[[hosts]]\nname = "h4"\naddress = "10.0.0.1"\njump = "gate"',
            "hosts.3.address",
            "an earlier",
        ),
        (THREE + 'jump = "gaet"', "hosts.2.jump", "'gaet' is neither [user@]address[:port] nor"),
        (THREE + 'jump = "a.example,b.example"', "hosts.2.jump", "one hop is possible"),
        (THREE + 'jump = "10.0.0.3"', "hosts.2.jump", 'jump = "none" is direct'),
        (THREE + 'jump = "-x@b.example"', 'jumps."-x@b.example".user', "must match"),
        (THREE + 'jump = "b.example:70000"', 'jumps."b.example:70000".port', "use 65535 or less"),
        (THREE + '[[hosts]]\nname = "h3"\naddress = "b"', "hosts.3.name", "an earlier host"),
        (THREE + '[[hosts]]\nname = "h4"\naddress = "10.0.0.3"', "hosts.3.address", "an earlier"),
        (
            THREE + '[systems.kafka]\ninstalled = true\nhome = "opt/kafka"',
            "systems.kafka.home",
            "is not an absolute path",
        ),
        (
            THREE + '[systems.kafka]\ninstalled = true\nhome = "/k"\njava_home = "/x/../y"',
            "systems.kafka.java_home",
            "is not an absolute path",
        ),
    ],
)
def test_an_inventory_that_cannot_be_used_is_refused_with_its_key(
    tmp_path: Path, text: str, key: str | None, what: str
) -> None:
    path = write(tmp_path, text)
    with pytest.raises(PlanError) as refused:
        read_inventory(path)
    assert refused.value.file == str(path)
    assert key is None or refused.value.key == key
    assert what in str(refused.value)


@pytest.mark.parametrize(
    ("jump", "user", "place"),
    [
        ("admin@bastion.example:2222", "admin", "bastion.example:2222"),
        ("10.9.9.9", "lab", "10.9.9.9:22"),
        ("bastion", "lab", "bastion:22"),
    ],
)
def test_a_jump_host_is_named_as_by_proxyjump(
    tmp_path: Path, jump: str, user: str, place: str
) -> None:
    """By default for all hosts; its key and known_hosts are the defaults', too."""
    text = THREE.replace('[jumps.gate]\naddress = "gate.example"\nport = 2222\n', "")
    text = text.replace('jump = "gate"\n', 'jump = "none"\n')
    text = text.replace("[defaults]", f'[defaults]\njump = "{jump}"')
    inventory = read_inventory(write(tmp_path, text))
    first, *others = inventory.hosts
    assert first.jump is None
    (gate,) = {inventory.jumps[host.jump or ""] for host in others}
    assert (gate.user, gate.place) == (user, place)
    assert (gate.key, gate.known_hosts) == (tmp_path / "keys/id", tmp_path / "known")


def test_hosts_behind_one_jump_host_share_a_connection_to_it(tmp_path: Path) -> None:
    inventory = read_inventory(write(tmp_path, THREE + 'jump = "gate"\n'))
    first, second, third = hosts_of(inventory)
    assert first.connection.jump is third.connection.jump is not None
    assert second.connection.jump is None


THROUGH_H2 = THREE.replace("[jumps.gate]", "[jumps.unused]").replace('"gate"', '"10.0.0.2"')
"""The host of the controller is the jump host of h1, which has b1."""


@pytest.mark.parametrize(
    ("fault", "key"),
    [
        ({"nemesis": "partition", "nodes": "all"}, "faults.f.nodes"),
        ({"nemesis": "partition", "nodes": "controller"}, "faults.f.nodes"),
        ({"nemesis": "partition", "nodes": "node:b1"}, "faults.f.peers"),
        ({"nemesis": "lossy", "nodes": "node:c1", "rate_kbit": 64}, "faults.f.nodes"),
        ({"nemesis": "partition", "nodes": "leader(0) & role:broker", "peers": "node:b2"}, None),
        ({"nemesis": "lossy", "nodes": "role:broker", "rate_kbit": 64}, None),
        ({"nemesis": "kill", "nodes": "all"}, None),
    ],
)
def test_a_fault_of_the_network_of_a_jump_host_is_refused(
    tmp_path: Path, fault: dict[str, object], key: str | None
) -> None:
    plan = cut_of("all")
    document = plan.model_dump(mode="json", exclude_none=True)
    document["faults"] = [{"id": "f", "at_s": 1, **fault}]
    plan, hosts = parse_plan(document), write(tmp_path, THROUGH_H2)
    if key is None:
        resolve(plan, inventory=hosts)
        return
    with pytest.raises(PlanError, match="may be c1, whose host is the jump host of others") as why:
        resolve(plan, inventory=hosts)
    assert why.value.key == key
    resolve(plan, inventory=write(tmp_path, THREE))


def test_a_jump_host_that_takes_no_node_of_the_plan_is_as_any_other(tmp_path: Path) -> None:
    fourth = '[[hosts]]\nname = "h4"\naddress = "10.0.0.4"\n'
    spare = THREE.replace('"gate"', '"10.0.0.4"').replace("[jumps.gate]", "[jumps.unused]")
    resolve(cut_of("all"), inventory=write(tmp_path, spare + fourth))


def test_each_node_has_a_host_that_takes_its_role(tmp_path: Path) -> None:
    """The controller takes the host that takes only controllers, though it is not the first."""
    outline = provider(write(tmp_path, THREE)).outline(order(brokers=2, controllers=1))
    assert {node.name: node.address for node in outline} == {
        "b1": "10.0.0.1",
        "b2": "10.0.0.3",
        "c1": "10.0.0.2",
    }


def test_too_few_hosts_are_refused(tmp_path: Path) -> None:
    hosts = provider(write(tmp_path, THREE))
    with pytest.raises(EnvironmentFailure, match=r"has 4 nodes .* but the inventory has 3 hosts"):
        hosts.require(order(brokers=3, controllers=1))
    hosts.require(order(brokers=2, controllers=1))
    only = THREE + 'roles = ["controller"]\n'
    with pytest.raises(EnvironmentFailure, match=r"no host is left for b2 \(broker\)"):
        provider(write(tmp_path, only)).require(order(brokers=2, controllers=1))


INSTALLED = THREE + '[systems.kafka]\ninstalled = true\nhome = "/opt/kafka"\n'
MADE = Ingredients(
    image=ImageRef(reference="jars", id="", version="4.3.1"),
    distribution=Distribution(folder="libs", inside="/opt/kafka/libs", named=r"k-([0-9.]+)\.jar"),
)


def test_the_inventory_in_the_documentation_can_be_read(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs/how-to/ssh.md").read_text(encoding="utf-8")
    whole, named, *_ = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    inventory = read_inventory(write(tmp_path, whole))
    assert inventory.systems["kafka"].home == "/opt/kafka"
    assert inventory.jumps["lab@gate.example:22"].place == "gate.example:22"
    host = '[[hosts]]\nname = "h1"\naddress = "10.0.0.1"\njump = "gate"\n'
    assert read_inventory(write(tmp_path, host + named)).jumps["gate"].user == "admin"


def test_a_system_that_there_is_not_cannot_be_installed(tmp_path: Path) -> None:
    path = write(tmp_path, INSTALLED.replace("systems.kafka", "systems.kafak"))
    with pytest.raises(PlanError, match="did you mean 'kafka'") as refused:
        provider(path)
    assert (refused.value.key, refused.value.file) == ("systems.kafak", str(path))


def test_what_lies_in_no_known_way_is_not_used_as_it_is_installed(tmp_path: Path) -> None:
    path = write(tmp_path, INSTALLED)
    inventory = read_inventory(path)
    found = installation(inventory, path, "kafka", MADE)
    assert found is not None
    assert found.places == [("/opt/kafka", "/opt/kafka"), ("/opt/kafka/libs", "/opt/kafka/libs")]
    assert installation(inventory, path, "zookeeper", MADE) is None
    with pytest.raises(PlanError, match=r"kafka 4\.3\.1 cannot be used as it is installed") as why:
        installation(inventory, path, "kafka", replace(MADE, distribution=None))
    assert (why.value.key, why.value.file) == ("systems.kafka", str(path))
    off = read_inventory(write(tmp_path, INSTALLED.replace("= true", "= false")))
    assert installation(off, path, "kafka", MADE) is None


def cut_of(nodes: str) -> Plan:
    """Of a plan for hosts; its cluster has the nodes b1, b2 and c1."""
    return parse_plan(
        {
            "schema": 1,
            "name": "p",
            "cluster": {"kind": "ssh"},
            "target": {"version": "4.3.1", "brokers": 2, "controllers": 1},
            "topic": {"replication_factor": 2},
            "faults": [{"id": "cut", "at_s": 1, "nemesis": "partition", "nodes": nodes}],
        }
    )


def test_nodes_that_a_step_names_are_those_on_the_hosts(tmp_path: Path) -> None:
    hosts = write(tmp_path, THREE)
    for nodes in ("node:b2", "role:broker"):
        resolve(cut_of(nodes), inventory=hosts)
    with pytest.raises(PlanError, match="'node:b3' names no node of this cluster"):
        resolve(cut_of("node:b3"), inventory=hosts)
    resolve(cut_of("node:b3"))  # whose nodes nobody knows without hosts


def test_a_plan_alone_names_no_hosts() -> None:
    with pytest.raises(PlanError, match="--inventory FILE"):
        registry.make("clusters", "ssh", {}, key="k").require(order())
    with pytest.raises(PlanError, match="has no option 'inventory'"):
        resolve(
            parse_plan(
                {
                    "schema": 1,
                    "name": "p",
                    "cluster": {"kind": "ssh", "inventory": "/etc/passwd"},
                    "target": {"version": "4.3.1"},
                }
            )
        )
