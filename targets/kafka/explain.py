"""Why acknowledged writes to a partition were lost: the event that dropped each of them.

A write that was acknowledged at an offset is gone since either its log's start moved past it, or a
later leader began at or below that offset, and every replica that had it then cut its log there. So
the event is the first election after its epoch whose leader's log ended at or below its offset; why
that leader lacked it is the cause. The way was tried on some 19,000 lost writes of ten plans and
five versions before it was written here.

Only an offset together with an epoch names a record: two leaders may acknowledge the same offset at
once. Without the record itself its epoch is inferred: the highest that had begun at or below its
offset by then, and which a later one cut off.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.autopsy import disk_cause, fault_facts
from harness.history.run_folder import RunDir
from harness.protocols import UNEXPLAINED, Explanation, Fact, Prevention
from harness.protocols.explanations import (
    BY_DEPOSED,
    DEPOSED,
    DISK,
    POWER,
    UNDISTURBED,
    WIPED,
    Stretch,
)
from targets.kafka.configuration import OFFSETS_TOPIC
from targets.kafka.definitions import ALL, acks_of, min_insync_replicas
from targets.kafka.evidence import Event, EventKind, Evidence, State, Write, evidence_of
from targets.kafka.groups.settings import group_of_topic

UNCLEAN: Final = "unclean-election"
ELR: Final = "eligible-leader"
LAST_KNOWN: Final = "last-known-leader"
BEFORE_REPLICATION: Final = "before-replication"
OWN_MARK: Final = "own-high-watermark"
DELETED: Final = "deleted"
NEVER_STORED: Final = "never-stored"
BUG: Final = "in-sync-without-it"
BELOW_MINIMUM: Final = "below-min-insync"
DEFECTS: Final = frozenset({BUG, BELOW_MINIMUM})

_NEVER_HAD = {
    UNCLEAN: "A replica from outside the ISR was elected, which never had them",
    ELR: "An eligible leader from outside the ISR was elected, which never had them (KIP-966)",
    LAST_KNOWN: "The last known leader was elected, without an ISR, and never had them (KIP-966)",
    BEFORE_REPLICATION: "acks=1: they were acknowledged before the next leader had them",
}
CAUSES: Final[Mapping[str, str]] = {
    **_NEVER_HAD,
    **{name + DEPOSED: text + BY_DEPOSED for name, text in _NEVER_HAD.items()},
    OWN_MARK: "The next leader had had them, and had cut its log at its own high "
    "watermark (KIP-101)",
    POWER: "The next leader's disk lost them while it was down: its power was cut",
    WIPED: "The next leader's disk lost them while it was down: it was wiped",
    DISK: "The next leader's disk lost them while it was down, under a fault of its disk",
    UNDISTURBED: "The next leader's disk lost them while it was down, and no fault of ours met it",
    DELETED: "The log's start moved past them: retention, or a request, deleted them",
    NEVER_STORED: "One leader all along, and no log was cut: the client acknowledged what it never "
    "sent, or a broker what it never stored",
    BUG: "acks=all and a clean election: the next leader was in the ISR and began without them. "
    "That is a defect of Kafka, or of this evidence",
    BELOW_MINIMUM: "acks=all: they were acknowledged while fewer than min.insync.replicas were in "
    "sync, and the next leader never had them. That is a defect of Kafka, or of this evidence",
}

_DUE_TO: Final = re.compile(r" due to ([^:(]+)")
_JUST_AFTER_S: Final = 0.5
"""A broker logs its new role shortly after it has loaded its log."""
_MAKES_S: Final = 3.0
"""How long after its election a broker may make the log that it lacks, where it does not log when
it begins to lead."""
_AT_ONCE_S: Final = 1.0
"""How long after an election a replica that is up has followed it."""


class Loss(NamedTuple):
    """What lost a write. `why`: of what is unexplained, what is known."""

    cause: str
    partition: int
    epoch: int | None = None
    dropped_by: int | None = None
    why: str = ""


class Restart(NamedTuple):
    """How a leader first led in an epoch, what it loaded later, and how it led again."""

    first: Event
    loaded: Event
    again: Event


def explain(folder: Path, lost: pa.Table) -> list[Explanation]:
    """The explanations of these lost writes, in the order of the first loss of each. Raises
    HistoryError for a folder that cannot be read."""
    rundir = RunDir(folder)
    writes = sorted(_writes(lost), key=lambda write: write.acknowledged_s)
    evidence = evidence_of(rundir, writes)
    exact = "state" not in lost.column_names
    autopsy = Autopsy(evidence, _acks(rundir), *_log_bounds(rundir), exact=exact)
    groups: dict[Loss, list[Write]] = {}
    for write in writes:
        groups.setdefault(autopsy.loss(write), []).append(write)
    found = [autopsy.explanation(loss, some) for loss, some in groups.items()]
    placed = {write.value for write in writes}
    if nowhere := tuple(each for each in lost["value"].to_pylist() if each not in placed):
        text = "they were acknowledged without an offset"
        fact = Fact(kind="acknowledged", text=text, source="history")
        found.append(Explanation(cause=UNEXPLAINED, values=nowhere, facts=(fact,)))
    return found


def coordinators(folder: Path) -> list[Fact]:
    """The elections of the partition that keeps the commits of a run's group."""
    from targets.kafka.groups.group import partition_of  # which imports what clients need

    rundir = RunDir(folder)
    evidence = evidence_of(rundir, (), OFFSETS_TOPIC)
    partitions = 1 + max((state.partition for state in evidence.states), default=0)
    number = partition_of(group_of_topic(evidence.plan["topic"]["name"]), partitions)
    return [
        _fact("elected", state, f"{_elected(state)}, of {OFFSETS_TOPIC}-{number}")
        for state in evidence.states
        if state.partition == number and state.elected
    ]


