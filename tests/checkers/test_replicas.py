"""The replicas checker: what one node lacks at the end, and nothing where all have everything."""

from __future__ import annotations

import pytest

from checkers.replicas import Replicas
from harness.errors import HistoryError
from harness.protocols import CheckResult, Facts, Promises
from tests.fixtures.operation_rows import Row, checked


def add(value: int, how: str = "ok") -> list[Row]:
    return [Row(f="add", value=value), Row(f="add", type=how, value=value, node="n1")]


def read(node: str | None, *values: int, how: str = "ok") -> list[Row]:
    return [
        Row(f="read", process=9),
        Row(f="read", process=9, type=how, node=node, elements=values),
    ]


def said(*groups: list[Row], size: int = 100) -> CheckResult:
    return checked(Replicas(), [row for rows in groups for row in rows], size=size)


@pytest.mark.parametrize("size", [1, 3, 100])
def test_an_element_that_one_node_lacks_is_lost_on_it(size: int) -> None:
    result = said(
        add(1), add(2), add(3), read("n1", 1, 2, 3), read("n2", 1, 3), read("n3", 3, 2), size=size
    )
    assert result.counts == {
        "attempted": 3,
        "acknowledged": 3,
        "nodes_read": 3,
        "missing_on_a_node": 2,
    }
    assert [each.sentence for each in result.counter_examples] == [
        "acknowledged elements that n2 does not return at the end, and others do: 1",
        "acknowledged elements that n3 does not return at the end, and others do: 1",
    ]
    assert result.findings is not None
    rows = result.findings.to_pylist()
    assert [(row["node"], row["value"]) for row in rows] == [("n2", 2), ("n3", 1)]
    assert result.doubts == ()


def test_nodes_that_agree_are_well() -> None:
    result = said(add(1), add(2), read("n1", 1, 2), read("n2", 2, 1))
    assert result.counter_examples == ()
    assert result.doubts == ()
    assert result.all_well == "all 2 nodes have the same elements"


def test_what_no_node_returns_is_not_for_this_checker() -> None:
    assert said(add(1), add(2), read("n1", 2), read("n2", 2)).counter_examples == ()


@pytest.mark.parametrize("how", ["fail", "info"])
def test_what_was_not_acknowledged_may_be_anywhere(how: str) -> None:
    assert said(add(1), add(2, how), read("n1", 1, 2), read("n2", 1)).counter_examples == ()


def test_a_read_that_began_before_the_last_add_had_completed_says_nothing() -> None:
    begin, end = read("n2", 1)
    early = [begin, *add(2), end]
    result = said(add(1), early, read("n1", 1, 2))
    assert result.counts["nodes_read"] == 1
    assert result.counter_examples == ()


def test_one_of_the_final_reads_of_a_node_is_enough() -> None:
    result = said(add(1), add(2), read("n1", 1, 2), read("n2", 1), read("n2", 2))
    assert result.counter_examples == ()


@pytest.mark.parametrize("other", [read("n2", 1, how="info"), read(None, 1)])
def test_a_read_that_failed_or_names_no_node_is_none(other: list[Row]) -> None:
    result = said(add(1), add(2), read("n1", 1, 2), other)
    assert [each.name for each in result.doubts] == ["incomplete"]


FIVE = ("z1", "z2", "z3", "z4", "z5")


@pytest.mark.parametrize(
    ("replicas", "holders", "served", "doubt"),
    [
        (5, FIVE, FIVE, None),
        (5, FIVE, ("z1", "z4"), "final reads were served by 2 of 5 nodes that hold the set"),
        (5, FIVE, (*FIVE[:4], "o6"), "final reads were served by 4 of 5 nodes that hold the set"),
        (3, (), ("z1", "z2"), "final reads were served by 2 of 3 nodes that hold the set"),
        (3, (), FIVE[:3], None),  # a run of an earlier version, which noted no names
        (1, (), ("z1",), "final reads were served by 1 of 2 nodes that hold the set"),
        (1, (), ("z1", "z2"), None),
    ],
)
def test_every_node_that_holds_the_set_has_to_serve_a_final_read(
    replicas: int, holders: tuple[str, ...], served: tuple[str, ...], doubt: str | None
) -> None:
    facts = Facts(
        run_id="r", history=(), reads=(), ends=(),
        promises=Promises(model="set", replicas=replicas), holders=frozenset(holders),
    )  # fmt: skip
    rows = [*add(1), *(row for node in served for row in read(node, 1))]
    result = checked(Replicas(), rows, facts=facts)
    assert [each.sentence for each in result.doubts] == ([] if doubt is None else [doubt])
    assert {each.name for each in result.doubts} <= {"incomplete"}


def test_nothing_acknowledged_is_vacuous() -> None:
    (doubt,) = said(add(1, "info"), read("n1", 1), read("n2")).doubts
    assert doubt.name == "vacuous"


def test_a_read_without_a_list_is_refused() -> None:
    """As an empty list it would be the loss of everything on that node."""
    unlisted = [Row(f="read", process=9), Row(f="read", process=9, type="ok", node="n2", result=1)]
    with pytest.raises(HistoryError, match="elements: the ok read at 5 has no list of elements"):
        said(add(1), read("n1", 1), unlisted)
