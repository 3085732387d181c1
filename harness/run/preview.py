"""What a plan would do, without doing it: when each fault begins and what it meets, what is
measured, how long it takes; and the schema of plans.

Imports nothing that only runs need: `ackloss plan validate` takes as long as its imports.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from inspect import getdoc
from itertools import chain
from typing import Any, Final

import orjson

from harness import registry
from harness.errors import HarnessFailure
from harness.faults.records import to_document
from harness.models import MODELS
from harness.plan import FaultStep, Plan, plan_model
from harness.protocols import Act, Nemesis, NodeOutline
from harness.protocols.faults import ClientNemesis, names_met
from harness.run.resolving import PlannedCluster, ResolvedPlan, ResolvedStep, selecting
from harness.wrong_values import dotted


def warnings(resolved: ResolvedPlan) -> list[str]:
    """What is allowed but probably not intended."""
    plan, notes = resolved.plan, [f"forced: {each}" for each in resolved.unsupported]
    load = plan.workload
    of_cells = [resolved.target.warnings(each.plan) for each in resolved.cells]
    notes += dict.fromkeys(chain.from_iterable(of_cells))
    notes += chain(_unhealed(resolved), _of_nemeses(resolved))
    longest_s = max((float(step["latest_s"] or 0) for step in _times(plan)), default=0.0)
    if longest_s > load.duration_s:
        notes.append(
            f"workload.duration_s: the schedule may take {longest_s:g} s if every wait runs out, "
            f"the workload lasts {load.duration_s:g} s: later steps would be left out"
        )
    return notes


def _unhealed(resolved: ResolvedPlan) -> Iterator[str]:
    """Faults that nobody heals before the load ends."""
    duration_s, steps = resolved.plan.workload.duration_s, resolved.steps
    for place, each in enumerate(steps):
        step, nemesis = each.step, each.nemesis
        if nemesis is None or not nemesis.lasts or step.for_s is not None:
            continue
        limit = nemesis.limit
        heals = (later.step.heal or [] for later in steps[place + 1 :])
        if (limit and limit[1] < duration_s) or any(h == "all" or step.id in h for h in heals):
            continue
        yield (
            f"{dotted(('faults', step.id))}: nothing heals it before the load ends, when ackloss "
            "heals all faults: add for_s, or a later step with heal"
        )


def _of_nemeses(resolved: ResolvedPlan) -> Iterator[str]:
    """What nemeses know of the nodes that they will meet."""
    planned = PlannedCluster(resolved.plan, resolved.target, resolved.provider, resolved.cells)
    for each in resolved.steps if planned.knows_nodes else ():
        if isinstance(each.nemesis, Nemesis):
            for sentence in planned.warnings(each.step.nodes, each.nemesis):
                yield f"{dotted(('faults', each.step.id))}: {sentence}"


_COLUMNS: Final = 48
"""The width of a chart's time axis."""


def dry_run(resolved: ResolvedPlan) -> dict[str, Any]:
    """The nodes that would start and, for every step, when it begins and what it would do, act by
    act.

    Selectors are looked up when a fault begins; here they are shown as if the first node that
    holds replicas led.
    """
    plan, outline = resolved.plan, resolved.provider.outline(resolved.order)
    no_image = resolved.provider.simulated or resolved.provider.named_by == "cluster"
    met, system = dict[str, tuple[str, ...]](), plan.target.system
    cells = [
        {"name": each.name, "changes": dict(each.overrides)}
        for each in resolved.cells
        if plan.cells
    ]
    steps = [_dry_step(resolved, step, outline, met) for step in resolved.steps]
    cost = resolved.provider.cost(resolved.order, kept=False)
    return {
        "plan": plan.document(),
        **({"cells": cells} if cells else {}),
        "image": None if no_image else plan.target.image or f"{system} {plan.target.version}",
        "nodes": [
            {**asdict(each), "roles": sorted(each.roles), "files": list(each.files)}
            for each in outline
        ],
        "faults": [{**step, **times} for step, times in zip(steps, _times(plan), strict=True)],
        "measures": _measures(resolved),
        "load_s": plan.workload.duration_s,
        "takes_s": round(cost.seconds + cost.further_cell_s * max(0, len(cells) - 1), 1),
        "simulated": resolved.provider.simulated,
    }


def _measures(resolved: ResolvedPlan) -> dict[str, str]:
    """What each checker of the plan counts, by its name."""
    names = resolved.plan.checkers or [MODELS[resolved.workload.model].check]
    about = {name: getdoc(registry.plugins("checkers")[name]) or "" for name in names}
    first = {name: re.split(r"[.:](?:\s|$)", text, maxsplit=1)[0] for name, text in about.items()}
    return {name: " ".join(text.split()) for name, text in first.items()}


def _times(plan: Plan) -> Iterator[dict[str, float | None]]:
    """For each step, between which seconds of the load it begins, and when it ends at the latest:
    `None` for one that heals."""
    begins: list[tuple[float, float]] = []
    earliest_s = latest_s = 0.0
    for step in plan.faults:
        if step.at_s is not None:
            earliest_s, latest_s = max(earliest_s, step.at_s), max(latest_s, step.at_s)
        earliest_s += step.after_s
        latest_s += step.after_s + (step.within_s if step.when else 0)
        begins.append((earliest_s, latest_s))
    for number, step in enumerate(plan.faults):
        healed = [
            begins[later][1]
            for later, other in enumerate(plan.faults)
            if later > number and (other.heal == "all" or step.id in (other.heal or ()))
        ]
        end_s = min([*healed, plan.workload.duration_s])
        if step.for_s is not None:
            end_s = min(end_s, begins[number][1] + step.for_s)
        yield {
            "earliest_s": begins[number][0],
            "latest_s": begins[number][1],
            "until_s": None if step.nemesis is None else end_s,
        }


