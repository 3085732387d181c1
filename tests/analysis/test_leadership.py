"""Leadership from hand-made answers: each test states the exact intervals."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.timeline import HOLD_S, Leadership, leadership, observations
from harness.history import OBSERVATIONS
from harness.history.run_folder import RunDir
from harness.protocols.runs import NULL

COLUMNS = [
    "time_s", "answered_by", "partition", "leader", "leader_epoch", "members", "controller",
    "controller_epoch",
]  # fmt: skip


def answer(
    at: float, who: str, leader: str | None, epoch: int, isr: str, partition: int = 0
) -> Any:
    return (at, who, partition, leader, epoch, isr, None, NULL)


def controller_answer(at: float, who: str, controller: str, epoch: int) -> Any:
    return (at, who, NULL, None, NULL, "", controller, epoch)


def seen(*answers: Any, end_s: float = 10.0) -> Leadership:
    return leadership(pd.DataFrame(answers, columns=COLUMNS), end_s=end_s)


def views(found: Leadership) -> list[tuple[Any, ...]]:
    return [
        (row.from_s, row.to_s, row.leader, row.epoch, ",".join(row.members))
        for row in found.views.itertuples()
    ]


def beliefs(found: Leadership) -> list[tuple[Any, ...]]:
    return [(row.node, row.from_s, row.to_s, row.epoch) for row in found.beliefs.itertuples()]


def test_a_view_holds_until_the_next_one() -> None:
    found = seen(
        answer(0, "b1", "b1", 1, "b1,b2"),
        answer(2, "b1", "b1", 1, "b1"),
        answer(4, "b1", "b1", 1, "b1"),
    )
    assert views(found) == [(0, 2, "b1", 1, "b1,b2"), (2, 4 + HOLD_S, "b1", 1, "b1")]
    assert beliefs(found) == []


def test_the_highest_epoch_wins_and_differing_answers_leave_no_gap() -> None:
    """b3 is isolated and still believes that it leads: its answers must not interrupt b1's view."""
    found = seen(
        answer(0.0, "b3", "b3", 5, "b3"),
        answer(0.1, "b1", "b3", 5, "b3"),
        answer(1.0, "b1", "b1", 6, "b1"),
        answer(1.5, "b3", "b3", 5, "b3"),
        answer(2.0, "b1", "b1", 6, "b1"),
        answer(2.5, "b3", "b3", 5, "b3"),
        answer(3.0, "b1", "b1", 6, "b1,b2"),
        answer(3.5, "b3", "b1", 6, "b1,b2"),
        answer(4.0, "b1", "b1", 6, "b1,b2"),
        end_s=5,
    )
    assert views(found) == [
        (0.0, 1.0, "b3", 5, "b3"),
        (1.0, 3.0, "b1", 6, "b1"),
        (3.0, 5.0, "b1", 6, "b1,b2"),
    ]
    assert beliefs(found) == [("b3", 1.0, 3.5, 5)], "from being overtaken until it learns of it"


def test_the_leaders_own_answer_decides_within_an_epoch() -> None:
    """A follower that is cut off reports an old ISR; the leader's ISR decides."""
    found = seen(
        answer(0.0, "b1", "b1", 1, "b1,b2"),
        answer(0.2, "b2", "b1", 1, "b1,b2"),
        answer(1.0, "b1", "b1", 1, "b1"),
        answer(1.2, "b2", "b1", 1, "b1,b2"),
        answer(2.0, "b1", "b1", 1, "b1"),
        answer(2.2, "b2", "b1", 1, "b1,b2"),
        end_s=3,
    )
    assert views(found) == [(0.0, 1.0, "b1", 1, "b1,b2"), (1.0, 3.0, "b1", 1, "b1")]


def test_others_speak_for_a_leader_that_fell_silent_and_leave_no_gap() -> None:
    later = [answer(at / 2, "b2", "b1", 1, "b1,b2") for at in range(1, 14)]
    found = seen(answer(0, "b1", "b1", 1, "b1,b2"), *later, answer(7, "b2", "b2", 2, "b2"), end_s=8)
    assert views(found) == [(0, 7, "b1", 1, "b1,b2"), (7, 8, "b2", 2, "b2")]


def test_nobody_answers_is_a_gap_that_is_shown() -> None:
    found = seen(answer(0, "b1", "b1", 1, "b1"), answer(8, "b1", "b1", 1, "b1"), end_s=9)
    assert views(found) == [(0, HOLD_S, "b1", 1, "b1"), (8, 9, "b1", 1, "b1")]


