"""What a plan would do, without doing it: its commands, its schema."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from harness import registry
from harness.faults import selectors
from harness.faults.acts import chosen
from harness.faults.injection import announced
from harness.faults.records import to_document
from harness.plan import FaultStep, Plan, plan_model
from harness.protocols import (
    CLIENT_ROLE,
    Act,
    Lever,
    Nemesis,
    Node,
    TakesClusterFile,
    vocabulary_of,
)
from harness.protocols.crashes import ClientNemesis, names_met
from harness.protocols.groups import consumer_names
from harness.protocols.vocabulary import Choice
from harness.run.availability import levers_of
from harness.run.dry_run import (
    DryRunClients,
    DryRunCluster,
    DryRunConsumers,
    DryRunNode,
    as_if_first_led,
)
from harness.run.resolving import ResolvedPlan
from harness.run.schedule import ResolvedStep


def dry_run(resolved: ResolvedPlan) -> dict[str, Any]:
    """The nodes that would start and, for every step, when it begins and what it would run.

    Selectors are looked up when a fault begins; here they are shown as if the first node that
    holds replicas led.
    """
    plan, outline = resolved.plan, resolved.provider.outline(resolved.order)
    nodes = {each.name: DryRunNode(each.name, each.roles, each.address) for each in outline}
    clients = DryRunClients()
    say = clients.announced.append
    consumers = [DryRunConsumers(say, len(consumer_names(plan)))]
    levers = levers_of(resolved, DryRunCluster(nodes), clients, consumers, say=say)
    met: dict[str, tuple[str, ...]] = {}
    cells = [{"name": each.name, "changes": dict(each.overrides)} for each in resolved.cells]
    return {
        "plan": plan.document(),
        **({"cells": cells} if cells else {}),
        "image": image_of(plan) if _ours(resolved) else None,
        "nodes": [
            {
                "name": each.name,
                "roles": sorted(each.roles),
                "address": each.address,
                "command": each.command,
                "files": list(each.files),
            }
            for each in outline
        ],
        "faults": [
            _dry_step(resolved, step, nodes, clients, levers, met) for step in resolved.steps
        ],
    }


def _ours(resolved: ResolvedPlan) -> bool:
    """Whether nodes are made of an image."""
    return not (resolved.provider.simulated or isinstance(resolved.provider, TakesClusterFile))


def image_of(plan: Plan) -> str:
    """The image that a plan names, or its system and version."""
    return plan.target.image or f"{plan.target.system} {plan.target.version}"


def _dry_step(
    resolved: ResolvedPlan,
    resolved_step: ResolvedStep,
    nodes: Mapping[str, DryRunNode],
    clients: DryRunClients,
    levers: Mapping[str, Lever[Any]],
    met: dict[str, tuple[str, ...]],
) -> dict[str, Any]:
    step, plan = resolved_step.step, resolved.plan
    begins: dict[str, Any] = {"id": step.id, "begins": _begins(resolved_step)}
    if resolved_step.nemesis is None:
        return {**begins, "heals": step.heal}
    healed = f"after {step.for_s:g} s" if step.for_s else "by a later step, or at the end"
    if not nodes and not isinstance(resolved_step.nemesis, ClientNemesis):
        requested = f"{step.nodes} (which nodes these are is known when the cluster is queried)"
        return {
            **begins,
            "nemesis": step.nemesis,
            "nodes": requested,
            "commands": [],
            "healed": healed,
        }
    acts, names = _dry_acts(resolved_step.nemesis, step, resolved, nodes, levers, met)
    met[step.id] = tuple(names)
    if resolved.provider.simulated:
        commands = [_in_words(act) for act in acts]
    else:
        for act in acts:
            lever = levers[act.lever]
            lever.apply(announced(lever, act, fault=step.id, seed=plan.seed))
        commands = [command for node in nodes.values() for command in node.commands]
        commands += clients.announced
    clients.announced.clear()
    for node in nodes.values():
        node.commands.clear()
    requested = f"{step.nodes} (here as if {', '.join(names) or 'none'})"
    return {
        **begins,
        "nemesis": step.nemesis,
        "nodes": ", ".join(names)
        if isinstance(resolved_step.nemesis, ClientNemesis)
        else requested,
        "commands": commands,
        "healed": healed,
    }


def _in_words(act: Act) -> str:
    """An act on a simulated node, on which no commands are run."""
    record = to_document(act.record)
    left_out = ("node", "fault", "seed", "pid")
    options = ", ".join(f"{key} = {value}" for key, value in record.items() if key not in left_out)
    return f"{act.record.node}: {act.lever}{f' ({options})' if options else ''}"


def _dry_acts(
    nemesis: Nemesis | ClientNemesis,
    step: FaultStep,
    resolved: ResolvedPlan,
    nodes: Mapping[str, DryRunNode],
    levers: Mapping[str, Lever[Any]],
    met: Mapping[str, tuple[str, ...]],
) -> tuple[list[Act], list[str]]:
    """What the step would do, and to which nodes."""
    plan = resolved.plan
    if isinstance(nemesis, ClientNemesis):
        draw = random.Random(f"{plan.seed}/{step.id}")
        acts = nemesis.client_acts(names_met(nemesis, plan), draw)
        return acts, [act.record.node for act in acts]
    roles, vocabulary = (
        {name: node.roles for name, node in nodes.items()},
        vocabulary_of(resolved.target),
    )
    last = [name for name, own in roles.items() if CLIENT_ROLE not in own][-1]
    situation = as_if_first_led(plan, vocabulary.members(roles), last)
    choice = Choice(roles=roles, situation=situation, vocabulary=vocabulary, earlier=met)
    names = selectors.select(step.nodes, choice)

    def select(text: str) -> list[Node]:
        return [nodes[name] for name in selectors.select(text, choice)]

    acts = chosen(
        nemesis,
        [nodes[name] for name in names],
        select,
        levers=levers,
        among=nodes,
        vocabulary=choice.vocabulary,
    )
    return acts, names


def _begins(resolved_step: ResolvedStep) -> str:
    step = resolved_step.step
    words = []
    if step.at_s is not None:
        words.append(f"{step.at_s:g} s after the first operation")
    if resolved_step.condition is not None:
        words.append(f"when {resolved_step.condition.text!r} holds, at most {step.within_s:g} s")
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
