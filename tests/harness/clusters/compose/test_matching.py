"""Which container is which node: never a guess."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.clusters.compose.cluster import Container, matched, shared_network
from harness.clusters.compose.file import ComposeFile, Named
from harness.clusters.compose.node import instant
from harness.errors import AcklossError, EnvironmentFailure
from harness.protocols import Member


def named(**services: dict[str, Any]) -> Named:
    content = ComposeFile.model_validate(
        {
            "kind": "compose",
            "file": "c.yml",
            "bootstrap": ["127.0.0.1:1"],
            "services": {name.replace("_", "-"): each for name, each in services.items()},
        }
    )
    return Named(file=Path("x.toml"), compose=Path("c.yml"), project="p", content=content)


def container(service: str, *ports: int, **more: Any) -> Container:
    given: dict[str, Any] = {
        "id": f"id-{service}",
        "service": service,
        "names": frozenset({service, f"p-{service}-1"}),
        "addresses": {"p_default": f"198.18.0.{len(service)}"},
        "six": frozenset(),
        "published": frozenset(ports),
        "limited_memory": True,
        "removed_at_end": False,
        **more,
    }
    return Container(**given)


def member(number: int, address: str) -> Member:
    roles = frozenset({"broker"})
    return Member(name=f"b{number}", roles=roles, address=address, number=number)


ONE, TWO = container("k-1", 1001), container("k-22", 1002)
BOTH = {"k-1": ONE, "k-22": TWO}
MEMBERS = [member(1, "127.0.0.1:1001"), member(2, "127.0.0.1:1002")]


@pytest.mark.parametrize(
    ("addresses", "numbers", "services"),
    [
        (("127.0.0.1:1001", "localhost:1002"), (None, 2), ["k-1", "k-22"]),
        (("k-1:9092", "p-k-22-1:9092"), (None, 2), ["k-1", "k-22"]),
        (("198.18.0.3:9092", "198.18.0.4:9092"), (None, 2), ["k-1", "k-22"]),
        (("box.example.com:1001", "[::1]:1002"), (None, 2), ["k-1", "k-22"]),
        (("lb.example.com:9092", "lb.example.com:9093"), (2, 1), ["k-22", "k-1"]),
    ],
)
def test_a_container_is_found_by_the_address_for_clients_or_else_by_its_number(
    addresses: tuple[str, str], numbers: tuple[int | None, int], services: list[str]
) -> None:
    members = [member(n, address) for n, address in enumerate(addresses, 1)]
    one, other = ({"node": number} if number else {} for number in numbers)
    nodes = matched(named(k_1=one, k_22=other), BOTH, members)
    assert [node.name for node in nodes] == ["b1", "b2"]
    assert [node.container.service for node in nodes] == services


def test_further_services_are_nodes_with_the_roles_of_the_file() -> None:
    more = {**BOTH, "My_Quorum": container("My_Quorum")}
    file = named(k_1={"roles": ["first"]}, k_22={})
    services = {**file.content.services}
    services["My_Quorum"] = type(services["k-1"])(roles=["controller"])
    file = Named(
        file=file.file,
        compose=file.compose,
        project="p",
        content=file.content.model_copy(update={"services": services}),
    )
    nodes = matched(file, more, MEMBERS)
    assert [(node.name, sorted(node.roles)) for node in nodes] == [
        ("b1", ["broker", "first"]),
        ("b2", ["broker"]),
        ("my-quorum", ["controller"]),
    ]


@pytest.mark.parametrize(
    ("services", "members", "key", "what"),
    [
        (
            {"k_1": {"node": 2}, "k_22": {}},
            MEMBERS,
            "services.k-1.node",
            "is 2, but b1 is at 127.0.0.1:1001, which is k-1",
        ),
        (
            {"k_1": {"node": 2}, "k_22": {}},
            MEMBERS[1:],
            "services.k-1.node",
            "is 2, but b2 is at 127.0.0.1:1002, which is k-22",
        ),
        ({"k_1": {}}, MEMBERS, "services", "which container is b2 is not certain"),
        (
            {"k_1": {}, "k_22": {}},
            [member(1, "lb:9")],
            "services",
            "which container is b1 is not certain: its address, lb:9, is not one of the services",
        ),
        ({"k_1": {}, "k_22": {}}, MEMBERS[:1], "services.k-22", "no node of the system is in"),
        (
            {"k_1": {}, "k_22": {"roles": ["broker"]}},
            MEMBERS[:1],
            "services.k-22",
            "no node of the system is in the service k-22: it names b1 at 127.0.0.1:1001",
        ),
        (
            {"k_1": {}, "k_22": {}},
            [member(1, "k-1:1"), member(2, "k-1:2")],
            "services.k-1",
            "b1 and b2 have the same address",
        ),
    ],
)
def test_what_is_not_certain_is_refused(
    services: dict[str, Any], members: list[Member], key: str, what: str
) -> None:
    file = named(**services)
    there = {name: each for name, each in BOTH.items() if name in file.content.services}
    with pytest.raises(AcklossError) as refused:
        matched(file, there, members)
    assert what in str(refused.value)
    assert refused.value.key == key
    assert refused.value.exit_code in (4, 5)


def test_a_cut_that_would_leave_a_way_is_refused() -> None:
    file = named(k_1={}, k_22={})
    network, limits = shared_network(file, [ONE, TWO])
    assert network == "p_default"
    assert not limits["id-k-1"]
    two = {"a": "198.18.0.1", "b": "198.18.1.1"}
    _, limits = shared_network(file, [container("x", addresses=two), container("y", addresses=two)])
    assert "several networks (a, b)" in limits["id-x"]["cut"]
    assert limits["id-x"]["shape"]
    own = {"a": "198.18.0.1", "c": "198.18.1.1"}
    _, limits = shared_network(file, [container("x", addresses=own), container("y", addresses=two)])
    assert "cut" not in limits["id-x"]  # its second network is no way to the other
    six = container("x", six=frozenset({"p_default"}))
    _, limits = shared_network(file, [six, TWO])
    assert "IPv6" in limits["id-x"]["cut"]
    free = container("x", limited_memory=False, removed_at_end=True)
    _, limits = shared_network(file, [free, TWO])
    assert limits["id-x"]["memory"]
    assert limits["id-x"]["kill"]
    with pytest.raises(EnvironmentFailure, match="share no network"):
        shared_network(file, [ONE, container("y", addresses={"z": "198.18.9.9"})])


def test_instants_of_docker_are_compared_whatever_their_digits() -> None:
    early, late = "2026-11-23T08:10:51.12Z", "2026-11-23T08:10:51.123Z"
    assert instant(early) < instant(late) < instant("2026-11-23T08:10:52Z")
    assert instant("2026-11-23T08:10:51Z") < instant(early)
