"""Each anomaly where it is, and none where nothing is wrong; differences from Jepsen; options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.errors import HistoryError
from tests.checkers.transactional_log.ops import (
    MS,
    Op,
    assign,
    names,
    op,
    poll,
    said,
    send,
    subscribe,
    timed,
)

A, B, C, D = ((n, 10 + n) for n in range(4))
"""Records of a log: offset and value."""


def sends(*records: tuple[int, int], key: str = "0", process: int = 0) -> list[Op]:
    return op(process, *(send(key, value, offset) for offset, value in records), f="send")


def polls(*records: tuple[int, int], key: str = "0", process: int = 5, end: str = "ok") -> list[Op]:
    return op(process, poll(**{key: records}), end=end, f="poll")


LOST = (sends(A), sends(B), sends(C), polls(A), polls(C, process=6))
FOUND: dict[str, tuple[list[Op], ...]] = {
    "lost-write": LOST,
    "unseen": (sends(A), sends(B), polls(A)),
    "G1a": (op(0, send("0", 10), end="fail"), sends(B), polls(A, B)),
    "unexpected": (sends(A), polls(A, (1, 99))),
    "inconsistent-offsets": (sends(A), sends((0, 20), process=1), polls(A), polls((0, 20))),
    "duplicate": (sends(A), sends(B), polls(A, B, (2, 10))),
    "precommitted-read": (op(0, send("0", 10, 0), poll(**{"0": [A]})),),
    "torn-transaction": (
        op(0, send("0", 10, 0), send("1", 20, 0)),
        sends((1, 21), key="1"),
        polls(A),
        polls((1, 21), key="1"),
    ),
    "poll-skip": (sends(A, B, C), polls(A, B, C, process=6), polls(A), polls(C)),
    "nonmonotonic-poll": (sends(A, B), polls(A, B), polls(B)),
    "int-poll-skip": (sends(A, B, C), polls(A, B, C, process=6), polls(A, C)),
    "int-nonmonotonic-poll": (sends(A, B), polls(A, B, process=6), polls(B, A)),
    "nonmonotonic-send": (sends(B), sends(A), polls(A, B)),
    "int-nonmonotonic-send": (sends(B, A), polls(A, B)),
    "G1c": (
        op(0, send("0", 10, 0), poll(**{"1": [[0, 20]]})),
        op(1, send("1", 20, 0), poll(**{"0": [A]})),
    ),
    "G1c-realtime": (polls(A), sends(A)),
}
TOLERATED: dict[str, tuple[list[Op], ...]] = {
    "int-send-skip": (sends(A, C), sends(B, process=1), polls(A, B, C)),
    "G0": (
        op(0, send("0", 10, 0), send("1", 20, 1)),
        op(1, send("0", 11, 1), send("1", 21, 0)),
        polls(A, B),
        polls((0, 21), (1, 20), key="1"),
    ),
}


@pytest.mark.parametrize("kind", FOUND)
def test_each_is_found(kind: str, tmp_path: Path) -> None:
    result = said(tmp_path, timed(*FOUND[kind]))
    assert result["verdict"] == "invalid"
    assert kind in names(result)
    assert result["counts"][kind] == 1


@pytest.mark.parametrize("kind", TOLERATED)
def test_what_no_log_promises_is_reported_and_no_error(kind: str, tmp_path: Path) -> None:
    result = said(tmp_path, timed(*TOLERATED[kind]))
    assert (result["verdict"], result["counts"][kind]) == ("valid", 1)
    assert result["checks"][0]["details"]["tolerated"] == sorted({kind, "G0"})


def test_nothing_is_found_where_nothing_is_wrong(tmp_path: Path) -> None:
    ops = timed(
        assign(5, "0", "1"),
        op(0, send("0", 10, 0), send("1", 20, 0)),
        op(0, send("0", 11, 2), send("1", 21, 5), end="info"),
        op(1, send("0", 99, 3), end="fail"),
        op(5, poll(**{"0": [[0, 10]], "1": [[0, 20]]}), f="poll"),
        op(5, poll(**{"0": [[2, 11]], "1": [[5, 21]]}), f="poll", end="fail"),
        op(5, poll(**{"0": [[2, 11]], "1": [[5, 21]]}), f="poll"),
    )
    result = said(tmp_path, ops)
    assert (result["verdict"], names(result)) == ("valid", set())
    assert result["reason"] == "all 2 acknowledged values were polled"
    assert (result["counts"]["attempted"], result["counts"]["acknowledged"]) == (5, 2)


@pytest.mark.parametrize(
    "ops", [(), (sends(A),), (polls(),), (op(0, send("0", 1), end="fail"), polls())], ids=len
)
def test_what_tested_nothing_is_not_valid(ops: tuple[list[Op], ...], tmp_path: Path) -> None:
    result = said(tmp_path, timed(assign(0, "0"), *ops))
    assert result["verdict"] in ("unknown", "invalid")
    assert "vacuous" in result["doubts"]


def test_an_acknowledged_send_without_an_offset_is_lost_once_polls_went_past_it(
    tmp_path: Path,
) -> None:
    """Jepsen calls it unseen."""
    passed = timed(op(0, send("0", 10)), sends((1, 11)), polls((1, 11)))
    assert names(said(tmp_path, passed)) == {"lost-write", "unseen"}
    together = timed(sends((1, 11), process=1), op(0, send("0", 10)), polls((1, 11)))
    assert names(said(tmp_path, together)) == {"unseen"}


def test_a_value_of_unknown_outcome_is_not_unseen(tmp_path: Path) -> None:
    """Jepsen calls a value unseen that the last operation polls first and nobody acknowledged."""
    ops = timed(sends(A, key="1"), polls(A, key="1"), op(0, send("0", 11), end="info"), polls(B))
    assert said(tmp_path, ops)["verdict"] == "valid"


def test_a_poll_that_returns_nothing_keeps_the_position(tmp_path: Path) -> None:
    """Jepsen forgets it, and misses the skip."""
    ops = timed(sends(A, B, C), polls(A, B, C, process=6), polls(A), polls(), polls(C))
    assert names(said(tmp_path, ops)) == {"poll-skip"}


def test_what_was_never_sent_is_an_error(tmp_path: Path) -> None:
    """Jepsen's checker breaks off with an exception."""
    result = said(tmp_path, timed(*FOUND["unexpected"]))
    assert names(result) == {"unexpected"}


