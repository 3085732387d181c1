"""Undo records: one typed record for each lever, and the one place where they become JSON and back.

The fields of a record are the keys of `token` in a line of the journal (`harness.faults.journal`).
They are a contract: a run that an older version began must still be undone. So a field that was
added later has a default, and a field that does not apply is left out of the JSON (`LEFT_OUT`).

Levers of every kind of cluster, and the own levers of targets, share these types: a record says
what was done to which node, never by which mechanism. They are the records of what the nemeses of
the core do. A target whose own lever does something else declares that record itself
(`Target.record_types`), and `harness.faults.journal` finds it.

A journal may be damaged, or be of another version. Reading is strict: an unknown key, a missing one
or a value of another type is refused with one sentence, because an undo that is half right would
change something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, ClassVar, Final, Literal

import orjson
from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError

from harness.errors import HistoryError
from harness.protocols import NodeNames, UndoRecord
from harness.protocols.nodes import RecordT
from harness.wrong_values import expected, first_of

Pid = Annotated[int, Field(gt=0)]
Port = Annotated[int, Field(gt=0, lt=65536)]
Folder = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$")]
Signal = Literal["KILL", "TERM"]
Direction = Literal["in", "out", "both"]
ProtocolAct = Literal["count", "drop", "delay", "reset", "error", "duplicate"]

CLIENTS: Final = "clients"
"""The peer that stands for the workload's clients on this host, which are not nodes."""

LEFT_OUT: Final = {"left_out": True}
"""Marks a field that the JSON leaves out while it has its default."""


@dataclass(frozen=True, kw_only=True)
class Peer:
    """The other end of a link. `address` is None until the lever has looked it up."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    name: NodeNames
    address: str | None = None


@dataclass(frozen=True, kw_only=True)
class NetRecord(UndoRecord):
    """Packets between a node and its peers are dropped (all, or a share) or answered with a reset.

    `direction` is seen from the node. No ports: all traffic; else TCP to these ports only. The peer
    `clients` stands for the workload's clients on this host (`CLIENTS`).
    """

    counts: ClassVar[bool] = True

    peers: tuple[Peer, ...]
    ports: tuple[Port, ...] = ()
    direction: Direction = "both"
    action: Literal["drop", "reset"] = field(default="drop", metadata=LEFT_OUT)
    share: float = field(default=1.0, metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class ShapingRecord(UndoRecord):
    """What a node sends is limited in rate (tbf), or delayed, duplicated, corrupted or reordered
    (netem)."""

    counts: ClassVar[bool] = True

    kind: Literal["tbf", "netem"]
    rate_kbit: int = field(default=0, metadata=LEFT_OUT)
    delay_ms: float = field(default=0.0, metadata=LEFT_OUT)
    jitter_ms: float = field(default=0.0, metadata=LEFT_OUT)
    duplicate_share: float = field(default=0.0, metadata=LEFT_OUT)
    corrupt_share: float = field(default=0.0, metadata=LEFT_OUT)
    reorder_share: float = field(default=0.0, metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class ProcessRecord(UndoRecord):
    """The target's process is ended by a signal; one that has not ended after `grace_s` is killed.
    No pid: it was dead before."""

    signal: Signal
    pid: Pid | None
    grace_s: float = 30


@dataclass(frozen=True, kw_only=True)
class PauseRecord(UndoRecord):
    """The target's process is stopped. No pid: it was dead before. `stopped`: something else than a
    fault of ours had stopped it already."""

    pid: Pid | None
    stopped: bool = False


@dataclass(frozen=True, kw_only=True)
class StressRecord(UndoRecord):
    """Busy loops run and memory is held beside the target's process, at most for `at_most_s`.

    Captured before: the target's `pid`, for how long its threads had waited for a CPU, and how
    often the node's memory was at its limit; None: it was not seen.
    """

    counts: ClassVar[bool] = True

    busy_count: int
    memory_mb: int
    at_most_s: float
    pid: Pid | None = None
    waited_ns: int | None = None
    reclaims: int | None = None


@dataclass(frozen=True, kw_only=True)
class ClockRecord(UndoRecord):
    """The wall clock that the target's process sees is moved.

    jump    by `offset_s` at once
    drift   by `drift_ms_per_s`, for at most `limit_s`
    strobe  by `offset_s` in one half of each `period_s`, for at most `limit_s`
    """

    counts: ClassVar[bool] = True

    form: Literal["jump", "drift", "strobe"]
    offset_s: float = field(default=0.0, metadata=LEFT_OUT)
    drift_ms_per_s: float = field(default=0.0, metadata=LEFT_OUT)
    period_s: float = field(default=0.0, metadata=LEFT_OUT)
    limit_s: float = field(default=0.0, metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class DiskRecord(UndoRecord):
    """Files of a node are damaged while its process is dead, or under it (`alive`). No pid: the
    process was dead before. The other fields are the options of `nemeses.disk`."""

    signal: Signal
    pid: Pid | None
    form: Literal["wipe", "reformat", "unsynced", "truncate", "flip"]
    folders: tuple[str, ...]
    keep_share: float | Literal["random"] = 0.0
    tail: Literal["clean", "torn", "zeros"] = "clean"
    cut_bytes: int = 10
    flip_count: int = 1
    alive: bool = False


@dataclass(frozen=True, kw_only=True)
class PowerRecord(UndoRecord):
    """A node's process is killed and its disk loses power: what was not fsynced is gone. No pid:
    the process was dead before."""

    signal: Signal
    pid: Pid | None


@dataclass(frozen=True, kw_only=True)
class StorageRecord(UndoRecord):
    """A node cannot store in `folder` any more. No pid: its process was dead before. Captured
    before: how many times the process had logged that a write was refused."""

    counts: ClassVar[bool] = True

    folder: Folder
    pid: Pid | None
    refusals: int | None = None


@dataclass(frozen=True, kw_only=True)
class ReadOnlyRecord(StorageRecord):
    """No file can be made, renamed or removed in the folder."""


@dataclass(frozen=True, kw_only=True)
class FullRecord(StorageRecord):
    """No byte is free on the disk that holds the folder."""


@dataclass(frozen=True, kw_only=True)
class ClientRecord(UndoRecord):
    """A client of the workload crashes, by its number; `at_once`: another takes its place
    immediately and not when the fault is healed."""

    client: Annotated[int, Field(gt=0)]
    at_once: bool


@dataclass(frozen=True, kw_only=True)
class FoundConsumer:
    """A consumer of one group before a fault: its life (None: it did not run), and whether it was
    paused."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    life: int | None
    paused: bool = False


