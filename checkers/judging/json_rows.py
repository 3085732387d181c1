"""Rows of a run's history, filled from the operations of a file line by line."""

from __future__ import annotations

from array import array
from typing import Any, Final

import numpy as np
import pyarrow as pa

from harness.history.json_lines import TYPES, Complain, integer
from harness.protocols import NULL, Ints

_NUMBERS: Final = ("process", "value", "expected", "result", "time", "index")
_NO_TIME_NS: Final = 2**62
"""146 years."""

_OTHERS: Final = 2**30
"""Processes that are not numbers are numbered from here on."""


class Rows:
    """Columns of operations, as lines go by: `begin` a row, `set` what it has, `end` it."""

    def __init__(self) -> None:
        self.lines = array("q")
        self._now = dict.fromkeys(_NUMBERS, NULL)
        self.numbers = {name: array("q") for name in _NUMBERS}
        self.types, self.functions = array("b"), list[str]()
        self.keys, self.errors = list[str | None](), list[str | None]()
        self._key: str | None = None
        self.elements, self._stops, self._listed = array("q"), array("q"), array("b")
        self._others: dict[str, int] = {}
        self.texts: dict[str, int] = {}

    @property
    def timed(self) -> bool:
        """Whether every line has a time."""
        return NULL not in self.numbers["time"]

    def begin(self, op: dict[str, Any], line: int, complain: Complain) -> None:
        """Take what operations of all models have."""
        self._now = dict.fromkeys(_NUMBERS, NULL)
        self._now["process"] = self._process(op.get("process"))
        if "time" in op:
            self._now["time"] = _time(op["time"], complain)
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
        """Take a number of this row; `None` is not a value."""
        if value is not None:
            self._now[name] = integer(value, "value", complain)

    def key(self, key: Any) -> None:
        """Take the key of this row."""
        self._key = str(key)

    def list(self, values: Ints) -> None:
        """Take the elements of this row: the set that it read, or what its transaction did."""
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
                "index": index if _numbered(index) else places,
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


def _time(value: Any, complain: Complain) -> int:
    """A time that can be counted with. Raises HistoryError for another one."""
    time_ns = integer(value, "time", complain)
    if abs(time_ns) >= _NO_TIME_NS:
        raise complain(f"{time_ns} is not a time: nanoseconds, below 2^62", "time")
    return time_ns


def _numbered(index: Ints) -> bool:
    """Whether every row has an index, none of them twice."""
    return not (index == NULL).any() and bool((np.diff(index) > 0).all())
