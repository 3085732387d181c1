"""What a plan states about ZooKeeper: its sections, and which values exclude each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Literal

from pydantic import Field, model_validator

from harness.plan import Image, Plan, Section, Slug, TargetPlan, Version
from harness.servers import ServerWorkloadPlan

# fmt: off
Word = Literal[
    "conf", "cons", "crst", "dirs", "dump", "envi", "hash", "isro", "lead",
    "mntr", "orst", "ruok", "srst", "srvr", "stat", "wchc", "wchp", "wchs",
]
# fmt: on
"""ZooKeeper's four-letter words, but for those that change how a server traces."""


_STARTER: Final = """
[ensemble]
servers = 3
forceSync = {force}              # whether a transaction is fsynced before it is acknowledged

[workload]
name = "set"
"""
STARTERS: Final[Mapping[str, str]] = {
    "safe": _STARTER.format(force="true"),
    "fast": _STARTER.format(force="false"),
}


class ZooKeeperTargetPlan(TargetPlan):
    """ZooKeeper; how many servers it has is in [ensemble]."""

    newest: ClassVar[Sequence[str]] = ("3.4.14", "3.5.10", "3.6.4", "3.7.2", "3.8.7", "3.9.5")
    growing_since: ClassVar[str] = "3.8"

    system: Slug = Field("zookeeper", description="The system under test, a plug-in in targets/.")
    version: Version | None = Field(None, description="A released version, such as 3.9.5.")
    image: Image | None = Field(None, description="Refused: ZooKeeper runs from its artefacts.")


class EnsemblePlan(Section):
    """The servers, and the settings that all of them have. Names and units of settings are
    ZooKeeper's; its other settings are in `target.settings`."""

    servers: Literal[1, 3, 5, 7] = Field(3, description="Servers with a vote: z1 ... .")
    observers: int = Field(0, ge=0, le=4, description="Observers, without a vote: o1 ... .")
    tickTime: int = Field(500, ge=50, le=10_000, description="One tick, in milliseconds.")
    initLimit: int = Field(
        20, ge=1, le=1000, description="Ticks that a server may take to connect to its leader."
    )
    syncLimit: int = Field(
        6, ge=1, le=1000, description="Ticks that a server may stay behind its leader."
    )
    forceSync: bool = Field(
        True, description="Whether a transaction is fsynced before it is acknowledged."
    )
    snapCount: int = Field(
        100_000, ge=2, le=10_000_000, description="Transactions after which a snapshot is taken."
    )
    four_letter_words: tuple[Word, ...] = Field(
        (),
        description="Words that servers answer besides those that ackloss uses "
        "(`conf`, `mntr`, `ruok`, `srvr`).",
    )
    reconfig: bool = Field(
        False, description="Whether members can be changed while it runs (3.5 and later)."
    )

    @model_validator(mode="after")
    def _observers_observe(self) -> EnsemblePlan:
        if self.observers and self.servers == 1:
            raise ValueError("observers need an ensemble: servers is 1, use 3, 5 or 7")
        if self.reconfig and self.servers == 1:
            raise ValueError("reconfig needs an ensemble: servers is 1, use 3, 5 or 7")
        return self


class ZooKeeperWorkloadPlan(ServerWorkloadPlan):
    """The workload and the clients that run it. Each process has its own client, if there are
    enough clients."""

    clients: int = Field(
        12, ge=1, le=64, description="Real clients (sessions), each with one operation in flight."
    )
    connect: Literal["all", "one"] = Field(
        "all",
        description="The servers that a client is given: all of them, or one each, in turn.",
    )
    read: Literal["plain", "sync"] = Field(
        "plain", description="How values are read: a read alone, or a `sync` first."
    )
    parent: str = Field(
        "/ackloss",
        pattern=r"^(/[A-Za-z0-9_.-]*[A-Za-z0-9_-])+$",
        max_length=200,
        description="The znode below which clients write.",
    )
    session_ms: int = Field(
        4000, ge=100, le=600_000, description="The session timeout that clients request."
    )
    request_ms: int = Field(
        5000, ge=100, le=600_000, description="How long a client waits for one answer."
    )


class ZooKeeperPlan(Plan):
    """Top-level keys of a plan for ZooKeeper."""

    target: ZooKeeperTargetPlan = Field(default_factory=lambda: ZooKeeperTargetPlan())
    ensemble: EnsemblePlan = Field(default_factory=lambda: EnsemblePlan())
    workload: ZooKeeperWorkloadPlan = Field(default_factory=lambda: ZooKeeperWorkloadPlan())

    @property
    def replicas(self) -> int:
        """Every server holds everything, observers too; only those with a vote count."""
        return self.ensemble.servers
