"""What tests of clean-up share."""

from __future__ import annotations

import pytest


@pytest.fixture
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A register of runs that no other run on this machine cleans up from."""
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path_factory.mktemp("state")))
