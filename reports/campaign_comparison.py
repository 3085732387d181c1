"""The comparison of campaigns as Markdown and as one HTML page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final

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
from analysis.statistics.cells import CLASSES
from analysis.wording import counted
from harness.history.run_folder import write_atomically
from reports import ci, formatting, html
from reports.formatting import SIMULATED

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
