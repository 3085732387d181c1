"""The answer on registers: what each key's verdict, counts and ages come to, of one shard or many.

Keys are independent: a history of several registers is linearizable if and only if each of them is
(Herlihy and Wing, "Linearizability: a correctness condition for concurrent objects", ACM TOPLAS 12
(3), 1990). So keys are shards, and the answers on shards that share no key add up exactly.
(Sequential consistency is not local: what is judged is each key by itself.)"""

from __future__ import annotations

from dataclasses import dataclass, fields

from checkers.register.answers import (
    INVALID,
    LINEARIZABLE,
    UNKNOWN,
    VALID,
    Answers,
    answers,
)
from checkers.register.counterexample import CounterExample, counter_example
from checkers.register.linearization import MAX_STATES
from checkers.register.operations import CAS, NULL, READ, WRITE, Operations
from checkers.register.staleness import Staleness, staleness


@dataclass(frozen=True, kw_only=True)
class Options:
    """How registers are judged. `consistency`: linearizable or sequential; `initial`: what they
    hold at first; `max_states`: the budget of a key's search, beyond one configuration per
    operation; `examples`: of how many wrong keys counter-examples are made, those with the least
    codes."""

    consistency: str = LINEARIZABLE
    initial: int = NULL
    max_states: int = MAX_STATES
    examples: int = 3


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many there are; operations of every type; keys that took a search, and what it saw."""

    keys: int = 0
    operations: int = 0
    reads: int = 0
    writes: int = 0
    cas: int = 0
    invalid_keys: int = 0
    undecided_keys: int = 0
    searched_keys: int = 0
    states: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            **{
                each.name: getattr(self, each.name) + getattr(other, each.name)
                for each in fields(Counts)
            }
        )


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The answer on some keys; those of shards without a common key add up. (So do examples: the
    sum has those of every shard.)"""

    counts: Counts
    staleness: Staleness
    invalid: tuple[int, ...] = ()
    undecided: tuple[int, ...] = ()
    examples: tuple[CounterExample, ...] = ()

    @property
    def verdict(self) -> str:
        """Invalid if any key is, else unknown if any is undecided, else valid."""
        if self.invalid:
            return INVALID
        return UNKNOWN if self.undecided else VALID

    def __add__(self, other: Judgement) -> Judgement:
        return Judgement(
            counts=self.counts + other.counts,
            staleness=self.staleness + other.staleness,
            invalid=tuple(sorted(self.invalid + other.invalid)),
            undecided=tuple(sorted(self.undecided + other.undecided)),
            examples=tuple(sorted(self.examples + other.examples, key=lambda each: each.key)),
        )


def judge(operations: Operations, options: Options | None = None) -> Judgement:
    """Judge some keys, each with all of its operations."""
    requested = options or Options()
    found = answers(
        operations,
        consistency=requested.consistency,
        initial=requested.initial,
        max_states=requested.max_states,
    )
    invalid, undecided = found.of(INVALID).tolist(), found.of(UNKNOWN).tolist()
    examples = (
        counter_example(
            operations,
            key,
            consistency=requested.consistency,
            initial=requested.initial,
            max_states=requested.max_states,
        )
        for key in invalid[: requested.examples]
    )
    return Judgement(
        counts=_counts(operations, found),
        staleness=staleness(operations, initial=requested.initial),
        invalid=tuple(invalid),
        undecided=tuple(undecided),
        examples=tuple(each for each in examples if each is not None),
    )


def _counts(operations: Operations, found: Answers) -> Counts:
    return Counts(
        keys=len(found.keys),
        operations=len(operations),
        reads=int((operations.f == READ).sum()),
        writes=int((operations.f == WRITE).sum()),
        cas=int((operations.f == CAS).sum()),
        invalid_keys=len(found.of(INVALID)),
        undecided_keys=len(found.of(UNKNOWN)),
        searched_keys=int((found.states > 0).sum()),
        states=int(found.states.sum()),
    )
