"""Histories of sets, registers and transactions from outside: JSON lines or EDN with Jepsen's
names, made into the rows of a run.

    set       `add` with a value; `read`, whose value when `ok` is the list of all elements
    register  `write` with a value, `read`, whose value when `ok` is what was read (null: nothing),
              `cas` with [expected, new]. A key is in `key`, or as Jepsen's independent registers
              have it: the value is [key, value], of a `cas` [key, [expected, new]]
    transaction  as `checkers.judging.json_transactions` says

Operations with another `f` (the nemesis', for one) are left out. `harness.history.json_lines`
defines what a line may be. The order of lines shows what was before what. The rows of a file are
kept in memory, some hundred bytes a line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from checkers.judging.json_rows import Rows
from checkers.judging.json_transactions import take_transaction
from harness.errors import PlanError
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
from harness.history.outside import run_id_of
from harness.history.parquet_writer import ParquetWriter
from harness.models import LOG, MODELS, REGISTER, SET, TRANSACTION
from harness.protocols import NULL, Checker, Facts, Promises


def model_outside(checks: Mapping[str, Checker[Any, Any]]) -> str:
    """The model as whose operations a history from outside is read for these checkers. Raises
    PlanError where there is none."""
    judged = frozenset.intersection(*(checker.models for checker in checks.values()))
    if model := next((each for each in MODELS_OUTSIDE if each in judged), None):
        return model
    raise PlanError(
        f"{' and '.join(checks)} cannot judge a history from outside, only runs of ackloss",
        key="--checker",
        hint=f"use {', '.join(MODELS[each].check for each in MODELS_OUTSIDE)}",
    )


def convert_operations(file: Path, folder: Path, model: str) -> Facts:
    """Write the operations of one model as Parquet below `folder`; returns their facts.

    Raises HistoryError with the line that cannot be used.
    """
    rows, functions = Rows(), MODELS[model].functions
    take = _TAKE[model]
    for line, op in operations(file, repeats=model == TRANSACTION.name):
        complain = complaint(file, line)
        if function_of(op, complain) in functions:
            rows.begin(op, line, complain)
            take(rows, op, complain)
            rows.end()
    _refuse_repeats(file, rows, model)
    history = folder / "history"
    history.mkdir(parents=True, exist_ok=True)
    with ParquetWriter(history, HISTORY, run_id=run_id_of(file)) as parts:
        if rows.lines:
            parts.write(rows.table())
    return Facts(
        run_id=run_id_of(file),
        outside=file,
        history=tuple(sorted(history.glob("part-*.parquet"))),
        reads=(),
        ends=(),
        promises=Promises(model=model),
        one_reader=True,
        timed=rows.timed,
        texts=tuple(rows.texts),
    )


def _take_set(rows: Rows, op: dict[str, Any], complain: Complain) -> None:
    if op["f"] == ADD:
        if not 0 <= integer(op.get("process"), "process", complain) < 2**31:
            raise complain(f"{op['process']} is not the number of a process", "process")
        rows.set("value", _required(op.get("value"), complain), complain)
    elif op["type"] == "ok":
        rows.list(listed(op, complain))


def _take_register(rows: Rows, op: dict[str, Any], complain: Complain) -> None:
    value: Any = op.get("value")
    if op["f"] == "cas":
        if _is_pair(value) and _is_pair(value[1]):
            rows.key(value[0])
            value = value[1]
        if not _is_pair(value):
            raise complain("the value of a cas is [expected, new]", "value")
        rows.set("expected", _held(value[0], complain), complain)
        rows.set("value", _required(_held(value[1], complain), complain), complain)
        return
    if _is_pair(value):
        rows.key(value[0])
        value = value[1]
    if op["f"] == READ:
        rows.set("result", _held(value, complain) if op["type"] == "ok" else None, complain)
    else:
        rows.set("value", _required(_held(value, complain), complain), complain)


def _held(value: Any, complain: Complain) -> Any:
    """What a register may hold. Raises HistoryError for the number that stands for null here."""
    if value == NULL:
        raise complain(f"{value} stands for no value: no register holds it", "value")
    return value


def _required(value: Any, complain: Complain) -> int:
    return integer(value, "value", complain)


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2


def _refuse_repeats(file: Path, rows: Rows, model: str) -> None:
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


_TAKE: Final[dict[str, Callable[[Rows, dict[str, Any], Complain], None]]] = {
    REGISTER.name: _take_register,
    SET.name: _take_set,
    TRANSACTION.name: take_transaction,
}

MODELS_OUTSIDE: Final = (LOG.name, *_TAKE)
"""The models whose operations are read from histories from outside, those of a log by
`checkers.judging.jsonlines`; of a checker that judges several, the first is meant."""
