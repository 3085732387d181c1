"""Unacknowledged success on real clusters: provoked, counted, absent where nothing provokes it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.e2e, pytest.mark.docker]


def run(name: str, out: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "ackloss", "run", f"plans/{name}.toml", "--json"]
    done = subprocess.run(
        [*command, "--out", str(out)],
        cwd=ROOT,
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert "error" not in result, done.stderr
    assert result["verdict"] == "valid", result["reason"]
    return result


def page(out: Path) -> str:
    return next(out.glob("*/report.html")).read_text()


# Each time without containers: targets/kafka/test_lost_answers, and against a broker of this
# machine: targets/kafka/levers/test_proxy_on_a_broker.
@pytest.mark.full
@pytest.mark.parametrize(
    ("plan", "error", "ended"),
    [
        ("unacknowledged-java", "REQUEST_TIMED_OUT", {"NETWORK_EXCEPTION"}),
        ("unacknowledged-reset", "_MSG_TIMED_OUT", set()),
    ],
    ids=["java", "librdkafka"],
)
def test_writes_whose_answers_are_cut_off_are_found_all_the_same(
    plan: str, error: str, ended: set[str], tmp_path: Path
) -> None:
    """`ended`: how a last attempt ended, which Java reports at times on a busy machine."""
    result = run(f"faults/{plan}", tmp_path)
    (fault,) = result["faults"]
    assert fault["proven"]
    assert fault["touched"] > 0
    assert result["counts"]["unknown_found"] > 0
    assert set(result["errors"]["unknown"]) - ended == {error}
    assert "unacknowledged success" in page(tmp_path)


@pytest.mark.full
def test_where_writes_are_only_counted_all_are_acknowledged(tmp_path: Path) -> None:
    result = run("faults/unacknowledged-count", tmp_path)
    (fault,) = result["faults"]
    assert fault["proven"]
    assert fault["touched"] > 0
    counts = result["counts"]
    assert counts["acknowledged"] == counts["attempted"] > 0
    assert counts["unacknowledged_found"] == 0


# Each time against a server of this machine: tests/targets/zookeeper/levers/test_zookeeper_proxy.
@pytest.mark.full
def test_znodes_are_created_though_the_connection_was_lost(tmp_path: Path) -> None:
    result = run("zookeeper/unacknowledged-reset", tmp_path)
    (fault,) = result["faults"]
    assert fault["proven"]
    counts = result["counts"]
    assert counts["unacknowledged_found"] == counts["recovered"] >= fault["touched"] > 0
    assert "ConnectionLoss" in result["errors"]["unknown"]
    assert result["rates"]["unacknowledged_success"] > 0
    assert "unacknowledged success" in page(tmp_path)


@pytest.mark.full
def test_where_creates_are_only_counted_all_are_acknowledged(tmp_path: Path) -> None:
    result = run("zookeeper/unacknowledged-count", tmp_path)
    (fault,) = result["faults"]
    assert fault["proven"]
    assert fault["touched"] > 0
    counts = result["counts"]
    assert counts["acknowledged"] == counts["attempted"] > 0
    assert counts["unacknowledged_found"] == 0
    assert result["rates"]["unacknowledged_success"] == 0
