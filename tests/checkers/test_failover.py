"""The failover checker, on observations and acknowledgements made by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkers.failover import FailoverCheck
from harness.history import OBSERVATIONS
from harness.history.parquet_writer import ParquetWriter
from harness.protocols import CheckResult, FaultWindow, Promises
from harness.protocols.runs import INVOKED, NULL, OK, Facts, Texts, Writes

S = 10**9
BEGUN_S, HEALED_S = 10.0, 20.0


class Fake:
    """A run whose b1 is hit from 10 s to 20 s. `acks`: by partition, when writes ended ok, each
    begun 10 ms before; `led`: answers (time, node, partition, leader, epoch) about the topic;
    `ballast`: the same, stored as changes, and an answer of each node at each of those times."""

    def __init__(
        self,
        folder: Path,
        *,
        acks: Mapping[int, Sequence[float]],
        led: Sequence[tuple[float, str, int, str | None, int]] = (),
        ballast: Sequence[tuple[float, str, int, str | None, int]] = (),
        controllers: Sequence[tuple[float, int]] = (),
        model: str = "log",
        proven: bool = True,
    ) -> None:
        rows = [_row(*each) for each in led]
        rows += [(round(t * S), "c1", None, None, None, None, "c1", e) for t, e in controllers]
        changes = [_row(*each) for each in ballast]
        asked = {(t, node) for t, node, *_ in ballast}
        changes += [(round(t * S), n, None, None, None, None, None, None) for t, n in asked]
        for name, each in (("observations", rows), ("ballast", changes)):
            (folder / name).mkdir(exist_ok=True)
            with ParquetWriter(folder / name, OBSERVATIONS, run_id="r") as writer:
                writer.append(each)
        window = FaultWindow(
            id="hit", nemesis="kill", from_s=BEGUN_S + 0.5, to_s=HEALED_S, nodes=["b1"],
            met=None, proven=proven, evidence=[], why="", begun_s=BEGUN_S,
        )  # fmt: skip
        self._acks = acks
        self.facts = Facts(
            run_id="r", folder=folder, history=(), reads=(), ends=(), windows=(window,),
            promises=Promises(model=model), holders=frozenset({"b1", "b2", "b3"}),
        )  # fmt: skip

    def writes(self) -> Iterator[Writes]:
        for partition, times in self._acks.items():
            for mark, early in ((INVOKED, 0.01), (OK, 0.0)):
                at = np.array([round((t - early) * S) for t in times], np.int64)
                null, text = np.full(len(at), NULL), Texts.nulls(len(at))
                yield Writes(
                    text, null, np.full(len(at), mark, np.uint8), null,
                    np.full(len(at), partition), null, text, at, at,
                )  # fmt: skip


def _row(t: float, node: str, partition: int, leader: str | None, epoch: int) -> tuple[Any, ...]:
    return (round(t * S), node, partition, leader, epoch, None, None, None)


def said(run: Fake, **options: float) -> CheckResult:
    checker = FailoverCheck(**options)
    given: Any = run
    return checker.judge(given, checker.gather(given))


def of(result: CheckResult) -> dict[str, Any]:
    (each,) = result.details["failover"]
    return dict(each)


def steadily(*, but_from: float = 0, to: float = 0) -> list[float]:
    """An acknowledgement every 0.1 s up to 25 s, but for a pause."""
    return [t / 10 for t in range(1, 250) if not but_from < t / 10 < to]


BEFORE = [(9.0, node, partition, "b1", 1) for node in ("b2", "b3") for partition in (0, 1)]
BEFORE += [(9.0, node, 2, "b2", 1) for node in ("b2", "b3")]


def test_each_time_is_counted_from_the_fault_to_the_last_that_is_back(tmp_path: Path) -> None:
    after = [
        (11.0, "b2", 0, "b2", 2), (11.0, "b2", 1, "b1", 1), (11.2, "b3", 0, "b1", 1),
        (12.0, "b2", 1, "b3", 2), (12.2, "b3", 0, "b2", 2), (14.2, "b3", 1, "b3", 2),
    ]  # fmt: skip
    acks = {0: steadily(but_from=10, to=13), 1: steadily(but_from=10, to=15), 2: steadily()}
    run = Fake(tmp_path, acks=acks, led=[*BEFORE, *after], controllers=[(9, 5), (13, 6)])
    result = said(run)
    found = of(result)
    assert (found["partitions"], found["met"], found["leaderless"]) == (3, 2, 0)
    assert (found["first_led_s"], found["median_led_s"], found["led_s"]) == (1.0, 1.5, 2.0)
    assert (found["agreed_s"], found["longest_divergence_s"]) == (4.2, 2.2)
    assert (found["paused"], found["written_s"], found["changed_s"]) == (2, 5.0, None)
    assert (found["controller_s"], found["gone_s"], found["resolution_s"]) == (3.0, 0.5, 2.2)
    assert result.counts["led_s"] == 2.0
    assert not result.doubts
    assert not result.counter_examples


def test_partitions_of_the_ballast_count_like_those_of_the_topic(tmp_path: Path) -> None:
    seen = [(9.0, node, p, "b1", 1) for node in ("b2", "b3") for p in range(5)]
    seen += [(11.0 + p, node, p, "b2", 2) for node in ("b2", "b3") for p in range(5)]
    run = Fake(tmp_path, acks={0: steadily()}, led=[(9.0, "b2", 0, "b3", 1)], ballast=seen)
    found = of(said(run))
    assert (found["partitions"], found["met"], found["led_s"]) == (6, 5, 5.0)
    assert found["paused"] == 0
    assert found["written_s"] is None


def test_a_partition_without_another_leader_until_the_fault_is_healed_is_counted(
    tmp_path: Path,
) -> None:
    late = [(11.0, "b2", 0, "b2", 2), (11.0, "b2", 1, None, 2), (21.0, "b2", 1, "b1", 3)]
    result = said(Fake(tmp_path, acks={0: steadily()}, led=[*BEFORE, *late]))
    assert (of(result)["leaderless"], of(result)["disagreed"]) == (1, 1)
    assert result.counts["leaderless"] == 1


def test_an_old_epoch_is_no_new_leader(tmp_path: Path) -> None:
    stale = [(11.0, "b2", 0, "b3", 0), (11.0, "b2", 1, "b3", 1)]
    assert of(said(Fake(tmp_path, acks={0: steadily()}, led=[*BEFORE, *stale])))["leaderless"] == 2


def test_writes_that_never_resume_are_counted(tmp_path: Path) -> None:
    twice = steadily(but_from=10, to=10.2)  # twice any gap before: no pause yet
    acks = {0: steadily(but_from=10, to=99), 1: twice, 2: steadily()}
    found = of(said(Fake(tmp_path, acks=acks, led=BEFORE)))
    assert (found["paused"], found["unwritten"], found["written_s"]) == (1, 1, None)


def test_changes_of_metadata_are_one_stream(tmp_path: Path) -> None:
    acks = {NULL: steadily(but_from=10, to=16)}
    found = of(said(Fake(tmp_path, acks=acks, model="register")))
    assert (found["changed_s"], found["written_s"]) == (6.0, None)


@pytest.mark.parametrize(("within_s", "late"), [(2.5, 1), (6.0, 0)])
def test_what_is_late_is_a_counter_example(tmp_path: Path, within_s: float, late: int) -> None:
    acks = {0: steadily(but_from=10, to=13)}
    after = [(11.0, node, p, "b2", 2) for node in ("b2", "b3") for p in (0, 1)]
    result = said(Fake(tmp_path, acks=acks, led=[*BEFORE, *after]), within_s=within_s)
    assert result.counts["late"] == late
    assert [each.name for each in result.counter_examples] == ["late"] * late


@pytest.mark.parametrize("proven", [True, False])
def test_a_run_in_which_nothing_was_delayed_is_vacuous(tmp_path: Path, proven: bool) -> None:
    led = [(9.0, node, 0, "b2", 1) for node in ("b2", "b3")] if proven else BEFORE
    result = said(Fake(tmp_path, acks={0: steadily()}, led=led, proven=proven))
    assert [each.name for each in result.doubts] == ["vacuous"]


def test_a_time_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="within_s is 0; use more than 0"):
        FailoverCheck(within_s=0)
