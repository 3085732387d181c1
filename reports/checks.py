"""What checks counted and found, in the words that they declare, for pages and command line.

The loss check has a separate section on the page; what is here serves every other one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from analysis.primary import first_check, of_result
from analysis.wording import capitalised
from harness import registry
from harness.history.documents import CONCLUSIVE, CheckRecord, RunResult
from harness.history.parquet_reader import UnusableRow, decoded
from harness.history.run_folder import RunDir
from harness.models import LIST_APPEND, LOG, REGISTER, RW_REGISTER, TRANSACTION
from harness.protocols import Checker, Count
from reports import formatting

# What a check found, one by one: the first findings of each kind, as tables.
#
# Each is a row of `findings/<check>.parquet`, with what its reader looks up: the key or the
# partition and offset, the value, the process, the row of the history. Checks name their columns
# themselves.

MOST: Final = 5
"""Findings of a kind that are shown."""

_KIND: Final = "kind"
_SAME: Final = frozenset({"run_id", _KIND})
"""Columns that are equal in all rows of a table."""


@dataclass(frozen=True)
class Examples:
    """The first `rows` of the `total` findings of a kind, in the order of the check."""

    kind: str
    total: int
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    meaning: str = ""


def examples(run: RunDir, check: str) -> list[Examples]:
    """Those of one check by kind, in the order in which the kinds come first; none where it found
    nothing. Raises HistoryError for a damaged file."""
    file = run.findings_of(check)
    totals: Counter[str] = Counter()
    first: dict[str, list[dict[str, Any]]] = {}
    for counted, rows in decoded([file] if file.exists() else [], None, _of_batch):
        totals.update(counted)
        for row in rows:
            kept = first.setdefault(str(row[_KIND]), [])
            if len(kept) < MOST:
                kept.append(row)
    return [_table(kind, totals[kind], rows) for kind, rows in first.items()]


def _of_batch(batch: pa.RecordBatch) -> tuple[Mapping[str, int], list[dict[str, Any]]]:
    """How many findings of each kind there are, and the first of them."""
    if _KIND not in batch.schema.names:
        raise UnusableRow("lacks a column", _KIND)
    table = pa.Table.from_batches([batch])
    counts = {each["values"]: each["counts"] for each in pc.value_counts(table[_KIND]).to_pylist()}
    return counts, [
        row
        for kind in counts
        for row in table.filter(pc.equal(table[_KIND], kind)).slice(0, MOST).to_pylist()
    ]


def _table(kind: str, total: int, rows: Sequence[Mapping[str, Any]]) -> Examples:
    known = [
        name for name in rows[0] if name not in _SAME and any(row[name] is not None for row in rows)
    ]
    return Examples(
        kind=kind,
        total=total,
        columns=[name.removesuffix("_ns").replace("_", " ") for name in known],
        rows=[[_cell_text(name, row[name]) for name in known] for row in rows],
    )


def _cell_text(name: str, value: object) -> str:
    if isinstance(value, int) and name.endswith("_ns"):
        return formatting.seconds(value / 1e9)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and name.endswith("_s"):
        return formatting.seconds(value)
    return formatting.NOTHING if value is None else str(value)


# The drawing of a register's counter-example: a lane for each process, a bar for each operation.
#
# Only the order of invocations and completions matters to it, and operations of microseconds stand
# beside those of seconds. So the drawing has a column for each run of invocations and one for each
# run of completions: an operation ends left of another exactly where it completed before the other
# was invoked (the canonical representation of an interval order). Times are in the table beside it.

COLUMN: Final = 92
LANE: Final = 46
LEFT: Final = 96
BAR: Final = 16
LETTER: Final = 7
"""Lengths of the drawing, in units of its own."""

NOTHING_WRITTEN: Final = "nothing"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation of a counter-example, as result.json has it; see
    `checkers.register.counterexample`."""

    row: int
    process: int
    type: str
    invoke_ns: int
    complete_ns: int | None
    f: str = ""
    value: int | None = None
    expected: int | None = None
    pending: bool = False
    place: int | None = None
    register: int | None = None
    text: str | None = None

    @property
    def label(self) -> str:
        """What was done, in a few characters."""
        if self.text is not None:
            return self.text
        value = _held(self.value)
        if self.f == "read":
            return f"read {value}"
        return f"cas {_held(self.expected)} → {value}" if self.f == "cas" else f"write {value}"

    @property
    def is_open(self) -> bool:
        """Whether it may take effect at any time after what is drawn, or never."""
        return self.pending or self.complete_ns is None or (self.type != "ok" and not self.aborted)

    @property
    def aborted(self) -> bool:
        """Whether it is a transaction that has failed for sure."""
        return self.text is not None and self.type == "fail"

    @property
    def begun(self) -> str:
        return _seconds(self.invoke_ns)

    @property
    def ended(self) -> str:
        return (
            "never, as far as is known" if self.complete_ns is None else _seconds(self.complete_ns)
        )


