"""The scripts of registers, as pure generators."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from harness import registry
from harness.errors import PlanError
from harness.models import REGISTER
from harness.protocols import FAIL, INFO, NULL, OK, Invoke, Workload, completion, invoke
from workloads.register import Register


class Store:
    """Answers as a register would, one operation at a time."""

    def __init__(self) -> None:
        self.values: dict[str | None, int] = {}

    def answer(self, op: Invoke) -> Any:
        f, value, _, key, expected = op
        if f == "read":
            return completion(OK, result=self.values.get(key))
        if f == "cas" and self.values.get(key) != expected:
            return completion(FAIL)
        self.values[key] = value
        return completion(OK)


def operations(
    workload: Register, count: int, *, processes: int = 3, seed: int = 1
) -> list[Invoke]:
    """What the scripts do in turn over one store."""
    store, done = Store(), []
    scripts = [workload.script(p, processes, 1, seed) for p in range(processes)]
    due = [next(script) for script in scripts]
    for turn in range(count):
        place = turn % processes
        done.append(due[place])
        due[place] = scripts[place].send(store.answer(due[place]))
    return done


def test_it_is_a_workload_of_registers_without_a_final_script() -> None:
    assert isinstance(Register(), Workload)
    assert not Register().has_final()
    assert Register.model == REGISTER.name
    assert {f for f, *_ in operations(Register(), 600)} == REGISTER.functions - {"delete"}


def test_values_are_unique_and_every_operation_has_what_its_function_needs() -> None:
    done = operations(Register(keys_count=4), 3_000)
    written = [op[1] for op in done if op[0] != "read"]
    assert len(set(written)) == len(written)
    assert {op[3] for op in done} == {"k0", "k1", "k2", "k3"}
    for f, value, partition, _, expected in done:
        assert partition == NULL
        assert (value == NULL) == (f == "read")
        assert (expected == NULL) == (f != "cas")


def test_the_shares_are_those_that_are_asked_for() -> None:
    done = operations(Register(read_share=0.6, cas_share=0.3), 4_000)
    share = {f: number / len(done) for f, number in Counter(op[0] for op in done).items()}
    assert share == pytest.approx({"read": 0.6, "cas": 0.3, "write": 0.1}, abs=0.03)


def test_without_reads_and_without_compare_and_sets_there_are_only_writes() -> None:
    assert {op[0] for op in operations(Register(read_share=0, cas_share=0), 200)} == {"write"}


def test_it_is_drawn_from_the_seed() -> None:
    first = operations(Register(), 300)
    assert operations(Register(), 300) == first
    assert operations(Register(), 300, seed=2) != first


def test_a_compare_and_set_expects_what_the_process_saw_last() -> None:
    script = Register(keys_count=1, read_share=0, cas_share=0.5).script(0, 1, 1, seed=1)
    op, seen, expected = next(script), None, 0
    for turn in range(300):
        f, value, *_, wanted = op
        if f == "cas":
            assert wanted == seen
            expected += 1
        answer = (OK, FAIL, INFO)[turn % 3]
        seen = value if answer == OK else None
        if f == "read":
            seen = 10_000 + turn if answer == OK else None
        op = script.send(completion(answer, result=seen if f == "read" else None))
    assert expected > 20


def test_while_nothing_was_seen_a_read_takes_the_place_of_a_compare_and_set() -> None:
    script = Register(read_share=0, cas_share=0.99).script(0, 1, 1, seed=1)
    first = next(script)
    assert first[0] == "read"
    assert script.send(completion(OK, result=7))[:2] == ("cas", 0)


def test_after_a_process_is_retired_its_script_goes_on_with_new_values() -> None:
    script = Register(read_share=0, cas_share=0).script(2, 5, 1, seed=1)
    assert [next(script)[1], script.send(completion(INFO))[1]] == [2, 7]


@pytest.mark.parametrize(
    ("options", "key", "words"),
    [
        ({"keys_count": 0}, "workload.options.keys_count", "0 is not allowed here; use 1 or more"),
        ({"read_share": 1.5}, "workload.options.read_share", "1.5 is not allowed here; use less"),
        ({"cas_share": float("nan")}, "workload.options.cas_share", "nan is not allowed here"),
        ({"read_share": 0.5, "cas_share": 0.5}, "workload.options", "nothing for writes"),
        (
            {"keys_count": "many"},
            "workload.options.keys_count",
            "'many' is not allowed here; use an integer",
        ),
        ({"key_count": 3}, "workload.options.key_count", "did you mean 'keys_count'?"),
    ],
)
def test_wrong_options_are_refused_at_their_key(
    options: dict[str, Any], key: str, words: str
) -> None:
    with pytest.raises(PlanError) as refused:
        registry.make("workloads", "register", options, key="workload.options.name")
    assert refused.value.key == key
    assert words in str(refused.value)


def test_a_read_names_its_key_alone() -> None:
    script = Register(keys_count=1, read_share=0.9, cas_share=0).script(0, 1, 1, seed=1)
    assert next(script) == invoke("read", key="k0")
