"""Histories of other tools: JSON lines or EDN with Jepsen's names, made into the Parquet of a run.

One operation a line, `{"index":0,"process":3,"type":"invoke","f":"add","value":17,"time":123}`, and
the final read as one operation `f: "read"` whose value is a list. `index` and `time` may be absent:
the order of lines decides, and an `index` that contradicts it is bad input. `add` operations are
the writes; operations with another `f` (the nemesis', for one) are skipped. There is one partition,
number 0, and a value is at its place in the list, so one that is listed twice is a duplicate.

The final read is the last `ok` read that begins after every add has completed, as `ok`, `fail` or
`info`; an add that never completes keeps none from being final, since its outcome is unknown. In a
file without any invocation of a read, each read stands for a complete operation, begun and ended at
its line; else one without an invocation began at a time unknown and is not final. Without a final
read nothing is lost: the last `ok` read shows what was there, not what was missing.

Each value is added once: a second invocation or completion of it is bad input, and so is an
invocation that follows its completion. A completion without an invocation counts as an attempt.

The file is read line by line and written in parts: what stays in memory is nine bytes a line.
"""

from __future__ import annotations

from array import array
from itertools import islice
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import orjson
import pyarrow as pa

from harness.history import HISTORY, READS
from harness.history.json_lines import (
    ADD,
    READ,
    TYPES,
    Complain,
    add_of,
    complaint,
    first_repeated,
    function_of,
    listed,
    operations,
    refuse_repeated,
)
from harness.history.outside import run_id_of
from harness.history.parquet_writer import ParquetWriter
from harness.models import APPEND
from harness.protocols import Facts, Gaps, Ints, PartitionEnd

NOT_FINAL: Final = "no read begins after the last add has completed"

_PART_ROWS: Final = 1_000_000


def convert(file: Path, folder: Path) -> Facts:
    """Write the history and its final read as Parquet parts below `folder`; states its facts.

    Raises HistoryError with the line that cannot be used.
    """
    run_id = run_id_of(file)
    history, reads = folder / "history", folder / "reads"
    for each in (history, reads):
        each.mkdir(parents=True, exist_ok=True)
    read = _FinalRead()
    with ParquetWriter(history, HISTORY, run_id=run_id) as parts:
        rows = _Rows(parts)
        for line, op in operations(file):
            complain = complaint(file, line)
            function = function_of(op, complain)
            if function == ADD:
                rows.add(op, complain)
                read.add(op)
            elif function == READ:
                read.read(op, complain)
        rows.flush()
    if (row := rows.repeated()) is not None:
        _refuse_repeated(file, row)
    if read.values is not None:
        with ParquetWriter(reads, READS, run_id=run_id) as parts:
            parts.write(_reads_table(read.values))
    end = PartitionEnd(partition=0, complete=read.final, whole=read.final)
    return Facts(
        run_id=run_id,
        outside=file,
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
        self.values: Ints | None = None
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
            values, final = listed(op, complain), since == self._added
            if final or not self.final:
                self.values, self.final = values, final


def _refuse_repeated(file: Path, row: int) -> NoReturn:
    """Raise HistoryError for the add that is number `row` of all in a file."""
    adds = ((line, op) for line, op in operations(file) if op.get("f") == ADD)
    line, op = next(islice(adds, row, None))
    refuse_repeated(file, line, op["value"], begins=op["type"] == "invoke")


def _reads_table(values: Ints) -> pa.Table:
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
        """Append one operation. Raises HistoryError for an impossible field."""
        value, process, time_ns = add_of(op, complain)
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
        `None` if there is no such row."""
        return first_repeated(np.array(self._all_values), np.array(self._all_begin, np.bool_))

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
