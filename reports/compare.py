"""The comparison of two runs in one page: what differs first, then both on the same axes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from analysis.timeline import on_one_scale
from harness.history.run_folder import RunDir, write_atomically
from reports import html, words
from reports.beside import beside, references
from reports.page import stills
from reports.payload import payload
from reports.story import DIFFERS, Setting, Story, story, trusting

_TOLD: Final = ("name", "about", "schema", "expect", "reference")
"""Keys of a plan that only tell of it: they differ between any two plans."""


@dataclass(frozen=True)
class Difference:
    """One thing that the two runs do not have in common; None: that run has no such thing."""

    group: str
    key: str
    a: str | None
    b: str | None


@dataclass(frozen=True)
class Side:
    """One of the two runs as the page shows it; `link` leads to its own page, if it has one."""

    story: Story
    label: str
    stills: dict[str, str]
    link: str | None


def write_comparison(a: RunDir, b: RunDir, path: Path) -> dict[str, Any]:
    """Write the page that compares two runs to `path`; returns what it says as JSON data: `a` and
    `b` (`run_id, verdict, headline`) and `differences` (`group, key, a, b`).

    Raises HistoryError when a run's files cannot be read, EnvironmentFailure when the page cannot
    be written.
    """
    with trusting(a, b):
        stories = story(a), story(b)
        lines = on_one_scale(stories[0].line, stories[1].line)
        first, second = (replace(one, line=line) for one, line in zip(stories, lines, strict=True))
        asked = list(differences(_asked(first), _asked(second)))
        outcomes = list(differences(_outcome(first), _outcome(second)))
        defaults = list(differences(_defaults(first), _defaults(second)))
        elsewhere = references(first.plan, second.plan)
        told = zip((first, second), _labels(first, second), strict=True)
        sides = [Side(one, label, stills(one), _link(one.run.report, path)) for one, label in told]
        page = html.render(
            "compare.html.j2",
            data=[
                payload(side.story.line, title=side.label, called=side.story.called)
                for side in sides
            ],
            headline=", ".join(_in_short(side.story, side.label) for side in sides),
            sides=sides,
            asked=asked,
            outcomes=outcomes,
            defaults=defaults,
            references=elsewhere,
            beside=beside([first.counts, second.counts], elsewhere),
        )
    write_atomically(path, page)
    return {
        "a": _summary(first),
        "b": _summary(second),
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
        "version": _short(words.flat(one.facts.get("versions") or {})),
        "image": _short(words.flat(one.facts.get("image") or {})),
    }


def _short(told: Mapping[str, str]) -> dict[str, str]:
    """Commits and digests cut to what tells them apart; a run's own page has them whole."""
    return {key: value[:19] if len(value) >= 40 else value for key, value in told.items()}


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
