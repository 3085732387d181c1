"""`summary.md`: a campaign for the page of a CI system, such as a job summary on GitHub."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from analysis.campaign import by_cell_of, results_of, tallies_of, versions_of
from analysis.primary import of_campaign
from analysis.statistics.cells import MedianAndMax, median_and_max
from analysis.statistics.resampling import Floats, spread
from analysis.statistics.samples import CLASSES, LOSS, Sample, sample_of
from analysis.statistics.shares import share_in_words
from analysis.wording import counted, unit
from harness.campaigns.folder import CampaignDir
from harness.campaigns.plan import Campaign, Tally, breaking, inconclusive_in_words
from harness.campaigns.progress import Progress
from harness.history.run_folder import write_atomically
from harness.protocols import PrimaryFinding
from reports import formatting, markdown
from reports.formatting import SIMULATED


def write_summary(folder: CampaignDir) -> None:
    """Write the summary.md of a campaign. Raises HistoryError or PlanError if it cannot be read,
    EnvironmentFailure if the file cannot be written."""
    campaign, progress = folder.campaign(), folder.progress()
    by_cell = by_cell_of(campaign, results_of(folder, progress))
    samples = {name: sample_of(outcomes) for name, outcomes in by_cell.items()}
    versions = versions_of(folder, progress.runs.values())
    tallies = tallies_of(campaign, by_cell)
    body = "\n\n".join(_parts(campaign, progress, samples, tallies, versions)) + "\n"
    write_atomically(folder.summary, body.encode("utf-8", "backslashreplace"))


def _parts(
    campaign: Campaign,
    progress: Progress,
    samples: dict[str, Sample],
    tallies: dict[str, Tally],
    versions: dict[str, list[str]],
) -> Iterable[str]:
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
    yield f"## {markdown.text(campaign.plan.name)}: {markdown.text(result)}"
    if campaign.simulated:
        yield f"**{SIMULATED}**"
    if nothing and broken:
        yield markdown.text(f"{nothing}.")
    finding = of_campaign(campaign)
    impossible = {cell.name: cell.impossible for cell in campaign.cells}
    heads = ("", "cell", f"{finding.head} / conclusive {word}s", f"{word}s that do not count")
    measured = ("loss rate, median", "worst", "longest gap, median", "worst")
    found = any(sample.unacknowledged_success.any() for sample in samples.values())
    unacknowledged = ("unacknowledged success, median",) if found else ()
    kinds = [finding.noun if name == LOSS else name.replace("_", " ") for name in CLASSES]
    yield markdown.table(
        (*heads, *measured, *unacknowledged, *kinds),
        (
            (
                "✗" if name in broken else "",
                name,
                f"impossible: {why}"
                if (why := impossible.get(name))
                else share_in_words(sample.lossy, sample.others, head=sample.head),
                _others(sample, finding),
                *_in_words(median_and_max(sample.loss_rate), formatting.share),
                *_in_words(median_and_max(sample.longest_gap_s), formatting.seconds),
                *(_with_interval(sample.unacknowledged_success) for _ in unacknowledged),
                *(sample.verdicts[kind] for kind in CLASSES),
            )
            for name, sample in samples.items()
        ),
    )
    facts = [part, *(f"event: {event}" for event in progress.said)]
    facts += [f"{name} {', '.join(each)}" for name, each in versions.items()]
    yield markdown.bullets([*facts, f"plan hash {campaign.digest}"])


def _in_words(seen: MedianAndMax, as_text: Callable[[float | None], str]) -> tuple[str, str]:
    return as_text(seen.median), as_text(seen.max)


def _with_interval(rates: Floats) -> str:
    """The median of rates that runs have, and its interval where there are enough runs."""
    seen = spread(rates, bounded=False)
    if seen.median_low is None or seen.median_high is None:
        return formatting.share(seen.median)
    low, high = formatting.share(seen.median_low), formatting.share(seen.median_high)
    return f"{formatting.share(seen.median)} ({low} to {high})"


def _others(sample: Sample, finding: PrimaryFinding) -> str:
    """The runs that do not count, and the number of them that are lossy."""
    lossy = f", {sample.others.part} of them {finding.some}" if sample.others.part else ""
    return f"{sample.others.whole}{lossy}"


def _result(campaign: Campaign, broken: set[str], nothing: str | None, *, unfinished: str) -> str:
    """The campaign in one clause; `unfinished` says how much of it was run, if not all."""
    if broken:
        return f"{len(broken)} of {len(campaign.possible)} cells break the policy"
    if nothing:
        return nothing
    if campaign.plan.policy.fail_on == "never":
        return f"{f'not finished, {unfinished}' if unfinished else 'finished'}, without a policy"
    return f"the policy is kept so far, after {unfinished}" if unfinished else "the policy is kept"
