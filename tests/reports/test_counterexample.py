"""The drawing of a counter-example of registers: what stands left of what, and its words."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.documents import result_of
from reports.checks import COLUMN, LEFT, Drawing, drawings, views
from reports.html import _environment

MS = 1_000_000


def op(row: int, process: int, f: str, value: int | None, at: tuple[int, int | None], **more: Any):
    """An operation as result.json has it, from one millisecond to another."""
    begun, ended = at
    done = {"row": row, "process": process, "f": f, "type": "ok", "value": value, "expected": None}
    done |= {"invoke_ns": begun * MS, "complete_ns": None if ended is None else ended * MS}
    return {**done, "pending": False, "place": None, "register": None, **more}


def example(*operations: dict[str, Any], **more: Any) -> dict[str, Any]:
    found = {"key": "k1", "consistency": "linearizable", "any_start": False, "start": None}
    found |= {"minimal": True, "register": None, "stuck": -1, "operations": list(operations)}
    return {**found, **more}


def drawn(*operations: dict[str, Any], **more: Any) -> Drawing:
    (only,) = drawings({"examples": [example(*operations, **more)]})
    return only


def spans(drawing: Drawing) -> dict[int, tuple[int, int]]:
    """The first and the last column of each bar, by row."""
    return {
        bar.operation.row: (
            (bar.x - LEFT) // COLUMN,
            (bar.x + bar.width - LEFT) // COLUMN,
        )
        for bar in drawing.bars
    }


STALE = (
    op(0, 1, "write", 5, (0, 10), place=0, register=5),
    op(1, 2, "cas", 7, (20, 500), expected=5, place=1, register=7),
    op(2, 3, "read", 5, (600, 601)),
)


def test_what_completed_before_another_began_stands_left_of_it() -> None:
    assert spans(drawn(*STALE)) == {0: (0, 1), 1: (2, 3), 2: (4, 5)}


def test_what_overlaps_in_time_overlaps_in_the_drawing() -> None:
    first, second, third = (
        op(n, n, "write", n, at) for n, at in enumerate([(0, 9), (8, 30), (9, 31)])
    )
    columns = spans(drawn(first, second, third))
    assert columns == {0: (0, 1), 1: (0, 1), 2: (0, 1)}, "9 touches 9: they are concurrent"
    assert spans(drawn(first, op(2, 2, "write", 2, (10, 31)))) == {0: (0, 1), 2: (2, 3)}


@pytest.mark.parametrize(
    "open_", [{"type": "info"}, {"pending": True}, {"complete_ns": None, "type": "info"}]
)
def test_an_operation_that_may_take_effect_later_reaches_the_right_edge(
    open_: dict[str, Any],
) -> None:
    drawing = drawn(op(0, 1, "write", 5, (0, 1), **open_), *STALE[1:])
    (bar,) = (bar for bar in drawing.bars if bar.operation.row == 0)
    assert bar.operation.is_open
    assert bar.x + bar.width == drawing.width


def test_each_process_has_a_lane_and_its_bars_stand_on_it() -> None:
    drawing = drawn(*STALE, op(3, 1, "read", 5, (700, 701)))
    assert list(drawing.lanes) == [1, 2, 3]
    assert len(set(drawing.lanes.values())) == 3
    first, *_, last = drawing.bars
    assert first.y == last.y
    assert first.y < drawing.lanes[1] <= drawing.height


def test_the_words_name_the_order_and_what_cannot_follow() -> None:
    drawing = drawn(*STALE, stuck=2, register=7)
    labels = [bar.operation.label for bar in drawing.bars]
    assert labels == ["write 5", "cas 5 → 7", "read 5"]
    assert [bar.number for bar in drawing.bars] == ["1", "2", ""]
    assert [bar.stuck for bar in drawing.bars] == [False, False, True]
    assert drawing.example.sentence == (
        "In the order write 5, cas 5 → 7 the register holds 7; read 5 (process 3) cannot follow."
    )
    assert "process 2: cas 5 → 7" in drawing.in_words


def test_a_read_of_nothing_is_named_so() -> None:
    drawing = drawn(op(0, 1, "read", None, (0, 1)), stuck=0, key=None)
    assert drawing.bars[0].operation.label == "read nothing"
    assert drawing.example.name == "The register"
    assert drawing.example.sentence.startswith("At the start the register holds nothing; read")


def test_the_smallest_comes_first() -> None:
    few, many = example(*STALE[:2]), example(*STALE, key="k2")
    assert [len(each.bars) for each in drawings({"examples": [many, few]})] == [2, 3]
    assert drawings({}) == drawings({"examples": []}) == []


def test_one_that_may_not_be_minimal_says_so() -> None:
    assert "A smallest counter-example" in page(example(*STALE))
    words = page(example(*STALE, minimal=False))
    assert "<h3>A counter-example</h3>" in words
    assert "Some of these operations may not matter" in words
    assert "Nothing can be left out" not in words
    both = page(example(*STALE[:2]), example(*STALE, minimal=False))
    assert both.index("A smallest counter-example") < both.index("may not matter")


def page(*examples: dict[str, Any]) -> str:
    """The section of a register check with these counter-examples."""
    counts = {"attempted": 1, "acknowledged": 1}
    check = {"name": "register", "verdict": "invalid", "counts": counts}
    result = result_of(
        {
            "verdict": "invalid",
            "model": "register",
            "counts": counts,
            "checks": [{**check, "details": {"examples": examples}}],
        }
    )
    (view,) = views(result)
    module: Any = _environment().get_template("checks.html.j2").module
    return str(module.section(view, "invalid", []))


def test_times_are_in_the_table_to_the_microsecond() -> None:
    (bar,) = drawn(op(0, 1, "read", 1, (1_234, None), type="info")).bars
    assert bar.operation.begun == "1.234000 s"
    assert bar.operation.ended.startswith("never")


def test_details_that_no_check_writes_are_refused() -> None:
    with pytest.raises(ValueError, match="operations"):
        drawings({"examples": [{"key": "k"}]})
