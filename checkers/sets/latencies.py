"""Latencies as a histogram of nanoseconds: exact, and exact again when shards are merged."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.protocols.runs import NULL, Ints

POINTS: Final = ("0", "0.5", "0.95", "0.99", "1")
"""The quantiles that Jepsen's set-full gives, as it names them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Latencies:
    """How many elements (`number`) took how long (`ns`, ascending, no two equal)."""

    ns: Ints
    number: Ints

    @classmethod
    def of(cls, latencies_ns: Ints) -> Latencies:
        """The histogram of a column; NULL is left out."""
        ns, number = np.unique(latencies_ns[latencies_ns != NULL], return_counts=True)
        return cls(ns=ns, number=number)

    def quantiles_ns(self) -> dict[str, int]:
        """By quantile, the latency at place floor(quantile x number) of all in order, as Jepsen
        has it; empty if there are none."""
        total, places = int(self.number.sum()), np.cumsum(self.number)
        if not total:
            return {}
        chosen = [min(total - 1, math.floor(total * float(point))) for point in POINTS]
        at = np.searchsorted(places, chosen, side="right")
        return dict(zip(POINTS, self.ns[at].tolist(), strict=True))

    def quantiles_ms(self) -> dict[str, float]:
        """The same in milliseconds, to the microsecond."""
        return {point: round(ns / 1e6, 3) for point, ns in self.quantiles_ns().items()}


def merged(latencies: Iterable[Latencies]) -> Latencies:
    """The histogram of all of these elements."""
    parts = list(latencies)
    empty = np.empty(0, np.int64)
    ns, at = np.unique(np.concatenate([empty, *(part.ns for part in parts)]), return_inverse=True)
    number = np.zeros(len(ns), np.int64)
    np.add.at(number, at, np.concatenate([empty, *(part.number for part in parts)]))
    return Latencies(ns=ns, number=number)
