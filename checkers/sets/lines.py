"""Histories of sets from JSON lines with Jepsen's names: `add` operations, and `read` operations
whose value, when `ok`, is the list of all elements.

What a line may be is what `checkers.operations` says; operations with another `f` are passed over.
An add is paired with its completion by its value, which is added once; a read with the earliest
open one of its process, so one that began at an unknown time counts as early. In a file without
any invocation of a read, each read began and ended at its line. Indices are those of the file,
else places in it; times are used where the file has them.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any, Final, TypeGuard

import numpy as np

from checkers.operations import (
    ADD,
    READ,
    TYPES,
    Complain,
    add_of,
    complaint,
    first_repeated,
    function_of,
    index_of,
    integer,
    listed,
    operations,
    refuse_repeated,
)
from checkers.rows import FAIL, INFO, NULL, OK, Bits, Ints
from checkers.sets.columns import ABSENT, NOBODY, Adds, SetHistory, SetReads, history_of

_MARKS: Final = np.array([INFO, OK, FAIL, INFO], np.uint8)  # by place in TYPES
_BEGIN: Final = TYPES.index("invoke")
_PROCESSES: Final = range(2**31)


def read_lines(file: Path) -> SetHistory:
    """The history that a file holds. Raises HistoryError with the line that cannot be used."""
    adds, reads, indices = _Adds(), _Reads(), array("q")
    for place, (line, op) in enumerate(operations(file)):
        complain = complaint(file, line)
        index = index_of(op, complain)
        indices.append(ABSENT if index is None else index)
        function = function_of(op, complain)
        if function == ADD:
            adds.append(op, place, line, complain)
        elif function == READ:
            reads.append(op, place, complain)
    places = np.array(indices, np.int64)
    if (places == ABSENT).any():
        places = np.arange(len(places))
    return history_of(adds.columns(file, places), reads.columns(places), file=str(file))


def _time_ns(op: dict[str, Any], complain: Complain) -> int:
    return integer(op["time"], "time", complain) if "time" in op else NULL


def _is_number(process: Any) -> TypeGuard[int]:
    return type(process) is int and process in _PROCESSES


class _Adds:
    """The invocations and completions of adds, as they come by."""

    def __init__(self) -> None:
        self._values, self._processes = array("q"), array("q")
        self._types, self._places = array("b"), array("q")
        self._lines, self._times = array("q"), array("q")

    def append(self, op: dict[str, Any], place: int, line: int, complain: Complain) -> None:
        """Take note of one. Raises HistoryError for a field that cannot be."""
        value, process, _ = add_of(op, complain)
        self._values.append(value)
        self._processes.append(process)
        self._types.append(TYPES.index(op["type"]))
        self._places.append(place)
        self._lines.append(line)
        self._times.append(_time_ns(op, complain))

    def columns(self, file: Path, indices: Ints) -> Adds:
        """One row a value. Raises HistoryError for one that is added, or has ended, twice."""
        values, types = np.array(self._values, np.int64), np.array(self._types, np.int8)
        row = first_repeated(values, types == _BEGIN)
        if row is not None:
            line, begins = self._lines[row], self._types[row] == _BEGIN
            refuse_repeated(file, line, self._values[row], begins=begins)
        value, last = np.unique(values[::-1], return_index=True)
        last = len(values) - 1 - last  # of each value, the row of its completion, if it has one
        _, first = np.unique(values, return_index=True)
        places, times = np.array(self._places, np.int64), np.array(self._times, np.int64)
        index = indices[places]
        began, ended = types[first] == _BEGIN, types[last] != _BEGIN
        return Adds(
            value=value,
            process=np.array(self._processes, np.int64)[last],
            mark=_MARKS[types[last]],
            invoke_index=np.where(began, index[first], ABSENT),
            complete_index=np.where(ended, index[last], ABSENT),
            invoke_ns=np.where(began, times[first], NULL),
            complete_ns=np.where(ended, times[last], NULL),
        )


class _Reads:
    """The completions of reads, as they come by, each with the place and time of its invocation."""

    def __init__(self) -> None:
        self._processes, self._marks = array("q"), array("B")
        self._began, self._ended = array("q"), array("q")
        self._began_ns, self._ended_ns = array("q"), array("q")
        self._stops, self._elements = array("q"), array("q")
        self._invoked = False
        self._open: dict[str, list[tuple[int, int]]] = {}

    def append(self, op: dict[str, Any], place: int, complain: Complain) -> None:
        """Take note of one. Raises HistoryError for an `ok` one without a list of values."""
        process, time_ns = op.get("process"), _time_ns(op, complain)
        begun = self._open.setdefault(repr(process), [])
        if op["type"] == "invoke":
            self._invoked = True
            begun.append((place, time_ns))
            return
        began, began_ns = begun[0] if begun else (ABSENT, NULL)
        if begun:
            begun.pop()
        self._processes.append(process if _is_number(process) else NOBODY)
        self._marks.append(int(_MARKS[TYPES.index(op["type"])]))
        self._began.append(began)
        self._began_ns.append(began_ns)
        self._ended.append(place)
        self._ended_ns.append(time_ns)
        if op["type"] == "ok":
            self._elements.frombytes(listed(op, complain).tobytes())
        self._stops.append(len(self._elements))

    def columns(self, indices: Ints) -> SetReads:
        """One row a completed read."""
        began, ended = np.array(self._began, np.int64), np.array(self._ended, np.int64)
        began_ns, ended_ns = (
            np.array(times, np.int64) for times in (self._began_ns, self._ended_ns)
        )
        if not self._invoked:
            began, began_ns = ended, ended_ns
        stops: Ints = np.array(self._stops, np.int64)
        marks: Bits = np.array(self._marks, np.uint8)
        return SetReads(
            process=np.array(self._processes, np.int64),
            mark=marks,
            invoke_index=np.where(began == ABSENT, ABSENT, indices[began]),
            complete_index=indices[ended],
            invoke_ns=began_ns,
            complete_ns=ended_ns,
            start=np.concatenate([np.zeros(1, np.int64), stops])[:-1],
            stop=stops,
            elements=np.frombuffer(self._elements, np.int64)
            if self._elements
            else np.empty(0, np.int64),
        )