@dataclass(frozen=True, kw_only=True)
class Example:
    """One counter-example, as result.json has it."""

    stuck: int
    operations: tuple[Operation, ...]
    minimal: bool = True
    key: str | None = None
    consistency: str = ""
    any_start: bool = False
    start: int | None = None
    register: int | None = None
    kind: str = ""
    words: str | None = None

    @property
    def name(self) -> str:
        """What the register, or the anomaly, is called."""
        if self.words is not None:
            return self.kind
        return "The register" if self.key is None else f"Register {self.key}"

    @property
    def heading(self) -> str:
        """Above it, where it is an anomaly of transactions."""
        if "aborted" in (self.words or ""):
            return "An aborted transaction, and who read it"
        return f"{self.kind}: the transactions of one"

    @property
    def ordered(self) -> list[Operation]:
        """The longest legal order that was found."""
        placed = [each for each in self.operations if each.place is not None]
        return sorted(placed, key=lambda each: each.place or 0)

    @property
    def left(self) -> Operation | None:
        """The operation that cannot be placed after that order."""
        return next((each for each in self.operations if each.row == self.stuck), None)

    @property
    def sentence(self) -> str:
        """Why there is no legal order."""
        if self.words is not None:
            return self.words
        before = ", ".join(each.label for each in self.ordered)
        holds = f"the register holds {_held(self.register)}"
        begins = f"In the order {before}" if before else "At the start"
        if self.left is None:
            return f"{begins} {holds}, and no other operation can follow."
        return f"{begins} {holds}; {self.left.label} (process {self.left.process}) cannot follow."


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One operation in the drawing."""

    operation: Operation
    x: int
    width: int
    y: int
    stuck: bool

    @property
    def number(self) -> str:
        place = self.operation.place
        return "" if place is None else f"{place + 1}"


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """The bars, the lanes by process, and the size of it all."""

    example: Example
    bars: Sequence[Bar]
    lanes: Mapping[int, int]
    width: int
    height: int

    @property
    def in_words(self) -> str:
        """The drawing for those who do not see it."""
        words = [f"process {bar.operation.process}: {bar.operation.label}" for bar in self.bars]
        return f"{self.example.name}. {'; '.join(words)}. {self.example.sentence}"


_EXAMPLES: Final = TypeAdapter(tuple[Example, ...])


def drawings(details: Mapping[str, Any]) -> list[Drawing]:
    """The counter-examples of a register check, the smallest first. Raises ValueError for details
    that no register check writes."""
    examples = _EXAMPLES.validate_python(details.get("examples") or ())
    return [drawing(each) for each in sorted(examples, key=lambda each: len(each.operations))]


def drawing(example: Example) -> Drawing:
    """The bars of one counter-example."""
    columns, last = _columns(example.operations)
    lanes = {
        process: place
        for place, process in enumerate(sorted({each.process for each in example.operations}))
    }
    right = LEFT + COLUMN * (last + 1)
    bars = []
    for at, each in enumerate(example.operations):
        x = LEFT + COLUMN * columns[at, True]
        end = right if each.is_open else LEFT + COLUMN * columns[at, False]
        y = LANE * lanes[each.process] + LANE - BAR
        bars.append(Bar(operation=each, x=x, width=end - x, y=y, stuck=each.row == example.stuck))
    return Drawing(
        example=example,
        bars=bars,
        lanes={process: LANE * (place + 1) for process, place in lanes.items()},
        width=max([right, *(bar.x + LETTER * (len(bar.operation.label) + 4) for bar in bars)]),
        height=LANE * len(lanes) + BAR // 2,
    )


def _columns(operations: Sequence[Operation]) -> tuple[dict[tuple[int, bool], int], int]:
    """The column of each beginning (True) and each end, and the last one."""
    # Time, whether it is an end, and the operation: at one instant all begin before any ends.
    events = [(each.invoke_ns, False, at) for at, each in enumerate(operations)]
    events += [
        (each.complete_ns, True, at)
        for at, each in enumerate(operations)
        if not each.is_open and each.complete_ns is not None
    ]
    column, before = 0, True
    columns: dict[tuple[int, bool], int] = {}
    for _, ends, at in sorted(events):
        begins = not ends
        column += begins != before
        before = begins
        columns[at, begins] = column
    return columns, column


def _held(value: int | None) -> str:
    return NOTHING_WRITTEN if value is None else str(value)


def _seconds(time_ns: int) -> str:
    return f"{formatting.number(time_ns // 1_000_000_000)}.{time_ns // 1_000 % 1_000_000:06d} s"


_RATES: Final = {
    "ack": "acknowledged, of all attempted",
    "loss": "lost, of the acknowledged",
    "unacknowledged_success": "unacknowledged success: found unacknowledged, per acknowledged",
    "unacknowledged_success_of_unacknowledged": "found, of all without acknowledgement",
}
_OF: Final = re.compile(r"(?P<part>[\d,]+) of (?P<whole>[\d,]+) \w+")
_NUMBER: Final = re.compile(r"(?P<number>[\d,]+) (?!of )")
"""The number of a counter-example, before what it counts."""
_DRAWN: Final = (REGISTER.name, TRANSACTION.name, LIST_APPEND.name, RW_REGISTER.name)
"""The models whose checks give counter-examples to draw."""
_POINTS: Final = ("0", "0.5", "0.95", "0.99", "1")


@dataclass(frozen=True)
class Counted:
    """One count: its name in result.json, the words for it, and its value as text. `bad`: it is, or
    holds, a counter-example."""

    name: str
    label: str
    meaning: str
    value: str
    bad: bool = False


@dataclass(frozen=True)
class CheckView:
    """One check as the page shows it: all counts, the few that say most, and what it has besides.
    `latencies` are rows of least, median, 95 %, 99 % and most; `rates` are what they are of, and
    their text; `final`: whether a read began after every add had completed; `None` where the check
    does not say; `faults` is a table of what each fault cost."""

    name: str
    title: str
    counts: list[Counted]
    short: list[Counted]
    doubts: list[str]
    drawings: list[Drawing]
    latencies: list[tuple[str, list[str]]]
    rates: list[tuple[str, str]]
    final: bool | None
    nodes: list[list[str]]
    faults: list[Examples]
    ruled_out: str = ""


def shown(result: RunResult) -> Sequence[CheckRecord]:
    """The checks that are shown by themselves: all but a loss check whose counts are the run's."""
    return result.checks[1:] if counts_losses(result) else result.checks


