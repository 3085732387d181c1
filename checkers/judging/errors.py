"""The error codes with which unacknowledged writes of a run ended, and how many writes ended with
each.

Eight hundred unknown writes are one sentence; eight hundred INVALID_TIMESTAMP are an explanation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from harness.protocols import Operations, Writes
from harness.protocols.runs import FAIL, INFO, INVOKED

NO_CODE: Final = "NO_CODE"
"""The client named no code."""

NO_ANSWER: Final = "NO_ANSWER"
"""The write was begun, and the history does not show how it ended."""


@dataclass
class ErrorCodes:
    """Counts codes, part by part of a history."""

    _failed: Counter[str] = field(default_factory=Counter)
    _unknown: Counter[str] = field(default_factory=Counter)
    _open: int = 0

    def add(self, rows: Writes | Operations) -> None:
        """Count the completions of some writes."""
        begun = int((rows.mark == INVOKED).sum())
        self._open += begun - (len(rows.mark) - begun)
        _count(self._failed, rows, FAIL)
        _count(self._unknown, rows, INFO)

    def document(self) -> dict[str, dict[str, int]]:
        """`{"unknown": {code: writes}, "failed": {code: writes}}`, the most frequent first."""
        unknown = Counter(self._unknown)
        if self._open > 0:
            unknown[NO_ANSWER] += self._open
        return {"unknown": dict(unknown.most_common()), "failed": dict(self._failed.most_common())}


def _count(codes: Counter[str], rows: Writes | Operations, mark: int) -> None:
    places = rows.error.codes[rows.mark == mark]
    numbers = np.bincount(places + 1, minlength=1 + len(rows.error.names))
    for name, number in zip([NO_CODE, *rows.error.names], numbers.tolist(), strict=False):
        if number:
            codes[name] += number
