"""Stored runs judged from Python."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import ackloss
from tests.fixtures.memory_plans import LOSES, SHORT
from tests.fixtures.synthetic_campaign import ONE_AXIS, Chances, Synthetic, build_campaign

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A run that loses and one that does not, both without their results."""
    folder = tmp_path_factory.mktemp("runs")
    made = [ackloss.run("memory/log", set=sets, out=folder) for sets in (LOSES, SHORT)]
    for run in made:
        (run.path / "result.json").unlink()
    return [run.path for run in made]


def test_runs_are_judged_in_the_order_given(runs: list[Path]) -> None:
    losing, keeping = ackloss.check(runs)
    assert (losing.verdict, losing.run_id) == ("invalid", runs[0].name)
    assert losing.counts.lost > 0
    assert (keeping.counts.lost, keeping.run_id) == (0, runs[1].name)
    stored = ackloss.load_run(runs[0]).result
    assert stored == losing
    assert [each.run_id for each in ackloss.check(reversed(runs))] == [r.name for r in runs[::-1]]


def test_the_others_are_judged_when_one_cannot_be(runs: list[Path], tmp_path: Path) -> None:
    bad, good = tmp_path / "bad", tmp_path / "good"
    shutil.copytree(runs[1], bad)
    shutil.copytree(runs[0], good)
    next(iter((bad / "history").glob("part-*.parquet"))).write_bytes(b"PAR1 not")
    (good / "result.json").unlink(missing_ok=True)
    with pytest.raises(ackloss.HistoryError, match="cut off, or not Parquet"):
        ackloss.check([bad, good])
    assert ackloss.load_run(good).result.verdict == "invalid"


def test_what_is_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ackloss.HistoryError, match=r"not a run folder"):
        ackloss.check([tmp_path])
    assert ackloss.check([]) == []


@pytest.mark.spark
def test_spark_judges_alike(runs: list[Path]) -> None:
    for one, other in zip(ackloss.check(runs), ackloss.check(runs, master="local[2]"), strict=True):
        assert (one.verdict, one.counts, one.faults) == (other.verdict, other.counts, other.faults)


def test_a_campaign_without_histories_is_an_error(tmp_path: Path) -> None:
    folder = campaign(tmp_path)
    with pytest.raises(ackloss.HistoryError, match="no run of this campaign has a history"):
        ackloss.check([folder])


def test_the_runs_of_a_campaign_are_judged(runs: list[Path], tmp_path: Path) -> None:
    folder = campaign(tmp_path)
    shutil.copytree(runs[0], folder / "runs" / runs[0].name)
    assert [each.run_id for each in ackloss.check([folder])] == [runs[0].name]


def campaign(tmp_path: Path) -> Path:
    synthetic = Synthetic(axes=ONE_AXIS, runs=4, chances=lambda _: Chances(loss=0.5))
    return build_campaign(tmp_path / "campaign", synthetic)[0].path
