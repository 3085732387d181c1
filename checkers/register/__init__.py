"""The register checker: is every key linearizable, and how stale were its reads.

Keys are independent: a history of several registers is linearizable if and only if each of them is
(Herlihy and Wing, "Linearizability: a correctness condition for concurrent objects", ACM TOPLAS 12
(3), 1990). (Sequential consistency is not local: what is judged is each key by itself.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, Literal

import numpy as np
import pyarrow as pa

from checkers.register.answers import LINEARIZABLE, Answers, answers
from checkers.register.counterexample import CounterExample, Placed, counter_example
from checkers.register.linearization import MAX_STATES
from checkers.register.operations import (
    CAS,
    NEVER,
    NOTHING,
    READ,
    WRITE,
    Numbered,
    Operations,
    Paired,
    constraining,
    numbered,
    paired,
)
from harness.protocols import (
    DOUBTS,
    INVALID,
    UNKNOWN,
    CheckResult,
    Count,
    Number,
    OneShard,
    PrimaryFinding,
    Run,
    Statement,
)
from harness.protocols.checkers import ENDED, counted
from harness.protocols.runs import (
    FAIL,
    INFO,
    NULL,
    OK,
    Bools,
    Ints,
)

# How old the values were that reads returned.
#
# The *version* that a read returned is the write of its value, where only one `ok` or `info` write
# can have stored it (the initial value of the key counts as one that took effect before
# everything); else the age is not known: such reads are `undated`, or `unwritten` where no write
# stored the value.
#
# A version is *known* from the first completion of its `ok` write or of anything that consumed its
# value: by then it has taken effect. A write is *newer* when it was invoked after that. A read is
# *stale* when a newer `ok` write completed before the read was invoked: at that instant its value
# was overwritten, whatever the order of concurrent operations. Its age is
#
#     in versions   how many newer `ok` writes completed before it was invoked
#     in time       from the first of those completions to the invocation of the read
#
# Only what real time proves is counted, so both are lower bounds of the true age, and a key with a
# stale read is not linearizable. None of it depends on whether the key is. A write that a compare-
# and-set replaced by an equal value was not overwritten: such ones are left out.
#
# How many numbers in a stretch of an array are below a bound, for many stretches at once.
#
# A wavelet matrix (Claude, Navarro, Ordóñez, "The wavelet matrix", Information Systems 47, 2015):
# the numbers are split by their bits from the highest down, and each question walks down with them.
# One pass over columns a bit, O((n + q) log n) in all.


def counts_below(numbers: Ints, begin: Ints, end: Ints, bound: Ints) -> Ints:
    """For each question, how many of numbers[begin:end] are below its bound; none is negative."""
    left, counted = numbers, np.zeros(len(begin), np.int64)
    highest = max(int(numbers.max(initial=0)), int(bound.max(initial=0)))
    for bit in reversed(range(highest.bit_length())):
        ones = (left >> bit) & 1 != 0
        zeros = np.concatenate([[0], np.cumsum(~ones)])
        wants_one = (bound >> bit) & 1 != 0
        zeros_begin, zeros_end = zeros[begin], zeros[end]
        counted += np.where(wants_one, zeros_end - zeros_begin, 0)
        begin = np.where(wants_one, zeros[-1] + begin - zeros_begin, zeros_begin)
        end = np.where(wants_one, zeros[-1] + end - zeros_end, zeros_end)
        left = np.concatenate([left[~ones], left[ones]])
    return counted


BEFORE_ALL: Final = 0
"""The number of the instant at which initial values are known."""


@dataclass(frozen=True, kw_only=True)
class Staleness:
    """The outcome of the `ok` reads: how many there were, and how many of no known age; of the
    stale ones, their places among all operations, and their ages."""

    reads: int = 0
    undated: int = 0
    unwritten: int = 0
    row: Ints
    versions: Ints
    age_ns: Ints

    @property
    def stale(self) -> int:
        return len(self.row)


def quantile(ages: Ints, share: float) -> int | None:
    """The quantile of ages as Jepsen counts it: the sorted one at floor(share * n), the last at
    most; None of nothing."""
    if not len(ages):
        return None
    return int(np.sort(ages)[min(int(len(ages) * share), len(ages) - 1)])


def staleness(operations: Operations, *, initial: int = NULL) -> Staleness:
    """The ages of all `ok` reads."""
    keys, at = np.unique(operations.key, return_inverse=True)
    row, f = constraining(operations)
    some, key = replace(operations.take(row), f=f), at[row]
    number = numbered(some, key, len(keys), initial)
    ok, instants = some.type == OK, _Instants.of(some)
    stores = number.written != NOTHING
    writers = np.bincount(number.written[stores], minlength=number.numbers)
    writers += np.bincount(number.initial, minlength=number.numbers)
    reads = np.flatnonzero(ok & (operations.f[row] == READ))
    of = writers[number.consumed[reads]]
    dated = reads[of == 1]
    known = _known(some, number, instants)[number.consumed[dated]]
    newer = _Newer.of(key[ok & stores], instants.some(ok & stores))
    begin, end = newer.span(key[dated], known)
    first = newer.first(key[dated], begin)
    stale = first < instants.invoke[dated]
    overwritten_ns = instants.ns[first[stale]]
    return Staleness(
        reads=len(reads),
        undated=int((of > 1).sum()),
        unwritten=int((of == 0).sum()),
        row=row[dated[stale]],
        versions=counts_below(
            newer.complete, begin[stale], end[stale], instants.invoke[dated[stale]]
        ),
        age_ns=some.invoke_ns[dated[stale]] - overwritten_ns,
    )


@dataclass(frozen=True)
class _Instants:
    """Instants as small numbers in their order, which index `ns`; completions that never came, or
    say nothing, are after all."""

    invoke: Ints
    complete: Ints
    ns: Ints

    @classmethod
    def of(cls, operations: Operations) -> _Instants:
        size = len(operations)
        complete_ns = np.where(operations.type == OK, operations.complete_ns, NEVER)
        both = np.concatenate([[NULL], operations.invoke_ns, complete_ns])
        ns, rank = np.unique(both, return_inverse=True)
        return cls(rank[1 : size + 1], rank[size + 1 :], ns)

    def some(self, chosen: Bools) -> _Instants:
        return _Instants(self.invoke[chosen], self.complete[chosen], self.ns)


def _known(operations: Operations, number: Numbered, instants: _Instants) -> Ints:
    known = np.full(number.numbers, len(instants.ns))
    for values in (number.written, number.consumed):
        chosen = (values != NOTHING) & (operations.type == OK)
        np.minimum.at(known, values[chosen], instants.complete[chosen])
    known[number.initial] = BEFORE_ALL
    return known


@dataclass(frozen=True)
class _Newer:
    """The `ok` writes by key and invocation. `packed`: both in one number, of `base` to a key;
    `complete`: when each completed; `soonest`: the first completion of it and those after it, key
    and instant in one number."""

    packed: Ints
    complete: Ints
    soonest: Ints
    base: int

    @classmethod
    def of(cls, key: Ints, instants: _Instants) -> _Newer:
        base = len(instants.ns) + 1
        packed = key * base + instants.invoke
        order = np.argsort(packed, kind="stable")
        complete = instants.complete[order]
        ends = np.concatenate([key[order] * base + complete, [NEVER]])
        return cls(packed[order], complete, np.minimum.accumulate(ends[::-1])[::-1], base)

    def span(self, key: Ints, known: Ints) -> tuple[Ints, Ints]:
        """Where the writes of a key begin and end that were invoked after an instant."""
        begin = np.searchsorted(self.packed, key * self.base + known, side="right")
        return begin, np.searchsorted(self.packed, (key + 1) * self.base, side="left")

    def first(self, key: Ints, begin: Ints) -> Ints:
        """The first completion from there on in that key; after all if there is none."""
        soonest: Ints = np.minimum(self.soonest[begin] - key * self.base, self.base - 1)
        return soonest


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The answer on some keys: counts, ages, the wrong and the undecided keys, and counter-examples
    of the first wrong ones."""

    counts: Mapping[str, int]
    staleness: Staleness
    invalid: tuple[int, ...]
    undecided: tuple[int, ...]
    examples: tuple[CounterExample, ...]