def chart(document: Mapping[str, Any]) -> list[str]:
    """The schedule of a dry run as lines of text on a time axis: a step waits for its condition
    where there are dots, and its fault is in force where there are blocks."""
    load_s: float = document["load_s"]
    steps = document["plan"]["faults"]
    if not steps:
        return ["no faults"]
    width = max(len(step["id"]) for step in steps)

    def column(at_s: float) -> int:
        return round(min(at_s / load_s, 1) * _COLUMNS)

    ticks = "".join(f"{f'{load_s * part / 4:.4g} s':<{_COLUMNS // 4}}" for part in range(4))
    lines = [f"{'':{width}}  {ticks}{load_s:.4g} s"]
    for step, times in zip(steps, document["faults"], strict=True):
        first, begun = column(times["earliest_s"]), column(times["latest_s"])
        bar = "·" * (begun - first)
        if times["until_s"] is None:
            bar += "│"
        else:
            bar += "█" * max(1, column(times["until_s"]) - begun)
        line = f"{' ' * first}{bar}"[: _COLUMNS + 1]
        lines.append(f"{step['id']:{width}}  {line:<{_COLUMNS + 1}}  {_in_short(step)}")
    return lines


def _in_short(step: Mapping[str, Any]) -> str:
    """A step of a plan's document in one line: 5 s kill leader for 8 s."""
    begins = _begins(FaultStep.model_validate(step), short=True)
    if step["nemesis"] is None:
        heal = step["heal"]
        return f"{begins} heal {heal if isinstance(heal, str) else ', '.join(heal)}"
    ends = f" for {step['for_s']:g} s" if step["for_s"] else ""
    form = f" ({step['form']})" if "form" in step else ""
    return f"{begins} {step['nemesis']} {step['nodes']}{form}{ends}"


def _dry_step(
    resolved: ResolvedPlan,
    resolved_step: ResolvedStep,
    outline: Sequence[NodeOutline],
    met: dict[str, tuple[str, ...]],
) -> dict[str, Any]:
    step, nemesis = resolved_step.step, resolved_step.nemesis
    begins: dict[str, Any] = {"id": step.id, "begins": _begins(step)}
    if nemesis is None:
        return {**begins, "heals": step.heal}
    if isinstance(nemesis, ClientNemesis):
        draw = random.Random(f"{resolved.plan.seed}/{step.id}")
        acts = nemesis.client_acts(names_met(nemesis, resolved.plan), draw)
        names = [act.record.node for act in acts]
        requested = ", ".join(names)
    elif outline:
        acts, names = _acts(nemesis, step, resolved, outline, met)
        requested = f"{step.nodes} (here as if {', '.join(names) or 'none'})"
    else:
        acts, names = [], []
        requested = f"{step.nodes} (which nodes these are is known when the cluster is queried)"
    met[step.id] = tuple(names)
    return {
        **begins,
        "nemesis": step.nemesis,
        "nodes": requested,
        "commands": [_in_words(act) for act in acts],
        "healed": f"after {step.for_s:g} s" if step.for_s else "by a later step, or at the end",
    }


def _in_words(act: Act) -> str:
    """An act as data: the node, the lever, and what its record holds."""
    record = to_document(act.record)
    left_out = ("node", "fault", "seed", "pid")
    options = ", ".join(
        f"{key} = {orjson.dumps(value).decode()}"
        for key, value in record.items()
        if key not in left_out and value not in (None, (), [], {}, "")
    )
    return f"{act.record.node}: {act.lever}{f' ({options})' if options else ''}"


def _acts(
    nemesis: Nemesis,
    step: FaultStep,
    resolved: ResolvedPlan,
    outline: Sequence[NodeOutline],
    met: Mapping[str, tuple[str, ...]],
) -> tuple[list[Act], list[str]]:
    """What the step would do, and to which nodes."""
    planned = PlannedCluster(resolved.plan, resolved.target, resolved.provider, resolved.cells)
    select = selecting(outline, replace(next(planned.choices()), earlier=met))
    try:
        nodes = select(step.nodes)
        return list(nemesis.acts(nodes, select)), [node.name for node in nodes]
    except Exception as error:
        raise HarnessFailure(f"the nemesis {nemesis.plugin!r}: acts(): {error}") from error


def _begins(step: FaultStep, *, short: bool = False) -> str:
    words = []
    if step.at_s is not None:
        words.append(f"{step.at_s:g} s" + ("" if short else " after the first operation"))
    if step.when is not None:
        words.append(f"when {step.when!r} holds, at most {step.within_s:g} s")
    if not words:
        words.append("after the step before")
    if step.after_s:
        words.append(f"and {step.after_s:g} s later")
    return ", ".join(words)


def plan_schema(system: str | None = None) -> dict[str, Any]:
    """The JSON Schema of plans for a target, by default the one that plans mean that name none; a
    step's options depend on its nemesis."""
    schema = plan_model(system, file="").model_json_schema(by_alias=True)
    step = schema["$defs"]["FaultStep"]
    step["allOf"] = [
        {
            "if": {"properties": {"nemesis": {"const": name}}, "required": ["nemesis"]},
            "then": {
                "description": (plugin.__doc__ or "").strip(),
                "properties": registry.adapter(plugin).json_schema().get("properties", {}),
            },
        }
        for name, plugin in registry.plugins("nemeses").items()
        if registry.why_unusable("nemeses", name) is None
    ]
    return schema
