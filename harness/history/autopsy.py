"""What the explanations of systems have in common: the dated lines of nodes' logs, what of ours had
met a disk, and the event that dropped a write of a system whose servers agree by a majority.

Such a write is gone since a later leader began without it. What a majority has is had by one of any
other majority, so somebody's disk had lost it meanwhile; without that it is the system's defect.
Only what proves that a leader lacked a write counts: its log ended below the write's position, or
the leader gave that position, or a lower one, to another write.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from harness.history.parquet_writer import strings
from harness.history.run_folder import RunDir
from harness.protocols import UNEXPLAINED, Explanation, Fact, FaultWindow, Prevention
from harness.protocols.explanations import (
    BEHIND,
    DEPOSED,
    DISK,
    EMPTIED,
    POWER,
    STALE,
    UNDISTURBED,
    WIPED,
    WITHOUT,
    Happened,
    Holding,
    Line,
    Waits,
)

_DATED: Final = re.compile(
    rb'(?:\[\d+\] |\{"level":"\w+","ts":")?(?:\[|raft)?'
    rb'(\d{4})[-/](\d\d)[-/](\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d+))?(?:Z"|\S* )'
)
_WORDED: Final = re.compile(rb"\S+ (\d\d) (\w{3}) (\d{4}) (\d\d:\d\d:\d\d)\.(\d+) ")
"""A date such as `8:M 28 Nov 2026 18:28:18.702`."""
_MONTHS: Final = b"JanFebMarAprMayJunJulAugSepOctNovDec"
_LEVEL: Final = re.compile(rb"\A\w+ ")
_BYTES_AT_MOST: Final = 256 * 1024 * 1024

_SLACK_S: Final = 1.0
"""Of some logs the times are whole seconds."""


def lines_of(
    rundir: RunDir, wanted: Callable[[bytes], Any], faults: Sequence[FaultWindow]
) -> Iterator[Line]:
    """The dated lines of all nodes that are wanted, those of a file in their order. A line that has
    whole seconds is not earlier than the dated one before it."""
    run = rundir.of_run.read_json(rundir.of_run.run)
    start_s = datetime.fromisoformat(run["wall_time"]).timestamp()
    moved = {node for each in faults if "clock" in each.nemesis for node in each.nodes}
    for file in rundir.logs():
        if file.is_symlink() or not file.is_file():
            continue
        node, place = file.parent.name, str(file.relative_to(rundir.of_run.path))
        for number, at, raw in dated_lines(file, wanted):
            yield Line(
                at_s=None if node in moved else round(at - start_s, 3),
                node=node,
                place=f"{place}:{number}",
                text=_LEVEL.sub(b"", raw).decode("utf-8", "replace").strip(),
            )


def dated_lines(file: Path, wanted: Callable[[bytes], Any]) -> Iterator[tuple[int, float, bytes]]:
    """The dated lines of one file that are wanted: number, time by the node's own clock, and what
    follows, from the level on. Nodes run in containers, whose time zone is UTC."""
    seen, number, before = 0, 0, None
    with file.open("rb") as stream:
        while seen < _BYTES_AT_MOST and (raw := stream.readline(1 << 16)):
            seen, number = seen + len(raw), number + 1
            if (dated := _DATED.match(raw) or _WORDED.match(raw)) is None:
                continue
            if dated[5] is not None:
                before = dated
            if wanted(raw):
                at = _second(dated)
                if dated[5] is None and before is not None and _second(before) // 1 == at:
                    at = _second(before)
                yield number, at, raw[dated.end() :]


def _second(dated: re.Match[bytes]) -> float:
    year, month, day = dated.group(1, 2, 3)
    if dated.re is _WORDED:
        year, month, day = day, b"%02d" % (_MONTHS.find(month) // 3 + 1), year
    text = b"-".join((year, month, day)) + b" " + dated[4]
    at = datetime.fromisoformat(text.decode()).replace(tzinfo=UTC).timestamp()
    return at + float(b"0." + (dated[5] or b"0"))


# What faults explain.


def disk_cause(
    faults: Sequence[FaultWindow], plan: Mapping[str, Any], node: str, since_s: float, by_s: float
) -> str:
    """What of ours had met a node's disk between two instants."""
    forms = {each.get("id"): each.get("form") for each in plan["faults"]}
    found = [
        fault
        for fault in faults
        if node in fault.nodes
        and fault.nemesis in ("disk", "power-loss")
        and fault.begun_s is not None
        and fault.begun_s <= by_s
        and (fault.to_s is None or since_s <= fault.to_s)
    ]
    if not found:
        return UNDISTURBED
    form = forms.get(found[-1].id)
    if found[-1].nemesis == "power-loss" or form == "unsynced":
        return POWER
    return WIPED if form == "wipe" else DISK


