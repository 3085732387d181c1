"""The queue checker: what was put into a queue comes out of it, and nothing else does.

Its counts are those of Jepsen's `total-queue`, over multisets of values; two of its verdicts are
stricter, and one is more careful:

- an enqueue that failed and whose value comes out is a counter-example: Jepsen counts it as
  recovered;
- a value that comes out before its enqueue began is one;
- **missing is not lost.** An acknowledged value that never came out is lost only if the queue was
  drained afterwards: a `drain` was `ok` that began after every acknowledgement. And each dequeue
  whose outcome is unknown may have removed one element that no client knows, at any time; a drain
  whose outcome is unknown any number of them. So of M missing elements M - U are surely lost after
  U unknown dequeues, nobody knows which, and none after an unknown drain.

A client that acknowledges an element only when it has it leaves no dequeue unknown: without its
acknowledgement the element stays in the queue, so the dequeue is `fail`; with it, the value is
known, and the dequeue `ok`. What is redelivered then is `duplicated`: queues promise at least once.

https://github.com/jepsen-io/jepsen/blob/main/jepsen/src/jepsen/checker.clj (total-queue)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from harness.history.parquet_writer import numbers, strings
from harness.protocols import DOUBTS, CheckResult, Count, OneShard, PrimaryFinding, Run, Statement
from harness.protocols.checkers import ENDED, counted, counter_examples, rates
from harness.protocols.runs import FAIL, INFO, INVOKED, NULL, OK, Bools, Ints, Operations

FINDINGS: Final = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("value", pa.int64(), nullable=False),
        pa.field("copies", pa.int64(), nullable=False),
        pa.field("invoke_ns", pa.int64()),
        pa.field("complete_ns", pa.int64()),
    ]
)
"""`kind`: a count of the checker, or `missing`: one of those of which some are lost. `copies`: how
often. `invoke_ns` and `complete_ns` are of the first enqueue, and of the last acknowledged one."""

_LISTED: Final = 100_000


@dataclass
class History:
    """The rows of a queue's operations. Each row of `rows` is value, mark, place and time: of
    enqueues the mark of the row, of what came out READ."""

    rows: list[Ints] = field(default_factory=list)
    unknown_dequeues: int = 0
    unknown_drains: int = 0
    drains: list[tuple[int, int]] = field(default_factory=list)
    open: dict[int, tuple[bool, int]] = field(default_factory=dict)

    def take(self, part: Operations, file: str) -> None:
        """Take a part of the history."""
        enqueues = part.f.isin(["enqueue"])
        self.rows.append(_rows(part, enqueues, part.value, part.mark))
        is_drain = part.f.isin(["drain"])
        taken = ~enqueues & ~is_drain & (part.mark == OK) & (part.result != NULL)
        self.rows.append(_rows(part, taken, part.result, _OUT))
        for row in np.flatnonzero(~enqueues).tolist():
            process, mark, place = (int(c[row]) for c in (part.process, part.mark, part.place))
            drain, began = bool(is_drain[row]), self.open.pop(process, (False, place))[1]
            if mark == INVOKED:
                self.open[process] = drain, place
            elif mark == INFO:
                self._unknown(drain=drain)
            elif mark == OK and drain:
                self.drains.append((began, place))
                values = part.returned(row, file=file)
                columns = (np.full(len(values), n) for n in (_OUT, place, part.time_ns[row]))
                self.rows.append(np.array([values, *columns], np.int64))

    def _unknown(self, *, drain: bool) -> None:
        self.unknown_drains += drain
        self.unknown_dequeues += not drain

    def end(self) -> None:
        """What never ended is unknown."""
        for drain, _ in self.open.values():
            self._unknown(drain=drain)
        self.open.clear()


_OUT: Final = 32
"""The mark of an element that came out."""


def _rows(part: Operations, chosen: Bools, value: Ints, mark: Any) -> Ints:
    marks = np.broadcast_to(np.asarray(mark, np.int64), value.shape)
    return np.array([value, marks, part.place, part.time_ns], np.int64)[:, chosen]


@dataclass(frozen=True, kw_only=True)
class Queue(OneShard[History]):
    """Elements of a queue that were lost, or came out though they had not been put in, as Jepsen's
    total-queue means them.

    once  an element that comes out twice is a counter-example, else it is only counted
    """

    plugin: ClassVar[str] = "queue"
    models: ClassVar[frozenset[str]] = frozenset({"queue"})
    title: ClassVar[str] = "Elements of the queue"
    primary: ClassVar[PrimaryFinding] = PrimaryFinding(
        counter_examples=("lost",), noun="lost elements", head="lost"
    )
    counts: ClassVar[tuple[Count, ...]] = (
        Count("attempted", "enqueues attempted"),
        *ENDED,
        Count("dequeued", "came out", "elements that came out"),
        Count(
            "lost", "lost", "acknowledged elements that surely are lost", among=("acknowledged",)
        ),
        Count("missing", "missing", "acknowledged elements that never came out"),
        Count("unexpected", "unexpected", "elements that came out and were never put in"),
        Count(
            "failed_found", "failed, found", "elements that came out though their enqueue failed"
        ),
        Count("early", "too early", "elements that came out before their enqueue began"),
        Count(
            "duplicated", "duplicated", "elements that came out more often than they were put in"
        ),
        Count("recovered", "recovered", "elements without acknowledgement that came out"),
        Count("unknown_dequeues", "unknown dequeues", "dequeues that may have removed an element"),
    )
    short: ClassVar[tuple[str, ...]] = ("lost", "missing", "unexpected", "duplicated", "recovered")

    once: bool = False

    def gather(self, run: Run) -> History:
        history = History()
        for part in run.operations():
            history.take(part, run.facts.source)
        history.end()
        return history

    def judge(self, run: Run, history: History) -> CheckResult:
        value, mark, place, time_ns = np.concatenate([_NO_ROWS, *history.rows], axis=1)
        values, at = np.unique(value, return_inverse=True)

        def times(*marks: int) -> Ints:
            return np.bincount(at[np.isin(mark, marks)], minlength=len(values))

        def edge(of: np.ufunc, column: Ints, chosen: Bools) -> Ints:
            """The least or greatest of a column for each value; NULL where there is none."""
            worst = np.iinfo(np.int64).max if of is np.minimum else NULL
            found = np.full(len(values), worst, np.int64)
            of.at(found, at[chosen], column[chosen])
            return np.where(found == worst, NULL, found)

        # Without any invocation, each row is an enqueue that began and ended there.
        begins = (INVOKED,) if (mark == INVOKED).any() else (OK, FAIL, INFO)
        tried, kept, failed, out = times(*begins), times(OK), times(FAIL), times(_OUT)
        missing = np.maximum(kept - out, 0)
        first_in = edge(np.minimum, place, np.isin(mark, begins))
        first_out = edge(np.minimum, place, mark == _OUT)
        own = np.minimum(out, tried)
        of_kind = {
            "missing": missing,
            "unexpected": np.where(tried == 0, out, 0),
            "failed_found": np.where(failed == tried, own, 0),
            "early": ((tried > 0) & (out > 0) & (first_out < first_in)).astype(np.int64),
            "duplicated": np.where(tried > 0, np.maximum(out - tried, 0), 0),
        }
        acknowledged = place[mark == OK].max(initial=-1)
        drained = any(began > acknowledged for began, _ in history.drains)
        provable = drained and not history.unknown_drains
        lost = max(0, int(missing.sum()) - history.unknown_dequeues) if provable else 0
        if lost == missing.sum():
            of_kind = {"lost": of_kind.pop("missing"), **of_kind}
        counts = {
            "attempted": int(tried.sum()),
            "acknowledged": int(kept.sum()),
            "failed": int(failed.sum()),
            "unknown": int((tried - kept - failed).sum()),
            "dequeued": int(out.sum()),
            "missing": int(missing.sum()),
            "recovered": int(np.maximum(own - kept, 0).sum()),
            "unknown_dequeues": history.unknown_dequeues,
            **{kind: int(copies.sum()) for kind, copies in of_kind.items()},
            "lost": lost,
        }
        wrong = {"lost", "unexpected", "failed_found", "early", *["duplicated"][: self.once]}
        began_ns = edge(np.minimum, time_ns, np.isin(mark, begins))
        ended_ns = edge(np.maximum, time_ns, mark == OK)
        return CheckResult(
            counts=counts,
            rates=rates(counts["attempted"], counts["acknowledged"], lost, counts["recovered"]),
            findings=_findings(run.facts.run_id, values, of_kind, began_ns, ended_ns),
            counter_examples=counter_examples((c for c in self.counts if c.name in wrong), counts),
            doubts=tuple(_doubts(counts, history, drained=drained)),
            all_well=f"all {counts['acknowledged']:,} acknowledged elements came out",
        )


_NO_ROWS: Final = np.empty((4, 0), np.int64)


def _findings(
    run_id: str, values: Ints, of_kind: dict[str, Ints], began_ns: Ints, ended_ns: Ints
) -> pa.Table:
    tables = []
    for kind, copies in of_kind.items():
        rows = np.flatnonzero(copies)[:_LISTED]
        columns: Sequence[Any] = (
            strings([run_id] * len(rows)),
            strings([kind] * len(rows)),
            *(numbers(column[rows]) for column in (values, copies, began_ns, ended_ns)),
        )
        tables.append(pa.table(columns, schema=FINDINGS))
    return pa.concat_tables(tables)


def _doubts(counts: dict[str, int], history: History, *, drained: bool) -> Iterator[Statement]:
    """Why what is missing may not be lost; where nothing is missing, no drain is needed."""
    if not counts["acknowledged"]:
        yield Statement(DOUBTS.vacuous, "no enqueue was acknowledged")
    undecided, kind = counts["missing"] - counts["lost"], DOUBTS.not_yet_visible
    why = f"{history.unknown_dequeues:,} dequeues of unknown outcome may have removed them"
    if history.unknown_drains:
        why = "a drain of unknown outcome may have removed them"
    if not drained:
        kind, why = DOUBTS.incomplete, "the queue was not drained after the last acknowledgement"
    if undecided:
        words = (
            f"{{n}} acknowledged [element|elements] did not come out, and may not be lost: {why}"
        )
        yield Statement(kind, counted(undecided, words))
