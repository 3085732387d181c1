"""Operations of transactions on logs from outside, as Jepsen's workload `kafka` writes them.

    txn, send, poll    the value is a list of micro-operations:
                       ["send", key, value], answered ["send", key, [offset, value]];
                       ["poll"], answered ["poll", {key: [[offset, value], ...], ...}]
    assign, subscribe  the value is the list of keys that the process polls from then on
    rebalance-log      beside the value: [{"keys": [key, ...]}, ...], what was reassigned

An offset may be null: it is not known. Keys and values are integers or texts. A key that is written
as JSON writes an integer is a number (JSON has no other keys of objects): "1" is 1, "01" is a text.
All become the micro-operations of `harness.models.micro_ops`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from checkers.judging.json_rows import Rows
from harness.history.json_lines import Complain
from harness.models.micro_ops import ASSIGNED, POLL, REBALANCED, SEND, TEXT
from harness.protocols import NULL

_ASSIGNING: Final = frozenset({"assign", "subscribe"})
_TRANSACTIONS: Final = frozenset({"txn", "send", "poll"})
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_FORM: Final = 'a micro-operation is ["send", key, value], ["poll"] or ["poll", {key: pairs}]'


def take_transaction(rows: Rows, op: dict[str, Any], complain: Complain) -> None:
    """Take the micro-operations of an operation. Raises HistoryError for anything else."""
    value = op.get("value")
    if op["f"] in _TRANSACTIONS and value is not None:
        numbers = list(_Numbers(rows.texts, complain).of(op))
    elif op["f"] in _ASSIGNING and value is not None:
        taken = _Numbers(rows.texts, complain)
        numbers = [
            n for key in _list(value, complain) for n in (ASSIGNED, taken.key(key), NULL, NULL)
        ]
    else:
        return
    rows.list(np.array(numbers, np.int64))


def _list(value: Any, complain: Complain) -> list[Any]:
    if not isinstance(value, list):
        raise complain(f"{value!r:.80} is not a list", "value")
    return value


class _Numbers:
    """The integers of an operation; `texts` are numbered as they come."""

    def __init__(self, texts: dict[str, int], complain: Complain) -> None:
        self._texts = texts
        self._complain = complain

    def of(self, op: dict[str, Any]) -> Iterator[int]:
        """Those of a transaction."""
        for micro in _list(op["value"], self._complain):
            match micro:
                case ["send", key, [offset, value]]:
                    yield from (SEND, self.key(key), self._offset(offset), self._number(value))
                case ["send", key, value] if not isinstance(value, list):
                    yield from (SEND, self.key(key), NULL, self._number(value))
                case ["poll"] | ["poll", None]:
                    pass
                case ["poll", Mapping() as logs]:
                    yield from self._polled(logs)
                case _:
                    raise self._complain(f"{micro!r:.80} is not one: {_FORM}", "value")
        for event in op.get("rebalance-log") or ():
            keys = event.get("keys") if isinstance(event, dict) else None
            for key in keys or ():
                yield from (REBALANCED, self.key(key), NULL, NULL)

    def _polled(self, logs: Mapping[str, Any]) -> Iterator[int]:
        for key, pairs in logs.items():
            number = self.key(key)
            for pair in pairs or ():
                match pair:
                    case [offset, value]:
                        yield from (POLL, number, self._offset(offset), self._number(value))
                    case _:
                        raise self._complain(
                            f"{pair!r:.80} is not [offset, value], which a poll returns", "value"
                        )

    def key(self, key: Any) -> int:
        """The number of a key."""
        if isinstance(key, str) and _INTEGER.fullmatch(key) and abs(int(key)) < TEXT:
            return self._number(int(key))
        return self._number(key)

    def _offset(self, offset: Any) -> int:
        if offset is None:
            return NULL
        if type(offset) is not int or not 0 <= offset < TEXT:
            raise self._complain(f"{offset!r:.80} is not an offset", "value")
        return offset

    def _number(self, value: Any) -> int:
        if type(value) is int and -TEXT < value < TEXT:
            return value
        if isinstance(value, str):
            return TEXT + self._texts.setdefault(value, len(self._texts))
        raise self._complain(f"{value!r:.80} is neither an integer nor a text", "value")
