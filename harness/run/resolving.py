"""A plan with its plug-ins found and their options validated: everything that can be refused is
refused here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from harness import registry
from harness.clusters.cluster_file import kind_in
from harness.errors import Mistakes, PlanError, nearest
from harness.levers.manual import Operator
from harness.models import MODELS
from harness.plan import Plan
from harness.protocols import (
    Checker,
    Nemesis,
    Order,
    Provider,
    Target,
    Unsupported,
    Workload,
)
from harness.protocols.systems import EXEC
from harness.run.cells import (
    CellPlan,
    asked_in_vain,
    cell_plans,
    checked_cells,
    only_cell,
    workload_of,
)
from harness.run.client_process import ClientCommand
from harness.run.resolving_faults import resolved_steps
from harness.run.schedule import ResolvedStep

# A plan on a cluster that the user already has: how `--cluster FILE` changes it.


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a plan is run instead of on a cluster of our own: the kind of cluster with its file,
    and the target as a guest there."""

    provider: Provider
    target: Target[Any]


def cluster_provider(file: Path) -> Provider:
    """The kind of cluster that a file names. Raises PlanError, or EnvironmentFailure for a missing
    secret."""
    kinds = {
        name: kind
        for name in registry.usable("clusters")
        if (kind := registry.plugins("clusters")[name]).named_by == "cluster"
    }
    named, hint = kind_in(file), f"there are: {', '.join(kinds)}"
    if named is None:
        raise PlanError("is missing", file=str(file), key="kind", hint=hint)
    if named not in kinds:
        near = nearest(str(named), list(kinds))
        hint = f"did you mean {near!r}?" if near else hint
        what = f"{named!r} is not a kind of cluster that a file can describe"
        raise PlanError(what, file=str(file), key="kind", hint=hint)
    made: Provider = kinds[str(named)]().with_file(file)
    return made


def on_cluster(
    document: Mapping[str, Any], cluster: Path, *, file: str
) -> tuple[dict[str, Any], Place, list[str]]:
    """A plan's document for the cluster of a file, with its place, and sentences about what is
    ignored. Raises PlanError."""
    provider = cluster_provider(cluster)
    access, section = provider.access, document.get("target", {})
    system = section.get("system") if isinstance(section, dict) else None
    system = system or registry.default_target()
    if provider.system not in (None, system):
        raise PlanError(
            f"the plan is for {system}, the cluster is {provider.system}",
            file=str(cluster),
            key="system",
            hint="choose another plan",
        )
    target = registry.make("targets", str(system), {}, key="target.system", file=file)
    if not target.does("reached_by"):
        raise PlanError(
            f"{system} cannot be tested on a cluster that ackloss did not start",
            file=file,
            key="target.system",
        )
    assert access is not None
    guest = target.reached_by(access)
    adapted, ignored = guest.adapted(document)
    adapted["cluster"] = {"kind": provider.plugin}
    return adapted, Place(provider=provider, target=guest), ignored


@dataclass(frozen=True, kw_only=True)
class ResolvedPlan:
    """A plan and what its names stand for. `unsupported`: what it requests in vain, to be refused
    (`refuse_unsupported`) or forced by the user. `client`: the command of the user's own
    clients (`with_client`), `operator`: who makes faults by hand (`with_operator`); no plan holds
    them."""

    plan: Plan
    target: Target[Any]
    workload: Workload
    provider: Provider
    steps: tuple[ResolvedStep, ...]
    unsupported: tuple[Unsupported, ...] = ()
    client: ClientCommand | None = None
    operator: Operator | None = None

    @property
    def needs(self) -> frozenset[str]:
        """What the faults need of nodes from their start, by name."""
        return needs_of(step.nemesis for step in self.steps)

    @property
    def order(self) -> Order:
        """What a cluster is made for."""
        return Order(plan=self.plan, target=self.target, needs=self.needs)

    @cached_property
    def cells(self) -> tuple[CellPlan, ...]:
        """The cells of the run, each with its own plan."""
        return cell_plans(self.plan, self.target)


def resolve(
    plan: Plan, *, file: str = "plan", inventory: Path | None = None, place: Place | None = None
) -> ResolvedPlan:
    """Find every plug-in that the plan names; with an inventory, its cluster is on the hosts of
    that file, with a place, its target and kind of cluster are those of the place. Raises
    PlanError."""
    target: Target[Any] = (
        place.target
        if place is not None
        else registry.make("targets", plan.target.system, {}, key="target.system", file=file)
    )
    mistakes, workload, provider = Mistakes(file), None, None
    cells: tuple[CellPlan, ...] = (only_cell(plan),)
    steps: tuple[ResolvedStep, ...] = ()
    with mistakes.noted():
        named = workload_of(plan, file=file)
        _check_model(target, named)
        workload = named
    if workload is not None:
        _check_checks(plan, workload, mistakes)
    with mistakes.noted():
        _check_client(plan, target)
    with mistakes.noted():
        kind = _provider(plan, inventory, place, file)
        _check_cluster(target, kind)
        provider = kind
    with mistakes.noted():
        target.check(plan)
    with mistakes.noted():
        cells = checked_cells(plan, target)
    if provider is not None:
        with mistakes.noted():
            steps = resolved_steps(plan, target, provider, cells)
    mistakes.refuse()
    assert workload is not None
    assert provider is not None
    return ResolvedPlan(
        plan=plan,
        target=target,
        workload=workload,
        provider=provider,
        steps=steps,
        unsupported=asked_in_vain(plan, cells, target),
    )


