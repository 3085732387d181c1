"""Who leads, and leading.

The controller treats silent replicas as dead, and decides who leads; `State` is that as all other
processes learn it. It is one process with a durable record, which represents the consensus of a
real system's controllers. Every decision has a higher epoch than all before. How a leader is found
depends on the commit rule:

- `isr`: a live replica of the in-sync set. Every one of them has all that is committed.
- `quorum`: a majority first promises to accept nothing of an older epoch and says how far its logs
  go; the one whose log is the most up to date leads, as in Raft. Every majority has a replica that
  has all that is committed.

The leader of a partition replicates, commits, acknowledges, and keeps the in-sync set.

The coordinator of a group: who is a member, and who reads which partition in a generation. It is
the leader of the group's own partition, in which committed offsets are entries: so commits
are replicated like everything else. Members are known only in memory; a new coordinator knows none,
and they join again. A generation is higher than all before it, those of earlier coordinators
included. A member that joins gets its share at once; the others learn of it by their next
heartbeat, and what they commit until then is refused.

The coordinator of transactions leads another partition (`targets.memory.log`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from harness.clusters.memory.node import MemoryNode
from targets.memory.log import (
    DONE,
    ENDS,
    FENCE,
    LATE_SEND,
    MARKER,
    NO_OP,
    OFFSETS,
    OTHERWISE,
    SEND,
    TX_END,
    Decided,
    Entry,
    Stored,
    marks_of,
)
from targets.memory.plan import (
    CONTROLLER,
    DEAF,
    DUPLICATES,
    EARLY_ACK,
    EARLY_COMMIT,
    EARLY_DECISION,
    FORGOTTEN,
    LONELY_ABORT,
    LOOSE_CAS,
    READS,
    REDELIVER,
    ROLLBACK,
    TAKES,
    UNCLEAN,
    UNCOMMITTED,
    UNORDERED,
    ZOMBIES,
    Settings,
)


class State(NamedTuple):
    """Who leads a partition in an epoch, and who is in sync; every change has a higher version. No
    leader: None."""

    epoch: int
    leader: str | None
    isr: tuple[str, ...]
    version: int


MS: Final = 1_000_000
_TICK_NS: Final = 40 * MS
_FENCE_AGAIN_NS: Final = 100 * MS


@dataclass
class Session:
    """What the controller knows about a replica's present process."""

    heard_ns: int
    blank: tuple[bool, ...]


@dataclass
class Round:
    """An election by majority: which replicas have promised, and how far their logs go."""

    epoch: int
    asked_ns: int
    led_before: str | None
    logs: dict[str, tuple[int, int]] = field(default_factory=dict)


