"""The quorum checker: whether the voters that elect the controller kept Raft's promises.

It judges what every node left of the quorum at the end of a run (`harness.history.quorum`), and
what controllers answered meanwhile:

    two_leaders      an epoch with two leaders
    voted_twice      a voter that voted for two candidates in one epoch, also over a restart
    unfit_leader     a leader whose epoch begins below an offset that was committed before
    epoch_back       a voter whose epoch went back, or a log whose epochs do
    diverged         two logs that differ below what both have stated as committed, or in what the
                     same leader wrote
    committed_cut    a log that was truncated below what its node knew as committed; the tail of an
                     old leader was acknowledged, then
    committed_early  a leader that stated a high watermark before a record of its own epoch was
                     committed

What is committed is what high watermarks say: that of a leader is in the log of every later one. A
node whose log has a tail that a later leader overwrote is behind, which is a doubt. So is a voter
whose evidence is missing or damaged, or whose log ends below what was committed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.errors import HistoryError
from harness.history.quorum import QuorumBatch, QuorumMember, QuorumState, quorum_of, voters_of
from harness.history.run_folder import RunDir
from harness.models import MODELS
from harness.protocols import DOUBTS, CheckResult, Count, OneShard, PrimaryFinding, Run, Statement
from harness.protocols.checkers import counter_examples, findings_table
from harness.protocols.runs import INVOKED, OK

_WRONG: Final = (
    Count("two_leaders", "two leaders", "epochs with two leaders"),
    Count("voted_twice", "voted twice", "epochs in which a voter voted for two candidates"),
    Count("unfit_leader", "unfit leaders", "leaders that lacked committed records"),
    Count("epoch_back", "epochs back", "times that the epoch of a voter or in a log went back"),
    Count("diverged", "diverged", "logs that differ where they must be equal"),
    Count("committed_cut", "committed, cut", "truncations of what was committed"),
    Count(
        "committed_early",
        "committed early",
        "leaders that stated a high watermark before their own epoch's first record was committed",
    ),
)
_COLUMNS: Final = ["time_ns", "answered_by", "controller", "controller_epoch"]


class Found(NamedTuple):
    """One violation: `kind` is a count above, `what` a sentence."""

    kind: str
    epoch: int
    node: str | None
    offset: int | None
    what: str


class Answer(NamedTuple):
    """Who leads in which epoch, as a node answered."""

    node: str
    leader: str
    epoch: int


@dataclass
class Left:
    """What a run left: the operations that were begun and ended ok, the members by node, what
    controllers answered, and what is missing."""

    marks: Counter[int] = field(default_factory=Counter)
    members: Mapping[str, QuorumMember] = field(default_factory=dict)
    answers: Sequence[Answer] = ()
    voters: Sequence[str] = ()
    missing: list[str] = field(default_factory=list)

    @property
    def names(self) -> dict[int, str]:
        """The nodes by number."""
        return {member.number: member.node for member in self.members.values()}

    def name(self, number: int) -> str:
        """The node with this number."""
        return self.names.get(number, str(number))


@dataclass(frozen=True)
class Quorum(OneShard[Left]):
    """Epochs with two leaders, votes that were forgotten, leaders that lacked committed records,
    epochs that went back, logs of voters that differ, and committed records that were truncated."""

    plugin: ClassVar[str] = "quorum"
    models: ClassVar[frozenset[str]] = frozenset(MODELS)
    title: ClassVar[str] = "Quorum"
    primary: ClassVar[PrimaryFinding] = PrimaryFinding(
        counter_examples=tuple(each.name for each in _WRONG),
        noun="broken promises of a quorum",
        head="quorum broken",
    )
    counts: ClassVar[tuple[Count, ...]] = (
        Count("attempted", "operations attempted"),
        Count("acknowledged", "answered ok"),
        Count("members", "nodes read"),
        Count("leaders", "leaders elected"),
        Count("votes", "votes"),
        Count("batches", "batches compared"),
        Count("watermarks", "high watermarks stated"),
        Count("cuts", "truncations"),
        *_WRONG,
    )
    short: ClassVar[tuple[str, ...]] = ("leaders", "votes", *(each.name for each in _WRONG))

    def gather(self, run: Run) -> Left:
        left = Left()
        for rows in run.operations():
            marks, numbers = np.unique(rows.mark, return_counts=True)
            left.marks.update(dict(zip(marks.tolist(), numbers.tolist(), strict=True)))
        if run.facts.folder is None:
            left.missing.append("a history from outside has no evidence of a quorum")
            return left
        rundir = RunDir(run.facts.folder)
        left.voters = voters_of(rundir)
        try:
            left.members = quorum_of(rundir)
            left.answers = _answers(rundir)
        except HistoryError as error:
            left.missing.append(str(error))
        return left

    def judge(self, run: Run, left: Left) -> CheckResult:
        found = [
            *_two_leaders(left),
            *_voted_twice(left),
            *_unfit(left),
            *_back(left),
            *_diverged(left),
            *_cut(left),
            *_early(left),
        ]
        logged = [state for member in left.members.values() for state in member.logged]
        counts = {
            "attempted": left.marks[INVOKED],
            "acknowledged": left.marks[OK],
            "members": len(left.members),
            "leaders": len(_leaders(left)),
            "votes": len({*_votes(left)}),
            "batches": sum(len(rest) for _, rest in _at_same_offset(left)),
            "watermarks": sum(state.committed is not None for state in logged),
            "cuts": sum(state.cut is not None for state in logged),
            **{each.name: sum(one.kind == each.name for one in found) for each in _WRONG},
        }
        return CheckResult(
            counts=counts,
            findings=findings_table(Found, found, run_id=run.facts.run_id),
            counter_examples=tuple(
                Statement(name, f"{sentence}; first: {_first(found, name)}")
                for name, sentence in counter_examples(_WRONG, counts)
            ),
            doubts=tuple(_doubts(left, counts)),
            all_well=(
                f"{counts['leaders']:,} epochs had one leader each, {counts['votes']:,} votes were "
                f"kept, and {counts['batches']:,} batches are equal on {len(left.members)} nodes"
            ),
        )


def _first(found: Sequence[Found], kind: str) -> str:
    return next(one.what for one in found if one.kind == kind)


def _answers(rundir: RunDir) -> list[Answer]:
    """What the observer heard of who is active, in its order. Raises HistoryError."""
    answers: list[tuple[int, Answer]] = []
    for part in rundir.parts(rundir.observations):
        try:
            rows = pq.read_table(part, columns=_COLUMNS).to_pylist()
        except (OSError, KeyError, pa.ArrowException) as error:
            raise HistoryError(f"cannot be read: {error}", file=str(part)) from error
        answers += [
            (row["time_ns"], Answer(row["answered_by"], row["controller"], row["controller_epoch"]))
            for row in rows
            if row["controller"] is not None and row["controller_epoch"] is not None
        ]
    return [answer for _, answer in sorted(answers, key=lambda pair: pair[0])]


# Who leads.


def _leaders(left: Left) -> dict[int, dict[int, str]]:
    """By epoch the numbers of its leaders, each with the first that names it. Answers name nodes:
    those of a node that left nothing are not counted, as its number is not known."""
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for member in left.members.values():
        for batch in member.log:
            if batch.leader is not None:
                found[batch.epoch].setdefault(batch.leader, f"the log of {member.node}")
        for state in _states(member):
            if state.leader is not None:
                found[state.epoch].setdefault(state.leader, f"{member.node} ({state.name})")
    for answer in left.answers:
        if (leader := left.members.get(answer.leader)) is not None:
            found[answer.epoch].setdefault(leader.number, f"an answer of {answer.node}")
    return found


def _states(member: QuorumMember) -> tuple[QuorumState, ...]:
    """All that a node has logged, then what it has stored."""
    return (*member.logged, *([member.stored] if member.stored else []))


def _two_leaders(left: Left) -> Iterator[Found]:
    for epoch, leaders in sorted(_leaders(left).items()):
        if len(leaders) > 1:
            who = ", ".join(f"{left.name(each)} by {by}" for each, by in leaders.items())
            yield Found("two_leaders", epoch, None, None, f"epoch {epoch} is led by {who}")


def _votes(left: Left) -> Iterator[tuple[str, int, int]]:
    """Voter, epoch and candidate of each vote."""
    for member in left.members.values():
        for state in _states(member):
            if state.voted is not None:
                yield member.node, state.epoch, state.voted


def _voted_twice(left: Left) -> Iterator[Found]:
    by_epoch: dict[tuple[str, int], dict[int, None]] = defaultdict(dict)
    for node, epoch, candidate in _votes(left):
        by_epoch[node, epoch][candidate] = None
    for (node, epoch), candidates in by_epoch.items():
        if len(candidates) > 1:
            who = " and ".join(map(left.name, candidates))
            yield Found("voted_twice", epoch, node, None, f"{node} voted for {who} in {epoch}")


def _back(left: Left) -> Iterator[Found]:
    """A replica that begins without being a voter has promised nothing yet."""
    for member in left.members.values():
        highest = -1
        for state in _states(member) if member.voter else ():
            if state.epoch < highest and state.voter is not False:
                what = f"{member.node} went from epoch {highest} to {state.epoch}"
                yield Found("epoch_back", state.epoch, member.node, None, what)
            highest = state.epoch
        for before, batch in pairwise(member.log):
            if batch.epoch < before.epoch:
                what = f"epoch {batch.epoch} follows {before.epoch} in the log of {member.node}"
                yield Found("epoch_back", batch.epoch, member.node, batch.first, what)
    known: dict[str, int] = {}
    for answer in left.answers:
        if answer.epoch < (last := known.get(answer.node, -1)):
            what = f"{answer.node} answered epoch {last}, then {answer.epoch}"
            yield Found("epoch_back", answer.epoch, answer.node, None, what)
        known[answer.node] = answer.epoch


# What is committed.


class Mark(NamedTuple):
    """A high watermark that a node stated in an epoch."""

    epoch: int
    offset: int
    node: str


def _marks(left: Left) -> list[Mark]:
    return [
        Mark(state.epoch, state.committed, member.node)
        for member in left.members.values()
        for state in member.logged
        if state.committed is not None
    ]


def _unfit(left: Left) -> Iterator[Found]:
    """The log of a leader has what was committed in the epochs before."""
    marks, begun = _marks(left), dict[tuple[int, int], str]()
    for member in left.members.values():
        for batch in member.log:
            if batch.leader is not None:
                begun[batch.epoch, batch.first] = left.name(batch.leader)
        for state in member.logged:
            if state.start is not None and state.leader is not None:
                begun[state.epoch, state.start] = left.name(state.leader)
    for (epoch, start), leader in sorted(begun.items()):
        before = max((m for m in marks if m.epoch < epoch), key=lambda m: m.offset, default=None)
        if before is not None and before.offset > start:
            what = (
                f"{leader} began epoch {epoch} at offset {start:,}, and {before.offset:,} were "
                f"committed in epoch {before.epoch}, as {before.node} states"
            )
            yield Found("unfit_leader", epoch, leader, start, what)


def _cut(left: Left) -> Iterator[Found]:
    """A node that led knows all that was committed up to its own epoch, any other what it stated
    itself."""
    marks = _marks(left)
    for member in left.members.values():
        known = 0
        for state in member.logged:
            if state.name == "Leader":
                before = (mark.offset for mark in marks if mark.epoch <= state.epoch)
                known = max(known, *before, 0)
            known = max(known, state.committed or 0)
            if state.cut is not None and state.cut < known:
                what = (
                    f"{member.node} truncated its log to {state.cut:,} in epoch {state.epoch}, and "
                    f"{known:,} were committed"
                )
                yield Found("committed_cut", state.epoch, member.node, state.cut, what)


def _early(left: Left) -> Iterator[Found]:
    for member in left.members.values():
        for state in member.logged:
            start, committed = state.start, state.committed
            if state.name != "Leader" or start is None or committed is None or committed > start:
                continue
            what = (
                f"{member.node} stated {committed:,} in epoch {state.epoch}, which begins "
                f"at {start:,}"
            )
            yield Found("committed_early", state.epoch, member.node, committed, what)


Placed = tuple[QuorumMember, QuorumBatch]


def _at_same_offset(left: Left) -> Iterator[tuple[Placed, list[Placed]]]:
    """The batches of each first offset: that of the first log, and those of the others."""
    by_offset: dict[int, list[Placed]] = defaultdict(list)
    for member in left.members.values():
        for batch in member.log:
            by_offset[batch.first].append((member, batch))
    for _, (first, *rest) in sorted(by_offset.items()):
        yield first, rest


def _committed_on(member: QuorumMember) -> int:
    """Below which offset a node has stated that all is committed."""
    return max((state.committed or 0 for state in member.logged), default=0)


def _differing(left: Left) -> Iterator[tuple[Placed, Placed]]:
    for first, rest in _at_same_offset(left):
        yield from ((first, other) for other in rest if other[1] != first[1])


def _diverged(left: Left) -> Iterator[Found]:
    """The first difference of each pair of logs."""
    seen: set[tuple[str, str]] = set()
    for (one, batch), (other, its) in _differing(left):
        both = min(_committed_on(one), _committed_on(other))
        if (batch.epoch == its.epoch or batch.first < both) and (one.node, other.node) not in seen:
            seen.add((one.node, other.node))
            what = (
                f"{one.node} and {other.node} differ at offset {batch.first:,} "
                f"(epochs {batch.epoch} and {its.epoch})"
            )
            yield Found("diverged", its.epoch, other.node, batch.first, what)


# What keeps it from an answer.


def _doubts(left: Left, counts: Mapping[str, int]) -> Iterator[Statement]:
    missing = list(left.missing)
    missing += [
        f"{name} left no evidence of the quorum" for name in left.voters if name not in left.members
    ]
    missing += [f"{each.node}: {why}" for each in left.members.values() for why in each.missing]
    missing += _lost_logs(left)
    committed = max((mark.offset for mark in _marks(left)), default=0)
    for each in left.members.values():
        if each.voter and each.log and each.log_end < committed:
            missing.append(
                f"the log of {each.node} ends at {each.log_end:,}, and {committed:,} were committed"
            )
    if not left.voters and not missing:
        yield Statement(DOUBTS.vacuous, "no node of this run is a voter of a quorum")
    elif missing:
        more = f", and {len(missing) - 1} more like it" if len(missing) > 1 else ""
        yield Statement(DOUBTS.incomplete, missing[0] + more)
    elif tails := {other.node for (_, batch), (other, its) in _differing(left)}:
        behind = f"logs have a tail that was not truncated: {', '.join(sorted(tails))} and others"
        yield Statement(DOUBTS.incomplete, behind)
    for name, what in (
        ("leaders", "no epoch with a leader was seen"),
        ("votes", "no vote was seen"),
        ("watermarks", "no high watermark was stated"),
        ("batches", "no two logs have an offset in common"),
    ):
        if left.voters and not counts[name]:
            yield Statement(DOUBTS.vacuous, what)


def _lost_logs(left: Left) -> Iterator[str]:
    """Voters that logged less than they had stored, as after a power loss: their votes of some
    epochs are not known."""
    for member in left.members.values():
        last = 0
        for state in _states(member) if member.voter else ():
            if (state.restored or state is member.stored) and state.epoch > last and last:
                yield f"the log of {member.node} ends in epoch {last}, and it stored {state.epoch}"
            last = state.epoch