def judge(
    operations: Operations,
    *,
    dated: Operations | None = None,
    consistency: str = LINEARIZABLE,
    initial: int = NULL,
    max_states: int = MAX_STATES,
    examples: int = 3,
) -> Judgement:
    """Judge some keys, each with all of its operations. `dated`: the same with the times that tell
    how old reads are, where these differ; `initial`: what registers hold at first;
    `max_states`: the budget of a key's search, beyond one configuration per operation; `examples`:
    of how many wrong keys counter-examples are made, those with the least codes."""

    def example(key: int) -> CounterExample | None:
        return counter_example(
            operations, key, consistency=consistency, initial=initial, max_states=max_states
        )

    found = answers(operations, consistency=consistency, initial=initial, max_states=max_states)
    invalid, undecided = found.of(INVALID).tolist(), found.of(UNKNOWN).tolist()
    shown = map(example, invalid[:examples])
    return Judgement(
        counts=_counts(operations, found),
        staleness=staleness(dated or operations, initial=initial),
        invalid=tuple(invalid),
        undecided=tuple(undecided),
        examples=tuple(each for each in shown if each is not None),
    )


def _counts(operations: Operations, found: Answers) -> dict[str, int]:
    """How many there are; operations of every type; keys that took a search, and what it saw."""
    return {
        "keys": len(found.keys),
        "operations": len(operations),
        "reads": int((operations.f == READ).sum()),
        "writes": int((operations.f == WRITE).sum()),
        "cas": int((operations.f == CAS).sum()),
        "invalid_keys": len(found.of(INVALID)),
        "undecided_keys": len(found.of(UNKNOWN)),
        "searched_keys": int((found.states > 0).sum()),
        "states": int(found.states.sum()),
    }


