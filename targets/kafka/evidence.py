"""What the nodes of a stored run logged about its partitions: who led, who was in sync, and what
became of each replica's log.

The committed state of a partition is what KRaft's log of metadata has, which controllers leave; of
a folder without it, what controllers log: KRaft's at DEBUG, ZooKeeper's controller and the leader
that has written it there. A leader's own "Shrinking ISR" is a request,
not a state: a deposed one logs it too. Times are the nodes' own; those of a node whose clock a
fault moved are not relied on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from harness.faults.journal import windows
from harness.history import MEMBERS
from harness.history.autopsy import lines_of
from harness.history.run_folder import RunDir
from harness.protocols import FaultWindow
from harness.protocols.explanations import Line
from targets.kafka.metadata_log import KEPT_AS, assigned

_NOBODY: Final = ("-1", "None", "none")

_CHANGE: Final = re.compile(
    r"(?<!Replayed )partition change for TOPIC-(\d+) with topic ID \S+: (.*?)(?: \(org|$)"
)
_PAIR: Final = re.compile(r"(\w+): (?:\[.*?\]|\S+) -> (\[.*?\]|[^\s,]+)")
_ONLINE: Final = re.compile(
    r"Changed partition TOPIC-(\d+) (?:state )?from \S+ to OnlinePartition with state "
    r"LeaderAndIsr\(leader=(-?\d+), leaderEpoch=(\d+), "
    r"isr(?:WithBrokerEpoch)?=List\(((?:BrokerState\([^)]*\)|[\d, ])*)\)"
)
_CHANGED: Final = re.compile(
    r"Partition TOPIC-(\d+) state changed to \(Leader:(-?\d+),ISR:([\d,]*),"
    r"(?:LeaderRecoveryState:\w+,)?LeaderEpoch:(\d+)"
)
_UPDATED: Final = re.compile(
    r"\[Partition TOPIC-(\d+) broker=(\d+)\] ISR updated to \[?([\d, ]+?)\]?\s+(?:\(|and )"
)
_SELECTED: Final = re.compile(
    r'elected? .*?(\{"leader":.*?\}) for (?:offline )?partition \[?TOPIC[,-](\d+)'
)

_AT: Final = r"TOPIC-(?P<partition>\d+)"
_ENDS: Final = r"(?P<offset>\d+)"
_BEGINS: Final = (
    rf"(?: with topic id \S+)? starts at leader epoch (?P<epoch>\d+) from offset {_ENDS}"
)
_LOADED: Final = rf"(?:TOPIC-\d+ )?with .*?end offset {_ENDS}"
_LEADS: Final = re.compile(rf"Leader {_AT}{_BEGINS}(?:.*?\bISR \[([\d,]*)\])?")

EventKind = Literal["leads", "follows", "cut", "made", "loaded", "log start", "deletes"]
_EVENTS: Final[tuple[tuple[EventKind, re.Pattern[str]], ...]] = (
    ("cut", re.compile(rf"partition={_AT}, .*?Truncating to offset {_ENDS}")),
    ("cut", re.compile(rf"Truncating (?:log|partition) {_AT} to offset {_ENDS}")),
    ("loaded", re.compile(rf"partition={_AT}, .*?Completed load of log {_LOADED}")),
    ("loaded", re.compile(rf"Completed load of log {_AT} {_LOADED}")),
    ("made", re.compile(r"Created log for partition \[?TOPIC[,-](?P<partition>\d+)\]? ")),
    ("leads", _LEADS),
    ("follows", re.compile(rf"Follower {_AT}{_BEGINS}")),
    (
        "leads",
        re.compile(rf"\b{_AT} starts at [Ll]eader [Ee]poch:? (?P<epoch>\d+) from offset {_ENDS}"),
    ),
    (
        "loaded",
        re.compile(rf"topic=TOPIC, partition=(?P<partition>\d+), .*?logEndOffset={_ENDS}\)"),
    ),
    ("log start", re.compile(rf"partition={_AT}, .*Incremented log start offset to {_ENDS} ")),
    ("deletes", re.compile(rf"partition={_AT}, .*(?:Deleting segment|Found deletable)")),
)
"""Kinds of lines, of which the first that matches counts. What is loaded was logged in other words
before 2.0, and before 0.11."""


class Write(NamedTuple):
    """A lost write, where it was acknowledged; times since the run's start."""

    value: int
    partition: int
    offset: int
    begun_s: float
    acknowledged_s: float


