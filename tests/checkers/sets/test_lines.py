"""Histories of sets from JSON lines: what becomes columns, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkers.sets.columns import ABSENT, SetHistory
from harness.protocols.runs import FAIL, INFO, NULL, OK
from tests.checkers.sets.ops import (
    Said,
    add,
    begin_add,
    begin_read,
    end_add,
    end_read,
    flat,
    history,
    judge,
    read,
    timed,
)


def adds_of(of: SetHistory) -> list[tuple[Any, ...]]:
    return list(zip(*(column.tolist() for column in of.adds), strict=True))


def reads_of(of: SetHistory) -> list[tuple[Any, ...]]:
    reads = of.reads
    held = [
        reads.elements[start:stop].tolist()
        for start, stop in zip(reads.start, reads.stop, strict=True)
    ]
    return list(zip(*(column.tolist() for column in reads[:6]), held, strict=True))


def test_adds_are_paired_by_value_and_reads_by_process(tmp_path: Path) -> None:
    nemesis = {"process": "nemesis", "type": "info", "f": "start", "value": "majority"}
    ops = timed(
        begin_add(7, 1), begin_add(-3, 2), begin_read(8), nemesis, begin_read(9),
        end_add(-3, "fail", 2), end_read(7, process=9), end_add(7, "ok", 1),
        end_read(-3, 7, process=8), begin_add(5, 3), add(6, "info", 4), begin_read(8),
    )  # fmt: skip
    made = history(tmp_path, ops)
    ms = 1_000_000
    assert adds_of(made) == [
        (-3, 2, FAIL, 1, 5, 1 * ms, 5 * ms),
        (5, 3, INFO, 9, ABSENT, 9 * ms, NULL),
        (6, 4, INFO, 10, 11, 10 * ms, 11 * ms),
        (7, 1, OK, 0, 7, 0, 7 * ms),
    ]
    assert reads_of(made) == [
        (8, OK, 2, 8, 2 * ms, 8 * ms, [-3, 7]),
        (9, OK, 4, 6, 4 * ms, 6 * ms, [7]),
    ]


def test_indices_are_those_of_the_file(tmp_path: Path) -> None:
    ops = [{**op, "index": 10 + 3 * n} for n, op in enumerate(flat(add(1), read(1)))]
    made = history(tmp_path, ops)
    assert (adds_of(made)[0][3:5], reads_of(made)[0][2:4]) == ((10, 13), (16, 19))


@pytest.mark.parametrize("index", [None, -1])
def test_without_an_index_the_order_of_lines_rules(index: int | None, tmp_path: Path) -> None:
    ops = [{**op, "index": 10 + n} for n, op in enumerate(flat(add(1), read(1)))]
    ops[2]["index"] = index
    made = history(tmp_path, ops)
    assert (adds_of(made)[0][3:5], reads_of(made)[0][2:4]) == ((0, 1), (2, 3))


def test_without_times_there_are_no_latencies(tmp_path: Path) -> None:
    said = Said(judge(history(tmp_path, flat(add(1), read(), read(1), add(2), read(1)))))
    assert (said.counts["stale"], said.counts["lost"]) == (1, 1)
    assert said.judged.result.details["latencies_ms"] == {"stable": {}, "lost": {}}
    assert "latency_ns" not in said.found("lost")[0]


def test_reads_without_invocations_begin_where_they_end(tmp_path: Path) -> None:
    made = history(tmp_path, timed(add(1), end_read(1), end_read()))
    assert [row[2:6] for row in reads_of(made)] == [(2, 2, 2e6, 2e6), (3, 3, 3e6, 3e6)]
    assert made.is_final
    assert Said(judge(made)).counts["lost"] == 1


def test_a_completion_without_an_invocation_is_an_attempt(tmp_path: Path) -> None:
    made = history(tmp_path, timed(read(1), end_add(1), read(1)))
    assert adds_of(made) == [(1, 0, OK, ABSENT, 2, NULL, 2e6)]
    assert Said(judge(made)).counts == {"attempted": 1, "acknowledged": 1, "stable": 1}


@pytest.mark.parametrize("process", ["reader", None, True, -1, 2**31])
def test_the_process_of_a_read_may_be_anything(process: Any, tmp_path: Path) -> None:
    ops = timed(add(1), {**begin_read(), "process": process}, {**end_read(1), "process": process})
    made = history(tmp_path, ops)
    assert reads_of(made)[0][0] >= 2**30  # a number that no other process has
    assert judge(made).tally.read is not None


def test_a_history_without_adds_or_reads_is_unknown(tmp_path: Path) -> None:
    said = Said(judge(history(tmp_path, timed(begin_read()))))
    assert (said.counts, said.doubts) == ({}, ["vacuous", "incomplete"])
    said = Said(judge(history(tmp_path, timed(read(4)))))
    assert said.counter_examples == ["unexpected"]


def test_of_a_large_file_the_same_is_read(tmp_path: Path) -> None:
    many = range(0, 3_000, 3)
    ops = flat(*(add(value) for value in many), read(*many), read(*list(many)[1:]))
    said = Said(judge(history(tmp_path, ops)))
    assert said.counts == {"attempted": 1_000, "acknowledged": 1_000, "stable": 999, "lost": 1}
