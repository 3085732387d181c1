"""A checker that returns what is no result, or has overlooked the run, makes the run unknown and is
named; so does one that raises, and what the others have found stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from checkers.judging.one_run import judge_run
from checkers.loss import Loss
from harness.history.documents import read_result
from harness.history.run_folder import RunDir
from harness.protocols import DOUBTS, Checker, CheckResult, Run, Statement
from reports.checks import headline
from tests.fixtures.hand_made import E, Made, R, W

COUNTS = {"attempted": 1, "acknowledged": 1}
WELL = Made(
    writes=[W(1)],
    reads=(R(1, offset=0, reader="a"), R(1, offset=0, reader="b")),
    ends=(E(position=1, reader="a"), E(position=1, reader="b")),
)
LOSSY = replace(WELL, writes=[W(1), W(2)])


@dataclass(frozen=True)
class Odd(Checker[None, int]):
    """Returns what it is made with."""

    returns: Callable[[str], Any]
    plugin: ClassVar[str] = "odd"
    models: ClassVar[frozenset[str]] = frozenset({"log"})

    def shards(self, run: Run) -> Sequence[None]:
        return [None]

    def check(self, run: Run, shard: None) -> int:
        return 1

    def merge(self, run: Run, parts: Sequence[int]) -> Any:
        return self.returns(run.facts.run_id)


def result(**fields: Any) -> Callable[[str], CheckResult]:
    return lambda _: CheckResult(**({"counts": COUNTS} | fields))


def table(**columns: list[Any]) -> pa.Table:
    return pa.table({"run_id": ["r"], "kind": ["odd"], **columns})


def judged(parent: Path, returns: Callable[[str], Any], *, loss: bool, made: Made = WELL) -> Any:
    run: RunDir = made.build(parent, "r")
    return judge_run(run, {"loss": Loss(), "odd": Odd(returns)} if loss else {"odd": Odd(returns)})


@pytest.mark.parametrize(
    "returns",
    [
        result(),
        result(counts={**COUNTS, "share": 0.5, "none": None}, rates={"x": None}),
        result(counts={**COUNTS, "most": 2**63 - 1, "least": -(2**63)}),
        result(findings=table(value=[3]), details={"a": [1, {"b": None}]}),
        result(counts={**COUNTS, "odd": 1}, doubts=(Statement(DOUBTS.undecided, "it gave up"),)),
        result(counter_examples=(Statement("odd", "one is odd"),)),
    ],
)
@pytest.mark.parametrize("loss", [False, True])
def test_a_result_is_counted_and_written(tmp_path: Path, returns: Any, loss: bool) -> None:
    document, given = judged(tmp_path, returns, loss=loss), returns("r")
    stated = (*given.counter_examples, *given.doubts)
    want = "invalid" if given.counter_examples else "unknown" if given.doubts else "valid"
    assert document["verdict"] == want
    assert all(statement.sentence in document["reason"] for statement in stated)
    check = document["checks"][-1]
    assert (check["name"], check["counts"]) == ("odd", given.counts)
    assert (tmp_path / "r" / "findings" / "odd.parquet").exists() is (given.findings is not None)
    assert headline(read_result(RunDir(tmp_path / "r")))


@pytest.mark.parametrize(
    ("returns", "why"),
    [
        (lambda _: None, "merge() returns a NoneType, not a CheckResult"),
        (lambda _: COUNTS, "merge() returns a dict, not a CheckResult"),
        (result(counts=[1]), "merge() "),
        *(
            (result(**given), "returns what result.json cannot hold: ")
            for given in (
                *({"counts": {**COUNTS, "odd": odd}} for odd in (np.int64(3), "3", True)),
                *({"counts": {**COUNTS, "odd": n}} for n in (2**63, 2**64, -(2**63) - 1, 10**30)),
                *({"counts": {**COUNTS, "lost": n}} for n in (-1, 0.5)),
                {"counts": {**COUNTS, "attempted": -1}},
                {"counts": {"attempted": 1}},
                {"rates": {"x": np.float64(1)}},
                {"rates": {"x": 2**64}},
                {"counter_examples": (("one is odd",),)},
                {"details": {"a": {1}}},
                {"details": {"a": np.int64(1)}},
                {"all_well": 3},
            )
        ),
        (result(doubts=(Statement("x", "y"),)), "the doubt 'x'; there are: failed, interrupted"),
        (result(findings=[1]), "returns findings that are a list, not a Table"),
        (result(findings=pa.table({"run_id": ["r"]})), "findings without the column 'kind'"),
        (result(findings=pa.table({"kind": ["r"]})), "findings without the column 'run_id'"),
        (result(findings=table(run_id=["s"])), "returns findings whose run_id is 's', not 'r'"),
        (lambda _: 1 // 0, "raised ZeroDivisionError: integer division or modulo by zero (test_"),
    ],
)
@pytest.mark.parametrize("loss", [False, True])
def test_what_is_no_result_makes_the_run_unknown(
    tmp_path: Path, returns: Any, why: str, loss: bool
) -> None:
    document = judged(tmp_path, returns, loss=loss)
    assert (document["verdict"], document["doubts"]) == ("unknown", ["checker"])
    assert not document["eligible"]
    assert document["reason"].startswith("the checker 'odd'")
    assert why in document["reason"]
    assert document["counts"]["acknowledged"] == int(loss), "those of the other checker stand"
    assert read_result(RunDir(tmp_path / "r")).verdict == "unknown"


def test_what_another_checker_has_found_stands(tmp_path: Path) -> None:
    document = judged(tmp_path, lambda _: 1 // 0, loss=True, made=LOSSY)
    assert (document["verdict"], document["doubts"]) == ("invalid", ["checker"])
    assert document["counts"]["lost"] == 1


@pytest.mark.parametrize(
    ("counts", "key"),
    [
        ({"attempted": 0, "acknowledged": 0}, "attempted"),
        ({"attempted": 1, "acknowledged": 0}, "acknowledged"),
    ],
)
def test_a_checker_that_overlooked_every_write_has_judged_nothing(
    tmp_path: Path, counts: dict[str, int], key: str
) -> None:
    document = judged(tmp_path, result(counts=counts), loss=True)
    assert (document["verdict"], document["doubts"]) == ("unknown", ["vacuous"])
    assert document["reason"] == (f"the checker 'odd' counts no write as {key}: the history has 1")
