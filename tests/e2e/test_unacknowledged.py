"""Unacknowledged success on a real broker: provoked, counted, absent where nothing provokes it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.spark]


def run(name: str, out: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "harness", "run", f"plans/faults/{name}.toml", "--json"]
    done = subprocess.run(
        [*command, "--out", str(out)],
        cwd=ROOT,
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


def test_writes_whose_answers_are_cut_off_are_found_all_the_same(tmp_path: Path) -> None:
    result = run("unacknowledged-reset", tmp_path)
    (fault,) = result["faults"]
    assert fault["proven"]
    assert fault["touched"] > 0
    assert result["counts"]["unknown_found"] > 0
    assert set(result["errors"]["unknown"]) == {"_MSG_TIMED_OUT"}
    page = next(tmp_path.glob("*/report.html")).read_text()
    assert "unacknowledged success" in page


def test_where_writes_are_only_counted_all_are_acknowledged(tmp_path: Path) -> None:
    result = run("unacknowledged-count", tmp_path)
    (fault,) = result["faults"]
    assert fault["proven"]
    assert fault["touched"] > 0
    counts = result["counts"]
    assert counts["acknowledged"] == counts["attempted"] > 0
    assert counts["unacknowledged_found"] == 0
