"""What servers start with, by version and role, and which settings a plan may not touch."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import parse_plan
from harness.protocols import ImageRef, Ingredients, NodeSpec
from harness.run.resolving import resolve
from targets.zookeeper import ZooKeeper
from targets.zookeeper.configuration import RELEASES, ZooKeeperPlan, flags_of, names, release_of

MADE = Ingredients(image=ImageRef(reference="x", id=""))


def plan_of(version: str = "3.9.4", **sections: Any) -> ZooKeeperPlan:
    target = {"system": "zookeeper", "version": version, **sections.pop("target", {})}
    workload = {"name": "set", **sections.pop("workload", {})}
    document = {"schema": 1, "name": "x", "target": target, "workload": workload, **sections}
    plan = parse_plan(document)
    assert isinstance(plan, ZooKeeperPlan)
    return plan


def specs(plan: ZooKeeperPlan) -> dict[str, NodeSpec]:
    addresses = {name: f"198.18.0.{11 + n}" for n, name in enumerate(names(plan))}
    return {spec.name: spec for spec in ZooKeeper().nodes(plan, MADE, addresses)}


def config(spec: NodeSpec) -> dict[str, str]:
    lines = spec.files["zoo.cfg"].decode().splitlines()
    return dict(line.split("=", 1) for line in lines)


def test_servers_are_voters_and_observers_by_role() -> None:
    nodes = specs(plan_of(ensemble={"servers": 3, "observers": 1}))
    assert {name: set(spec.roles) for name, spec in nodes.items()} == {
        "z1": {"voter"},
        "z2": {"voter"},
        "z3": {"voter"},
        "o1": {"observer"},
    }
    assert nodes["o1"].files["data/myid"] == b"4"
    assert config(nodes["o1"])["peerType"] == "observer"
    assert "peerType" not in config(nodes["z1"])
    assert config(nodes["z2"])["server.4"] == "198.18.0.14:2888:3888:observer"
    assert nodes["z2"].files["addresses"].decode().splitlines()[3] == "o1 198.18.0.14"


def test_a_single_server_has_no_number_and_no_peers() -> None:
    (alone,) = specs(plan_of(ensemble={"servers": 1})).values()
    assert "data/myid" not in alone.files
    assert not [key for key in config(alone) if key.startswith("server.")]


def test_settings_stand_where_the_server_reads_them() -> None:
    plan = plan_of(
        ensemble={"forceSync": False, "tickTime": 700},
        target={"settings": {"maxSessionTimeout": 9000, "preAllocSize": 100}},
    )
    spec = specs(plan)["z1"]
    assert config(spec)["tickTime"] == "700"
    assert config(spec)["maxSessionTimeout"] == "9000"
    assert "preAllocSize" not in config(spec)
    flags = flags_of("\0".join(spec.argv))
    assert (flags["forceSync"], flags["preAllocSize"]) == ("no", "100")
    assert flags["4lw.commands.whitelist"] == "conf,mntr,ruok,srvr"


def test_servers_answer_the_words_of_the_plan_too() -> None:
    spec = specs(plan_of(ensemble={"four_letter_words": ["stat", "cons", "srvr"]}))["z1"]
    flags = flags_of("\0".join(spec.argv))
    assert flags["4lw.commands.whitelist"] == "conf,cons,mntr,ruok,srvr,stat"
    with pytest.raises(PlanError, match="use 'conf', 'cons'") as refused:
        plan_of(ensemble={"four_letter_words": ["stmk"]})
    assert refused.value.key == "ensemble.four_letter_words.0"


@pytest.mark.parametrize(
    "key", ["dataDir", "server.1", "clientPort", "ssl.quorum.trustStore.password", "superDigest"]
)
def test_what_ackloss_sets_is_refused(key: str) -> None:
    with pytest.raises(PlanError, match="this setting is refused") as refused:
        resolve(plan_of(target={"settings": {key: "x"}}))
    assert refused.value.key == f'target.settings."{key}"'


def test_what_has_a_key_of_its_own_is_set_there() -> None:
    with pytest.raises(PlanError, match="its own key") as refused:
        resolve(plan_of(target={"settings": {"tickTime": 500}}))
    assert refused.value.hint == "set ensemble.tickTime"
    assert resolve(plan_of(ensemble={"tickTime": 600}))


@pytest.mark.parametrize(
    ("target", "key"),
    [
        ({"version": "3.3.4"}, "target.version"),
        ({"version": "4.0.0"}, "target.version"),
        ({"version": None}, "target.version"),
        ({"version": None, "image": "zookeeper:3.9"}, "target.image"),
    ],
)
def test_what_cannot_run_is_refused(target: dict[str, Any], key: str) -> None:
    with pytest.raises(PlanError) as refused:
        resolve(plan_of(target=target))
    assert refused.value.key == key


@pytest.mark.parametrize("version", ["3.4.14", "3.5.9", "3.6.4", "3.8.4", "3.9.3", "3.9.4"])
def test_each_version_has_one_row_and_one_logging_binding(version: str) -> None:
    recipe = release_of(version).recipe(version)
    assert f"org.apache.zookeeper:zookeeper:{version}" in recipe.jars
    assert sum("slf4j-" in jar for jar in recipe.jars) == 1
    assert recipe.reference("base").startswith(f"ackloss/zookeeper:{version}-")


def test_only_3_4_has_no_reconfig() -> None:
    assert [release.reconfig for release in RELEASES] == [False, True, True, True]


def test_observers_need_an_ensemble() -> None:
    with pytest.raises(PlanError, match="observers need an ensemble"):
        plan_of(ensemble={"servers": 1, "observers": 1})


def test_a_single_server_has_no_limits_of_an_ensemble() -> None:
    assert "syncLimit" not in ZooKeeper().wanted(plan_of(ensemble={"servers": 1}))
    assert ZooKeeper().wanted(plan_of())["syncLimit"] == 6


def test_a_plan_that_probably_means_something_else_is_warned_of() -> None:
    target = resolve(plan_of()).target
    assert target.warnings(plan_of()) == []  # type: ignore[attr-defined]
    load = {"processes": 20, "clients": 4, "session_ms": 500}
    processes, session = target.warnings(plan_of(workload=load))  # type: ignore[attr-defined]
    assert processes.startswith("workload.processes: 20 processes share 4 clients")
    assert session.startswith("workload.session_ms: servers grant 2 to 20 ticks")