FINDINGS = pa.schema(
    [
        *((name, pa.string()) for name in ("run_id", "kind", "key", "node")),
        *((name, pa.int64()) for name in ("process", "value", "versions", "time_ns", "age_ns")),
    ]
)
"""One row a key (`kind`: not_linearizable, not_sequential or not_eventual, or undecided), and one a
stale read, with the instant at which it began and how old its value was, by versions and by time.
"""

_NAMED = 3
_FUNCTIONS, _TYPES = ("read", "write", "cas"), {OK: "ok", FAIL: "fail", INFO: "info"}
"""By their codes."""


@dataclass(frozen=True)
class Register(OneShard[Paired]):
    """Reads, writes and compare-and-set of keys, each key judged by itself (Wing and Gong's search
    with Lowe's memoization, where values do not show which write a read has seen).

    consistency   linearizable: in an order that respects real time; sequential: in one that
                  respects the order of each process; eventual: what the workload's final script
                  reads must respect real time, an earlier read may return any older value
    states_count  configurations that the search of one key may see before it gives up
    """

    plugin: ClassVar[str] = "register"
    models: ClassVar[frozenset[str]] = frozenset({"register"})
    title: ClassVar[str] = "Registers"
    primary: ClassVar[PrimaryFinding] = PrimaryFinding(
        counter_examples=("not_linearizable", "not_sequential", "not_eventual"),
        noun="inconsistent registers",
        head="inconsistent",
    )
    counts: ClassVar[tuple[Count, ...]] = (
        Count("keys", "registers", "judged one by one"),
        Count(
            "invalid_keys",
            "with a counter-example",
            "no order of their operations explains what was read",
            proves=True,
        ),
        Count("undecided_keys", "undecided", "the search gave up on them"),
        Count("operations", "operations"),
        Count("reads", "reads", "that returned a value, or that there is none"),
        Count("writes", "writes"),
        Count("cas", "compare-and-sets"),
        Count("attempted", "writes and compare-and-sets attempted"),
        *ENDED,
        Count(
            "stale_reads",
            "stale reads",
            "returned a value that real time proves to have been replaced",
            among=("reads",),
        ),
        Count("stale_versions_max", "versions behind, at most"),
        Count("stale_s_p50", "age of a stale read, median"),
        Count(
            "stale_s_max",
            "age of a stale read, at most",
            "since the value was replaced, as far as real time proves it",
        ),
        Count("unwritten_reads", "reads of a value that was never written"),
        Count("undated_reads", "reads whose age is not known"),
        Count(
            "lost", "registers lost", "a read at the end returned a value that had been replaced"
        ),
        Count(
            "unacknowledged_found", "writes without acknowledgement that were read", of="attempted"
        ),
        Count("searched_keys", "registers that needed a search"),
        Count("states", "configurations searched"),
    )
    short: ClassVar[tuple[str, ...]] = (
        *("keys", "invalid_keys", "undecided_keys", "reads", "stale_reads", "stale_s_max"),
    )

    consistency: Literal["linearizable", "sequential", "eventual"] = "linearizable"
    states_count: int = MAX_STATES

    def __post_init__(self) -> None:
        if self.states_count < 1:
            raise ValueError("states_count is at least 1")

    def gather(self, run: Run) -> Paired:
        return paired(run.operations(), file=run.facts.source)

    def judge(self, run: Run, gathered: Paired) -> CheckResult:
        operations, names = gathered.operations, gathered.keys
        final = _final(operations, run.facts.final_from_ns)
        eventual = self.consistency == EVENTUAL
        judged = partial(
            judge,
            dated=operations,
            consistency=LINEARIZABLE if eventual else self.consistency,
            max_states=self.states_count,
        )
        found, late = judged(_relaxed(operations, final) if eventual else operations), set[int]()
        if eventual and found.invalid:
            strict, found = found, judged(_changing(_relaxed(operations, final), final))
            late = {*strict.invalid} - {*found.invalid}
        ended = _ended(operations)
        kinds = [(f"not_{self.consistency}", code) for code in found.invalid]
        kinds += [(DOUBTS.undecided, code) for code in {*found.undecided, *late}]
        rows: list[dict[str, Any]] = [{"kind": kind, "key": names[code]} for kind, code in kinds]
        rows += _stale_rows(gathered, found.staleness, timed=run.facts.timed)
        rows = [{"run_id": run.facts.run_id, **row} for row in rows]
        batches = [pa.RecordBatch.from_pylist(rows, schema=FINDINGS)] if rows else []
        keys, stale = found.counts["keys"], found.staleness.row
        return CheckResult(
            counts={
                **ended,
                **found.counts,
                **_ages(found.staleness, timed=run.facts.timed),
                "lost": len(np.unique(operations.key[stale[final[stale]]])),
                "unacknowledged_found": _unacknowledged_found(operations),
            },
            findings=pa.Table.from_batches(batches, schema=FINDINGS),
            counter_examples=tuple(self._wrong(found, names)),
            doubts=(
                *_doubts(found, ended, tested=_tested(operations)),
                *(_unread(gathered, final) if eventual else ()),
                *([Statement(DOUBTS.undecided, counted(len(late), _LATE))] if late else []),
            ),
            all_well=counted(keys, f"{{n}} [key is|keys are] {_ADJECTIVE[self.consistency]}"),
            details={
                "examples": [_example(each, names, operations) for each in found.examples],
                "nodes": _by_node(gathered, final, found, timed=run.facts.timed),
            },
        )

    def _wrong(self, found: Judgement, names: tuple[str | None, ...]) -> Iterator[Statement]:
        if found.invalid:
            number = len(found.invalid)
            named = ", ".join(_name(names[code]) for code in found.invalid[:_NAMED])
            more = f" and {number - _NAMED} more" if number > _NAMED else ""
            yield Statement(
                f"not_{self.consistency}",
                counted(number, f"{{n}} of {_keys(found.counts['keys'])} [is|are] not ")
                + f"{_ADJECTIVE[self.consistency]}: {named}{more}",
            )


