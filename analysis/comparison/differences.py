"""The conditions in which two campaigns differ; each of them may cause a difference in losses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from analysis.comparison.sampled import SampledCampaign

DESCRIPTIVE: Final = frozenset({"name", "about", "expect", "yours"})
"""Keys of a plan that have no effect on a run."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One condition that differs; `None`: that campaign does not have it."""

    what: str
    key: str
    old: object
    new: object


def differences(baseline: SampledCampaign, current: SampledCampaign) -> list[Difference]:
    """All of them: the campaign's own keys, its axes, each key of the base plan, versions, the
    command of the user's client."""
    before, now = _conditions(baseline), _conditions(current)
    return [
        Difference(what=what, key=key, old=old, new=new)
        for what in ("campaign", "axis", "plan", "version", "client")
        for key, old, new in _differing(before[what], now[what])
    ]


def _conditions(sampled: SampledCampaign) -> dict[str, Mapping[str, object]]:
    campaign = sampled.campaign
    plan = campaign.plan.model_dump(mode="json")
    return {
        "campaign": {
            "plan_hash": campaign.digest,
            "workers": sampled.progress.workers,
            "cells_per_run": max(map(len, sampled.progress.executions.values()), default=None),
            **{key: plan[key] for key in ("name", "seed", "repetitions", "share", "exclude")},
        },
        "axis": {
            name: {label: choice.model_dump(mode="json") for label, choice in choices.items()}
            for name, choices in ((name, a.by_label()) for name, a in campaign.plan.axes.items())
        },
        "plan": {key: value for key, value in campaign.base.items() if key not in DESCRIPTIVE},
        "version": sampled.versions,
        "client": {"--client": list(sampled.clients)},
    }


def _differing(old: object, new: object, key: str = "") -> Iterator[tuple[str, object, object]]:
    """The deepest keys that differ; a list is one value."""
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        if old != new:
            yield key, old, new
        return
    for name in dict.fromkeys([*old, *new]):
        inner = f'"{name}"' if "." in name else name
        yield from _differing(old.get(name), new.get(name), f"{key}.{inner}" if key else inner)
