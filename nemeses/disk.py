"""Damage to what nodes have stored: lost disks, cut and rotten files, and lost power, after which
what was not fsynced is gone."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar, Literal

from pydantic import Field, PositiveInt

from harness.faults.records import DiskRecord, FullRecord, PowerRecord, ReadOnlyRecord
from harness.protocols import BOUNDED_DISK, OWN_DISK, STORED, Act, NodeNemesis

_ONLY_OF = {
    "keep_share": "unsynced",
    "tail": "unsynced",
    "cut_bytes": "truncate",
    "flip_count": "flip",
    "alive": "flip",
}
_PATTERN = re.compile(r"(?!\.)[A-Za-z0-9._*?\[\]!-]+(/(?!\.)[A-Za-z0-9._*?\[\]!-]+)*")


@dataclass(frozen=True, kw_only=True)
class Disk(NodeNemesis):
    """Damage the files of the chosen nodes, in most forms while their processes are dead.

    Healing starts the processes again. What was lost stays lost.

    form        wipe: the folders are gone; reformat: all data is gone and the disk is formatted
                again, with another directory.id; unsynced: what is above the system's checkpoint of
                what it fsynced is gone; truncate: the newest segment has lost its end; flip: some
                of its bits are wrong; read-only: no file can be made, under the running process;
                full: no byte is free, likewise
    folders     patterns of the folders to damage, below the node's; by default those of Kafka's
                topics but internal ones
    keep_share  the share of the batches above the checkpoint that survives: 0 to 1, or "random"
    tail        after the last batch that survived: clean: nothing; torn: the beginning of the
                next batch; zeros: up to the old length
    cut_bytes   how much truncate cuts off
    flip_count  how many bits flip inverts, drawn from the seed
    alive       flip them under the running process
    """

    plugin: ClassVar[str] = "disk"
    single_use: ClassVar[bool] = True

    form: Literal["wipe", "reformat", "unsynced", "truncate", "flip", "read-only", "full"] = (
        "unsynced"
    )
    folders: tuple[str, ...] = ("data/[!_]*-[0-9]*",)
    keep_share: Annotated[float, Field(ge=0, lt=1)] | Literal["random"] = 0.0
    tail: Literal["clean", "torn", "zeros"] = "clean"
    cut_bytes: PositiveInt = 10
    flip_count: PositiveInt = 1
    alive: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            of = _ONLY_OF.get(field.name, self.form)
            if of != self.form and getattr(self, field.name) != field.default:
                raise ValueError(f"{field.name} belongs to form {of!r}, not to {self.form!r}")
        if not self.folders:
            raise ValueError("folders is empty: name at least one folder")
        for pattern in self.folders:
            if not _PATTERN.fullmatch(pattern):
                raise ValueError(f"{pattern!r} is not a pattern of folders below the data folder")

    @property
    def needs(self) -> frozenset[str]:
        """A disk that may be filled, because nothing else is on it."""
        return frozenset({BOUNDED_DISK} if self.form == "full" else ())

    def act_on(self, node: str, pid: int | None) -> Act:
        if self.form == "read-only":
            return Act("read-only", ReadOnlyRecord(node=node, folder=STORED, pid=pid))
        if self.form == "full":
            return Act("full", FullRecord(node=node, folder=STORED, pid=pid))
        options = {field.name: getattr(self, field.name) for field in fields(self)}
        return Act("disk", DiskRecord(node=node, signal="KILL", pid=pid, **options))


@dataclass(frozen=True, kw_only=True)
class PowerLoss(NodeNemesis):
    """The chosen nodes lose power: their processes are killed, and what they had written without
    fsync is gone from their disks. Healing starts the processes again. It needs root and loop
    devices. The kernel writes back data that is 5 to 35 s old: place the fault within 30 s of the
    writes.
    """

    plugin: ClassVar[str] = "power-loss"
    single_use: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({OWN_DISK})

    def act_on(self, node: str, pid: int | None) -> Act:
        return Act("power", PowerRecord(node=node, signal="KILL", pid=pid))
