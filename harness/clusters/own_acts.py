"""Undoes what the own levers of a target did, on a cluster that is still there when the process of
the run is gone: from the journal and the plan in the folder of the run.

Where a kind of cluster removes its nodes, what was done on them is gone with them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from harness import failures
from harness.errors import AcklossError, HarnessFailure, HistoryError
from harness.faults.journal import OpenAct, open_acts
from harness.history.run_folder import RunDir
from harness.levers.client import ClientLever
from harness.levers.consumer import ConsumerLever
from harness.levers.manual import ManualLever
from harness.machine import state
from harness.plan import Plan
from harness.plan.explanations import explain
from harness.plan.model import plan_model
from harness.protocols import Lever, Node, Target

NodesOf = Callable[[Plan], Mapping[str, Node]]
"""The nodes of the cluster by name, once the plan is known."""

_OF_THE_RUN: Final = frozenset({ClientLever.name, ConsumerLever.name, ManualLever.name})
"""Levers over what ended with the process of the run, or what only the operator can undo."""
_AGAIN: Final = "run `ackloss clean` again"


@dataclass(frozen=True, kw_only=True)
class OwnActs:
    """What the journal of a run does not report as undone, and only its target can undo: `acts`,
    the latest first, and why those of levers that nothing here has cannot be read (`foreign`)."""

    rundir: RunDir
    acts: Sequence[OpenAct]
    foreign: Sequence[HistoryError]


@dataclass(frozen=True)
class StillThere:
    """See `harness.protocols.Cluster`: that of a run whose process is gone."""

    nodes: Mapping[str, Node]
    levers: Mapping[str, Lever[Any]]


def own_acts(run_id: str, offered: Collection[str]) -> OwnActs | None:
    """What only the target of a run can undo, by its journal; `None` if there is nothing.
    `offered` are the levers of the cluster."""
    if (folder := state.folder_of(run_id)) is None:
        return None
    rundir = RunDir(folder)
    left = open_acts(rundir.faults)
    others = _OF_THE_RUN.union(offered)
    acts = [act for act in reversed(left.acts) if act.lever not in others]
    if not acts and not left.foreign:
        return None
    return OwnActs(rundir=rundir, acts=acts, foreign=left.foreign)


def undo_own(
    left: OwnActs, target: Target[Any] | None, nodes_of: NodesOf, levers: Mapping[str, Lever[Any]]
) -> None:
    """Undo it by the target's own levers; `levers` are those of the cluster.

    Tries all of it. Raises HarnessFailure for what could not be undone, EnvironmentFailure if the
    cluster cannot be reached, HistoryError for a lever that the target does not have.
    """
    own = frozenset[str]() if target is None else target.own_levers
    if target and (acts := [act for act in left.acts if act.lever in own]):
        plan = _stored_plan(left.rundir)
        _undo(acts, target.levers(StillThere(nodes_of(plan), levers), plan))
    for error in left.foreign:
        hint = f"{error.hint}, then {_AGAIN}" if error.hint else _AGAIN
        raise HistoryError(
            f"{error.what}: its fault may still be in force", file=error.file, hint=hint
        )
    for act in left.acts:
        if act.lever not in own:
            raise HistoryError(
                f"the fault {act.fault!r} may still be in force: its lever {act.lever!r} is not "
                "one that the run's target has on this cluster",
                file=str(left.rundir.faults),
                hint=f"use the ackloss and the packages of the run, then {_AGAIN}",
            )


def _undo(acts: Sequence[OpenAct], levers: Mapping[str, Lever[Any]]) -> None:
    failed = []
    for act in acts:
        try:
            levers[act.lever].undo(act.record)
        except Exception as error:  # a plug-in's own mistake too: the others are still undone
            why = error if isinstance(error, AcklossError) else failures.what(error)
            failed.append(f"{act.lever} of fault {act.fault!r} on {act.record.node} ({why})")
    if failed:
        raise HarnessFailure(f"is still in force: {'; '.join(failed)}", hint=_AGAIN)


def _stored_plan(rundir: RunDir) -> Plan:
    """The plan of a run, as its target declares it. Raises HistoryError, PlanError."""
    document = rundir.read_json(rundir.plan)
    section = document.get("target")
    system = section.get("system") if isinstance(section, dict) else None
    model = plan_model(system, file=str(rundir.plan))
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise explain(error, model, file=str(rundir.plan)) from error
