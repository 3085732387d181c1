"""Comparisons. Of two runs, a page: first what differs, then both timelines on the same axes. Of
campaigns, Markdown and a page.

A run is a list of cells; cells of one name are a pair. What differs in the same way in every pair,
such as the version, is listed once. The timelines of one of several pairs are on the page of
`ackloss compare A/cells/NAME B/cells/NAME`.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict

import orjson

from analysis import drawing
from analysis.campaign_figures import draw_trend
from analysis.comparison import (
    DOUBTFUL,
    IMPROVEMENT,
    NOT_JUDGED,
    NOT_SHOWN,
    REGRESSION,
    CampaignComparison,
    ComparedCell,
)
from analysis.primary import why_lost
from analysis.statistics.cells import CLASSES
from analysis.timeline import on_one_scale
from analysis.wording import counted
from harness.errors import HistoryError
from harness.history.documents import RunResult
from harness.history.run_folder import RunDir, write_atomically
from reports import ci, formatting, html
from reports.checks import counts_losses, views
from reports.formatting import SIMULATED
from reports.page import payload, stills
from reports.references import compared, references
from reports.run_view import (
    DIFFERS,
    RunView,
    Setting,
    malformed_is_history_error,
    requested_settings,
    run_view,
)

_DESCRIPTIVE: Final = ("name", "about", "schema", "expect", "reference", "yours")
"""Keys of a plan that have no effect on a run: they differ between any two plans."""

Groups = Mapping[str, Mapping[str, str]]
"""Values as text, by group and key."""


@dataclass(frozen=True)
class Difference:
    """One value in which the two runs differ; None: that run does not have it."""

    group: str
    key: str
    a: str | None
    b: str | None


class RunSummary(TypedDict):
    """One of two runs in the JSON document."""

    run_id: str
    verdict: str
    headline: str


@dataclass(frozen=True)
class Differences:
    """The values in which two runs differ: what the plan requests, the outcome, and settings at
    their defaults."""

    requested: tuple[Difference, ...]
    outcomes: tuple[Difference, ...]
    defaults: tuple[Difference, ...]

    def __iter__(self) -> Iterator[Difference]:
        yield from (*self.requested, *self.outcomes, *self.defaults)

    def json(self) -> list[dict[str, str | None]]:
        return [asdict(each) for each in self]


class Comparison(TypedDict):
    """What `ackloss compare` reports of two runs. Of runs with cells `differences` are those of
    every pair; `only_a` and `only_b` the cells that one run has; `not_compared` says of others
    why."""

    a: RunSummary
    b: RunSummary
    simulated: bool
    differences: list[dict[str, str | None]]
    cells: NotRequired[list[dict[str, Any]]]
    only_a: NotRequired[list[str]]
    only_b: NotRequired[list[str]]
    not_compared: NotRequired[dict[str, str]]


@dataclass(frozen=True)
class Side:
    """One of the two runs; `link` leads to its own page, if that exists."""

    view: RunView
    label: str
    link: str | None


@dataclass(frozen=True)
class Pair:
    """The cells of one name, and how they differ; `links` lead to the pages that they have."""

    name: str
    views: tuple[RunView, RunView]
    differing: Differences
    links: tuple[str | None, str | None]

    @property
    def command(self) -> str:
        """Compares these two cells, with their timelines."""
        return shlex.join(["ackloss", "compare", *(str(view.run.path) for view in self.views)])


def write_comparison(a: RunDir, b: RunDir, path: Path) -> Comparison:
    """Write the page that compares two runs to `path`; return its contents as JSON.

    Raises HistoryError when a run's files cannot be read, when only one of the runs is simulated or
    has cells, when they have no cell in common, or when no cell of both can be read;
    EnvironmentFailure when the page cannot be written.
    """
    names = a.cell_names(), b.cell_names()
    both = _in_both(a, b)
    with malformed_is_history_error(a, b):
        first, second = run_view(a), run_view(b)
        refuse_mixed(first, second)
        lines = on_one_scale(first.line, second.line)
        first, second = replace(first, line=lines[0]), replace(second, line=lines[1])
        sides = [
            Side(view, label, link_to(view.run.report, path))
            for view, label in zip((first, second), labels(first, second), strict=True)
        ]
        pairs, unread = _pairs(both, a, b, path)
        if both and not pairs:
            raise HistoryError(f"no cell can be compared: {next(iter(unread.values()))}")
        common = _common(pairs) if both else differences_of(first, second)
        only = [[name for name in names[n] if name not in names[1 - n]] for n in (0, 1)]
        named = references(first.plan, second.plan)
        page = html.render(
            "compare.html.j2",
            data=[] if both else [
                payload(side.view.line, title=side.label, labels=side.view.outcome_labels)
                for side in sides
            ],
            simulated=first.simulated,
            headline=_headline(pairs, sides),
            sides=sides,
            stills=[] if both else [stills(side.view) for side in sides],
            pairs=pairs,
            own={pair.name: _without(pair.differing, common) for pair in pairs},
            unread=unread,
            unmatched=[(side.label, of) for side, of in zip(sides, only, strict=True) if of],
            differing=common,
            references=named,
            reference_rows=compared([first.counts, second.counts], named),
        )  # fmt: skip
    write_atomically(path, page)
    document: Comparison = {
        "a": summary(first),
        "b": summary(second),
        "simulated": first.simulated,
        "differences": common.json(),
    }
    if both:
        document["cells"] = [
            {
                "name": pair.name,
                **{which: summary(view) for which, view in zip("ab", pair.views, strict=True)},
                "differences": pair.differing.json(),
            }
            for pair in pairs
        ]
        document["only_a"], document["only_b"] = only
        document["not_compared"] = unread
    return document


def _in_both(a: RunDir, b: RunDir) -> list[str]:
    """The cells that both runs have; none of runs without cells. Raises HistoryError if only one
    has cells, or if they have none in common."""
    ours, theirs = a.cell_names(), b.cell_names()
    if not ours and not theirs:
        return []
    if not (ours and theirs):
        having, other = (a, b) if ours else (b, a)
        one = having.cell((ours or theirs)[0]).path
        raise HistoryError(
            f"has cells, and {other.path} has none: there is nothing to pair",
            file=str(having.path),
            hint=f"name two runs with cells, or one of its cells, such as {one}",
        )
    both = [name for name in dict.fromkeys(ours) if name in theirs]
    if not both:
        raise HistoryError(
            f"has no cell in common with {b.path}: {', '.join(ours)}; {', '.join(theirs)}",
            file=str(a.path),
            hint=f"cells are paired by name; name two cells, such as {a.cell(ours[0]).path}",
        )
    return both


def _pairs(
    names: Iterable[str], a: RunDir, b: RunDir, page: Path
) -> tuple[list[Pair], dict[str, str]]:
    """The cells of these names; one that is damaged does not keep others from being compared: why
    it is not, by name."""
    pairs, unread = [], {}
    for name in names:
        one, other = a.cell(name), b.cell(name)
        try:
            with malformed_is_history_error(one, other):
                first, second = (run_view(RunDir.open(cell.path)) for cell in (one, other))
                refuse_mixed(first, second)
                links = link_to(one.report, page), link_to(other.report, page)
                pairs.append(Pair(name, (first, second), differences_of(first, second), links))
        except HistoryError as error:
            unread[name] = str(error)
    return pairs, unread


def _common(pairs: Sequence[Pair]) -> Differences:
    """What differs in every pair in the same way, if there are several; outcomes are each cell's
    own."""
    if len(pairs) == 1:
        return Differences((), (), ())
    first, *others = (pair.differing for pair in pairs)
    return Differences(
        requested=tuple(d for d in first.requested if all(d in o.requested for o in others)),
        outcomes=(),
        defaults=tuple(d for d in first.defaults if all(d in o.defaults for o in others)),
    )


def _without(mine: Differences, common: Differences) -> Differences:
    return replace(
        mine,
        requested=tuple(each for each in mine.requested if each not in common.requested),
        defaults=tuple(each for each in mine.defaults if each not in common.defaults),
    )


def _headline(pairs: Sequence[Pair], sides: Sequence[Side]) -> str:
    """What each run came to; of runs with cells, in which of them the verdicts differ."""
    if not pairs:
        return ", ".join(_in_short(side.view, side.label) for side in sides)
    differ = [pair.name for pair in pairs if len({view.verdict for view in pair.views}) > 1]
    if not differ:
        return f"The verdict is the same in each of {counted(len(pairs), 'compared cell')}"
    return f"The verdict differs in {len(differ)} of {len(pairs)} cells: {', '.join(differ)}"


def _in_short(one: RunView, label: str) -> str:
    """The result of one run as half a sentence."""
    if one.result is None:
        return f"{label} was not checked"
    if not one.counts_losses:
        return f"{label}: {one.headline}"
    acknowledged = one.result.counts.acknowledged
    if lost := formatting.proven(one.result).get("lost"):
        share = formatting.share(lost / acknowledged)
        return f"{label} lost {formatting.number(lost)} acknowledged writes ({share})"
    if one.verdict == "valid":
        return f"{label} lost none of {formatting.number(acknowledged)}"
    return f"{label} is {one.verdict}"


def differences_of(a: RunView, b: RunView) -> Differences:
    """How two runs of one history each differ."""
    return Differences(
        requested=tuple(differences(_requested(a), _requested(b))),
        outcomes=tuple(differences(_outcome(a), _outcome(b))),
        defaults=tuple(differences(_defaults(a), _defaults(b))),
    )


def differences(a: Groups, b: Groups) -> Iterator[Difference]:
    """The values that differ, in the order of the groups; a key without a value is like none."""
    for group in dict.fromkeys([*a, *b]):
        ours, theirs = a.get(group, {}), b.get(group, {})
        for key in dict.fromkeys([*ours, *theirs]):
            if (ours.get(key) or "") != (theirs.get(key) or ""):
                yield Difference(group, key, ours.get(key), theirs.get(key))


def refuse_mixed(a: RunView, b: RunView) -> None:
    """Raise HistoryError if one of the runs is simulated and the other is not."""
    if a.simulated == b.simulated:
        return
    simulated, real = (a, b) if a.simulated else (b, a)
    raise HistoryError(
        f"simulated and real runs are not compared: nothing real was tested in "
        f"{simulated.run.path}, and {real.run.path} is real",
        hint="compare simulated runs with simulated ones",
    )


def summary(one: RunView) -> RunSummary:
    return {"run_id": one.run.run_id, "verdict": one.verdict, "headline": one.headline}


def labels(a: RunView, b: RunView) -> tuple[str, str]:
    """The names of the two plans, with the run ids if the names are equal."""
    if a.name != b.name:
        return a.name, b.name
    return f"{a.name}, run {a.run.run_id}", f"{b.name}, run {b.run.run_id}"


def link_to(report: Path, page: Path) -> str | None:
    """The relative path from the comparison to a run's own page, if that exists."""
    if not report.is_file():
        return None
    return Path(os.path.relpath(report.resolve(), page.resolve().parent)).as_posix()


