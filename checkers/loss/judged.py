"""The outcome of the values that need a closer look: a write can be of several kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from checkers.loss.closer import Odd
from checkers.loss.counts import Counts
from checkers.loss.readers import confirmed
from harness.protocols import NULL, Bools, Facts, Ints
from harness.protocols.runs import FAIL, INFO, OK


@dataclass(frozen=True)
class Judged:
    """Whether each odd value is of each kind; and, of the copies, whether each is where it should
    be. `owner`: the value of each copy; `extra`: the copies but each value's first."""

    by_name: Mapping[str, Bools]
    home: Bools
    owner: Ints
    extra: Bools

    def counts(self) -> Counts:
        """How many there are of each."""
        counted = {name: int(each.sum()) for name, each in self.by_name.items()}
        again = self.owner[self.extra]
        return Counts(
            **counted,
            duplicates=len(again),
            duplicates_acknowledged=int(self.by_name["acknowledged"][again].sum()),
            duplicates_unknown=int(self.by_name["unknown"][again].sum()),
        )


def judge(facts: Facts, odd: Odd) -> Judged:
    attempted = odd.marks != 0
    told_ok = odd.marks & OK != 0
    acknowledged = told_ok & (facts.promises.acknowledges)
    failed = ~told_ok & (odd.marks & INFO == 0) & (odd.marks & FAIL != 0)
    unknown = attempted & ~told_ok & ~failed

    owner = odd.copies[:, 0]
    home = _at_home(odd)
    survivors = any_of(owner[home], len(attempted))
    absent = acknowledged & ~survivors
    beyond, below = _beyond_and_below(facts, odd)
    return Judged(
        {
            "attempted": attempted,
            "acknowledged": acknowledged,
            "sent": told_ok & ~acknowledged,
            "failed": failed,
            "unknown": unknown,
            "survivors": survivors,
            "lost": absent & ~beyond,
            "not_yet_visible": absent & beyond,
            "deleted": absent & ~beyond & below,
            "unacknowledged_found": survivors & ~acknowledged,
            "failed_found": survivors & failed,
            "unknown_found": survivors & unknown,
            "unexpected": any_of(owner[~home], len(attempted)),
        },
        home=home,
        owner=owner,
        extra=~is_first(owner),
    )


def _at_home(odd: Odd) -> Bools:
    """Of each copy, whether its value was attempted on its partition; where it is not known where
    a write was sent to, any partition is the right one."""
    owner, where = odd.copies[:, 0], odd.copies[:, 1]
    sent, sent_to = odd.sent_to[:, 0], odd.sent_to[:, 1]
    partitions = 1 + max(where.max(initial=0), sent_to.max(initial=0))
    sent_there = np.isin(owner * partitions + where, sent * partitions + sent_to)
    known = any_of(sent, len(odd.marks))
    home: Bools = (odd.marks != 0)[owner] & (~known[owner] | sent_there)
    return home


def _beyond_and_below(facts: Facts, odd: Odd) -> tuple[Bools, Bools]:
    """Whether each value may stand beyond what was read of its partition, or below its start."""
    beyond, below = np.ones(len(odd.marks), np.bool_), np.zeros(len(odd.marks), np.bool_)
    no_offset = odd.offset == NULL
    for end in facts.ends:
        here = odd.partition == end.partition
        if end.whole:
            beyond[here] = False
        elif end.complete and end.read_to is not None:
            beyond[here] = (no_offset | (odd.offset >= end.read_to))[here]
        if end.log_start is not None and end.log_start > 0:
            below[here] = (no_offset | (odd.offset < end.log_start))[here]
    return beyond, below


def unconfirmed(facts: Facts, odd: Odd, judged: Judged, *, verified: bool) -> dict[str, int]:
    """How many of each kind rest on a partition that two libraries did not read to the end (nor one
    that did, if it is `verified`). Where it is not known which partition a lost write was sent to,
    it rests on all."""
    two = np.array(sorted(confirmed(facts, verified=verified)), np.int64)
    everywhere = set(range(facts.promises.partitions)) <= set(two.tolist())
    kinds, size, owner = judged.by_name, len(odd.marks), odd.copies[:, 0]
    lost = kinds["lost"] if facts.promises.deletes else kinds["lost"] & ~kinds["deleted"]
    unsure = ~np.isin(odd.copies[:, 1], two)
    nowhere = ~np.where(odd.partition == NULL, everywhere, np.isin(odd.partition, two))
    return {
        "lost": int((lost & nowhere).sum()),
        "failed_found": int((kinds["failed_found"] & any_of(owner[unsure], size)).sum()),
        "unexpected": int((kinds["unexpected"] & any_of(owner[unsure & ~judged.home], size)).sum()),
        "duplicates": int((judged.extra & unsure).sum()),
    }


def any_of(places: Ints, size: int) -> Bools:
    """Whether each of `size` is among these places."""
    found = np.zeros(size, np.bool_)
    found[places] = True
    return found


def is_first(owner: Ints) -> Bools:
    """Whether each is its owner's first, of sorted owners."""
    first: Bools = np.diff(owner, prepend=-1) != 0
    return first
