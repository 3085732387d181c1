"""Named schedules, random mixes and repeated steps, written out as the steps that they stand for.

A plan holds only concrete steps once it is parsed: so a dry run prints what will happen, a stored
run shows what was requested although a schedule's file may change later, and the code that
executes, counts or draws faults need not know where they come from. Every draw comes from the
plan's seed.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterator, Sequence
from importlib import resources
from operator import itemgetter
from typing import Any

from harness.errors import PlanError
from harness.plan.steps import FaultStep, Mix

_SHORTEST_S = 0.5


def named_schedules() -> dict[str, dict[str, Any]]:
    """The schedules that come with ackloss, as TOML documents (`about`, `faults` or `mix`), by
    name."""
    folder = resources.files("schedules")
    return {
        file.name.removesuffix(".toml"): tomllib.loads(file.read_text(encoding="utf-8"))
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".toml")
    }


def named_schedule(name: str) -> dict[str, Any]:
    """`faults` or `mix` of a named schedule. Raises PlanError for an unknown name."""
    known = named_schedules()
    if name not in known:
        raise PlanError(
            f"no schedule is named {name!r}", key="schedule", hint=f"one of {', '.join(known)}"
        )
    return {key: value for key, value in known[name].items() if key in ("faults", "mix")}


def concrete(
    faults: Sequence[FaultStep], mix: Mix | None, *, seed: int, duration_s: float
) -> list[dict[str, Any]]:
    """A plan's steps as documents, with a mix drawn and repeats written out. Repeated steps take
    turns by their times, unless a step among them waits for something."""
    steps = drawn(mix, seed=seed, duration_s=duration_s) if mix else faults
    copies = [copy for step in steps for copy in _copies(step)]
    in_turns = any(step.repeat for step in steps) and all(step.at_s is not None for step in steps)
    return sorted(copies, key=itemgetter("at_s")) if in_turns else copies


def drawn(mix: Mix, *, seed: int, duration_s: float) -> list[FaultStep]:
    """The steps that a mix gives with this seed, in a workload of this length."""
    return list(_drawn(mix, seed, duration_s))


def _drawn(mix: Mix, seed: int, duration_s: float) -> Iterator[FaultStep]:
    """Steps at random times, of families by their weights; the workload's end has no faults."""
    draw = random.Random(f"{seed}/mix")
    weights = [family.weight for family in mix.families]
    at_s, number = mix.from_s, 0
    last_s = duration_s - mix.calm_s
    while (at_s := at_s + draw.expovariate(1 / mix.mean_gap_s)) < last_s - _SHORTEST_S:
        family = draw.choices(mix.families, weights)[0]
        length_s = max(_SHORTEST_S, draw.expovariate(1 / mix.mean_length_s))
        number += 1
        yield FaultStep.model_validate(
            {
                "id": f"{family.nemesis}-{number}",
                "at_s": round(at_s, 2),
                "for_s": round(min(length_s, last_s - at_s), 2),
                "nemesis": family.nemesis,
                "nodes": family.nodes,
                **family.options,
            }
        )


def _copies(step: FaultStep) -> Iterator[dict[str, Any]]:
    """The step as often as it is to be repeated, later each time; `{n}` in its `nodes` counts."""
    document = step.model_dump(mode="json", by_alias=True, exclude={"repeat"})
    if step.repeat is None:
        yield document
        return
    for n in range(step.repeat.times):
        copy = {**document, "id": f"{step.id}-{n + 1}"}
        copy["nodes"] = step.nodes.replace("{n}", str(n + 1))
        if step.at_s is not None:
            copy["at_s"] = round(step.at_s + n * step.repeat.every_s, 3)
        elif n:
            copy["after_s"] = step.repeat.every_s
        yield copy
