"""Append's scripts, as pure generators."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.protocols import INFO, OK, Invoke, Workload, completion, invoke
from workloads.append import Append


def writes(process: int, processes: int, partitions: int, count: int) -> list[Invoke]:
    """What one script does, whatever is answered."""
    script = Append().script(process, processes, partitions, seed=1)
    first = next(script)
    return [first, *(script.send(completion((OK, INFO)[n % 2])) for n in range(count - 1))]


@given(processes=st.integers(1, 40), partitions=st.integers(1, 12), count=st.integers(1, 30))
def test_values_are_unique_dense_and_increasing(
    processes: int, partitions: int, count: int
) -> None:
    each = [writes(p, processes, partitions, count) for p in range(processes)]
    values = [[value for _, value, *_ in own] for own in each]
    assert sorted(chain.from_iterable(values)) == list(range(processes * count))
    assert all(own == sorted(own) for own in values)


@pytest.mark.parametrize(("processes", "partitions"), [(1, 5), (5, 1), (3, 3), (6, 4), (4, 6)])
def test_every_process_writes_to_every_partition(processes: int, partitions: int) -> None:
    for process in range(processes):
        own = writes(process, processes, partitions, partitions)
        assert {partition for _, _, partition, *_ in own} == set(range(partitions))


def test_at_any_moment_the_partitions_are_evenly_used() -> None:
    first = [writes(process, 6, 3, 1)[0] for process in range(6)]
    assert sorted(partition for _, _, partition, *_ in first) == [0, 0, 1, 1, 2, 2]


def test_it_is_a_workload() -> None:
    assert isinstance(Append(), Workload)
    assert writes(0, 1, 1, 2) == [invoke("append", 0, 0), invoke("append", 1, 0)]
