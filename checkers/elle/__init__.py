"""The checkers of transactions of reads and appends, or reads and writes, by Elle's definitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from harness.models import LIST_APPEND, RW_REGISTER
from harness.protocols import DOUBTS, CheckResult, Count, OneShard, Run, Statement
from harness.protocols.runs import INVOKED, OK


@dataclass(frozen=True)
class _Elle(OneShard[Any]):
    title: ClassVar[str] = "Transactions"
    counts: ClassVar[tuple[Count, ...]] = (
        Count("attempted", "transactions"),
        Count("acknowledged", "committed"),
    )

    def gather(self, run: Run) -> Any:
        marks = [part.mark for part in run.operations()]
        return np.concatenate([np.empty(0, np.uint8), *marks])

    def judge(self, run: Run, marks: Any) -> CheckResult:
        return CheckResult(
            counts={
                "attempted": int((marks == INVOKED).sum()),
                "acknowledged": int((marks == OK).sum()),
            },
            doubts=(Statement(DOUBTS.undecided, "nothing is judged yet"),),
        )


@dataclass(frozen=True)
class ListAppendChecker(_Elle):
    """Transactions that append to lists and read them."""

    plugin: ClassVar[str] = "list-append"
    models: ClassVar[frozenset[str]] = frozenset({LIST_APPEND.name})


@dataclass(frozen=True)
class RwRegisterChecker(_Elle):
    """Transactions that write registers and read them."""

    plugin: ClassVar[str] = "rw-register"
    models: ClassVar[frozenset[str]] = frozenset({RW_REGISTER.name})
