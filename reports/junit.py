"""`junit.xml`: a campaign for CI systems, in the format of Jenkins (junit-4.xsd).

There is a test case for each cell and check. `loss`, whatever the primary finding is, fails if the
cell breaks the campaign's policy, and is an error if no run is conclusive (skipped while no run has
ended). `harness` is an error if runs failed without testing the cluster. The file is written again
after each run and must be cheap: every run is read once, and no interval is resampled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Final
from xml.etree import ElementTree as ET

from analysis.campaign import results_of, versions_of
from analysis.primary import of_campaign
from analysis.statistics.samples import (
    CLASSES,
    HARNESS_FAILURE,
    LOSS,
    WRONG,
    is_conclusive,
    verdict_class,
)
from analysis.statistics.shares import Share, share_in_words
from analysis.visible import visible
from analysis.wording import unit
from harness.campaigns.folder import CampaignDir
from harness.campaigns.plan import Campaign, Tally, breaking
from harness.campaigns.progress import Progress, Run
from harness.history.run_folder import write_atomically
from harness.protocols import PrimaryFinding
from reports import junit_xml as xml

_CHECKS: Final = ("loss", "harness")
_LISTED_FAILURES: Final = 10

_in_words = cache(share_in_words)


def write_junit(folder: CampaignDir) -> None:
    """Write the junit.xml of a campaign. Raises HistoryError or PlanError if it cannot be read,
    EnvironmentFailure if the file cannot be written."""
    Junit(folder, folder.campaign()).write()


@dataclass
class Junit:
    """A campaign's junit.xml, for repeated writing; the contents of each run are cached."""

    folder: CampaignDir
    campaign: Campaign
    _classes: dict[str, str] = field(default_factory=dict)
    _conclusive: set[str] = field(default_factory=set)
    _versions: dict[str, set[str]] = field(default_factory=dict)
    _unit: str = "run"

    @cached_property
    def _finding(self) -> PrimaryFinding:
        return of_campaign(self.campaign)

    def write(self, progress: Progress | None = None) -> None:
        """Write the file for this progress, by default that of the journal."""
        progress = progress or self.folder.progress()
        self._read_new(progress)
        write_atomically(self.folder.junit, xml.document(self._suite(progress)))

    def _read_new(self, progress: Progress) -> None:
        new = {
            run_id: run
            for run_id, run in progress.runs.items()
            if run.is_finished and run_id not in self._classes
        }
        for run, outcome in results_of(self.folder, Progress(runs=new)):
            self._classes[run.run_id] = verdict_class(outcome)
            if is_conclusive(outcome):
                self._conclusive.add(run.run_id)
        for name, versions in versions_of(self.folder, new.values()).items():
            self._versions.setdefault(name, set()).update(versions)

    def _suite(self, progress: Progress) -> ET.Element:
        self._unit = unit(progress.ended_runs, progress.executed)
        by_cell: dict[str, list[Run]] = {cell.name: [] for cell in self.campaign.cells}
        for run in progress.runs.values():
            if run.run_id in self._classes:
                by_cell.setdefault(run.cell, []).append(run)
        tallies = {cell.name: self._tally(by_cell[cell.name]) for cell in self.campaign.of_policy}
        broken = breaking(self.campaign.plan.policy, tallies)
        over = progress.ended is not None
        cases = [
            case
            for name, runs in by_cell.items()
            for case in (self._loss(name, runs, name in broken, over), self._harness(name, runs))
        ]
        suite = xml.element("testsuite", name=self.campaign.plan.name, **xml.totals(cases))
        if progress.started:
            suite.set("timestamp", progress.started[:19])
        suite.append(self._properties())
        suite.extend(cases)
        return suite

    def _properties(self) -> ET.Element:
        policy = self.campaign.plan.policy
        stated = {
            "campaign": self.campaign.plan.name,
            "plan_hash": self.campaign.digest,
            "simulated": str(self.campaign.simulated).lower(),
            "policy": f"{policy.fail_on}, share {policy.share:g}",
            **{f"version.{name}": ", ".join(sorted(v)) for name, v in self._versions.items()},
        }
        return xml.properties(stated)

    def _tally(self, runs: Sequence[Run]) -> Tally:
        invalid = {run.run_id for run in runs if self._classes[run.run_id] in (LOSS, WRONG)}
        conclusive = {run.run_id for run in runs} & self._conclusive
        return Tally(len(invalid), len(conclusive), len(invalid & conclusive))

    def _loss(self, name: str, runs: Sequence[Run], is_broken: bool, over: bool) -> ET.Element:
        counts = self._counts(runs)
        conclusive = [run for run in runs if run.run_id in self._conclusive]
        lossy = self._counts(conclusive)[LOSS]
        case = xml.test_case("loss", name, sum(run.seconds or 0 for run in runs))
        others = Share(counts[LOSS] - lossy, len(runs) - len(conclusive))
        share = _in_words(Share(lossy, len(conclusive)), others, head=self._finding.head)
        summary = (
            f"{self._finding.head} / conclusive {self._unit}s: {share} (95 %, Clopper-Pearson)"
        )
        if others.whole:
            summary += (
                f"\n{others.part} of the {others.whole} that do not count {self._finding.some}"
            )
        if is_broken:
            xml.result(case, "failure", f"breaks the policy: {summary}", type="policy")
        elif why := self._impossible.get(name):
            xml.element("skipped", case).text = visible(f"impossible: {why}")
        elif not conclusive and (runs or over):
            message = f"no conclusive {self._unit} of {len(runs)}: nothing is known of this cell"
            xml.result(case, "error", message, type="nothing conclusive")
        elif not conclusive:
            xml.element("skipped", case).text = f"no {self._unit} has ended"
        classes = ", ".join(f"{kind.replace('_', ' ')} {n}" for kind, n in counts.items() if n)
        xml.element("system-out", case).text = f"{summary}\n{self._unit}s: {classes or 'none yet'}"
        return case

    def _harness(self, name: str, runs: Sequence[Run]) -> ET.Element:
        failed = [run for run in runs if self._classes[run.run_id] == HARNESS_FAILURE]
        case = xml.test_case("harness", name, 0)
        if failed:
            lines = [
                f"{run.run_id}: {run.error or run.verdict}" for run in failed[:_LISTED_FAILURES]
            ]
            if len(failed) > _LISTED_FAILURES:
                lines.append(f"and {len(failed) - _LISTED_FAILURES} more")
            message = f"{len(failed)} of {len(runs)} runs failed without testing the cluster"
            error = xml.result(case, "error", message, type="harness failure")
            error.text = visible("\n".join(lines))
        elif not runs:
            xml.element("skipped", case).text = "no run has ended"
        return case

    @property
    def _impossible(self) -> dict[str, str]:
        """Why cells never run, by name."""
        return {cell.name: cell.impossible for cell in self.campaign.cells if cell.impossible}

    def _counts(self, runs: Iterable[Run]) -> dict[str, int]:
        classes = [self._classes[run.run_id] for run in runs]
        return {name: classes.count(name) for name in CLASSES}
