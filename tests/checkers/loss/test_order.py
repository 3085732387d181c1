"""The order checker: hand-made logs, and all others against a check of every pair."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from checkers.loss.order import Screen, Sent, _findings, swapped
from harness.protocols import Facts, Promises, Reads, Texts
from tests.checkers.conftest import Judge
from tests.fixtures.hand_made import E, Made, R, W


def log(*values: int, end: str = "o", **keys: Any) -> Made:
    """Writes 0, 1, 2 ... of one producer, and the values that its log has, in this order."""
    plan = {
        "checks": ["order"],
        "workload": {"clients": 1, "producer": {"enable.idempotence": False}},
        **keys.pop("plan", {}),
    }
    number = max(values) + 1
    writes = keys.pop("writes", [W(v, end, offset=values.index(v)) for v in range(number)])
    return Made(writes=writes, reads=[R(value) for value in values], plan=plan, **keys)


def producer(clients: int = 1, **settings: Any) -> dict[str, Any]:
    return {"workload": {"clients": clients, "producer": settings}}


IDEMPOTENT = producer(**{"enable.idempotence": True})
ONE_IN_FLIGHT = producer(
    **{"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
)
FREE = producer(clients=2, **{"enable.idempotence": False})
CLIENT = [{"id": "c", "nemesis": "client", "at_s": 1}]
CRASHED = (
    {"type": "step", "fault": "c", "nemesis": "client", "nodes": ["client-1"], "met": None},
    {"type": "intent", "n": 1, "fault": "c", "lever": "client"},
)
ONE_READER = [E(reader="a")]
UNNAMED = [W(value) for value in range(3)]

CASES: dict[str, tuple[Made, str, int, int]] = {
    "in-order": (log(0, 1, 2, 3), "valid", 4, 0),
    "one-overtaken-by-two": (log(1, 2, 0, 3), "valid", 4, 1),
    "two-overtaken-by-one": (log(2, 0, 1), "valid", 3, 2),
    "promised-by-idempotence": (log(1, 2, 0, 3, plan=IDEMPOTENT), "invalid", 4, 1),
    "promised-by-one-in-flight": (log(1, 0, plan=ONE_IN_FLIGHT), "invalid", 2, 1),
    "promised-and-kept": (log(0, 1, plan=IDEMPOTENT), "valid", 2, 0),
    "of-two-producers": (log(1, 0, 3, 2, plan=FREE), "valid", 4, 0),
    "unknown-ones-do-not-count": (log(1, 0, end="i"), "unknown", 0, 0),
    "of-two-partitions": (
        Made(
            writes=[W(0, partition=0), W(1, partition=1)],
            reads=[R(1, partition=1, offset=0), R(0, partition=0, offset=5)],
            plan={**IDEMPOTENT, "checks": ["order"], "topic": {"partitions": 2}},
            ends=[E(), E(partition=1)],
        ),
        "valid",
        2,
        0,
    ),
    "a-second-copy": (log(0, 1, 0, 2), "valid", 3, 0),
    "one-reader-that-no-acknowledgement-confirms": (
        log(1, 0, 2, plan=IDEMPOTENT, writes=UNNAMED, ends=ONE_READER),
        "unknown",
        3,
        1,
    ),
    "two-readers": (log(1, 0, 2, plan=IDEMPOTENT, writes=UNNAMED), "invalid", 3, 1),
    "crashed-clients": (
        log(1, 0, plan={**IDEMPOTENT, "faults": CLIENT}, journal=CRASHED),
        "",
        2,
        0,
    ),
}


@pytest.fixture(scope="module")
def judged(judge: Judge) -> dict[str, Any]:
    made = {}
    for name, (case, *_) in CASES.items():
        plan = {"checks": ["order"], **case.plan}
        made[name] = Made(**{**vars(case), "plan": plan})
    return {name: each.document for name, each in judge(made).items()}


@pytest.mark.parametrize("name", CASES)
def test_what_is_swapped(judged: dict[str, Any], name: str) -> None:
    _, verdict, compared, number = CASES[name]
    found = judged[name]
    counts = found["checks"][0]["counts"] if "checks" in found else found["counts"]
    assert (counts["compared"], counts["swapped"]) == (compared, number), found
    assert verdict in ("", found["verdict"]), found["reason"]


@pytest.fixture(scope="module")
def unnamed(judge: Judge) -> dict[str, Any]:
    """The same where the plan does not name the check."""
    made = {}
    for name, (case, *_) in CASES.items():
        made[name] = Made(**{**vars(case), "plan": {**case.plan, "checks": ["loss"]}})
    return {name: each.document for name, each in judge(made).items()}


@pytest.mark.parametrize("name", CASES)
def test_it_is_counted_where_no_plan_names_it(
    judged: dict[str, Any], unnamed: dict[str, Any], name: str
) -> None:
    found = unnamed[name]
    assert found["counts"]["swapped"] == CASES[name][3]
    contradicted = "swapped" in judged[name]["counter_examples"]
    assert ("swapped" in found["counter_examples"]) is contradicted
    assert (found["verdict"] == "invalid") is contradicted or "duplicates" in str(found)


@pytest.mark.parametrize("seed", range(100))
def test_the_screen_misses_nothing(seed: int) -> None:
    """Of records that were sent and read in pieces, by two readers; of several copies the first
    counts."""
    draw = random.Random(seed)
    promises = Promises(partitions=2, producers=draw.choice([0, 2]))
    facts = Facts(run_id="x", history=(), reads=(), ends=(), promises=promises)
    rows = draw.randrange(1, 30)
    screen = Screen(facts, rows)
    process = np.array([draw.randrange(4) for _ in range(rows)])
    for piece in np.array_split(np.arange(rows), draw.randrange(1, 4)):
        screen.write(process[piece], piece)
    partition = np.array([draw.randrange(2) for _ in range(rows)])
    at = np.arange(rows) + np.array([draw.choice([0, 0, 0, 2.5]) for _ in range(rows)])
    read = np.argsort(at, kind="stable")
    log = read.tolist()
    for copied in draw.sample(log, min(rows, draw.choice([0, 0, 1, 3]))):
        log.insert(draw.randrange(log.index(copied) + 1, len(log) + 1), copied)
    position = [log.index(each) for each in range(rows)]
    acknowledged = np.array([draw.random() < 0.8 for _ in range(rows)])
    for reader in ("a", "b"):
        for places in np.array_split(np.arange(len(log)), draw.randrange(1, 4)):
            piece, codes = np.array(log)[places], np.zeros(len(places), np.int32)
            texts, none = Texts(codes, [reader]), Texts(codes - 1, [])
            part = Reads(texts, none, piece, partition[piece], places)
            screen.read(part, piece, acknowledged[piece])
    producer = process % promises.producers if promises.producers else process
    swapped = any(
        position[b] < position[a]
        for a, b in combinations(np.flatnonzero(acknowledged).tolist(), 2)
        if (producer[a], partition[a]) == (producer[b], partition[b])
    )
    assert screen.possible is swapped


@pytest.mark.parametrize("seed", range(50))
def test_every_pair_agrees(seed: int) -> None:
    draw = random.Random(seed)
    rows = draw.randrange(1, 60)
    streams = sorted((draw.randrange(3), draw.randrange(2)) for _ in range(rows))
    place = {stream: draw.sample(range(200), streams.count(stream)) for stream in set(streams)}
    positions = [place[stream].pop() for stream in streams]
    producer, partition = np.array(streams, np.int64).T
    none = np.zeros(rows, np.bool_)
    values = np.arange(rows)
    sent = Sent(rows, rows, values, producer, partition, np.array(positions), none)
    late: dict[int, list[int]] = {}
    for a, b in combinations(range(rows), 2):
        if streams[a] == streams[b] and positions[b] < positions[a]:
            late.setdefault(a, []).append(b)
    assert np.flatnonzero(swapped(sent)).tolist() == list(late)
    furthest = [min(each, key=lambda b: positions[b]) for each in late.values()]
    found = _findings("x", sent)
    assert found["value_sent_later"].to_pylist() == furthest
    assert found["offset_of_later"].to_pylist() == [positions[b] for b in furthest]