@dataclass(frozen=True, kw_only=True)
class State:
    """The committed state of a partition from an instant on. `eligible`: its eligible leaders
    outside the ISR, and `last_known`, its last known leader (KIP-966). `since_s`: of a state that
    was only seen, when the one before it was last seen; it began between the two."""

    at_s: float
    partition: int
    leader: str | None
    epoch: int
    in_sync: tuple[str, ...]
    eligible: tuple[str, ...] = ()
    last_known: tuple[str, ...] = ()
    unclean: bool = False
    before: State | None = field(default=None, repr=False)
    node: str = ""
    place: str = ""
    source: str = ""
    record: str = ""
    since_s: float | None = None

    @property
    def elected(self) -> bool:
        """Whether a leader begins with it."""
        begins = self.before is not None and self.epoch > self.before.epoch
        return begins and self.leader is not None


@dataclass(frozen=True, kw_only=True)
class Event:
    """What a replica logged about its copy of a partition: `epoch` of the leader, `offset` at which
    its log ends, is cut, or begins."""

    kind: EventKind
    at_s: float | None
    node: str
    partition: int
    place: str
    text: str
    epoch: int | None = None
    offset: int = 0

    @property
    def is_logged(self) -> bool:
        """Whether the replica logged it; else it is inferred from the final read."""
        return self.place.startswith("nodes/")

    def by(self, at_s: float) -> bool:
        """Whether it is known to be no later."""
        return self.at_s is not None and self.at_s <= at_s


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Of one topic: its states and events in order of time, and the run's faults."""

    plan: dict[str, Any]
    states: tuple[State, ...]
    events: tuple[Event, ...]
    faults: tuple[FaultWindow, ...]

    def of(self, kind: EventKind, partition: int) -> list[Event]:
        return [each for each in self.events if each.kind == kind and each.partition == partition]

    def at(self, partition: int, at_s: float, epoch: int) -> State | None:
        """The committed state at an instant within an epoch, or within later ones that the same
        leader began: it then acknowledges what it has of earlier ones. `None` where it is not
        known, as between two looks of which the second saw another."""
        here: State | None = None
        for state in self.states:
            if state.partition != partition or state.epoch < epoch:
                continue
            if state.epoch > epoch and (here is None or state.leader != here.leader):
                break
            if state.at_s > at_s:
                unseen = state.since_s is not None and state.since_s < at_s
                return None if unseen else here
            here = state
        return here


def evidence_of(rundir: RunDir, lost: Sequence[Write], topic: str | None = None) -> Evidence:
    """The evidence in the folder of a run or of one of its cells about its lost writes, or about
    another topic. Raises HistoryError for documents that cannot be read; a log that is missing
    shows nothing."""
    plan = rundir.read_json(rundir.plan)
    faults = tuple(windows(rundir.faults))
    name = topic or plan["topic"]["name"]
    lines = _lines(rundir, name, faults)
    states = list(_of_metadata(rundir, plan, faults, name))
    states = states or list(_of_kraft(lines)) or list(_of_zookeeper(lines))
    events = [*_events(lines)]
    if topic is None:
        logged = {state.partition for state in states if state.elected}
        seen = [state for state in _observed(rundir) if state.partition not in logged]
        changed = {state.partition for state in seen if state.elected}
        kept = [state for state in states if state.partition not in changed]
        states = kept + [_begun(each, states, events) for each in seen if each.partition in changed]
        events += [*_begins(events, states, rundir, lost)]
    return Evidence(plan=plan, states=tuple(states), events=tuple(events), faults=faults)


