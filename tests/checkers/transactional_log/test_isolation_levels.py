"""Polls of everything and of what committed: what each may skip, and what each shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.models.micro_ops import (
    ASSIGNED,
    DISCARDED,
    END,
    POLL,
    SEND,
    STORED,
    UNCOMMITTED,
    WHOLE,
)
from harness.protocols import NULL
from tests.checkers.transactional_log.runs import (
    ABORTED,
    LIVE,
    POLLED_4,
    STORED_4,
    Row,
    finally_read,
    judged,
)


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
