"""Runs in object storage, judged by a Spark cluster: a master and two workers on loopback, an S3
server, executors without ackloss.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.judging.one_run import judge_run
from harness.history.manifest import write_manifest
from harness.history.run_folder import RunDir
from harness.protocols import Promises
from harness.storage import Folder
from tests.fixtures.hand_made import Made, R, W
from tests.fixtures.s3 import S3
from tests.fixtures.spark_cluster import CONF, Cluster, ackloss, bare_python, spark_cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RUNS = 1_000
LIMIT_S = 1_500
RUN = {"promises": Promises(partitions=1, replicas=3).document(), "manifest": True}
SETTINGS = [part for key, value in CONF.items() for part in ("--conf", f"{key}={value}")]

DEADLY = """
import os, signal
from dataclasses import dataclass
from typing import ClassVar
from checkers.loss import Loss

@dataclass(frozen=True)
class Deadly(Loss):
    plugin: ClassVar[str] = "deadly"

    def check(self, run, shard):
        if run.facts.run_id == "killer":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().check(run, shard)
"""


@pytest.fixture(scope="module")
def cluster(s3: S3, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster"), s3.environment) as running:
        yield running


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The executors'."""
    return bare_python(tmp_path_factory.mktemp("bare"))


def made(parent: Path, name: str, *, lost: bool = False, check: str = "loss") -> RunDir:
    """A run with a manifest."""
    writes = [W(value, at_ms=value) for value in range(20)]
    reads = [R(value) for value in range(3 if lost else 0, 20)]
    plan = {"checks": [check]}
    rundir = Made(writes=writes, reads=reads, run=RUN).build(parent, name)
    document = rundir.read_json(rundir.plan)
    rundir.write_json(rundir.plan, document | plan)
    write_manifest(rundir, name)
    return rundir


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """A result without what differs from one check to the next."""
    return {**document, "timings": {**document["timings"], "check_s": None}}


def findings_at(remote: Folder, run: str, names: Iterable[str]) -> dict[str, pa.Table]:
    """What was found of a run, by the names of its files."""
    folder = f"{run}/findings/"
    return {
        name.removeprefix(folder): pq.read_table(io.BytesIO(remote.read(name)))
        for name in names
        if name.startswith(folder)
    }


def check(url: str, cluster: Cluster) -> list[str]:
    """The arguments of the command line."""
    return ["check", url, "--master", cluster.master, *SETTINGS, "--json"]


@pytest.mark.full
@pytest.mark.timeout(LIMIT_S)
def test_every_answer_is_there_though_a_worker_is_killed(
    s3: S3, cluster: Cluster, python: Path, tmp_path: Path
) -> None:
    """Runs that are valid or lossy, one whose operations are cut off in the storage, one without
    its manifest, and one whose plan is no JSON: all as they are judged here, or refused."""
    folder, url = tmp_path / "runs", "s3://bucket/many"
    runs = [made(folder, f"run-{n:04d}", lost=n % 3 == 0) for n in range(RUNS)]
    runs[5].manifest.unlink()
    cut = next((folder / "run-0007" / "history").glob("*.parquet"))
    shutil.copy(runs[8].parts(runs[8].history)[0], cut)  # whole Parquet, not as the run wrote it
    runs[6].plan.write_bytes(b"{")
    s3.put(folder, url.removeprefix("s3://"))

    killed = threading.Event()
    thread = threading.Thread(target=_kill_one, args=(s3, cluster, killed), daemon=True)
    thread.start()
    begun_s = time.monotonic()
    done = ackloss(*check(url, cluster), environment={"PYSPARK_PYTHON": str(python)})
    print(f"{RUNS} runs in {time.monotonic() - begun_s:.1f} s")
    assert killed.is_set(), done.stderr
    assert done.returncode == 4, done.stderr
    assert f"{url}/run-0006/plan.json: cannot be read" in done.stderr
    assert "Traceback" not in done.stderr
    documents = json.loads(done.stdout)["results"]
    remote = Folder.at(url)
    there = remote.files()
    judged = [run for run in runs if run.run_id != "run-0006"]
    assert [document["run_id"] for document in documents] == [run.run_id for run in judged]
    for run, document in zip(judged, documents, strict=True):
        judge_run(run)
        assert comparable(document) == comparable(run.read_json(run.result))
        assert json.loads(remote.read(f"{run.run_id}/result.json")) == document
        found = {path.name: pq.read_table(path) for path in run.findings.glob("*.parquet")}
        assert findings_at(remote, run.run_id, there) == found
        assert found or not document["counter_examples"]
    verdicts = {document["run_id"]: document["verdict"][0] for document in documents[:7]}
    assert verdicts == {f"run-{n:04d}": v for n, v in enumerate("ivvivu-u") if v != "-"}


