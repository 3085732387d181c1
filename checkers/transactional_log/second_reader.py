"""What a second reader found in the logs at the end, beside the reader whose polls are judged.

That a value is lost rests on what one reader did not return. So a run of our own ends with another
reader, which gets everything in a log, and reports for each record whether it committed or was
aborted, by the log itself. A loss counts where the second reader has not found the value committed
either. If it has, or has a value at other offsets, the two disagree, and the truth is unknown.

Its reads are both isolation levels at once: what committed is what a reader of read_committed is to
get, and the rest is what transactions left that were aborted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from checkers.transactional_log.columns import History
from checkers.transactional_log.grouping import codes_of
from harness.models.micro_ops import POLL, SEND
from harness.protocols import Bools, Ints
from harness.protocols.runs import FAIL, INFO, OK

COMMITTED, ABORTED, ABSENT, UNREAD = range(4)
STATES: Final = ("committed", "aborted", "absent", "unread")
"""What the second reader says of a value; `unread`: it has not read that log."""
OUTCOMES: Final = {"acknowledged": OK, "failed": FAIL, "unknown": INFO}


class Second(NamedTuple):
    """What it says of a history. `sent`: of the values of each of OUTCOMES, how many are in each of
    STATES; `differ`: how many values the two readers do not have at the same offsets."""

    sent: Ints
    differ: int

    @classmethod
    def of_all(cls, parts: Iterable[Second]) -> Second:
        """Of all shards."""
        sent, differ = zip(*parts, strict=True)
        return cls(np.sum(sent, axis=0), sum(differ))


def states_of(history: History) -> Ints:
    """Of each thing, what the second reader says of it: one of STATES."""
    log, things = history.final.log, history.things
    if not len(history.final.whole):
        return np.full(things, UNREAD)
    number_of = history.keys[history.key_of]
    pairs = codes_of(
        np.concatenate([history.value_of, log.value]),
        codes_of(np.concatenate([number_of, log.key])).codes,
    )
    found = np.full(pairs.number, ABSENT)
    of_log = pairs.codes[things:]
    found[of_log[~log.committed]] = ABORTED
    found[of_log[log.committed]] = COMMITTED
    return np.where(np.isin(number_of, history.final.whole), found[pairs.codes[:things]], UNREAD)


def second_of(history: History, states: Ints) -> Second:
    """What it says of the keys of a history."""
    micro = history.micro
    sends = np.flatnonzero(micro.kind == SEND)
    mark, state = history.ops.mark[micro.op[sends]], states[micro.thing[sends]]
    sent = [np.bincount(state[mark == each], minlength=len(STATES)) for each in OUTCOMES.values()]
    return Second(np.array(sent), _differing(history))


def missing(history: History, states: Ints) -> Bools:
    """Things that the second reader has not found to be committed, of logs that both readers have
    read to their ends."""
    of_both = np.isin(history.keys[history.key_of], history.final.both)
    found: Bools = of_both & (states != COMMITTED)
    return found


def confirmed(history: History, states: Ints, *, ours: bool) -> Bools:
    """Which things may be reported as lost: the second reader misses them too. Not `ours`: all, as
    a history from outside has no second reader."""
    return missing(history, states) if ours else np.ones(history.things, np.bool_)


def _differing(history: History) -> int:
    """How many values the two readers do not have at the same offsets, in the logs that both have
    read to their ends; the first reader gets what committed."""
    micro, final = history.micro, history.final
    if not len(final.ended) or not len(final.whole):
        return 0
    polls = np.flatnonzero((micro.kind == POLL) & history.is_final[micro.op])
    key = np.concatenate([history.keys[micro.key[polls]], final.log.key])
    value = np.concatenate([micro.value[polls], final.log.value])
    offset = np.concatenate([micro.offset[polls], final.log.offset])
    first = np.arange(len(key)) < len(polls)
    heard = np.isin(key, final.both)
    heard[len(polls) :] &= final.log.committed
    code = codes_of(value, codes_of(key).codes).codes
    record = codes_of(offset, code).codes
    apart = np.setxor1d(record[heard & first], record[heard & ~first])
    return len(np.unique(code[heard & np.isin(record, apart)]))
