"""Two runs compared on one page: first what differs, then both timelines on the same axes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, TypedDict

from analysis.timeline import on_one_scale
from harness.errors import HistoryError
from harness.history.documents import RunResult
from harness.history.run_folder import RunDir, write_atomically
from reports import formatting, html
from reports.checks import counts_losses, views
from reports.page import stills
from reports.payload import payload
from reports.references import compared, references
from reports.run_view import (
    DIFFERS,
    RunView,
    Setting,
    malformed_is_history_error,
    requested_settings,
    run_view,
)

_DESCRIPTIVE: Final = ("name", "about", "schema", "expect", "reference")
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


@dataclass(frozen=True)
class Side:
    """One of the two runs; `link` leads to its own page, if that exists."""

    view: RunView
    label: str
    stills: dict[str, str]
    link: str | None


class RunSummary(TypedDict):
    """One of the two runs in the JSON document."""

    run_id: str
    verdict: str
    headline: str


class RunComparison(TypedDict):
    """What `ackloss compare` reports."""

    a: RunSummary
    b: RunSummary
    simulated: bool
    differences: list[dict[str, str | None]]


def write_comparison(a: RunDir, b: RunDir, path: Path) -> RunComparison:
    """Write the page that compares two runs to `path`; return its contents as JSON.

    Raises HistoryError when a run's files cannot be read or one run is simulated and the other is
    not, EnvironmentFailure when the page cannot be written.
    """
    for run in (a, b):
        if names := run.cell_names():
            raise HistoryError(
                "holds cells, and is not a single history to compare",
                file=str(run.path),
                hint=f"name one of them, such as {run.cell(names[0]).path}",
            )
    with malformed_is_history_error(a, b):
        views = run_view(a), run_view(b)
        _refuse_mixed(*views)
        lines = on_one_scale(views[0].line, views[1].line)
        first, second = (replace(one, line=line) for one, line in zip(views, lines, strict=True))
        requested = list(differences(_requested(first), _requested(second)))
        outcomes = list(differences(_outcome(first), _outcome(second)))
        defaults = list(differences(_defaults(first), _defaults(second)))
        named = references(first.plan, second.plan)
        sides = [
            Side(view, label, stills(view), _link(view.run.report, path))
            for view, label in zip((first, second), _labels(first, second), strict=True)
        ]
        page = html.render(
            "compare.html.j2",
            data=[
                payload(side.view.line, title=side.label, labels=side.view.outcome_labels)
                for side in sides
            ],
            simulated=first.simulated,
            headline=", ".join(_in_short(side.view, side.label) for side in sides),
            sides=sides,
            requested=requested,
            outcomes=outcomes,
            defaults=defaults,
            references=named,
            reference_rows=compared([first.counts, second.counts], named),
        )
    write_atomically(path, page)
    return {
        "a": _summary(first),
        "b": _summary(second),
        "simulated": first.simulated,
        "differences": [asdict(one) for one in (*requested, *outcomes, *defaults)],
    }


def _refuse_mixed(a: RunView, b: RunView) -> None:
    if a.simulated == b.simulated:
        return
    simulated, real = (a, b) if a.simulated else (b, a)
    raise HistoryError(
        f"simulated and real runs are not compared: nothing real was tested in "
        f"{simulated.run.path}, and {real.run.path} is real",
        hint="compare simulated runs with simulated ones",
    )


def _summary(one: RunView) -> RunSummary:
    return {"run_id": one.run.run_id, "verdict": one.verdict, "headline": one.headline}


def differences(a: Groups, b: Groups) -> Iterator[Difference]:
    """The values that differ, group by group, in the order of the groups."""
    for group in dict.fromkeys([*a, *b]):
        ours, theirs = a.get(group, {}), b.get(group, {})
        for key in dict.fromkeys([*ours, *theirs]):
            if ours.get(key) != theirs.get(key):
                yield Difference(group, key, ours.get(key), theirs.get(key))


def _labels(a: RunView, b: RunView) -> tuple[str, str]:
    """The names of the two plans, with the run ids if the names are equal."""
    if a.name != b.name:
        return a.name, b.name
    return f"{a.name}, run {a.run.run_id}", f"{b.name}, run {b.run.run_id}"


def _in_short(one: RunView, label: str) -> str:
    """The result of one run as half a sentence."""
    if one.result is None:
        return f"{label} was not checked"
    if not one.counts_losses:
        return f"{label}: {one.headline}"
    counts = one.result.counts
    if counts.lost and one.verdict != "unknown":
        rate = formatting.rate(one.result.rates.loss)
        return f"{label} lost {formatting.number(counts.lost)} acknowledged writes ({rate})"
    if one.verdict == "valid":
        return f"{label} lost none of {formatting.number(counts.acknowledged)}"
    return f"{label} is {one.verdict}"


def _link(report: Path, page: Path) -> str | None:
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
    """The verdict, the rates, the counts and the availability."""
    if one.result is None:
        return {"": {"verdict": "not checked"}}
    rates, seen = one.result.rates, one.result.availability
    first = {
        "verdict": one.verdict,
        "loss": formatting.rate(rates.loss),
        "acknowledged / attempted": formatting.rate(rates.ack),
        "unacknowledged success": formatting.rate(rates.unacknowledged_success),
    }
    if not one.counts_losses:
        first = {"verdict": one.verdict}
    numbers = _numbers(one.result)
    available = {
        "longest gap": formatting.seconds(seen.longest_gap_s),
        "latency, median": formatting.milliseconds(seen.latency_p50_ms),
        "latency, 99th percentile": formatting.milliseconds(seen.latency_p99_ms),
    }
    return {"": first, **numbers, "availability": available}


def _numbers(result: RunResult) -> Groups:
    """The counts of each check; those of the loss check alone are of writes."""
    groups = {}
    if counts_losses(result):
        counts = asdict(result.counts).items()
        groups["writes"] = {name.replace("_", " "): formatting.number(n) for name, n in counts}
    for check in views(result):
        groups[check.name] = {count.label: count.value for count in check.counts}
    return groups
