"""What two nights were not played alike with: each of these may be the cause of a difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from analysis.nights.night import Night

_TOLD: Final = frozenset({"name", "about", "expect"})
"""Keys of a plan that only tell of it."""


@dataclass(frozen=True, kw_only=True)
class Differing:
    """One thing that is not the same; null: that night has no such thing."""

    what: str
    key: str
    old: Any
    new: Any


def differing(old: Night, new: Night) -> list[Differing]:
    """All of them: the campaign's own keys, its axes, the base plan key by key, versions."""
    ours, theirs = _asked(old), _asked(new)
    return [
        Differing(what=what, key=key, old=before, new=now)
        for what in ("campaign", "axis", "plan", "version")
        for key, before, now in _apart(
            {**ours, "version": old.versions}[what], {**theirs, "version": new.versions}[what]
        )
    ]


def _asked(night: Night) -> dict[str, dict[str, Any]]:
    campaign = night.campaign
    plan = campaign.plan.model_dump(mode="json")
    return {
        "campaign": {
            "plan_hash": campaign.digest,
            "workers": night.progress.workers,
            **{key: plan[key] for key in ("name", "seed", "repetitions", "exclude")},
        },
        "axis": {
            axis: {label: choice.model_dump(mode="json") for label, choice in choices.items()}
            for axis, choices in ((axis, a.by_label()) for axis, a in campaign.plan.axes.items())
        },
        "plan": {key: value for key, value in campaign.base.items() if key not in _TOLD},
    }


def _apart(old: Any, new: Any, key: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The deepest keys that differ; lists are compared whole."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        if old != new:
            yield key, old, new
        return
    for name in dict.fromkeys([*old, *new]):
        inner = f'"{name}"' if "." in name else name
        yield from _apart(old.get(name), new.get(name), f"{key}.{inner}" if key else inner)