def _lines(rundir: RunDir, topic: str, faults: Sequence[FaultWindow]) -> list[Line]:
    """The dated lines of all nodes that name the topic, which is then called TOPIC."""
    name = rf"(?<![\w.-]){re.escape(topic)}(?=[-,])"
    found = [
        replace(line, text=re.sub(name, "TOPIC", line.text))
        for line in lines_of(rundir, re.compile(name.encode()).search, faults)
    ]
    return sorted(found, key=lambda line: (line.at_s is None, line.at_s or 0.0))


# The committed states.


def _begun(seen: State, logged: Sequence[State], events: Sequence[Event]) -> State:
    """A leader's election, which was seen late: no later than a log says it."""
    if not seen.elected:
        return seen
    known: list[State | Event] = [*logged, *events]
    said = [
        each.at_s
        for each in known
        if (each.partition, each.epoch) == (seen.partition, seen.epoch) and each.at_s is not None
    ]
    return replace(seen, at_s=min([seen.at_s, *said]))


def _of_metadata(
    rundir: RunDir, plan: Mapping[str, Any], faults: Sequence[FaultWindow], topic: str
) -> Iterator[State]:
    """By the log of metadata that controllers left. None where less than a majority did, or where a
    fault moved the clock of one: then their logs' lines are all there is."""
    root = rundir.of_run
    logs = {file.parent.name: file.read_bytes() for file in root.path.glob(f"nodes/*/{KEPT_AS}")}
    moved = {node for each in faults if "clock" in each.nemesis for node in each.nodes}
    if 2 * len(logs) <= plan["target"].get("controllers", 1) or moved & logs.keys():
        return
    start_ms = datetime.fromisoformat(root.read_json(root.run)["wall_time"]).timestamp() * 1e3
    node, found = assigned(logs, topic)
    now: dict[int, State] = {}
    for each in found:
        now[each.partition] = state = State(
            at_s=round((each.at_ms - start_ms) / 1e3, 3),
            partition=each.partition,
            leader=None if each.leader is None else f"b{each.leader}",
            epoch=each.epoch,
            in_sync=tuple(f"b{number}" for number in each.in_sync),
            eligible=tuple(f"b{number}" for number in each.eligible),
            last_known=tuple(f"b{number}" for number in each.last_known),
            unclean=each.unclean,
            before=now.get(each.partition),
            node=node,
            place=f"nodes/{node}/{KEPT_AS}:{each.offset}",
            source=f"metadata offset {each.offset:,}",
            record=each.in_words,
        )
        yield state


def _observed(rundir: RunDir) -> Iterator[State]:
    """What the run observed itself, for versions whose controller does not log what it decides: the
    state as ZooKeeper has it, or else the node with the highest epoch, since what another one has
    may be old. Seen later than it was."""
    parts = rundir.parts(rundir.observations)
    names = ["time_ns", "answered_by", "partition", "leader", "leader_epoch", MEMBERS]
    now: dict[int, State] = {}
    looked_s: dict[int, float] = {}
    stored = set[int]()
    for table in (pq.ParquetFile(part).read() for part in parts):
        if MEMBERS not in table.column_names:
            table = table.append_column(MEMBERS, pa.nulls(table.num_rows))
        rows = [*zip(*(table[name].to_pylist() for name in names), strict=True)]
        stored |= {row[2] for row in rows if row[1].startswith("z") and row[2] is not None}
        for time_ns, node, partition, leader, epoch, in_sync in sorted(rows, key=itemgetter(0)):
            if partition in stored and not node.startswith("z"):
                continue
            before = now.get(partition)
            if partition is None or epoch is None or epoch < max(0, before.epoch if before else 0):
                continue
            written = tuple(in_sync or ())
            same = before is not None and (before.epoch, before.leader) == (epoch, leader)
            since_s, looked_s[partition] = looked_s.get(partition), time_ns / 1e9
            if before is not None and same and set(before.in_sync) == set(written):
                continue
            begins = before is not None and epoch > before.epoch and leader is not None
            now[partition] = state = State(
                at_s=time_ns / 1e9,
                partition=partition,
                leader=leader,
                epoch=epoch,
                in_sync=written,
                unclean=begins and before is not None and leader not in before.in_sync,
                before=before,
                node=node,
                since_s=since_s,
            )
            yield state