def fault_facts(faults: Sequence[FaultWindow], begun_s: float, ended_s: float) -> Iterator[Fact]:
    """The faults that began about then."""
    for fault in faults:
        if fault.from_s is not None and begun_s - 5 <= fault.from_s <= ended_s + 5:
            text = f"the fault {fault.id} ({fault.nemesis}) met {', '.join(fault.nodes)}"
            yield Fact(
                kind="fault",
                at_s=fault.from_s,
                text=text,
                source="journal",
                place="faults.jsonl",
                record="; ".join(dict.fromkeys(fault.evidence)),
            )


# What was acknowledged.

_WRITES: Final = ["add", "append", "enqueue"]


class Write(NamedTuple):
    """An acknowledged write; times since the run's start. `position`: in the order of all writes,
    as the answer had it; `node`: which answered; `epoch`: of the entry, where it is known."""

    value: int
    position: int | None
    begun_s: float
    acknowledged_s: float
    node: str | None = None
    partition: int | None = None
    epoch: int | None = None


def acknowledged(rundir: RunDir) -> list[Write]:
    """The acknowledged writes of a run, in the order of their acknowledgement."""
    import pyarrow.compute as pc  # which takes as long to import as a target does

    begun: dict[int, float] = {}
    found = []
    names = ["type", "f", "value", "offset", "node", "time_ns"]
    for part in rundir.parts(rundir.history):
        table = pq.ParquetFile(part).read(columns=names)
        table = table.filter(pc.is_in(table["f"], strings(_WRITES)))
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
        for type_, _, value, position, node, time_ns in rows:
            if type_ == "invoke":
                begun[value] = time_ns / 1e9
            elif type_ == "ok" and value is not None:
                found.append(Write(value, position, begun.get(value, 0.0), time_ns / 1e9, node))
    return sorted(found, key=lambda write: write.acknowledged_s)


# Which election dropped it.

_SHOWN: Final = {"starts": "disk", "cut": "truncated", "joins": "in sync"}


_AFTER_BEGINNING: Final = ("begins", "ends", "starts", "follows")


def in_order(events: Iterable[Happened]) -> list[Happened]:
    """What servers logged, in the order of time: starts with where the log then ended, elections
    with where it ended and with a number."""
    found, begun, ends = list[Happened](), dict[str, Happened](), dict[str, Happened]()
    for event in events:
        node = event.node
        start = begun.pop(node, None) if event.kind in _AFTER_BEGINNING else None
        if event.kind == "begins":
            found += [start] if start is not None and start.end is not None else []
            begun[node] = replace(event, kind="starts")
        elif event.kind == "ends":
            ends[node] = event
            found += [] if start is None else [_ended(start, event)]
        elif event.kind == "leads" and event.end is None and (last := ends.get(node)) is not None:
            found.append(_ended(event, last))
        else:
            found += [start] if start is not None and event.kind == "follows" else []
            found.append(event)
    ordered = sorted([*found, *begun.values()], key=lambda event: event.at_s)
    numbers = iter(range(1, len(ordered) + 1))
    return [replace(e, epoch=next(numbers)) if e.epoch < 0 else e for e in ordered]


def _ended(event: Happened, log: Happened) -> Happened:
    text = f"{event.text} with a log that ended at {log.text}"
    return replace(event, text=text, end=log.end)


class Loss(NamedTuple):
    """What lost a write: the election that dropped it. `why`: of what is unexplained, what is
    known."""

    cause: str
    epoch: int | None = None
    dropped_by: int | None = None
    partition: int | None = None
    why: str = ""


