"""Campaigns as the lake has them, with the samples of their cells: what a trend is made of, without
their folders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from analysis.comparison.sampled import CampaignSummary
from analysis.lake.manifest import LakeCampaign
from analysis.lake.outcomes import Key, StoredCell, cells_of
from analysis.lake.schema import CELLS, RUNS
from analysis.lake.stored import StoredLake
from analysis.statistics.samples import Sample, sample_of
from harness.campaigns.folder import CampaignDir
from harness.errors import HistoryError

Versions = Mapping[str, str]
"""The versions of ackloss, the system and the clients in one run."""


@dataclass(frozen=True)
class StoredCampaign:
    """A campaign as the lake has it."""

    lake: StoredLake
    campaign: LakeCampaign

    @cached_property
    def cells(self) -> Mapping[Key, StoredCell]:
        """Its cells that have finished runs."""
        return cells_of(self.lake, self.campaign.id)

    @cached_property
    def samples(self) -> Mapping[Key, Sample]:
        """The sample of each cell."""
        return {key: sample_of(cell.outcomes) for key, cell in self.cells.items()}

    @cached_property
    def versions_of_runs(self) -> Mapping[str, Versions]:
        """The versions of each run, by its id."""
        rows = self.lake.rows(RUNS, ["run_id", "versions"], campaign=self.campaign.id)
        return {row["run_id"]: dict(row["versions"] or ()) for row in rows.to_pylist()}

    def summary(self) -> CampaignSummary:
        """The campaign as the document names it; its folder is the lake's."""
        return CampaignSummary(
            id=self.campaign.id,
            folder=self.lake.place.shown,
            name=self.campaign.name,
            plan_hash=self.campaign.plan_hash,
            started=self.campaign.started,
            ended=self.campaign.ended,
            workers=self.campaign.workers,
            runs=sum(sample.runs for sample in self.samples.values()),
            executions=len(self.versions_of_runs),
            versions=self._versions(),
            simulated=self.campaign.simulated,
        )

    def _versions(self) -> dict[str, list[str]]:
        found: dict[str, set[str]] = {}
        for versions in self.versions_of_runs.values():
            for name, version in versions.items():
                found.setdefault(name, set()).add(version)
        return {name: sorted(each) for name, each in sorted(found.items())}


def originals(campaigns: Iterable[LakeCampaign]) -> dict[object, LakeCampaign]:
    """The campaigns by their identities, each once: of several names that an earlier ackloss gave
    to one campaign, the one with the most rows."""
    found: dict[object, LakeCampaign] = {}
    for each in sorted(campaigns, key=lambda each: (-each.rows(CELLS.name), each.id)):
        found.setdefault(each.identity, each)
    return found


def in_order(campaigns: Sequence[LakeCampaign]) -> list[LakeCampaign]:
    """The campaigns in the order of their starts."""
    return sorted(campaigns, key=lambda each: each.started or "")


def earlier_than(lake: StoredLake, folders: Sequence[CampaignDir]) -> list[StoredCampaign]:
    """The campaigns of the lake that began before all of these folders' did, each once, the oldest
    first. One whose start is not known may be one of these, and is left out. Raises HistoryError
    where some are simulated and others are not."""
    begun = [each.progress().started for each in folders]
    first = min((at for at in begun if at is not None), default="")
    every = originals(lake.manifest.campaigns).values()
    older = [each for each in every if each.started is not None and each.started < first]
    if older and lake.simulated != folders[0].campaign().simulated:
        raise HistoryError(
            "simulated and real campaigns are not compared",
            file=lake.place.shown,
            hint="name the lake that these campaigns are in",
        )
    return [StoredCampaign(lake, each) for each in in_order(older)]