_ADJECTIVE = {
    "linearizable": "linearizable",
    "sequential": "sequentially consistent",
    "eventual": "as it was last written",
}
EVENTUAL: Final = "eventual"
_LATE: Final = "{n} [register|registers] may have changed while read at the end, by unknown writes"


def _final(operations: Operations, from_ns: int | None) -> Bools:
    """Which operations are reads of a final script that were ok."""
    reads: Bools = (operations.f == READ) & (operations.type == OK)
    return reads & (operations.invoke_ns >= (NEVER if from_ns is None else from_ns))


def _relaxed(operations: Operations, final: Bools) -> Operations:
    """With reads that are not final as if each had begun before everything: what it returned may be
    of any time until it ended."""
    early = (operations.f == READ) & ~final
    return replace(operations, invoke_ns=np.where(early, NULL + 1, operations.invoke_ns))


def _changing(operations: Operations, final: Bools) -> Operations:
    """With final reads of registers with an unknown write as if all had begun together: what takes
    effect as late as that is read on one node before, on another after."""
    unsure = operations.key[(operations.f != READ) & (operations.type == INFO)]
    first = operations.invoke_ns[final].min(initial=NEVER)
    late = final & np.isin(operations.key, unsure)
    return replace(operations, invoke_ns=np.where(late, first, operations.invoke_ns))