@pytest.mark.parametrize("choose", [assign, subscribe])
def test_an_assignment_forgets_the_positions_of_other_keys(choose: Any, tmp_path: Path) -> None:
    before, after = (sends(A, B), polls(A, B)), (polls(B),)
    elsewhere = timed(*before, choose(5, "1"), *after)
    assert said(tmp_path, elsewhere)["verdict"] == "valid"
    for kept in (choose(5, "0", "1"), choose(5, "1", end="fail"), choose(6, "1")):
        result = said(tmp_path, timed(*before, kept, *after))
        assert names(result) == {"nonmonotonic-poll"}


@pytest.mark.parametrize("end", ["fail", "info"])
def test_a_poll_that_is_not_ok_is_compared_and_moves_no_position(end: str, tmp_path: Path) -> None:
    log = (sends(A, B, C), polls(A, B, C, process=6), polls(A))
    again = timed(*log, polls(B, end=end), polls(B))
    assert said(tmp_path, again)["verdict"] == "valid"
    on = timed(*log, polls(B, end=end), polls(C))
    assert said(tmp_path, on)["counts"]["poll-skip"] == 1
    skipped = timed(*log, polls(C, end=end))
    assert said(tmp_path, skipped)["counts"]["poll-skip"] == 1


def test_an_assignment_of_unknown_outcome_counts_as_one(tmp_path: Path) -> None:
    ops = timed(sends(A, B), polls(A, B), assign(5, "1", end="info"), polls(B))
    assert said(tmp_path, ops)["verdict"] == "valid"


def test_offsets_of_what_may_not_have_committed_say_nothing(tmp_path: Path) -> None:
    maybe = op(1, send("0", 20, 0), end="info")
    assert said(tmp_path, timed(maybe, sends(A), polls(A)))["verdict"] == "valid"
    proven = said(tmp_path, timed(maybe, sends(A), polls(A, (1, 20))))
    assert names(proven) == {"inconsistent-offsets", "duplicate"}


def test_a_rebalance_within_an_operation_excuses_its_keys(tmp_path: Path) -> None:
    micro = poll(**{"0": [B, A], "1": [[1, 21], [0, 20]]})
    log = {"rebalance-log": [{"keys": ["1"]}]}
    ops = timed(sends(A, B), sends((0, 20), (1, 21), key="1"), op(5, micro, **log))
    result = said(tmp_path, ops)
    assert result["counts"]["int-nonmonotonic-poll"] == 1
    (row,) = [each for each in found(tmp_path, ops) if each["kind"] == "int-nonmonotonic-poll"]
    assert (row["key"], row["other_value"], row["value"], row["delta"]) == ("0", "11", "10", -1)


def test_options_decide_what_is_an_error(tmp_path: Path) -> None:
    skip = timed(*FOUND["poll-skip"])
    assert said(tmp_path, skip, sub_via="subscribe")["verdict"] == "valid"
    unseen = timed(*FOUND["unseen"])
    result = said(tmp_path, unseen, unseen="doubt")
    assert (result["verdict"], result["doubts"]) == ("unknown", ["not_yet_visible"])
    assert said(tmp_path, timed(*LOST), unseen="doubt")["verdict"] == "invalid"


def consumed(*ends: str, f: Any = subscribe) -> list[Op]:
    """Two processes of a group take the same input in transactions that end so, and one goes on."""
    taken = [
        op(6 + n, poll(**{"0": [A]}), send("1", 20 + n, n), end=end) for n, end in enumerate(ends)
    ]
    results = [(n, 20 + n) for n, end in enumerate(ends) if end == "ok"]
    on = op(8, poll(**{"0": [B]}), send("1", 30, 9))
    return timed(
        sends(A, B),
        polls(A, B),
        *(f(process, "0") for process in (6, 7, 8)),
        *taken,
        on,
        polls(*results, (9, 30), key="1"),
    )


