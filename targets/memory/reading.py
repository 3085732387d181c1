"""The final read of the reference system: what one replica of each partition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.history import READS
from harness.protocols import End
from targets.memory.system import Seen, System

if TYPE_CHECKING:
    import pyarrow as pa

LEADER: Final = "leader"
ANOTHER: Final = "another replica"
_COLUMNS: Final = [name for name in READS.names if name != "run_id"]


def read_all(
    system: System, *, reader: str, first: int, partitions: int
) -> tuple[pa.Table, list[End]]:
    """Read so many partitions, from a first one on, from the replica that `reader` stands for; they
    are counted from 0. It takes no time, so nothing changes meanwhile: a read is complete if all
    replicas had everything when it began."""
    import pyarrow as pa

    rows: list[tuple[Any, ...]] = []
    ends = []
    complete = system.fully_replicated()
    now_ns = system.cluster.simulation.now_ns
    for partition in range(partitions):
        name = _replica(system, first + partition, reader)
        seen = _seen(system, name, first + partition) if name else None
        held = system.held(name, first + partition) if name else None
        if name is None or seen is None or held is None:
            ends.append(_unread(partition, f"no replica that is {reader} answers"))
            continue
        rows += [
            (f"{reader}", key, partition, offset, value, seen.epoch, now_ns)
            for offset, key, value in held
        ]
        ends.append(
            End(
                partition=partition,
                log_start_offset=0,
                end_offset=seen.end,
                position=seen.committed,
                leader=seen.leader,
                leader_epoch=seen.epoch,
                members=seen.members,
                complete=complete,
                error=None if complete else "not every replica had everything",
            )
        )
    schema = pa.schema([READS.field(name) for name in _COLUMNS])
    columns = list(zip(*rows, strict=True)) or [()] * len(_COLUMNS)
    by_name = dict(zip(_COLUMNS, columns, strict=True))
    return pa.table(
        {name: pa.array(column, _plain(schema, name)) for name, column in by_name.items()}
    ), ends


def _plain(schema: pa.Schema, name: str) -> pa.DataType:
    import pyarrow as pa

    kind = schema.field(name).type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _replica(system: System, partition: int, reader: str) -> str | None:
    """The leader of a partition, by its own view, or the first of the others."""
    views = {name: _seen(system, name, partition) for name in system.settings.names}
    leaders = {view.leader: view.epoch for view in views.values() if view is not None}
    leader = max(leaders, key=lambda name: leaders[name], default=None)
    if reader == LEADER:
        return leader
    return next((name for name, view in views.items() if view and name != leader), leader)


def _seen(system: System, name: str, partition: int) -> Seen | None:
    views = system.observe(name)
    return None if views is None else views[partition]


def _unread(partition: int, error: str) -> End:
    return End(
        partition=partition,
        log_start_offset=None,
        end_offset=None,
        position=None,
        leader=None,
        leader_epoch=None,
        members=(),
        complete=False,
        error=error,
    )
