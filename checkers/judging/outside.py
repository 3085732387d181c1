"""Histories from outside, made into the rows of a run: the operations of one model.

    log          `add` with a value; the final read is a `read`, whose value when `ok` is a list
    set          the same, with any number of reads
    register     `write` with a value, `cas` with [expected, new], and `read`, whose value when `ok`
                 is what was read (null: nothing)
    queue        `enqueue` with a value, which may be enqueued again; `dequeue`, whose value when
                 `ok` is the element (null: none), and `drain`, whose value when `ok` is a list
    transaction  `txn`, `send` and `poll` of micro-operations, as Jepsen's workload `kafka` has
                 them: ["send", key, value], answered ["send", key, [offset, value]] (null: an
                 offset that is not known); ["poll"], answered ["poll", {key: [[offset, value],
                 ...], ...}]. `assign` and `subscribe` with the keys that the process polls from
                 then on. Beside the value, `rebalance-log`: [{"keys": [key, ...]}, ...], what was
                 reassigned. All become the micro-operations of `harness.models.micro_ops`
    list-append  `txn` of ["append", key, value] and ["r", key, null], answered ["r", key, [value,
                 ...]] (null: the empty list)
    rw-register  `txn` of ["w", key, value] and ["r", key, null], answered ["r", key, value]

A key is in `key`, or as Jepsen's independent tests have it in the value: [key, value]. A set and a
log are judged key by key, as registers are. Keys differ as JSON writes them: 1 is not "1".
(In an object of JSON every key is a text: that of a poll is the integer unless only the text was
sent to.)

Clients are processes that are integers, or have another name and do what a model knows. The others
are a nemesis, and so is one whose name says so, or that is no integer and reports `info` on nothing
that it invoked: what they did is left out, whatever it is.

What contradicts itself is bad input: a process that does two things at once, a completion of
another function, key or value than its invocation, or without one (where any operation of that
function was invoked: else each line stands for an operation that begins and ends there), and a
value that is added twice. A completion without a value, or with a keyword in its place
(`:timed-out`, then its error), has the value of its invocation.

The final read of a log is the last `ok` read that begins after every add has completed, as `ok`,
`fail` or `info`; an add that never completes keeps none from being final, since its outcome is
unknown. Without a final read nothing is lost: the last `ok` read shows what was there, not what was
missing.

The order of lines shows what was before what. A log is written in parts: what stays in memory is
some twenty bytes an add; of other models all rows do.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from harness.errors import HistoryError, PlanError
from harness.history import HISTORY, READS
from harness.history.outside import TYPES, Complain, complaint, integer, operations, run_id_of
from harness.history.parquet_writer import ParquetWriter
from harness.models import (
    APPEND,
    LIST_APPEND,
    LOG,
    MODELS,
    QUEUE,
    REGISTER,
    RW_REGISTER,
    SET,
    TRANSACTION,
    micro_ops,
)
from harness.models.micro_ops import ASSIGNED, POLL, READ, REBALANCED, SEND, TEXT, WIDTH
from harness.protocols import NULL, Checker, Facts, Gaps, Ints, PartitionEnd, Promises

NOT_FINAL: Final = "no read begins after the last add has completed"

MODELS_OUTSIDE: Final = (
    *(LOG.name, REGISTER.name, SET.name, QUEUE.name, TRANSACTION.name),
    *(LIST_APPEND.name, RW_REGISTER.name),
)
"""The models whose operations are read from histories from outside; of a checker that judges
several, the first is meant."""

_FUNCTIONS: Final = {name: MODELS[name].functions for name in MODELS_OUTSIDE} | {
    LOG.name: SET.functions
}
_KNOWN: Final = frozenset().union(*_FUNCTIONS.values())
_ASSIGNING: Final = frozenset({"assign", "subscribe"})
_TRANSACTIONS: Final = frozenset({"txn", "send", "poll"})
_WRITES: Final = {
    LIST_APPEND.name: ("append", micro_ops.APPEND),
    RW_REGISTER.name: ("w", micro_ops.WRITE),
}
"""The word for a write, and the micro-operation."""
_WORDS: Final = {
    TRANSACTION.name: _TRANSACTIONS,
    **{model: frozenset({word, "r"}) for model, (word, _) in _WRITES.items()},
}
"""What transactions of each model do."""
_FORM: Final = 'a micro-operation is ["send", key, value], ["poll"] or ["poll", {key: pairs}]'

_COLUMNS: Final = (
    *("process", "type", "value", "expected", "result", "intended_ns", "time_ns", "index"),
    *("partition", "f", "key", "error", "stop", "absent"),
)
_TYPES: Final = {name: code for code, name in enumerate(TYPES)}
_PART_ROWS: Final = 500_000
_NO_TIME_NS: Final = 2**62
"""146 years."""

_PROCESSES: Final = range(2**31)
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_UNSURE: Final = TEXT + 2**61
"""From here on numbers stand for keys of objects of JSON until the file has ended."""


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


def convert(file: Path, folder: Path, model: str = LOG.name) -> Facts:
    """Write the operations of one model, and the final read of a log, as Parquet below `folder`;
    returns their facts. Raises HistoryError with the line that cannot be used."""
    run_id = run_id_of(file)
    history, reads = folder / "history", folder / "reads"
    for each in (history, reads):
        each.mkdir(parents=True, exist_ok=True)
    with ParquetWriter(history, HISTORY, run_id=run_id) as parts:
        rows = _Rows(model, parts)
        taken = _Operations(model, rows)
        for line, op in operations(file, repeats=model in _WORDS):
            taken.take(op, line, complaint(file, line))
        taken.end(file)
        rows.flush()
    if taken.reads:
        with ParquetWriter(reads, READS, run_id=run_id) as parts:
            for key, read in taken.reads.items():
                parts.write(_reads_table(read.values, key, rows.partitions[key]))
    finals = [read.final is not None for read in taken.reads.values()]
    return Facts(
        run_id=run_id,
        outside=file,
        history=tuple(sorted(history.glob("part-*.parquet"))),
        reads=tuple(sorted(reads.glob("part-*.parquet"))),
        ends=tuple(
            PartitionEnd(partition=rows.partitions[key], complete=final, whole=final)
            for key, final in zip(taken.reads, finals, strict=True)
        ),
        promises=Promises(model=model, partitions=max(1, len(rows.partitions))),
        gaps=Gaps(reads=() if all(finals) else (NOT_FINAL,), aside=taken.ignored),
        one_reader=True,
        timed=rows.timed,
        texts=tuple(taken.texts),
    )


def _reads_table(values: Ints, key: str | None, partition: int) -> pa.Table:
    size = len(values)
    return pa.table(
        {
            "reader": pa.DictionaryArray.from_arrays(np.zeros(size, np.int32), ["history"]),
            "key": pa.array([key] * size, READS.field("key").type),
            "partition": pa.array(np.full(size, partition, np.int32)),
            "offset": pa.array(np.arange(size)),
            "value": pa.array(values, pa.int64()),
            "leader_epoch": pa.nulls(size, pa.int32()),
            "time_ns": pa.array(np.zeros(size, np.int64)),
        }
    )


class _Fields(NamedTuple):
    """What an operation says beside its process, type and function. `given`: its value as it was
    written, of a transaction the keys and values that it sends; `elements`: the set that it read,
    or the micro-operations that it did."""

    key: str | None = None
    given: Any = None
    value: int = NULL
    expected: int = NULL
    result: int = NULL
    elements: Ints | None = None


class _Begun(NamedTuple):
    """An invocation that is open: its line, its function, what it says, and its row; `time_ns`."""

    line: int
    f: str
    fields: _Fields
    row: int
    time_ns: int


@dataclass
class _Read:
    """The last `ok` read of a log, and the last of those that are still final."""

    last: Ints
    final: Ints | None = None

    @property
    def values(self) -> Ints:
        """What was there at the end, as far as it is known."""
        return self.last if self.final is None else self.final


class _Operations:
    """The operations of a file as they go by, each completion held against its invocation."""

    def __init__(self, model: str, rows: _Rows) -> None:
        self.reads: dict[str | None, _Read] = {}
        self.texts: dict[str, int] = {}
        self._model, self._rows, self._functions = model, rows, _FUNCTIONS[model]
        self._names: dict[str, int] = {}  # the numbers of processes that are not numbers
        self._open: dict[int, _Begun] = {}
        self._invoked, self._strays = set[str](), dict[str, tuple[int, str]]()
        self._others: dict[str, list[tuple[int, Any]]] = {}
        self._added: dict[str | None, int] = {}  # by key: the line of its last completed add
        self._adds = array("q")  # of each its line, its value and the number of its key
        self._keys, self._unsure = set[Any](), dict[str, int]()
        self._typed = False  # whether keys of objects have types, as EDN's have

    @property
    def ignored(self) -> tuple[str, ...]:
        """The functions that no model knows, in words."""
        return tuple(
            f"{len(of):,} operations {f!r} are not judged" for f, of in self._others.items()
        )

    def take(self, op: dict[str, Any], line: int, complain: Complain) -> None:
        """Take one operation. Raises HistoryError for what cannot be, or contradicts another."""
        if self._model in _WRITES and op.get("f") is None:  # as in Elle's own histories
            op["f"] = "txn"
        process, f, kind = op.get("process"), op.get("f"), op["type"]
        if type(process) is not int or process not in _PROCESSES:
            process = self._named(op, complain)
            if process is None:
                return
        if not isinstance(f, str):
            raise complain("has no f: the name of what was done", "f")
        if f not in self._functions:
            self._others.setdefault(f, []).append((line, op))
            return
        begins, begun = kind == "invoke", self._open.pop(process, None)
        if begins:
            self._invoked.add(f)
            if begun is not None:
                raise complain(
                    f"process {op['process']} invokes {f} while its {begun.f} of line {begun.line} "
                    "is open: a process does one thing at a time",
                    "process",
                )
        elif begun is None:
            self._strays.setdefault(f, (line, kind))
        elif begun.f != f:
            raise complain(f"completes {f}, but line {begun.line} invoked {begun.f}", "f")
        fields = self._fields(op, begun, complain)
        time_ns = self._rows.time(op.get("time"), complain)
        if begins:
            self._open[process] = _Begun(line, f, fields, len(self._rows), time_ns)
        if f == "add":
            if begins or begun is None:
                self._adds.extend((line, fields.value, self._rows.partition(fields.key)))
            if not begins:
                self._added[fields.key] = line
                if fields.key in self.reads:
                    self.reads[fields.key].final = None
        elif self._model == LOG.name:
            if fields.elements is not None:
                since = begun.line if begun else line
                read = self.reads.setdefault(fields.key, _Read(fields.elements))
                read.last = fields.elements
                if since > self._added.get(fields.key, 0):
                    read.final = read.last
                self._rows.partition(fields.key)
            return
        if begun is not None and fields.key != begun.fields.key:
            self._rows.name(begun.row, fields.key)
        error = op.get("error")
        if error is None and kind != "ok" and _is_keyword(op.get("value")):
            error = op["value"]
        began_ns = time_ns if begun is None else begun.time_ns
        self._rows.add(process, op, fields, error, began_ns)

    def _named(self, op: dict[str, Any], complain: Complain) -> int | None:
        """The number of a process that is not a number; `None` where that is no client."""
        process, f = op.get("process"), op.get("f")
        if not isinstance(f, str) or f not in _KNOWN or "nemesis" in str(process).lower():
            return None
        name = repr(process)
        number = self._names.get(name, _PROCESSES[-1 - len(self._names)])
        if op["type"] == "info" and number not in self._open:
            return None
        if f == "add" and not isinstance(process, str):
            raise complain(f"{process!r:.80} is not a process number", "process")
        return self._names.setdefault(name, number)

    def _fields(self, op: dict[str, Any], begun: _Begun | None, complain: Complain) -> _Fields:
        """What an operation says, with what its invocation says where it says nothing."""
        f, kind = op["f"], op["type"]
        if self._model == TRANSACTION.name:
            return self._transaction(op, begun, complain)
        if self._model in _WRITES:
            return self._elle(op, begun, complain)
        if self._model == QUEUE.name:
            return self._of_queue(op, begun, complain)
        key, given = op.get("key"), op.get("value")
        if type(given) is list and len(given) == 2 and _has_key(f, given, self._model):
            key, given = given
        key = _key(key)
        if begun is not None:
            invoked = begun.fields
            if key is None:
                key = invoked.key
            elif key != invoked.key and not (f == "read" and invoked.key is None):
                raise complain(
                    f"the key {key} is not {invoked.key}, which line {begun.line} invoked", "key"
                )
        if f == "read":
            if kind != "ok":
                return _Fields(key)
            if self._model == REGISTER.name:
                return _Fields(key, result=NULL if given is None else _held(given, complain))
            return _Fields(key, elements=_listed(given, complain))
        if begun is not None:
            alike = type(given) is type(invoked.given)
            if given is None or _is_keyword(given) or (alike and given == invoked.given):
                return invoked
            if alike:
                raise complain(
                    f"the value {given!r:.80} is not {invoked.given!r:.80}, which line "
                    f"{begun.line} invoked",
                    "value",
                )
        if f == "cas":
            if type(given) is not list or len(given) != 2:
                raise complain("the value of a cas is [expected, new]", "value")
            expected = NULL if given[0] is None else _held(given[0], complain)
            return _Fields(key, given, _held(given[1], complain), expected)
        if self._model == REGISTER.name:
            return _Fields(key, given, _held(given, complain))
        return _Fields(key, given, integer(given, "value", complain))

    def _of_queue(self, op: dict[str, Any], begun: _Begun | None, complain: Complain) -> _Fields:
        """An element that is put in, or what came out. An element may be a text."""
        f, given = op["f"], op.get("value")
        if f == "enqueue":
            if begun is not None and (given is None or _is_keyword(given)):
                return begun.fields
            number = self._number(given, complain)
            if begun is not None and number != begun.fields.value:
                raise complain(f"the value {given!r:.80} is not that of line {begun.line}", "value")
            return _Fields(given=given, value=number)
        if op["type"] != "ok":
            return _Fields()
        if f == "dequeue":
            return _Fields(result=NULL if given is None else self._number(given, complain))
        if not isinstance(given, list):
            raise complain("the value of an ok drain is a list", "value")
        return _Fields(elements=np.array([self._number(v, complain) for v in given], np.int64))

    def _transaction(self, op: dict[str, Any], begun: _Begun | None, complain: Complain) -> _Fields:
        """The micro-operations of a transaction, or the keys that a process polls from then on."""
        given, f, numbers = op.get("value"), op["f"], list[int]()
        if given is None or _is_keyword(given) or f not in _TRANSACTIONS | _ASSIGNING:
            return _Fields()
        if not isinstance(given, list):
            raise complain(f"{given!r:.80} is not a list", "value")
        if f in _ASSIGNING:
            for key in given:
                numbers += ASSIGNED, self._log(key, complain), NULL, NULL
            return _Fields(elements=np.array(numbers, np.int64))
        for micro in given:
            match micro:
                case ["send", key, [offset, value]]:
                    numbers += SEND, self._log(key, complain), _offset(offset, complain)
                    numbers.append(self._number(value, complain))
                case ["send", key, value] if not isinstance(value, list):
                    numbers += SEND, self._log(key, complain), NULL, self._number(value, complain)
                case ["poll"] | ["poll", None]:
                    pass
                case ["poll", Mapping() as logs]:
                    for key, pairs in logs.items():
                        number = self._log(key, complain, in_object=True)
                        for pair in pairs or ():
                            if not isinstance(pair, list) or len(pair) != 2:
                                raise complain(
                                    f"{pair!r:.80} is not [offset, value], which a poll returns",
                                    "value",
                                )
                            numbers += POLL, number, _offset(pair[0], complain)
                            numbers.append(self._number(pair[1], complain))
                case _:
                    raise complain(f"{micro!r:.80} is not one: {_FORM}", "value")
        sends = [
            (numbers[at + 1], numbers[at + 3])
            for at in range(0, len(numbers), WIDTH)
            if numbers[at] == SEND
        ]
        if op["type"] == "ok" and begun and not _are_filled_in(begun.fields.given, sends):
            raise complain(f"sends other values than line {begun.line} invoked", "value")
        for event in op.get("rebalance-log") or ():
            for key in (event.get("keys") if isinstance(event, dict) else None) or ():
                numbers += REBALANCED, self._log(key, complain), NULL, NULL
        return _Fields(given=sends, elements=np.array(numbers, np.int64))

    def _elle(self, op: dict[str, Any], begun: _Begun | None, complain: Complain) -> _Fields:
        """The micro-operations of a transaction on lists or registers; its value numbers it."""
        given, numbers = op.get("value"), list[int]()
        word, kind = _WRITES[self._model]
        own = len(self._rows) if begun is None else begun.fields.value
        if given is None or _is_keyword(given):
            return _Fields(value=own)
        for micro in given if isinstance(given, list) else [given]:
            match micro:
                case ["r", key] | ["r", key, _] if op["type"] != "ok":
                    numbers += READ, self._log(key, complain), NULL, NULL
                case ["r", key, list() as found] if word == "append":
                    read = [self._number(each, complain) for each in found]
                    numbers += micro_ops.read_of(self._log(key, complain), read)
                case ["r", key] | ["r", key, None]:
                    numbers += micro_ops.read_of(self._log(key, complain), None)
                case ["r", key, value] if word == "w":
                    number = self._number(value, complain)
                    numbers += micro_ops.read_of(self._log(key, complain), number)
                case [str(f), key, value] if f == word:
                    numbers += kind, self._log(key, complain), NULL, self._number(value, complain)
                case _:
                    raise complain(
                        f'{micro!r:.80} is not ["{word}", key, value] or ["r", key, value]', "value"
                    )
        return _Fields(value=own, elements=np.array(numbers, np.int64))

    def _log(self, key: Any, complain: Complain, *, in_object: bool = False) -> int:
        """The number of a log's key; of one in an object that JSON writes as an integer, a number
        that stands for it until all keys are known."""
        if in_object and isinstance(key, str) and _INTEGER.fullmatch(key) and abs(int(key)) < TEXT:
            return self._unsure.setdefault(key, _UNSURE + len(self._unsure))
        self._typed |= in_object and not isinstance(key, str)
        number = self._number(key, complain)
        self._keys.add(key)
        return number

    def _number(self, value: Any, complain: Complain) -> int:
        if type(value) is int and -TEXT < value < TEXT:
            return value
        if isinstance(value, str):
            return TEXT + self.texts.setdefault(value, len(self.texts))
        raise complain(f"{value!r:.80} is neither an integer nor a text", "value")

    def end(self, file: Path) -> None:
        """Raise HistoryError for what only the complete file shows to be wrong."""
        for f, (line, kind) in self._strays.items():
            if f in self._invoked or self._model == REGISTER.name:
                raise complaint(file, line)(
                    f"the {kind} {f} completes and was never invoked", "type"
                )
        self._refuse_others(file)
        lines, values, partitions = np.array(self._adds).reshape(-1, 3).T
        order = np.lexsort((values, partitions))
        again = (np.diff(values[order]) == 0) & (np.diff(partitions[order]) == 0)
        if again.any():
            row = int(order[1:][again].min())
            raise HistoryError(
                f"the value {values[row]} is added twice",
                file=f"{file}:{lines[row]}",
                key="value",
                hint="give every add its own value",
            )
        if None in self.reads and None not in self._added and self._added:
            raise HistoryError(
                "adds have keys, and a read has none",
                file=str(file),
                key="key",
                hint="name the key of each read: one that no add has is read as another log",
            )
        for name, number in self._unsure.items():
            is_text = self._typed or name in self._keys
            if is_text and not self._typed and int(name) in self._keys:
                raise HistoryError(
                    f"the keys {name} and {name!r} are the same in an object of JSON: a poll's",
                    file=str(file),
                    key="value",
                    hint="write the history as EDN",
                )
            known = TEXT + self.texts.setdefault(name, len(self.texts)) if is_text else int(name)
            self._rows.replace(number, known)

    def _refuse_others(self, file: Path) -> None:
        """Raise HistoryError for operations that another model has, and where no others are."""
        for f, ((line, op), *_) in self._others.items():
            judged = [MODELS[each].check for each in MODELS_OUTSIDE if f in _FUNCTIONS[each]]
            holds = f"operations {f!r}"
            if f in _TRANSACTIONS and isinstance(op.get("value"), list):
                did = {str(micro[0]) for micro in op["value"] if isinstance(micro, list) and micro}
                holds = f"transactions of {' and '.join(sorted(did))}"
                judged = [MODELS[each].check for each, words in _WORDS.items() if did <= words]
            if judged or f in _TRANSACTIONS or not len(self._rows):
                raise HistoryError(
                    f"holds {holds}: the model {self._model} has "
                    f"{', '.join(sorted(self._functions))}",
                    file=f"{file}:{line}",
                    key="f",
                    hint=f"use --checker {' or '.join(judged)}"
                    if judged
                    else "no checker of ackloss judges them yet",
                )


def _has_key(f: str, given: list[Any], model: str) -> bool:
    """Whether a pair is a key with a value."""
    if f == "cas":
        return not isinstance(given[1], int)
    return f != "read" or model == REGISTER.name or given[1] is None or type(given[1]) is list


def _are_filled_in(invoked: list[tuple[int, int]] | None, sends: list[tuple[int, int]]) -> bool:
    """Whether an answer may belong to these sends: it has the same keys, and the same values but
    for an integer in whose place the answer has a text, or the other way round."""
    return invoked is None or (
        [key for key, _ in invoked] == [key for key, _ in sends]
        and all(
            a == b or (a < TEXT) != (b < TEXT)
            for (_, a), (_, b) in zip(invoked, sends, strict=True)
        )
    )


def _key(key: Any) -> str | None:
    """The name of a key: a text as it is, unless JSON would read something else there."""
    if key is None:
        return None
    if isinstance(key, str):
        with suppress(orjson.JSONDecodeError):
            orjson.loads(key)
            return orjson.dumps(key).decode()
        return key
    return _json(key)


def _json(value: Any) -> str:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def _is_keyword(value: Any) -> bool:
    """Whether a text stands where a value should: why there is none."""
    return isinstance(value, str) and not _INTEGER.fullmatch(value)


def _held(value: Any, complain: Complain) -> int:
    """What a register holds. Raises HistoryError for the number that stands for null here."""
    if value == NULL:
        raise complain(f"{value} stands for no value: no register holds it", "value")
    return integer(value, "value", complain)


def _listed(values: Any, complain: Complain) -> Ints:
    """The values that an `ok` read returned."""
    if not isinstance(values, list):
        raise complain("the value of an ok read is a list", "value")
    try:
        if set(map(type, values)) <= {int}:  # a comparison would let true pass for 1
            return np.array(values, np.int64)
    except OverflowError:
        pass
    return np.array([integer(value, "value", complain) for value in values], np.int64)


def _offset(offset: Any, complain: Complain) -> int:
    if offset is None:
        return NULL
    if type(offset) is not int or not 0 <= offset < TEXT:
        raise complain(f"{offset!r:.80} is not an offset", "value")
    return offset


class _Rows:
    """Rows of HISTORY, integers in _COLUMNS; those of a log are written as a part whenever there
    are many."""

    def __init__(self, model: str, parts: ParquetWriter) -> None:
        self.timed = True
        self.partitions: dict[str | None, int] = {}
        self._is_log, self._parts = model == LOG.name, parts
        self._texts: dict[str, dict[str | None, int]] = {
            name: {None: -1} for name in ("f", "key", "error")
        }
        self._f, self._key, self._error = self._texts.values()
        self._count = self._time_ns = 0
        self._rows, self._elements = array("q"), array("q")

    def __len__(self) -> int:
        return self._count + len(self._rows) // len(_COLUMNS)

    def partition(self, key: str | None) -> int:
        """The number of a log."""
        return self.partitions.setdefault(key, len(self.partitions))

    def time(self, value: Any, complain: Complain) -> int:
        """The time of an operation; that of the one before where it has none."""
        if value is None:
            self.timed = False
        elif abs(integer(value, "time", complain)) >= _NO_TIME_NS:
            raise complain(f"{value} is not a time: nanoseconds, below 2^62", "time")
        else:
            self._time_ns = value
        return self._time_ns

    def add(
        self, process: int, op: dict[str, Any], fields: _Fields, error: Any, began_ns: int
    ) -> None:
        """Append one row, of an operation whose time was taken last."""
        key, _, value, expected, result, elements = fields
        if error is not None and not isinstance(error, str):
            error = _json(error)
        if elements is not None:
            self._elements.frombytes(elements.tobytes())
        index, f, names = op.get("index"), self._f, self._key
        self._rows.extend(
            (
                *(process, _TYPES[op["type"]], value, expected, result, began_ns, self._time_ns),
                -1 if index is None else index,
                self.partition(key) if self._is_log else NULL,
                f.setdefault(op["f"], len(f) - 1),
                names.setdefault(key, len(names) - 1),
                self._error.setdefault(error, len(self._error) - 1),
                len(self._elements),
                elements is None,
            )
        )
        if self._is_log and len(self._rows) == _PART_ROWS * len(_COLUMNS):
            self.flush()

    def name(self, row: int, key: str | None) -> None:
        """Name the key of a row that left it to its answer."""
        code = self._key.setdefault(key, len(self._key) - 1)
        self._rows[row * len(_COLUMNS) + _COLUMNS.index("key")] = code

    def replace(self, number: int, key: int) -> None:
        """Put another key in the place of a number that stands for it."""
        if self._elements:
            keys = np.frombuffer(self._elements, np.int64).reshape(-1, WIDTH)[:, 1]
            keys[keys == number] = key

    def flush(self) -> None:
        if not self._rows:
            return
        rows = np.array(self._rows).reshape(-1, len(_COLUMNS))
        columns = dict(zip(_COLUMNS, rows.T, strict=True))
        index, absent = columns.pop("index"), columns.pop("absent") != 0
        numbered = not self._is_log and bool((index >= 0).all() and (np.diff(index) > 0).all())
        stops = pa.array(
            np.append(0, columns.pop("stop")), pa.int32(), mask=np.append(absent, False)
        )
        table = {
            "index": pa.array(index if numbered else np.arange(len(rows)) + self._count),
            "type": _named(columns.pop("type"), TYPES),
            "elements": pa.ListArray.from_arrays(stops, pa.array(np.array(self._elements))),
        }
        for name, codes in self._texts.items():
            texts = [APPEND if self._is_log and text == "add" else text for text in codes]
            table[name] = _named(columns.pop(name), texts[1:])
        for name, column in columns.items():
            null = column == NULL if name != "value" or not self._is_log else None
            table[name] = pa.array(column, HISTORY.field(name).type, mask=null)
        self._parts.write(pa.table(table))
        self._count += len(rows)
        self._rows, self._elements = array("q"), array("q")


def _named(codes: Ints, names: Sequence[str | None]) -> pa.DictionaryArray:
    """Texts by their codes; below 0 is null."""
    places = pa.array(codes, pa.int32(), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(places, pa.array(names, pa.string()))