def _of_kraft(lines: Sequence[Line]) -> Iterator[State]:
    """Every controller logs every change. One that has lost its quorum logs changes that were never
    committed: of two that are of one partition epoch, the one counts that more controllers log. A
    topic's creation is not logged: its first leader logs its first state."""
    now: dict[int, State] = {}
    changes: dict[tuple[int, int], dict[str, list[Line]]] = {}
    for line in lines:
        if line.at_s is None:
            continue
        if (found := _LEADS.search(line.text)) and found[2] == "0" and int(found[1]) not in now:
            now[int(found[1])] = State(
                at_s=line.at_s,
                partition=int(found[1]),
                leader=line.node,
                epoch=0,
                in_sync=_brokers(found[4] or ""),
                node=line.node,
                place=line.place,
            )
        elif found := _CHANGE.search(line.text):
            version = int(dict(_PAIR.findall(found[2])).get("partitionEpoch", -1))
            said = changes.setdefault((int(found[1]), version), {})
            said.setdefault(found[2], []).append(line)
    if not changes:
        return
    yield from now.values()
    for (partition, _), said in sorted(changes.items()):
        text, lines_of = max(said.items(), key=_committed)
        line, pairs, before = lines_of[0], dict(_PAIR.findall(text)), now.get(partition)
        if before is None or line.at_s is None:
            continue
        leader = _broker(pairs["leader"]) if "leader" in pairs else before.leader
        now[partition] = state = replace(
            before,
            at_s=line.at_s,
            leader=leader,
            epoch=int(pairs.get("leaderEpoch", before.epoch)),
            in_sync=_brokers(pairs["isr"]) if "isr" in pairs else before.in_sync,
            eligible=_brokers(pairs["elr"]) if "elr" in pairs else before.eligible,
            last_known=(
                _brokers(pairs["lastKnownElr"]) if "lastKnownElr" in pairs else before.last_known
            ),
            unclean="UNCLEAN" in line.text and leader is not None,
            before=before,
            node=line.node,
            place=line.place,
        )
        yield state


def _committed(said: tuple[str, list[Line]]) -> tuple[int, float]:
    return len({line.node for line in said[1]}), said[1][-1].at_s or 0.0


def _of_zookeeper(lines: Sequence[Line]) -> Iterator[State]:
    """The controller logs whom it elects, a leader the ISR that it has written. What a leader that
    is none any more logs is no state."""
    now: dict[int, State] = {}
    for line in lines:
        if line.at_s is None or (found := _written(line)) is None:
            continue
        partition, leader, epoch, in_sync = found
        before = now.get(partition)
        if epoch is None and (before is None or before.leader != leader):
            continue
        epoch = before.epoch if epoch is None and before is not None else epoch or 0
        if before is not None and epoch < before.epoch:
            continue
        begins = before is not None and epoch > before.epoch and leader is not None
        now[partition] = state = State(
            at_s=line.at_s,
            partition=partition,
            leader=leader,
            epoch=epoch,
            in_sync=in_sync,
            unclean=begins and before is not None and leader not in before.in_sync,
            before=before,
            node=line.node,
            place=line.place,
        )
        yield state