def views(result: RunResult) -> list[CheckView]:
    """The checks that need a section. Raises ValueError or TypeError for details that no check
    writes."""
    known = result.verdict in CONCLUSIVE
    return [_view(check, result.model, known=known) for check in shown(result)]


def _view(check: CheckRecord, model: str, *, known: bool) -> CheckView:
    latencies = check.details.get("latencies_ms") or {}
    final = check.details.get("final_read")
    faults = [
        {name: each for name, each in dict(fault).items() if name != "nodes"}
        for fault in check.details.get("failover") or ()
    ]
    return CheckView(
        name=check.name,
        title=_declared(check.name).title or f"Check: {check.name}",
        counts=counted(check, known=known),
        short=in_short(check, known=known),
        doubts=[sentence for _, sentence in check.doubts],
        drawings=drawings(check.details) if model in _DRAWN else [],
        latencies=[
            (what, [formatting.milliseconds(points.get(point)) for point in _POINTS])
            for what, points in latencies.items()
            if any(points.values())  # without a read before the end, they are all 0
        ],
        rates=[
            (label, formatting.rate(check.rates[name]))
            for name, label in _RATES.items()
            if name in check.rates and (known or name != "loss")
        ],
        final=bool((final or {}).get("is_final")) if "final_read" in check.details else None,
        ruled_out=str(check.details.get("ruled_out") or ""),
        nodes=[
            [
                str(row["node"]),
                *(f"{row[name]:,}" for name in ("reads", "final_reads", "stale")),
                *(
                    formatting.milliseconds(None if row[name] is None else row[name] * 1000)
                    for name in ("stale_s_p50", "stale_s_max")
                ),
            ]
            for row in check.details.get("nodes") or ()
        ],
        faults=[_table("faults", len(faults), faults)] if faults else [],
    )


