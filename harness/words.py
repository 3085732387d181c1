"""Words of a run's files that programs beside the harness write too.

Each consumer of a group is its own process, and dozens of them start at once: what they need
is here, in a module that imports nothing else of the harness and no library.
"""

from __future__ import annotations

from typing import Final, NamedTuple

OK, FAIL, INFO = "ok", "fail", "info"
"""How something ended: it certainly happened, it certainly did not, it is not known."""


class _Kinds(NamedTuple):
    """What a row of `deliveries/` is about; `partition` and `offset` as stated there."""

    start: str = "start"  # a consumer begins a life
    assign: str = "assign"  # a partition, and the offset at which the member begins (null: unknown)
    revoke: str = "revoke"  # the partition is no longer its own
    committed: str = "committed"  # the consumer requested the committed offset (null: none)
    deliver: str = "deliver"  # a record was handed to it: offset, value
    process: str = "process"  # it has processed the record
    commit: str = "commit"  # it commits the offset: `invoke`, then `ok`, `fail` or `info`
    position: str = "position"  # the next offset that it would read, as it leaves
    stop: str = "stop"  # the life ends: `ok` it left, `info` it crashed
    gate: str = "gate"  # of the group: every partition was assigned before the load (`ok`), or not
    drain: str = "drain"  # of the group: all was read and committed at the end (`ok`), or not
    final: str = "final"  # what `node` says at the end is committed (null: none; `fail`: nothing)


KINDS: Final = _Kinds()


class Delivery(NamedTuple):
    """One row of `deliveries/`, in the order of its schema, without the run.

    A separate table: a poll returns many records, an assignment completes no invocation, and a
    consumer that is killed has rows but no completion.

    Times are nanoseconds of the run's monotonic clock: `begun_ns` when what the row states was
    requested, `time_ns` when it was over. A commit has a row as it begins and one as it ends, with
    the same `begun_ns`. `generation`: of the group, as the member knew it then.
    """

    f: str
    begun_ns: int
    time_ns: int
    type: str = OK
    consumer: str | None = None
    life: int | None = None
    member: str | None = None
    generation: int | None = None
    partition: int | None = None
    offset: int | None = None
    value: int | None = None
    node: str | None = None
    error: str | None = None
