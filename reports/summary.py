"""`summary.md`: a campaign on the page of a CI system, as a job's summary on GitHub takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from analysis.campaign import by_cell_of, results_of, versions_of
from analysis.statistics.cells import Noticed, noticed
from analysis.statistics.samples import CLASSES, Sample, sample_of
from analysis.statistics.shares import share_in_words
from harness.campaigns.folder import CampaignDir
from harness.campaigns.plan import Campaign
from harness.campaigns.policy import breaking
from harness.campaigns.progress import Progress, read_progress
from harness.rundir import write_atomically
from reports import markdown, words

_HEADS: Final = (
    "",
    "cell",
    "runs with loss, of those judged",
    "loss rate, median",
    "worst",
    "longest gap, median",
    "worst",
)


def write_summary(folder: CampaignDir) -> None:
    """Write the summary.md of a campaign. Raises HistoryError or PlanError where it cannot be read,
    EnvironmentFailure where the file cannot be written."""
    campaign, progress = folder.campaign(), read_progress(folder.journal)
    by_cell = by_cell_of(campaign, results_of(folder, progress))
    samples = {name: sample_of(documents) for name, documents in by_cell.items()}
    versions = versions_of(folder, progress.runs.values())
    body = "\n\n".join(_parts(campaign, progress, samples, versions)) + "\n"
    write_atomically(folder.summary, body.encode("utf-8", "backslashreplace"))


def _parts(
    campaign: Campaign,
    progress: Progress,
    samples: dict[str, Sample],
    versions: dict[str, list[str]],
) -> Iterable[str]:
    broken = breaking(campaign.plan.policy, progress.runs.values(), samples)
    yield f"## {markdown.text(campaign.plan.name)}: {_result(campaign, samples, broken)}"
    impossible = {cell.name: cell.impossible for cell in campaign.cells}
    kinds = [name.replace("_", " ") for name in CLASSES]
    yield markdown.table(
        (*_HEADS, *kinds),
        (
            (
                "✗" if name in broken else "",
                name,
                f"impossible: {why}"
                if (why := impossible.get(name))
                else share_in_words(sample.lossy),
                *_in_words(noticed(sample.loss_rate), words.share),
                *_in_words(noticed(sample.longest_gap_s), words.seconds),
                *(sample.verdicts[kind] for kind in CLASSES),
            )
            for name, sample in samples.items()
        ),
    )
    played = sum(sample.runs for sample in samples.values())
    planned = sum(cell.repetitions for cell in campaign.cells)
    told = [f"{played:,} of {planned:,} runs", *(f"said: {said}" for said in progress.said)]
    told += [f"{name} {', '.join(each)}" for name, each in versions.items()]
    yield markdown.bullets([*told, f"plan hash {campaign.digest}"])


def _in_words(seen: Noticed, written: Callable[[float | None], str]) -> tuple[str, str]:
    return written(seen.median), written(seen.max)


def _result(campaign: Campaign, samples: dict[str, Sample], broken: set[str]) -> str:
    if broken:
        return f"{len(broken)} of {len(campaign.playable)} cells break the policy"
    if not any(sample.lossy.whole for sample in samples.values()):
        return "no run was judged"
    never = campaign.plan.policy.fail_on == "never"
    return "played, without a policy" if never else "the policy is kept"
