"""What operations mean, model by model: their functions, and which of them write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Model:
    """A vocabulary of operations that a workload uses, a target serves and a checker judges.

    functions   the names that an operation's `f` may have
    writes      those that change the system: an `ok` acknowledges one
    check       the checker that judges a run whose plan names none
    final_read  whether a run ends with everything that the system holds being read back
    """

    name: str
    functions: frozenset[str]
    writes: frozenset[str]
    check: str
    final_read: bool = False


APPEND: Final = "append"

MOST_APPENDED: Final = 10**18 - 1
"""The highest value that can be appended; the least is 0. Targets write values as digits, at most
18 of them, and what is read and is not such a number counts as written by somebody else."""

LOG: Final = Model(
    name="log",
    functions=frozenset({APPEND}),
    writes=frozenset({APPEND}),
    final_read=True,
    check="loss",
)
"""Values appended to partitions, each unique under its key; the final read returns all of them."""

REGISTER: Final = Model(
    name="register",
    functions=frozenset({"read", "write", "cas", "delete"}),
    writes=frozenset({"write", "cas", "delete"}),
    check="register",
)
"""One value a key: `read` returns it in `result`, `write` sets `value`, `cas` sets `value` where
`expected` stands. `delete` takes the value away, as a write of no value; its own `value` only names
it."""

SET: Final = Model(
    name="set",
    functions=frozenset({"add", "read"}),
    writes=frozenset({"add"}),
    check="set",
)
"""`add` puts a unique `value` into one set, `read` returns all of it in `result`, as a tuple (the
history's column `elements`)."""

QUEUE: Final = Model(
    name="queue",
    functions=frozenset({"enqueue", "dequeue", "drain"}),
    writes=frozenset({"enqueue"}),
    check="queue",
)
"""`enqueue` puts a unique `value` into one queue. `dequeue` takes one element out of it (`result`;
none: it found nothing), and `drain` all of them (`result` is a tuple, the history's column
`elements`): it is `ok` only if nothing was left, nor out with another client. Either is `fail` only
if it removed nothing: what ended otherwise may have removed elements that no client knows."""

WATCH: Final = Model(
    name="watch",
    functions=frozenset({"write", "watch"}),
    writes=frozenset({"write"}),
    check="watches",
)
"""`write` sets the `value` of a key. `watch` reads a key and requests to be notified of its next
change: `elements` are the value that was read (NULL: none) and whether a notification had come for
the process's earlier watch of the key (1, 0; NULL: there was none that still counts). The place of
both is that of the write in the order of all writes: `offset`. The `elements` of both end with the
number of the client's session, NULL where it is not known: what a client has seen binds only that.
"""

SEQUENCE: Final = Model(
    name="sequence",
    functions=frozenset({"next"}),
    writes=frozenset({"next"}),
    check="sequence",
)
"""`next` stores a unique `value` and is answered the number that the system gave it: `offset`."""

LOCK: Final = Model(
    name="lock",
    functions=frozenset({"acquire", "confirm", "release"}),
    writes=frozenset({"acquire", "release"}),
    check="locks",
)
"""`acquire` takes the lock `key`, or fails because it is held; `confirm` asks whether this process
still holds it (`result` 1 or 0); `release` gives it back. A lock ends with its holder's session."""

TRANSACTION: Final = Model(
    name="transaction",
    functions=frozenset(
        {
            *("txn", "send", "poll", "assign", "subscribe", "read-log"),
            *("crash", "debug-topic-partitions"),
        }
    ),
    writes=frozenset({"txn", "send"}),
    check="kafka",
)
"""`txn` is a transaction of micro-operations that send values to logs and poll what the logs hold;
`send` and `poll` are those that only do one of the two. `assign` and `subscribe` say which logs the
process polls from then on; `read-log` is what a second reader finds in logs at the end; the others
say nothing of any log. The names are Jepsen's, but for `read-log`. What an operation did is in
`elements` (`harness.models.micro_ops`)."""

LIST_APPEND: Final = Model(
    name="list-append",
    functions=frozenset({"txn"}),
    writes=frozenset({"txn"}),
    check="list-append",
)
"""`txn` is a transaction of appends of unique values to lists, and of reads of whole lists, in
`elements` (`harness.models.micro_ops`)."""

RW_REGISTER: Final = Model(
    name="rw-register",
    functions=frozenset({"txn"}),
    writes=frozenset({"txn"}),
    check="rw-register",
)
"""The same of registers: each write to one has a value that no other write to it has."""

GROUP: Final = Model(
    name="group",
    functions=frozenset({APPEND}),
    writes=frozenset({APPEND}),
    final_read=True,
    check="delivery",
)
"""A log, as `LOG`, that a group of consumers reads meanwhile. A *group* shares out partitions among
its *members*; each change of who has what is a *generation*. A member's *position* in a partition
is the next offset that it will read; to *commit* an offset is to have the system keep it, as where
the next member begins. What consumers did is in `deliveries/` (`harness.protocols.groups`)."""


MODELS: Final = {
    model.name: model
    for model in (
        *(LOG, REGISTER, SET, QUEUE, WATCH, SEQUENCE, LOCK),
        *(TRANSACTION, LIST_APPEND, RW_REGISTER, GROUP),
    )
}
