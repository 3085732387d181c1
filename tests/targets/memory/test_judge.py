"""The tests' own judges on histories made by hand, good and bad."""

from __future__ import annotations

import pytest

from targets.memory.clients import Command, Outcome
from tests.targets.memory.judge import linearizable, wrong_in_log
from tests.targets.memory.world import Op, Run


def op(f: str, begun: int, ended: int | None, *, value: int | None = None, **how: object) -> Op:
    """One operation on a register; a read's `value` is what it read."""
    type_ = str(how.get("type", "info" if ended is None else "ok"))
    expected = how.get("expected")
    command = Command(f, "k", None if f == "read" else value, expected)  # type: ignore[arg-type]
    return Op(0, command, begun, Outcome(type_, value if f == "read" else None), ended)


GOOD = [
    [op("write", 0, 1, value=1), op("read", 2, 3, value=1)],
    [op("read", 0, 1), op("write", 2, 3, value=1)],
    [op("write", 0, 9, value=1), op("read", 1, 2), op("read", 3, 4, value=1)],
    [op("write", 0, None, value=1), op("read", 5, 6), op("read", 7, 8, value=1)],
    [op("write", 0, 1, value=1), op("cas", 2, 3, value=2, expected=1), op("read", 4, 5, value=2)],
    [op("write", 0, 1, value=1), op("cas", 2, 3, value=2, expected=7, type="fail")],
    [op("write", 0, 9, value=1), op("write", 0, 9, value=2), op("read", 10, 11, value=1)],
]
BAD = [
    [op("write", 0, 1, value=1), op("read", 2, 3)],
    [op("read", 0, 1, value=1), op("write", 2, 3, value=1)],
    [op("write", 0, 9, value=1), op("read", 1, 2, value=1), op("read", 3, 4)],
    [op("write", 0, 1, value=1), op("write", 2, 3, value=2), op("read", 4, 5, value=1)],
    [
        op("write", 0, 1, value=1),
        op("cas", 2, 5, value=2, expected=1),
        op("cas", 2, 5, value=3, expected=1),
    ],
    [op("read", 0, 1, value=9)],
]


@pytest.mark.parametrize(
    ("ops", "expected"), [*((ops, True) for ops in GOOD), *((ops, False) for ops in BAD)]
)
def test_what_has_an_order_is_linearizable(ops: list[Op], expected: bool) -> None:
    assert linearizable(ops) is expected


def appended(value: int, type_: str) -> Op:
    return Op(0, Command("append", value=value), 0, Outcome(type_), 1)


@pytest.mark.parametrize(
    ("held", "wrong"),
    [
        ([1], []),
        ([1, 2], []),
        ([2], ["1 acknowledged values are lost"]),
        ([1, 3], ["1 failed values are there"]),
        ([1, 1], ["1 values are there more than once"]),
        ([1, 9], ["values that nobody has written"]),
    ],
)
def test_what_is_wrong_in_a_log(held: list[int], wrong: list[str]) -> None:
    ops = [appended(1, "ok"), appended(2, "info"), appended(3, "fail")]
    log = [(at, None, value) for at, value in enumerate(held)]
    assert wrong_in_log(Run(ops=ops, held={"n1": log, "n2": log}, settled=True)) == wrong
    other = {"n1": log, "n2": log[:-1]}
    assert "replicas differ" in wrong_in_log(Run(ops=ops, held=other, settled=True))