class Election:
    """Of one epoch, until the next one: what its leader logged, and what was acknowledged."""

    def __init__(self, event: Happened, until_s: float, writes: Sequence[Write]) -> None:
        self.event = event
        some = sorted(
            (each.begun_s, each.position)
            for each in writes
            if each.position is not None and each.acknowledged_s <= until_s
        )
        self._begun = [begun_s for begun_s, _ in some]
        self._least = [*accumulate((position for _, position in reversed(some)), min)][::-1]

    def lacked(self, write: Write) -> bool:
        """Whether its leader surely lacked an earlier write: its log ended before, or the position
        of the write, or a lower one, was given to another that began later."""
        end, position = self.event.end, write.position or 0
        later = bisect_left(self._begun, write.acknowledged_s)
        again = later < len(self._least) and self._least[later] <= position
        return again or (end is not None and end < position)


@dataclass(frozen=True)
class Autopsy:
    """Of the lost writes of a run, by what its servers logged, in order of time. `synced`: the key
    of a plan and its value with which servers call fsync before they acknowledge; `waits`: whom a
    leader waits for; `holdings`: what servers' own logs have at the end, where that was kept."""

    rundir: RunDir
    lost: pa.Table
    faults: Sequence[FaultWindow]
    events: Sequence[Happened]
    synced: tuple[str, Any] = ("", None)
    waits: Waits = field(default_factory=Waits)
    holdings: Sequence[Holding] = ()

    @cached_property
    def plan(self) -> Mapping[str, Any]:
        return self.rundir.read_json(self.rundir.plan)

    @cached_property
    def lags(self) -> bool:
        """Whether a leader acknowledges what others may lack for whom it could wait."""
        key, value = self.waits.others
        return bool(key) and self.at(key) != value

    @cached_property
    def writes(self) -> list[Write]:
        return acknowledged(self.rundir)

    @cached_property
    def positions(self) -> Mapping[int, int]:
        """Those that an answer had, by value."""
        return {each.value: each.position for each in self.writes if each.position is not None}

    @cached_property
    def servers(self) -> set[str]:
        run = self.rundir.of_run
        return {node["name"] for node in run.read_json(run.run).get("nodes") or ()}

    @cached_property
    def elections(self) -> list[Election]:
        """Those of each epoch."""
        found: dict[int, Happened] = {}
        for event in self.events:
            if event.kind == "leads":
                found.setdefault(event.epoch, event)
        ordered = [found[epoch] for epoch in sorted(found)]
        behind = [*(event.at_s for event in ordered[1:]), float("inf")]
        return [Election(*each, self.writes) for each in zip(ordered, behind, strict=False)]

    def explanations(self) -> list[Explanation]:
        """Of all of them. A log loses a suffix: what no log decides was dropped with the next
        higher position of its epoch, unless one between them is not lost."""
        losses = {write: self.loss(write) for write in self.placed()}
        dropped = sorted(
            (write.position or 0, loss) for write, loss in losses.items() if loss.dropped_by
        )
        values = {write.value for write in losses}
        kept = sorted(each.position or 0 for each in self.writes if each.value not in values)
        groups: dict[Loss, list[Write]] = {}
        for write, loss in losses.items():
            if loss.dropped_by is None and write.position is not None:
                above = bisect_right(dropped, write.position, key=itemgetter(0))
                position, following = dropped[above] if above < len(dropped) else (0, loss)
                first_kept = bisect_right(kept, write.position)
                if following.epoch == loss.epoch and position <= (*kept, position)[first_kept]:
                    groups.setdefault(following, []).append(write)
                    continue
            groups.setdefault(loss, []).append(write)
        return [self.explanation(*each) for each in groups.items()]

    def placed(self) -> Iterator[Write]:
        """The lost writes with a position that they surely have, or have passed: one that ended
        before they began is lower."""
        own = {write.value: write for write in self.writes}
        ended = [write.acknowledged_s for write in self.writes]
        highest = [*accumulate((write.position or 0 for write in self.writes), max, initial=0)]
        columns = (self.lost[name].to_pylist() for name in ("value", "invoke_ns", "complete_ns"))
        for value, begun, done in zip(*columns, strict=True):
            times = ((begun or 0) / 1e9, (done or begun or 0) / 1e9)
            write = own.get(value) or Write(value, None, *times)
            if write.position is None:
                before = highest[bisect_left(ended, write.begun_s)]
                write = write._replace(position=before + 1 if before else None)
            yield write

    def loss(self, write: Write) -> Loss:
        """The first election after its acknowledgement whose leader surely lacked it."""
        if write.position is None:
            return Loss(UNEXPLAINED, why="no answer had the position of a write")
        before = [e.event.epoch for e in self.elections if e.event.at_s <= write.acknowledged_s]
        epoch = max(before, default=None)
        for election in self.elections:
            after = election.event.at_s > write.acknowledged_s
            if after and (election.lacked(write) or self._nobody_had(write, election.event)):
                cause, why = self._cause(write, election.event)
                return Loss(cause, epoch, election.event.epoch, why=why)
        return Loss(UNEXPLAINED, epoch, why="no log says that a later leader lacked them")

    def _nobody_had(self, write: Write, election: Happened) -> bool:
        """Whether all servers had started again without a write before an election."""
        starts = self._between("starts", write.acknowledged_s, election.at_s)
        ends = {event.node: event.end for event in starts}
        known = write.position or 0
        without = {node for node, end in ends.items() if end is not None and end < known}
        return bool(without) and without >= self.servers

    def _cause(self, write: Write, election: Happened) -> tuple[str, str]:
        """Whose disk had lost it, as the journal says; without a fault of ours, that servers had
        lost it is only sure of more than need not have had it."""
        starts = self._between("starts", write.acknowledged_s, election.at_s + _SLACK_S)
        known = max(write.position or 0, 1 + (election.end or 0))
        causes = {
            event.node: self.disk(write, event)
            for event in starts
            if event.end is not None and event.end < known
            if not self.lags or not self._was_down(event.node, write.acknowledged_s)
        }
        if ours := [each for each in (POWER, WIPED, DISK) if each in causes.values()]:
            return ours[0], ""
        if self.lags:
            return BEHIND, ""
        if len(causes) > (len(self.servers) - 1) // 2:
            return UNDISTURBED, ""
        silent = self.servers - {event.node for event in self.events}
        silent |= {event.node for event in starts if event.end is None} | {*causes}
        silent -= {e.node for e in self.holdings if self.positions.get(write.value) in e.places}
        if silent:
            return UNEXPLAINED, f"no log says what {', '.join(sorted(silent))} had before"
        return WITHOUT, ""

    def _was_down(self, node: str, at_s: float) -> bool:
        """Whether a fault kept a server down then: what was not waited for, it never had."""
        return any(
            node in fault.nodes
            and fault.nemesis in ("kill", "power-loss")
            and fault.begun_s is not None
            and fault.begun_s <= at_s <= (fault.to_s or at_s)
            for fault in self.faults
        )

    def disk(self, write: Write, start: Happened) -> str:
        """What of ours had met the disk of a server that started again."""
        since_s, node = write.acknowledged_s, start.node
        return disk_cause(self.faults, self.plan, node, since_s, start.at_s)

    def _between(self, kind: str, after_s: float, until_s: float) -> list[Happened]:
        return [e for e in self.events if e.kind == kind and after_s < e.at_s <= until_s]

    # The chain of events, and what would have prevented it.

    def explanation(self, loss: Loss, writes: Sequence[Write]) -> Explanation:
        """What is known of the writes that one election dropped."""
        begun_s = min(write.acknowledged_s for write in writes)
        ended_s = max(write.acknowledged_s for write in writes)
        count = f"{len(writes):,} write{'' if len(writes) == 1 else 's'}"
        text = f"{count} acknowledged until {ended_s:.2f} s"
        facts = [Fact(kind="acknowledged", at_s=begun_s, text=text, source="history")]
        if loss.why:
            said = Fact(kind="acknowledged", at_s=ended_s, text=loss.why, source="what is known")
            facts.append(said)
        facts += self._facts(loss, begun_s)
        facts += fault_facts(self.faults, begun_s, ended_s)
        if known := {self.positions[each.value] for each in writes if each.value in self.positions}:
            facts += (each.fact(known) for each in self.holdings)
        facts.sort(key=lambda fact: (fact.at_s is None, fact.at_s or 0.0))
        return Explanation(
            cause=loss.cause,
            values=tuple(write.value for write in writes),
            partition=loss.partition,
            epoch=loss.epoch,
            dropped_by=loss.dropped_by,
            facts=tuple(facts),
            preventions=tuple(self._preventions(loss, writes)),
        )

    def _facts(self, loss: Loss, begun_s: float) -> Iterator[Fact]:
        """Up to the election after the one that dropped them."""
        shown = {} if loss.cause == UNEXPLAINED else _SHOWN
        for event in self.events:
            if event.partition != loss.partition:
                continue
            if loss.dropped_by is not None and event.epoch > loss.dropped_by:
                return
            if event.kind in ("elects", "leads"):
                if event.epoch in (loss.epoch, loss.dropped_by):
                    yield event.fact("elected")
            elif event.text and event.kind in shown and event.at_s > begun_s:
                yield event.fact(shown[event.kind])

    def _enough(self, loss: Loss, writes: Sequence[Write]) -> tuple[Any, str]:
        """The value with which a leader would have waited in vain, and why. A number need not be
        above how many others may have had them, by what these lacked once another led."""
        (key, most), first = self.waits.others, min(write.position or 0 for write in writes)
        led = [e for e in self.events if e.kind == "leads" and e.epoch == loss.dropped_by][:1]
        asked = [e for e in self.events if e.kind == "asks" and led and e.at_s >= led[0].at_s]
        nodes = [event.node for event in asked]  # who asks again may have had another's
        short = [e for e in asked if nodes.count(e.node) == 1 and (e.end or 0) < first]
        own = {write.node for write in writes}
        lacked = {e.node for e in (*led, *short)} - own
        restarted = own & {e.node for e in self._between("starts", 0, float("inf"))}
        if type(most) is not int or len(lacked) < 2 or restarted:  # then positions are of two logs
            return most, "the leader that was elected never had them"
        enough = max(most + 1 - len(lacked), 1 + int(self.at(key) or 0))
        return enough, f"{' and '.join(sorted(lacked))} never had them"

    def _preventions(self, loss: Loss, writes: Sequence[Write]) -> Iterator[Prevention]:
        """What the system's semantics guarantee: that an fsync, or another server's copy, precedes
        the acknowledgement."""
        remedy = self.waits.prevents.get(loss.cause)
        if remedy is not None and self.at(remedy.key) != remedy.value:
            yield replace(remedy, writes=len(writes))
        if loss.cause == BEHIND and self.lags:
            enough, why = self._enough(loss, writes)
            value = str(enough).lower()
            yield Prevention(key=self.waits.others[0], value=value, writes=len(writes), because=why)
        if loss.cause == POWER:
            else_ = "each would have been on the disk of every server that confirmed it"
            yield from self._synced(writes, "only the power of servers was cut", else_)

    def _synced(self, writes: Sequence[Write], because: str, else_: str) -> Iterator[Prevention]:
        """By an fsync before each acknowledgement, where the plan has none."""
        key, value = self.synced
        if self.at(key) not in (None, value):
            text, number = str(value).lower(), len(writes)
            yield Prevention(key=key, value=text, writes=number, because=because, else_=else_)

    def at(self, key: str) -> Any:
        """What the plan has at a key."""
        had: Any = self.plan
        for part in key.split("."):
            had = had.get(part) if isinstance(had, Mapping) else None
        return had