def counts_losses(result: RunResult) -> bool:
    """Whether the counts of a result are those of the loss check."""
    return result.model == LOG.name and first_check(result) == LOG.check


def states_losses(result: RunResult) -> bool:
    """Whether any of the checks that the counts of a result are of looks for losses."""
    return counts_losses(result) or any("lost" in check.counts for check in result.checks[:1])


def counted(check: CheckRecord, *, known: bool = True) -> list[Counted]:
    """All counts of a check, those that it declares in their order. Not `known`, as in a run whose
    verdict is unknown: then how much was lost is not known either, and never 0."""
    declared = [each.name for each in _declared(check.name).counts if each.name in check.counts]
    counts = [_counted(check, name) for name in dict.fromkeys([*declared, *check.counts])]
    hidden = () if known else _declared(check.name).primary.counter_examples or ()
    return [
        replace(each, value=formatting.UNKNOWN) if each.name in hidden else each for each in counts
    ]


def in_short(check: CheckRecord, *, known: bool = True) -> list[Counted]:
    names = _declared(check.name).short or check.counts
    return [each for each in counted(check, known=known) if each.name in names]


def headline(result: RunResult) -> str:
    """The outcome of a run whose counts are not those of the loss check."""
    if result.verdict == "unknown":
        return formatting.not_known(f"there were {of_result(result).noun}", result)
    found = [
        _among(check, name, sentence)
        for check in result.checks
        for name, sentence in check.counter_examples
    ]
    others = f"; and {len(found) - 1} other kinds of findings" if len(found) > 2 else ""
    first = "; ".join(found[:1] if others else found)
    text = first + others or (result.reason or result.verdict).partition(", under ")[0]
    return capitalised(text)


def _among(check: CheckRecord, name: str, sentence: str) -> str:
    """A counter-example with its number first, what that is a part of, and its share of it."""
    if known := _OF.match(sentence):
        part, all_ = (int(known[each].replace(",", "")) for each in ("part", "whole"))
        return f"{known[0]} ({formatting.share(part / all_)}){sentence[known.end() :]}"
    of = words(check.name, name)
    names = of.among or ((of.of,) if of.of else ())
    whole = sum(int(check.counts.get(each) or 0) for each in names)
    if not (found := _NUMBER.match(sentence)) or not whole:
        return sentence
    label = "" if len(names) > 1 else f" {words(check.name, names[0]).label}"
    share = formatting.share(int(found["number"].replace(",", "")) / whole)
    return f"{sentence}, of {formatting.number(whole)}{label} ({share})"


def words(check: str, name: str) -> Count:
    """The words for a count, or a kind of finding, of a check."""
    declared = (each for each in _declared(check).counts if each.name == name)
    return next(declared, Count(name, name.replace("_", " ")))


def _declared(check: str) -> type[Checker[Any, Any]]:
    """The checker; one that declares nothing for a plug-in that is no longer installed."""
    return registry.plugins("checkers").get(check, Checker)


def _counted(check: CheckRecord, name: str) -> Counted:
    value, of = check.counts[name], words(check.name, name)
    proves = bool(check.counter_examples) and (
        of.proves or name in {each for each, _ in check.counter_examples}
    )
    return Counted(name, of.label, of.meaning, _text(name, value), bool(value) and proves)


def _text(name: str, value: float | None) -> str:
    if value is None:
        return formatting.NOTHING
    if name.endswith(("_s", "_s_p50", "_s_max")):
        return formatting.seconds(value)
    return formatting.number(int(value) if value == int(value) else value)