def test_no_leader_is_reported_as_none() -> None:
    found = seen(answer(0, "b1", "b1", 1, "b1"), answer(1, "b2", None, 2, "b1"), end_s=2)
    assert views(found) == [(0, 1, "b1", 1, "b1"), (1, 2, None, 2, "b1")]


def test_the_moment_between_two_answers_is_no_belief() -> None:
    """An old leader that names the new one in its next answer has shown no belief."""
    found = seen(
        answer(0.0, "b1", "b1", 1, "b1,b2"),
        answer(0.1, "b2", "b2", 2, "b1,b2"),
        answer(0.2, "b1", "b2", 2, "b1,b2"),
        end_s=1,
    )
    assert beliefs(found) == []


def test_a_leader_that_hears_late_of_its_own_new_epoch_leads() -> None:
    """Kafka raises the epoch when the ISR shrinks: another node reports the same leader first."""
    found = seen(
        answer(0.0, "b1", "b1", 1, "b1,b2"),
        answer(0.1, "b2", "b1", 2, "b1"),
        answer(0.2, "b1", "b1", 1, "b1,b2"),
        answer(0.3, "b1", "b1", 2, "b1"),
        end_s=1,
    )
    assert views(found) == [(0.0, 0.1, "b1", 1, "b1,b2"), (0.1, 1.0, "b1", 2, "b1")]
    assert beliefs(found) == []


def test_a_belief_ends_when_the_last_answer_no_longer_holds() -> None:
    others = [answer(at, "b2", "b2", 2, "b2") for at in (1, 2, 3, 4, 5, 6, 7, 8)]
    answers = [answer(0, "b1", "b1", 1, "b1"), *others, answer(1.5, "b1", "b1", 1, "b1")]
    found = seen(*sorted(answers, key=lambda row: row[0]), end_s=9)
    assert beliefs(found) == [("b1", 1, 1.5 + HOLD_S, 1)]


def test_partitions_are_separate() -> None:
    found = seen(answer(0, "b1", "b1", 1, "b1", 0), answer(0, "b1", "b2", 7, "b2", 1), end_s=1)
    assert found.partitions == [0, 1]
    assert list(found.views["leader"]) == ["b1", "b2"]


def test_the_active_controller_is_the_one_with_the_highest_epoch() -> None:
    found = seen(
        controller_answer(0, "c1", "c1", 1),
        controller_answer(1, "c2", "c2", 2),
        controller_answer(1.5, "c1", "c1", 1),
        controller_answer(2, "c2", "c2", 2),
        end_s=3,
    )
    controllers = list(found.controllers.itertuples(index=False, name=None))
    assert controllers == [(0, 1, "c1"), (1, 3, "c2")]


def test_nothing_observed_gives_nothing() -> None:
    found = seen()
    assert views(found) == []
    assert beliefs(found) == []
    assert found.partitions == []


def test_observations_are_read_as_the_observer_writes_them(tmp_path: Any) -> None:
    run = RunDir.create(tmp_path, "run")
    row = {
        "run_id": "run", "time_ns": 2_000_000_000, "answered_by": "b2", "partition": 0,
        "leader": None, "leader_epoch": 4, "isr": ["b1", "b2"], "controller": None,
        "controller_epoch": None,
    }  # fmt: skip
    other = {**row, "time_ns": 1_000_000_000, "answered_by": "b1", "leader": "b1", "isr": ["b1"]}
    for number, one in enumerate((row, other)):
        table = pa.Table.from_pylist([one])
        columns = {name: table[name].cast(OBSERVATIONS.field(name).type) for name in row}
        pq.write_table(pa.table(columns), run.observations / f"part-{number:05d}.parquet")
    rows = observations(run)
    assert list(rows["time_s"]) == [1.0, 2.0], "in the order of time, not of parts"
    assert list(rows["answered_by"]) == ["b1", "b2"]
    assert list(rows["members"]) == ["b1", "b1,b2"]
    assert list(rows["leader"]) == ["b1", None]


@pytest.mark.parametrize("end_s", [1.0, 2.5])
def test_nothing_reaches_beyond_the_end(end_s: float) -> None:
    found = seen(answer(0, "b1", "b1", 1, "b1"), answer(0.5, "b1", "b1", 1, "b1"), end_s=end_s)
    assert found.views["to_s"].max() == end_s
