"""The policy of a campaign: which cells break it, which have no conclusive run, and the exit code.

A cell without a conclusive run is never green: its policy was not tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.campaigns.plan import Policy

KEPT, BROKEN, INCONCLUSIVE = 0, 1, 3
"""Exit codes of a campaign that has ended."""


@dataclass(frozen=True)
class Tally:
    """The runs of one cell: how many are `invalid`, how many are conclusive, how many are both."""

    invalid: int = 0
    conclusive: int = 0
    conclusive_invalid: int = 0


def breaking(policy: Policy, cells: Mapping[str, Tally]) -> set[str]:
    """The names of the cells that make the exit code 1; none where the policy is kept.

    A cell breaks it when more than the policy's share of its conclusive runs are `invalid`; with a
    share of 0 when any run is, conclusive or not: one counter-example is enough, whatever else
    happened in the run.
    """
    lossy = {name for name, tally in cells.items() if _is_lossy(tally, policy.share)}
    judged = {name for name, tally in cells.items() if tally.conclusive or name in lossy}
    if policy.fail_on == "never" or (policy.fail_on == "all" and lossy != judged):
        return set()
    return lossy


def _is_lossy(tally: Tally, share: float) -> bool:
    if not share:
        return tally.invalid > 0
    return tally.conclusive_invalid > share * tally.conclusive


def inconclusive(policy: Policy, cells: Mapping[str, Tally]) -> set[str]:
    """The names of the cells that make the exit code 3: each cell without a conclusive run. Without
    a policy (`fail_on = "never"`) only where no cell has one."""
    without = {name for name, tally in cells.items() if not tally.conclusive}
    return without if policy.fail_on != "never" or len(without) == len(cells) else set()


def exit_code(policy: Policy, cells: Mapping[str, Tally]) -> int:
    """1 where the policy is broken, else 3 where a cell has no conclusive run, else 0.

    A broken policy takes precedence: an inconclusive cell does not cancel what another one shows.
    """
    if breaking(policy, cells):
        return BROKEN
    return INCONCLUSIVE if inconclusive(policy, cells) else KEPT


def inconclusive_in_words(policy: Policy, cells: Mapping[str, Tally]) -> str | None:
    """A sentence about the cells without a conclusive run; `None` if there are none."""
    names = [name for name in cells if name in inconclusive(policy, cells)]
    if not names:
        return None
    if len(names) == len(cells):
        return "no run of the campaign is conclusive: nothing is known of any cell"
    are = "1 cell has" if len(names) == 1 else f"{len(names)} cells have"
    return f"{are} no conclusive run, so nothing is known of {'; '.join(names)}"
