"""Stored runs and campaigns as data frames: what they hold agrees with the result and the plan."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import ackloss
from tests.fixtures.memory_plans import LOSES, SHORT
from tests.fixtures.synthetic_campaign import ONE_AXIS, Chances, Synthetic, build_campaign

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def losing(tmp_path_factory: pytest.TempPathFactory) -> ackloss.Run:
    made = ackloss.run("memory/log", set=LOSES, out=tmp_path_factory.mktemp("runs"))
    return ackloss.load_run(str(made.path))


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> ackloss.Run:
    """A run without a fault, and without findings."""
    return ackloss.run("memory/log", set=SHORT, out=tmp_path_factory.mktemp("runs"))


def test_a_run_prints_as_one_line_with_its_verdict(losing: ackloss.Run, short: ackloss.Run) -> None:
    for run in (losing, short):
        printed = repr(run)
        assert "\n" not in printed
        assert run.result.verdict.upper() in printed
        assert f"{run.result.counts.lost:,} lost" in printed
    assert "\n" not in repr(losing.result)
    assert f"invalid: {losing.result.reason}" in repr(losing.result)


def test_a_run_in_a_notebook_is_text_and_never_markup(losing: ackloss.Run, tmp_path: Path) -> None:
    copied = tmp_path / "<b>"
    shutil.copytree(losing.path, copied)
    shown = ackloss.load_run(copied)._repr_html_()
    assert "INVALID" in shown
    assert "&lt;b&gt;" in shown
    assert "/<b>" not in shown


def test_a_run_that_cannot_be_read_prints_so(tmp_path: Path, losing: ackloss.Run) -> None:
    copied = tmp_path / "run"
    shutil.copytree(losing.path, copied)
    run = ackloss.load_run(copied)
    (copied / "result.json").unlink()
    assert "not judged (done)" in repr(run)
    (copied / "plan.json").write_text("{")
    assert "cannot be read" in repr(run)


def test_a_plot_is_the_timeline_with_its_headline(losing: ackloss.Run) -> None:
    figure = losing.plot()
    written = [text.get_text() for text in figure.texts]
    assert any("606" in text or f"{losing.result.counts.lost:,}" in text for text in written)
    assert len(figure.axes) == 4


def test_the_history_has_every_invocation_and_its_completion(losing: ackloss.Run) -> None:
    history, counts = losing.history(), losing.result.counts
    clients = history[history.process >= 0]
    assert Counter(clients.type) == {"invoke": counts.attempted, "ok": counts.acknowledged}
    assert list(history["index"]) == list(range(len(history)))
    assert set(history[history.process < 0].f) == {"kill", "partition"}
    assert history.time_s.is_monotonic_increasing
    assert 19 < history.time_s.max() < 30
    assert clients[clients.type == "invoke"].offset.isna().all()
    assert clients[clients.type == "ok"].offset.notna().all()
    assert clients.expected.isna().all()
    assert clients.error.isna().all()


def test_writes_have_the_counts_of_the_result_and_their_latency(losing: ackloss.Run) -> None:
    writes, counts = losing.writes(), losing.result.counts
    outcomes = Counter(writes.outcome)
    assert outcomes == {"ok": counts.acknowledged - counts.lost, "lost": counts.lost}
    assert writes.value.is_unique
    history = losing.history().query("type == 'ok' and process >= 0").set_index("value")
    answered = history.loc[writes.value.to_numpy()]
    expected_ms = (answered.time_s - answered.intended_s).to_numpy() * 1000
    np.testing.assert_allclose(writes.latency_ms, expected_ms, rtol=1e-4)


def test_lost_writes_are_those_that_were_found_and_not_read(losing: ackloss.Run) -> None:
    lost = set(losing.writes().query("outcome == 'lost'").value)
    assert len(lost) == losing.result.counts.lost > 0
    findings = losing.findings()
    assert set(findings.checker) == {"loss"}
    assert set(findings[findings.kind == "lost"].value) == lost
    assert lost.isdisjoint(losing.reads().value)
    by_reader = losing.reads().groupby("reader").value.nunique()
    assert set(by_reader) == {losing.result.counts.survivors}
    assert len(by_reader) == 2


def test_nothing_found_is_an_empty_frame(short: ackloss.Run) -> None:
    assert short.findings().empty
    assert {"checker", "kind", "value"} <= set(short.findings().columns)
    assert set(short.writes().outcome) == {"ok"}


def test_faults_are_those_of_the_plan_judged_or_not(
    losing: ackloss.Run, short: ackloss.Run
) -> None:
    faults = losing.faults()
    assert list(faults.id) == [step["id"] for step in losing.plan["faults"]]
    assert faults.proven.all()
    assert (faults.to_s > faults.from_s).all()
    assert (faults.ops_begun > 0).all()
    assert short.faults().empty
    assert list(short.faults().columns) == list(faults.columns)

    kept = (losing.path / "result.json").read_bytes()
    try:
        (losing.path / "result.json").unlink()
        unjudged = losing.faults()
        with pytest.raises(ackloss.HistoryError):
            _ = losing.result
    finally:
        (losing.path / "result.json").write_bytes(kept)
    assert unjudged.ops_begun.isna().all()
    for name in ("id", "nemesis", "from_s", "to_s", "proven"):
        assert list(unjudged[name]) == list(faults[name])


def test_observations_tell_who_led(losing: ackloss.Run) -> None:
    seen = losing.observations()
    assert seen.time_s.is_monotonic_increasing
    assert set(seen.answered_by) >= {"n1", "n2", "n3"}
    assert seen.leader.nunique() > 1  # the first leader was killed


def test_the_page_is_written_on_request(short: ackloss.Run) -> None:
    assert not (short.path / "report.html").exists()
    assert short.report() == short.path / "report.html"
    assert b"<html" in (short.path / "report.html").read_bytes()


def test_a_damaged_file_is_an_error(short: ackloss.Run, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes((short.path / "run.json").read_bytes())
    (tmp_path / "findings").mkdir()
    (tmp_path / "findings" / "loss.parquet").write_bytes(b"not Parquet")
    with pytest.raises(ackloss.HistoryError, match="damaged"):
        ackloss.load_run(tmp_path).findings()


@pytest.mark.parametrize("load", [ackloss.load_run, ackloss.load_campaign])
def test_another_folder_is_an_error(tmp_path: Path, load: object) -> None:
    with pytest.raises(ackloss.HistoryError):
        load(tmp_path)  # type: ignore[operator]


def test_a_campaign_has_its_cells_runs_and_comparisons(tmp_path: Path) -> None:
    def chances(key: object) -> Chances:
        return Chances(loss=1.0 if key == {"unclean": "true"} else 0.0)

    synthetic = Synthetic(axes=ONE_AXIS, runs=6, chances=chances)
    folder, truth = build_campaign(tmp_path / "campaign", synthetic)
    campaign = ackloss.load_campaign(folder.path)
    runs = campaign.runs()
    assert dict(zip(runs.run_id, runs["class"], strict=True)) == truth.runs
    assert runs.lost.sum() == truth.lost > 0
    cells = campaign.cells().set_index("name")
    assert cells["lossy_share.estimate"].to_dict() == {"unclean=true": 1, "unclean=false": 0}
    assert len(campaign.comparisons()) == 1
    one = campaign.run(runs.run_id[0])
    assert one.result.counts.lost == runs.lost[0]
    with pytest.raises(ackloss.HistoryError):
        campaign.run("no-such-run")


def test_the_cells_of_a_run_are_runs(short: ackloss.Run, tmp_path: Path) -> None:
    run = ackloss.run("memory/cells", out=tmp_path)
    assert {name: cell.result.verdict for name, cell in run.cells.items()} == {
        each.name: each.verdict for each in run.result.cells
    }
    assert len(run.cells["unclean"].writes()) == run.cells["unclean"].result.counts.attempted
    assert short.cells == {}