def _kill_one(s3: S3, cluster: Cluster, killed: threading.Event) -> None:
    """Kill a worker, and its executor, once a tenth of the runs has been fetched."""
    ends_s = time.monotonic() + LIMIT_S
    while time.monotonic() < ends_s:
        fetched = len(set(s3.requested(re.compile(r"GET /bucket/many/(run-\d+)/run\.json"))))
        if fetched >= RUNS / 10:
            assert not s3.requested(re.compile(r"PUT /bucket/many/.*(result)\.json")), "too late"
            cluster.kill_worker(1)
            killed.set()
            return
        time.sleep(0.05)


@pytest.mark.full
def test_a_run_that_kills_its_executors_python_costs_itself_alone(
    s3: S3, cluster: Cluster, python: Path, tmp_path: Path
) -> None:
    """And a checker of the user's is sent with the job."""
    plugin = tmp_path / "plugin"
    info = plugin / "deadly-1.0.dist-info"
    info.mkdir(parents=True)
    (plugin / "deadly.py").write_text(DEADLY)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ackloss.plugins]\ncheckers.deadly = deadly:Deadly\n")
    folder, url = tmp_path / "runs", "s3://bucket/deadly"
    names = ["a", "b", "killer", "c", "d"]
    for name in names:
        made(folder, name, check="deadly", lost=name == "d")
    s3.put(folder, url.removeprefix("s3://"))
    environment = {"PYSPARK_PYTHON": str(python), "PYTHONPATH": f"{Path.cwd()}:{plugin}"}
    done = ackloss(*check(url, cluster), environment=environment)
    assert done.returncode == 1, done.stderr
    by_run = {each["run_id"]: each for each in json.loads(done.stdout)["results"]}
    assert {name: by_run[name]["verdict"] for name in names} == {
        "a": "valid",
        "b": "valid",
        "c": "valid",
        "d": "invalid",
        "killer": "unknown",
    }
    assert by_run["killer"]["reason"] == (
        f"the checker's process died, killed or out of memory: {url}/killer"
    )


@pytest.mark.full
def test_an_executor_without_pyarrow_is_named(s3: S3, cluster: Cluster, tmp_path: Path) -> None:
    lacking = bare_python(tmp_path / "lacking", without="pyarrow")
    made(tmp_path / "runs", "one")
    s3.put(tmp_path / "runs", "bucket/one")
    done = ackloss(*check("s3://bucket/one", cluster), environment={"PYSPARK_PYTHON": str(lacking)})
    assert done.returncode == 5, done.stderr
    assert json.loads(done.stdout)["error"]["what"] == "the Python of an executor lacks pyarrow"
    assert "numpy, pyarrow, orjson, pydantic" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_a_relative_path_is_judged_in_place_and_written_by_who_asked(
    s3: S3, cluster: Cluster, python: Path, tmp_path: Path
) -> None:
    """The workers are on this machine, so they see its folders."""
    run = made(tmp_path / "runs", "one", lost=True)
    done = subprocess.run(
        [sys.executable, "-m", "ackloss", *check("runs", cluster)],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": str(python), "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert run.read_json(run.result)["verdict"] == "invalid"
    assert run.loss.exists()


def test_a_master_that_does_not_answer_is_refused_at_once(tmp_path: Path) -> None:
    made(tmp_path / "runs", "one")
    begun_s = time.monotonic()
    done = ackloss(
        "check", str(tmp_path / "runs"), "--master", "spark://127.0.0.1:1", environment={}
    )
    assert (done.returncode, "Traceback" in done.stderr) == (5, False)
    assert (
        "spark://127.0.0.1:1: the Spark master does not answer (Connection refused)" in done.stderr
    )
    assert time.monotonic() - begun_s < 30
