"""Rows of a run of our own: the same columns, from Parquet that no reader of files has written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from checkers.judging.one_run import checker_of, examine
from harness.history import HISTORY
from harness.history.parquet_writer import ParquetWriter
from harness.models.micro_ops import (
    ABORT,
    ASSIGNED,
    DISCARDED,
    END,
    FENCE,
    POLL,
    SEND,
    STORED,
    UNCOMMITTED,
    WHOLE,
)
from harness.protocols import NULL, CheckResult, Facts, Promises

Row = tuple[int, str, str, list[int] | None]

ROWS: list[Row] = [
    (9, "invoke", "assign", [ASSIGNED, 3, NULL, NULL]),
    (9, "ok", "assign", [ASSIGNED, 3, NULL, NULL]),
    (0, "invoke", "txn", None),
    (0, "ok", "txn", [SEND, 3, 0, 70, SEND, 3, 1, 71]),
    (1, "invoke", "txn", [SEND, 3, NULL, 72]),
    (1, "info", "txn", None),
    (9, "invoke", "poll", None),
    (9, "ok", "poll", [POLL, 3, 0, 70, POLL, 3, 1, 71, POLL, 3, 2, 72]),
]


def judged(
    folder: Path, rows: list[Row], *, stored: bool = False, sub_via: str = "assign"
) -> CheckResult:
    """`stored`: in a run folder."""
    history = folder / "history"
    history.mkdir()
    process, kind, f, elements = zip(*rows, strict=True)
    places = np.arange(len(rows), dtype=np.int64)
    with ParquetWriter(history, HISTORY, run_id="run") as parts:
        columns = {
            "index": places,
            "process": np.array(process, np.int32),
            "type": pa.array(kind).dictionary_encode(),
            "f": pa.array(f).dictionary_encode(),
            "elements": pa.array(elements, pa.list_(pa.int64())),
            "intended_ns": places,
            "time_ns": places,
        }
        parts.write(pa.table(columns))
    facts = Facts(
        run_id="run",
        folder=folder if stored else None,
        history=tuple(history.glob("part-*.parquet")),
        reads=(),
        ends=(),
        promises=Promises(model="transaction"),
    )
    checks = {"kafka": checker_of("kafka", {"sub_via": sub_via})}
    result: CheckResult = examine(facts, checks).results["kafka"]
    return result


def test_a_run_without_anomalies(tmp_path: Path) -> None:
    """What was sent by an operation whose client raised is in its invocation."""
    result = judged(tmp_path, ROWS)
    assert (result.counter_examples, result.doubts) == ((), ())
    assert (result.counts["attempted"], result.counts["acknowledged"]) == (3, 2)


def test_a_run_that_lost_a_write(tmp_path: Path) -> None:
    lost = [*ROWS[:-1], (9, "ok", "poll", [POLL, 3, 0, 70, POLL, 3, 2, 72])]
    result = judged(tmp_path, lost)
    assert [each.name for each in result.counter_examples] == [
        *("lost-write", "torn-transaction", "unseen", "int-poll-skip")
    ]
    assert result.findings is not None
    rows = (
        result.findings.read_all()
        if not isinstance(result.findings, pa.Table)
        else (result.findings)
    )
    assert {(row["key"], row["value"]) for row in rows.to_pylist()} == {("3", "71"), ("3", "72")}


LIVE: list[Row] = [
    (0, "invoke", "txn", [SEND, 3, NULL, 70, SEND, 4, NULL, 71]),
    (0, "ok", "txn", [SEND, 3, 0, 70, SEND, 4, 0, 71]),
    (0, "invoke", "txn", [SEND, 3, NULL, 72, ABORT, NULL, NULL, NULL]),
    (0, "fail", "txn", None),
    (1, "invoke", "poll", [END, 3, NULL, NULL]),
    (1, "ok", "poll", [POLL, 3, 0, 70, END, 3, 2, NULL]),
    (2, "invoke", "poll", [END, 4, NULL, NULL]),
]


STORED_3 = [STORED, 3, 0, 70, DISCARDED, 3, 1, 72, WHOLE, 3, 2, NULL]
POLLED_4 = [POLL, 4, 0, 71, END, 4, 2, NULL]
STORED_4 = [STORED, 4, 0, 71, WHOLE, 4, 2, NULL]


def finally_read(polled_4: list[int] | None, stored_4: list[int] | None) -> list[Row]:
    """The history with what both readers found in log 4; `None`: the reader failed."""
    reads = {"poll": polled_4, "read-log": [*STORED_3, *stored_4] if stored_4 else None}
    ended: list[Row] = [(2, "ok" if found else "fail", f, found) for f, found in reads.items()]
    return [*LIVE, ended[0], (2, "invoke", "read-log", [WHOLE, 3, NULL, NULL]), ended[1]]


def test_logs_that_were_read_to_their_ends_say_all(tmp_path: Path) -> None:
    result = judged(tmp_path, finally_read(POLLED_4, STORED_4), stored=True)
    assert (result.counter_examples, result.doubts) == ((), ())
    assert (result.counts["attempted"], result.counts["failed"]) == (3, 1)
    second = result.details["second_reader"]
    assert second["acknowledged"] == {"committed": 2, "aborted": 0, "absent": 0, "unread": 0}
    assert second["failed"]["aborted"] == 1


@pytest.mark.parametrize(
    ("stored", "state"),
    [
        ([WHOLE, 4, 2, NULL], "absent"),
        ([DISCARDED, 4, 0, 71, WHOLE, 4, 2, NULL], "aborted"),
    ],
)
def test_an_unseen_value_is_lost_where_two_readers_say_so(
    tmp_path: Path, stored: list[int], state: str
) -> None:
    result = judged(tmp_path, finally_read([END, 4, 2, NULL], stored), stored=True)
    assert [each.name for each in result.counter_examples] == ["unseen"]
    assert result.doubts == ()
    assert result.details["second_reader"]["acknowledged"][state] == 1


def test_a_value_that_a_second_reader_finds_is_not_lost(tmp_path: Path) -> None:
    """Whatever the reader whose polls are judged says: nobody knows which of them is right."""
    result = judged(tmp_path, finally_read([END, 4, 2, NULL], STORED_4), stored=True)
    assert result.counter_examples == ()
    assert [each.name for each in result.doubts] == ["readers"]
    assert result.counts["unseen"] == 1
    assert isinstance(result.findings, pa.Table)
    assert result.findings["tolerated"].to_pylist() == [True]


def test_a_record_that_only_the_second_reader_has_is_a_doubt(tmp_path: Path) -> None:
    for name, more in {"known": [STORED, 4, 1, 72], "strange": [STORED, 4, 1, -7]}.items():
        (folder := tmp_path / name).mkdir()
        rows = finally_read(POLLED_4, [*more, *STORED_4])
        result = judged(folder, rows, stored=True)
        assert (result.counter_examples, len(result.doubts)) == ((), 1)
        assert "differ in what committed, in 1 values" in result.doubts[0].sentence


@pytest.mark.parametrize(
    ("polled", "stored"), [(None, [WHOLE, 4, 2, NULL]), ([END, 4, 2, NULL], None)]
)
def test_an_unseen_value_of_a_log_that_one_reader_did_not_read_may_be_late(
    tmp_path: Path, polled: list[int] | None, stored: list[int] | None
) -> None:
    result = judged(tmp_path, finally_read(polled, stored), stored=True)
    assert result.counter_examples == ()
    assert [each.name for each in result.doubts] == ["incomplete"]
    assert "no read met the end of logs" in result.doubts[0].sentence
    assert result.counts["unseen"] == 1


def test_a_lost_write_needs_the_second_reader_too(tmp_path: Path) -> None:
    """One that polls went past."""
    begun: list[Row] = [
        (0, "invoke", "txn", [SEND, 4, NULL, 71]),
        (0, "ok", "txn", [SEND, 4, 0, 71]),
        (0, "invoke", "txn", [SEND, 4, NULL, 72]),
        (0, "ok", "txn", [SEND, 4, 1, 72]),
        (1, "invoke", "poll", [END, 4, NULL, NULL]),
        (1, "ok", "poll", [POLL, 4, 1, 72, END, 4, 2, NULL]),
        (1, "invoke", "read-log", [WHOLE, 4, NULL, NULL]),
    ]
    second = [STORED, 4, 1, 72, WHOLE, 4, 2, NULL]
    for name, more, lost in (("gone", [], True), ("there", [STORED, 4, 0, 71], False)):
        (folder := tmp_path / name).mkdir()
        result = judged(folder, [*begun, (1, "ok", "read-log", [*more, *second])], stored=True)
        names = {each.name for each in result.counter_examples}
        assert names == ({"lost-write", "unseen"} if lost else set())
        assert result.counts["lost-write"] == 1


def test_aborted_values_count_where_a_reader_was_to_get_what_committed(tmp_path: Path) -> None:
    for name, kind, names in (("both", UNCOMMITTED, []), ("one", POLL, ["G1a"])):
        folder = tmp_path / name
        folder.mkdir()
        on_the_way: list[Row] = [
            (5, "invoke", "poll", [UNCOMMITTED, NULL, NULL, NULL]),
            (5, "ok", "poll", [POLL, 3, 0, 70, kind, 3, 1, 72]),
        ]
        rows = [*LIVE[:4], *on_the_way, *finally_read(POLLED_4, STORED_4)[4:]]
        result = judged(folder, rows, stored=True)
        assert [each.name for each in result.counter_examples] == names
        assert result.doubts == ()
        assert result.counts["G1a"] == len(names)
        assert result.counts["dirty-read"] == 1 - len(names)
        assert result.counts["polled_uncommitted"] == 1 - len(names)


def test_a_poll_of_what_is_not_committed_shows_no_commit(tmp_path: Path) -> None:
    """What is left of a transaction that nobody knows the outcome of is not torn."""
    for kind, names in {POLL: {"lost-write", "torn-transaction"}, UNCOMMITTED: set()}.items():
        rows: list[Row] = [
            *LIVE[:2],
            (5, "invoke", "txn", [SEND, 3, NULL, 80, SEND, 4, NULL, 81]),
            (5, "info", "txn", [SEND, 3, 1, 80, SEND, 4, 1, 81]),
            (6, "invoke", "txn", [SEND, 4, NULL, 90]),
            (6, "ok", "txn", [SEND, 4, 2, 90]),
            (1, "invoke", "poll", None),
            (1, "ok", "poll", [POLL, 3, 0, 70, kind, 3, 1, 80, POLL, 4, 0, 71, POLL, 4, 2, 90]),
        ]
        folder = tmp_path / str(kind)
        folder.mkdir()
        result = judged(folder, rows)
        found = {each.name for each in result.counter_examples}
        assert found & {"lost-write", "torn-transaction"} == names


POLL_ALL: Row = (5, "invoke", "poll", [UNCOMMITTED, NULL, NULL, NULL])
ABORTED: list[Row] = [
    (0, "invoke", "txn", [SEND, 3, NULL, 70]),
    (0, "ok", "txn", [SEND, 3, 0, 70]),
    (0, "invoke", "txn", [SEND, 3, NULL, 71, ABORT, NULL, NULL, NULL]),
    (0, "fail", "txn", None),
    (0, "invoke", "txn", [SEND, 3, NULL, 72]),
    (0, "ok", "txn", [SEND, 3, 2, 72]),
]
LOG = [STORED, 3, 0, 70, DISCARDED, 3, 1, 71, STORED, 3, 2, 72]
ENDS: list[Row] = [
    (1, "invoke", "poll", [END, 3, NULL, NULL]),
    (1, "ok", "poll", [POLL, 3, 0, 70, POLL, 3, 2, 72, END, 3, 4, NULL]),
    (1, "invoke", "read-log", [WHOLE, 3, NULL, NULL]),
    (
        1,
        "ok",
        "read-log",
        [STORED, 3, 0, 70, DISCARDED, 3, 1, 71, STORED, 3, 2, 72, WHOLE, 3, 4, NULL],
    ),
]


def test_aborted_values_have_places_for_readers_of_everything_alone(tmp_path: Path) -> None:
    """The reader of what committed goes from the first value to the third, and skips nothing."""
    everything = [UNCOMMITTED, 3, 0, 70, UNCOMMITTED, 3, 1, 71, UNCOMMITTED, 3, 2, 72]
    rows: list[Row] = [
        *ABORTED,
        POLL_ALL,
        (5, "ok", "poll", everything),
        (6, "invoke", "poll", None),
        (6, "ok", "poll", [POLL, 3, 0, 70, POLL, 3, 2, 72]),
        *ENDS,
    ]
    result = judged(tmp_path, rows, stored=True)
    assert (result.counter_examples, result.doubts) == ((), ())
    assert (result.counts["dirty-read"], result.counts["polled_uncommitted"]) == (1, 3)


@pytest.mark.parametrize(
    ("polls", "names"),
    [
        ([[0, 70, 1, 71, 2, 72]], set()),
        ([[0, 70], [1, 71, 2, 72]], set()),
        ([[0, 70, 2, 72]], {"int-poll-skip"}),
        ([[0, 70], [2, 72]], {"poll-skip"}),
        ([[0, 70, 2, 72, 1, 71]], {"int-poll-skip", "int-nonmonotonic-poll"}),
        ([[0, 70, 1, 71], [1, 71]], {"nonmonotonic-poll"}),
        ([[0, 70, 1, 71, 1, 70]], {"duplicate", "inconsistent-offsets"}),
        ([[0, 70, 1, 71, 3, 9]], {"unexpected", "int-poll-skip"}),
        ([[0, 70, 2, 71]], {"inconsistent-offsets"}),
        ([[1, 70]], {"duplicate"}),
    ],
)
def test_readers_of_everything_are_not_to_skip_move_or_invent(
    tmp_path: Path, polls: list[list[int]], names: set[str]
) -> None:
    """One such reader, beside one that gets what committed: the second reader shows what there is
    besides."""
    rows: list[Row] = [*ABORTED]
    rows += [(6, "invoke", "poll", None), (6, "ok", "poll", [POLL, 3, 0, 70, POLL, 3, 2, 72])]
    for poll in polls:
        pairs = zip(poll[::2], poll[1::2], strict=True)
        micro = [each for offset, value in pairs for each in (UNCOMMITTED, 3, offset, value)]
        rows += [POLL_ALL, (5, "ok", "poll", micro)]
    result = judged(tmp_path, [*rows, *ENDS], stored=True)
    assert {each.name for each in result.counter_examples} == names


def test_a_value_has_one_offset_for_readers_of_both_levels(tmp_path: Path) -> None:
    """Of an operation whose outcome is not known, so that no send shows it."""
    rows: list[Row] = [
        *ABORTED[:2],
        (2, "invoke", "txn", [SEND, 3, NULL, 75]),
        (2, "info", "txn", None),
        POLL_ALL,
        (5, "ok", "poll", [UNCOMMITTED, 3, 0, 70, UNCOMMITTED, 3, 5, 75]),
        (1, "invoke", "poll", [END, 3, NULL, NULL]),
        (1, "ok", "poll", [POLL, 3, 0, 70, POLL, 3, 7, 75, END, 3, 8, NULL]),
        (1, "invoke", "read-log", [WHOLE, 3, NULL, NULL]),
        (1, "ok", "read-log", [STORED, 3, 0, 70, STORED, 3, 7, 75, WHOLE, 3, 8, NULL]),
    ]
    result = judged(tmp_path, rows, stored=True)
    assert "duplicate" in {each.name for each in result.counter_examples}


def test_readers_of_everything_that_get_nothing_show_nothing(tmp_path: Path) -> None:
    rows: list[Row] = [*ABORTED, POLL_ALL, (5, "ok", "poll", None), *ENDS]
    result = judged(tmp_path, rows, stored=True)
    assert [each.name for each in result.doubts] == ["vacuous"]
    assert "no poll of read_uncommitted returned anything" in result.doubts[0].sentence


@pytest.mark.parametrize("kind", [POLL, UNCOMMITTED])
@pytest.mark.parametrize("subscribes", [False, True])
def test_skips_are_excused_of_processes_that_subscribe_alone(
    tmp_path: Path, kind: int, subscribes: bool
) -> None:
    choice: list[Row] = [
        (5, "invoke", "subscribe", [ASSIGNED, 3, NULL, NULL]),
        (5, "ok", "subscribe", [ASSIGNED, 3, NULL, NULL]),
    ]
    rows: list[Row] = [
        *ABORTED,
        (0, "invoke", "txn", [SEND, 3, NULL, 73]),
        (0, "ok", "txn", [SEND, 3, 3, 73]),
        *(choice if subscribes else []),
        (5, "invoke", "poll", None),
        (5, "ok", "poll", [kind, 3, 0, 70]),
        (5, "invoke", "poll", None),
        (5, "ok", "poll", [kind, 3, 3, 73]),
        (1, "invoke", "poll", [END, 3, NULL, NULL]),
        (1, "ok", "poll", [POLL, 3, 0, 70, POLL, 3, 2, 72, POLL, 3, 3, 73, END, 3, 4, NULL]),
        (1, "invoke", "read-log", [WHOLE, 3, NULL, NULL]),
        (1, "ok", "read-log", [*LOG, STORED, 3, 3, 73, WHOLE, 3, 4, NULL]),
    ]
    for sub_via, found in {"assign": True, "subscribe": not subscribes}.items():
        folder = tmp_path / sub_via
        folder.mkdir()
        result = judged(folder, rows, stored=True, sub_via=sub_via)
        names = [each.name for each in result.counter_examples]
        assert names == (["poll-skip"] if found else [])
        assert result.counts["poll-skip"] == 1


def taken_back(kind: int, outcome: str, second: list[int]) -> list[Row]:
    """A value that was polled, and that no final read returns."""
    return [
        *ABORTED[:2],
        (0, "invoke", "txn", [SEND, 3, NULL, 75]),
        (0, outcome, "txn", [SEND, 3, 1, 75]),
        (6, "invoke", "poll", None),
        (6, "ok", "poll", [kind, 3, 0, 70, kind, 3, 1, 75]),
        (1, "invoke", "poll", [END, 3, NULL, NULL]),
        (1, "ok", "poll", [POLL, 3, 0, 70, END, 3, 4, NULL]),
        (1, "invoke", "read-log", [WHOLE, 3, NULL, NULL]),
        (1, "ok", "read-log", [STORED, 3, 0, 70, *second, WHOLE, 3, 4, NULL]),
    ]


@pytest.mark.parametrize(
    ("kind", "outcome", "second", "names"),
    [
        (POLL, "ok", [], ["lost-after-poll"]),
        (POLL, "ok", [DISCARDED, 3, 1, 75], ["lost-after-poll"]),
        (POLL, "ok", [STORED, 3, 1, 75], []),
        (UNCOMMITTED, "ok", [], ["unseen"]),
        (POLL, "info", [], ["phantom"]),
        (POLL, "info", [DISCARDED, 3, 1, 75], ["phantom"]),
        (UNCOMMITTED, "info", [], ["phantom"]),
        (UNCOMMITTED, "info", [DISCARDED, 3, 1, 75], []),
        (UNCOMMITTED, "fail", [], ["phantom"]),
        (POLL, "fail", [DISCARDED, 3, 1, 75], ["G1a"]),
    ],
)
def test_what_was_polled_and_is_not_in_the_log_was_taken_back(
    tmp_path: Path, kind: int, outcome: str, second: list[int], names: list[str]
) -> None:
    result = judged(tmp_path, taken_back(kind, outcome, second), stored=True)
    assert [each.name for each in result.counter_examples] == names
    assert [each.name for each in result.doubts] == (["readers"] if STORED in second else [])


def test_nothing_is_taken_back_by_what_one_reader_did_not_read(tmp_path: Path) -> None:
    rows = [*taken_back(POLL, "ok", [])[:-1], (1, "fail", "read-log", None)]
    result = judged(tmp_path, rows, stored=True)
    assert (result.counter_examples, result.counts["lost-after-poll"]) == ((), 0)
    assert [each.name for each in result.doubts] == ["incomplete"]


def test_a_commit_of_a_producer_that_was_taken_over_is_a_zombies(tmp_path: Path) -> None:
    """Where it was acknowledged; one that failed is a G1a where it is visible."""
    fenced = [SEND, 3, 0, 70, SEND, 3, 1, 71, FENCE, NULL, NULL, NULL]
    ended = {"ok": {"zombie-commit"}, "fail": {"G1a"}, "info": set()}
    for outcome, names in ended.items():
        (folder := tmp_path / outcome).mkdir()
        rows = [*ROWS[:3], (0, outcome, "txn", fenced), *ROWS[4:]]
        result = judged(folder, rows)
        assert {each.name for each in result.counter_examples} == names
        assert result.counts["zombie-commit"] == (outcome == "ok")