class Controller:
    """One process of the controller; what it has decided lies on its disk. `settings` of each
    partition."""

    def __init__(self, node: MemoryNode, settings: Sequence[Settings]) -> None:
        self.node, self.settings, self.of_part = node, settings[0], settings
        self._disk = node.disk.open("meta/decided")
        self._lives = node.disk.open("meta/lives")
        first = State(0, None, self.settings.names, 1)
        stored = self._disk.records[-1] if self._disk.records else [first] * len(settings)
        self.states: list[State] = list(stored)
        self.lives: dict[str, int] = dict(self._lives.records[-1]) if self._lives.records else {}
        now_ns, unknown = node.host.now_ns(), (False,) * len(settings)
        self.sessions = {name: Session(now_ns, unknown) for name in self.lives}
        self.rounds: dict[int, Round] = {}
        self._on: dict[str, Callable[[str, tuple[Any, ...]], None]] = {
            "report": self._on_report,
            "alter": self._on_alter,
            "fenced": self._on_fenced,
        }

    def start(self) -> None:
        self.node.host.after(_TICK_NS, self._tick)

    def receive(self, source: str, message: Any) -> None:
        if (handle := self._on.get(message[0])) is not None:
            handle(source, message)

    def _tick(self) -> None:
        for number, state in enumerate(self.states):
            if state.leader is None or not self._alive(state.leader):
                self._elect(number)
        self.node.host.after(_TICK_NS, self._tick)

    def _alive(self, name: str) -> bool:
        session = self.sessions.get(name)
        limit_ns = self.node.host.now_ns() - self.settings.session_ms * MS
        return session is not None and session.heard_ns > limit_ns

    def _on_report(self, source: str, message: tuple[Any, ...]) -> None:
        _, life, sent_ns, known, blank = message
        if life < self.lives.get(source, 0):
            return
        self.sessions[source] = Session(self.node.host.now_ns(), blank)
        if life != self.lives.get(source):
            self.lives[source] = life
            self._lives.records[:] = [dict(self.lives)]
            self._lives.sync()
            self._new_process(source, blank)
        states = [
            (number, state)
            for number, state in enumerate(self.states)
            if known[number] != (state.epoch, state.version)
        ]
        self.node.send(source, ("session", sent_ns, states))

    def _new_process(self, name: str, blank: tuple[bool, ...]) -> None:
        """A replica was started again: it no longer leads anything, and if its disk was wiped it is
        not in sync."""
        for number, state in enumerate(self.states):
            by_isr = self.of_part[number].commit == "isr"
            if number in self.rounds:
                self.rounds[number].logs.pop(name, None)
            left = tuple(each for each in state.isr if each != name)
            if by_isr and blank[number] and left and left != state.isr:
                self._decide(number, state._replace(isr=left, version=state.version + 1))
            if state.leader == name:
                self._elect(number)

    def _on_alter(self, source: str, message: tuple[Any, ...]) -> None:
        """A leader's proposal for the in-sync set. Whatever is decided has a new version, so that a
        late copy of the proposal is not accepted after the leader has given it up."""
        _, number, epoch, version, isr = message
        state = self.states[number]
        if (epoch, source, version) != (state.epoch, state.leader, state.version):
            self.node.send(source, ("state", number, state))
            return
        joining = [name for name in isr if name not in state.isr]
        fit = all(self._fit(name, number) for name in joining)
        accepted = tuple(isr) if fit else state.isr
        self._decide(number, state._replace(isr=accepted, version=version + 1))

    def _elect(self, number: int) -> None:
        if self.of_part[number].commit == "quorum":
            self._ask_majority(number)
            return
        state = self.states[number]
        unclean = UNCLEAN in self.of_part[number].defects
        names = self.settings.names if unclean else state.isr
        fit = [name for name in names if self._fit(name, number)]
        if not fit:
            return
        leader = min(fit, key=lambda name: name == state.leader)  # another one, if there is one
        in_sync = tuple(name for name in fit if name in state.isr)
        isr = in_sync if leader in in_sync else (leader,)
        self._lead(number, leader, isr, clean=leader in in_sync)

    def _fit(self, name: str, number: int) -> bool:
        return self._alive(name) and not self.sessions[name].blank[number]

    def _ask_majority(self, number: int) -> None:
        state, now_ns = self.states[number], self.node.host.now_ns()
        round_ = self.rounds.get(number)
        if round_ is None:
            epoch = state.epoch + 1
            round_ = self.rounds[number] = Round(epoch, now_ns, state.leader)
            self._decide(number, State(epoch, None, state.isr, 1), announce=False)
        elif now_ns - round_.asked_ns < _FENCE_AGAIN_NS:
            return
        round_.asked_ns = now_ns
        for name in self.settings.names:
            self.node.send(name, ("fence", number, round_.epoch))

    def _on_fenced(self, source: str, message: tuple[Any, ...]) -> None:
        _, number, epoch, life, last_epoch, end, blank = message
        round_ = self.rounds.get(number)
        if round_ is None or epoch != round_.epoch or blank or life != self.lives.get(source):
            return
        round_.logs[source] = (last_epoch, end)
        unclean = UNCLEAN in self.of_part[number].defects
        needed = 1 if unclean else self.settings.majority
        if len(round_.logs) >= needed:
            del self.rounds[number]
            names = sorted(round_.logs, key=lambda name: (name == round_.led_before, name))
            best = max(names, key=lambda name: round_.logs[name])
            clean = len(names) >= self.settings.majority
            self._lead(number, best, self.settings.names, clean=clean)

    def _lead(self, number: int, leader: str, isr: tuple[str, ...], *, clean: bool) -> None:
        state = self.states[number]
        epoch = state.epoch + (0 if self.settings.commit == "quorum" else 1)
        known = {"leader": leader, "clean": clean, "isr": state.isr}
        self.node.note("elected", partition=number, epoch=epoch, **known)
        self._decide(number, State(epoch, leader, isr, state.version + 1))

    def _decide(self, number: int, state: State, *, announce: bool = True) -> None:
        """Write a decision down, then send it to all replicas."""
        self.states[number] = state
        self._disk.records[:] = [list(self.states)]
        self._disk.sync()
        if announce:
            for name in self.settings.names:
                self.node.send(name, ("state", number, state))


