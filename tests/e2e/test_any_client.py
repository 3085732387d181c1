"""Clients that are processes of the user's, on real Kafka and ZooKeeper: an honest one under safe
settings loses nothing, and a liar is found; nothing is left of them, however the run ends.
`make e2e` also runs every plan of plans/clients/."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.cleaning import client_processes
from harness.plan import load_plan
from tests.fixtures.machine import ROOT, apart, clean, result_of, started

PLANS = sorted((ROOT / "plans/clients").glob("*.toml"))
EXAMPLES = ROOT / "docs/examples/clients"
HONEST, LIAR = (
    f"{sys.executable} {EXAMPLES / name}" for name in ("kafka_python_client.py", "liar.py")
)
SHORT = (
    *("workload.duration_s=16", "faults.0.at_s=2", "faults.0.for_s=2"),
    *("faults.1.at_s=6", "faults.1.for_s=5"),
    'workload.producer."delivery.timeout.ms"=2500',
    'workload.producer."request.timeout.ms"=1000',
    'workload.producer."max.block.ms"=1000',
)
LOSE = ROOT / "plans/clients/lose.toml"

pytestmark = [pytest.mark.e2e, pytest.mark.docker]


def result(plan: Path, client: str, out: Path, *sets: str) -> dict[str, Any]:
    """The result of a run with a client."""
    return result_of(plan, out, *sets, words=("--client", client))


@pytest.mark.full
def test_a_client_that_acknowledges_before_it_sends_is_found(tmp_path: Path) -> None:
    reported = result(LOSE, LIAR, tmp_path, *SHORT)
    assert reported["verdict"] == "invalid", reported["reason"]
    assert reported["counts"]["lost"] > 0
    assert "lost" in reported["counter_examples"]
    assert reported["clients"]["lies"] == 0  # only the final read finds it


@pytest.mark.full
@pytest.mark.node
@pytest.mark.parametrize(("release", "expect"), [("affected", "invalid"), ("fixed", "valid")])
def test_a_client_that_numbers_writes_alike_is_found(
    tmp_path: Path, release: str, expect: str
) -> None:
    """platformatic/kafka#326, before and after its fix, without any fault."""
    folder = tmp_path / "client"
    shutil.copytree(EXAMPLES / "platformatic", folder)
    install = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
    subprocess.run(install, cwd=folder, check=True, timeout=300, stdin=subprocess.DEVNULL)
    plan = ROOT / "plans/clients/at-once.toml"
    reported = result(plan, f"node {folder / 'client.js'} {release}", tmp_path / "runs")
    assert reported["verdict"] == expect, reported["reason"]
    assert bool(reported["counts"]["lost"]) == (expect == "invalid")
    assert reported["clients"]["incidents"] == []


ZOOKEEPER = (
    *("workload.client=exec", "workload.clients=3", "workload.processes=60"),
    *("workload.duration_s=9", "ensemble.servers=1", 'checks=["set"]', "faults.0.for_s=2"),
)


@pytest.mark.full
def test_a_client_of_zookeeper_is_judged_too(tmp_path: Path) -> None:
    """By the same program, which says ok at the end or, as a liar, at the beginning."""
    plan, honest = ROOT / "plans/zookeeper/short-set.toml", EXAMPLES / "kazoo_client.py"
    judged = result(plan, f"{sys.executable} {honest}", tmp_path / "honest", *ZOOKEEPER)
    assert judged["verdict"] == "valid", judged["reason"]
    assert judged["counts"]["acknowledged"] > 100
    assert judged["clients"]["software"].startswith("kazoo ")
    assert judged["clients"]["incidents"] == []
    liar = tmp_path / "liar.py"
    liar.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(honest.parent)!r})\n"
        "import kazoo_client as honest\n"
        "def lie(operations, op):\n"
        "    if op['f'] == 'read':\n"
        "        return honest_answer(operations, op)\n"
        "    honest.say(type='ok', id=op['id'])\n"
        "    if operations.kazoo.connected:\n"
        "        operations.kazoo.create_async(f\"{operations.parent}/{op['value']}\")\n"
        "honest_answer, honest.answer = honest.answer, lie\n"
        "honest.main()\n"
    )
    judged = result(plan, f"{sys.executable} {liar}", tmp_path / "lying", *ZOOKEEPER)
    assert judged["verdict"] == "invalid", judged["reason"]
    assert judged["counts"]["lost"] > 0
    assert judged["clients"]["lies"] == 0


