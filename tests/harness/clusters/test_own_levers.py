"""What the own lever of a target did on a cluster that is still there is undone by `ackloss clean`,
by the journal of the run alone: of a toy system that the core does not know."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from harness import registry
from harness.faults.journal import Journal, entries, windows
from harness.machine import state
from tests.fixtures.command_line import ackloss
from tests.fixtures.toy import ROOT, Servers, entry_points, install

pytestmark = pytest.mark.real_time

PLAN = """\
schema = 1
name = "acknowledged too early"
[target]
system = "toy-elsewhere"
[workload]
name = "hot"
processes = 2
rate_per_s = 20
duration_s = 120
[[faults]]
id = "early"
at_s = 0.1
nemesis = "loosen"
nodes = "all"
for_s = 100
"""
ELSEWHERE = {"targets.toy-elsewhere": "tests.fixtures.toy_external:ToyElsewhere"}


@dataclass(frozen=True)
class Place:
    """Two servers, the file that says how they are reached, and where runs are."""

    servers: Servers
    file: Path
    folder: Path

    def dead_run(self, run_id: str) -> Path:
        """Register a run whose process is gone, with its plan; returns its folder."""
        folder = self.folder / run_id
        folder.mkdir()
        target = {"system": "toy-elsewhere", "nodes": 2}
        plan = {"schema": 1, "name": "p", "target": target, "cluster": {"kind": "external"}}
        (folder / "plan.json").write_text(json.dumps(plan))
        with state.registered(run_id, folder, kind="external"):
            entry = {"cluster": str(self.file), "addresses": self.servers.addresses}
            state.remember_cluster(
                "external", run_id, {**entry, "system": "toy-elsewhere", "objects": []}
            )
        return folder

    def early(self, folder: Path, *nodes: str) -> Journal:
        """Have servers acknowledge too early, as the journal of a run announces it."""
        from ackloss_toy.lever import ModeRecord

        journal = Journal(folder / "faults.jsonl", lambda: 1)
        for node in nodes:
            record = ModeRecord(node=node, fault="early", mode="received", before="stored")
            journal.intent(fault="early", lever="toy-mode", record=record)
            self.servers.ask(self.servers.addresses[int(node[1:]) - 1], {"mode": "received"})
        return journal


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    site = install(tmp_path / "site", {**entry_points(), **ELSEWHERE})
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{ROOT}")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.syspath_prepend(str(site))
    registry._found.cache_clear()
    from ackloss_toy.connection import asked_once

    servers = Servers(tmp_path, asked_once)
    try:
        servers.start(2)
        addresses = ", ".join(f'"{each}"' for each in servers.addresses)
        file = tmp_path / "theirs.toml"
        file.write_text(f'kind = "external"\nsystem = "toy-elsewhere"\nbootstrap = [{addresses}]\n')
        yield Place(servers, file, tmp_path)
    finally:
        servers.close()
        for name in [name for name in sys.modules if name.startswith("ackloss_toy")]:
            del sys.modules[name]
        sys.modules.pop("tests.fixtures.toy_external", None)
        registry._found.cache_clear()


def clean(*words: object) -> Result:
    return ackloss("clean", *words)


def registered() -> list[str]:
    return [run.run_id for run in state.registrations()]


def journal_of(folder: Path) -> Path | None:
    return next(iter(folder.glob("*/faults.jsonl")), None)


def test_a_run_that_is_killed_in_a_fault_is_undone_by_clean(place: Place) -> None:
    (place.folder / "plan.toml").write_text(PLAN)
    out = place.folder / "runs"
    words = ["run", str(place.folder / "plan.toml"), "--cluster", str(place.file)]
    with subprocess.Popen(
        [sys.executable, "-m", "ackloss", *words, "--out", str(out)], stdout=subprocess.DEVNULL
    ) as run:
        until_s = time.monotonic() + 60
        while not (journal := journal_of(out)) or not any(
            entry["type"] == "proof" for entry in entries(journal)
        ):
            assert run.poll() is None
            assert time.monotonic() < until_s
            time.sleep(0.05)
        run.send_signal(signal.SIGKILL)
    assert place.servers.modes() == ["received", "received"]
    (window,) = windows(journal)
    assert (window.proven, window.evidence) == (
        True,
        ["t1: acknowledges what is received", "t2: acknowledges what is received"],
    )
    dry = json.loads(clean("--dry-run", "--json").stdout)
    assert place.servers.modes() == ["received", "received"], "it only says so"
    done = clean("--json")
    assert done.exit_code == 0, done.output
    assert place.servers.modes() == ["stored", "stored"]
    (run_id,) = (folder.name for folder in out.iterdir())
    reported = [f"fault 'early' of run {run_id}: toy-mode on {node}" for node in ("t2", "t1")]
    assert sorted(json.loads(done.stdout)["undone"]) == sorted(dry["undone"]) == sorted(reported)
    assert registered() == []


def test_what_no_lever_here_can_undo_is_named_and_everything_else_is_undone(place: Place) -> None:
    first, second = place.dead_run("first"), place.dead_run("second")
    with place.early(first, "t1")._path.open("a") as journal:
        token = {"node": "t1", "fault": "fast", "seed": 0}
        line: dict[str, Any] = {"type": "intent", "n": 2, "fault": "fast", "lever": "warp"}
        journal.write(json.dumps({**line, "token": token, "time_ns": 1}) + "\n")
    place.early(second, "t2").close()
    done = clean("--cluster", place.file)
    assert done.exit_code == 4
    (sentence,) = done.stderr.strip().splitlines()
    assert f"{first / 'faults.jsonl'}:2: names the lever 'warp', which neither this" in sentence
    assert sentence.endswith(
        "its fault may still be in force; install the package of the run's target, in the version "
        "that the run used, then run `ackloss clean` again"
    )
    assert place.servers.modes() == ["stored", "stored"]
    assert registered() == ["first"], "what is needed to try again is kept"
    with (first / "faults.jsonl").open("a") as journal:
        journal.write('{"type": "undone", "n": 2, "time_ns": 2}\n')
    assert clean("--cluster", place.file).exit_code == 0
    assert registered() == []


def test_what_cannot_be_undone_now_is_tried_again(place: Place) -> None:
    place.early(place.dead_run("first"), "t1", "t2").close()
    place.servers.kill(1)
    done = clean("--cluster", place.file)
    assert done.exit_code == 6
    assert "is still in force: toy-mode of fault 'early' on t2 (t2 does not answer" in done.stderr
    assert done.stderr.strip().endswith("run `ackloss clean` again")
    assert (place.servers.mode(0), registered()) == ("stored", ["first"])
    place.servers.start_again(1)
    place.servers.ask(place.servers.addresses[1], {"mode": "received"})
    assert clean("--cluster", place.file).exit_code == 0
    assert (place.servers.modes(), registered()) == (["stored", "stored"], [])


def test_a_lever_that_the_target_of_the_run_does_not_have_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ackloss_toy.target import Toy

    folder = place.dead_run("first")
    place.early(folder, "t1").close()
    with monkeypatch.context() as patch:
        patch.setattr(Toy, "own_levers", frozenset())
        done = clean("--cluster", place.file)
    assert done.exit_code == 4
    assert f"{folder / 'faults.jsonl'}: the fault 'early' may still be in force: its" in done.stderr
    assert registered() == ["first"]
    assert clean("--cluster", place.file).exit_code == 0
    assert place.servers.modes() == ["stored", "stored"]


def test_a_run_without_faults_of_its_target_reaches_no_cluster(place: Place) -> None:
    """Whose file may be gone by now."""
    folder = place.dead_run("first")
    (folder / "faults.jsonl").touch()
    entry = state.remembered_cluster("external", "first")
    assert entry is not None
    from harness.clusters.external import External, nodes_there, undo_own

    guest = External()._guest({**entry, "cluster": "gone.toml"}, "first")
    undo_own("first", guest, nodes_there, {})
