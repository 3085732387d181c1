"""Whether each input of a group was consumed once, or the group went past it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.models.micro_ops import (
    ASSIGNED,
    CONSUME,
    DISCARDED,
    END,
    POLL,
    SEND,
    STORED,
    WHOLE,
)
from harness.protocols import NULL
from tests.checkers.transactional_log.ops import Op, names, op, poll, said, send, subscribe, timed
from tests.checkers.transactional_log.runs import Row, judged

A, B, C = (0, 10), (1, 11), (2, 12)


def verdict(folder: Path, *ops: list[Op]) -> dict[str, Any]:
    return said(folder, timed(*ops), exactly_once="true", sub_via="subscribe")


def inputs(*skipped: tuple[int, int], end: str = "ok") -> list[Op]:
    """A, B and C in log 0, of which another reader polls all; `skipped` are sent so."""
    read = [pair for pair in (A, B, C) if end == "ok" or pair not in skipped]
    sent = [
        op(0, send("0", value, at), end=end if (at, value) in skipped else "ok")
        for at, value in (A, B, C)
    ]
    return [each for some in (*sent, op(5, poll(**{"0": read}))) for each in some]


def takes(process: int, at: int, *polled: tuple[int, int], end: str = "ok") -> list[Op]:
    """A transaction of a group that consumes these and sends one value."""
    return op(process, poll(**{"0": list(polled)}), send("1", 20 + at, at), end=end)


OUTPUT = op(5, poll(**{"1": [(0, 20), (2, 22)]}))
JUMPS = (subscribe(6, "0"), takes(6, 0, A), takes(6, 2, C), OUTPUT)


def test_an_input_that_a_group_jumps_over_is_found(tmp_path: Path) -> None:
    result = verdict(tmp_path, inputs(), *JUMPS)
    assert (result["verdict"], names(result)) == ("invalid", {"offsets-without-output"})
    assert (result["counts"]["offsets-without-output"], result["counts"]["consumed"]) == (1, 2)


@pytest.mark.parametrize(
    ("before", "between"),
    [
        pytest.param(inputs(), takes(7, 1, B, end="info"), id="a transaction may have committed"),
        pytest.param(inputs(), op(6, poll(**{"0": [B]})), id="consumed without an output"),
        pytest.param(
            inputs(),
            op(7, ["poll"], send("1", 21), end="info"),
            id="what a transaction polled is not known",
        ),
        pytest.param(inputs(), op(7, ["poll"])[:1], id="a poll never completed"),
        pytest.param(inputs(B, end="fail"), [], id="the input was aborted"),
        pytest.param(inputs(B, end="info"), [], id="whether the input committed is not known"),
    ],
)
def test_an_input_that_may_be_consumed_or_is_none_is_not_passed(
    tmp_path: Path, before: list[Op], between: list[Op]
) -> None:
    group = (subscribe(7, "0"), subscribe(6, "0"), takes(6, 0, A), between, takes(6, 2, C), OUTPUT)
    result = verdict(tmp_path, before, *group)
    assert (result["verdict"], names(result)) == ("valid", set())


@pytest.mark.parametrize("taken", [(A,), (B,), (C,)])
def test_inputs_before_the_first_and_behind_the_last_are_not_passed(
    tmp_path: Path, taken: tuple[tuple[int, int], ...]
) -> None:
    """A group may begin at the end of a log, and a history may end before it has consumed all."""
    output = op(5, poll(**{"1": [(0, 20)]}))
    result = verdict(tmp_path, inputs(), subscribe(6, "0"), takes(6, 0, *taken), output)
    assert (result["verdict"], names(result)) == ("valid", set())


@pytest.mark.parametrize(
    "elsewhere",
    [
        op(7, poll(**{"0": [B]}), send("1", 21), end="fail"),
        op(8, poll(**{"0": [B]}), send("1", 21), end="info"),
        op(8, ["poll"], send("1", 21), end="info"),
    ],
    ids=["its transaction failed", "not of the group", "not of the group, polled unknown"],
)
def test_what_certainly_did_not_consume_it_is_not_an_excuse(
    tmp_path: Path, elsewhere: list[Op]
) -> None:
    group = (subscribe(7, "0"), subscribe(6, "0"), takes(6, 0, A), elsewhere, takes(6, 2, C))
    assert names(verdict(tmp_path, inputs(), *group, OUTPUT)) == {"offsets-without-output"}


def test_an_operation_that_began_after_the_jump_is_not_an_excuse(tmp_path: Path) -> None:
    """Nor one that had ended before the input was sent."""
    unknown = op(7, ["poll"], send("1", 21), end="info")
    before = (subscribe(7, "0"), unknown, inputs(), subscribe(8, "0"))
    after = op(8, ["poll"], send("1", 23), end="info")
    assert names(verdict(tmp_path, *before, *JUMPS, after)) == {"offsets-without-output"}


def test_processors_of_different_logs_make_one_group(tmp_path: Path) -> None:
    shared = (subscribe(6, "0"), subscribe(7, "0"), takes(6, 0, A), takes(7, 1, B), takes(6, 2, C))
    read = op(5, poll(**{"1": [(0, 20), (1, 21), (2, 22)]}))
    result = verdict(tmp_path, inputs(), *shared, read)
    assert (result["verdict"], result["counts"]["consumed"]) == ("valid", 3)


@pytest.mark.parametrize("group", [(), (subscribe(6, "0"), takes(6, 0, A, end="fail"))])
def test_a_history_in_which_nothing_was_consumed_is_not_valid(
    tmp_path: Path, group: tuple[list[Op], ...]
) -> None:
    result = verdict(tmp_path, inputs(), *group)
    assert (result["verdict"], result["doubts"]) == ("unknown", ["vacuous"])
    assert "no transaction of a process that had subscribed consumed anything" in result["reason"]
    assert said(tmp_path, timed(inputs(), *group))["verdict"] == "valid"


def of_our_own(*transactions: Row, outputs: list[int], stored: list[int]) -> list[Row]:
    """A run with inputs 70, 71 and 72 in log 3 and a group that takes some of them; both readers
    read log 3, and these things in log 4, to their ends."""
    reads = {"poll": outputs, "read-log": stored}
    logs = {
        "poll": [POLL, 3, 0, 70, POLL, 3, 1, 71, POLL, 3, 2, 72, END, 3, 4, NULL],
        "read-log": [STORED, 3, 0, 70, STORED, 3, 1, 71, STORED, 3, 2, 72, WHOLE, 3, 4, NULL],
    }
    sent = [SEND, 3, 0, 70, SEND, 3, 1, 71, SEND, 3, 2, 72]
    completed: list[Row] = [
        (0, "ok", "txn", sent),
        (6, "ok", "subscribe", [ASSIGNED, 3, NULL, NULL]),
        *transactions,
        *((1, "ok", f, [*read, *logs[f]]) for f, read in reads.items()),
    ]
    return [row for ended in completed for row in ((ended[0], "invoke", ended[2], None), ended)]


END_4, WHOLE_4 = [END, 4, 9, NULL], [WHOLE, 4, 9, NULL]
TAKES_72: Row = (6, "ok", "txn", [CONSUME, NULL, NULL, 1, POLL, 3, 2, 72, SEND, 4, 3, 82])


def test_a_group_of_a_run_of_our_own_begins_where_its_logs_begin(tmp_path: Path) -> None:
    rows = of_our_own(
        TAKES_72, outputs=[POLL, 4, 3, 82, *END_4], stored=[STORED, 4, 3, 82, *WHOLE_4]
    )
    result = judged(tmp_path, rows, stored=True, exactly_once="true", sub_via="subscribe")
    assert [each.name for each in result.counter_examples] == ["offsets-without-output"]
    assert isinstance(result.findings, pa.Table)
    passed = result.findings.to_pylist()
    assert [(row["value"], row["index"], row["other_index"]) for row in passed] == [
        ("70", 1, 5),
        ("71", 1, 5),
    ]


@pytest.mark.parametrize(
    ("outputs", "stored", "passed"),
    [
        ([], [DISCARDED, 4, 0, 80], 2),
        ([POLL, 4, 0, 80], [STORED, 4, 0, 80], 0),
        ([], [STORED, 4, 0, 80], 0),
    ],
    ids=["both readers find it aborted", "both find it committed", "they differ"],
)
def test_a_transaction_of_unknown_outcome_may_have_consumed_unless_both_readers_deny_it(
    tmp_path: Path, outputs: list[int], stored: list[int], passed: int
) -> None:
    maybe = [CONSUME, NULL, NULL, 2, POLL, 3, 0, 70, POLL, 3, 1, 71, SEND, 4, 0, 80]
    rows = of_our_own(
        (6, "info", "txn", maybe),
        (6, "ok", "subscribe", [ASSIGNED, 3, NULL, NULL]),
        TAKES_72,
        outputs=[*outputs, POLL, 4, 3, 82, *END_4],
        stored=[*stored, STORED, 4, 3, 82, *WHOLE_4],
    )
    result = judged(tmp_path, rows, stored=True, exactly_once="true", sub_via="subscribe")
    assert result.counts["offsets-without-output"] == passed
