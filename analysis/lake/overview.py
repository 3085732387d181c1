"""What all campaigns of a lake say together, without any of their folders.

Runs of two campaigns are counted together only where the lake proves that the plan was the same: a
name proves nothing. Cells are the same if their plans are, by `conditions`. Runs are one pool only
if the plan, the version of the system and that of its clients were the same, and if as many cells
shared each run, because cells of one run share the machine. Whether campaigns lose equally often
does not decide it: a rule that looks at the outcome would choose the result. It is tested, and
reported.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import Any, Final

from analysis.comparison import CampaignSummary, Side, Trend, side_of, trend
from analysis.lake.delta import LakeCampaign, StoredLake
from analysis.lake.stored import Key, StoredCampaign, StoredCell, in_order
from analysis.primary import of_checks
from analysis.statistics.cells import FailedRun, Outcome, is_conclusive, sample_of
from analysis.statistics.contrasts import ALPHA, adjusted, exact_test
from analysis.statistics.intervals import Share
from analysis.wording import counted, do, has
from harness.campaigns.plan import cell_name
from harness.errors import HistoryError, nearest
from harness.history.documents import RunResult
from harness.protocols import PrimaryFinding


def chosen(lake: StoredLake, names: Sequence[str]) -> list[StoredCampaign]:
    """The campaigns of these names, or all if none is named.

    Raises HistoryError for a name that the lake does not have, and if no run is finished.
    """
    named = [_named(lake, name) for name in dict.fromkeys(names)]
    requested = in_order(named or lake.campaigns)
    if not requested:
        raise HistoryError(
            "has no finished run", file=lake.shown, hint="add some by `ackloss lake build`"
        )
    return [StoredCampaign(lake, each) for each in requested]


def _named(lake: StoredLake, name: str) -> LakeCampaign:
    found = lake.campaign(name)
    if found is None:
        known = [each.id for each in lake.campaigns]
        near = nearest(name, known)
        raise HistoryError(
            f"has no campaign {name!r}",
            file=lake.shown,
            hint=f"did you mean {near!r}?" if near else f"it has: {', '.join(known) or 'none'}",
        )
    return found


def natural(text: str) -> tuple[tuple[bool, int, str], ...]:
    """A key for sorting: numbers by size, so 0.10.2 is after 0.9.0, and 4.3.1-elr after 4.3.1."""
    return tuple(
        (not part.isdecimal(), int(part) if part.isdecimal() else 0, part)
        for part in re.findall(r"\d+|\D+", text)
    )


SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True)
class PoolPart:
    """The runs of one campaign in a pool."""

    campaign: str
    conclusive: int
    lossy: int


@dataclass(frozen=True, kw_only=True)
class Pool(Side):
    """Runs of one plan and one version that are counted together.

    `plan`: the digest of the plan, `None` where it is not known and nothing else is counted here.
    `ran` and `client`: the versions of the system and of its clients, as they ran. `in_run`: the
    cells that each run held. `repeated_seeds`: conclusive runs whose seed another one has.
    `p_campaigns`: the p-value of "its campaigns lose equally often", corrected over all pools;
    `None` if fewer than two have a conclusive run.
    """

    plan: str | None
    ran: str | None
    client: str | None
    in_run: int
    campaigns: Sequence[PoolPart]
    repeated_seeds: int
    p_campaigns: float | None = None

    @property
    def differs(self) -> bool:
        """Whether its campaigns differ beyond chance."""
        return self.p_campaigns is not None and self.p_campaigns <= ALPHA


@dataclass(frozen=True, kw_only=True)
class AtVersion:
    """A setting in one version: several pools where its runs may not be counted together."""

    version: str
    pools: Sequence[Pool]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting apart from the version, in each version in which it ran."""

    name: str
    versions: Sequence[AtVersion]

    def at(self, version: str) -> AtVersion | None:
        """The setting in this version; `None`: it never ran there."""
        return next((each for each in self.versions if each.version == version), None)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Campaigns that have cells in common, with the rates of all their settings.

    `versions` are in their order. `campaign` in a point of `trend` is a place in `campaigns`.
    `unpooled`: the campaigns whose plans are not known well enough to count them with others.
    """

    campaigns: Sequence[str]
    finding: PrimaryFinding
    versions: Sequence[str]
    settings: Sequence[Setting]
    trend: Sequence[Trend]
    unpooled: Sequence[str]

    @property
    def unit(self) -> str:
        """What is counted: `run`, or `result` where runs held several cells."""
        return "result" if any(pool.in_run > 1 for pool in self.pools) else "run"

    @property
    def pools(self) -> list[Pool]:
        """All pools of its settings."""
        return [pool for row in self.settings for at in row.versions for pool in at.pools]


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What the campaigns of a lake say together."""

    lake: str
    simulated: bool
    campaigns: Sequence[CampaignSummary]
    groups: Sequence[Group]
    notes: Sequence[str] = ()

    @property
    def unit(self) -> str:
        """What is counted: `run`, or `result` where runs of any group held several cells."""
        return "result" if any(group.unit == "result" for group in self.groups) else "run"

    def json(self) -> Mapping[str, Any]:
        """The JSON document."""
        return {"schema": SCHEMA_VERSION, **asdict(self), "copies": []}


