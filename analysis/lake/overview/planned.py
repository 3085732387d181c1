"""The cells of campaigns, with what distinguishes one plan from another.

Cells of several campaigns are the same if their plans are: by `conditions`, or, of campaigns that
an earlier ackloss added, by `plan_digest`, which lakes have always had. The latter also differs
where only a name or a comment does, so it proves that two plans are the same and never that they
are not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from analysis.lake.campaigns import StoredCampaign
from analysis.lake.conditions import Conditions
from analysis.lake.outcomes import Key, StoredCell
from analysis.statistics.samples import Sample
from harness.campaigns.plan import cell_name

_USUAL_AXIS = "version"
"""The axis of versions, where the lake does not say which it is."""

Natural = tuple[tuple[bool, int, str], ...]


@dataclass(frozen=True)
class PlannedCell:
    """A cell of a campaign. `conditions` is `None` where it is not known which plan it ran."""

    campaign: StoredCampaign
    cell: StoredCell
    sample: Sample
    conditions: Conditions | None

    @property
    def name(self) -> str:
        """The cell in one line; those of a plan that holds several have their own names."""
        return cell_name(self.cell.key)

    @property
    def poolable(self) -> str | None:
        """Equal for cells whose runs may be counted together; `None`: with no other's."""
        return self.conditions.conditions if self.conditions else None

    @property
    def plan(self) -> str:
        """Equal for cells of one plan, as far as it is known."""
        return self.poolable or self.cell.plan_digest

    @property
    def series(self) -> tuple[str, Key]:
        """Equal for cells of one line of a trend: the plan, and the setting."""
        return self.plan, frozenset(self.cell.key.items())

    @property
    def row(self) -> tuple[str, Key]:
        """Equal for cells of one row of rates: plan and setting, both apart from the version."""
        return self.but_version, frozenset(self.other_axes.items())

    @property
    def but_version(self) -> str:
        """Equal for cells whose plans are the same apart from the version, as far as known."""
        if self.conditions:
            return self.conditions.conditions_but_version
        return f"campaign {self.campaign.campaign.plan_hash}"

    @property
    def version_axis(self) -> str | None:
        """The axis of its campaign that sets the version."""
        if self.conditions:
            return self.conditions.version_axis
        return _USUAL_AXIS if _USUAL_AXIS in self.cell.key else None

    @property
    def other_axes(self) -> dict[str, str]:
        """Its setting apart from the version."""
        return {axis: label for axis, label in self.cell.key.items() if axis != self.version_axis}

    @property
    def version_label(self) -> str | None:
        """The name of its version in its campaign; `None`: the version as it ran."""
        return self.cell.key[self.version_axis] if self.version_axis else None


def planned(campaigns: Sequence[StoredCampaign]) -> list[list[PlannedCell]]:
    """The cells of each campaign."""
    known: dict[tuple[str, Key], set[Conditions]] = {}
    for campaign in campaigns:
        for key, cell in campaign.cells.items():
            if cell.conditions:
                known.setdefault((cell.plan_digest, key), set()).add(cell.conditions)
    return [
        [
            PlannedCell(campaign, cell, campaign.samples[key], _conditions(cell, key, known))
            for key, cell in campaign.cells.items()
        ]
        for campaign in campaigns
    ]


def _conditions(
    cell: StoredCell, key: Key, known: dict[tuple[str, Key], set[Conditions]]
) -> Conditions | None:
    """The conditions of a cell; where they were not recorded, those of the same plan elsewhere."""
    if cell.conditions:
        return cell.conditions
    same = known.get((cell.plan_digest, key), set())
    return next(iter(same)) if len(same) == 1 else None


def natural(text: str) -> Natural:
    """A key for sorting: numbers by size, so 0.10.2 is after 0.9.0, and 4.3.1-elr after 4.3.1."""
    return tuple(
        (not part.isdecimal(), int(part) if part.isdecimal() else 0, part)
        for part in re.findall(r"\d+|\D+", text)
    )
