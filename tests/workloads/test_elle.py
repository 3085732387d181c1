"""The scripts of transactions of reads and appends or writes, as pure generators."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import suppress

import pytest

from harness.models.micro_ops import APPEND, READ, WRITE, answered, micro_ops, read_of, steps_of
from harness.protocols import FAIL, OK, Completion, Invoke, completion
from workloads.elle import ListAppend, RwRegister


class Store:
    """Executes transactions one by one."""

    def __init__(self) -> None:
        self.held: dict[str, list[int]] = defaultdict(list)

    def answer(self, op: Invoke) -> Completion:
        f, _, _, _, elements = op
        assert f == "txn"
        assert isinstance(elements, tuple)
        reads: list[list[int] | int | None] = []
        for step, key, value in steps_of(elements):
            if value is not None:
                self.held[key].append(value)
            elif any(kind == WRITE for kind, *_ in micro_ops(elements)):
                reads.append(self.held[key][-1] if self.held[key] else None)
            else:
                assert step == "r"
                reads.append(list(self.held[key]))
        return completion(OK, result=answered(elements, reads))


@pytest.mark.parametrize(("workload", "kind"), [(ListAppend(), APPEND), (RwRegister(), WRITE)])
def test_values_are_unique_and_keys_retire(workload: ListAppend, kind: int) -> None:
    store, processes, used = Store(), 4, Counter[int]()
    scripts = [workload.script(p, processes, 1, 7) for p in range(processes)]
    due = [next(script) for script in scripts]
    together = []
    for turn in range(2_000):
        p = turn % processes if turn % 400 < 300 else 0  # the others are held up, and catch up
        micro = list(micro_ops(due[p][4]))  # type: ignore[arg-type]
        assert 1 <= len(micro) <= workload.max_txn_length
        used.update(each.key for each in micro if each.kind == kind)
        together.append({each.key for each in micro})
        due[p] = scripts[p].send(store.answer(due[p]))
    values = [value for held in store.held.values() for value in held]
    assert len(values) == len(set(values)) > 2_000
    assert max(used.values()) <= 2 * workload.max_writes_per_key
    assert sum(used.values()) / len(used) >= workload.max_writes_per_key / 3
    assert max(map(max, together[-40:])) - min(map(min, together[-40:])) < 3 * workload.keys_count


def test_in_the_end_all_keys_are_read() -> None:
    store, workload = Store(), ListAppend()
    for key in range(50):
        store.held[str(key)] = [key]
    read = set[int]()
    for process in range(3):
        script = workload.final(process, 3, 1, 1)
        op = next(script)
        with suppress(StopIteration):
            while True:
                read |= {each.key for each in micro_ops(op[4])}  # type: ignore[arg-type]
                op = script.send(store.answer(op))
    assert read >= set(range(50))
    script = workload.final(0, 1, 1, 1)
    asked = [next(script)]
    with suppress(StopIteration):
        while True:
            asked.append(script.send(completion(FAIL)))
    assert len(asked) == 3


def test_a_read_tells_nothing_known_from_the_empty_list() -> None:
    assert read_of(3, []) == [READ, 3, 0, -(2**63)]
    assert read_of(3, None) == [READ, 3, 0, -(2**63)]
    assert read_of(3, 8) == [READ, 3, 1, 8]
    assert read_of(3, [5, 6, 7, 8])[2::4] == [4, 6, -(2**63)]