UNKNOWN: Final = "version not recorded"
"""Of a system without versions, and of cells all of whose runs failed before it was known."""
_CLIENT: Final = "client"

Versions = tuple[str | None, str | None]
"""The versions of the system and of its clients, as they ran."""


@dataclass(frozen=True)
class Part:
    """The runs of a cell of one campaign with the same versions and number of cells."""

    cell: StoredCell
    versions: Versions
    in_run: int
    outcomes: tuple[Outcome, ...]

    @property
    def label(self) -> str:
        """The column in which it stands: the name of its version in its campaign, or the version
        as it ran."""
        axis = self.cell.conditions.version_axis
        return (self.cell.key[axis] if axis else self.versions[0]) or UNKNOWN

    @property
    def pool(self) -> tuple[object, ...]:
        """Equal for parts that are counted together."""
        of_plan = self.cell.conditions.conditions or (self.cell.campaign,)
        return (of_plan, self.versions, self.in_run)


def settings_of(campaigns: Iterable[StoredCampaign]) -> list[Setting]:
    """The rates of each setting apart from the version, in their natural order. Two settings with
    one name and different plans are two."""
    rows: dict[tuple[str, Key], list[Part]] = {}
    for campaign in campaigns:
        for cell in campaign.cells.values():
            rows.setdefault(cell.row, []).extend(_parts(cell, campaign.versions_of_runs))
    names = {row: cell_name(parts[0].cell.other_axes) for row, parts in rows.items()}
    twice = {name for name, count in Counter(names.values()).items() if count > 1}
    made = [
        Setting(
            name=distinct(names[row], row[0]) if names[row] in twice else names[row],
            versions=_at_versions(parts),
        )
        for row, parts in rows.items()
    ]
    return sorted(made, key=lambda each: natural(each.name))


def distinct(name: str, digest: str) -> str:
    """The name of one of several plans that have the same name."""
    return f"{name} (plan {digest[:8]})"


def tested(groups: Sequence[Group]) -> list[Group]:
    """The groups with the p-values of their pools, corrected over all of them."""
    pools = [pool for group in groups for pool in group.pools]
    corrected = iter(adjusted([_p_equal(pool.campaigns) for pool in pools]))

    def with_p(row: Setting) -> Setting:
        pools = ([replace(p, p_campaigns=next(corrected)) for p in at.pools] for at in row.versions)
        versions = zip(row.versions, pools, strict=True)
        return replace(row, versions=[replace(at, pools=each) for at, each in versions])

    return [replace(each, settings=[with_p(row) for row in each.settings]) for each in groups]


def _parts(cell: StoredCell, by_run: Mapping[str, Mapping[str, str]]) -> list[Part]:
    """The runs of a cell by their versions and by how many cells they held. A run that failed
    before its versions were known has those of the others, where these agree."""
    runs = [
        ((version, by_run.get(run_id, {}).get(_CLIENT)), in_run, outcome)
        for outcome, run_id, version, in_run in zip(
            *(cell.outcomes, cell.run_ids, cell.versions, cell.in_run), strict=True
        )
    ]
    known = {versions for versions, _, outcome in runs if not isinstance(outcome, FailedRun)}
    found: dict[tuple[Versions, int], list[Outcome]] = {}
    for versions, in_run, outcome in runs:
        ran = _completed(versions, known) if isinstance(outcome, FailedRun) else versions
        found.setdefault((ran, in_run), []).append(outcome)
    return [Part(cell, *which, tuple(outcomes)) for which, outcomes in found.items()]