CAMPAIGN = """\
schema = 1
name = "clients"
about = "A client of mine, judged twice."
plan = "{plan}"
repetitions = 2

[axes.client.choices.mine.set]
checks = ["set", "replicas"]
"workload.connect" = "one"
"workload.client" = "exec"
"workload.clients" = 3
"workload.duration_s" = 9
"""


@pytest.mark.full
def test_a_campaign_judges_a_client_too(tmp_path: Path) -> None:
    file, out = tmp_path / "clients.toml", tmp_path / "out"
    file.write_text(CAMPAIGN.format(plan=ROOT / "plans/zookeeper/short-set.toml"))
    words = ["campaign", "run", str(file), "--out", str(out), "--workers", "1"]
    honest = f"{sys.executable} {EXAMPLES / 'kazoo_client.py'}"
    done = apart(*words, "--client", honest)
    assert done.returncode == 0, done.stdout + done.stderr
    results = [json.loads(path.read_text()) for path in out.glob("runs/*/result.json")]
    assert [each["verdict"] for each in results] == ["valid"] * 2
    assert {each["clients"]["software"].split()[0] for each in results} == {"kazoo"}


@pytest.mark.full
def test_a_client_that_breaks_the_protocol_is_reported(tmp_path: Path) -> None:
    """It stops the load: the run says so, and ends like any other."""
    babbler = tmp_path / "babbler.py"
    babbler.write_text(
        "import json, sys\n"
        "sys.stdin.readline()\n"
        'print(json.dumps({"type": "ready", "name": "babbler", "version": "0"}), flush=True)\n'
        "sys.stdin.readline()\n"
        'print("WARN connection lost", flush=True)\n'
        "sys.stdin.read()\n"
    )
    reported = result(LOSE, f"{sys.executable} {babbler}", tmp_path / "runs", *SHORT)
    assert reported["verdict"] == "invalid"
    assert "lies" in reported["counter_examples"]
    assert reported["clients"]["lies"] == 3
    assert "not JSON: 'WARN connection lost'" in reported["clients"]["incidents"][0]["what"]
    assert reported["errors"]["unknown"].keys() == {"CLIENT_LIED"}


@pytest.mark.full
@pytest.mark.usefixtures("own_state")
def test_nothing_is_left_of_clients_when_the_harness_is_killed(tmp_path: Path) -> None:
    harness = started(tmp_path, str(LOSE), *SHORT, words=("--client", HONEST))
    try:
        deadline = time.monotonic() + 120
        while not (run := next(tmp_path.glob("*/history/part-*"), None)):
            assert time.monotonic() < deadline
            assert harness.poll() is None
            time.sleep(0.2)
        run_id = run.parents[1].name
        assert len(client_processes(run_id)) == 6  # and their guards
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.wait()
    deadline = time.monotonic() + 5
    while client_processes(run_id) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not client_processes(run_id)
    harness.communicate()
    assert any(run_id in name for name in clean()["removed"])


@pytest.mark.full
@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_the_python_example_has_the_verdict_that_a_plan_expects(path: Path, tmp_path: Path) -> None:
    reported = result(path, HONEST, tmp_path)
    assert reported["verdict"] == load_plan(path).expect, reported["reason"]
    assert all(fault["proven"] for fault in reported["faults"])
    assert reported["clients"]["software"].startswith("kafka-python ")
    assert reported["clients"]["incidents"] == []
    assert not client_processes(reported["run_id"])
    if path == LOSE:
        assert reported["counts"]["lost"] == 0
        (folder,) = tmp_path.iterdir()
        run = json.loads((folder / "run.json").read_text())
        assert run["versions"]["client"] == reported["clients"]["software"]
        assert run["settings"]["effective"]["producer"]["acks"] == "all"
        assert any("nothing reads them back" in warning for warning in run["warnings"])
        assert {path.name for path in (folder / "clients").iterdir()} == {
            f"client-{number}.log" for number in (1, 2, 3)
        }


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_is_valid_and_has_a_description(path: Path) -> None:
    plan = load_plan(path)
    assert plan.name == path.stem
    assert plan.about
    assert plan.workload.client == "exec"
    assert plan.expect == ("invalid" if path.stem == "control" else "valid")
    assert [str(check) for check in plan.checks] == ["loss", "client"]
