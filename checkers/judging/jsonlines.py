"""Histories from elsewhere: JSON lines with Jepsen's names, made into the Parquet of a run.

One operation a line, `{"index":0,"process":3,"type":"invoke","f":"add","value":17,"time":123}`, and
the final read as one operation `f: "read"` whose value is a list. `index` and `time` may be absent:
the order of lines rules, and an `index` that contradicts it is bad input. `add` operations are the
writes; operations with another `f` (the nemesis', for one) are passed over. There is one partition,
number 0, and a value stands at its place in the list, so one that is listed twice is a duplicate.

The final read is the last `ok` read that begins after every add has completed, as `ok`, `fail` or
`info`; an add that never completes keeps none from being final, since nobody says what became of
it. In a file without any invocation of a read, each read stands for a whole operation, begun and
ended at its line; else one without an invocation began at a time unknown and is not final. Without
a final read nothing is lost: the last `ok` read tells what was there, not what was missing.

Each value is added once: a second invocation or completion of it is bad input, and so is an
invocation that follows its completion. A completion without an invocation counts as an attempt.

The file is read line by line and written in parts: what stays in memory is nine bytes a line.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import orjson
import pyarrow as pa

from harness.errors import HistoryError
from harness.history import HISTORY, READS, SCHEMA_VERSION
from harness.history.parquet_writer import ParquetWriter
from harness.models import APPEND
from harness.protocols import Facts, Gaps, PartitionEnd

ADD: Final = "add"
READ: Final = "read"
NOT_FINAL: Final = "no read begins after the last add has completed"
TYPES: Final = ("invoke", "ok", "fail", "info")

_PART_ROWS: Final = 1_000_000
_INT64: Final = range(-(2**63), 2**63)


def convert(file: Path, folder: Path) -> Facts:
    """Write the history and its final read as Parquet parts below `folder`; tells its facts.

    Raises HistoryError with the line that cannot be used.
    """
    run_id = file.stem
    history, reads = folder / "history", folder / "reads"
    for each in (history, reads):
        each.mkdir(parents=True, exist_ok=True)
    read = _FinalRead()
    with ParquetWriter(history, HISTORY, run_id=run_id) as parts:
        rows = _Rows(parts)
        for line, op in _operations(file):
            complain = _complaint(file, line)
            if op.get("f") == ADD:
                rows.add(op, complain)
                read.add(op)
            elif op.get("f") == READ:
                read.read(op, complain)
            elif "f" not in op:
                raise complain("has no f: the name of what was done", "f")
        rows.flush()
    if (row := rows.repeated()) is not None:
        _refuse_repeated(file, row)
    if read.values is not None:
        with ParquetWriter(reads, READS, run_id=run_id) as parts:
            parts.write(_reads_table(read.values))
    end = PartitionEnd(partition=0, complete=read.final, whole=read.final)
    return Facts(
        run_id=run_id,
        history=tuple(sorted(history.glob("part-*.parquet"))),
        reads=tuple(sorted(reads.glob("part-*.parquet"))),
        ends=() if read.values is None else (end,),
        gaps=Gaps() if read.final or read.values is None else Gaps(reads=(NOT_FINAL,)),
        one_reader=True,
        timed=rows.timed,
    )


class _FinalRead:
    """The values of the final read, while lines go by; of the last `ok` read where none is
    `final`."""

    def __init__(self) -> None:
        self.values: list[int] | None = None
        self.final = False
        self._added = 0  # the number of adds that have completed
        self._invoked = False  # whether any read was
        self._open: dict[str, list[int]] = {}  # by process: how many had, when each read began

    def add(self, op: dict[str, Any]) -> None:
        """Take note of an add: no read that has begun is final once another completes."""
        if op["type"] != "invoke":
            self._added += 1
            self.final = False

    def read(self, op: dict[str, Any], complain: Complain) -> None:
        """Take note of a read. Raises HistoryError for an `ok` one without a list of values."""
        begun = self._open.setdefault(repr(op.get("process")), [])
        if op["type"] == "invoke":
            self._invoked = True
            begun.append(self._added)
            return
        since = begun[0] if begun else None  # of several open ones, the earliest: it may be that
        if not self._invoked:
            since = self._added
        if begun:
            begun.pop()
        if op["type"] == "ok":
            values, final = _listed(op, complain), since == self._added
            if final or not self.final:
                self.values, self.final = values, final


def _refuse_repeated(file: Path, row: int) -> NoReturn:
    """Raise HistoryError for the add that is number `row` of all in a file."""
    adds = ((line, op) for line, op in _operations(file) if op.get("f") == ADD)
    line, op = next(islice(adds, row, None))
    what = "is added twice" if op["type"] == "invoke" else "has ended twice"
    raise HistoryError(
        f"the value {op['value']} {what}, or ended before it was added",
        file=f"{file}:{line}",
        key="value",
        hint="give every add a value of its own",
    )


Complain = Callable[[str, str | None], HistoryError]


def _complaint(file: Path, line: int) -> Complain:
    return lambda what, key: HistoryError(what, file=f"{file}:{line}", key=key)


def _operations(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and operations; raises HistoryError for a line that is none."""
    number, before = 0, -1
    try:
        with file.open("rb") as stream:
            for line, text in enumerate(stream, start=1):
                if text.isspace():
                    continue
                number += 1
                complain = _complaint(file, line)
                op = _operation(text, complain)
                before = _in_order(op, before, complain)
                yield line, op
    except OSError as error:
        raise HistoryError(f"cannot be read: {error.strerror}", file=str(file)) from error
    if not number:
        raise HistoryError("is empty: it holds no operation", file=str(file))


