"""How two stored runs differ: in what was requested, in the outcome, and in defaults."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypedDict

from harness.errors import HistoryError
from harness.history.documents import RunResult
from reports import formatting
from reports.cells import CellsView
from reports.checks import counts_losses, views
from reports.run_view import DIFFERS, RunView, Setting, requested_settings

_DESCRIPTIVE: Final = ("name", "about", "schema", "expect", "reference", "yours")
"""Keys of a plan that have no effect on a run: they differ between any two plans."""

Groups = Mapping[str, Mapping[str, str]]
"""Values as text, by group and key."""

AnyView = RunView | CellsView
"""A run as its page shows it, with cells or without."""


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
        """As the JSON document has them."""
        return [asdict(each) for each in self]


def differences_of(a: RunView, b: RunView) -> Differences:
    """How two runs of one history each differ."""
    return Differences(
        requested=tuple(differences(_requested(a), _requested(b))),
        outcomes=tuple(differences(_outcome(a), _outcome(b))),
        defaults=tuple(differences(_defaults(a), _defaults(b))),
    )


def differences(a: Groups, b: Groups) -> Iterator[Difference]:
    """The values that differ, group by group, in the order of the groups."""
    for group in dict.fromkeys([*a, *b]):
        ours, theirs = a.get(group, {}), b.get(group, {})
        for key in dict.fromkeys([*ours, *theirs]):
            if ours.get(key) != theirs.get(key):
                yield Difference(group, key, ours.get(key), theirs.get(key))


def refuse_mixed(a: AnyView, b: AnyView) -> None:
    """Raise HistoryError if one of the runs is simulated and the other is not."""
    if a.simulated == b.simulated:
        return
    simulated, real = (a, b) if a.simulated else (b, a)
    raise HistoryError(
        f"simulated and real runs are not compared: nothing real was tested in "
        f"{simulated.run.path}, and {real.run.path} is real",
        hint="compare simulated runs with simulated ones",
    )


def summary(one: AnyView) -> RunSummary:
    """One of the runs in the JSON document."""
    return {"run_id": one.run.run_id, "verdict": one.verdict, "headline": one.headline}


def labels(a: AnyView, b: AnyView) -> tuple[str, str]:
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
    """The verdict, the rates, the counts and the availability."""
    if one.result is None:
        return {"": {"verdict": "not checked"}}
    rates, seen = one.result.rates, one.result.availability
    first = {
        "verdict": one.verdict,
        "loss": formatting.loss_rate(one.result),
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
        writes = {name.replace("_", " "): formatting.number(n) for name, n in counts}
        groups["writes"] = writes | {"lost": formatting.lost(result)}
    for check in views(result):
        groups[check.name] = {count.label: count.value for count in check.counts}
    return groups
