"""How a pod is created: the rights of its two containers and the order of their start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.clusters.docker.cluster import DockerCluster
from harness.images.daemon import LABEL, RUN_LABEL
from harness.protocols import NodeSpec


@dataclass
class Api:
    """Docker's API, which only notes its calls."""

    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    volumes: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)

    def create_container(self, image: str, **options: Any) -> dict[str, str]:
        self.containers[options["name"]] = {"image": image, **options}
        return {"Id": options["name"]}

    def create_host_config(self, **options: Any) -> dict[str, Any]:
        return options

    create_networking_config = create_endpoint_config = staticmethod(
        lambda *addresses, **named: addresses or named
    )

    def create_volume(self, name: str, **options: Any) -> None:
        self.volumes[name] = options

    def start(self, container: str) -> None:
        self.calls.append(("start", container))

    def put_archive(self, container: str, _folder: str, _files: bytes) -> None:
        self.calls.append(("files", container))

    def inspect_container(self, container: str) -> dict[str, Any]:
        return {"State": {"Pid": len(container)}}


@dataclass
class Client:
    api: Api


def started(**how: Any) -> tuple[Api, DockerCluster]:
    api = Api()
    cluster = DockerCluster("run", Client(api), "infra-image", network="net")  # type: ignore[arg-type]
    spec = NodeSpec(name="b1", roles=frozenset({"broker"}), argv=("run",), memory_mb=512, **how)
    cluster.start_pods([spec], "target-image", {"b1": "198.18.0.10"})
    return api, cluster


def test_only_the_infrastructure_container_has_capabilities() -> None:
    api, _ = started()
    infra, target = api.containers.values()
    assert (infra["image"], target["image"]) == ("infra-image", "target-image")
    for container in (infra, target):
        assert container["host_config"]["cap_drop"] == ["ALL"]
        assert container["host_config"]["security_opt"] == ["no-new-privileges"]
        assert container["labels"] == {LABEL: "1", RUN_LABEL: "run"}
    assert "NET_ADMIN" in infra["host_config"]["cap_add"]
    assert not target["host_config"]["cap_add"]
    *_, target = started(changes_user=True)[0].containers.values()
    assert target["host_config"]["cap_add"] == ["chown", "setuid", "setgid"]
    for namespace in ("network_mode", "pid_mode"):
        assert target["host_config"][namespace] == "container:ackloss-run-b1-infra"


def test_what_a_bounded_disk_holds_is_charged_to_both_containers() -> None:
    api, _ = started(data_mb=128)
    limits = [each["host_config"]["mem_limit"] for each in api.containers.values()]
    assert limits == ["192m", "640m"]
    assert len(api.volumes) == 2
    assert [each["host_config"]["mem_limit"] for each in started()[0].containers.values()] == [
        "64m",
        "512m",
    ]
