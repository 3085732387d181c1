"""The register of this machine's runs: what an entry holds, and when it can be claimed."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest

from harness.machine import state


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path))
    return tmp_path


def test_an_entry_is_read_as_it_was_written(tmp_path: Path) -> None:
    with state.registered("run", tmp_path):
        pass
    entry = state.Registered(run_id="run", folder=tmp_path, pid=os.getpid())
    assert state.registrations() == [entry]
    state.write_entry("run", tmp_path, keep=True)
    assert state.registrations()[0].keep


def test_entries_of_earlier_versions_are_read_and_broken_ones_ignored(tmp_path: Path) -> None:
    with state.registered("run", tmp_path):
        pass
    (entry,) = tmp_path.glob("runs/*.json")
    fields = orjson.loads(entry.read_bytes())
    assert set(fields) == {"run_id", "folder", "pid", "keep", "kind"}
    del fields["keep"]
    entry.write_bytes(orjson.dumps(fields))
    entry.with_name("broken.json").write_bytes(b'{"run_id": "x"')
    entry.with_name("other.json").write_bytes(b"[]")
    assert [run.run_id for run in state.registrations()] == ["run"]


def test_only_a_dead_run_can_be_claimed(tmp_path: Path) -> None:
    with state.registered("run", tmp_path), state.claimed("run") as dead:
        assert not dead
    with state.claimed("run") as dead:
        assert dead
    state.forget("run")
    assert state.registrations() == []
