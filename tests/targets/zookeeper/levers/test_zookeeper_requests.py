"""What plans may ask of faults of ZooKeeper's requests, and that its names are ZooKeeper's own."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

from harness.errors import PlanError
from harness.images import java
from harness.protocols import ImageRef, Ingredients
from harness.run.resolving import resolve
from targets.zookeeper import ZooKeeper, clients
from targets.zookeeper.configuration import DEFAULT_VERSION, release_of
from targets.zookeeper.levers import APIS, CODES, SINCE, with_proxies
from tests.targets.zookeeper.test_layout import plan_of, specs

NOT_NAMED = {"notification", "check", "deleteContainer", "auth", "sasl", "error"}
"""Types that only servers make, that come only within a multi, or that pass unmet."""
TABLES = """
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooDefs;
public class Tables {
    public static void main(String[] words) throws Exception {
        for (var each : ZooDefs.OpCode.class.getFields()) {
            System.out.println("api " + each.getName() + " " + each.getInt(null));
        }
        for (var each : KeeperException.Code.values()) {
            try {
                String name = KeeperException.create(each).getClass().getSimpleName();
                System.out.println("code " + name.replace("Exception", "") + " " + each.intValue());
            } catch (IllegalArgumentException none) {
                // it is one of no exception
            }
        }
    }
}
"""


def faulty(version: str = "3.9.4", **options: Any) -> Any:
    step = {"id": "x", "nemesis": "protocol", "nodes": "all", **options}
    return plan_of(version, faults=[step])


@pytest.mark.parametrize(
    ("version", "options", "key", "why"),
    [
        ("3.9.4", {"api": "Create"}, "api", "no request 'Create'; did you mean 'create'"),
        ("3.9.4", {"api": ["create", "Produce"]}, "api", "no request 'Produce'"),
        ("3.9.4", {"api": "auth"}, "api", "no request 'auth'"),
        ("3.4.14", {"api": "create2"}, "api", "3.4.14 does not have the request create2"),
        ("3.5.10", {"api": "addWatch"}, "api", "there from 3.6 on"),
        ("3.9.4", {"act": "duplicate"}, "act", "ZooKeeper has no request twice"),
        ("3.9.4", {"topic": "t"}, "topic", "ZooKeeper has no topics; name a path"),
        ("3.9.4", {"client_id": "c"}, "client_id", "do not name their client"),
        (
            "3.9.4",
            {"api": "create", "act": "error", "code": "NODEEXIST"},
            "code",
            "no error 'NODEEXIST'; did you mean 'NodeExists'",
        ),
        ("3.9.4", {"act": "error", "code": "NoNode"}, "code", "name the api"),
        (
            "3.9.4",
            {"api": "createSession", "act": "error", "code": "SessionExpired"},
            "code",
            "carries no error",
        ),
    ],
)
def test_what_zookeeper_cannot_carry_is_refused(
    version: str, options: dict[str, Any], key: str, why: str
) -> None:
    with pytest.raises(PlanError) as refused:
        resolve(faulty(version, **options))
    assert refused.value.key == f"faults.x.{key}"
    assert why in str(refused.value)
    assert refused.value.exit_code == 4


@pytest.mark.parametrize(
    ("version", "options"),
    [
        ("3.9.4", {}),
        ("3.4.14", {"api": ["create", "setData"], "path": "/ackloss"}),
        ("3.5.10", {"api": "create2"}),
        ("3.9.4", {"api": "whoAmI", "act": "count"}),
        ("3.9.4", {"api": "create", "act": "error", "code": "OperationTimeout"}),
        ("3.9.4", {"api": "create", "act": "delay", "side": "request", "delay_ms": 100}),
    ],
)
def test_what_it_carries_is_taken(version: str, options: dict[str, Any]) -> None:
    assert resolve(faulty(version, **options)).steps


def test_a_proxy_stands_beside_every_server_and_only_where_a_plan_needs_it() -> None:
    plan, image = faulty(), ImageRef(reference="x", id="")
    made = Ingredients(image=image, files={"proxy.jar": b"jar"})
    bare = list(specs(plan_of()).values())
    assert with_proxies(bare, plan_of(), made) == bare
    for spec in with_proxies(bare, plan, made):
        assert list(spec.beside[-4:]) == [
            "Proxy",
            "/var/lib/ackloss/proxy",
            "ZooKeeperWire",
            "12181:127.0.0.1:2181",
        ]
        assert spec.files["proxy/proxy.jar"] == b"jar"


@pytest.mark.java
def test_names_and_numbers_are_those_of_zookeepers_own_classes(tmp_path: Path) -> None:
    jars = java.kept_jars(release_of(DEFAULT_VERSION).recipe(DEFAULT_VERSION))
    (tmp_path / "Tables.java").write_text(TABLES)
    done = subprocess.run(
        ["java", "-cp", f"{jars}/*", str(tmp_path / "Tables.java")],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    lines = [line.split() for line in done.stdout.splitlines() if line.count(" ") == 2]
    types = {name: int(number) for kind, name, number in lines if kind == "api"}
    codes = {name: int(number) for kind, name, number in lines if kind == "code"}
    assert {name: types[name] for name in types if name not in NOT_NAMED} == APIS
    assert {name: codes[name] for name in codes if name != "APIError"} == CODES
    assert SINCE.keys() <= APIS.keys()


def test_errors_are_called_as_histories_call_them() -> None:
    said = {**clients.REFUSED, **clients.UNPROVEN}
    by_code = {code: name for name, code in CODES.items()}
    assert {code: why.partition(":")[0] for code, why in said.items()} == {
        code: by_code[code] for code in said
    }


@pytest.mark.java
def test_hosts_get_a_proxy_that_this_machine_compiled(tmp_path: Path) -> None:
    assert ZooKeeper().for_hosts(plan_of(), print).files == {}
    made = ZooKeeper().for_hosts(faulty(), print)
    jar = tmp_path / "proxy.jar"
    jar.write_bytes(made.files["proxy.jar"])
    names = set(zipfile.ZipFile(jar).namelist())
    assert {"Proxy.class", "Connection.class", "ZooKeeperWire.class"} <= names
