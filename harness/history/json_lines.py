"""Operations with Jepsen's names, of JSON lines or EDN: what every reader of a history file has in
common.

One operation a line, `{"index":0,"process":3,"type":"invoke","f":"add","value":17,"time":123}`; a
file whose name ends in `.edn` is read as EDN (`harness.history.edn`), with the same names. `index`
and `time` may be absent: the order of lines decides, and an `index` that contradicts it is bad
input. What cannot be used is one HistoryError with the file, the line and the key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import orjson

from harness.errors import HistoryError
from harness.history import SCHEMA_VERSION, edn
from harness.protocols.runs import INT64, Bools, Ints

ADD: Final = "add"
READ: Final = "read"
TYPES: Final = ("invoke", "ok", "fail", "info")


Complain = Callable[[str, str | None], HistoryError]
"""Makes the error of one line: what is wrong, and with which key."""


def complaint(file: Path, line: int) -> Complain:
    """What makes the errors of this line."""
    return lambda what, key: HistoryError(what, file=f"{file}:{line}", key=key)


def operations(file: Path, *, repeats: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and operations; raises HistoryError for a line that holds none. `repeats`: an
    index may be that of the line before."""
    number, before = 0, -1
    is_edn = file.suffix == ".edn"
    values = edn.records(file) if is_edn else _json_values(file)
    form = "an EDN map" if is_edn else "a JSON object"
    try:
        for line, value in values:
            number += 1
            complain = complaint(file, line)
            op = _operation(value, form, complain)
            before = _in_order(op, before, complain, repeats=repeats)
            yield line, op
    except OSError as error:
        raise HistoryError(f"cannot be read: {error.strerror}", file=str(file)) from error
    if not number:
        raise HistoryError("is empty: it holds no operation", file=str(file))


def _json_values(file: Path) -> Iterator[tuple[int, Any]]:
    with file.open("rb") as stream:
        for line, text in enumerate(stream, start=1):
            if text.isspace():
                continue
            try:
                yield line, orjson.loads(text)
            except orjson.JSONDecodeError as error:
                complain = complaint(file, line)
                if not text.endswith(b"\n"):
                    raise complain("is cut off: its last line is incomplete", None) from error
                raise complain(f"is not JSON: {error}", None) from error


def _operation(op: Any, form: str, complain: Complain) -> dict[str, Any]:
    if not isinstance(op, dict):
        raise complain(f"is not {form}: one operation a line is expected", None)
    if op.get("schema", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise complain(
            f"has schema {op['schema']!r}, this ackloss reads {SCHEMA_VERSION}", "schema"
        )
    if op.get("type") not in TYPES:
        raise complain(f"{op.get('type')!r} is not one of {', '.join(TYPES)}", "type")
    return op


def _in_order(op: dict[str, Any], before: int, complain: Complain, *, repeats: bool) -> int:
    """The index of an operation, or that `before` it where it has none (as -1, Jepsen's own)."""
    index = index_of(op, complain)
    if index is None:
        return before
    if index < before or (index == before and not repeats):
        raise complain(
            f"index {index} follows {before}: the order of lines decides which read is the last; "
            "sort them by index",
            "index",
        )
    return index


def index_of(op: dict[str, Any], complain: Complain) -> int | None:
    """The index that an operation names; `None` where it names none (-1 is Jepsen's own none)."""
    index = op.get("index")
    return None if index is None or index == -1 else integer(index, "index", complain)


def function_of(op: dict[str, Any], complain: Complain) -> Any:
    """What an operation does. Raises HistoryError if it is missing."""
    if "f" not in op:
        raise complain("has no f: the name of what was done", "f")
    return op["f"]


def add_of(op: dict[str, Any], complain: Complain) -> tuple[int, int, int]:
    """The value, the process and the time (0 where it is absent) of an add."""
    value = integer(op.get("value"), "value", complain)
    process = integer(op.get("process"), "process", complain)
    if not 0 <= process < 2**31:
        raise complain(f"{process} is not a process number", "process")
    return value, process, integer(op.get("time", 0), "time", complain)


def listed(op: dict[str, Any], complain: Complain) -> Ints:
    """The values that an `ok` read returned."""
    values = op.get("value")
    if not isinstance(values, list):
        raise complain("the value of an ok read is a list", "value")
    try:
        if set(map(type, values)) <= {int}:  # a comparison would let true pass for 1
            return np.array(values, np.int64)
    except OverflowError:
        pass
    return np.array([integer(value, "value", complain) for value in values], np.int64)


def integer(value: Any, key: str, complain: Complain) -> int:
    """`value`, which is an integer of 64 bits. Raises HistoryError for anything else."""
    if type(value) is not int or value not in INT64:
        raise complain(f"{value!r:.80} is not an integer of 64 bits", key)
    return value


def first_repeated(values: Ints, begin: Bools) -> int | None:
    """The first row at which a value has more than one invocation and then one completion; `None`
    if there is no such row. `begin`: whether each row is an invocation."""
    order = np.argsort(values, kind="stable")
    same = np.diff(values[order]) == 0
    as_it_should = begin[order][:-1] & ~begin[order][1:]
    repeated = order[1:][same & ~as_it_should]
    return int(repeated.min()) if len(repeated) else None


def refuse_repeated(file: Path, line: int, value: int, *, begins: bool) -> NoReturn:
    """Raise HistoryError for a value that is added, or has ended, a second time."""
    what = "is added twice" if begins else "has ended twice"
    raise HistoryError(
        f"the value {value} {what}, or ended before it was added",
        file=f"{file}:{line}",
        key="value",
        hint="give every add its own value",
    )
