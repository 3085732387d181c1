"""Faults of the target's process on the chosen nodes: it dies and is started again later, is
stopped as in a long garbage collection, has a noisy neighbour that burns CPU or holds memory, or
sees a wrong wall clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from harness.faults.records import ClockRecord, PauseRecord, ProcessRecord, StressRecord
from harness.protocols import FAKETIME, Act, NodeNemesis


@dataclass(frozen=True, kw_only=True)
class Kill(NodeNemesis):
    """A signal ends the processes of the chosen nodes in parallel; healing starts them again.

    The page cache survives, as it does when a process dies and the machine stays up.

    signal   KILL: without warning; TERM: a clean stop, as in a planned restart
    grace_s  how long a clean stop may take; then it is killed, and the fault is not proven
    """

    plugin: ClassVar[str] = "kill"

    signal: Literal["KILL", "TERM"] = "KILL"
    grace_s: Annotated[float, Field(ge=1, le=600)] = 30

    def act_on(self, node: str, pid: int | None) -> Act:
        return Act(
            "process", ProcessRecord(node=node, signal=self.signal, pid=pid, grace_s=self.grace_s)
        )


@dataclass(frozen=True, kw_only=True)
class Pause(NodeNemesis):
    """SIGSTOP on the processes of the chosen nodes in parallel; healing continues them.

    Connections stay open and nothing is refused: peers and clients notice by their timeouts alone.
    """

    plugin: ClassVar[str] = "pause"

    def act_on(self, node: str, pid: int | None) -> Act:
        return Act("pause", PauseRecord(node=node, pid=pid))


@dataclass(frozen=True, kw_only=True)
class Stress(NodeNemesis):
    """Busy loops and held memory on the chosen nodes, inside the node's own limits.

    Of memory beyond the node's limit the kernel ends the holder, not the target: the fault is then
    unproven.

    busy_count  how many busy loops
    memory_mb   how many MiB are held
    at_most_s   it ends after this time in any case
    """

    plugin: ClassVar[str] = "stress"

    busy_count: Annotated[int, Field(ge=0, le=64)] = 2
    memory_mb: Annotated[int, Field(ge=0, le=16384)] = 0
    at_most_s: Annotated[float, Field(ge=1, le=86_400)] = 600

    def __post_init__(self) -> None:
        if not (self.busy_count or self.memory_mb):
            raise ValueError("busy_count and memory_mb are both 0: there is nothing to do")

    @property
    def limit(self) -> tuple[str, float] | None:
        return "at_most_s", self.at_most_s

    def act_on(self, node: str, pid: int | None) -> Act:
        record = StressRecord(
            node=node,
            busy_count=self.busy_count,
            memory_mb=self.memory_mb,
            at_most_s=self.at_most_s,
        )
        return Act("stress", record)


_LONGEST_S = 20 * 365 * 86_400


@dataclass(frozen=True, kw_only=True)
class Clock(NodeNemesis):
    """Move the wall clock of the target's process. Healing puts it back.

    form            jump: by offset_s immediately; drift: more and more, by drift_ms_per_s;
                    strobe: by offset_s for half of each period_s, correct for the other half
    offset_s        how far ahead; negative: behind
    drift_ms_per_s  how much it gains each second, in steps of 0.2 s; negative: it loses
    period_s        how long the two halves of a strobe take together; a process sees a change
                    within 1 s
    limit_s         a drift or strobe ends after this time in any case
    """

    plugin: ClassVar[str] = "clock"
    single_use: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({FAKETIME})

    form: Literal["jump", "drift", "strobe"] = "jump"
    offset_s: float = 60
    drift_ms_per_s: float = 20
    period_s: Annotated[float, Field(ge=4, le=3600)] = 4
    limit_s: Annotated[int, Field(ge=1, le=86_400)] = 3600

    def __post_init__(self) -> None:
        if not 0.2 <= abs(self.offset_s) <= _LONGEST_S:
            raise ValueError("offset_s is from 0.2 s to 20 years, ahead or behind")
        if not 5 <= abs(self.drift_ms_per_s) <= 100:
            raise ValueError("drift_ms_per_s is from 5 to 100 ms a second, gained or lost")

    @property
    def limit(self) -> tuple[str, float] | None:
        """How long a drift or strobe lasts; a jump stays."""
        return None if self.form == "jump" else ("limit_s", self.limit_s)

    def act_on(self, node: str, pid: int | None) -> Act:
        drifts = self.form == "drift"
        record = ClockRecord(
            node=node,
            form=self.form,
            offset_s=0 if drifts else self.offset_s,
            drift_ms_per_s=self.drift_ms_per_s if drifts else 0,
            period_s=self.period_s if self.form == "strobe" else 0,
            limit_s=0 if self.form == "jump" else self.limit_s,
        )
        return Act("clock", record)
