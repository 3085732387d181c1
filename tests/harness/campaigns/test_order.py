"""Which run is next."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import Any

from harness.campaigns.plan import Cell
from harness.campaigns.scheduler import Order, Task
from harness.campaigns.sharing import Group


def cells(**repetitions: int) -> list[Cell]:
    unused: Any = None
    return [Cell({"a": name}, {}, unused, times) for name, times in repetitions.items()]


def order(of: list[Cell], **how: Any) -> Order:
    return in_groups([(cell,) for cell in of], **how)


def in_groups(groups: list[Group], **how: Any) -> Order:
    same = {cell.name: "same" for group in groups for cell in group}
    return Order(groups, how.pop("cluster_of", same), **how)


def taken(order: Order, kept: str | None = None) -> list[tuple[str, int]]:
    found = []
    while (task := order.next(kept, [])) is not None:
        found.append((task.cells[0].name, task.repetition))
        kept = order.cluster_of[task.cells[0].name]  # type: ignore[assignment]
    return found


def test_every_cell_has_one_run_before_any_has_a_second() -> None:
    runs = taken(order(cells(x=3, y=3, z=1)))
    assert runs == [
        ("a=x", 0), ("a=y", 0), ("a=z", 0), ("a=x", 1), ("a=y", 1), ("a=x", 2), ("a=y", 2),
    ]  # fmt: skip


def test_the_order_is_balanced_wherever_it_stops() -> None:
    of = cells(w=20, x=20, y=20, z=20)
    assert lead(order(of), of) == 1
    single_use = {"a=w": None, "a=x": None, "a=y": None, "a=z": None}
    assert lead(order(of, cluster_of=single_use), of) == 1
    kept = {"a=w": "1", "a=x": "2", "a=y": "1", "a=z": "2"}
    assert lead(order(of, cluster_of=kept), of) == 5
    for repetitions, at_most in ((100, 10), (250, 20)):
        many = cells(w=repetitions, x=repetitions, y=repetitions, z=repetitions)
        assert lead(order(many, cluster_of=kept), many) == at_most


def lead(order: Order, of: list[Cell]) -> int:
    """The most runs that one cell is ahead of another, wherever the campaign stops."""
    counts = Counter({cell.name: 0 for cell in of})
    most = 0
    for name, _ in taken(order):
        counts[name] += 1
        most = max(most, max(counts.values()) - min(counts.values()))
    return most


def test_finished_runs_are_left_out_and_a_broken_one_comes_first() -> None:
    left = order(cells(x=2, y=2), finished={("a=x", 0), ("a=y", 1)})
    assert len(left) == 2
    task = left.next("same", [])
    assert task is not None
    assert (task.cells[0].name, task.repetition) == ("a=y", 0)
    left.put_back(task)
    assert taken(left) == [("a=y", 0), ("a=x", 1)]


def test_a_worker_keeps_its_cluster_for_five_rounds() -> None:
    clusters = {"a=w": "1", "a=x": "2", "a=y": "1", "a=z": "2"}
    runs = taken(order(cells(w=6, x=6, y=6, z=6), cluster_of=clusters), kept="2")
    assert "".join(name[-1] for name, _ in runs) == "xz" * 5 + "wy" * 6 + "xz"


def test_a_worker_keeps_its_cluster_while_another_worker_is_slow() -> None:
    left = order(cells(x=9, y=9), cluster_of={"a=x": "1", "a=y": "2"})
    assert left.next("1", ["2"]) == Task(left.groups[0], 0)  # type: ignore[index]
    found = []
    while (task := left.next("2", ["1"])) is not None and task.cells[0].name == "a=y":
        found.append(task.repetition)
    assert found == [0, 1, 2, 3, 4, 5]
    assert task is not None
    assert (task.cells[0].name, task.repetition) == ("a=x", 1)


def test_a_new_worker_takes_a_cell_whose_cluster_no_other_has() -> None:
    clusters = {"a=x": "1", "a=y": "1", "a=z": "2"}
    task = order(cells(x=1, y=1, z=1), cluster_of=clusters).next(None, ["1"])
    assert task is not None
    assert task.cells[0].name == "a=z"


def test_with_more_clusters_than_workers_a_cluster_serves_five_rounds_before_the_next() -> None:
    clusters = {"a=x": "1", "a=y": "2", "a=z": "3"}
    runs = taken(order(cells(x=10, y=10, z=6), cluster_of=clusters))
    in_a_row = [(name, len(list(of_name))) for name, of_name in groupby(name for name, _ in runs)]
    assert in_a_row == [("a=x", 5), ("a=y", 5), ("a=z", 6), ("a=x", 5), ("a=y", 5)]
    for stop in range(len(runs)):
        counts = Counter(name for name, _ in runs[:stop] if name != "a=z")
        assert abs(counts["a=x"] - counts["a=y"]) <= 5


def test_cells_that_lost_before_come_first() -> None:
    runs = taken(order(cells(x=1, y=1, z=1), first={"a=z"}))
    assert runs[0] == ("a=z", 0)


def test_cells_that_share_a_run_are_one_task_for_each_repetition() -> None:
    x, y, z = cells(x=2, y=1, z=2)
    left = in_groups([(x, y), (z,)])
    assert len(left) == 4
    found = [left.next("same", []) for _ in range(4)]
    assert found == [Task((x, y), 0), Task((z,), 0), Task((x,), 1), Task((z,), 1)]
    assert left.next("same", []) is None


def test_of_a_shared_run_only_missing_cells_are_repeated() -> None:
    x, y, z = cells(x=2, y=2, z=2)
    finished = {("a=x", 0), ("a=x", 1), ("a=z", 1)}
    left = in_groups([(x, y, z)], finished=finished)
    assert [left.next(None, []) for _ in range(2)] == [Task((y, z), 0), Task((y,), 1)]


def test_a_cell_that_lost_before_brings_those_that_share_its_run() -> None:
    x, y, z = cells(x=1, y=1, z=1)
    task = in_groups([(x,), (y, z)], first={"a=z"}).next(None, [])
    assert task == Task((y, z), 0)
