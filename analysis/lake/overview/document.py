"""Puts the overview together: groups of campaigns, each with its rates and its trend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.comparison.model import Trend
from analysis.comparison.sampled import CampaignSummary
from analysis.comparison.trend import trend
from analysis.lake.campaigns import StoredCampaign
from analysis.lake.outcomes import Key
from analysis.lake.overview import sentences
from analysis.lake.overview.chosen import chosen
from analysis.lake.overview.model import Group, Overview
from analysis.lake.overview.planned import PlannedCell, natural, planned
from analysis.lake.overview.pools import distinct, settings_of, tested
from analysis.lake.stored import StoredLake
from analysis.primary import of_checks
from analysis.statistics.samples import Sample
from harness.history.documents import RunResult

Series = tuple[str, Key]
"""A cell of one plan: the plan, and the setting."""


@dataclass(frozen=True)
class _Named:
    name: str


@dataclass(frozen=True)
class _InGroup:
    """A campaign as the trend of its group shows it."""

    campaign: StoredCampaign
    cells: Mapping[Series, _Named]
    samples: Mapping[Series, Sample]

    def summary(self) -> CampaignSummary:
        return self.campaign.summary()


def overview_of(lake: StoredLake, names: Sequence[str] = ()) -> Overview:
    """The overview of these campaigns of a lake, or of all. Raises HistoryError for a campaign that
    the lake does not have, a damaged lake, one without a finished run, and one that mixes simulated
    and real campaigns."""
    campaigns, copies = chosen(lake, names)
    cells = planned(campaigns)
    groups = [
        _group([campaigns[place] for place in places], [cells[place] for place in places])
        for places in _grouped(cells)
    ]
    found = Overview(
        lake=lake.place.shown,
        simulated=lake.simulated,
        campaigns=[each.summary() for each in campaigns],
        copies=copies,
        groups=tested(groups),
    )
    return replace(found, notes=sentences.notes(found))


def _grouped(cells: Sequence[Sequence[PlannedCell]]) -> list[list[int]]:
    """The places of campaigns that have a cell in common, apart from the version; directly, or by
    way of other campaigns."""
    groups: list[tuple[set[object], list[int]]] = []
    for place, mine in enumerate(cells):
        if not mine:
            continue
        places = [place]
        plans: set[object] = {key for cell in mine for key in (cell.row, cell.series)}
        others = []
        for group in groups:
            if group[0].isdisjoint(plans):
                others.append(group)
            else:
                plans, places = plans | group[0], [*group[1], *places]
        groups = [*others, (plans, places)]
    return sorted(sorted(places) for _, places in groups)


def _group(campaigns: Sequence[StoredCampaign], cells: Sequence[Sequence[PlannedCell]]) -> Group:
    every = [cell for mine in cells for cell in mine]
    settings = settings_of(every)
    labels = {at.version for row in settings for at in row.versions}
    return Group(
        campaigns=[each.campaign.id for each in campaigns],
        finding=of_checks(sorted({name for cell in every for name in _checks(cell)})),
        versions=sorted(labels, key=natural),
        settings=settings,
        trend=_trend(campaigns, cells),
        unpooled=[
            campaign.campaign.id
            for campaign, mine in zip(campaigns, cells, strict=True)
            if any(cell.poolable is None for cell in mine)
        ],
    )


def _checks(cell: PlannedCell) -> set[str]:
    """The first checks of its runs."""
    return {
        outcome.checks[0].name
        for outcome in cell.cell.outcomes
        if isinstance(outcome, RunResult) and outcome.checks
    }


def _trend(
    campaigns: Sequence[StoredCampaign], cells: Sequence[Sequence[PlannedCell]]
) -> list[Trend]:
    series = {cell.series: cell for mine in cells for cell in mine}
    times = Counter(cell.name for cell in series.values())
    names = {
        key: distinct(cell.name, cell.plan) if times[cell.name] > 1 else cell.name
        for key, cell in series.items()
    }

    def in_group(campaign: StoredCampaign, mine: Sequence[PlannedCell]) -> _InGroup:
        return _InGroup(
            campaign,
            {cell.series: _Named(names[cell.series]) for cell in mine},
            {cell.series: cell.sample for cell in mine},
        )

    lines = trend(in_group(*each) for each in zip(campaigns, cells, strict=True))
    return sorted(lines, key=lambda line: natural(line.name))
