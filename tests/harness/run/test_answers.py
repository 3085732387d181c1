"""A target that returns what it may not is named, with the method and what would be right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from harness.errors import HarnessFailure
from harness.history import READS
from harness.plan import parse_plan
from harness.protocols import End, ImageRef, Ingredients, NodeSpec, Order
from harness.protocols.clusters import specs_of
from harness.run.final_read import read_by, readers_of
from targets.kafka.target import Kafka
from targets.zookeeper import ZooKeeper

PLAN = parse_plan({"schema": 1, "name": "t", "target": {"version": "4.3.1"}})
CLUSTER: Any = None
ROW = {
    "reader": "a", "key": None, "partition": 0, "offset": 0, "value": 1, "leader_epoch": None,
    "time_ns": 5,
}  # fmt: skip
SCHEMA = pa.schema([field for field in READS if field.name != "run_id"])
END = End(
    partition=0,
    log_start_offset=0,
    end_offset=1,
    position=1,
    leader=None,
    leader_epoch=None,
    members=(),
    complete=True,
)


class Odd:
    """A target whose methods return what it is made with."""

    plugin = "odd"
    models = frozenset({"log"})

    def __init__(self, **methods: Any) -> None:
        for name, returned in methods.items():
            setattr(self, name, lambda *_, _returned=returned, **__: _returned)


def table(**changed: Any) -> pa.Table:
    return pa.Table.from_pylist([ROW | changed], SCHEMA)


def with_column(name: str, values: Any) -> pa.Table:
    return pa.table({**{each: table()[each] for each in SCHEMA.names}, name: values})


def read(target: Any) -> Any:
    return read_by(target, CLUSTER, PLAN, "a")


def readers(target: Any) -> Any:
    return readers_of(target, PLAN)


WRONG: list[tuple[Callable[[Any], Any], Odd, str]] = [
    (readers, Odd(readers="ab"), "readers() returns 'ab': should be a valid tuple"),
    (readers, Odd(readers=("a", "a")), "returns 'a' twice, not two that read differently"),
    (read, Odd(read_all=None), "the reader 'a' returns None: should be a valid tuple"),
    (read, Odd(read_all=(table(), [1])), "1.0 should be an instance of End"),
    (read, Odd(read_all=(table().drop_columns(["key"]), [END])), 'cannot be read: \'Field "key"'),
    (
        read,
        Odd(read_all=(with_column("value", pa.array([None], pa.int64())), [END])),
        "returns a table that cannot be read: ",
    ),
    (read, Odd(read_all=(table(reader="b"), [END])), "returns rows of the reader 'b'"),
]


@pytest.mark.parametrize(("ask", "target", "why"), WRONG)
def test_what_a_target_may_not_return_is_refused_with_its_name(
    ask: Callable[[Any], Any], target: Odd, why: str
) -> None:
    with pytest.raises(HarnessFailure) as refused:
        ask(target)
    assert refused.value.what.startswith("the target 'odd': ")
    assert why in refused.value.what


def test_columns_in_another_order_and_of_a_narrower_type_are_read() -> None:
    odd = table().select(SCHEMA.names[::-1])
    odd = odd.set_column(odd.column_names.index("value"), "value", pa.array([1], pa.int32()))
    rows, ends = read(Odd(read_all=(odd, [END])))
    assert rows.schema.equals(SCHEMA)
    assert (rows.to_pylist(), ends) == ([ROW], [END])


@pytest.mark.parametrize(
    "returned", [None, [], [1], [NodeSpec(name="x", roles=frozenset(), argv=[])]]
)
def test_nodes_are_those_that_the_target_names(
    monkeypatch: pytest.MonkeyPatch, returned: Any
) -> None:
    order, ingredients = (
        Order(plan=PLAN, target=Kafka()),
        Ingredients(image=ImageRef(reference="i", id="")),
    )
    addresses = {name: f"198.18.0.{n}" for n, name in enumerate(Kafka().names(PLAN))}  # type: ignore[arg-type]
    assert len(specs_of(order, ingredients, addresses)) == 6
    monkeypatch.setattr(Kafka, "nodes", lambda *_: returned)
    with pytest.raises(
        HarnessFailure, match=r"the target 'kafka': nodes\(\) returns .*, not a NodeSpec"
    ):
        specs_of(order, ingredients, addresses)


def test_a_target_without_a_final_read_needs_no_second_reader() -> None:
    zookeeper = ZooKeeper()
    plan = parse_plan({"schema": 1, "name": "t", "target": {"system": "zookeeper"}})
    first, second = readers_of(zookeeper, plan)
    assert first == second