@dataclass(frozen=True, kw_only=True)
class ConsumerRecord(UndoRecord):
    """Something happens to a consumer of the run's groups, by its number. Captured before: what was
    there, in each group."""

    consumer: Annotated[int, Field(gt=0)]
    action: Literal["crash", "pause", "leave", "join"]
    found: tuple[FoundConsumer, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Move:
    """One partition: its leader, leader epoch and order of replicas `before`, and the order that is
    `wanted`."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    partition: int
    leader: str | None
    epoch: int
    before: tuple[str, ...]
    wanted: tuple[str, ...]

    @property
    def leading_first(self) -> tuple[str, ...]:
        """The order of before, with the leader of before as the preferred one."""
        others = tuple(name for name in self.before if name != self.leader)
        return (*([self.leader] if self.leader else []), *others)


@dataclass(frozen=True, kw_only=True)
class LeadershipRecord(UndoRecord):
    """Leaders of `node` (one name, or several joined by commas) are moved, or elected. Captured
    before: the partitions concerned, or `unseen`, why they could not be found."""

    form: Literal["move", "elect"]
    partitions: tuple[Move, ...] = ()
    unseen: str | None = None


@dataclass(frozen=True, kw_only=True)
class MembersRecord(UndoRecord):
    """`node` (one name, or several joined by commas) are no longer members of the cluster.
    Captured before: their entries in its configuration, as it needs them to make them members
    again, or `unseen`, why they could not be found."""

    entries: tuple[str, ...] = ()
    unseen: str | None = None


@dataclass(frozen=True, kw_only=True)
class ProgramRecord(UndoRecord):
    """A node gets another program, by its name of `Target.programs`, and keeps what it stores.
    Captured before: what it reported, and whether it had that program already."""

    permanent: ClassVar[bool] = True

    to: str
    kill: bool = field(default=False, metadata=LEFT_OUT)
    found: str = ""
    had: bool = field(default=False, metadata=LEFT_OUT)


@dataclass(frozen=True, kw_only=True)
class StageRecord(UndoRecord):
    """The cluster comes to a stage of a longer change of it, `to`, once these nodes (names joined
    by commas) have; what is stored of the cluster under the names `remove` is deleted. Captured
    before: how far it was."""

    permanent: ClassVar[bool] = True

    to: str
    remove: tuple[str, ...] = field(default=(), metadata=LEFT_OUT)
    found: str = ""


@dataclass(frozen=True, kw_only=True)
class Level:
    """The level of one feature of the cluster."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    feature: str
    level: int


@dataclass(frozen=True, kw_only=True)
class FeaturesRecord(UndoRecord):
    """The levels of features are changed by request; none named: to the highest that every node
    supports. `unsafe`: also where metadata may be lost. Captured before: the levels `found`."""

    permanent: ClassVar[bool] = True

    levels: tuple[Level, ...] = ()
    unsafe: bool = field(default=False, metadata=LEFT_OUT)
    found: tuple[Level, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProtocolRecord(UndoRecord):
    """Requests to a node, or their answers, are met by the proxy before it.

    `apis` by the names that the system has for them; none: every one. Only requests that concern a
    `topic`, or what is called `below` or lies below it; only from `peers`, and none from `others`.
    `first` bounds how many are met, 0 does not. `ms` of a delay: 0 lasts until the fault is undone.
    `code` is the name of an error.
    """

    counts: ClassVar[bool] = True

    act: ProtocolAct
    side: Literal["request", "answer"]
    apis: tuple[str, ...] = ()
    client_id: str = field(default="", metadata=LEFT_OUT)
    topic: str = field(default="", metadata=LEFT_OUT)
    below: str = field(default="", metadata=LEFT_OUT)
    peers: tuple[Peer, ...] = field(default=(), metadata=LEFT_OUT)
    others: tuple[Peer, ...] = field(default=(), metadata=LEFT_OUT)
    share: float = field(default=1.0, metadata=LEFT_OUT)
    first: int = field(default=0, metadata=LEFT_OUT)
    ms: int = field(default=0, metadata=LEFT_OUT)
    code: str = field(default="", metadata=LEFT_OUT)

    @classmethod
    def is_control(cls, document: Mapping[str, object]) -> bool:
        """A proxy that only counts passes everything on."""
        return document.get("act") == "count"


@dataclass(frozen=True, kw_only=True)
class ManualRecord(UndoRecord):
    """What the operator should do, and later undo; each is waited for at most
    `at_most_s`. `places` are the nodes with their addresses, as the operator reads them."""

    instruction: str
    undo_instruction: str
    at_most_s: float
    places: tuple[str, ...] = ()


RECORD_TYPES: Final[Mapping[str, type[UndoRecord]]] = {
    "net": NetRecord,
    "shaping": ShapingRecord,
    "process": ProcessRecord,
    "pause": PauseRecord,
    "stress": StressRecord,
    "clock": ClockRecord,
    "disk": DiskRecord,
    "power": PowerRecord,
    "read-only": ReadOnlyRecord,
    "full": FullRecord,
    "client": ClientRecord,
    "consumer": ConsumerRecord,
    "leadership": LeadershipRecord,
    "members": MembersRecord,
    "program": ProgramRecord,
    "features": FeaturesRecord,
    "stage": StageRecord,
    "protocol": ProtocolRecord,
    "manual": ManualRecord,
}
"""The type of each lever's undo record that the core has, by the lever's name."""


def to_document(record: UndoRecord) -> dict[str, object]:
    """A record as the journal holds it."""
    return {
        each.name: getattr(record, each.name)
        for each in fields(record)
        if not (each.metadata == LEFT_OUT and getattr(record, each.name) == each.default)
    }


def from_document(record_type: type[RecordT], document: object) -> RecordT:
    """The record that a journal holds. Raises HistoryError that says in one sentence which key is
    wrong; the caller adds the file."""
    try:
        record = TypeAdapter(record_type).validate_json(orjson.dumps(document))
    except ValidationError as error:
        findings = first_of(error.errors(include_url=False))
        key = ".".join(str(part) for part in findings[0]["loc"]) or "the record"
        raise HistoryError(
            f"is not an undo record as this version writes it: {key}: {expected(findings)}"
        ) from error
    if not record.fault:
        raise HistoryError("is not an undo record as this version writes it: fault: is missing")
    return record