def _elected(state: State) -> str:
    how = "uncleanly" if state.unclean else "cleanly"
    before = state.before.in_sync if state.before is not None else ()
    text = f"{state.leader} was elected {how} in epoch {state.epoch}"
    return f"{text}; the ISR was {_set(before)}" if before else f"{text}; the ISR was empty"


def _writes(lost: pa.Table) -> Iterator[Write]:
    """Those that were acknowledged with a position."""
    names = ("value", "partition", "offset", "invoke_ns", "complete_ns")
    columns = (lost[name].to_pylist() for name in names)
    for value, partition, offset, begun, ended in zip(*columns, strict=True):
        if partition is not None and offset is not None and offset >= 0:
            yield Write(value, partition, offset, begun / 1e9, ended / 1e9)


def _acks(rundir: RunDir) -> str | None:
    settings = rundir.of_run.read_json(rundir.of_run.run).get("settings") or {}
    effective = (settings.get("effective") or {}).get("producer") or {}
    requested = rundir.read_json(rundir.plan)["workload"].get("producer") or {}
    return acks_of(requested.get("acks", effective.get("acks", ALL)))


def _log_bounds(rundir: RunDir) -> tuple[dict[int, int], dict[int, int]]:
    """Where each partition's log began, and ended, when it was read at the end."""
    starts, ends = dict[int, int](), dict[int, int]()
    if rundir.ends.is_file():
        columns = ["partition", "log_start_offset", "position"]
        for row in pq.ParquetFile(rundir.ends).read(columns=columns).to_pylist():
            of = row["partition"]
            starts[of] = max(row["log_start_offset"] or 0, starts.get(of, 0))
            ends[of] = max(row["position"] or 0, ends.get(of, 0))
    return starts, ends


