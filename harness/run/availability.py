"""What can be done to a cluster: the levers of a run, the faults that are refused because one is
missing, and the proof that no fault is in force before the first operation."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness.errors import EnvironmentFailure, HarnessFailure
from harness.faults.injection import required, unavailable
from harness.faults.journal import known_types
from harness.levers.client import ClientLever
from harness.levers.consumer import ConsumerLever
from harness.levers.manual import ManualLever
from harness.protocols import Client, Cluster, Lever, Nemesis
from harness.protocols.crashes import CLIENTS, ClientNemesis, Crashes
from harness.protocols.groups import Consumers
from harness.run.resolving import ResolvedPlan


def levers_of(
    resolved: ResolvedPlan,
    cluster: Cluster,
    client: object = None,
    groups: Sequence[Consumers] = (),
) -> dict[str, Lever[Any]]:
    """Every lever of a run by name: those that the cluster offers, the target's own, the one over
    the workload's clients if they can crash, and the operator's."""
    levers = dict(cluster.levers)
    own = resolved.target.levers(cluster, resolved.plan)
    for name, lever in own.items():  # after a crash nothing could undo what no journal can hold
        if lever.record_type not in known_types(name):
            raise HarnessFailure(
                f"the target {resolved.target.plugin!r}: the lever {name!r} has the undo record "
                f"{lever.record_type.__name__}, which it does not declare",
                hint="declare it in record_types",
            )
    levers |= own
    if isinstance(client, Crashes):
        levers[ClientLever.name] = ClientLever(client)
    if groups:
        levers[ConsumerLever.name] = ConsumerLever(groups)
    if resolved.operator is not None:
        levers[ManualLever.name] = ManualLever(resolved.operator)
    return levers


def refuse_unavailable(resolved: ResolvedPlan, cluster: Cluster) -> None:
    """Raise EnvironmentFailure for the first fault that is impossible on this cluster."""
    levers, seen = levers_of(resolved, cluster), list[Nemesis]()
    for step in resolved.steps:
        if step.nemesis is None or step.nemesis in seen:
            continue
        seen.append(step.nemesis)
        if why := unavailable(step.nemesis, cluster.nodes, levers):
            raise EnvironmentFailure(
                f"the fault {step.step.id!r} ({step.step.nemesis}) cannot be made here: {why}"
            )


def refuse_without_crashes(resolved: ResolvedPlan, client: Client) -> None:
    """Raise EnvironmentFailure for the first client crash that this target's client does not
    support."""
    for step in resolved.steps:
        meets_clients = isinstance(step.nemesis, ClientNemesis) and step.nemesis.meets == CLIENTS
        if meets_clients and not isinstance(client, Crashes):
            raise EnvironmentFailure(
                f"the fault {step.step.id!r} ({step.step.nemesis}) cannot be made here: "
                f"the clients of {resolved.plan.target.system} cannot crash one by one"
            )


def prepare_nodes(resolved: ResolvedPlan, cluster: Cluster) -> None:
    """Prepare all nodes in parallel for the faults of the plan that need it. Raises
    HarnessFailure."""
    nemeses = [step.nemesis for step in resolved.steps if step.nemesis is not None]
    wanted = {act.lever for nemesis in nemeses for act in required(nemesis, "any")}
    levers = levers_of(resolved, cluster) if wanted else {}
    preparing = [each for name, each in levers.items() if name in wanted]
    calls = [(lever, node) for lever in preparing for node in cluster.nodes.values()]
    with ThreadPoolExecutor(max_workers=max(1, len(calls))) as pool:
        list(pool.map(lambda pair: pair[0].prepare(pair[1]), calls))


def prove_unfaulted(cluster: Cluster) -> None:
    """Raise HarnessFailure if an effect of any lever is in force on any node."""
    with ThreadPoolExecutor(max_workers=12) as pool:
        found = pool.map(
            lambda pair: pair[0].leftover_state(pair[1]),
            [(lever, node) for lever in cluster.levers.values() for node in cluster.nodes.values()],
        )
        leftover_state = [sentence for sentences in found for sentence in sentences]
    if leftover_state:
        raise HarnessFailure(f"the cluster is not unfaulted: {'; '.join(leftover_state)}")
