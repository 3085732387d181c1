"""The trend over campaigns: each cell with its counts and shares in every campaign that has it."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.comparison.model import Side, Trend, TrendPoint
from analysis.comparison.sampled import InTrend, Key
from analysis.statistics.cells import lossy_share, median_and_max
from analysis.statistics.samples import Sample


def trend(campaigns: Iterable[InTrend[Key]]) -> list[Trend]:
    """Every cell over all campaigns that have it, in their order; the cells of the last campaign
    come first."""
    every = list(campaigns)
    names: dict[Key, str] = {}
    for campaign in reversed(every):
        for key, cell in campaign.cells.items():
            names.setdefault(key, cell.name)
    return [
        Trend(
            name=name,
            campaigns=[
                TrendPoint(campaign=place, **vars(side_of(campaign.samples[key])))
                for place, campaign in enumerate(every)
                if key in campaign.samples
            ],
        )
        for key, name in names.items()
    ]


def side_of(sample: Sample) -> Side:
    """The counts and the share of a sample."""
    return Side(
        runs=sample.runs,
        judged=sample.lossy.whole,
        conclusive=sample.lossy.whole,
        lossy=sample.lossy.part,
        inconclusive=sample.others.whole,
        inconclusive_lossy=sample.others.part,
        verdicts=dict(sample.verdicts),
        lossy_share=lossy_share(sample),
        loss_rate=median_and_max(sample.loss_rate),
    )
