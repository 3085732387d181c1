"""What nodes report of themselves: a sampler's log becomes changes, and a node that is silent has
none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.errors import HistoryError
from harness.history.metrics import Sample, canonical, read_metrics, samples_of, write_metrics
from harness.history.run_folder import RunDir

S = 1_000_000_000
HALF = S // 2


def stored(path: Path, **samples: list[Sample]) -> RunDir:
    rundir = RunDir.create(path, "20260102-030405-a3f901")
    write_metrics(rundir, samples, 10 * S)
    return rundir


def at(rundir: RunDir, name: str, *times_s: float) -> list[float | None]:
    """The values of the only series of this name."""
    metrics = read_metrics(rundir)
    assert metrics is not None
    [series] = metrics.series[name]
    values = series.at(np.array(times_s))
    return [None if np.isnan(value) else float(value) for value in values]


def test_a_log_that_was_cut_off_and_continued() -> None:
    log = (
        b"\n5\t!\ta=1\tb=2.5\t.\n7\t\ta=2\t.\n9\t\tb=12\n11\t!\ta=3\t.\n13\t\ta=\t.\nx\t\ta=9\t.\n"
    )
    assert [*samples_of(log)] == [
        Sample(5, {"a": 1, "b": 2.5}),
        Sample(7, {"a": 2}, all=False),
        Sample(11, {"a": 3}),
        Sample(13, {"a": None}, all=False),
    ]


def test_only_changes_are_stored(tmp_path: Path) -> None:
    samples = [Sample(n * HALF, {"a": float(n > 9), "b": 7.0}) for n in range(20)]
    rundir = stored(tmp_path, b1=samples)
    assert at(rundir, "a", -1, 0, 4.9, 5.1, 10) == [None, 0, 0, 1, 1]
    metrics = read_metrics(rundir)
    assert metrics is not None
    assert [len(each.times_s) for each in metrics.series["b"]] == [1]
    assert metrics.end_s == 10


def test_a_silent_node_is_down_and_has_no_values(tmp_path: Path) -> None:
    before = [Sample(n * HALF, {"a": 1.0}) for n in range(5)]
    after = [Sample(6 * S + n * HALF, {}, all=False) for n in range(8)]
    rundir = stored(tmp_path, b1=before + after)
    assert at(rundir, "up", 0, 2, 2.6, 5.9, 6, 10) == [1, 1, 0, 0, 1, 1]
    assert at(rundir, "a", 0, 2, 2.6, 5.9, 6, 10) == [1, 1, None, None, 1, 1]


def test_a_node_that_dies_stays_down(tmp_path: Path) -> None:
    rundir = stored(tmp_path, b1=[Sample(0, {"a": 1.0}), Sample(HALF, {"a": 1.0})])
    assert at(rundir, "up", 0.9, 1, 10) == [1, 0, 0]


def test_a_process_that_begins_again_has_only_what_it_names(tmp_path: Path) -> None:
    every = [Sample(n * S, {"a": 1.0, "b": 1.0} if n < 5 else {"a": 2.0}) for n in range(11)]
    rundir = stored(tmp_path, b1=every)
    assert at(rundir, "a", 4, 5) == [1, 2]
    assert at(rundir, "b", 4, 5) == [1, None]


def test_what_comes_after_the_end_is_not_stored(tmp_path: Path) -> None:
    every = [Sample(n * S, {"a": float(n)}) for n in range(15)]
    assert at(stored(tmp_path, b1=every), "a", 10, 20) == [10, 10]


def test_labels_and_nodes(tmp_path: Path) -> None:
    name = 'kafka_log_log_logendoffset{partition="0",topic="t"}'
    rundir = stored(tmp_path, b1=[Sample(0, {name: 4.0})], b2=[Sample(0, {name: 5.0})])
    metrics = read_metrics(rundir)
    assert metrics is not None
    found = metrics.series[canonical("kafka_log_log_logendoffset")]
    assert [each.labels for each in found] == [
        {"instance": node, "partition": "0", "topic": "t"} for node in ("b1", "b2")
    ]


@pytest.mark.parametrize(
    "name",
    [
        "kafka_server_replicamanager_isrshrinks_total",
        "kafka_server_replicamanager_isrshrinkspersec",
        "kafka_server_replicamanager_total_isrshrinkspersec_count",
        "kafka_server_ReplicaManager_IsrShrinksPerSec_Count",
    ],
)
def test_one_bean_has_many_names(name: str) -> None:
    assert canonical(name) == canonical("kafka_server_replicamanager_isrshrinks_total")
    assert canonical(name) != canonical("kafka_server_replicamanager_isrexpands_total")


def test_a_run_without_metrics(tmp_path: Path) -> None:
    assert read_metrics(stored(tmp_path)) is None


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    rundir = stored(tmp_path, b1=[Sample(0, {"a": 1.0})])
    rundir.metrics.write_bytes(rundir.metrics.read_bytes()[:100])
    with pytest.raises(HistoryError, match="cannot be read"):
        read_metrics(rundir)
