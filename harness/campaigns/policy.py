"""What a campaign's policy makes of its runs: which cells break it, which say nothing, and so the
exit code. Nothing conclusive is never green: a policy that nothing was tested by is not kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harness.campaigns.plan import Policy

KEPT, BROKEN, SILENT = 0, 1, 3
"""Exit codes of a campaign that came to its end."""

_NOTHING: Final = "no run of the campaign is conclusive"


@dataclass(frozen=True)
class Tally:
    """The runs of one cell: how many were seen to be `invalid`, how many are conclusive, and how
    many of these are `invalid`."""

    invalid: int = 0
    conclusive: int = 0
    conclusive_invalid: int = 0


def breaking(policy: Policy, cells: Mapping[str, Tally]) -> set[str]:
    """The names of those cells that make the exit code 1; none where the policy is kept.

    A cell breaks it when more than the policy's share of its conclusive runs are `invalid`; with a
    share of 0 when any run is, conclusive or not: one counter-example is enough, and nothing can
    unlose a write.
    """
    lossy = {name for name, tally in cells.items() if _is_lossy(tally, policy.share)}
    told = {name for name, tally in cells.items() if tally.conclusive or name in lossy}
    if policy.fail_on == "never" or (policy.fail_on == "all" and lossy != told):
        return set()
    return lossy


def _is_lossy(tally: Tally, share: float) -> bool:
    if not share:
        return tally.invalid > 0
    return tally.conclusive_invalid > share * tally.conclusive


def silent(policy: Policy, cells: Mapping[str, Tally]) -> set[str]:
    """The names of those cells that make the exit code 3: a policy names every cell that can be
    played, so each without a conclusive run is one; without a policy (`fail_on = "never"`) all
    of them, and only where none has any."""
    without = {name for name, tally in cells.items() if not tally.conclusive}
    return without if policy.fail_on != "never" or len(without) == len(cells) else set()


def exit_code(policy: Policy, cells: Mapping[str, Tally]) -> int:
    """1 where the policy is broken, else 3 where it names a cell with nothing conclusive, else 0.

    A broken policy goes first: what was seen in one cell is not undone by silence in another.
    """
    if breaking(policy, cells):
        return BROKEN
    return SILENT if silent(policy, cells) else KEPT


def silence_in_words(policy: Policy, cells: Mapping[str, Tally]) -> str | None:
    """What is said of cells without a conclusive run; null where there is nothing to say."""
    names = [name for name in cells if name in silent(policy, cells)]
    if not names:
        return None
    if len(names) == len(cells):
        return f"{_NOTHING}: nothing is known of any cell"
    are = "1 cell has" if len(names) == 1 else f"{len(names)} cells have"
    return f"{are} no conclusive run, so nothing is known of {'; '.join(names)}"
