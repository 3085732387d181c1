"""What tests of cleanup share."""

from __future__ import annotations

import tempfile

import pytest


@pytest.fixture
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A register of runs and a folder of temporary files that no other run on this machine cleans
    up from or leaves anything in."""
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path_factory.mktemp("state")))
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tmp")))
    monkeypatch.setattr(tempfile, "tempdir", None)  # or this process keeps to the folder it knows