def _completed(versions: Versions, known: Collection[Versions]) -> Versions:
    """The versions of a failed run: those of the other runs that fit, if these agree."""
    fitting = [each for each in known if versions[0] in (None, each[0])]
    return fitting[0] if len(fitting) == 1 else versions


def _at_versions(parts: Iterable[Part]) -> list[AtVersion]:
    by_label: dict[str, dict[tuple[object, ...], list[Part]]] = {}
    for part in parts:
        by_label.setdefault(part.label, {}).setdefault(part.pool, []).append(part)
    return [
        AtVersion(version=label, pools=[_pool(each) for each in by_label[label].values()])
        for label in sorted(by_label, key=natural)
    ]


def _pool(parts: Sequence[Part]) -> Pool:
    first, counts = parts[0], [sample_of(part.outcomes).lossy for part in parts]
    outcomes = list(chain.from_iterable(part.outcomes for part in parts))
    return Pool(
        **vars(side_of(sample_of(outcomes))),
        plan=first.cell.conditions.conditions,
        ran=first.versions[0],
        client=first.versions[1],
        in_run=first.in_run,
        campaigns=[
            PoolPart(campaign=part.cell.campaign, conclusive=share.whole, lossy=share.part)
            for part, share in zip(parts, counts, strict=True)
        ],
        repeated_seeds=_repeated_seeds(outcomes),
    )


def _repeated_seeds(outcomes: Iterable[Outcome]) -> int:
    """How many conclusive runs made the same random choices as an earlier one."""
    seeds = [each.seed for each in outcomes if is_conclusive(each) and each.seed is not None]
    return len(seeds) - len(set(seeds))


def _p_equal(parts: Sequence[PoolPart]) -> float | None:
    """The p-value of "all campaigns lose equally often": each is tested against all others, and
    the smallest p-value is corrected for their number."""
    shares = [Share(part.lossy, part.conclusive) for part in parts if part.conclusive]
    if len(shares) < 2:
        return None
    whole = sum(share.whole for share in shares)
    part = sum(share.part for share in shares)
    tests = [exact_test(share, Share(part - share.part, whole - share.whole)).p for share in shares]
    least = min(p for p in tests if p is not None)
    return least if len(shares) == 2 else min(1.0, least * len(shares))


def _notes(overview: Overview) -> list[str]:
    """All of them, those about every number first."""
    pools = [pool for group in overview.groups for pool in group.pools]
    found = [
        *_others(overview, pools),
        *_pooled(overview, [pool for pool in pools if len(pool.campaigns) > 1]),
        *_apart(overview.groups),
    ]
    if any(pool.in_run > 1 for pool in pools):
        found.append(
            "Cells that shared a run met the same faults at the same time, so their results are "
            "not independent: they must not be added up, and only the page of their campaign "
            "compares them, as pairs"
        )
    return [f"{sentence}." for sentence in found]


def _others(overview: Overview, pools: Sequence[Pool]) -> Iterator[str]:
    """The runs that do not count, and pools in which no run does."""
    runs, others = sum(pool.runs for pool in pools), sum(pool.inconclusive for pool in pools)
    findings, unit = {group.finding for group in overview.groups}, overview.unit
    finding = findings.pop() if len(findings) == 1 else PrimaryFinding()
    if others:
        lossy = sum(pool.inconclusive_lossy for pool in pools)
        seen = f"; {lossy:,} of them have {finding.noun}" if lossy else ""
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
            f"In {counted(chosen, 'rate')} {finding.noun} are more frequent in the {unit}s that do "
            "not count than in those that do: the bounds over all of them stand instead of the "
            "interval"
        )
    if silent := sum(not pool.conclusive for pool in pools):
        yield f"{counted(silent, 'rate')} {has(silent)} no conclusive run: nothing is known there"


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
            f"{counted(repeated, 'conclusive run')} {has(repeated)} the seed "
            "of another one with which it is counted, as campaigns of one file do: where the plan "
            "draws faults at random, both met the same ones, and intervals are too narrow"
        )


