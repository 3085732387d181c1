"""The comparison of two runs in one page: what differs first, then both on the same axes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from analysis.timeline import on_one_scale
from harness.rundir import RunDir, write_atomically
from reports import html, words
from reports.page import stills
from reports.payload import payload
from reports.story import DIFFERS, Setting, Story, story

_TOLD: Final = ("name", "about", "schema", "expect")
"""Keys of a plan that only tell of it: they differ between any two plans."""


@dataclass(frozen=True)
class Difference:
    """One thing that the two runs do not have in common; None: that run has no such thing."""

    group: str
    key: str
    a: str | None
    b: str | None


def write_comparison(a: RunDir, b: RunDir, path: Path) -> dict[str, Any]:
    """Write the page that compares two runs to `path`; returns what it says as JSON data: `a` and
    `b` (`run_id, verdict, headline`) and `differences` (`group, key, a, b`).

    Raises HistoryError when a run's files cannot be read, EnvironmentFailure when the page cannot
    be written.
    """
    first, second = story(a), story(b)
    lines = on_one_scale(first.line, second.line)
    told = tuple(replace(one, line=line) for one, line in zip((first, second), lines, strict=True))
    labels = _labels(*told)
    asked = list(differences(_asked(told[0]), _asked(told[1])))
    outcomes = list(differences(_outcome(told[0]), _outcome(told[1])))
    defaults = list(differences(_defaults(told[0]), _defaults(told[1])))
    page = html.render(
        "compare.html.j2",
        data=[
            payload(one.line, title=label, called=one.called)
            for one, label in zip(told, labels, strict=True)
        ],
        headline=f"{_in_short(told[0], labels[0])}, {_in_short(told[1], labels[1])}",
        sides=[
            {
                "story": one,
                "label": label,
                "stills": stills(one),
                "link": _link(one.run.report, path),
            }
            for one, label in zip(told, labels, strict=True)
        ],
        asked=asked,
        outcomes=outcomes,
        defaults=defaults,
    )
    write_atomically(path, page)
    return {
        **{side: _summary(one) for side, one in zip("ab", told, strict=True)},
        "differences": [asdict(one) for one in (*asked, *outcomes, *defaults)],
    }


def _summary(one: Story) -> dict[str, str]:
    return {"run_id": one.run.run_id, "verdict": one.verdict, "headline": one.headline}


def differences(
    a: Mapping[str, Mapping[str, str]], b: Mapping[str, Mapping[str, str]]
) -> Iterator[Difference]:
    """What is not the same in both, group by group, in the order in which it is told."""
    for group in dict.fromkeys([*a, *b]):
        ours, theirs = a.get(group, {}), b.get(group, {})
        for key in dict.fromkeys([*ours, *theirs]):
            if ours.get(key) != theirs.get(key):
                yield Difference(group, key, ours.get(key), theirs.get(key))


def _labels(a: Story, b: Story) -> tuple[str, str]:
    """What to call the two: by their plans' names, and where those are the same, by their runs."""
    if a.name != b.name:
        return a.name, b.name
    return f"{a.name}, run {a.run.run_id}", f"{b.name}, run {b.run.run_id}"


def _in_short(one: Story, label: str) -> str:
    """One run's answer as half a sentence."""
    if one.result is None:
        return f"{label} was not checked"
    lost, acknowledged = one.result["counts"]["lost"], one.result["counts"]["acknowledged"]
    if lost and one.verdict != "unknown":
        share = words.percent(lost, acknowledged)
        return f"{label} lost {words.number(lost)} acknowledged writes ({share})"
    if one.verdict == "valid":
        return f"{label} lost none of {words.number(acknowledged)}"
    return f"{label} is {one.verdict}"


def _link(report: Path, page: Path) -> str | None:
    """The way from the comparison to a run's own page, if there is one."""
    if not report.is_file():
        return None
    return Path(os.path.relpath(report.resolve(), page.resolve().parent)).as_posix()


def _asked(one: Story) -> dict[str, dict[str, str]]:
    """What a person decided: the plan key by key, the settings that it asks for as the cluster
    told them, and the versions."""
    plan = {key: value for key, value in one.plan.items() if key not in _TOLD}
    for part, name in (("target", "settings"), ("topic", "settings"), ("workload", "producer")):
        inner = plan.get(part)
        if isinstance(inner, Mapping):
            plan[part] = {key: value for key, value in inner.items() if key != name}
    return {
        **_effective(row for row in one.settings if row.shown),
        "plan": words.flat(plan),
        "version": words.flat(one.facts.get("versions") or {}),
        "image": words.flat(one.facts.get("image") or {}),
    }


def _defaults(one: Story) -> dict[str, dict[str, str]]:
    """The settings that were left at their defaults; addresses and ids of brokers say nothing."""
    return _effective(row for row in one.settings if not row.shown and row.group != DIFFERS)


def _effective(rows: Iterable[Setting]) -> dict[str, dict[str, str]]:
    groups: dict[str, dict[str, str]] = {}
    for row in rows:
        value = row.effective if row.effective is not None else row.asked
        groups.setdefault(row.group, {})[row.key] = value or ""
    return groups


def _outcome(one: Story) -> dict[str, dict[str, str]]:
    """The verdict, the counts, the rates and how available the cluster was."""
    if one.result is None:
        return {"": {"verdict": "not checked"}}
    counts, has = one.result["counts"], one.result["availability"]
    first: dict[str, str] = {
        "verdict": one.verdict,
        "loss": words.percent(counts["lost"], counts["acknowledged"]),
        "acknowledged, of attempted": words.percent(counts["acknowledged"], counts["attempted"]),
        "unacknowledged success": words.percent(
            counts["unacknowledged_found"], counts["acknowledged"]
        ),
    }
    numbers = {key.replace("_", " "): words.number(value) for key, value in counts.items()}
    available = {
        "longest gap": words.seconds(has.get("longest_gap_s")),
        "latency, median": words.milliseconds(has.get("latency_p50_ms")),
        "latency, 99th percentile": words.milliseconds(has.get("latency_p99_ms")),
    }
    return {"": first, "writes": numbers, "availability": available}