def test_transactions_consume_each_input_once(tmp_path: Path) -> None:
    once = said(tmp_path, consumed("fail", "ok"), exactly_once="true")
    assert (once["verdict"], names(once)) == ("valid", set())
    twice = said(tmp_path, consumed("ok", "ok"), exactly_once="true")
    assert names(twice) == {"output-without-offsets"}
    never = said(tmp_path, consumed("fail", "fail"), exactly_once="true")
    assert names(never) == {"offsets-without-output"}
    unknown = said(tmp_path, consumed("info", "fail"), exactly_once="true")
    assert names(unknown) == set()


def test_without_the_option_or_a_group_that_is_no_error(tmp_path: Path) -> None:
    twice = said(tmp_path, consumed("ok", "ok"))
    assert (twice["verdict"], twice["counts"]["output-without-offsets"]) == ("valid", 1)
    assigned = said(tmp_path, consumed("ok", "ok", f=assign), exactly_once="true")
    assert assigned["counts"]["output-without-offsets"] == 0


@pytest.mark.parametrize("key", ["01", "-0", "00", "٣", "+1", "9" * 5_000, str(2**62)])
def test_a_key_is_a_number_only_in_the_way_in_which_json_writes_it(
    key: str, tmp_path: Path
) -> None:
    number = {"01": "1", "-0": "0", "00": "0", "٣": "3", "+1": "1"}.get(key, "7")
    one = op(0, send(key, 1, 0)), op(0, poll(**{key: [(0, 1)]}), f="poll")
    other = op(1, send(int(number), 2, 0)), op(1, poll(**{number: [(0, 2)]}), f="poll")
    document = said(tmp_path, timed(*one, *other))
    assert (document["verdict"], document["counter_examples"]) == ("valid", [])


def test_texts_are_keys_and_values_as_well(tmp_path: Path) -> None:
    ops = timed(
        op(0, send("x", "a", 0), f="send"),
        op(0, send("x", "b", 1), f="send"),
        op(5, poll(x=[[1, "b"]]), f="poll"),
    )
    (lost,) = [each for each in found(tmp_path, ops) if each["kind"] == "lost-write"]
    assert (lost["key"], lost["value"], lost["index"]) == ("x", "a", 1)


def test_an_operation_counts_once_whatever_number_of_keys_show_it(tmp_path: Path) -> None:
    own = poll(**{"0": [A], "1": [(0, 20)]})
    ops = timed(op(0, send("0", 10, 0), send("1", 20, 0), own))
    assert said(tmp_path, ops)["counts"]["precommitted-read"] == 1


def test_what_never_completed_is_of_unknown_outcome(tmp_path: Path) -> None:
    begun = [op(0, send("0", 10))[0]]
    assert said(tmp_path, timed(begun, sends(B, process=1), polls(A, B)))["verdict"] == "valid"


def test_findings_name_both_operations(tmp_path: Path) -> None:
    (row,) = found(tmp_path, timed(*FOUND["poll-skip"]))
    assert row["kind"] == "poll-skip"
    assert (row["index"], row["other_index"], row["process"]) == (7, 5, 5)
    assert (row["delta"], row["time_ns"], row["tolerated"]) == (2, 7 * MS, False)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ([["send", "0"]], "a micro-operation is"),
        ([["append", "0", 1]], "a micro-operation is"),
        ({"0": 1}, "is not a list"),
        ([["poll", {"0": [[1]]}]], r"is not \[offset, value\]"),
        ([["send", "0", [-3, 1]]], "is not an offset"),
        ([["send", "0", [2**62, 1]]], "is not an offset"),
        ([["send", "0", True]], "neither an integer nor a text"),
        ([["send", "0", 2**62]], "neither an integer nor a text"),
    ],
)
def test_what_is_no_micro_operation_is_refused(value: Any, what: str, tmp_path: Path) -> None:
    ops = [{"process": 0, "type": "ok", "f": "txn", "value": value}]
    with pytest.raises(HistoryError, match=what) as caught:
        said(tmp_path, ops)
    assert (caught.value.file, caught.value.key) == (f"{tmp_path}/history.jsonl:1", "value")


def test_a_value_that_is_sent_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"sent to one key twice: .* operation 3"):
        said(tmp_path, timed(sends(A), sends((1, 10))))
    assert said(tmp_path, timed(sends(A), sends(A, key="1")))["verdict"] == "invalid"


def found(folder: Path, ops: list[Op]) -> list[dict[str, Any]]:
    """The rows of the findings."""
    from checkers.judging.outside import convert
    from checkers.transactional_log import TransactionalLog
    from harness.history.rows import Rows
    from tests.checkers.transactional_log.ops import written

    run = Rows(convert(written(folder, ops), folder, "transaction"))
    checker = TransactionalLog()
    result = checker.merge(run, [checker.check(run, each) for each in checker.shards(run)])
    assert result.findings is not None
    rows: list[dict[str, Any]] = result.findings.to_pylist()
    return rows
