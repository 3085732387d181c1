"""Consumers of the reference system, simulated: each on its own host, as a process would be.

A life of a consumer is a few scripts that are resumed by the simulation: a script yields how long
it waits, in nanoseconds, or a request (`Command`) that it waits for. A host that is paused or dies
takes its scripts with it.

A group of consumers of the reference system, as the harness runs it.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from harness.clusters.memory.simulation import Host
from harness.protocols import FAIL, INFO, OK
from harness.protocols.groups import (
    KINDS,
    Action,
    Consumers,
    ConsumerState,
    Delivery,
    GroupSettings,
    Record,
    why_unassigned,
    why_unread,
)
from targets.memory.clients import Command, Outcome, Place
from targets.memory.plan import CONTROLLER
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
        self.processes = count(-2 - self.place.deciding * _APART, -1)

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
        self._row(KINDS.start)
        self._spawn(self._consume())
        if self.shared.settings.protocol != "manual":
            self._spawn(self._heartbeats())

    def crash(self) -> None:
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
            yield self._to_group("leave", self.generation)
        self._end(OK, _ENDED_WELL)

    def _heartbeats(self) -> Script:
        while not self.leaving:
            yield round(self.shared.settings.session_s * 1e9) // 5
            if self.generation is not None and not self.stale:
                generation = self.generation
                answer = yield self._to_group("heartbeat", generation)
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
            while (answer := (yield self._to_group("join", None))) is None or (answer.type != OK):
                yield _AGAIN_NS
            self.generation, partitions = answer.result
        self.stale = False
        begun_ns = self.shared.now_ns()
        kept = yield from self._ask(Command("read-all", partition=self.shared.place.deciding))
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
            answer = yield Command(
                "commit", key, offset, self.generation, self.shared.place.deciding
            )
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

    def _to_group(self, f: str, generation: int | None) -> Command:
        return Command(f, self.member, None, generation, self.shared.place.deciding)

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


_TICK_S: Final = 0.05


class MemoryConsumers(Consumers):
    """The consumers of one group; all that they do happens in the simulation."""

    def __init__(
        self, system: System, place: Place, settings: GroupSettings, record: Record
    ) -> None:
        self._system, self._simulation = system, system.cluster.simulation
        self._shared = Shared(system, place, settings, record)
        self._lives: dict[int, list[Life]] = {}

    def start(self) -> None:
        for number in range(1, self._shared.settings.members_count + 1):
            self._begin(number)

    def assigned(self) -> str | None:
        members = self._shared.settings.members_count
        return why_unassigned(self._owners(), self._shared.place.partitions, members)

    def _owners(self) -> dict[int, tuple[int, int]]:
        with self._simulation.held():
            return {
                partition: (life.number, life.life)
                for life in self._running()
                for partition in life.position
            }

    def drained(self) -> str | None:
        if (why := why_unread(self._owners(), self._shared.place.partitions)) is not None:
            return why
        with self._simulation.held():
            for partition in range(self._shared.place.partitions):
                end = self._end_of(partition)
                for what, offset in self._offsets(partition):
                    if end is None or offset != end:
                        return f"partition {partition} ends at {end}, {what} is {offset}"
        return None

    def act(self, number: int, action: Action) -> None:
        if action == "join":
            self._begin(number)
            return
        with self._simulation.held():
            if (life := self._life(number)) is None:
                return
            if action == "crash":
                life.crash()
            elif action == "pause":
                life.host.pause()
            else:
                life.leaving = True

    def undo(self, number: int, action: Action) -> None:
        with self._simulation.held():
            life = self._life(number)
            if action == "join" and life is not None:
                life.leaving = True
            elif action == "pause" and life is not None:
                life.host.resume()
        if action in ("crash", "leave") and life is None:
            self._begin(number)

    def state(self, number: int) -> ConsumerState:
        lives, life = self._lives.get(number, []), self._life(number)
        ended = [each for each in lives if each.over]
        last = f"life {ended[-1].life} has ended" if ended else "none has ended"
        if life is None or life.leaving:
            return ConsumerState(life=None, ended=last)
        return ConsumerState(life=life.life, paused=life.host.paused, ended=last)

    def close(self, timeout_s: float) -> None:
        clock, never = self._system.cluster.clock, threading.Event()
        deadline_ns = clock.now_ns() + round(timeout_s * 1e9)
        with self._simulation.held():
            for life in self._running():
                life.host.resume()
                life.leaving = True
        while self._running() and clock.now_ns() < deadline_ns:
            clock.wait(never, _TICK_S)
        with self._simulation.held():
            for life in self._running():
                life.crash()

    def committed(self, timeout_s: float) -> list[Delivery]:
        """See `Consumers`: only the node that leads the group's partition reports anything."""
        rows, now_ns = [], self._simulation.now_ns
        group, partitions = self._shared.place.deciding, range(self._shared.place.partitions)
        for name in self._system.settings.names:
            views, held = self._system.observe(name), self._system.held(name, group)
            leads = views is not None and views[group].leader == name
            if held is None or not leads:
                why = "no answer" if held is None else "not-leader"
                rows += [Delivery(KINDS.final, now_ns, now_ns, FAIL, node=name, error=why)]
                continue
            last = {int(key or 0): value for _, key, value in held}
            rows += [
                Delivery(KINDS.final, now_ns, now_ns, partition=p, offset=last.get(p), node=name)
                for p in partitions
            ]
        return rows

    def _begin(self, number: int) -> None:
        with self._simulation.held():
            lives = self._lives.setdefault(number, [])
            if self._life(number) is not None:
                return
            nth = len(lives) + 1
            host = Host(self._simulation, f"group-{self._shared.place.deciding}-{number}.{nth}")
            lives.append(Life(self._shared, host, number, nth))
            lives[-1].begin()

    def _life(self, number: int) -> Life | None:
        lives = self._lives.get(number)
        return lives[-1] if lives and not lives[-1].over else None

    def _running(self) -> list[Life]:
        return [life for lives in self._lives.values() for life in lives if not life.over]

    def _offsets(self, partition: int) -> list[tuple[str, int | None]]:
        """The positions of its members, and what was committed last."""
        positions = [life.position.get(partition) for life in self._running()]
        known = [("a position", each) for each in positions if each is not None]
        return [*known, ("the last commit", self._shared.confirmed.get(partition))]

    def _end_of(self, partition: int) -> int | None:
        """Where the log ends, as its leader reports; `None` while not all of it is committed."""
        number = self._shared.place.first + partition
        decided = self._system.observe(CONTROLLER)
        leader = decided[number].leader if decided is not None else None
        views = self._system.observe(leader) if leader is not None else None
        if views is None or views[number].end != views[number].committed:
            return None
        return views[number].end
