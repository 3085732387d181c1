"""One number for each of very many values, in as few bytes as the numbers need."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from harness.protocols import NULL, Bools, Ints

_TYPES: Final = (np.int8, np.int16, np.int32, np.int64)


class Narrow:
    """`size` numbers, none of which is known at first (NULL); those from `dtype` on that hold all
    that were put here, as wide as int64."""

    def __init__(self, size: int, dtype: type[np.signedinteger[Any]]) -> None:
        self._numbers: npt.NDArray[np.signedinteger[Any]] = np.full(
            size, np.iinfo(dtype).min, dtype
        )

    def put(self, places: Ints, numbers: Ints) -> None:
        """Note numbers, or NULL, at these places; of several for one, the last."""
        if not numbers.size:
            return
        known = numbers != NULL
        least = int(numbers.min(initial=0, where=known))
        self._widen(least, int(numbers.max(initial=0, where=known)))
        nothing = self._nothing
        self._numbers[places] = numbers if known.all() else np.where(known, numbers, nothing)

    def lacks(self, places: Ints) -> Bools:
        """At which of these places no number is known."""
        lacking: Bools = self._numbers[places] == self._nothing
        return lacking

    def holds(self, places: Ints, numbers: Ints) -> Bools:
        """At which of these places these very numbers, none of which is NULL, stand."""
        held: Bools = self._numbers[places] == numbers
        return held

    @property
    def _nothing(self) -> int:
        return int(np.iinfo(self._numbers.dtype).min)

    def _widen(self, least: int, most: int) -> None:
        for kind in _TYPES:
            fits = np.iinfo(kind).min < least and most <= np.iinfo(kind).max
            if fits or kind is np.int64:
                if np.dtype(kind).itemsize > self._numbers.itemsize:
                    lacking = self._numbers == self._nothing
                    self._numbers = self._numbers.astype(kind)
                    self._numbers[lacking] = self._nothing
                return
