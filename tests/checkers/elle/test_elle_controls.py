"""Large healthy histories, in which nothing is found; and one with a wrong read, which is found."""

from __future__ import annotations

import random
from typing import Any

import pytest

from checkers.elle.dependencies import ruled_out
from harness.models.micro_ops import answered, steps_of
from harness.protocols import OK, completion
from tests.checkers.elle.txns import Step, Txn, found_in
from workloads.elle import ListAppend, RwRegister

TRANSACTIONS, PROCESSES = 1_500, 12


def history(workload: Any, *, stale: int | None = None) -> list[Txn]:
    """Transactions that take effect one by one, each between its beginning and its end; number
    `stale` misses the ten newest values of a key that it reads alone."""
    lists = isinstance(workload, ListAppend)
    draw, now, done = random.Random(3), 0, list[Txn]()
    held: dict[str, list[int]] = {}
    scripts = [workload.script(p, PROCESSES, 1, 5) for p in range(PROCESSES)]
    due = [next(script) for script in scripts]
    begun, answers = [0] * PROCESSES, [None] * PROCESSES  # type: list[int], list[Any]
    while len(done) < TRANSACTIONS:
        p, now = draw.randrange(PROCESSES), now + 1
        if not begun[p]:
            begun[p] = now
        elif answers[p] is None:
            steps, reads, found = list[Step](), list[Any](), steps_of(due[p][4])
            for _, key, value in found:
                own = held.setdefault(key, [])
                if value is not None:
                    own.append(value)
                    steps.append(("a" if lists else "w", int(key), value))
                    continue
                alone = len(found) == 1 and len(own) > 12 and stale is not None
                seen = own[:-10] if alone and len(done) >= (stale or 0) else own
                stale = None if seen is not own else stale
                steps.append(("r", int(key), tuple(seen) if lists else (seen or [None])[-1]))
                reads.append(list(seen) if lists else (seen or [None])[-1])
            answers[p] = steps, reads
        else:
            steps, reads = answers[p]
            done.append(Txn(tuple(steps), begun[p], now, p))
            result = answered(due[p][4], reads)
            due[p], begun[p], answers[p] = scripts[p].send(completion(OK, result=result)), 0, None
    return done


@pytest.mark.parametrize("workload", [ListAppend(), RwRegister()])
def test_a_healthy_history_has_no_anomaly(workload: Any) -> None:
    found, cycles = found_in(history(workload), lists=isinstance(workload, ListAppend))
    assert (found, cycles.shown) == ({}, ())


def test_one_stale_read_of_a_list_is_found() -> None:
    found, cycles = found_in(history(ListAppend(), stale=700))
    assert "strict-serializable" in ruled_out(found)
    assert sum(found.values()) < 5
    assert cycles.shown[0].exact