def _unread(gathered: Paired, final: Bools) -> Iterator[Statement]:
    """What the final script did not read: a register that was written, a node that had answered."""
    operations = gathered.operations
    ok = operations.type == OK
    named = gathered.node != (gathered.nodes.index(None) if None in gathered.nodes else -1)
    for what, of, some in (
        ("[register|registers]", operations.key, ok & (operations.f != READ)),
        ("[node|nodes]", gathered.node, ok & named),
    ):
        if unread := len(np.setdiff1d(of[some], of[final])):
            yield Statement(
                DOUBTS.incomplete, counted(unread, f"{{n}} {what} [was|were] not read at the end")
            )


def _stale_rows(gathered: Paired, stale: Staleness, *, timed: bool) -> Iterator[dict[str, Any]]:
    """Each stale read, in the order of the operations."""
    done = gathered.operations
    for row, versions, age_ns in zip(
        *map(np.ndarray.tolist, (stale.row, stale.versions, stale.age_ns)), strict=True
    ):
        yield {
            "kind": "stale_reads",
            "key": gathered.keys[done.key[row]],
            "node": gathered.nodes[gathered.node[row]],
            "process": int(done.process[row]),
            "value": _or_none(int(done.value[row])),
            "versions": versions,
            "time_ns": int(done.invoke_ns[row]) if timed else None,
            "age_ns": age_ns if timed else None,
        }


def _unacknowledged_found(operations: Operations) -> int:
    """How many values were read that only writes without acknowledgement have stored."""
    keys, at = np.unique(operations.key, return_inverse=True)
    number = numbered(operations, at, len(keys), NULL)
    stores, ok = number.written != NOTHING, operations.type == OK
    read = number.consumed[ok & (operations.f == READ)]
    unsure = number.written[stores & ~ok & (operations.value != NULL)]
    return len(np.setdiff1d(np.intersect1d(unsure, read), number.written[stores & ok]))


def _by_node(
    gathered: Paired, final: Bools, found: Judgement, *, timed: bool
) -> list[dict[str, Any]]:
    """The reads that each node served, and how old they were."""
    operations, stale = gathered.operations, found.staleness
    reads = (operations.f == READ) & (operations.type == OK)
    rows = []
    for code, name in enumerate(gathered.nodes):
        served, old = reads & (gathered.node == code), gathered.node[stale.row] == code
        if name is not None and served.any():
            ages_ns = stale.age_ns[old] if timed else stale.age_ns[:0]
            rows.append(
                {
                    "node": name,
                    "reads": int(served.sum()),
                    "final_reads": int((served & final).sum()),
                    "stale": int(old.sum()),
                    "stale_s_p50": _seconds(quantile(ages_ns, 0.5)),
                    "stale_s_max": _seconds(quantile(ages_ns, 1)),
                }
            )
    return sorted(rows, key=lambda row: str(row["node"]))