def _requested(one: RunView) -> Groups:
    """The user's decisions: each key of the plan, the requested settings with the values that the
    cluster reports, and the versions."""
    groups = requested_settings(one.plan).values()
    plan = {key: value for key, value in one.plan.items() if key not in _DESCRIPTIVE}
    for part, inner in plan.items():
        if isinstance(inner, Mapping):
            plan[part] = {
                key: value for key, value in inner.items() if not _is_among(value, groups)
            }
    return {
        **_effective(row for row in one.settings if row.shown),
        "plan": formatting.flat(plan),
        "version": _short(formatting.flat(one.metadata.versions)),
        "image": _short(formatting.flat(one.metadata.image)),
    }


def _is_among(value: object, groups: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a part of a plan is a table of settings, all of which are in one of these groups."""
    return isinstance(value, Mapping) and any(value.items() <= group.items() for group in groups)


def _short(texts: Mapping[str, str]) -> dict[str, str]:
    """Commits and digests, abbreviated; a run's own page has them in full."""
    return {key: text[:19] if len(text) >= 40 else text for key, text in texts.items()}


def _defaults(one: RunView) -> Groups:
    """The settings at their defaults, without the addresses and ids of brokers."""
    return _effective(row for row in one.settings if not row.shown and row.group != DIFFERS)


def _effective(rows: Iterable[Setting]) -> Groups:
    groups: dict[str, dict[str, str]] = {}
    for row in rows:
        value = row.effective if row.effective is not None else row.requested
        groups.setdefault(row.group, {})[row.key] = value or ""
    return groups


def _outcome(one: RunView) -> Groups:
    """The verdict, the rates, the counts, why writes were lost, and the availability."""
    if one.result is None:
        return {"": {"verdict": "not checked"}}
    rates, seen = one.result.rates, one.result.availability
    first = {"verdict": one.verdict}
    if one.counts_losses:
        first["loss"] = formatting.loss_rate(one.result)
        first["acknowledged / attempted"] = formatting.rate(rates.ack)
        first["unacknowledged success"] = formatting.rate(rates.unacknowledged_success)
    if one.alarms:
        first["alarms"] = one.alarms
    available = {
        "longest gap": formatting.seconds(seen.longest_gap_s),
        "latency, median": formatting.milliseconds(seen.latency_p50_ms),
        "latency, 99th percentile": formatting.milliseconds(seen.latency_p99_ms),
    }
    why = why_lost([one.result])
    causes = {cause: formatting.number(count) for cause, count in why.causes.items()}
    if why.why_known:
        causes["unexplained"] = formatting.number(why.unexplained)
        if why.not_examined:
            causes["not examined"] = formatting.number(why.not_examined)
        causes["would have survived with the longest log"] = formatting.number(why.survivable)
    return {"": first, **_numbers(one.result), "why lost": causes, "availability": available}


def _numbers(result: RunResult) -> Groups:
    """The counts of each check; those of the loss check alone are of writes."""
    groups = {}
    if counts_losses(result):
        counts = asdict(result.counts).items()
        writes = {name.replace("_", " "): formatting.number(n) for name, n in counts}
        groups["writes"] = writes | {"lost": formatting.lost(result)}
    for check in views(result):
        groups[check.name] = {count.label: count.value for count in check.counts}
    return groups


# Campaigns.

_MARKS: Final = {REGRESSION: "▲", IMPROVEMENT: "▼", DOUBTFUL: "?", NOT_JUDGED: "–"}
_ORDER: Final = (REGRESSION, DOUBTFUL, NOT_JUDGED, IMPROVEMENT, NOT_SHOWN)
_HEADS: Final = ("", "cell", "before", "now", "result")


def write_markdown(comparison: CampaignComparison, path: Path) -> None:
    """Write the comparison as Markdown. Raises EnvironmentFailure if that is not possible."""
    write_atomically(path, as_markdown(comparison).encode("utf-8", "backslashreplace"))


def as_markdown(comparison: CampaignComparison) -> str:
    """The comparison as Markdown: conclusions, every cell, differing conditions."""
    parts = [
        f"# {ci.text(headline(comparison))}",
        *([f"**{SIMULATED}**"] if comparison.simulated else []),
        ci.bullets(comparison.conclusion),
        "## Cells",
        ci.table(_HEADS, (_row(cell) for cell in ordered(comparison.cells))),
    ]
    if differs := comparison.differs:
        rows = [(d.what, d.key, value(d.old), value(d.new)) for d in differs]
        parts += ["## Conditions", ci.table(("what", "key", "before", "now"), rows)]
    return "\n\n".join(parts) + "\n"


def write_page(comparison: CampaignComparison, path: Path) -> None:
    """Write the comparison as one HTML file. Raises EnvironmentFailure if that is not possible."""
    stills = html.on_both_papers(
        lambda colours: drawing.svg(
            draw_trend(comparison.trend, comparison.campaigns, colours=colours)
        )
    )
    page = html.render(
        "campaign_comparison.html.j2",
        data=[],
        comparison=comparison,
        finding=comparison.finding,
        headline=headline(comparison),
        simulated=comparison.simulated,
        cells=ordered(comparison.cells),
        marks=_MARKS,
        classes=CLASSES,
        value=value,
        changes=changes,
        stills=stills,
    )
    write_atomically(path, page)


def headline(comparison: CampaignComparison) -> str:
    """The result in a few words: what changed, and of how many cells that is not known."""
    cells = len(comparison.cells)
    of = Counter(cell.status for cell in comparison.cells)
    if of[NOT_JUDGED] == cells:
        counts = ["Nothing could be compared"]
    else:
        worse, better = of[REGRESSION], of[IMPROVEMENT]
        regressions = counted(worse, "regression") if worse else "No regression"
        counts = [f"{regressions} in {counted(cells, 'cell')}"]
        counts += [counted(better, "improvement")] if better else []
        unjudged = f"{of[NOT_JUDGED]} of {counted(cells, 'cell')} cannot be compared"
        counts += [unjudged] if of[NOT_JUDGED] else []
        counts += [f"{of[DOUBTFUL]} doubtful"] if of[DOUBTFUL] else []
    now, before = (
        formatting.part_of(sum(s.lossy for s in sides), sum(s.conclusive for s in sides))
        for sides in ([c.new for c in comparison.cells], [c.old for c in comparison.cells])
    )
    found = f"{', '.join(counts)}: {comparison.current} against {comparison.baseline}"
    found += f"; {comparison.unit}s with {comparison.finding.noun}: {now}, before {before}"
    return f"Simulated: {found}" if comparison.simulated else found


def ordered(cells: Iterable[ComparedCell]) -> list[ComparedCell]:
    """The cells, the most urgent first."""
    return sorted(cells, key=lambda cell: _ORDER.index(cell.status))


def changes(cell: ComparedCell) -> list[str]:
    """Other changes in a cell: its verdict classes, and whether its runs disagree."""
    found = [f"new: {_named(cell.new_classes)}"] if cell.new_classes else []
    found += [f"gone: {_named(cell.vanished_classes)}"] if cell.vanished_classes else []
    when = {"old": "before", "new": "now"}
    if cell.flaky:
        found.append(f"flaky {' and '.join(when[side] for side in cell.flaky)}")
    return found


def value(given: object) -> str:
    """A value of a plan, an axis or a version as text."""
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        return ", ".join(given)
    if isinstance(given, dict | list):
        return orjson.dumps(given).decode()
    return formatting.NOTHING if given is None else formatting.value_text(given)


def _row(cell: ComparedCell) -> tuple[str, ...]:
    result = "; ".join([cell.in_words, *changes(cell)])
    before, now = (side.lossy_share.in_words for side in (cell.old, cell.new))
    return (_MARKS.get(cell.status, ""), cell.name, before, now, result)


def _named(classes: Iterable[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in classes)
