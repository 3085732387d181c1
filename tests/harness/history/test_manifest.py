"""The manifest of a run: what it names, when it is written, and a run killed at any moment."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.errors import EnvironmentFailure
from harness.history.manifest import gaps, read_manifest, write_manifest
from harness.history.parquet_reader import Parts
from harness.history.run_folder import RunDir
from harness.plan import parse_plan
from harness.run.metadata import RunMetadata
from tests.fixtures.hand_made import E, Made, R, W

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


def finished(parent: Path) -> RunDir:
    rundir = Made(writes=[W(1)], reads=[R(1)], ends=[E(position=1)]).build(
        parent, "r"
    )  # by two readers
    rundir.manifest.unlink()
    log = rundir.node("b1") / "deep" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"INFO started\n")
    (rundir.reads / ".part-00001.parquet.partial").write_bytes(b"half")
    for output in (rundir.result, rundir.loss, rundir.report, rundir.lost_csv, rundir.figure):
        output.write_bytes(b"{}")
    return rundir


def test_every_file_of_evidence_is_named_and_no_other(tmp_path: Path) -> None:
    rundir = finished(tmp_path)
    write_manifest(rundir, "r")
    manifest = read_manifest(rundir)
    assert manifest is not None
    assert manifest.run_id == "r"
    assert {each.path: each.rows for each in manifest.files} == {
        "plan.json": None,
        "run.json": None,
        "faults.jsonl": None,
        "history/part-00000.parquet": 2,
        "reads/part-00000.parquet": 2,
        "reads/ends.parquet": 2,
        "nodes/b1/deep/server.log": None,
    }
    for each in manifest.files:
        content = (rundir.path / each.path).read_bytes()
        assert (each.bytes, each.sha256) == (len(content), hashlib.sha256(content).hexdigest())


def test_a_run_that_is_done_has_a_manifest_of_its_last_metadata(tmp_path: Path) -> None:
    rundir = RunDir.create(tmp_path, "r")
    record = RunMetadata.begin(rundir, parse_plan({"schema": 1, "name": "p"}), command=[], file="f")
    assert read_manifest(rundir) is None
    with record.outcome():
        record.update(state="reading", load={"attempted": 0, "starved": False})
        record.finish()
    run = rundir.read_json(rundir.run)
    assert (run["state"], run["manifest"]) == ("done", True)
    assert not gaps(rundir, run, Parts.of(rundir), [])


def test_a_disk_that_refuses_the_manifest_fails_the_run(tmp_path: Path) -> None:
    rundir = RunDir.create(tmp_path, "r")
    record = RunMetadata.begin(rundir, parse_plan({"schema": 1, "name": "p"}), command=[], file="f")
    rundir.manifest.mkdir()
    with pytest.raises(EnvironmentFailure), record.outcome():
        record.finish()
    assert rundir.read_json(rundir.run)["state"] == "failed"


def test_evidence_that_cannot_be_read_back_fails_the_run(tmp_path: Path) -> None:
    rundir = finished(tmp_path)
    (rundir.history / "part-00000.parquet").write_bytes(b"damaged by the disk")
    with pytest.raises(EnvironmentFailure, match="read back"):
        write_manifest(rundir, "r")
    assert read_manifest(rundir) is None


KILLED = """
import os, signal, sys
from pathlib import Path
from harness.history import manifest
from harness.history.parquet_reader import Parts
from harness.history.run_folder import RunDir
from harness.run.metadata import RunMetadata

where, moment = RunDir(Path(sys.argv[1])), sys.argv[2]
record = RunMetadata(where, where.read_json(where.run) | {"manifest": True})
replace = Path.replace

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def replaced(path, target):
    if target.name == "manifest.json" and moment == "renaming":
        kill()
    replace(path, target)
    if target.name == "run.json" and moment == "done":
        kill()
    if target.name == "manifest.json" and moment == "after":
        kill()

record.update(state="reading")
if moment == "reading":
    kill()
Path.replace = replaced
if moment == "digesting":
    manifest.digest_of = kill
record.finish()
"""


@pytest.mark.parametrize("moment", ["reading", "done", "digesting", "renaming", "after"])
def test_a_killed_run_has_no_manifest_or_a_true_one(moment: str, tmp_path: Path) -> None:
    rundir = finished(tmp_path)
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(rundir.path), moment], cwd=ROOT, check=False, timeout=60
    )
    assert killed.returncode == -9
    run = rundir.read_json(rundir.run)
    ends = pq.read_table(rundir.ends).to_pylist()
    found = gaps(rundir, run, Parts.of(rundir), ends)
    assert rundir.manifest.exists() is (moment == "after")
    if moment == "after":
        assert run["state"] == "done"
        assert not found
    elif moment == "reading":
        assert run["state"] == "reading"  # its own doubt
    else:
        assert run["state"] == "done"
        assert "missing: manifest.json" in found.sentences[0]
        assert found.history == found.reads == found.sentences
