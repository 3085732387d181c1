"""Append's scripts, as pure generators."""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.protocols import INFO, OK, Completion, Invoke, Workload
from workloads.append import Append


def writes(process: int, processes: int, partitions: int, count: int) -> list[Invoke]:
    """What one script does, whatever is answered."""
    script = Append().script(process, processes, partitions, seed=1)
    first = next(script)
    return [first, *(script.send(Completion((OK, INFO)[n % 2])) for n in range(count - 1))]


@given(processes=st.integers(1, 40), partitions=st.integers(1, 12), count=st.integers(1, 30))
def test_values_are_unique_dense_and_increasing(
    processes: int, partitions: int, count: int
) -> None:
    each = [writes(p, processes, partitions, count) for p in range(processes)]
    values = [write.value for own in each for write in own]
    assert sorted(values) == list(range(processes * count))
    assert all(own == sorted(own, key=lambda write: write.value) for own in each)


@pytest.mark.parametrize(("processes", "partitions"), [(1, 5), (5, 1), (3, 3), (6, 4), (4, 6)])
def test_every_process_writes_to_every_partition(processes: int, partitions: int) -> None:
    for process in range(processes):
        own = writes(process, processes, partitions, partitions)
        assert {write.partition for write in own} == set(range(partitions))


def test_at_any_moment_the_partitions_are_evenly_used() -> None:
    scripts = [Append().script(p, 6, 3, seed=1) for p in range(6)]
    first = [next(script).partition for script in scripts]
    assert sorted(first) == [0, 0, 1, 1, 2, 2]


def test_it_is_a_workload() -> None:
    assert isinstance(Append(), Workload)
    assert next(islice(Append().script(0, 1, 1, 0), 1)).f == "append"