@dataclass(frozen=True)
class Autopsy:
    """The evidence of a run's lost writes. `acks`: with which they were sent; `log_starts` and
    `log_ends`: where each partition began and ended at the end; `exact`: the time of each
    acknowledgement is known."""

    evidence: Evidence
    acks: str | None
    log_starts: Mapping[int, int]
    log_ends: Mapping[int, int]
    exact: bool = True

    @cached_property
    def begins(self) -> dict[int, dict[int, Event]]:
        """By partition and epoch where its leader began."""
        found: dict[int, dict[int, Event]] = {}
        for event in self.evidence.events:
            if event.kind == "leads" and event.epoch is not None:
                found.setdefault(event.partition, {}).setdefault(event.epoch, event)
        return found

    @cached_property
    def restarts(self) -> dict[int, list[Restart]]:
        """By partition each leader that was started again and led again in the same epoch. When a
        broker comes back, ZooKeeper's controller first repeats what was decided before."""
        found: dict[int, list[Restart]] = {}
        for again in self.evidence.events:
            if again.kind != "leads" or again.epoch is None or again.at_s is None:
                continue
            first = self.begins[again.partition][again.epoch]
            loads = self.evidence.of("loaded", again.partition)
            found.setdefault(again.partition, []).extend(
                Restart(first, loaded, again)
                for loaded in loads
                if first.node == loaded.node == again.node
                and loaded.by(again.at_s)
                and not (first.at_s is None or loaded.by(first.at_s))
            )
        return found

    @cached_property
    def elections(self) -> dict[tuple[int, int], State]:
        """By partition and epoch the state with which it began."""
        return {(state.partition, state.epoch): state for state in reversed(self.evidence.states)}

    def leader(self, partition: int, epoch: int) -> str | None:
        state = self.elections.get((partition, epoch))
        begun = self.begins.get(partition, {}).get(epoch)
        known = begun.node if begun is not None else None
        return known if state is None else state.leader

    # Which event dropped a write.

    def loss(self, write: Write) -> Loss:
        """What lost it: the first election after its epoch whose leader ended at or below it."""
        partition, offset = write.partition, write.offset
        if self.log_starts.get(partition, 0) > offset:
            return Loss(DELETED, partition)
        for restart in self.restarts.get(partition, ()):
            if (cause := self._lost_by_restart(write, restart)) is not None:
                return Loss(cause, partition, restart.first.epoch, restart.first.epoch)
        begins = self.begins.get(partition, {})
        epoch = self._epoch(write, begins)
        if epoch is None:
            if self._undisturbed(partition):
                return Loss(NEVER_STORED, partition)
            why = "no log says that a later leader began at or below its offset"
            return Loss(UNEXPLAINED, partition, why=why)
        dropper = min(each for each in begins if each > epoch and begins[each].offset <= offset)
        election = self.elections.get((partition, dropper))
        if election is None or election.before is None:
            why = f"no controller's log has the election of epoch {dropper}"
            return Loss(UNEXPLAINED, partition, epoch, dropper, why)
        cause, why = self._cause(write, epoch, begins[dropper], election)
        before = self._of_deposed(write, epoch) if cause == UNEXPLAINED else None
        if before is not None and epoch in begins:
            dropper, election = epoch, self.elections[partition, epoch]
            cause, why = self._cause(write, before, begins[dropper], election)
            epoch = before
        return Loss(cause, partition, epoch, dropper, why)

    def _of_deposed(self, write: Write, epoch: int) -> int | None:
        """The epoch before, if its leader, which another one had just replaced, still acknowledged
        the write: it cut its log at or below it only after that."""
        of = write.partition
        earlier = max((e for p, e in self.elections if p == of and e < epoch), default=None)
        old = None if earlier is None else self.leader(of, earlier)
        election = self.elections.get((of, epoch))
        if old is None or election is None or old == self.leader(of, epoch):
            return None
        cut = self._shortened("cut", old, write, election.at_s + _JUST_AFTER_S)
        return earlier if cut else None

    def _shortened(self, kind: EventKind, node: str, write: Write, until_s: float) -> list[float]:
        """When a node's log ended at or below a write, between its acknowledgement and then."""
        return [
            each.at_s
            for each in self.evidence.of(kind, write.partition)
            if each.node == node
            and each.offset <= write.offset
            and each.at_s is not None
            and write.acknowledged_s < each.at_s <= until_s
        ]

    def _lost_by_restart(self, write: Write, restart: Restart) -> str | None:
        """What its leader lost it by that led again in the same epoch without it."""
        first, loaded, again = restart
        if again.offset > write.offset or not first.by(write.acknowledged_s):
            return None
        if loaded.by(write.acknowledged_s) or loaded.at_s is None:
            return None
        evidence, since_s = self.evidence, write.acknowledged_s
        return disk_cause(evidence.faults, evidence.plan, first.node, since_s, loaded.at_s)

    def _undisturbed(self, partition: int) -> bool:
        """Whether the partition had one leader all along and no replica lost any of its log, as all
        brokers say."""
        brokers = {f"b{number + 1}" for number in range(_replicas(self.evidence.plan))}
        silent = brokers - {event.node for event in self.evidence.events}
        changed = any(
            event.partition == partition
            and (event.kind in ("cut", "loaded", "log start") or event.epoch not in (0, None))
            for event in self.evidence.events
        )
        return not silent and not changed

    def _epoch(self, write: Write, begins: Mapping[int, Event]) -> int | None:
        """The epoch in which a write was acknowledged and which a later one cut off below it."""
        cutting = [epoch for epoch, begun in begins.items() if begun.offset <= write.offset]
        partition = write.partition
        since_s = {each: begun.at_s for each, begun in begins.items()}
        for (of, epoch), state in self.elections.items():
            if of == partition:  # of some that begin no state is known
                at_s = state.at_s if state.before is not None else None
                since_s[epoch] = float("inf") if state.leader is None else at_s
        for epoch, at_s in sorted(since_s.items(), reverse=True):
            in_time = at_s is None or at_s <= write.acknowledged_s
            first, behind = self._span(partition, epoch)
            if in_time and first <= write.offset < behind and max(cutting, default=0) > epoch:
                return epoch
        return None

    def _span(self, partition: int, epoch: int) -> tuple[int, float]:
        """Where the log of an epoch's leader ended when it began to lead, and when it next logs it
        without having been started again. One that was elected and never logged that it leads may
        have been too late: then what it logs next is where its log ended all along."""
        begun = self.begins.get(partition, {}).get(epoch)
        election = self.elections.get((partition, epoch))
        if begun is not None:
            node, since_s, first = begun.node, begun.at_s, begun.offset
        elif election is not None and election.leader is not None:
            node, since_s, first = election.leader, election.at_s, 0
        else:
            return 0, float("inf")
        for each in self.evidence.events:
            if each.node != node or each.partition != partition or each.epoch == epoch:
                continue
            if not each.is_logged:
                continue
            if each.at_s is not None and since_s is not None and each.at_s > since_s:
                if each.kind in ("leads", "follows"):
                    return first, each.offset
                if each.kind == "loaded":
                    break
        return first, float("inf")

    def _cause(self, write: Write, epoch: int, begun: Event, election: State) -> tuple[str, str]:
        """Why the leader that dropped a write lacked it; of what is unexplained, what is known."""
        assert election.before is not None
        new = begun.node
        leader = self.leader(write.partition, epoch)
        state = self.evidence.at(write.partition, write.acknowledged_s, epoch)
        promised = self.acks == ALL and state is not None and new in state.in_sync
        if new == leader or promised or self._followed_with(write, new, epoch, election):
            if (cause := self._lost_by(write, new, begun, election)) is not None:
                return cause, ""
            if new == leader:
                return UNEXPLAINED, f"{new} had it, and nothing says how {new} lost it"
        if self._below_minimum(write, epoch):
            return BELOW_MINIMUM, ""
        late = DEPOSED if write.begun_s > election.at_s else ""
        if election.unclean:
            of_last = not election.before.in_sync and new in election.before.last_known
            return (LAST_KNOWN if of_last else UNCLEAN) + late, ""
        if new not in election.before.in_sync:
            if new in election.before.eligible:
                return ELR + late, ""
            return UNEXPLAINED, f"{new} was elected from outside the ISR, and no log says why"
        if self.acks != ALL:
            return BEFORE_REPLICATION + late, ""
        if promised and state is not None and state.place and begun.is_logged:
            return BUG, ""
        return UNEXPLAINED, "no log has the ISR at its acknowledgement"

    def _below_minimum(self, write: Write, epoch: int) -> bool:
        """Whether a leader has surely acknowledged what it had to refuse: before the write began
        it had itself shrunk the ISR, in ZooKeeper. Controllers shrink it with a new epoch there,
        and in KRaft anyway, and a leader that does not know it yet has the write elsewhere too."""
        at, partition = self.evidence.at, write.partition
        then = at(partition, write.begun_s, epoch)
        if self.acks != ALL or then is None:
            return False
        if then.before is None or then.before.epoch < then.epoch:
            return False
        known = then.node == then.leader or then.node.startswith("z")
        below = len(then.in_sync) < min_insync_replicas(self.evidence.plan)
        return known and below and then is at(partition, write.acknowledged_s, epoch)

    def _had(self, node: str, write: Write, epoch: int | None, log: Event) -> bool:
        """Whether a node that logs where its log ends had a write by then: it had fetched from the
        leader of its epoch. A log that only is longer may be that of a deposed leader."""
        fetched = any(
            each.node == node and each.epoch == epoch and each.offset <= write.offset
            for each in self.evidence.of("follows", write.partition)
        )
        return fetched and log.offset > write.offset

    def _followed_with(self, write: Write, node: str, epoch: int, election: State) -> bool:
        """Whether a node had a write before an election."""
        return any(
            each.node == node
            and each.at_s is not None
            and write.acknowledged_s < each.at_s < election.at_s
            and self._had(node, write, epoch, each)
            for each in self.evidence.of("follows", write.partition)
        )

    def _lost_by(self, write: Write, node: str, begun: Event, election: State) -> str | None:
        """How a node lost a write that it had had, between its acknowledgement and the epoch that
        it began."""
        until_s = (election.at_s if begun.at_s is None else begun.at_s) + _JUST_AFTER_S
        made_s = 0.0 if begun.is_logged else _MAKES_S
        if loaded := self._shortened("loaded", node, write, until_s + made_s):
            faults, plan = self.evidence.faults, self.evidence.plan
            return disk_cause(faults, plan, node, write.acknowledged_s, loaded[-1])
        return OWN_MARK if self._shortened("cut", node, write, until_s) else None

    # The chain of events, and what would have prevented it.

    def explanation(self, loss: Loss, writes: Sequence[Write]) -> Explanation:
        """What is known of the writes that one event lost."""
        offsets = [write.offset for write in writes]
        survivors = self._survivors(loss, writes)
        elected = loss.dropped_by not in (None, loss.epoch)
        facts = [*self._facts(loss, writes, offsets, survivors)]
        facts.sort(key=lambda fact: (fact.at_s is None, fact.at_s or 0.0))
        return Explanation(
            cause=loss.cause,
            values=tuple(write.value for write in writes),
            partition=loss.partition,
            first=min(offsets),
            last=max(offsets),
            epoch=loss.epoch,
            dropped_by=loss.dropped_by,
            kept=self._kept(loss),
            held_by=survivors,
            facts=tuple(facts),
            preventions=tuple(self._preventions(loss, writes)),
            logs=tuple(self._logs(loss, writes)),
            survivors=max(survivors.values(), default=0) if elected else None,
        )

    def _kept(self, loss: Loss) -> int | None:
        """Where the log of the leader ended that dropped them."""
        if loss.dropped_by is None:
            return self.log_starts.get(loss.partition) if loss.cause == DELETED else None
        return self._dropping(loss).offset

    def _dropping(self, loss: Loss) -> Event:
        """How the leader began that dropped writes."""
        if loss.dropped_by == loss.epoch:
            restarts = self.restarts[loss.partition]
            return next(each.again for each in restarts if each.first.epoch == loss.epoch)
        assert loss.dropped_by is not None
        return self.begins[loss.partition][loss.dropped_by]

    def _facts(
        self,
        loss: Loss,
        writes: Sequence[Write],
        offsets: Sequence[int],
        survivors: Mapping[str, int],
    ) -> Iterator[Fact]:
        begun_s = min(write.acknowledged_s for write in writes)
        ended_s = max(write.acknowledged_s for write in writes)
        yield self._acknowledged(loss, writes, begun_s, ended_s)
        if loss.why:
            yield Fact(kind="acknowledged", text=loss.why, source="what is known", at_s=ended_s)
        if loss.cause == DELETED:
            yield from self._deletions(loss.partition)
            return
        yield from self._shrinks(loss, begun_s, ended_s)
        yield from self._election(loss, survivors)
        yield from self._cuts(loss, begun_s, max(offsets))
        yield from fault_facts(self.evidence.faults, begun_s, ended_s)

    def _acknowledged(
        self, loss: Loss, writes: Sequence[Write], begun_s: float, ended_s: float
    ) -> Fact:
        leader = None
        if loss.epoch is not None:
            leader = self.leader(loss.partition, loss.epoch)
        text = f"{leader} acknowledged" if leader else "the leader acknowledged"
        count = f"{len(writes):,} write{'' if len(writes) == 1 else 's'}"
        text += f" {count} until {ended_s:.2f} s, acks={self.acks}"
        if loss.epoch is not None:
            text += f", in epoch {loss.epoch}"
        if sizes := self._isrs(loss, writes):
            text += "; the ISR was " + ", ".join(
                f"{_set(isr)} for {count:,}" if count < len(writes) else _set(isr)
                for isr, count in sizes.most_common(4)
            )
            if unknown := len(writes) - sizes.total():
                text += f", and is not known for {unknown:,}"
        return Fact(kind="acknowledged", at_s=begun_s, node=leader, text=text, source="history")

    def _isrs(self, loss: Loss, writes: Sequence[Write]) -> Counter[tuple[str, ...]]:
        """The committed ISR of the epoch when each write was acknowledged, where it is known."""
        found: Counter[tuple[str, ...]] = Counter()
        if loss.epoch is None:
            return found
        for write in writes:
            state = self.evidence.at(loss.partition, write.acknowledged_s, loss.epoch)
            if not self.exact:  # it was acknowledged before its transaction was, after its begin
                before = self.evidence.at(loss.partition, write.begun_s, loss.epoch)
                state = state if state is before else None
            if state is not None:
                found[tuple(sorted(state.in_sync))] += 1
        return found

    def _shrinks(self, loss: Loss, begun_s: float, ended_s: float) -> Iterator[Fact]:
        """The last change of the ISR before the writes, and each while they were acknowledged."""
        changes = [
            state
            for state in self.evidence.states
            if state.partition == loss.partition
            and state.epoch == loss.epoch
            and state.before is not None
            and state.before.in_sync != state.in_sync
            and state.at_s <= ended_s
        ]
        before = [state for state in changes if state.at_s <= begun_s][-1:]
        for state in [*before, *(each for each in changes if each.at_s > begun_s)]:
            assert state.before is not None
            text = f"the ISR went from {_set(state.before.in_sync)} to {_set(state.in_sync)}"
            yield _fact("in sync", state, text)

    def _election(self, loss: Loss, survivors: Mapping[str, int]) -> Iterator[Fact]:
        if loss.dropped_by is None:
            return
        election = self.elections.get((loss.partition, loss.dropped_by))
        begun, again = self._dropping(loss), loss.dropped_by == loss.epoch
        if election is not None and not again:
            yield _fact("elected", election, _elected(election))
        if begun.is_logged:
            how = f"led again in epoch {loss.epoch}" if again else "began to lead"
            text = f"{begun.node} {how} with a log that ended at {begun.offset:,}"
            yield _fact("elected", begun, text)
        else:
            yield Fact(kind="held by", text=begun.text, source="final read", place=begun.place)
        for follower in self._ready(loss):
            if had := survivors.get(follower.node):
                text = f"{follower.node} was up, had {had:,} of them, and was not elected"
                yield _fact("held by", follower, text)

    def _ready(self, loss: Loss) -> list[Event]:
        """The replicas that followed the election of the dropping epoch at once."""
        if loss.dropped_by is None or loss.epoch in (None, loss.dropped_by):
            return []
        election = self.elections.get((loss.partition, loss.dropped_by))
        if election is None:
            return []
        return [
            each
            for each in self.evidence.of("follows", loss.partition)
            if each.epoch == loss.dropped_by
            and each.at_s is not None
            and abs(each.at_s - election.at_s) <= _AT_ONCE_S
        ]

    def _survivors(self, loss: Loss, writes: Sequence[Write]) -> dict[str, int]:
        """How many of the writes each replica had that was up and was not elected."""
        had = {
            each.node: sum(self._had(each.node, write, loss.epoch, each) for write in writes)
            for each in self._ready(loss)
        }
        return {node: count for node, count in had.items() if count}

    def _first_cuts(self, loss: Loss, begun_s: float, last: int) -> list[Event]:
        """How each replica first lost what is behind these writes."""
        found: dict[str, Event] = {}
        for each in self.evidence.events:
            late = each.at_s is not None and each.at_s > begun_s
            is_cut = each.kind in ("cut", "loaded") and each.offset <= last
            if each.partition == loss.partition and is_cut and late:
                found.setdefault(each.node, each)
        return [*found.values()]

    def _cuts(self, loss: Loss, begun_s: float, last: int) -> Iterator[Fact]:
        """What replicas did that had the writes: once each."""
        for each in self._first_cuts(loss, begun_s, last):
            if each.kind == "cut":
                yield _fact("truncated", each, f"{each.node} cut its log at {each.offset:,}")
            else:
                text = f"{each.node} started with a log that ended at {each.offset:,}"
                yield _fact("disk", each, text)

    def _logs(self, loss: Loss, writes: Sequence[Write]) -> Iterator[Stretch]:
        """What each replica's log had before it was cut, where that is known, and what it has at
        the end. A replica that follows logs where its log ends; the leader had all of them."""
        partition, last = loss.partition, max(write.offset for write in writes)
        begun_s = min(write.acknowledged_s for write in writes)
        deposed = None if loss.epoch is None else self.leader(partition, loss.epoch)
        for cut in self._first_cuts(loss, begun_s, last) if loss.dropped_by is not None else ():
            behind = last + 1 if cut.node == deposed else 0
            for each in self.evidence.of("follows", partition):
                at_once = abs((each.at_s or 0.0) - (cut.at_s or 0.0)) <= _AT_ONCE_S
                if each.node == cut.node and at_once:
                    behind = max(behind, each.offset)
            if cut.offset < behind:
                of, epoch = f"{cut.node} before", loss.epoch or 0
                yield from self._stretches(of, partition, epoch, behind, (cut.offset, behind))
        states = [each for each in self.evidence.states if each.partition == partition]
        of = ", ".join(sorted(states[-1].in_sync)) if states else "the log"
        end, start = self.log_ends.get(partition, 0), self.log_starts.get(partition, 0)
        newest = max(self.begins.get(partition, {}), default=0)
        yield from self._stretches(f"{of} at the end", partition, newest, end, (0, start))

    def _stretches(
        self, of: str, partition: int, newest: int, end: int, removed: tuple[int, int]
    ) -> Iterator[Stretch]:
        """A log that ends there, as leaders up to the newest epoch left it to those that followed;
        between two offsets it was removed. Of several epochs that nobody logs none is known."""
        starts: list[tuple[int, int | None]] = [(0, None)]
        begins = self.begins.get(partition, {})
        for epoch, begun in sorted(begins.items()):
            if epoch <= newest:
                starts = [each for each in starts if each[0] < begun.offset]
                is_known = begun.is_logged or len(begins) == 1
                starts.append((begun.offset, epoch if is_known else None))
        low, high = removed
        for (first, known), (behind, _) in pairwise([*starts, (end, None)]):
            below, above = min(behind, end, low), max(first, high)
            inside = max(first, low), min(behind, end, high)
            for a, b in ((first, below), inside, (above, min(behind, end))):
                if a < b:
                    yield Stretch(of, a, b, known, removed=(a, b) == inside)

    def _deletions(self, partition: int) -> Iterator[Fact]:
        start = self.log_starts.get(partition, 0)
        text = f"the log began at {start:,} when it was read at the end"
        yield Fact(kind="deleted", text=text, source="final read", place="reads/ends.parquet")
        seen: set[tuple[str, str]] = set()
        for each in self.evidence.events:
            if each.partition == partition and each.kind in ("log start", "deletes"):
                if (each.node, each.kind) not in seen:
                    did = "deleted a segment"
                    if each.kind == "log start":
                        did = f"moved its log's start to {each.offset:,}"
                    why = _DUE_TO.search(each.text)
                    reason = f", due to {why[1].strip()}" if why else ""
                    yield _fact("deleted", each, f"{each.node} {did}{reason}")
                seen.add((each.node, each.kind))

    def _preventions(self, loss: Loss, writes: Sequence[Write]) -> Iterator[Prevention]:
        """Those that Kafka's semantics guarantee; "would not have been acknowledged", never
        "nothing would have been lost"."""
        isrs = self._isrs(loss, writes)
        if not isrs or loss.dropped_by is None:
            return
        least = max(min_insync_replicas(self.evidence.plan), 1)
        wanted = least + 1
        below = Counter({isr: count for isr, count in isrs.items() if len(isr) == least})
        if self.acks == ALL and below and wanted <= _replicas(self.evidence.plan):
            yield Prevention(
                key='topic.settings."min.insync.replicas"',
                value=str(wanted),
                writes=below.total(),
                because=f"the ISR was {' or '.join(map(_set, below))} when they were",
            )
        new = self._dropping(loss).node
        missed = sum(count for isr, count in isrs.items() if new in isr)
        if self.acks != ALL and loss.cause.startswith(BEFORE_REPLICATION) and missed:
            yield Prevention(
                key="workload.producer.acks",
                value="all",
                writes=missed,
                because=f"{new} was in the ISR and never had them",
            )
        cut = {fault.nemesis for fault in self.evidence.faults if new in fault.nodes}
        if self.acks == ALL and loss.cause == POWER and missed == len(writes) and "disk" not in cut:
            yield Prevention(
                key='topic.settings."flush.messages"',
                value="1",
                writes=missed,
                because=f"{new} was in the ISR, and only its power was cut",
                else_=f"each would have been on the disk of {new} when it was acknowledged",
            )
        alone = self.leader(loss.partition, loss.epoch) if loss.epoch is not None else None
        if loss.cause in (UNCLEAN, UNCLEAN + DEPOSED) and isrs == {(alone,): len(writes)}:
            yield Prevention(
                key='topic.settings."unclean.leader.election.enable"',
                value="false",
                writes=len(writes),
                because=f"the ISR was {_set((alone,))}",
                else_=f"only {alone} could have led",
            )


def _replicas(plan: Mapping[str, Any]) -> int:
    return int(plan["topic"]["replication_factor"])


def _fact(kind: Any, of: State | Event, text: str) -> Fact:
    source, record = f"log of {of.node}", ""
    if isinstance(of, State):
        source, record = of.source or (source if of.place else f"seen at {of.node}"), of.record
    return Fact(
        kind=kind,
        at_s=of.at_s,
        node=of.node,
        text=text,
        source=source,
        place=of.place,
        record=record,
    )


def _set(nodes: Sequence[str | None]) -> str:
    return "{" + ", ".join(str(node) for node in nodes) + "}"
