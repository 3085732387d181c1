"""Consumers of the reference system, simulated: each on its own host, as a process would be.

A life of a consumer is a few scripts that are resumed by the simulation: a script yields how long
it waits, in nanoseconds, or a request (`Command`) that it waits for. A host that is paused or dies
takes its scripts with it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from harness.clusters.memory.simulation import Host
from harness.protocols import INFO, OK
from harness.protocols.groups import KINDS, Delivery, GroupSettings, Record
from targets.memory.requests import Command, Outcome
from targets.memory.system import System

MS: Final = 1_000_000
_POLL_NS: Final = 20 * MS
_AGAIN_NS: Final = 50 * MS
_END: Final = 2**62
_APART: Final = 2**40
"""More requests than the scripts of one group make. Numbers below -1 belong neither to a client
that writes nor to a leader's own entries."""
_ENDED_WELL: Final = "it left"

Script = Generator[int | Command, Outcome | None, None]


@dataclass(frozen=True)
class Place:
    """Where a group is in the system: its own partition, and its data partitions from a first."""

    group: int
    first: int
    partitions: int


@dataclass
class Shared:
    """What all consumers of a group have in common. `confirmed`: the last commit of a partition
    that was acknowledged."""

    system: System
    place: Place
    settings: GroupSettings
    record: Record
    confirmed: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.processes = count(-2 - self.place.group * _APART, -1)

    def now_ns(self) -> int:
        return self.system.cluster.simulation.now_ns


