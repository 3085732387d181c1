"""What the loss checker counts, and the rates that the 2013 experiment printed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How many values of one run, by truth rule 4, in the words of result.json."""

    attempted: int = 0
    acknowledged: int = 0
    sent: int = 0
    failed: int = 0
    unknown: int = 0
    survivors: int = 0
    lost: int = 0
    unacknowledged_found: int = 0
    failed_found: int = 0
    unknown_found: int = 0
    duplicates: int = 0
    duplicates_acknowledged: int = 0
    duplicates_unknown: int = 0
    unexpected: int = 0
    not_yet_visible: int = 0
    deleted: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(**{name: n + getattr(other, name) for name, n in vars(self).items()})

    @property
    def findings(self) -> int:
        """How many rows the findings have: one for each value of a kind (`deleted` are lost)."""
        absent = self.lost + self.not_yet_visible
        return absent + self.failed_found + self.duplicates + self.unexpected


def rates(counts: Counts) -> dict[str, float | None]:
    """Truth rule 5: the three rates of the 2013 experiment, then the last one split by how the
    found writes had ended, and over the unacknowledged attempts. Null where there is nothing to
    divide by."""
    acknowledged = counts.acknowledged
    return {
        "ack": _share(acknowledged, counts.attempted),
        "loss": _share(counts.lost, acknowledged),
        "unacknowledged_success": _share(counts.unacknowledged_found, acknowledged),
        "failed_success": _share(counts.failed_found, acknowledged),
        "unknown_success": _share(counts.unknown_found, acknowledged),
        "unacknowledged_success_of_unacknowledged": _share(
            counts.unacknowledged_found, counts.attempted - acknowledged
        ),
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