def _doubts(found: Judgement, ended: dict[str, int], *, tested: bool) -> Iterator[Statement]:
    if not found.counts["operations"]:
        yield Statement(DOUBTS.vacuous, "nothing was attempted")
    elif not ended["acknowledged"] and not found.staleness.reads:
        words = "none of {n} [operation|operations] was ok"
        yield Statement(DOUBTS.vacuous, counted(found.counts["operations"], words))
    elif not ended["acknowledged"]:
        yield Statement(DOUBTS.vacuous, "no write was acknowledged")
    elif not found.staleness.reads:
        yield Statement(DOUBTS.vacuous, "nothing was read")
    elif not tested:
        yield Statement(DOUBTS.vacuous, "no key was read after a write of it had been acknowledged")
    if found.undecided:
        yield Statement(
            DOUBTS.undecided,
            f"the search gave up on {len(found.undecided):,} of {_keys(found.counts['keys'])}",
        )


def _tested(operations: Operations) -> bool:
    """Whether an `ok` read or compare-and-set began after a write of its key had been acknowledged:
    only such a one must show something."""
    ok = operations.type == OK
    writes, observes = ok & (operations.f != READ), ok & (operations.f != WRITE)
    first_ns = np.full(operations.key.max(initial=-1) + 1, NEVER)
    np.minimum.at(first_ns, operations.key[writes], operations.complete_ns[writes])
    after = operations.invoke_ns > first_ns[operations.key]
    return bool((observes & after).any())


def _ended(operations: Operations) -> dict[str, int]:
    """How writes and compare-and-sets ended."""
    ended = operations.type[operations.f != READ]
    return {
        "attempted": len(ended),
        "acknowledged": int((ended == OK).sum()),
        "failed": int((ended == FAIL).sum()),
        "unknown": int((ended == INFO).sum()),
    }


def _ages(stale: Staleness, *, timed: bool) -> dict[str, Number]:
    """How many reads were stale, and the age of the oldest and the median one, if rows have
    times."""
    age_ns = stale.age_ns if timed else stale.age_ns[:0]
    median_ns, oldest_ns = quantile(age_ns, 0.5), quantile(age_ns, 1)
    return {
        "stale_reads": stale.stale,
        "undated_reads": stale.undated,
        "unwritten_reads": stale.unwritten,
        "stale_versions_max": quantile(stale.versions, 1),
        "stale_s_p50": _seconds(median_ns),
        "stale_s_max": _seconds(oldest_ns),
    }


def _seconds(age_ns: int | None) -> float | None:
    return None if age_ns is None else age_ns / 1e9


def _keys(number: int) -> str:
    return counted(number, "{n} [key|keys]")


def _name(key: str | None) -> str:
    return "the register" if key is None else repr(key)


def _example(
    example: CounterExample, names: tuple[str | None, ...], operations: Operations
) -> dict[str, Any]:
    """A counter-example as JSON, for the page that draws it; with the times of these operations."""
    return {
        "key": names[example.key],
        "consistency": example.consistency,
        "minimal": example.minimal,
        "any_start": example.any_start,
        "start": _or_none(example.start),
        "register": _or_none(example.register),
        "stuck": example.stuck,
        "operations": [
            {**_placed(each), "invoke_ns": int(operations.invoke_ns[each.row])}
            for each in example.operations
        ],
    }


def _placed(each: Placed) -> dict[str, Any]:
    done = each.operation
    return {
        "row": each.row,
        "process": done.process,
        "f": _FUNCTIONS[done.f],
        "type": _TYPES[done.type],
        "value": _or_none(done.value),
        "expected": _or_none(done.expected),
        "invoke_ns": done.invoke_ns,
        "complete_ns": None if done.complete_ns == NEVER else done.complete_ns,
        "pending": each.pending,
        "place": each.place,
        "register": None if each.register is None else _or_none(each.register),
    }


def _or_none(value: int) -> int | None:
    return None if value == NULL else value
