"""The file that names a compose project, and the compose file that it names: what is refused when
they are read, with file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clusters.compose import Compose
from harness.clusters.compose.file import Named, read_named
from harness.errors import PlanError
from harness.run.resolving import cluster_provider

COMPOSE = """
services:
  server-1: { image: x, ports: !override ["9092:9092"] }
  server-2: { image: x }
  on-host: { image: x, network_mode: host }
  beside: { image: x, network_mode: "service:server-1" }
"""
HEAD = 'kind = "compose"\nfile = "docker-compose.yml"\nbootstrap = ["127.0.0.1:9092"]\n'
SERVICES = "[services]\nserver-1 = { node = 1 }\nserver-2 = {}\n"


def read(tmp_path: Path, text: str = HEAD + SERVICES, compose: str = COMPOSE) -> Named:
    folder = tmp_path / "My_Shop.x"
    folder.mkdir()
    (folder / "docker-compose.yml").write_text(compose)
    (folder / "cluster.toml").write_text(text)
    return read_named(folder / "cluster.toml")


@pytest.fixture(autouse=True)
def _no_project_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COMPOSE_PROJECT_NAME", raising=False)


def test_a_project_is_named_as_compose_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = read(tmp_path)
    assert named.project == "my_shopx"
    assert named.compose == tmp_path / "My_Shop.x" / "docker-compose.yml"
    assert named.content.services["server-1"].node == 1
    assert not named.content.start
    for folder, given, compose, name in (
        ("a", "", "name: shop\n" + COMPOSE, "shop"),
        ("b", 'project = "given"\n', "name: shop\n" + COMPOSE, "given"),
    ):
        (tmp_path / folder).mkdir()
        assert read(tmp_path / folder, HEAD + given + SERVICES, compose).project == name
    monkeypatch.setenv("COMPOSE_PROJECT_NAME", "of-environment")
    (tmp_path / "c").mkdir()
    assert read(tmp_path / "c").project == "of-environment"


@pytest.mark.parametrize(
    ("text", "key", "what"),
    [
        (HEAD, "services", "is missing"),
        (HEAD + "[services]\n", "services", "is not allowed"),
        (HEAD + "[services]\nserver-3 = {}\n", "services.server-3", "did you mean 'server-"),
        (HEAD + "[services]\nshop = {}\n", "services.shop", "it has: server-1, server-2, on-host"),
        (HEAD + "[services]\non-host = {}\n", "services.on-host", "the network of this machine"),
        (HEAD + "[services]\nbeside = {}\n", "services.beside", "shares the network of another"),
        (HEAD + "[services]\nserver-1 = { nod = 1 }\n", "services.server-1.nod", "unknown key"),
        (HEAD + "[services]\nserver-1 = { node = -1 }\n", "services.server-1.node", "-1"),
        (
            HEAD + "[services]\nserver-1 = { node = 0 }\nserver-2 = { node = 0 }\n",
            "services.server-1.node",
            "the number 0 is given to several services",
        ),
        (HEAD + 'project = "A B"\n' + SERVICES, "project", "'A B' is not allowed"),
        (HEAD.replace("docker-compose", "other") + SERVICES, "file", "cannot be read: No such"),
        (HEAD.replace('bootstrap = ["127.0.0.1:9092"]\n', "") + SERVICES, "bootstrap", "missing"),
        (HEAD + SERVICES + '[client]\n"sasl.password" = ["pw"]', 'client."sasl.password"', "is"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, text: str, key: str, what: str) -> None:
    with pytest.raises(PlanError) as refused:
        read(tmp_path, text)
    assert what in str(refused.value)
    assert refused.value.key == key
    assert refused.value.file == str(tmp_path / "My_Shop.x" / "cluster.toml")


@pytest.mark.parametrize(
    ("compose", "what"),
    [
        ("services: [", "it is not YAML, line 1"),
        ("a: 1", "it has no section `services`"),
        ("- 1", "it has no section `services`"),
        ("services: []", "it has no section `services`"),
        ("", "it has no section `services`"),
        ("\x00", "it is not YAML"),
    ],
)
def test_a_compose_file_that_is_none_is_one_sentence(
    tmp_path: Path, compose: str, what: str
) -> None:
    with pytest.raises(PlanError) as refused:
        read(tmp_path, compose=compose)
    assert what in str(refused.value)
    assert "docker-compose.yml is not a compose file" in str(refused.value)
    assert (refused.value.key, refused.value.exit_code) == ("file", 4)


def test_services_of_files_that_are_included_are_for_docker_to_know(tmp_path: Path) -> None:
    assert read(tmp_path, compose="include: [other.yml]\n").content.services


def test_the_kind_decides_what_the_file_is(tmp_path: Path) -> None:
    read(tmp_path)
    file = tmp_path / "My_Shop.x" / "cluster.toml"
    provider = cluster_provider(file)
    assert isinstance(provider, Compose)
    assert provider.content is not None
    for kind, what in (("compsoe", "did you mean 'compose'"), ("moon", "compose, external")):
        file.write_text(HEAD.replace('"compose"', f'"{kind}"', 1) + SERVICES)
        with pytest.raises(PlanError, match=what) as refused:
            cluster_provider(file)
        assert refused.value.key == "kind"
    file.write_text('bootstrap = ["a:1"]')
    with pytest.raises(PlanError, match="is missing"):
        cluster_provider(file)
