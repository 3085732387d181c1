"""What tests of clean-up share: runs that no other process of this machine cleans up."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def own_register(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A register of runs that only this test uses: a run that starts beside it would remove what
    the killed run left."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("ACKLOSS_STATE", str(folder))
    return folder
