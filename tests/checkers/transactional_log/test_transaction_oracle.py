"""Random histories of transactions, against the oracle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkers.graphs import WW
from checkers.transactional_log import Judged, judge
from tests.checkers.transactional_log.ops import Op, history
from tests.checkers.transactional_log.oracle import Truth, truth_of
from tests.fixtures.budget import examples

pytestmark = pytest.mark.slow

EXAMPLES = examples(30)

KINDS = (
    *("lost-write", "unseen", "unexpected", "inconsistent-offsets", "duplicate", "G1a"),
    *("precommitted-read", "torn-transaction", "poll-skip", "nonmonotonic-poll", "int-poll-skip"),
    *("int-nonmonotonic-poll", "nonmonotonic-send", "int-nonmonotonic-send", "int-send-skip"),
)

ends = st.sampled_from(["ok", "ok", "ok", "ok", "info", "fail"])
keys = st.sampled_from(["0", "1", "7"])


@st.composite
def histories(draw: st.DrawFn) -> list[Op]:
    """Processes take turns. A log mostly hands out the next offset and a poll mostly goes on where
    the last one ended; now and then an offset is used again, or a poll is anywhere."""
    ops: list[Op] = []
    open_ops: dict[int, Op] = {}
    logs: dict[str, dict[int, int]] = {"0": {}, "1": {}, "7": {}}
    at: dict[tuple[int, str], int] = {}
    value, time_ns = 0, 0
    for _ in range(draw(st.integers(0, 36))):
        process = draw(st.integers(0, 2))
        time_ns += draw(st.integers(0, 5)) * 1_000_000
        if process in open_ops:
            op = open_ops.pop(process)
            op = {**op, "type": draw(ends)}
            if op["f"] == "txn":
                op["value"] = [draw(answered(m, logs, at, process, value)) for m in op["value"]]
        elif draw(st.integers(0, 7)) == 0:
            chosen = draw(st.lists(keys, max_size=3))
            op = {"f": draw(st.sampled_from(["assign", "subscribe"])), "value": chosen}
            open_ops[process] = op = {**op, "type": "invoke"}
        else:
            micro: list[Any] = []
            for _ in range(draw(st.integers(1, 3))):
                if draw(st.booleans()):
                    micro.append(["send", draw(keys), value])
                    value += 1
                else:
                    micro.append(["poll"])
            open_ops[process] = op = {"f": "txn", "type": "invoke", "value": micro}
        ops.append({**op, "process": process, "index": len(ops), "time": time_ns})
    return ops


@st.composite
def answered(
    draw: st.DrawFn,
    micro: list[Any],
    logs: dict[str, dict[int, int]],
    at: dict[tuple[int, str], int],
    process: int,
    next_value: int,
) -> list[Any]:
    """How a micro-operation is answered. A poll may return what no operation has sent yet, or one
    that is still under way."""
    if micro[0] == "send":
        log = logs[micro[1]]
        offset = draw(st.sampled_from([len(log)] * 6 + [len(log) + 2, 0, 3]))
        log[offset] = micro[2]
        return [*micro[:2], draw(st.sampled_from([[offset, micro[2]]] * 5 + [micro[2]]))]
    polled: dict[str, list[list[int]]] = {}
    for key in draw(st.lists(keys, unique=True, min_size=1, max_size=2)):
        log = logs[key]
        begin = draw(st.sampled_from([at.get((process, key), 0)] * 6 + [0, 1, 2]))
        offsets = [o for o in sorted(log) if o >= begin][: draw(st.integers(1, 4))]
        if draw(st.integers(0, 9)) == 0:
            offsets = list(draw(st.permutations(offsets)))
        if offsets:
            at[process, key] = offsets[-1] + 1
            moved = draw(st.sampled_from([0] * 8 + [1]))
            polled[key] = [[o + moved, log[o]] for o in offsets]
    if draw(st.integers(0, 5)) == 0:
        early = draw(st.integers(max(0, next_value - 4), next_value + 3))
        polled.setdefault(draw(keys), []).append([draw(st.integers(0, 9)), early])
    return ["poll", polled]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tmp_path_factory.mktemp("oracle")


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(ops=histories())
def test_the_checker_says_what_the_oracle_says(folder: Any, ops: list[Op]) -> None:
    if not any(op["type"] != "invoke" for op in ops):
        return
    ended = {op["process"] for op in ops if op["type"] != "invoke"}
    ops = _without_open(ops) if ended else ops
    agrees(judge(history(folder, ops)), truth_of(ops))


def _without_open(ops: list[Op]) -> list[Op]:
    """Without what never completes: it counts as of unknown outcome, which the oracle has not."""
    open_ = {}
    for n, op in enumerate(ops):
        if op["type"] == "invoke":
            open_[op["process"]] = n
        else:
            del open_[op["process"]]
    kept = [op for n, op in enumerate(ops) if n not in open_.values()]
    return [{**op, "index": n} for n, op in enumerate(kept)]


def agrees(judged: Judged, truth: Truth) -> None:
    counts = {kind: judged.number(kind) for kind in KINDS} | judged.cycles.numbers
    assert {kind: n for kind, n in counts.items() if n} == dict(truth.counts)
    assert (judged.lag.lag_ns if judged.lag else 0) == truth.lag_ns
    smallest: dict[str, int] = {}
    for cycle in judged.cycles.shown:
        assert cycle.exact
        assert [step.target for step in cycle.steps] == [
            step.source for step in (*cycle.steps[1:], cycle.steps[0])
        ]
        mixed = any(step.kind == WW for step in cycle.steps)
        name = ("mixed" if mixed else "wr") if cycle.kind == "G1c" else cycle.kind
        smallest[name] = min(smallest.get(name, 99), len(cycle.steps))
    assert smallest == truth.smallest
