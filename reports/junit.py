"""A campaign for CI systems: `summary.md`, and `junit.xml` in the format of Jenkins (junit-4.xsd).

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

from analysis.campaign import Finished, by_cell_of, results_of, tallies_of, versions_of
from analysis.primary import of_campaign, why_lost
from analysis.statistics.cells import (
    CLASSES,
    HARNESS_FAILURE,
    LOSS,
    Outcome,
    is_conclusive,
    median_and_max,
    sample_of,
    verdict_class,
)
from analysis.statistics.intervals import Floats, share_in_words, spread
from analysis.wording import counted, of_them, unit, visible
from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Progress
from harness.campaigns.plan import Campaign, breaking, inconclusive_in_words
from harness.history.run_folder import write_atomically
from harness.protocols import PrimaryFinding
from reports import ci, formatting
from reports.formatting import SIMULATED

# `summary.md`: a campaign for the page of a CI system, such as a job summary on GitHub.


def write_summary(folder: CampaignDir) -> None:
    """Write the summary.md of a campaign. Raises HistoryError or PlanError if it cannot be read,
    EnvironmentFailure if the file cannot be written."""
    body = "\n\n".join(_parts(folder)) + "\n"
    write_atomically(folder.summary, body.encode("utf-8", "backslashreplace"))


def _parts(folder: CampaignDir) -> Iterable[str]:
    campaign, progress = folder.campaign(), folder.progress()
    by_cell = by_cell_of(campaign, results_of(folder, progress))
    samples = {name: sample_of(outcomes) for name, outcomes in by_cell.items()}
    tallies = tallies_of(campaign, by_cell)
    broken = breaking(campaign.plan.policy, tallies)
    nothing = inconclusive_in_words(campaign.plan.policy, tallies)
    done = sum(sample.runs for sample in samples.values())
    planned = sum(cell.repetitions for cell in campaign.cells)
    executions = progress.executed
    word = unit(done, executions)
    part = f"{done:,} of {planned:,} {word}s"
    if executions < done:
        part += f", of {counted(executions, 'shared run')}"
    result = _result(campaign, broken, nothing, unfinished="" if done >= planned else part)
    yield f"## {ci.text(campaign.plan.name)}: {ci.text(result)}"
    if campaign.simulated:
        yield f"**{SIMULATED}**"
    if nothing and broken:
        yield ci.text(f"{nothing}.")
    finding = of_campaign(campaign)
    impossible = {cell.name: cell.impossible for cell in campaign.cells}
    heads = ("", "cell", f"{finding.head} / conclusive {word}s", f"{word}s that do not count")
    measured = ("loss rate, median", "worst", "longest gap, median", "worst")
    found = any(sample.unacknowledged_success.any() for sample in samples.values())
    unacknowledged = ("unacknowledged success, median",) if found else ()
    kinds = [finding.noun if name == LOSS else name.replace("_", " ") for name in CLASSES]
    rows = []
    for name, sample in samples.items():
        share = share_in_words(sample.lossy, sample.others, head=sample.head)
        why, rate = impossible.get(name), median_and_max(sample.loss_rate)
        gap_s = median_and_max(sample.longest_gap_s)
        row = ["✗" if name in broken else "", name, f"impossible: {why}" if why else share]
        row.append(f"{sample.others.whole}{of_them(sample.others.part, finding.noun)}")
        row += map(formatting.share, (rate.median, rate.max))
        row += map(formatting.seconds, (gap_s.median, gap_s.max))
        row += [_with_interval(sample.unacknowledged_success) for _ in unacknowledged]
        rows.append([*row, *(sample.verdicts[kind] for kind in CLASSES)])
    yield ci.table((*heads, *measured, *unacknowledged, *kinds), rows)
    facts = [part, *(f"event: {event}" for event in progress.said)]
    versions = versions_of(folder, progress.runs.values())
    facts += [f"{name} {', '.join(each)}" for name, each in versions.items()]
    yield ci.bullets([*facts, f"plan hash {campaign.digest}"])


def _with_interval(rates: Floats) -> str:
    """The median of rates that runs have, and its interval where there are enough runs."""
    seen = spread(rates, bounded=False)
    if seen.median_low is None or seen.median_high is None:
        return formatting.share(seen.median)
    low, high = formatting.share(seen.median_low), formatting.share(seen.median_high)
    return f"{formatting.share(seen.median)} ({low} to {high})"


def _result(campaign: Campaign, broken: set[str], nothing: str | None, *, unfinished: str) -> str:
    """The campaign in one clause; `unfinished` says how much of it was run, if not all."""
    if broken:
        return f"{len(broken)} of {len(campaign.possible)} cells break the policy"
    if nothing:
        return nothing
    if campaign.plan.policy.fail_on == "never":
        return f"{f'not finished, {unfinished}' if unfinished else 'finished'}, without a policy"
    return f"the policy is kept so far, after {unfinished}" if unfinished else "the policy is kept"


_LISTED_FAILURES: Final = 10

_in_words = cache(share_in_words)


@dataclass
class Junit:
    """A campaign's junit.xml, for repeated writing; the contents of each run are cached."""

    folder: CampaignDir
    campaign: Campaign
    _outcomes: dict[str, Outcome] = field(default_factory=dict)
    _versions: dict[str, set[str]] = field(default_factory=dict)
    _unit: str = "run"

    @cached_property
    def _finding(self) -> PrimaryFinding:
        return of_campaign(self.campaign)

    def write(self, progress: Progress | None = None) -> None:
        """Write the file for this progress, by default that of the journal."""
        progress = progress or self.folder.progress()
        self._read_new(progress)
        write_atomically(self.folder.junit, ci.document(self._suite(progress)))

    def _read_new(self, progress: Progress) -> None:
        new = {
            run_id: run
            for run_id, run in progress.runs.items()
            if run.is_finished and run_id not in self._outcomes
        }
        for run, outcome in results_of(self.folder, Progress(runs=new)):
            self._outcomes[run.run_id] = outcome
        for name, versions in versions_of(self.folder, new.values()).items():
            self._versions.setdefault(name, set()).update(versions)

    def _suite(self, progress: Progress) -> ET.Element:
        self._unit = unit(progress.ended_runs, progress.executed)
        ended = [
            (run, self._outcomes[run.run_id])
            for run in progress.runs.values()
            if run.run_id in self._outcomes
        ]
        by_cell: dict[str, list[Finished]] = {cell.name: [] for cell in self.campaign.cells}
        for run, outcome in ended:
            by_cell.setdefault(run.cell, []).append((run, outcome))
        tallies = tallies_of(self.campaign, by_cell_of(self.campaign, ended))
        broken = breaking(self.campaign.plan.policy, tallies)
        over = progress.ended is not None
        cases = [
            case
            for name, runs in by_cell.items()
            for case in (self._loss(name, runs, name in broken, over), self._harness(name, runs))
        ]
        suite = ci.element("testsuite", name=self.campaign.plan.name, **ci.totals(cases))
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
        return ci.properties(stated)

    def _loss(self, name: str, runs: Sequence[Finished], is_broken: bool, over: bool) -> ET.Element:
        sample = sample_of(outcome for _, outcome in runs)
        conclusive = [outcome for _, outcome in runs if is_conclusive(outcome)]
        case = ci.test_case("loss", name, sum(run.seconds or 0 for run, _ in runs))
        others = sample.others
        share = _in_words(sample.lossy, others, head=self._finding.head)
        summary = (
            f"{self._finding.head} / conclusive {self._unit}s: {share} (95 %, Clopper-Pearson)"
        )
        if others.whole:
            summary += (
                f"\n{others.part} of the {others.whole} that do not count have {self._finding.noun}"
            )
        if why := why_lost(conclusive).why_in_words:
            summary += f"\nwhy lost: {why}"
        alarmed = [each.alarmed for each in conclusive if each.alarms and each.counts.lost]
        if alarmed:
            summary += f"\nno alarm rule fires in {alarmed.count(0)} of {len(alarmed)} that lost"
        if is_broken:
            ci.element("failure", case, message=f"breaks the policy: {summary}", type="policy")
        elif reason := self._impossible.get(name):
            ci.element("skipped", case).text = visible(f"impossible: {reason}")
        elif not conclusive and (runs or over):
            message = f"no conclusive {self._unit} of {len(runs)}: no share is known of this cell"
            ci.element("error", case, message=message, type="nothing conclusive")
        elif not conclusive:
            ci.element("skipped", case).text = f"no {self._unit} has ended"
        some = ", ".join(
            f"{kind.replace('_', ' ')} {n}" for kind, n in sample.verdicts.items() if n
        )
        ci.element("system-out", case).text = f"{summary}\n{self._unit}s: {some or 'none yet'}"
        return case

    def _harness(self, name: str, runs: Sequence[Finished]) -> ET.Element:
        failed = [run for run, outcome in runs if verdict_class(outcome) == HARNESS_FAILURE]
        case = ci.test_case("harness", name, 0)
        if failed:
            lines = [
                f"{run.run_id}: {run.error or run.verdict}" for run in failed[:_LISTED_FAILURES]
            ]
            if len(failed) > _LISTED_FAILURES:
                lines.append(f"and {len(failed) - _LISTED_FAILURES} more")
            message = f"{len(failed)} of {len(runs)} runs failed without testing the cluster"
            error = ci.element("error", case, message=message, type="harness failure")
            error.text = visible("\n".join(lines))
        elif not runs:
            ci.element("skipped", case).text = "no run has ended"
        return case

    @property
    def _impossible(self) -> dict[str, str]:
        """Why cells never run, by name."""
        return {cell.name: cell.impossible for cell in self.campaign.cells if cell.impossible}