def _operation(text: bytes, complain: Complain) -> dict[str, Any]:
    try:
        op = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if not text.endswith(b"\n"):
            raise complain("is cut off: its last line is not whole", None) from error
        raise complain(f"is not JSON: {error}", None) from error
    if not isinstance(op, dict):
        raise complain("is not a JSON object: one operation a line is expected", None)
    if op.get("schema", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise complain(
            f"has schema {op['schema']!r}, this ackloss reads {SCHEMA_VERSION}", "schema"
        )
    if op.get("type") not in TYPES:
        raise complain(f"{op.get('type')!r} is none of {', '.join(TYPES)}", "type")
    return op


def _in_order(op: dict[str, Any], before: int, complain: Complain) -> int:
    """The index of an operation, or that `before` it where it has none (as -1, Jepsen's own)."""
    index = op.get("index")
    if index is None or index == -1:
        return before
    if _integer(index, "index", complain) <= before:
        raise complain(
            f"index {index} stands after {before}: which read is the last, and of what, the order "
            "of lines tells; sort them by index",
            "index",
        )
    return int(index)


def _listed(op: dict[str, Any], complain: Complain) -> list[int]:
    values = op.get("value")
    if not isinstance(values, list):
        raise complain("the value of an ok read is a list", "value")
    for value in values:
        _integer(value, "value", complain)
    return values


def _integer(value: Any, key: str, complain: Complain) -> int:
    if type(value) is not int or value not in _INT64:
        raise complain(f"{value!r:.80} is not an integer of 64 bits", key)
    return value


def _reads_table(values: list[int]) -> pa.Table:
    size = len(values)
    return pa.table(
        {
            "reader": pa.DictionaryArray.from_arrays(np.zeros(size, np.int32), ["history"]),
            "key": pa.nulls(size, READS.field("key").type),
            "partition": pa.array(np.zeros(size, np.int32)),
            "offset": pa.array(np.arange(size)),
            "value": pa.array(values, pa.int64()),
            "leader_epoch": pa.nulls(size, pa.int32()),
            "time_ns": pa.array(np.zeros(size, np.int64)),
        }
    )


class _Rows:
    """Rows of HISTORY, column by column, written as a part whenever there are many."""

    def __init__(self, parts: ParquetWriter) -> None:
        self.timed = False
        self._parts = parts
        self._count = 0
        self._begun: dict[int, tuple[int, int]] = {}
        self._errors: dict[str, int] = {}
        self._all_values, self._all_begin = array("q"), array("b")
        self._clear()

    def _clear(self) -> None:
        self._types, self._error_codes = array("i"), array("i")
        self._processes, self._values = array("i"), array("q")
        self._intended, self._times = array("q"), array("q")

    def add(self, op: dict[str, Any], complain: Complain) -> None:
        """Append one operation. Raises HistoryError for a field that cannot be."""
        value = _integer(op.get("value"), "value", complain)
        process = _integer(op.get("process"), "process", complain)
        if not 0 <= process < 2**31:
            raise complain(f"{process} is no number of a process", "process")
        time_ns = _integer(op.get("time", 0), "time", complain)
        self.timed = self.timed or "time" in op
        if op["type"] == "invoke":
            self._begun[process] = (value, time_ns)
        begun_value, begun_ns = self._begun.get(process, (None, 0))
        self._types.append(TYPES.index(op["type"]))
        self._error_codes.append(self._error(op.get("error")))
        self._processes.append(process)
        self._values.append(value)
        self._all_values.append(value)
        self._all_begin.append(op["type"] == "invoke")
        self._intended.append(begun_ns if begun_value == value else time_ns)
        self._times.append(time_ns)
        if len(self._values) == _PART_ROWS:
            self.flush()

    def repeated(self) -> int | None:
        """The first row at which a value has more than one invocation and then one completion;
        `None` where there is no such row."""
        values, begin = np.array(self._all_values), np.array(self._all_begin, np.bool_)
        order = np.argsort(values, kind="stable")
        same = np.diff(values[order]) == 0
        as_it_should = begin[order][:-1] & ~begin[order][1:]
        repeated = order[1:][same & ~as_it_should]
        return int(repeated.min()) if len(repeated) else None

    def _error(self, error: Any) -> int:
        if error is None:
            return -1
        text = error if isinstance(error, str) else orjson.dumps(error).decode()
        return self._errors.setdefault(text, len(self._errors))

    def flush(self) -> None:
        """Write what there is."""
        size = len(self._values)
        if not size:
            return
        codes = np.array(self._error_codes, np.int32)
        zeros = np.zeros(size, np.int32)
        self._parts.write(
            pa.table(
                {
                    "index": pa.array(np.arange(self._count, self._count + size)),
                    "process": pa.array(np.array(self._processes, np.int32)),
                    "type": pa.DictionaryArray.from_arrays(
                        np.array(self._types, np.int32), list(TYPES)
                    ),
                    "f": pa.DictionaryArray.from_arrays(zeros, [APPEND]),
                    "value": pa.array(np.array(self._values, np.int64)),
                    "partition": pa.array(zeros),
                    "error": pa.DictionaryArray.from_arrays(
                        pa.array(codes, mask=codes < 0), pa.array(list(self._errors), pa.string())
                    ),
                    "intended_ns": pa.array(np.array(self._intended, np.int64)),
                    "time_ns": pa.array(np.array(self._times, np.int64)),
                }
            )
        )
        self._count += size
        self._clear()