class Life:
    """One life of a consumer, from its start to its end."""

    def __init__(self, shared: Shared, host: Host, number: int, life: int) -> None:
        self.shared, self.host, self.number, self.life = shared, host, number, life
        self.name, self.member = f"consumer-{number}", f"consumer-{number}.{life}"
        self.generation: int | None = None
        self.position: dict[int, int] = {}
        self.committed: dict[int, int] = {}
        self.kept: dict[int, int] = {}
        self.over = self.leaving = self.stale = False
        self._committed_ns = 0
        self._running: dict[int, Script] = {}

    def begin(self) -> None:
        """Start to read."""
        self._row(KINDS.start)
        self._spawn(self._consume())
        if self.shared.settings.protocol != "manual":
            self._spawn(self._heartbeats())

    def crash(self) -> None:
        """End at once."""
        self._end(INFO, "it crashed")
        self.host.die()

    # --- scripts ------------------------------------------------------------------------------

    def _consume(self) -> Script:
        while not self.leaving:
            yield from self._join()
            while not (self.leaving or self.stale):
                if not (yield from self._poll()):
                    yield _POLL_NS
        if self.shared.settings.commit != "before":
            yield from self._commit(list(self.position))
        for partition, position in self.position.items():
            self._row(KINDS.position, partition=partition, offset=position)
        if self.generation is not None:
            yield self._to_group("leave", None, self.generation)
        self._end(OK, _ENDED_WELL)

    def _heartbeats(self) -> Script:
        while not self.leaving:
            yield round(self.shared.settings.session_s * 1e9) // 5
            if self.generation is not None and not self.stale:
                generation = self.generation
                answer = yield self._to_group("heartbeat", None, generation)
                if answer is not None and answer.type == "fail" and generation == self.generation:
                    self.stale = True

    def _join(self) -> Script:
        """Become a member, and find out where to begin."""
        for partition in self.position:
            self._row(KINDS.revoke, partition=partition, offset=self.position[partition])
        if self.shared.settings.commit_partitions == "read":
            self.kept |= self.position
        self.position, self.committed = {}, {}
        partitions = self._own_share()
        if self.shared.settings.protocol != "manual":
            while (answer := (yield self._to_group("join", None, None))) is None or (
                answer.type != OK
            ):
                yield _AGAIN_NS
            self.generation, partitions = answer.result
        self.stale = False
        begun_ns = self.shared.now_ns()
        kept = yield from self._ask(Command("read-all", partition=self.shared.place.group))
        last = {int(key or 0): value for _, key, value in kept.result}
        for partition in partitions:
            offset = last.get(partition)
            self._row(KINDS.committed, begun_ns, partition=partition, offset=offset)
            if offset is None:
                offset = yield from self._reset(partition)
            else:
                self.committed[partition] = offset
            self.position[partition] = offset
            self._row(KINDS.assign, begun_ns, partition=partition, offset=offset)

    def _reset(self, partition: int) -> Generator[int | Command, Outcome | None, int]:
        """Where to begin without a committed offset that can be read."""
        if self.shared.settings.reset == "earliest":
            return 0
        answer = yield from self._ask(self._fetch(partition, _END))
        end: int = answer.result[1]
        return end

    def _poll(self) -> Generator[int | Command, Outcome | None, bool]:
        """Read each partition once; whether there was a record."""
        settings, found = self.shared.settings, False
        if settings.commit == "auto" and self._auto_commit_is_due():
            yield from self._commit(list(self.position))
        for partition in list(self.position):
            if self.leaving or self.stale:
                break
            answer = yield self._fetch(partition, self.position[partition])
            if answer is None or answer.type != OK:
                continue
            records, following = answer.result
            if following < self.position[partition] and not records:
                self.position[partition] = yield from self._reset(partition)
                continue
            found = found or bool(records)
            yield from self._process(partition, records, following)
        return found

    def _process(self, partition: int, records: list[tuple[int, int]], following: int) -> Script:
        """Process what was read, and commit when the settings say so."""
        settings = self.shared.settings
        for offset, value in records:
            self._row(KINDS.deliver, partition=partition, offset=offset, value=value)
        if settings.commit == "before":
            self.position[partition] = following
            yield from self._commit([partition])
        for offset, value in records:
            begun_ns = self.shared.now_ns()
            yield round(settings.process_ms * MS)
            self._row(KINDS.process, begun_ns, partition=partition, offset=offset, value=value)
        self.position[partition] = following
        if settings.commit == "after":
            yield from self._commit([partition])
        elif settings.commit == "async" and self._is_new(partition):
            self._spawn(self._commit([partition]))

    def _commit(self, partitions: list[int]) -> Script:
        """Commit positions, one partition after the other, and those that it has kept."""
        places = {each: self.position[each] for each in partitions if self._is_new(each)}
        if places:
            places |= {each: at for each, at in self.kept.items() if each not in self.position}
        for partition, offset in places.items():
            begun_ns = self.shared.now_ns()
            self._row(KINDS.commit, type_="invoke", partition=partition, offset=offset)
            key = f"{self.member}/{partition}"
            answer = yield Command("commit", key, offset, self.generation, self.shared.place.group)
            assert answer is not None
            self._row(
                *(KINDS.commit, begun_ns, answer.type, answer.error),
                partition=partition,
                offset=offset,
                node=answer.node,
            )
            if answer.type == OK:
                self.shared.confirmed[partition] = self.committed[partition] = offset
            elif answer.type == "fail":
                self.stale = True

    # --- what they are made of ----------------------------------------------------------------

    def _is_new(self, partition: int) -> bool:
        position = self.position.get(partition)
        return position is not None and position != self.committed.get(partition)

    def _auto_commit_is_due(self) -> bool:
        now_ns = self.shared.now_ns()
        if now_ns - self._committed_ns < self.shared.settings.interval_s * 1e9:
            return False
        self._committed_ns = now_ns
        return True

    def _own_share(self) -> list[int]:
        """The partitions of a consumer that assigns itself."""
        of = self.shared.settings.members_count
        return [p for p in range(self.shared.place.partitions) if p % of == self.number - 1]

    def _to_group(self, f: str, value: int | None, generation: int | None) -> Command:
        return Command(f, self.member, value, generation, self.shared.place.group)

    def _fetch(self, partition: int, offset: int) -> Command:
        limit = self.shared.settings.batch_count
        return Command("fetch", None, offset, limit, self.shared.place.first + partition)

    def _ask(self, command: Command) -> Generator[int | Command, Outcome | None, Outcome]:
        """Ask until it is answered."""
        while (answer := (yield command)) is None or answer.type != OK:
            yield _AGAIN_NS
        return answer

    def _spawn(self, script: Script) -> None:
        process = next(self.shared.processes)
        self._running[process] = script
        self._resume(process, None)

    def _resume(self, process: int, answer: Outcome | None) -> None:
        if self.over or (script := self._running.get(process)) is None:
            return
        try:
            wish = script.send(answer)
        except StopIteration:
            self._running.pop(process, None)
            return
        if isinstance(wish, int):
            self.host.after(wish, self._resume, process, None)
        else:
            self.shared.system.requests.submit(process, wish, self._answered)

    def _answered(self, process: int, outcome: Outcome) -> None:
        """A request has ended at the clients' host: this host learns of it."""
        if not self.over:
            self.host.simulation.push(
                self.shared.now_ns(), self.host, self.host, self._resume, process, outcome
            )

    def _end(self, type_: str, error: str) -> None:
        if self.over:
            return
        self._row(KINDS.stop, type_=type_, error=error)
        self.over = True
        for process in self._running:
            self.shared.system.requests.abandon(process)
        self._running.clear()

    def _row(
        self,
        f: str,
        begun_ns: int | None = None,
        type_: str = OK,
        error: str | None = None,
        **where: Any,
    ) -> None:
        now_ns = self.shared.now_ns()
        row = Delivery(
            *(f, now_ns if begun_ns is None else begun_ns, now_ns, type_),
            consumer=self.name,
            life=self.life,
            member=self.member,
            generation=self.generation,
            error=error,
            **where,
        )
        self.shared.record([row])