def _provider(plan: Plan, inventory: Path | None, place: Place | None, file: str) -> Provider:
    """The kind of cluster: what the command line names, else the plan's."""
    if place is not None:
        return place.provider
    if inventory is not None:
        return hosts_provider(inventory)
    made: Provider = registry.make(
        "clusters", plan.cluster.kind, plan.cluster.options, key="cluster.kind", file=file
    )
    return made


def needs_of(nemeses: Iterable[Nemesis | None]) -> frozenset[str]:
    """All that these nemeses need of nodes from their start, by name."""
    return frozenset().union(*(n.needs for n in nemeses if n is not None))


def _check_cluster(target: Target[Any], provider: Provider) -> None:
    """Refuse a target that cannot run on this kind of cluster."""
    if provider.runs(type(target)):
        return
    kinds = [
        kind
        for kind in registry.usable("clusters")
        if registry.make("clusters", kind, {}, key="cluster.kind").runs(type(target))
    ]
    raise PlanError(
        f"{target.plugin} cannot run on a cluster of kind {provider.plugin!r}",
        key="cluster.kind",
        hint=f"it can on: {', '.join(kinds) or 'none'}",
    )


def _check_model(target: Target[Any], workload: Workload) -> None:
    """Refuse a workload whose operations the target does not serve."""
    if workload.model not in target.models:
        workloads = registry.plugins("workloads")
        runs = [n for n in registry.usable("workloads") if workloads[n].model in target.models]
        raise PlanError(
            f"{workload.plugin} makes operations of the model {workload.model!r}, which "
            f"{target.plugin} does not serve",
            key="workload.name",
            hint=f"{target.plugin} runs: {', '.join(runs) or 'none'}",
        )


def _check_client(plan: Plan, target: Target[Any]) -> None:
    """Refuse a client that the target does not have."""
    name = plan.workload.client
    known = [*target.libraries, *([EXEC] if target.does("connection") else [])]
    if name is not None and name not in known:
        raise PlanError(
            f"{target.plugin} has no client {name!r}",
            key="workload.client",
            hint=f"there are: {', '.join(known)}" if known else "leave it out",
        )


HOSTS: Final = "ssh"
"""The kind of cluster that an inventory means."""


def hosts_provider(inventory: Path) -> Provider:
    """The kind of cluster that is on the hosts of an inventory. Raises PlanError."""
    kind: Provider = registry.make("clusters", HOSTS, {}, key="--inventory")
    return kind.with_file(inventory)


def with_client(
    resolved: ResolvedPlan, command: ClientCommand | None, *, file: str = "plan"
) -> ResolvedPlan:
    """The plan with the command of its clients. Raises PlanError if one is missing, or is given but
    not used."""
    name = resolved.plan.workload.client
    if name == EXEC and command is None:
        raise PlanError(
            f"the client {EXEC!r} is a command of yours",
            file=file,
            key="workload.client",
            hint="name it with --client CMD",
        )
    if name != EXEC and command is not None:
        raise PlanError(
            f"--client is given, but the plan's client is {name or 'a library of ackloss'}",
            file=file,
            key="workload.client",
            hint=f"--set workload.client={EXEC}",
        )
    return replace(resolved, client=command)


def _check_checks(plan: Plan, workload: Workload, mistakes: Mistakes) -> None:
    """Refuse a checker that is not known, named twice, or does not judge the workload's model."""
    names = [check if isinstance(check, str) else check.name for check in plan.checks]
    for place, (name, check) in enumerate(zip(names, plan.checks, strict=True)):
        options = {} if isinstance(check, str) else check.options
        key = f"checks.{place}"
        at = key if isinstance(check, str) else f"{key}.name"
        with mistakes.noted():
            checker: Checker[Any, Any] = registry.make("checkers", name, options, key=at)
            if workload.model not in checker.models:
                raise PlanError(
                    f"{name} does not judge operations of the model {workload.model!r}",
                    key=key,
                    hint=f"these do: {', '.join(_judges_of(workload.model))}",
                )
            if name in names[:place]:
                raise PlanError(f"{name!r} is named twice", key=key, hint="name it once")


def _judges_of(model: str) -> list[str]:
    """The checkers that judge operations of a model, its default first."""
    default = MODELS[model].check
    names = registry.usable("checkers")
    others = [name for name in names if model in registry.plugins("checkers")[name].models]
    return [default, *(name for name in others if name != default)]


def refuse_unsupported(resolved: ResolvedPlan, *, file: str, force: bool = False) -> None:
    """Raise PlanError for what the plan requests of a version that does not honour it; with `force`
    only for what cannot be run at all."""
    refused = [each for each in resolved.unsupported if not (force and each.forcible)]
    way = ", or run it anyway with --force" if all(each.forcible for each in refused) else ""
    mistakes = Mistakes(file)
    for each in refused:
        with mistakes.noted():
            hint = f"leave it out{way}" if way else "change it"
            raise PlanError(f"{each.what} ({each.source})", key=each.key, hint=hint)
    mistakes.refuse()
