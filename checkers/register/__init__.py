"""Registers: is each key linearizable, how stale were its reads, and what is the smallest proof?

operations       what was requested and answered, as columns; what each type may have done
sources          which write each value that was read comes from, where only one can be
blocks           what must stand together in every legal order then
zones            linearizability by blocks, all keys in one pass
process_order    sequential consistency by blocks
timeline         what a search may do at each completion
linearization    the search, where sources are not known
interleaving     the same for sequential consistency
answers          the verdict on each key, by whichever way decides it
staleness        how old the values were that reads returned, with `dominance`
counterexample   a minimal part of the history that has no legal order
judging          all of it for some keys, and sums of that
"""

from checkers.register.answers import (
    INVALID,
    LINEARIZABLE,
    SEQUENTIAL,
    UNKNOWN,
    VALID,
    Answers,
    answers,
)
from checkers.register.checker import Counts, Judgement, Options, Register, judge
from checkers.register.counterexample import CounterExample, Placed, counter_example
from checkers.register.linearization import MAX_STATES
from checkers.register.operations import (
    CAS,
    FAIL,
    INFO,
    NEVER,
    NULL,
    OK,
    READ,
    WRITE,
    Operation,
    Operations,
)
from checkers.register.staleness import Staleness, quantile, staleness

__all__ = [
    "CAS",
    "FAIL",
    "INFO",
    "INVALID",
    "LINEARIZABLE",
    "MAX_STATES",
    "NEVER",
    "NULL",
    "OK",
    "READ",
    "SEQUENTIAL",
    "UNKNOWN",
    "VALID",
    "WRITE",
    "Answers",
    "CounterExample",
    "Counts",
    "Judgement",
    "Operation",
    "Operations",
    "Options",
    "Placed",
    "Register",
    "Staleness",
    "answers",
    "counter_example",
    "judge",
    "quantile",
    "staleness",
]
