"""A group of consumers of the reference system, as the harness runs it."""

from __future__ import annotations

import threading
from typing import Final

from harness.clusters.memory.simulation import Host
from harness.protocols import FAIL
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
from targets.memory.consumers import Life, Place, Shared
from targets.memory.settings import CONTROLLER
from targets.memory.system import System

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
        """See `Consumers`."""
        for number in range(1, self._shared.settings.members_count + 1):
            self._begin(number)

    def assigned(self) -> str | None:
        """See `Consumers`."""
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
        """See `Consumers`."""
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
        """See `Consumers`."""
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
        """See `Consumers`."""
        with self._simulation.held():
            life = self._life(number)
            if action == "join" and life is not None:
                life.leaving = True
            elif action == "pause" and life is not None:
                life.host.resume()
        if action in ("crash", "leave") and life is None:
            self._begin(number)

    def state(self, number: int) -> ConsumerState:
        """See `Consumers`."""
        lives, life = self._lives.get(number, []), self._life(number)
        ended = [each for each in lives if each.over]
        last = f"life {ended[-1].life} has ended" if ended else "none has ended"
        if life is None or life.leaving:
            return ConsumerState(life=None, ended=last)
        return ConsumerState(life=life.life, paused=life.host.paused, ended=last)

    def close(self, timeout_s: float) -> None:
        """See `Consumers`."""
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
        del timeout_s  # it takes no time
        rows, now_ns = [], self._simulation.now_ns
        group, partitions = self._shared.place.group, range(self._shared.place.partitions)
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
            host = Host(self._simulation, f"group-{self._shared.place.group}-{number}.{nth}")
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
