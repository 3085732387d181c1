"""The checkers of transactions of reads and appends, or reads and writes, by Elle's definitions.

Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 14
(3), 2020. `history` has what single reads prove, `dependencies` the cycles of transactions and the
consistency models that each anomaly rules out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa

from checkers.elle.dependencies import (
    LEVELS,
    Model,
    cycles_of,
    edges_of,
    in_words,
    ruled_out,
    weakest,
)
from checkers.elle.history import Found, History, anomalies_of, facts_of, history_of, versions_of
from checkers.graphs import ABSENT, NAMES, PROCESS, RT, WR, WW, Cycle, Step, named
from harness.models import LIST_APPEND, RW_REGISTER
from harness.models.micro_ops import APPEND, READ
from harness.protocols import (
    DOUBTS,
    NULL,
    CheckResult,
    Count,
    OneShard,
    PrimaryFinding,
    Run,
    Statement,
)
from harness.protocols.checkers import counter_examples, findings_table
from harness.protocols.runs import FAIL, OK


class Judged(NamedTuple):
    """What a history shows: its transactions by how they ended, reads of ok ones, and how many
    anomalies there are of each kind; and those that are shown."""

    counts: dict[str, int]
    examples: tuple[dict[str, Any], ...]
    table: pa.Table


_ALONE: Final = (
    ("duplicate-elements", "elements that a read of a list returned twice"),
    ("unexpected", "values that were read and never written"),
    ("incompatible-order", "reads of lists that are not a prefix of the longest read of their key"),
    ("dirty-update", "elements of failed transactions below those of committed ones"),
    ("G1a", "reads of what a failed transaction wrote"),
    ("G1b", "reads of what a transaction wrote before its last write to the key"),
    ("future-read", "reads of what their own transaction appended after them"),
    ("internal", "reads that contradict what their own transaction did before"),
    ("lost-update", "transactions that wrote a key of which they and another one read one version"),
)
_CYCLES: Final = (
    ("G0", "cycles of writes"),
    ("G1c", "cycles of writes and reads of them"),
    ("G-single", "cycles with one read of a version that the next transaction overwrote"),
    ("G-nonadjacent", "cycles with several reads of overwritten versions, no two in a row"),
    ("G2-item", "cycles with reads of overwritten versions, two of them in a row"),
)
_WITH: Final = {"": "", "-process": ", and the order of processes", "-realtime": ", and real time"}
_EACH_ONCE: Final = frozenset({"incompatible-order", "G1b", "internal"})
"""Those that a read has at most once: they have a share of all reads."""
_WRONG: Final = tuple(
    Count(name, name, meaning, among=("reads",) if name in _EACH_ONCE else ())
    for name, meaning in (
        *_ALONE,
        *((kind + level, of + _WITH[level]) for level, _ in LEVELS for kind, of in _CYCLES),
    )
)
"""The anomalies: those that rule out most first."""
_NAMED: Final = tuple(replace(each, meaning=f"{each.meaning} ({each.name})") for each in _WRONG)
_TABLE: Final = 100
"""Findings of a kind in the table."""
_TAIL: Final = 3
"""Elements of a list that a drawing shows, the last ones."""


@dataclass(frozen=True)
class _Elle(OneShard[Judged]):
    title: ClassVar[str] = "Transactions"
    primary: ClassVar[PrimaryFinding] = PrimaryFinding(
        counter_examples=tuple(each.name for each in _WRONG), noun="anomalies", head="anomalies"
    )
    lists: ClassVar[bool]
    counts: ClassVar[tuple[Count, ...]] = (
        Count("attempted", "transactions"),
        Count("acknowledged", "committed"),
        Count("failed", "failed"),
        Count("unknown", "of unknown outcome"),
        Count("reads", "reads", "reads of transactions that committed"),
        *_WRONG,
    )
    short: ClassVar[tuple[str, ...]] = (
        *("acknowledged", "reads", "lost-update", "G1c", "G-single", "G2-item"),
    )

    consistency: Model = "strict-serializable"

    def gather(self, run: Run) -> Judged:
        file = run.facts.source
        history = history_of(run.operations(), lists=self.lists, file=file)
        versions = versions_of(history, file=file)
        facts = facts_of(history, versions)
        found = tuple(anomalies_of(history, versions, facts))
        cycles = cycles_of(edges_of(history, versions, facts), history.ops)
        page = _Page(history, run.facts.texts)
        shown = [page.cycle(each) for each in cycles.shown]
        shown += [page.pair(each) for each in found if len(each.op)]
        numbers = {each.kind: len(each.op) for each in found} | cycles.numbers
        mark = history.ops.mark
        counts = {
            "attempted": len(mark),
            "acknowledged": int((mark == OK).sum()),
            "failed": int((mark == FAIL).sum()),
            "unknown": int(((mark != OK) & (mark != FAIL)).sum()),
            "reads": int((history.steps.size != ABSENT).sum()),
            **{each.name: numbers.get(each.name, 0) for each in _WRONG},
        }
        return Judged(counts, tuple(shown), page.table(found, run.facts.run_id))

    def judge(self, run: Run, judged: Judged) -> CheckResult:
        counts = judged.counts
        there = [each.name for each in _WRONG if counts[each.name]]
        errors = [kind for kind in there if self.consistency in ruled_out([kind])]
        shares = {name: counts[name] for name in ("reads", *errors)}
        return CheckResult(
            counts=counts,
            findings=judged.table,
            counter_examples=counter_examples(_NAMED, shares),
            doubts=tuple(self._doubts(counts)),
            all_well=f"{counts['acknowledged']:,} committed transactions contradict "
            f"{self.consistency.replace('-', ' ')} nowhere",
            details={
                "error_types": there,
                "tolerated": [kind for kind in there if kind not in errors],
                "consistency": self.consistency,
                "not": weakest(ruled_out(there)),
                "ruled_out": in_words(there),
                "examples": list(judged.examples) if run.facts.timed else [],
            },
        )

    def _doubts(self, counts: dict[str, int]) -> Iterator[Statement]:
        if not counts["acknowledged"]:
            yield Statement(DOUBTS.vacuous, "no transaction committed")
        elif not counts["reads"]:
            yield Statement(DOUBTS.vacuous, "no transaction that committed read anything")


class _Page:
    """Anomalies in words, with transactions as they are drawn."""

    def __init__(self, history: History, texts: Sequence[str]) -> None:
        self._history, self._texts = history, texts

    def _text(self, number: int) -> str:
        return named(number, self._texts)

    def _operation(self, op: int, name: str, keys: set[int]) -> dict[str, Any]:
        """A transaction with its steps on these keys."""
        ops, steps = self._history.ops, self._history.steps
        ended = int(ops.ended_ns[op])
        own = range(*np.searchsorted(steps.op, (op, op + 1)).tolist())
        did = [self._step(step) for step in own if self._history.keys[steps.key[step]] in keys]
        return {
            "row": int(ops.place[op]),
            "process": int(ops.process[op]),
            "type": {OK: "ok", FAIL: "fail"}.get(int(ops.mark[op]), "info"),
            "invoke_ns": int(ops.begun_ns[op]),
            "complete_ns": None if ended == NULL else ended,
            "text": f"{name}: {', '.join(did)}",
        }

    def _step(self, step: int) -> str:
        steps = self._history.steps
        key, kind, size = (int(c[step]) for c in (steps.key, steps.kind, steps.size))
        name = self._text(int(self._history.keys[key]))
        if kind != READ:
            does = "append" if kind == APPEND else "write"
            return f"{does} {self._text(int(steps.value[step]))} to {name}"
        return f"read {name}" if size == ABSENT else f"read {name} = {self._held(step)}"

    def _held(self, step: int) -> str:
        steps, size = self._history.steps, int(self._history.steps.size[step])
        if size and not self._history.lists:
            return self._text(int(steps.value[step]))
        if not size:
            return "[]" if self._history.lists else "nothing"
        tail = self._history.listed(step)[-_TAIL:].tolist()
        return f"[{'… ' if size > _TAIL else ''}{' '.join(map(self._text, tail))}]"

    def cycle(self, cycle: Cycle) -> dict[str, Any]:
        """A cycle: its transactions, and why each comes before the next."""
        ops = self._history.ops
        members = list(dict.fromkeys(step.source for step in cycle.steps))
        members.sort(key=lambda op: int(ops.begun[op]))
        names = {op: f"T{place}" for place, op in enumerate(members, 1)}
        keys = {step.key for step in cycle.steps}
        why = [self._why(step, names) for step in cycle.steps]
        more = f" of {cycle.size:,} transactions" if cycle.size > len(members) else ""
        return {
            "kind": cycle.kind,
            "stuck": int(ops.place[cycle.steps[-1].source]),
            "minimal": cycle.exact,
            "words": f"{'; '.join(why)}: a cycle{more} ({in_words([cycle.kind])})",
            "operations": [self._operation(op, names[op], keys) for op in members],
            "steps": [
                {
                    "from": int(ops.place[step.source]),
                    "to": int(ops.place[step.target]),
                    "type": NAMES[step.kind],
                    "why": text,
                }
                for step, text in zip(cycle.steps, why, strict=True)
            ],
        }

    def _why(self, step: Step, names: dict[int, str]) -> str:
        one, other = names[step.source], names[step.target]
        if step.kind == RT:
            return f"{one} had completed before {other} began"
        if step.kind == PROCESS:
            return f"{one} came before {other} in their process"
        key, does = self._text(step.key), "appended" if self._history.lists else "wrote"
        value, then = (None if n == NULL else self._text(n) for n in (step.value, step.next))
        if step.kind == WW:
            return f"{one} {does} {value} to key {key}, and after that {other} {does} {then}"
        if step.kind == WR:
            return f"{one} {does} {value} to key {key}, and {other} read it"
        seen = "without a value" if value is None else f"up to {value}"
        return f"{one} read key {key} {seen}, and {other} {does} {then} after that"

    def pair(self, found: Found) -> dict[str, Any]:
        """The first anomaly of a kind without a cycle."""
        ops = self._history.ops
        key, value, op, other = (int(column[0]) for column in found[1:])
        number = int(self._history.keys[key])
        members = [each for each in (other, op) if each != ABSENT]
        names = {each: f"T{place}" for place, each in enumerate(members, 1)}
        meaning = dict(_ALONE)[found.kind]
        of = f", {self._text(value)}" if value != NULL else ""
        return {
            "kind": found.kind,
            "stuck": int(ops.place[op]),
            "words": f"{names[op]}, key {self._text(number)}{of}: one of {len(found.op):,} "
            f"{meaning} ({in_words([found.kind])})",
            "operations": [self._operation(each, names[each], {number}) for each in members],
        }

    def table(self, found: Sequence[Found], run_id: str) -> pa.Table:
        """The first anomalies of each kind without a cycle."""
        ops, keys = self._history.ops, self._history.keys
        rows = [
            _Row(
                *(each.kind, self._text(int(keys[key]))),
                None if value == NULL else self._text(value),
                *(int(ops.process[op]), int(ops.place[op])),
                None if other == ABSENT else int(ops.place[other]),
            )
            for each in found
            for key, value, op, other in zip(*(c[:_TABLE].tolist() for c in each[1:]), strict=True)
        ]
        return findings_table(_Row, rows, run_id=run_id)


class _Row(NamedTuple):
    kind: str | None
    key: str | None
    value: str | None
    process: int | None
    row: int | None
    other: int | None


@dataclass(frozen=True)
class ListAppendChecker(_Elle):
    """Transactions that append to lists and read them: anomalies by Adya's and Elle's names, and
    the consistency models that they rule out.

    consistency  the model that is promised: an anomaly that it forbids is a counter-example, others
                 are counted and shown
    """

    plugin: ClassVar[str] = "list-append"
    models: ClassVar[frozenset[str]] = frozenset({LIST_APPEND.name})
    lists: ClassVar[bool] = True


@dataclass(frozen=True)
class RwRegisterChecker(_Elle):
    """Transactions that write registers and read them: anomalies by Adya's and Elle's names, and
    the consistency models that they rule out.

    consistency  the model that is promised: an anomaly that it forbids is a counter-example, others
                 are counted and shown
    """

    plugin: ClassVar[str] = "rw-register"
    models: ClassVar[frozenset[str]] = frozenset({RW_REGISTER.name})
    lists: ClassVar[bool] = False