# Of a leader that whatever follows it copies.


@dataclass(frozen=True)
class Promotions(Autopsy):
    """A write is gone since a server was elected that lacked it, which may have been before it was
    acknowledged by one that was replaced, or since its own server came back without it.

    A server lacks what began after it joined with nothing; what one acknowledged that was started
    again, and that it had not followed since (whose positions are of another log); and what one
    acknowledged that went on without it, and that has thrown its own away since."""

    def explanations(self) -> list[Explanation]:
        groups: dict[Loss, list[Write]] = {}
        for write in self.placed():
            groups.setdefault(self.loss(write), []).append(write)
        return [self.explanation(*each) for each in groups.items()]

    def loss(self, write: Write) -> Loss:
        """The first event, since its server leads, that left the one that leads without it."""
        confirms = self.waits.others[0]
        if write.node is None or (confirms and write.position is None):
            return Loss(UNEXPLAINED, why="no answer had the position of a write")
        own = [event for event in self.events if event.node == write.node]
        led = [e for e in own if e.kind == "leads" and e.at_s <= write.acknowledged_s]
        since_s, epoch = (led[-1].at_s, led[-1].epoch) if led else (float("-inf"), 0)
        still_leads = True
        for event in (event for event in self.events if since_s <= event.at_s < float("inf")):
            is_own, after = event.node == write.node, event.at_s > write.acknowledged_s
            late = DEPOSED if write.begun_s > event.at_s else ""
            behind = (STALE if self.at(confirms) else BEHIND) + late
            lacks = event.end is not None and event.end < max(1, write.position or 0)
            if event.kind == "leads":
                joined = self._last("joins", event.node, write.begun_s, event.at_s)
                filled = joined and self._between("fills", joined.at_s, event.at_s)
                if joined is not None and after and not filled:
                    return Loss(joined.cause, None, event.epoch)
                if not is_own and (lacks or self._apart(write, event, since_s)):
                    return Loss(behind, epoch, event.epoch)
                still_leads = is_own
            given_up = event.kind == "cut" and event.cause and is_own and after
            if given_up and (other := self._led_without(write, event.at_s)) is not None:
                return Loss(event.cause, other.epoch)
            if event.kind == "starts" and is_own and after and still_leads:
                cause = EMPTIED if lacks else self.disk(write, event)
                if lacks or (event.end is None and cause != UNDISTURBED):
                    return Loss(cause, epoch, event.epoch)
        return Loss(UNEXPLAINED, epoch, why="no log says that a leader came without them")

    def _apart(self, write: Write, election: Happened, since_s: float) -> bool:
        """Whether a server was elected that had not copied, since the write's server was started
        again, what that had: until it was elected, or, if it led already, until that threw its own
        away."""
        start = self._last("starts", write.node, since_s, write.begun_s)
        if start is None:
            return False
        cuts = self._between("cut", write.acknowledged_s, float("inf"))
        until_s = next((cut.at_s for cut in cuts if cut.node == write.node), float("inf"))
        window = (start.at_s, election.at_s)
        if election.at_s <= start.at_s:
            window = (election.at_s, until_s)
        return not self._copied(election.node, *window)

    def _led_without(self, write: Write, until_s: float) -> Happened | None:
        """The last election of a server that the write's server went on without when it
        acknowledged it, and that has copied nothing since, where all that it went on with have
        thrown theirs away. Once another is back, which may have joined both sides, it is not known
        whom it follows."""
        without = dict[str, float]()
        for event in self.events:
            if event.node == write.node and event.at_s <= write.acknowledged_s:
                if event.kind == "counts":
                    without[event.peer] = event.at_s
                elif event.kind == "returns":
                    without.clear()
        cuts = self._between("cut", write.acknowledged_s, float("inf"))
        if self.servers - without.keys() - {cut.node for cut in cuts}:
            return None
        for election in self._between("leads", float("-inf"), until_s)[::-1]:
            node, at_s = election.node, election.at_s
            if node in without and not self._copied(node, min(at_s, without[node]), until_s):
                return election
        return None

    def _copied(self, node: str, after_s: float, until_s: float) -> bool:
        return any(self._last(kind, node, after_s, until_s) for kind in ("cut", "follows"))

    def _last(self, kind: str, node: str | None, after_s: float, until_s: float) -> Happened | None:
        found = (e for e in self._between(kind, after_s, until_s) if e.node == node)
        return max(found, key=lambda event: event.at_s, default=None)

    def _preventions(self, loss: Loss, writes: Sequence[Write]) -> Iterator[Prevention]:
        """As above, and what an fsync on its own disk would have kept."""
        cause = loss.cause.removesuffix(DEPOSED)
        behind = loss._replace(cause=BEHIND if cause == STALE else cause)
        yield from () if loss.cause == POWER else super()._preventions(behind, writes)
        if loss.cause in (EMPTIED, POWER):
            else_ = "each would have been on its disk when it was acknowledged"
            yield from self._synced(writes, "their leader came back without them", else_)
