"""The overview of a lake as one HTML page, and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from analysis import drawing
from analysis.campaign_figures import draw_trend
from analysis.comparison import CampaignSummary, Side, Trend, TrendPoint
from analysis.lake.overview import AtVersion, Group, Overview, Pool
from analysis.wording import counted, do, of_them
from harness.history.run_folder import write_atomically
from harness.protocols import PrimaryFinding
from reports import ci, formatting, html
from reports.formatting import NOTHING, SIMULATED

_PANELS_AT_MOST: Final = 24
"""Panels of all pictures of a page: each takes 10 KB and some time to draw."""
_DRAWN_AT_MOST: Final = 480
"""Points of a picture."""
_POINTS_AT_MOST: Final = 1_000
"""Rows of all tables of trends of a page; a page stays below 1 MB."""
_WORST: Final = 3
_OPEN_AT_MOST: Final = 40
"""Rows of a table of a trend that is not folded."""


@dataclass(frozen=True, kw_only=True)
class GroupView:
    """A group as its section shows it: the trend over its latest campaigns, the first of which is
    `first` of `group.campaigns`, and its picture, if any cell has two points: of `pictured` cells
    over the `drawn` latest campaigns."""

    group: Group
    names: Sequence[str]
    first: int
    pictured: int
    drawn: int
    stills: dict[str, str] | None

    @property
    def finding(self) -> PrimaryFinding:
        return self.group.finding

    @property
    def head(self) -> str:
        """Its campaigns in a few words."""
        return f"{', '.join(self.names)}: {counted(len(self.group.campaigns), 'campaign')}"

    @property
    def rows(self) -> list[tuple[str, list[TrendPoint]]]:
        """The rows of the table of the trend: the points of each cell."""
        lines = (
            (line.name, [point for point in line.campaigns if point.campaign >= self.first])
            for line in self.group.trend
        )
        return [(name, points) for name, points in lines if points]

    @property
    def shortened(self) -> str:
        """What the table of the trend has, where it has not all."""
        number = len(self.group.campaigns)
        return f"The table has the latest {number - self.first} of {number} campaigns"

    @property
    def is_open(self) -> bool:
        """Whether its trend is short enough to be shown at once."""
        return sum(len(points) for _, points in self.rows) <= _OPEN_AT_MOST

    @property
    def loses(self) -> bool:
        """Whether a share of what each run acknowledged can be lost."""
        sides = [point for line in self.group.trend for point in line.campaigns]
        return any(side.loss_rate.runs for side in sides)

    def ran(self, version: str) -> str:
        """The versions that ran under this name, where they are others."""
        found = {pool.ran for row in self.group.settings if (at := row.at(version))
                 for pool in at.pools if pool.ran}  # fmt: skip
        return "" if found <= {version} else ", ".join(sorted(found))


def write_page(overview: Overview, path: Path) -> None:
    """Write the overview as one HTML file. Raises EnvironmentFailure if that is not possible."""
    page = html.render(
        "lake.html.j2",
        data=[],
        overview=overview,
        headline=headline(overview),
        notes=[*answer(overview), *overview.notes],
        simulated=overview.simulated,
        views=_views(overview),
        others=others,
        share=share,
        notes_of=notes_of,
        named=named,
    )
    write_atomically(path, page)


def write_markdown(overview: Overview, path: Path) -> None:
    """Write the overview as Markdown. Raises EnvironmentFailure if that is not possible."""
    write_atomically(path, as_markdown(overview).encode("utf-8", "backslashreplace"))


def as_markdown(overview: Overview) -> str:
    """The overview as Markdown: notes, rates across versions, trends."""
    parts = [
        f"# {ci.text(headline(overview))}",
        *([f"**{SIMULATED}**"] if overview.simulated else []),
        ci.bullets([*answer(overview), *overview.notes]),
    ]
    for view in _views(overview, pictures=False):
        noun, unit = view.finding.noun, view.group.unit
        parts += [f"## {ci.text(view.head)}", f"### Share of {unit}s with {noun} by version"]
        heads = ("setting", *map(ci.text, view.group.versions))
        rates = (
            (row.name, *(at_version(row.at(version), view) for version in view.group.versions))
            for row in view.group.settings
        )
        parts += [ci.table(heads, rates), "### Trend"]
        measures = ("loss rate, median",) if view.loses else ()
        heads = ("cell", "campaign", f"{unit}s with {noun}", *measures, "do not count")
        parts.append(ci.table(heads, _points(view)))
        parts += [ci.text(f"{view.shortened}.")] if view.first else []
    return "\n\n".join(parts) + "\n"


def rates(overview: Overview) -> Iterator[tuple[str, list[str]]]:
    """The rates of each group as lines of text, after its head."""
    for view in _views(overview, pictures=False):
        yield (
            view.head,
            [
                f"{row.name}, {at.version}: {at_version(at, view)}"
                for row in view.group.settings
                for at in row.versions
            ],
        )


def headline(overview: Overview) -> str:
    """The answer in a few words: how many runs have what they are counted by, of how many."""
    pools = [pool for group in overview.groups for pool in group.pools]
    nouns = dict.fromkeys(group.finding.noun for group in overview.groups)
    lossy, conclusive = (
        sum(getattr(each, name) for each in pools) for name in ("lossy", "conclusive")
    )
    part = formatting.part_of(lossy, conclusive)
    found = f"{part} conclusive {overview.unit}s with {' or '.join(nouns)}"
    return f"Simulated: {found}" if overview.simulated else found


def answer(overview: Overview) -> list[str]:
    """Where most of them are, and what the lake holds."""
    every = [
        (pool.lossy / pool.conclusive, pool, f"{row.name}, {at.version}")
        for group in overview.groups
        for row in group.settings
        for at in row.versions
        for pool in at.pools
        if pool.lossy and pool.conclusive
    ]
    every.sort(key=lambda each: (-each[0], -each[1].lossy))
    worst = [
        f"{name}: {formatting.part_of(p.lossy, p.conclusive)}" for _, p, name in every[:_WORST]
    ]
    cells = sum(len(group.trend) for group in overview.groups)
    runs = sum(pool.runs for group in overview.groups for pool in group.pools)
    campaigns = counted(len(overview.campaigns), "campaign")
    holds = f"{campaigns}, {counted(cells, 'cell')}, {counted(runs, overview.unit)}"
    return [*([f"The largest shares: {'; '.join(worst)}"] if worst else []), holds]


def share(side: Side) -> tuple[str, str]:
    """`19 of 20`, and the share with its interval."""
    return side.lossy_share.in_words.partition(": ")[::2]


def others(side: Side, finding: PrimaryFinding) -> str:
    """How many runs do not count, and what was seen in them; empty: all count, or the share says
    it."""
    lossy, share = of_them(side.inconclusive_lossy, finding.noun), side.lossy_share
    if not side.inconclusive or share.chosen_by_outcome or (lossy and not side.conclusive):
        return ""
    return f"{side.inconclusive} {do(side.inconclusive)} not count{lossy}"


def named(at: AtVersion, pool: Pool) -> bool:
    """Whether the campaigns of a pool have to be named: there is another, or they differ."""
    return len(at.pools) > 1 or pool.differs


def notes_of(at: AtVersion, pool: Pool, view: GroupView) -> list[str]:
    """A pool besides its share."""
    rate = pool.loss_rate.median if pool.lossy else None  # without loss it is 0
    found = [f"median loss rate {formatting.share(rate)}"] if rate is not None else []
    found += [text] if (text := others(pool, view.finding)) else []
    if named(at, pool):
        found += [
            f"{'≠ ' if pool.differs else ''}{part.campaign}: {part.lossy} of {part.conclusive}"
            for part in pool.campaigns
        ]
        found += [f"{counted(pool.in_run, 'cell')} in a run"] if len(at.pools) > 1 else []
    elif (part := len(pool.campaigns)) < (whole := len(view.group.campaigns)):
        found.append(f"{part} of {whole} campaigns")
    return found


def at_version(at: AtVersion | None, view: GroupView) -> str:
    """A setting in one version as text; a dash: it never ran there."""
    if at is None:
        return NOTHING
    return " / ".join(
        "; ".join([pool.lossy_share.in_words, *notes_of(at, pool, view)]) for pool in at.pools
    )


def _points(view: GroupView) -> Iterator[tuple[object, ...]]:
    for name, points in view.rows:
        for point in points:
            rates = [formatting.share(point.loss_rate.median)] if view.loses else []
            campaign = view.group.campaigns[point.campaign]
            yield name, campaign, point.lossy_share.in_words, *rates, point.inconclusive


def _views(overview: Overview, *, pictures: bool = True) -> list[GroupView]:
    campaigns = {each.id: each for each in overview.campaigns}
    with_trend = sum(bool(_moving(group.trend)) for group in overview.groups)
    panels = max(1, _PANELS_AT_MOST // max(1, with_trend)) if pictures else 0
    views: list[GroupView] = []
    for group in overview.groups:
        mine = [campaigns[name] for name in group.campaigns]
        number = len(_moving(group.trend)[:panels])
        start = max(0, len(mine) - _DRAWN_AT_MOST // max(1, number))
        lines = _moving(_since(group.trend, start))[:number]
        views.append(
            GroupView(
                group=group,
                names=list(dict.fromkeys(each.name for each in mine)),
                first=_first(group, _POINTS_AT_MOST // len(overview.groups)),
                pictured=len(lines),
                drawn=len(mine) - start,
                stills=_stills(lines, mine[start:]),
            )
        )
    return views


def _first(group: Group, most: int) -> int:
    """The place of the first campaign whose points are in the table: the latest ones, but no more
    than `most` points."""
    places = [point.campaign for line in group.trend for point in line.campaigns]
    first = max(places)
    while first and sum(place >= first - 1 for place in places) <= most:
        first -= 1
    return first


def _since(trend: Sequence[Trend], start: int) -> list[Trend]:
    """The trend from this campaign on, which becomes the first."""
    return [
        replace(
            line,
            campaigns=[
                replace(point, campaign=point.campaign - start)
                for point in line.campaigns
                if point.campaign >= start
            ],
        )
        for line in trend
    ]


def _moving(trend: Sequence[Trend]) -> list[Trend]:
    """The cells that have a trend, those whose share moved most first."""

    def moved(line: Trend) -> float | None:
        shares = [point.lossy_share.shown for point in line.campaigns if point.conclusive]
        known = [share for share in shares if share is not None]
        return max(known) - min(known) if len(known) > 1 else None

    lines = [(by, line) for line in trend if (by := moved(line)) is not None]
    return [line for _, line in sorted(lines, key=lambda each: -each[0])]


def _stills(lines: Sequence[Trend], campaigns: Sequence[CampaignSummary]) -> dict[str, str] | None:
    """The picture on light and on dark paper."""
    if not lines:
        return None
    return html.on_both_papers(
        lambda colours: drawing.svg(draw_trend(lines, campaigns, colours=colours), outlines=False)
    )
