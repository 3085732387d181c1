"""Random histories, against the oracle."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.sets import Shape, made
from checkers.sets import quantiles_ns
from tests.checkers.sets.ops import Judged, Op, history, judge
from tests.checkers.sets.oracle import Truth, truth_of
from tests.fixtures.budget import examples

pytestmark = pytest.mark.slow

EXAMPLES = examples(30)

VALUES = [0, 1, 2, 3, 5, 8, 13, 999, -4, 2**40, 2**63 - 1, -(2**63)]
POINTS = ("0", "0.5", "0.95", "0.99", "1")

ends = st.sampled_from(["ok", "ok", "ok", "ok", "info", "fail"])
gaps_ns = st.sampled_from([0, 1, 400_000, 999_999, 1_000_000, 7_000_000])


@st.composite
def histories(draw: st.DrawFn) -> list[Op]:
    """Processes take turns at random; mostly a read returns what a set would hold, and then some
    elements more or less. Values may be of a set that is dense, sparse, or as wide as 64 bits."""
    values = draw(st.permutations(draw(st.sampled_from([VALUES, VALUES[:7], VALUES[:9]]))))
    strangers = draw(st.sampled_from([[], [], [], [77, -77, 2**62]]))
    ops: list[Op] = []
    open_ops: dict[int, Op] = {}
    added: list[int] = []
    time_ns = 0
    for _ in range(draw(st.integers(0, 40))):
        process = draw(st.integers(0, 3))
        time_ns += draw(gaps_ns)
        if process in open_ops:
            op = {**open_ops.pop(process), "type": draw(ends)}
            if op["f"] == "read":
                op["value"] = draw(returned(added, strangers)) if op["type"] == "ok" else None
        elif draw(st.booleans()) and len(values):
            op = {"f": "add", "type": "invoke", "value": values.pop()}
            added.append(op["value"])
            open_ops[process] = op
        else:
            op = {"f": "read", "type": "invoke", "value": None}
            open_ops[process] = op
        ops.append({**op, "process": process, "index": len(ops), "time": time_ns})
    return ops


@st.composite
def returned(draw: st.DrawFn, added: list[int], strangers: list[int]) -> list[int]:
    """What a read returns: most of what was added, and now and then more."""
    kept = [value for value in added if draw(st.sampled_from([True, True, True, False]))]
    if strangers:
        kept += draw(st.lists(st.sampled_from(added + strangers + VALUES), max_size=2))
    return list(draw(st.permutations(kept)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tmp_path_factory.mktemp("oracle")


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(ops=histories(), linearizable=st.booleans())
def test_the_checker_says_what_the_oracle_says(
    folder: Any, ops: list[Op], linearizable: bool
) -> None:
    if not ops:
        return
    lines = history(folder, ops)
    truth = truth_of(ops)
    agrees(judge(lines, linearizable=linearizable), truth, linearizable=linearizable)


def agrees(judged: Judged, truth: Truth, *, linearizable: bool) -> None:
    tally, read = judged.tally, judged.result.details["final_read"]
    assert {k: n for k, n in judged.result.counts.items() if n} == +truth.counts
    assert quantiles_ns(tally.stable_ns) == quantiles(truth.stable_ns)
    assert quantiles_ns(tally.lost_ns) == quantiles(truth.lost_ns)
    rows = tally.findings.to_pylist()
    assert {(row["kind"], row["value"], row["read_complete_index"]) for row in rows} == (
        truth.findings
    )
    assert len(rows) == len(truth.findings)
    if truth.last is None:
        assert read is None
    else:
        assert (read["index"], read["is_final"]) == truth.last
        assert {k: n for k, n in read["counts"].items() if n} == +truth.final
    assert judged.verdict == verdict(truth, linearizable)


def verdict(truth: Truth, linearizable: bool) -> str:
    wrong = ("lost", "unexpected", "failed_found", "duplicated", "read_before_add")
    counts = truth.counts
    if any(counts[name] for name in wrong) or (linearizable and counts["stale"]):
        return "invalid"
    decided = counts["acknowledged"] and not counts["never_read_acknowledged"]
    return "valid" if decided and truth.last and not truth.unanswered else "unknown"


def quantiles(latencies_ns: list[int]) -> dict[str, int]:
    ordered = sorted(latencies_ns)
    last = len(ordered) - 1
    return {p: ordered[min(last, math.floor(len(ordered) * float(p)))] for p in POINTS if ordered}


def test_a_large_history_is_judged_as_it_was_made() -> None:
    for spread in (False, True):
        lines, truth = made(Shape(3_000, 60, spread=spread))
        counts = judge(lines).tally.counts
        assert {name: counts[name] for name in truth} == truth
