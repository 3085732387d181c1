"""Registers that are only eventually as they were last written: reads on the way may be old, what
the final script reads may not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from checkers.register import Register
from harness.protocols import CheckResult
from tests.fixtures.operation_rows import FACTS, Row, checked

KEY = "topic-0"


def rows(*operations: tuple[Any, ...]) -> list[Row]:
    """Operations one after the other: function, value written or read, how it ended, its node."""
    made = []
    for process, (f, value, type_, node) in enumerate(operations):
        written, read = (None, value) if f == "read" else (value, None)
        made.append(Row(f=f, process=process, key=KEY, value=written))
        made.append(
            Row(f=f, process=process, key=KEY, type=type_, value=written, result=read, node=node)
        )
    return made


def found(load: Sequence[Row], final: Sequence[Row]) -> CheckResult:
    """What is said of a load and what the final script read."""
    facts = replace(FACTS, final_from_ns=len(load))
    later = [replace(row, process=row.process + len(load)) for row in final]
    return checked(Register(consistency="eventual"), [*load, *later], size=3, facts=facts)


LOAD = rows(
    ("write", 1, "ok", "b1"),
    ("write", 2, "ok", "b1"),
    ("read", 1, "ok", "b2"),  # old
    ("read", 2, "ok", "b1"),
)


def test_an_old_read_on_the_way_is_counted_by_its_node_and_no_counter_example() -> None:
    result = found(LOAD, rows(("read", 2, "ok", "b1"), ("read", 2, "ok", "b2")))
    assert (result.counter_examples, result.doubts) == ((), ())
    assert (result.counts["stale_reads"], result.counts["lost"]) == (1, 0)
    b1, b2 = result.details["nodes"]
    assert (b1["node"], b1["reads"], b1["final_reads"], b1["stale"]) == ("b1", 2, 1, 0)
    assert (b2["node"], b2["reads"], b2["final_reads"], b2["stale"]) == ("b2", 2, 1, 1)
    assert b2["stale_s_max"] == 1e-9


def test_an_acknowledged_write_that_one_node_lacks_at_the_end_is_lost() -> None:
    result = found(LOAD, rows(("read", 2, "ok", "b1"), ("read", 1, "ok", "b2")))
    assert [each.name for each in result.counter_examples] == ["not_eventual"]
    assert result.counts["lost"] == 1


def test_an_acknowledged_deletion_that_is_undone_is_lost_and_a_kept_one_is_not() -> None:
    load = [*LOAD, *rows(("delete", 9, "ok", "b1"))]
    load[-2:] = [replace(row, process=7) for row in load[-2:]]
    kept = rows(("read", None, "ok", "b1"), ("read", None, "ok", "b2"))
    assert found(load, kept).counter_examples == ()
    assert found(load, rows(("read", 2, "ok", "b1"), ("read", None, "ok", "b2"))).counter_examples


def test_what_was_shown_and_is_gone_again_is_a_counter_example_though_never_acknowledged() -> None:
    """A broker shows what is committed, and what is committed stays."""
    load = rows(("write", 1, "ok", "b1"), ("write", 2, "info", None), ("read", 2, "ok", "b1"))
    result = found(load, rows(("read", 2, "ok", "b1")))
    assert (result.counter_examples, result.counts["unacknowledged_found"]) == ((), 1)
    assert found(load, rows(("read", 1, "ok", "b1"))).counter_examples
    unseen = rows(("write", 1, "ok", "b1"), ("write", 2, "info", None))
    result = found(unseen, rows(("read", 1, "ok", "b1")))
    assert (result.counter_examples, result.counts["unacknowledged_found"]) == ((), 0)


def test_an_unknown_write_that_takes_effect_while_the_end_is_read_is_a_doubt() -> None:
    """As a deletion that was forwarded before all controllers lost power: done half a minute after,
    on one broker before on the next one. What was acknowledged has to be there all the same."""
    load = rows(("write", 1, "ok", "b1"), ("write", 2, "ok", "b1"), ("write", 3, "info", None))
    result = found(load, rows(("read", 3, "ok", "b1"), ("read", 2, "ok", "b1")))
    assert result.counter_examples == ()
    assert [(each.name, each.sentence) for each in result.doubts] == [
        ("undecided", "1 register may have changed while read at the end, by unknown writes")
    ]
    assert result.findings.column("kind").to_pylist() == ["undecided"]
    result = found(load, rows(("read", 3, "ok", "b1"), ("read", 1, "ok", "b1")))
    assert ([each.name for each in result.counter_examples], result.doubts) == (
        ["not_eventual"],
        (),
    )


def test_a_value_that_nobody_wrote_or_whose_write_failed_is_a_counter_example_at_any_time() -> None:
    final = rows(("read", 1, "ok", "b1"))
    for write in (("write", 5, "fail", "b1"), ("write", 6, "ok", "b1")):
        load = rows(("write", 1, "ok", "b1"), write, ("read", 5, "ok", "b1"))
        end = final if write[2] == "fail" else rows(("read", 6, "ok", "b1"))
        assert found(load, end).counter_examples


def test_what_was_not_read_at_the_end_is_a_doubt() -> None:
    result = found(LOAD, rows(("read", 2, "ok", "b1")))
    assert [each.sentence for each in result.doubts] == ["1 node was not read at the end"]
    result = found(LOAD, [])
    assert [each.sentence for each in result.doubts] == [
        "1 register was not read at the end",
        "2 nodes were not read at the end",
    ]
