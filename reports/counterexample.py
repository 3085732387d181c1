"""The drawing of a register's counter-example: a lane for each process, a bar for each operation.

Only the order of invocations and completions matters to it, and operations of microseconds stand
beside those of seconds. So the drawing has a column for each run of invocations and one for each
run of completions: an operation ends left of another exactly where it completed before the other
was invoked (the canonical representation of an interval order). Times are in the table beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter

from reports import formatting

COLUMN: Final = 92
LANE: Final = 46
LEFT: Final = 96
BAR: Final = 16
"""Lengths of the drawing, in units of its own."""

NOTHING_WRITTEN: Final = "nothing"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation of a counter-example, as result.json has it; see
    `checkers.register.counterexample`."""

    row: int
    process: int
    f: str
    type: str
    value: int | None
    expected: int | None
    invoke_ns: int
    complete_ns: int | None
    pending: bool
    place: int | None
    register: int | None

    @property
    def label(self) -> str:
        """What was done, in a few characters."""
        value = _held(self.value)
        if self.f == "read":
            return f"read {value}"
        return f"cas {_held(self.expected)} → {value}" if self.f == "cas" else f"write {value}"

    @property
    def is_open(self) -> bool:
        """Whether it may take effect at any time after what is drawn, or never."""
        return self.pending or self.type != "ok" or self.complete_ns is None

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
    """One counter-example, as result.json has it. Results of earlier versions do not have
    `minimal`: all of theirs are."""

    minimal: bool = True
    key: str | None
    consistency: str
    any_start: bool
    start: int | None
    register: int | None
    stuck: int
    operations: tuple[Operation, ...]

    @property
    def name(self) -> str:
        """What the register is called."""
        return "The register" if self.key is None else f"Register {self.key}"

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
        """Its number in the order, from 1."""
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
        width=right,
        height=LANE * len(lanes) + BAR // 2,
    )


def _columns(operations: Sequence[Operation]) -> tuple[dict[tuple[int, bool], int], int]:
    """The column of each beginning (True) and each end, and the last one."""
    events = sorted(_events(operations))
    column, before = 0, True
    columns: dict[tuple[int, bool], int] = {}
    for _, ends, at in events:
        begins = not ends
        column += begins != before
        before = begins
        columns[at, begins] = column
    return columns, column


def _events(operations: Sequence[Operation]) -> Iterator[tuple[int, bool, int]]:
    """Time, whether it is an end, and the operation: at one instant all begin before any ends."""
    for at, each in enumerate(operations):
        yield each.invoke_ns, False, at
        if not each.is_open and each.complete_ns is not None:
            yield each.complete_ns, True, at


def _held(value: int | None) -> str:
    return NOTHING_WRITTEN if value is None else str(value)


def _seconds(time_ns: int) -> str:
    return f"{formatting.number(time_ns // 1_000_000_000)}.{time_ns // 1_000 % 1_000_000:06d} s"
