"""Where this checker deliberately differs from Jepsen's: the smallest history of each difference.

What Jepsen (0.3.14) says of each stands beside it, from the source of jepsen.checker.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.sets import quantiles_ns
from harness.errors import HistoryError
from tests.checkers.sets.ops import (
    MS,
    add,
    begin_add,
    begin_read,
    end_add,
    end_read,
    history,
    judge,
    read,
    said,
    timed,
)


def test_an_element_twice_in_a_read_is_a_duplicate(tmp_path: Path) -> None:
    # set-full: valid, duplicated-count 0; its filter keeps counts below 1.
    answer = said(tmp_path, add(1), read(1, 1, 1))
    assert answer.judged.verdict == "invalid"
    assert (answer.counts["duplicated"], answer.counts["stable"]) == (1, 1)
    (found,) = answer.found("duplicated")
    assert (found["value"], found["copies"], found["read_complete_index"]) == (1, 3, 3)


def test_what_nobody_added_is_unexpected(tmp_path: Path) -> None:
    # set-full: valid, attempt-count 1; only set reports it.
    answer = said(tmp_path, add(1), read(1, 7), read(7, 1))
    assert answer.judged.verdict == "invalid"
    assert answer.counts["unexpected"] == 1
    (found,) = answer.found("unexpected")
    assert (found["value"], found["read_complete_index"]) == (7, 3)
    assert not {"process", "type", "invoke_index"} & found.keys()


def test_a_failed_add_that_is_read_is_an_error(tmp_path: Path) -> None:
    # set: valid, recovered-count 1. set-full: valid, stable-count 2.
    answer = said(tmp_path, add(1), add(2, "fail"), read(1, 2))
    assert answer.judged.verdict == "invalid"
    assert answer.counter_examples == ["failed_found"]
    assert (answer.counts["failed_found"], answer.counts["stable"]) == (1, 2)
    assert answer.final["failed_found"] == 1
    (found,) = answer.found("failed_found")
    assert (found["value"], found["type"], found["read_complete_index"]) == (2, "fail", 5)


def test_a_value_that_is_added_again_is_bad_input(tmp_path: Path) -> None:
    # set-full: lost after the first read, then stable, and valid: the loss is forgotten.
    with pytest.raises(HistoryError, match="the value 1 is added twice"):
        history(tmp_path, timed(add(1), read(), add(1), read(1)))


def test_what_was_acknowledged_after_the_last_read_began_is_not_lost(tmp_path: Path) -> None:
    # set: lost-count 1, invalid. set-full: valid, stable-count 1, never-read-count 1.
    answer = said(tmp_path, add(1), begin_read(), add(2), end_read(1))
    final = {"attempted": 2, "acknowledged": 2, "survivors": 1, "not_yet_visible": 1}
    assert answer.final == final
    assert (answer.judged.verdict, answer.doubts) == ("unknown", ["not_yet_visible"])
    assert (answer.counts["never_read"], answer.counts["never_read_acknowledged"]) == (1, 1)
    assert [row["value"] for row in answer.found("never_read")] == [2]


def test_the_last_read_is_one_that_began_after_all_adds(tmp_path: Path) -> None:
    # set: reads 1 alone, since that read completed last: lost-count 1.
    slow, quick = 8, 9
    slow_read = begin_read(slow), end_read(1, process=slow)
    quick_read = read(1, 2, process=quick)
    answer = said(tmp_path, add(1), slow_read[0], add(2), quick_read, slow_read[1])
    assert answer.final == {"attempted": 2, "acknowledged": 2, "survivors": 2}
    assert answer.judged.verdict == "valid"


@pytest.mark.parametrize(("step_ns", "stale_ms"), [(300_000, 0.3), (2_000_000, 2.0)])
def test_stale_for_less_than_a_millisecond_is_stale(
    tmp_path: Path, step_ns: int, stale_ms: float
) -> None:
    # set-full: 0.3 ms are 0 ms, and so stale-count 0; of 2 ms they are 2 and stale-count 1.
    ops = timed(add(1), read(), read(1), step_ns=step_ns)
    tally = judge(history(tmp_path, ops)).tally
    assert tally.counts["stale"] == 1
    assert quantiles_ns(tally.stable_ns)["1"] == stale_ms * MS + 1


def test_a_read_before_the_add_began_is_an_error(tmp_path: Path) -> None:
    # set and set-full: valid; set takes it for an attempt, set-full passes over the first read.
    answer = said(tmp_path, read(1), add(1), read(1))
    assert answer.counter_examples == ["read_before_add"]
    assert answer.counts["read_before_add"] == 1
    (found,) = answer.found("read_before_add")
    assert (found["value"], found["read_complete_index"], found["invoke_index"]) == (1, 1, 2)


def test_a_set_in_which_nothing_was_acknowledged_is_unknown(tmp_path: Path) -> None:
    # set: valid.
    answer = said(tmp_path, add(1, "info"), read())
    assert (answer.judged.verdict, answer.doubts) == ("unknown", ["vacuous"])


def test_a_late_completion_does_not_make_an_element_unread(tmp_path: Path) -> None:
    # As set-full: a read that completed before the add began does not count against the element,
    # even if it began after the read that has it.
    slow, quick = 8, 9
    answer = said(
        tmp_path,
        begin_read(slow),
        read(process=quick),
        begin_add(1),
        end_read(1, process=slow),
        end_add(1),
    )
    assert answer.counts == {"attempted": 1, "acknowledged": 1, "stable": 1}
