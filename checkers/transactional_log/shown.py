"""Which operations have certainly committed: by their outcome, or because a poll shows it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from checkers.transactional_log.columns import ABSENT, History
from harness.models.micro_ops import POLL, SEND
from harness.protocols import Bools, Ints
from harness.protocols.runs import INFO, OK


class Shown(NamedTuple):
    """Of each operation: one that is ok and polled a value which it sent, ABSENT if there is none;
    and whether it has certainly committed: it is ok, or of unknown outcome and was polled so.
    """

    by: Ints
    committed: Bools


def shown_of(history: History) -> Shown:
    """Which operations committed, by all keys; polls of read_uncommitted show nothing."""
    ops, micro = history.ops, history.micro
    polls, sends = np.flatnonzero(micro.kind == POLL), np.flatnonzero(micro.kind == SEND)
    polls = polls[ops.mark[micro.op[polls]] == OK]
    reader = np.full(history.things, ABSENT)
    reader[micro.thing[polls]] = micro.op[polls]
    sends = sends[reader[micro.thing[sends]] != ABSENT]
    by = np.full(len(ops.mark), ABSENT)
    by[micro.op[sends]] = reader[micro.thing[sends]]
    return Shown(by, (ops.mark == OK) | ((ops.mark == INFO) & (by != ABSENT)))
