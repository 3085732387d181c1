"""The user's own configuration."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import EnvironmentFailure
from harness.machine.state import user_config


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("ACKLOSS_CONFIG", str(path))
    monkeypatch.delenv("ACKLOSS_BASE_IMAGE", raising=False)
    user_config.cache_clear()
    yield path
    user_config.cache_clear()


def test_no_file_is_not_an_error(config: Path) -> None:
    assert user_config().base_image is None


def test_the_environment_overrides_the_file(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text('base_image = "debian:12"\n')
    assert user_config().base_image == "debian:12"
    user_config.cache_clear()
    monkeypatch.setenv("ACKLOSS_BASE_IMAGE", "ubuntu:24.04")
    assert user_config().base_image == "ubuntu:24.04"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('base_imag = "debian:12"\n', r"base_imag: unknown key; did you mean 'base_image'"),
        ("base_image = 12\n", "base_image"),
        ('base_image = "-v /:/host"\n', "base_image"),
        ("base_image = \n", "cannot be read"),
    ],
)
def test_an_error_is_one_sentence_with_the_file(config: Path, text: str, what: str) -> None:
    config.write_text(text)
    with pytest.raises(EnvironmentFailure, match=what) as raised:
        user_config()
    assert raised.value.file == str(config)
