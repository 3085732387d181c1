"""Whether each key is linearizable, or sequentially consistent: by columns where it can be, by a
search where it must.

A value that nothing can have stored makes a key invalid; known sources are decided in polynomial
time, all keys at once; only keys in which some value may come from several writes are searched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from checkers.register.interleaving import interleaving
from checkers.register.linearization import (
    INVALID,
    MAX_STATES,
    UNKNOWN,
    VALID,
    Outcome,
    linearization,
)
from checkers.register.operations import NULL, Bools, Ints, Operation, Operations, by_key
from checkers.register.process_order import not_sequential
from checkers.register.sources import Sources, sources
from checkers.register.zones import not_linearizable

LINEARIZABLE: Final = "linearizable"
SEQUENTIAL: Final = "sequential"


class Search(Protocol):
    """A search for an order of one key's operations."""

    def __call__(
        self, operations: Sequence[Operation], *, initial: int, max_states: int
    ) -> Outcome: ...


@dataclass(frozen=True)
class Consistency:
    """What is decided for each key: whether real time counts, and the two ways to decide."""

    in_real_time: bool
    broken: Callable[[Sources], Bools]
    search: Search


CONSISTENCIES: Final = {
    LINEARIZABLE: Consistency(True, not_linearizable, linearization),
    SEQUENTIAL: Consistency(False, not_sequential, interleaving),
}


@dataclass(frozen=True)
class Answers:
    """The verdict on each key, and how many configurations were seen for it: 0 where no search was
    needed."""

    keys: Ints
    verdicts: tuple[str, ...]
    states: Ints

    def of(self, verdict: str) -> Ints:
        """The keys with a verdict."""
        return self.keys[[each == verdict for each in self.verdicts]]


def answers(
    operations: Operations,
    *,
    consistency: str = LINEARIZABLE,
    initial: int = NULL,
    max_states: int = MAX_STATES,
) -> Answers:
    """Judge every key. Raises ValueError for an unknown consistency."""
    model = consistency_named(consistency)
    of_keys = sources(operations, initial=initial, in_real_time=model.in_real_time)
    searched = of_keys.ambiguous & ~of_keys.unwritten
    broken = of_keys.unwritten | (model.broken(of_keys) & ~searched)
    verdicts = np.where(broken, INVALID, VALID).tolist()
    states = np.zeros(len(of_keys.keys), np.int64)
    left = of_keys.operations.take(searched[of_keys.at])
    for key, rows in by_key(left):
        place = int(np.searchsorted(of_keys.keys, key))
        found = model.search(list(left.take(rows)), initial=initial, max_states=max_states)
        verdicts[place], states[place] = found.verdict, found.states
    return Answers(of_keys.keys, tuple(verdicts), states)


def consistency_named(name: str) -> Consistency:
    """One of the consistencies. Raises ValueError for an unknown name."""
    if name not in CONSISTENCIES:
        raise ValueError(f"consistency is {name!r}; use one of {', '.join(CONSISTENCIES)}")
    return CONSISTENCIES[name]


__all__ = [
    "INVALID",
    "LINEARIZABLE",
    "SEQUENTIAL",
    "UNKNOWN",
    "VALID",
    "Answers",
    "Consistency",
    "answers",
    "consistency_named",
]
