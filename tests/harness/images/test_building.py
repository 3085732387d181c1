"""Node images are built once on this machine; an error shows why one cannot be built."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import EnvironmentFailure
from harness.images import building
from harness.images.daemon import connect, one_off
from harness.images.recipe import Recipe
from harness.machine.state import user_config

pytestmark = pytest.mark.docker

# The process id in its name keeps concurrent test runs on this machine apart.
TINY = Recipe(name=f"test-tiny-{os.getpid()}", packages=("hostname",))


@pytest.fixture
def tiny() -> Iterator[Recipe]:
    """A recipe that is not built yet; its image is removed afterwards."""
    reference = TINY.reference(building.base_reference())
    _remove(reference)
    yield TINY
    _remove(reference)


def _remove(reference: str) -> None:
    if building.find(reference) is not None:
        connect().images.remove(reference)


def test_two_builds_of_the_same_image_at_once_build_it_once(tiny: Recipe) -> None:
    lines: list[str] = []
    with ThreadPoolExecutor() as pool:
        first, second = pool.map(lambda _: building.ensure(tiny, lines.append), range(2))
    assert first == second
    assert len([line for line in lines if "test-tiny" in line and line.endswith("...")]) == 1


def test_the_infrastructure_image_has_the_tools_of_the_levers() -> None:
    tools = ["iptables", "ip", "tc", "nc", "ps", "setpriv"]
    image = building.infra_image()
    with one_off(image.id, ["sh", "-c", 'for t; do command -v "$t"; done', "-", *tools]) as found:
        assert found.wait(limit_s=30) == 0
        assert len(found.output().splitlines()) == len(tools)
    with one_off(image.id, ["sh", "-c", "ls /usr/lib/*/faketime/libfaketimeMT.so.1"]) as found:
        assert found.wait(limit_s=30) == 0


def test_an_image_that_cannot_be_built_shows_the_end_of_its_log() -> None:
    broken = replace(TINY, packages=("there-is-no-such-package",))
    with pytest.raises(EnvironmentFailure, match="cannot be built") as raised:
        building.ensure(broken)
    assert "there-is-no-such-package" in str(raised.value.hint)
    assert building.find(broken.reference(building.base_reference())) is None


def test_an_image_that_cannot_be_pulled_is_reported_in_one_sentence() -> None:
    with pytest.raises(EnvironmentFailure, match="cannot be pulled") as raised:
        building.pulled("127.0.0.1:9/ackloss/none:1")
    assert raised.value.key == "target.image"
    assert "\n" not in str(raised.value)


def test_images_are_built_from_the_users_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = f"ackloss/test-own-base:{os.getpid()}"
    building.infra_image()
    client = connect()
    client.images.get(building.base_reference()).tag(*own.split(":"))
    config = tmp_path / "config.toml"
    config.write_text(f'base_image = "{own}"\n')
    monkeypatch.setenv("ACKLOSS_CONFIG", str(config))
    monkeypatch.delenv("ACKLOSS_BASE_IMAGE", raising=False)
    user_config.cache_clear()
    try:
        assert building.base_reference() == own
        built = building.ensure(TINY)
        layers = client.images.get(own).attrs["RootFS"]["Layers"]
        assert client.images.get(built.id).attrs["RootFS"]["Layers"][: len(layers)] == layers
    finally:
        user_config.cache_clear()
        _remove(TINY.reference(own))
        _remove(own)
