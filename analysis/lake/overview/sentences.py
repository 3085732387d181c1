"""What a reader of the overview has to know before a number is believed: a sentence each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from analysis.comparison.sampled import CampaignSummary
from analysis.lake.overview.model import Group, Overview, Pool
from analysis.primary import ANY
from analysis.wording import counted, do


def notes(overview: Overview) -> list[str]:
    """All of them, those about every number first."""
    pools = [pool for group in overview.groups for pool in group.pools]
    found = [
        *_others(overview, pools),
        *_left_out(overview),
        *_pooled(overview, [pool for pool in pools if len(pool.campaigns) > 1]),
        *_apart(overview.groups),
        *_dependent(pools),
    ]
    return [f"{sentence}." for sentence in found]


def _others(overview: Overview, pools: Sequence[Pool]) -> Iterator[str]:
    """The runs that do not count, and pools in which no run does."""
    runs, others = sum(pool.runs for pool in pools), sum(pool.inconclusive for pool in pools)
    findings, unit = {group.finding for group in overview.groups}, overview.unit
    finding = findings.pop() if len(findings) == 1 else ANY
    if others:
        lossy = sum(pool.inconclusive_lossy for pool in pools)
        seen = f"; {lossy:,} of them {finding.some}" if lossy else ""
        yield (
            f"Shares and rates are over conclusive {unit}s alone. {others:,} of "
            f"{counted(runs, unit)} {do(others)} not count, and are not {unit}s without "
            f"{finding.noun}{seen}"
        )
    else:
        yield (
            f"Shares and rates are over conclusive {unit}s alone: here all of them are conclusive"
        )
    if chosen := sum(pool.lossy_share.chosen_by_outcome for pool in pools):
        yield (
            f"In {counted(chosen, 'rate')} a larger share of the {unit}s that do not count "
            f"{finding.some} than of those that do: the bounds over all of them stand instead of "
            "the interval"
        )
    if silent := sum(not pool.conclusive for pool in pools):
        yield f"{counted(silent, 'rate')} {'has' if silent == 1 else 'have'} no conclusive run: " \
              "nothing is known there"  # fmt: skip


def _left_out(overview: Overview) -> Iterator[str]:
    for copy in overview.copies:
        yield (
            f"{copy.campaign} is left out: it is {copy.of} under another name, with the same plan "
            "and the same start"
        )


def _pooled(overview: Overview, pools: Sequence[Pool]) -> Iterator[str]:
    """What counting runs of several campaigns together assumes, and whether it seems to hold."""
    if not pools:
        return
    yield (
        "Runs of several campaigns are counted together where their plans are the same apart from "
        "name, comment, expected verdict, seed and repetitions, and where the versions of the "
        "system and its clients and the number of cells in a run are too. The lake does not record "
        "the machine: name the campaigns of one machine if there are several"
    )
    known = {each.id: each for each in overview.campaigns}
    together = {part.campaign for pool in pools for part in pool.campaigns}
    if differing := _differing([known[name] for name in sorted(together)]):
        yield f"Campaigns that are counted together differ in {differing}"
    if differ := sum(pool.differs for pool in pools):
        yield (
            f"In {counted(differ, 'rate')} of {len(pools):,} the campaigns that are counted "
            "together differ beyond chance (marked ≠; exact tests, corrected): something else than "
            "the plan changed, and the interval of all together is too narrow"
        )
    if repeated := sum(pool.repeated_seeds for pool in pools):
        yield (
            f"{counted(repeated, 'conclusive run')} {'has' if repeated == 1 else 'have'} the seed "
            "of another one with which it is counted, as campaigns of one file do: where the plan "
            "draws faults at random, both met the same ones, and intervals are too narrow"
        )


def _differing(campaigns: Sequence[CampaignSummary]) -> str:
    """The conditions in which campaigns differ, apart from what is the same in each pool."""
    found = {"workers": {str(each.workers) for each in campaigns}}
    for name in ("ackloss", "commit"):
        found[f"version of {name}" if name == "ackloss" else name] = {
            version[:12] for each in campaigns for version in each.versions.get(name, ())
        }
    texts = (
        f"{name} ({', '.join(sorted(values))})" for name, values in found.items() if len(values) > 1
    )
    return ", ".join(texts)


def _apart(groups: Iterable[Group]) -> Iterator[str]:
    """Runs of one setting and version that are not counted together."""
    split = sum(len(at.pools) > 1 for group in groups for row in group.settings
                for at in row.versions)  # fmt: skip
    if split:
        yield (
            f"{counted(split, 'setting')} in one version {'has' if split == 1 else 'have'} several "
            "rates, since the runs are not known to have the same conditions: each is shown, with "
            "its campaigns"
        )
    if unknown := [name for group in groups for name in group.unpooled]:
        yield (
            f"The plans of {', '.join(unknown)} are not known well enough to count their runs with "
            "those of other campaigns: an earlier ackloss added them to the lake, or the clients "
            "are a program of the user's. A lake that is built again from the campaigns' folders "
            "has what the earlier ackloss did not record"
        )


def _dependent(pools: Sequence[Pool]) -> Iterator[str]:
    if any(pool.in_run > 1 for pool in pools):
        yield (
            "Cells that shared a run met the same faults at the same time, so their results are "
            "not independent: they must not be added up, and only the page of their campaign "
            "compares them, as pairs"
        )
