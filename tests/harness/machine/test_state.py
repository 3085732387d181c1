"""The register of this machine's runs: what an entry holds, and when it can be claimed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from harness.errors import EnvironmentFailure
from harness.machine import state
from harness.machine.state import state_dir
from tests.fixtures.small_disk import no_file_above


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path))
    return tmp_path


def test_an_entry_is_read_as_it_was_written(tmp_path: Path) -> None:
    with state.registered("run", tmp_path):
        pass
    entry = state.Registered(run_id="run", folder=tmp_path, pid=os.getpid())
    assert state.registrations() == [entry]
    state.keep("run")
    assert state.registrations() == [replace(entry, keep=True)]


def test_what_is_not_an_entry_is_passed_over(tmp_path: Path) -> None:
    with state.registered("run", tmp_path):
        pass
    (entry,) = tmp_path.glob("runs/*.json")
    assert set(orjson.loads(entry.read_bytes())) == {"run_id", "folder", "pid", "keep", "kind"}
    entry.with_name("broken.json").write_bytes(b'{"run_id": "x"')
    assert [run.run_id for run in state.registrations()] == ["run"]


def test_a_full_disk_loses_no_entry(tmp_path: Path) -> None:
    with state.registered("run", tmp_path):
        pass
    before = state.registrations()
    with no_file_above(10), pytest.raises(EnvironmentFailure, match="cannot write the state"):
        state.keep("run")
    assert state.registrations() == before
    assert sorted(path.name for path in tmp_path.glob("runs/*.json*")) == ["run.json"]
    state.remember_cluster("compose", "run", {"project": "p"})
    with no_file_above(10), pytest.raises(EnvironmentFailure, match="cannot write the state"):
        state.remember_cluster("compose", "run", {"project": "p", "changed": ["a container"]})
    assert state.remembered_cluster("compose", "run") == {"project": "p"}


def test_the_folder_is_where_links_lead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel names mounts and loop devices so."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path / "link"))
    assert state_dir() == tmp_path / "real"


def test_only_a_dead_run_can_be_claimed(tmp_path: Path) -> None:
    with state.registered("run", tmp_path), state.claimed("run") as dead:
        assert not dead
    with state.claimed("run") as dead:
        assert dead
    state.forget("run")
    assert state.registrations() == []