def _differing(campaigns: Sequence[CampaignSummary]) -> str:
    """The conditions in which campaigns differ, apart from what is the same in each pool."""
    found = {"workers": {str(each.workers) for each in campaigns}}
    for name, shown in (("ackloss", "version of ackloss"), ("commit", "commit")):
        versions = (version for each in campaigns for version in each.versions.get(name, ()))
        found[shown] = {version[:12] for version in versions}
    texts = (
        f"{name} ({', '.join(sorted(values))})" for name, values in found.items() if len(values) > 1
    )
    return ", ".join(texts)


def _apart(groups: Sequence[Group]) -> Iterator[str]:
    """Runs of one setting and version that are not counted together."""
    rows = [row for group in groups for row in group.settings]
    if split := sum(len(at.pools) > 1 for row in rows for at in row.versions):
        yield (
            f"{counted(split, 'setting')} in one version {has(split)} several "
            "rates, since the runs are not known to have the same conditions: each is shown, with "
            "its campaigns"
        )
    if unknown := [name for group in groups for name in group.unpooled]:
        yield (
            f"The runs of {', '.join(unknown)} are not counted with those of other campaigns: the "
            "clients are a program of the user's, which no plan names"
        )


def overview_of(lake: StoredLake, names: Sequence[str] = ()) -> Overview:
    """The overview of these campaigns of a lake, or of all. Raises HistoryError for a campaign that
    the lake does not have, a damaged lake, and one without a finished run."""
    campaigns = chosen(lake, names)
    groups = [_group([campaigns[place] for place in places]) for places in _grouped(campaigns)]
    found = Overview(
        lake=lake.shown,
        simulated=lake.simulated,
        campaigns=[each.summary() for each in campaigns],
        groups=tested(groups),
    )
    return replace(found, notes=_notes(found))


def _grouped(campaigns: Sequence[StoredCampaign]) -> list[list[int]]:
    """The places of campaigns that have a cell in common, apart from the version; directly, or by
    way of other campaigns."""
    groups: list[tuple[set[object], list[int]]] = []
    for place, campaign in enumerate(campaigns):
        if not campaign.cells:
            continue
        places = [place]
        plans: set[object] = {
            key for cell in campaign.cells.values() for key in (cell.row, cell.series)
        }
        others = []
        for group in groups:
            if group[0].isdisjoint(plans):
                others.append(group)
            else:
                plans, places = plans | group[0], [*group[1], *places]
        groups = [*others, (plans, places)]
    return sorted(sorted(places) for _, places in groups)


def _group(campaigns: Sequence[StoredCampaign]) -> Group:
    every = [cell for campaign in campaigns for cell in campaign.cells.values()]
    settings = settings_of(campaigns)
    labels = {at.version for row in settings for at in row.versions}
    judged = (each for cell in every for each in cell.outcomes if isinstance(each, RunResult))
    return Group(
        campaigns=[each.campaign.id for each in campaigns],
        finding=of_checks(sorted({each.checks[0].name for each in judged if each.checks})),
        versions=sorted(labels, key=natural),
        settings=settings,
        trend=_trend(campaigns),
        unpooled=list(
            dict.fromkeys(cell.campaign for cell in every if cell.conditions.conditions is None)
        ),
    )


def _trend(campaigns: Sequence[StoredCampaign]) -> list[Trend]:
    cells = [list(each.cells.values()) for each in campaigns]
    series = {cell.series: cell for mine in cells for cell in mine}
    plain = {key: cell_name(cell.key) for key, cell in series.items()}
    times = Counter(plain.values())
    names = {
        key: distinct(plain[key], cell.plan) if times[plain[key]] > 1 else plain[key]
        for key, cell in series.items()
    }
    lines = trend(
        [{cell.series: (names[cell.series], cell.sample) for cell in mine} for mine in cells]
    )
    return sorted(lines, key=lambda line: natural(line.name))
