"""What a plan would do, without doing it: its commands, its schema, its likely mistakes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness import registry, selectors
from harness.binding import Bound
from harness.crashes import ClientNemesis, ClientState, client_names
from harness.faults import looked
from harness.levers import all_levers
from harness.plan import FaultStep, Plan
from harness.protocols import (
    NODE_DATA,
    STORED,
    Act,
    Completed,
    ImageRef,
    Ingredients,
    Lever,
    Nemesis,
    Node,
    PartitionView,
    ProcessState,
    Situation,
)
from harness.schedule import BoundStep

_EXAMPLE_SUBNET = "198.18.0"


@dataclass
class RecordingNode:
    """A node that does nothing and writes down every command it is given."""

    name: str
    roles: frozenset[str]
    address: str
    commands: list[str] = field(default_factory=list)

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:  # noqa: ARG002
        """Record; a rule that is asked for (`iptables -C`) is not there, a route is,
        and what it stores lies on a disk of its own."""
        if "-C" in argv:
            return Completed(1, "")
        if "route" in argv:
            return Completed(0, f"default via {_EXAMPLE_SUBNET}.1 dev eth0")
        if argv[0] == "df":
            return Completed(0, f"{NODE_DATA}/{STORED} {128 << 20} 0")
        self.commands.append(f"{self.name}# {' '.join(argv)}")
        return Completed(0, "")

    run = admin

    def put(self, files: Mapping[str, bytes]) -> None:
        self.commands += [f"{self.name}: write {name}" for name in files]

    def get(self, name: str) -> dict[str, bytes]:  # noqa: ARG002
        return {}

    def start(self) -> None:
        self.commands.append(f"{self.name}: start the target's process")

    def pid(self) -> int | None:
        return 7

    def process(self) -> ProcessState:
        return ProcessState(running=False, exit_code=137)


@dataclass
class RecordingClients:
    """Clients that never crash: what would happen to them is written down."""

    told: list[str] = field(default_factory=list)

    def crash(self, number: int, fault: str, *, at_once: bool) -> None:  # noqa: ARG002
        when = "another takes its place at once" if at_once else "nobody takes its place until then"
        self.told.append(
            f"client-{number}: crash it without a flush, what is under way in it is unknown; {when}"
        )

    def replace(self, number: int, fault: str) -> None:  # noqa: ARG002
        self.told.append(f"client-{number}: a new client takes the place")

    def state(self, number: int, fault: str) -> ClientState:  # noqa: ARG002
        return ClientState(alive=f"client-{number}", kept_dead_by=frozenset(), death=None)


@dataclass(frozen=True)
class RecordingLeadership:
    """Leadership that moves nowhere: what would be asked is written down at the first node."""

    plan: Plan
    nodes: Mapping[str, RecordingNode]

    def placements(self) -> Mapping[int, PartitionView]:
        return _as_if_first_led(self.plan, list(self.nodes)).partitions

    def reorder(self, wanted: Mapping[int, Sequence[str]]) -> None:
        for partition, replicas in wanted.items():
            before = ",".join(self.placements()[partition].replicas)
            self._record(f"partition {partition}: replicas {before} -> {','.join(replicas)}")

    def elect(self, partitions: Sequence[int]) -> Mapping[int, str]:
        for partition in partitions:
            self._record(f"partition {partition}: elect the preferred leader")
        return {}

    def _record(self, asked: str) -> None:
        first = next(iter(self.nodes.values()))
        first.commands.append(f"{self.plan.target.system}: {asked}")


def dry_run(bound: Bound) -> dict[str, Any]:
    """The nodes that would start and, for every step, when it begins and what it would run.

    Selectors are looked up when a fault begins; here they are shown as if the first broker led.
    """
    plan = bound.plan
    names = bound.target.names(plan)
    addresses = {name: f"{_EXAMPLE_SUBNET}.{11 + n}" for n, name in enumerate(names)}
    version = plan.target.version
    image = ImageRef(
        reference=plan.target.image or f"{plan.target.system} {version}", id="", version=version
    )
    specs = bound.target.nodes(plan, Ingredients(image=image), addresses)
    nodes = {s.name: RecordingNode(s.name, s.roles, addresses[s.name]) for s in specs}
    clients = RecordingClients()
    levers = all_levers(nodes, leadership=RecordingLeadership(plan, nodes), clients=clients)
    met: dict[str, tuple[str, ...]] = {}
    return {
        "plan": plan.document(),
        "image": image.reference,
        "nodes": [
            {
                "name": spec.name,
                "roles": sorted(spec.roles),
                "address": addresses[spec.name],
                "command": " ".join(spec.argv),
                "files": sorted(spec.files),
            }
            for spec in specs
        ],
        "faults": [_dry_step(bound, step, nodes, clients, levers, met) for step in bound.steps],
    }


def _dry_step(
    bound: Bound,
    bound_step: BoundStep,
    nodes: Mapping[str, RecordingNode],
    clients: RecordingClients,
    levers: Mapping[str, Lever],
    met: dict[str, tuple[str, ...]],
) -> dict[str, Any]:
    step, plan = bound_step.step, bound.plan
    told: dict[str, Any] = {"id": step.id, "begins": _begins(bound_step)}
    if bound_step.nemesis is None:
        return {**told, "heals": step.heal}
    acts, chosen = _dry_acts(bound_step.nemesis, step, plan, nodes, met)
    met[step.id] = tuple(chosen)
    for act in acts:
        lever = levers[act.lever]
        lever.apply(looked(lever, {**act.token, "fault": step.id, "seed": plan.seed}))
    commands = [command for node in nodes.values() for command in node.commands] + clients.told
    clients.told = []
    for node in nodes.values():
        node.commands.clear()
    asked = f"{step.nodes} (here as if {', '.join(chosen) or 'none'})"
    return {
        **told,
        "nemesis": step.nemesis,
        "nodes": ", ".join(chosen) if isinstance(bound_step.nemesis, ClientNemesis) else asked,
        "commands": commands,
        "healed": f"after {step.for_s:g} s" if step.for_s else "by a later step, or at the end",
    }


def _dry_acts(
    nemesis: Nemesis | ClientNemesis,
    step: FaultStep,
    plan: Plan,
    nodes: Mapping[str, RecordingNode],
    met: Mapping[str, tuple[str, ...]],
) -> tuple[list[Act], list[str]]:
    """What the step would do, and to whom."""
    if isinstance(nemesis, ClientNemesis):
        draw = random.Random(f"{plan.seed}/{step.id}")
        acts = nemesis.client_acts(client_names(plan), draw)
        return acts, [act.token["node"] for act in acts]
    choice = selectors.Choice(
        roles={name: node.roles for name, node in nodes.items()},
        situation=_as_if_first_led(plan, list(nodes)),
        earlier=met,
    )
    chosen = selectors.select(step.nodes, choice)

    def select(text: str) -> list[Node]:
        return [nodes[name] for name in selectors.select(text, choice)]

    return nemesis.acts([nodes[name] for name in chosen], select), chosen


def _begins(bound_step: BoundStep) -> str:
    step = bound_step.step
    words = []
    if step.at_s is not None:
        words.append(f"{step.at_s:g} s after the first operation")
    if bound_step.condition is not None:
        words.append(f"when {bound_step.condition.text!r} holds, at most {step.within_s:g} s")
    if not words:
        words.append("after the step before")
    if step.after_s:
        words.append(f"and {step.after_s:g} s later")
    return ", ".join(words)


def _as_if_first_led(plan: Plan, names: list[str]) -> Situation:
    isr = tuple(names[: plan.topic.replication_factor])
    view = [
        PartitionView(partition=p, leader=names[0], leader_epoch=0, isr=isr, replicas=isr)
        for p in range(plan.topic.partitions)
    ]
    return Situation(time_ns=0, partitions={v.partition: v for v in view}, controller=names[-1])


def warnings(bound: Bound) -> list[str]:
    """What is allowed but probably not meant."""
    plan, notes = bound.plan, []
    load = plan.workload
    timeout_ms = load.producer.get("message.timeout.ms", 8000)
    needed = load.rate_per_s * float(timeout_ms) / 1000
    if load.rate_per_s and load.processes < needed:
        notes.append(
            f"workload.processes: {load.processes} processes cannot keep {load.rate_per_s:g} "
            f"operations a second through a stall of message.timeout.ms ({timeout_ms} ms): "
            f"{needed:.0f} would"
        )
    longest_s = _longest_s(plan)
    if longest_s > load.duration_s:
        notes.append(
            f"workload.duration_s: the schedule may take {longest_s:g} s if every wait runs out, "
            f"the workload lasts {load.duration_s:g} s: later steps would be left out"
        )
    return notes


def _longest_s(plan: Plan) -> float:
    longest_s = 0.0
    for step in plan.faults:
        longest_s = max(longest_s, step.at_s or 0.0)
        longest_s += (step.within_s if step.when else 0.0) + step.after_s
    return longest_s


def plan_schema() -> dict[str, Any]:
    """The JSON Schema of plans; a step's options depend on its nemesis."""
    schema = Plan.model_json_schema(by_alias=True)
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
    ]
    return schema
