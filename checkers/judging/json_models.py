"""Histories of sets and registers from outside: JSON lines with Jepsen's names, made into the rows
of a run.

    set       `add` with a value; `read`, whose value when `ok` is the list of all elements
    register  `write` with a value, `read`, whose value when `ok` is what was read (null: nothing),
              `cas` with [expected, new]. A key stands in `key`, or as Jepsen's independent
              registers have it: the value is [key, value], of a `cas` [key, [expected, new]]

Operations with another `f` (the nemesis', for one) are left out. What a line may be is what
`harness.history.json_lines` says. Where the lines have no times, the order of lines tells what was
before what. The rows of a file are kept in memory, some hundred bytes a line.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from harness.history import HISTORY
from harness.history.json_lines import (
    ADD,
    READ,
    TYPES,
    Complain,
    complaint,
    first_repeated,
    function_of,
    integer,
    listed,
    operations,
    refuse_repeated,
)
from harness.history.parquet_writer import ParquetWriter
from harness.models import MODELS, REGISTER, SET
from harness.protocols import NULL, Facts, Ints, Promises

_NUMBERS: Final = ("process", "value", "expected", "result", "time", "index")
_OTHERS: Final = 2**30
"""Processes that are no numbers are numbered from here on."""


def convert_operations(file: Path, folder: Path, model: str) -> Facts:
    """Write the operations of one model as Parquet below `folder`; returns their facts.

    Raises HistoryError with the line that cannot be used.
    """
    rows, functions = _Rows(), MODELS[model].functions
    take = _TAKE[model]
    for line, op in operations(file):
        complain = complaint(file, line)
        if function_of(op, complain) in functions:
            rows.begin(op, line, complain)
            take(rows, op, complain)
            rows.end()
    _refuse_repeats(file, rows, model)
    history = folder / "history"
    history.mkdir(parents=True, exist_ok=True)
    with ParquetWriter(history, HISTORY, run_id=file.stem) as parts:
        if rows.lines:
            parts.write(rows.table())
    return Facts(
        run_id=file.stem,
        outside=file,
        history=tuple(sorted(history.glob("part-*.parquet"))),
        reads=(),
        ends=(),
        promises=Promises(model=model),
        one_reader=True,
        timed=rows.timed,
    )


class _Rows:
    """Columns of operations, as lines go by."""

    def __init__(self) -> None:
        self.lines = array("q")
        self._now = dict.fromkeys(_NUMBERS, NULL)
        self.numbers = {name: array("q") for name in _NUMBERS}
        self.types, self.functions = array("b"), list[str]()
        self.keys, self.errors = list[str | None](), list[str | None]()
        self._key: str | None = None
        self.elements, self._stops, self._listed = array("q"), array("q"), array("b")
        self._others: dict[str, int] = {}

    @property
    def timed(self) -> bool:
        """Whether every line has a time."""
        return NULL not in self.numbers["time"]

    def begin(self, op: dict[str, Any], line: int, complain: Complain) -> None:
        """Take what operations of all models have."""
        self._now = dict.fromkeys(_NUMBERS, NULL)
        self._now["process"] = self._process(op.get("process"))
        if "time" in op:
            self._now["time"] = integer(op["time"], "time", complain)
        if op.get("index", -1) not in (None, -1):
            self._now["index"] = integer(op["index"], "index", complain)
        self.types.append(TYPES.index(op["type"]))
        self.functions.append(op["f"])
        self.lines.append(line)
        error = op.get("error")
        self.errors.append(None if error is None else str(error))
        key = op.get("key")
        self._key = None if key is None else str(key)
        self._listed.append(0)

    def end(self) -> None:
        """The row is complete."""
        for name, number in self._now.items():
            self.numbers[name].append(number)
        self.keys.append(self._key)
        self._stops.append(len(self.elements))

    def set(self, name: str, value: Any, complain: Complain) -> None:
        """Take a number of this row; `None` is no value."""
        if value is not None:
            self._now[name] = integer(value, "value", complain)

    def key(self, key: Any) -> None:
        """Take the key of this row."""
        self._key = str(key)

    def list(self, values: Ints) -> None:
        """Take the set that this row read."""
        self.elements.frombytes(values.tobytes())
        self._listed[-1] = 1

    def _process(self, process: Any) -> int:
        if type(process) is int and 0 <= process < _OTHERS:
            return process
        return self._others.setdefault(repr(process), _OTHERS + len(self._others))

    def table(self) -> pa.Table:
        """The rows of HISTORY, but for `run_id`."""
        size = len(self.lines)
        places = np.arange(size, dtype=np.int64)
        numbers = {name: np.array(column, np.int64) for name, column in self.numbers.items()}
        index = numbers.pop("index")
        time_ns = numbers.pop("time") if self.timed else places
        numbers.pop("time", None)
        stops = np.concatenate([[0], np.array(self._stops, np.int64)])
        absent = np.array(self._listed) == 0
        elements = pa.ListArray.from_arrays(
            pa.array(stops, pa.int32(), mask=np.append(absent, False)),
            pa.array(np.array(self.elements, np.int64)),
        )
        return pa.table(
            {
                "index": places if (index == NULL).any() else index,
                "process": numbers.pop("process").astype(np.int32),
                "type": pa.DictionaryArray.from_arrays(np.array(self.types, np.int32), list(TYPES)),
                "f": pa.array(self.functions).dictionary_encode(),
                "key": pa.array(self.keys, pa.string()).dictionary_encode(),
                "error": pa.array(self.errors, pa.string()).dictionary_encode(),
                "elements": elements,
                "intended_ns": time_ns,
                "time_ns": time_ns,
                **{name: pa.array(column, mask=column == NULL) for name, column in numbers.items()},
            }
        )


def _take_set(rows: _Rows, op: dict[str, Any], complain: Complain) -> None:
    if op["f"] == ADD:
        if not 0 <= integer(op.get("process"), "process", complain) < 2**31:
            raise complain(f"{op['process']} is not the number of a process", "process")
        rows.set("value", _required(op.get("value"), complain), complain)
    elif op["type"] == "ok":
        rows.list(listed(op, complain))


def _take_register(rows: _Rows, op: dict[str, Any], complain: Complain) -> None:
    value: Any = op.get("value")
    if op["f"] == "cas":
        if _is_pair(value) and _is_pair(value[1]):
            rows.key(value[0])
            value = value[1]
        if not _is_pair(value):
            raise complain("the value of a cas is [expected, new]", "value")
        rows.set("expected", value[0], complain)
        rows.set("value", _required(value[1], complain), complain)
        return
    if _is_pair(value):
        rows.key(value[0])
        value = value[1]
    if op["f"] == READ:
        rows.set("result", value if op["type"] == "ok" else None, complain)
    else:
        rows.set("value", _required(value, complain), complain)


def _required(value: Any, complain: Complain) -> int:
    return integer(value, "value", complain)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2


def _refuse_repeats(file: Path, rows: _Rows, model: str) -> None:
    """Raise HistoryError for a value that is added to a set twice."""
    if model != SET.name:
        return
    adds = np.flatnonzero(np.array([f == ADD for f in rows.functions], np.bool_))
    values = np.array(rows.numbers["value"], np.int64)[adds]
    begins = (np.array(rows.types, np.int8) == TYPES.index("invoke"))[adds]
    row = first_repeated(values, begins)
    if row is not None:
        line = rows.lines[int(adds[row])]
        refuse_repeated(file, line, int(values[row]), begins=bool(begins[row]))


_TAKE: Final[dict[str, Callable[[_Rows, dict[str, Any], Complain], None]]] = {
    SET.name: _take_set,
    REGISTER.name: _take_register,
}