MEMBERSHIP: Final = frozenset({"join", "heartbeat", "leave"})
"""Requests that no log keeps."""

UNKNOWN_MEMBER: Final = "unknown-member"
STALE_GENERATION: Final = "stale-generation"
_A_TERM: Final = 1_000_000


@dataclass
class Coordinator:
    """A group while one node coordinates it, in one epoch; `partitions` is how many there are."""

    epoch: int
    partitions: int
    session_ns: int
    generation: int = 0
    heard_ns: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.generation = self.epoch * _A_TERM

    def answer(self, f: str, member: str, generation: int | None, now_ns: int) -> tuple[str, Any]:
        """The answer to a request: `ok` and the generation with the member's partitions, or
        `fail` and why."""
        self._forget_silent(now_ns)
        if f == "join":
            if member not in self.heard_ns:
                self.generation += 1
            self.heard_ns[member] = now_ns
            return "ok", (self.generation, self.share_of(member))
        if (why := self.refuses(member, generation, now_ns)) is not None:
            return "fail", why
        if f == "leave":
            del self.heard_ns[member]
            self.generation += 1
        else:
            self.heard_ns[member] = now_ns
        return "ok", None

    def refuses(self, member: str, generation: int | None, now_ns: int) -> str | None:
        """Why a member of a generation may not commit; `None` if it may, as may one that assigns
        itself (no generation) while there is no member."""
        self._forget_silent(now_ns)
        if generation is None:
            return STALE_GENERATION if self.heard_ns else None
        if member not in self.heard_ns:
            return UNKNOWN_MEMBER
        return None if generation == self.generation else STALE_GENERATION

    def share_of(self, member: str) -> list[int]:
        """Its partitions: a range of them, as even as can be."""
        members = sorted(self.heard_ns)
        place, count = members.index(member), len(members)
        first, behind = (self.partitions * each // count for each in (place, place + 1))
        return list(range(first, behind))

    def _forget_silent(self, now_ns: int) -> None:
        silent = [name for name, at in self.heard_ns.items() if at < now_ns - self.session_ns]
        for name in silent:
            del self.heard_ns[name]
        self.generation += bool(silent)


_RESEND_NS: Final = 30 * MS
_KEEP_ALIVE_NS: Final = 50 * MS
_BATCH: Final = 200

Request = tuple[str, int, int, int, int, str, str | None, int | None, int | None]
"""("op", partition, process, seq, attempt, f, key, value, expected)"""


class Follower:
    """What a leader knows about one of its followers."""

    __slots__ = ("caught_up_ns", "heard_ns", "in_flight", "match", "next", "sent_end", "sent_ns")

    def __init__(self, end: int, now_ns: int) -> None:
        self.match, self.next = 0, end
        self.in_flight = False
        self.sent_ns = self.sent_end = 0
        self.caught_up_ns = self.heard_ns = now_ns


class Leading:
    """A partition's leader in one epoch."""

    def __init__(
        self,
        node: MemoryNode,
        settings: Settings,
        stored: Stored,
        state: State,
        has_lease: Callable[[], bool],
    ) -> None:
        self.node, self.settings, self.stored = node, settings, stored
        self.defects, self.has_lease = settings.defects, has_lease
        self.state, self.epoch, self.isr = state, state.epoch, state.isr
        self.proposed: tuple[str, ...] | None = None
        self._noted: tuple[str, ...] = ()
        self.waiting: dict[int, tuple[str, Request]] = {}
        self.coordinator = Coordinator(state.epoch, settings.group, settings.group_session_ms * MS)
        end, now_ns = stored.log.end, node.host.now_ns()
        others = [name for name in settings.names if name != node.name]
        self.followers = {name: Follower(end, now_ns) for name in others}
        self.transactions = (
            TransactionCoordinator(self, settings.transaction_ms * MS)
            if settings.transactions
            else None
        )
        self.first = stored.log.append(Entry(self.epoch, NO_OP, None, None, None, -1, 0))
        if LONELY_ABORT in self.defects:
            for name in marks_of(stored.log.entries).open:
                stored.log.append(Entry(self.epoch, MARKER, name, None, 0, -1, 0))
        if REDELIVER in self.defects and (again := stored.registers.last) is not None:
            stored.log.append(Entry(self.epoch, "enqueue", None, again, None, -1, 0))
        self._replicate_all()
        self._advance()

    def tick(self) -> None:
        """Send again what was not answered, keep followers up to date, judge who is in sync."""
        now_ns = self.node.host.now_ns()
        for name, follower in self.followers.items():
            waited_ns = now_ns - follower.sent_ns
            if waited_ns >= (_RESEND_NS if follower.in_flight else _KEEP_ALIVE_NS):
                self._send(name, follower)
        if self.settings.commit == "isr":
            self._propose(now_ns)
        if ROLLBACK in self.defects:
            self._advance()
        if self.transactions is not None:
            self.transactions.tick()

    def write(self, f: str, key: str, flag: int | None) -> None:
        """Append an entry of the leader's own."""
        self.stored.log.append(Entry(self.epoch, f, key, None, flag, -1, 0))
        self._replicate_all()

    def on_mark(self, source: str, message: tuple[Any, ...]) -> None:
        """The coordinator of a transaction requests its marker: append it, once, and answer when it
        is committed. (It requests it again.)"""
        _, number, coordinator, name, commits = message
        if name in self.stored.registers.marks.ended:
            self.node.send(source, ("marked", coordinator, name, number))
        elif not self._has_marker(name):
            self.write(MARKER, name, int(commits))

    def on_request(self, source: str, request: Request) -> None:
        _, _, process, seq, _, f, key, value, expected = request
        if f in READS:
            self._read(source, request)
            return
        if f in MEMBERSHIP:
            self._reply(source, request, *self._coordinate(f, key or "", expected))
            return
        stored = self.stored
        known = stored.log.requests.get(process)
        if known is not None and (DUPLICATES not in self.defects or f in TAKES):
            if known[0] == seq:
                self._answer_again(source, request, known[1])
            if known[0] >= seq:
                return
        if self.settings.commit == "isr" and len(self.isr) < self.settings.min_insync:
            self._reply(source, request, "refused", "not-enough-replicas")
            return
        if f == "commit":
            member, _, key = (key or "").partition("/")
            refused = self.coordinator.refuses(member, expected, self.node.host.now_ns())
            if refused is not None and ZOMBIES not in self.defects:
                self._reply(source, request, "fail", refused)
                return
        if f == FENCE:
            if DEAF in self.defects:
                self._reply(source, request, "ok", None)
                return
            f = TX_END
        if f == SEND and self._has_marker(key or ""):
            self._reply(source, request, "fail", LATE_SEND)
            return
        if f == "cas" and LOOSE_CAS in self.defects:
            if stored.registers.values.get(key) != expected:
                self._reply(source, request, "fail", "another-value")
                return
            f = "write"
        offset = stored.log.append(Entry(self.epoch, f, key, value, expected, process, seq))
        early = EARLY_ACK in self.defects or (f == "commit" and EARLY_COMMIT in self.defects)
        early |= f == TX_END and EARLY_DECISION in self.defects
        if early and f != "cas" and f not in TAKES:
            self._reply(source, request, "ok", None, offset)
        else:
            self.waiting[offset] = (source, request)
        self._replicate_all()
        if len(self.isr) == 1 or self.settings.replicas == 1 or ROLLBACK in self.defects:
            self._advance()  # otherwise a follower has to have it first

    def on_acked(self, source: str, message: tuple[Any, ...]) -> None:
        """A follower has everything up to an offset."""
        if message[2] != self.epoch:
            return
        follower, match = self.followers[source], message[3]
        follower.in_flight = False
        follower.heard_ns = self.node.host.now_ns()
        if match >= follower.sent_end:
            follower.caught_up_ns = follower.sent_ns
        if match > follower.match:
            follower.match = match
            follower.next = max(follower.next, match)
            self._advance()
        if follower.next < self.stored.log.end:
            self._send(source, follower)

    def on_behind(self, source: str, message: tuple[Any, ...]) -> None:
        """A follower lacks what comes before what it was sent, or has something else there."""
        if message[2] != self.epoch:
            return
        follower = self.followers[source]
        follower.heard_ns = self.node.host.now_ns()
        follower.next = message[3]
        follower.match = min(follower.match, message[3])
        self._send(source, follower)

    def confirmed(self, state: State) -> None:
        """The controller has decided who is in sync."""
        self.state, self.isr, self.proposed = state, state.isr, None
        self._advance()

    def give_up(self) -> None:
        """Another replica leads: what waits is unknown to its clients."""
        for source, request in self.waiting.values():
            self._reply(source, request, "unknown", "leader-changed")
        self.waiting.clear()

    def _replicate_all(self) -> None:
        for name, follower in self.followers.items():
            if not follower.in_flight:
                self._send(name, follower)

    def _send(self, name: str, follower: Follower) -> None:
        log, start = self.stored.log, follower.next
        entries = log.entries[start : start + _BATCH]
        follower.in_flight = True
        follower.sent_ns = self.node.host.now_ns()
        follower.sent_end = log.end
        before = log.epoch_before(start)
        message = (
            *("append", self.stored.number, self.epoch),
            *(start, before, entries, self.stored.commit),
        )
        self.node.send(name, message)

    def _advance(self) -> None:
        """Commit what enough replicas have, once that includes an entry of this epoch."""
        offset, before = self._held_by_enough(), self.stored.commit
        if offset <= self.first or offset <= before:
            return
        self.stored.commit_to(offset)
        for committed in range(before, offset):
            if (waiter := self.waiting.pop(committed, None)) is not None:
                self._acknowledge(*waiter, committed)

    def _held_by_enough(self) -> int:
        """Up to which offset the replicas that have to have it all do."""
        end, followers, names = len(self.stored.log.entries), self.followers, self.settings.names
        quorum = self.settings.commit == "quorum"
        if ROLLBACK in self.defects:
            since_ns = self.node.host.now_ns() - self.settings.lag_ms * MS
            names = tuple(
                name
                for name in names
                if name == self.node.name or followers[name].heard_ns >= since_ns
            )
            needed: tuple[str, ...] = tuple(name for name in self.isr if name in names)
            counted = names if quorum else needed
            if counted != self._noted:
                self._noted = counted
                self.node.note("counts", partition=self.stored.number, only=counted)
        else:
            needed = self.isr if self.proposed is None else (*self.isr, *self.proposed)
        counted = names if quorum else needed
        ends = [followers[name].match if name in followers else end for name in counted]
        ends.sort(reverse=True)
        if not ends:
            return 0
        return ends[len(counted) // 2] if quorum else ends[-1]

    def _acknowledge(self, source: str, request: Request, offset: int) -> None:
        _, done = self.stored.registers.results.get(request[2], (0, True))
        if not done:
            why = OTHERWISE if request[5] in (TX_END, FENCE, OFFSETS) else "another-value"
            self._reply(source, request, "fail", why)
        elif self.settings.commit == "isr" and len(self.isr) < self.settings.min_insync:
            self._reply(source, request, "unknown", "not-enough-replicas-after-append")
        else:
            taken = self.stored.registers.taken[request[2]] if request[5] in TAKES else None
            self._reply(source, request, "ok", taken, offset)

    def _answer_again(self, source: str, request: Request, offset: int) -> None:
        """A retry of what was appended before: its result, or wait for it."""
        if offset < self.stored.commit:
            self._acknowledge(source, request, offset)
        else:
            self.waiting[offset] = (source, request)

    def _read(self, source: str, request: Request) -> None:
        """Answer from what is committed, if no other replica can lead by now."""
        if self.stored.commit <= self.first:
            self._reply(source, request, "refused", "not-ready")
        elif not self.has_lease():
            self._reply(source, request, "refused", "no-lease")
        else:
            self._reply(source, request, "ok", self._answer(request))

    def _answer(self, request: Request) -> Any:
        """What is read by a request that may be answered."""
        f, key, offset, limit = request[5:]
        if f == "fetch":
            log_end = UNCOMMITTED in self.defects
            behind = self.stored.log.end if log_end else self.stored.commit
            records, following = self.stored.fetch(offset or 0, limit or 0, behind, key)
            return (records[::-1] if UNORDERED in self.defects else records), following
        if f == ENDS:
            return self.stored.ends()
        found = self.stored.read(f, key)
        if FORGOTTEN in self.defects and self.settings.group:
            return [each for each in found if each[0] >= self.first]
        return found

    def _has_marker(self, name: str) -> bool:
        """Whether the log has a transaction's marker, committed or not."""
        if name in self.stored.registers.marks.ended:
            return True
        later = self.stored.log.entries[self.stored.commit :]
        return any(entry.f == MARKER and entry.key == name for entry in later)

    def _coordinate(self, f: str, member: str, generation: int | None) -> tuple[str, Any]:
        """What the group's coordinator answers; one that may no longer lead gives no answer of its
        own."""
        if self.stored.commit <= self.first or not self.has_lease():
            return "refused", "not-ready"
        return self.coordinator.answer(f, member, generation, self.node.host.now_ns())

    def _reply(
        self, target: str, request: Request, kind: str, what: Any, position: int | None = None
    ) -> None:
        self.node.send(target, ("reply", request[2], request[3], request[4], kind, what, position))

    def _propose(self, now_ns: int) -> None:
        """Ask the controller to change the in-sync set, if it should; again until it answers."""
        if self.proposed is None:
            oldest_ns = now_ns - self.settings.lag_ms * MS
            wanted = tuple(name for name in self.settings.names if self._in_sync(name, oldest_ns))
            if set(wanted) == set(self.isr):
                return
            self.proposed = wanted
        alter = ("alter", self.stored.number, self.epoch, self.state.version, self.proposed)
        self.node.send(CONTROLLER, alter)

    def _in_sync(self, name: str, oldest_ns: int) -> bool:
        if name == self.node.name:
            return True
        follower = self.followers[name]
        fresh = follower.caught_up_ns >= oldest_ns
        if name in self.isr:
            return fresh
        return fresh and follower.match >= self.stored.commit and follower.match > self.first


class Known(NamedTuple):
    """What a leader of the coordinator's partition keeps of an unfinished transaction in memory:
    when it first saw it, and which partitions have reported that they have its marker."""

    seen_ns: int
    marked: set[int]


@dataclass
class TransactionCoordinator:
    """What the leader of the coordinator's partition does, in one epoch."""

    leading: Leading
    open_ns: int
    _known: dict[str, Known] = field(default_factory=dict)
    _written: set[str] = field(default_factory=set)
    """Transactions that this leader itself has appended the end of, or that they are done."""

    def tick(self) -> None:
        """Abort what has no end for long; have markers appended."""
        now_ns = self.leading.node.host.now_ns()
        for name, one in list(self.leading.stored.registers.ledger.unfinished.items()):
            known = self._known.setdefault(name, Known(now_ns, set()))
            if one.commits is None:
                if now_ns - known.seen_ns >= self.open_ns:
                    self._write(TX_END, name, 0)
            elif known.marked >= set(one.partitions):
                self._write(DONE, name, None)
            else:
                self._request_markers(name, one, known)

    def on_marked(self, message: tuple[Any, ...]) -> None:
        """A partition has the marker of a transaction."""
        _, _, name, partition = message
        if (known := self._known.get(name)) is not None:
            known.marked.add(partition)

    def _request_markers(self, name: str, one: Decided, known: Known) -> None:
        """Of every node, since only the leader does it."""
        own = self.leading.stored.number
        for partition in one.partitions:
            if partition not in known.marked:
                for node in self.leading.settings.names:
                    self.leading.node.send(node, ("mark", partition, own, name, one.commits))

    def _write(self, f: str, name: str, flag: int | None) -> None:
        written = f"{f}/{name}"
        if written not in self._written:
            self._written.add(written)
            self.leading.write(f, name, flag)
