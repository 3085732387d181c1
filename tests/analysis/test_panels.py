"""What a run is about beside its writes: offsets of a group, ages of stale reads."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from analysis.latency import writes
from analysis.panels import (
    AGAIN,
    COMMITTED,
    END,
    SKIPPED,
    STALE,
    Panel,
    _fewer,
    _track,
    done_by_consumers,
    panels,
)
from checkers.judging.one_run import judge_run
from harness.history.run_folder import RunDir
from harness.models import GROUP

GROUP_RUN = Path(__file__).parents[1] / "histories" / "runs" / "fenced-java-consumer"
"""Of real Kafka: 190 records were processed again, and nothing was skipped."""
UNPROCESSED = range(120, 145)


@pytest.fixture(scope="module", params=["as it was", "with records that nobody processed"])
def judged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    run = RunDir(tmp_path_factory.mktemp("runs") / "group")
    shutil.copytree(GROUP_RUN, run.path)
    if request.param != "as it was":
        for part in run.parts(run.deliveries):
            rows = pq.read_table(part)
            here = pc.is_in(rows["offset"], value_set=pa.array(UNPROCESSED, pa.int64()))
            gone = pc.and_(
                pc.equal(rows["partition"], 1), pc.and_(here, pc.equal(rows["f"], "process"))
            )
            pq.write_table(rows.filter(pc.invert(pc.fill_null(gone, False))), part)
    judge_run(run)
    return run


def drawn(run: RunDir) -> list[Panel]:
    return panels(run, writes(run, GROUP), done_by_consumers(run), end_s=60.0)


def test_what_is_drawn_of_a_group_is_what_its_check_counted(judged: RunDir) -> None:
    counts = judged.read_json(judged.result)["counts"]
    found = drawn(judged)
    for kind in (SKIPPED, AGAIN, "commits_back", "zombie_commits"):
        assert sum(panel.counts.get(kind, 0) for panel in found) == counts[kind], kind
    assert counts[AGAIN] >= 100
    skipped = [
        (panel.partition, area) for panel in found for area in panel.areas if area.kind == SKIPPED
    ]
    assert len(skipped) == (counts[SKIPPED] > 0)
    for partition, area in skipped:
        assert (partition, area.low, area.high) == (1, UNPROCESSED[0], UNPROCESSED[-1] + 1)


def test_lines_of_a_group_end_where_it_ended(judged: RunDir) -> None:
    for panel in drawn(judged):
        lines = {track.name: track for track in panel.tracks}
        assert panel.top == 700, "each partition has 700 records"
        assert lines[END].height[-1] == lines[COMMITTED].height[-1] == 700
        consumers = [track for name, track in lines.items() if name not in (END, COMMITTED)]
        assert max(np.nanmax(track.height) for track in consumers) == 700
        assert (np.diff(lines[END].time_s) >= 0).all()


def test_a_long_line_keeps_its_steps_in_few_points() -> None:
    many = pd.DataFrame({"time_s": np.arange(100_000) / 1e3, "height": np.arange(100_000)})
    line = _track(END, "ink", many, width_s=1.0)
    assert len(line.time_s) == 200
    assert (line.height[0], line.height[-1]) == (0, 99_999)
    broken = _track("consumer-1", "ink", many.assign(session=many.index // 50_000), width_s=1.0)
    assert np.flatnonzero(np.isnan(broken.height)).tolist() == [100]


def test_many_marks_are_few_with_their_number_and_the_oldest() -> None:
    some = np.random.default_rng(0).uniform(0, 60, 20_000)
    marks = _fewer(pd.DataFrame({"kind": STALE, "time_s": some, "height": some / 7}), 60.0)
    assert len(marks) <= 500
    assert marks["count"].sum() == 20_000
    assert marks["height"].max() == some.max() / 7


def test_a_group_that_did_nothing_has_a_panel_without_height() -> None:
    assert Panel(0, [], [], pd.DataFrame({"height": []})).top == 1e-3
