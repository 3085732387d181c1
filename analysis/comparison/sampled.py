"""One campaign as the comparison reads it: its samples by cell, and the conditions of its runs."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from analysis.campaign import by_cell_of, metadata_of, refuse_mixed, results_of, versions_of
from analysis.statistics.samples import Sample, sample_of
from harness.campaigns.folder import CampaignDir
from harness.campaigns.plan import Campaign, Cell
from harness.campaigns.progress import Progress, Run
from harness.protocols.any_client import EXEC

CellId = frozenset[tuple[str, str]]
"""A cell's key, regardless of the order of its axes."""
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class CampaignSummary:
    """An entry of `campaigns[]`. `runs` are results; `executions` counts a shared run once."""

    id: str
    folder: str
    name: str
    plan_hash: str
    started: str | None
    ended: str | None
    workers: int | None
    runs: int
    executions: int
    versions: Mapping[str, Sequence[str]]
    simulated: bool = False
    clients: Sequence[str] = ()
    """The commands of the user's clients (`--client`), for plans that have such."""


class Named(Protocol):
    """A cell, as far as a trend names it."""

    @property
    def name(self) -> str: ...


class InTrend(Protocol[Key]):
    """A campaign as far as a trend shows it: its samples by what identifies a cell. One whose
    folder is gone comes from a lake (`analysis.lake.campaigns`)."""

    @property
    def cells(self) -> Mapping[Key, Named]: ...

    @property
    def samples(self) -> Mapping[Key, Sample]: ...

    def summary(self) -> CampaignSummary:
        """The campaign as the document names it."""
        ...


@dataclass(frozen=True)
class SampledCampaign:
    """A campaign with the runs that it has so far."""

    folder: CampaignDir
    campaign: Campaign
    progress: Progress
    cells: Mapping[CellId, Cell]
    samples: Mapping[CellId, Sample]
    versions: Mapping[str, Sequence[str]]
    clients: Sequence[str] = ()

    @property
    def id(self) -> str:
        return self.folder.path.resolve().name

    def summary(self) -> CampaignSummary:
        """The campaign as the document names it."""
        return CampaignSummary(
            id=self.id,
            folder=str(self.folder.path),
            name=self.campaign.plan.name,
            plan_hash=self.campaign.digest,
            started=self.progress.started,
            ended=self.progress.ended,
            workers=self.progress.workers,
            runs=sum(sample.runs for sample in self.samples.values()),
            executions=self.progress.executed,
            versions=dict(self.versions),
            simulated=self.campaign.simulated,
            clients=self.clients,
        )


def sampled(folder: CampaignDir) -> SampledCampaign:
    """Read a campaign. Raises HistoryError or PlanError when its folder cannot be read."""
    campaign, progress = folder.campaign(), folder.progress()
    results = list(results_of(folder, progress))
    refuse_mixed(folder, campaign, results)
    by_cell = by_cell_of(campaign, results)
    cells = {frozenset(cell.key.items()): cell for cell in campaign.possible}
    return SampledCampaign(
        folder,
        campaign,
        progress,
        cells,
        {key: sample_of(by_cell[cell.name]) for key, cell in cells.items()},
        versions_of(folder, (run for run, _ in results)),
        _clients(folder, campaign, [run for run, _ in results]),
    )


def _clients(folder: CampaignDir, campaign: Campaign, runs: Sequence[Run]) -> list[str]:
    """The commands of the user's clients, as the metadata of the runs names them."""
    if all(cell.resolved.plan.workload.client != EXEC for cell in campaign.possible):
        return []
    return sorted({metadata_of(folder, run).own_client or "not recorded" for run in runs})
