"""The campaigns of a lake that an overview shows, each once, in the order of their starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.lake.campaigns import StoredCampaign, in_order, originals
from analysis.lake.manifest import LakeCampaign
from analysis.lake.schema import CELLS
from analysis.lake.stored import StoredLake
from harness.errors import HistoryError, nearest


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A campaign that the lake has under a second name: the same plan, begun at the same time. It
    is not shown, as its runs would count twice."""

    campaign: str
    of: str


def chosen(lake: StoredLake, names: Sequence[str]) -> tuple[list[StoredCampaign], list[Copy]]:
    """The campaigns of these names, or all if none is named, and the copies that are left out.

    Raises HistoryError for a name that the lake does not have, if no run is finished, and where
    some are simulated and others are real.
    """
    requested = [_named(lake, name) for name in names] or lake.manifest.campaigns
    found = originals(requested)
    kept = in_order(list(found.values()))
    _refuse(lake, kept)
    copies = [
        Copy(campaign=each.id, of=first.id)
        for each in requested
        if (first := found[each.identity]).id != each.id
    ]
    return [StoredCampaign(lake, each) for each in kept], copies


def _named(lake: StoredLake, name: str) -> LakeCampaign:
    found = lake.manifest.campaign(name)
    if found is None:
        known = [each.id for each in lake.manifest.campaigns]
        near = nearest(name, known)
        raise HistoryError(
            f"has no campaign {name!r}",
            file=lake.place.shown,
            hint=f"did you mean {near!r}?" if near else f"it has: {', '.join(known) or 'none'}",
        )
    return found


def _refuse(lake: StoredLake, campaigns: Sequence[LakeCampaign]) -> None:
    if not any(each.rows(CELLS.name) for each in campaigns):
        raise HistoryError(
            "has no finished run", file=lake.place.shown, hint="add some by `ackloss lake build`"
        )
    if len({each.simulated for each in campaigns}) > 1:
        raise HistoryError(
            "has simulated and real campaigns, which never mix",
            file=lake.place.shown,
            hint="build two lakes",
        )