def _written(line: Line) -> tuple[int, str | None, int | None, tuple[str, ...]] | None:
    """Partition, leader, epoch and ISR of a line that states them; a leader's own has no epoch."""
    if found := _ONLINE.search(line.text):
        return int(found[1]), _broker(found[2]), int(found[3]), _brokers(found[4])
    if found := _CHANGED.search(line.text):
        return int(found[1]), _broker(found[2]), int(found[4]), _brokers(found[3])
    if found := _UPDATED.search(line.text):
        return int(found[1]), _broker(found[2]), None, _brokers(found[3])
    if found := _SELECTED.search(line.text):
        try:
            state = orjson.loads(found[1])
            in_sync = tuple(f"b{number}" for number in state["isr"])
            return int(found[2]), _broker(str(state["leader"])), int(state["leader_epoch"]), in_sync
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            return None
    return None


def _broker(number: str) -> str | None:
    return None if number in _NOBODY else f"b{number}"


def _brokers(numbers: str) -> tuple[str, ...]:
    """Those that a line lists; some have epochs: `BrokerState(brokerId=1, brokerEpoch=-1)`."""
    return tuple(f"b{number}" for number in re.findall(r"(?<!Epoch=)(?<!Epoch=-)\b\d+", numbers))


# What became of each replica's log.


def _events(lines: Sequence[Line]) -> Iterator[Event]:
    """A log that is created a second time was lost in between: it ends at 0."""
    made: set[tuple[str, int]] = set()
    for line in lines:
        matches = ((kind, pattern.search(line.text)) for kind, pattern in _EVENTS)
        kind, found = next((match for match in matches if match[1]), (None, None))
        if kind is None or found is None:
            continue
        said = {name: int(number) for name, number in found.groupdict().items()}
        replica = line.node, said["partition"]
        if kind == "made" and replica not in made:
            made.add(replica)
            continue
        yield Event(
            kind="loaded" if kind == "made" else kind,
            at_s=line.at_s,
            node=line.node,
            partition=said["partition"],
            place=line.place,
            text=line.text,
            epoch=said.get("epoch"),
            offset=said.get("offset", 0),
        )


def _begins(
    events: Sequence[Event], states: Sequence[State], rundir: RunDir, lost: Sequence[Write]
) -> Iterator[Event]:
    """Where leaders began, of versions that log much and never that (before 0.11): no later than
    where the final log has another record, or none, than the one that was acknowledged there before
    their election. Of nodes without logs nothing is inferred."""
    logged = {each.partition for each in events if each.kind == "leads"}
    for state in states:
        if not events or not state.elected or state.partition in logged or state.leader is None:
            continue
        before = [
            write
            for write in lost
            if write.partition == state.partition and write.acknowledged_s <= state.at_s
        ]
        replaced = _replaced(rundir, state.partition, before)
        if replaced is not None:
            offset, what = replaced
            yield Event(
                kind="leads",
                at_s=state.at_s,
                node=state.leader,
                partition=state.partition,
                place="reads/",
                text=what,
                epoch=state.epoch,
                offset=offset,
            )


def _replaced(rundir: RunDir, partition: int, lost: Sequence[Write]) -> tuple[int, str] | None:
    """The lowest offset at which the final log has another record than the one that was
    acknowledged there, or has ended, and what it has."""
    acknowledged = {write.offset: write.value for write in lost}
    found: list[tuple[int, str]] = []
    for part in rundir.parts(rundir.reads) if acknowledged else ():
        table = pq.ParquetFile(part).read(columns=["partition", "offset", "value"])
        table = table.filter(pa.array(table["partition"].to_numpy() == partition))
        for offset, value in zip(
            table["offset"].to_pylist(), table["value"].to_pylist(), strict=True
        ):
            if (gone := acknowledged.get(offset)) is not None:
                text = f"at {offset:,}, where {gone} was acknowledged, stands {value}"
                found.append((offset, text))
    if acknowledged and rundir.ends.is_file():
        ends = pq.ParquetFile(rundir.ends).read(columns=["partition", "position", "complete"])
        for row in ends.to_pylist():
            end = row["position"]
            if row["partition"] == partition and row["complete"] and end <= max(acknowledged):
                text = (
                    f"the final log ends at {end:,}; up to {max(acknowledged):,} was acknowledged"
                )
                found.append((end, text))
    return min(found, default=None)
