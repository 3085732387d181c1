"""Leaving a project as it was found, in the process of the run or in another one: from the journal
of the run, the labels of our containers, and the note on this machine. The journal may be lost,
with the folder of the run: what our containers themselves hold is undone, too."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import docker

from harness.clusters.compose.node import ComposeNode, attached, levers_over
from harness.clusters.compose.project import made_by_start, state_of, stop_again
from harness.clusters.compose.provider import KIND
from harness.clusters.docker.removal import remove_run
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure
from harness.failures import as_failure
from harness.faults.journal import OpenAct, open_acts
from harness.images.daemon import DAEMON_TROUBLE
from harness.levers.pause import PauseLever
from harness.levers.process import ProcessLever
from harness.machine import reach, state
from harness.protocols import Node

T = TypeVar("T")

_PATIENCE_S: Final = 60.0
_RETRY_S: Final = 1.0
_LEFT_IN_NAMESPACES: Final = ("net", "shaping", "stress")
"""The levers whose leftover state is ours beyond doubt."""


def leave_as_found(
    client: docker.DockerClient,
    run_id: str,
    remove_objects: Callable[[], list[str]],
    undo_own: Callable[[Mapping[str, ComposeNode]], None],
    *,
    dry_run: bool = False,
) -> list[str]:
    """Undo the faults of a run (`undo_own`: those of the target's own levers), remove its objects
    in the system and our containers, and stop the project if the run has started it. Returns what
    was removed. Tries all of it, then raises the first failure; what is needed to try again is kept
    until nothing is left. Without the run's folder it is not known which containers a fault has
    killed: those that do not run are reported once, as HarnessFailure, when all else is done."""
    entry = reach.remembered(KIND, run_id) or {}
    nodes, removed, failures = attached(client, run_id), list[str](), list[AcklossError]()

    def attempt(step: Callable[[], list[str] | None]) -> bool:
        try:
            removed.extend(step() or ())
            return True
        except AcklossError as error:
            failures.append(error)
        except DAEMON_TROUBLE as error:
            what = f"Docker does not undo everything of run {run_id}: {error}"
            failures.append(HarnessFailure(what, hint="run `ackloss clean` again"))
        return False

    acts = _open_acts(nodes, run_id)
    killed = [] if dry_run or entry.get("before") else _perhaps_killed(nodes, run_id)
    undone = dry_run or attempt(lambda: _undo(nodes, acts))
    if not dry_run:  # by requests to the system: it must run again
        own = partial(undo_own, nodes)
        undone = attempt(partial(_patiently, own) if acts else own) and undone
    if entry.get("objects") and dry_run and acts:
        removed.extend(entry["objects"])  # under faults it may be unknown whether they are there
    elif entry.get("objects"):
        attempt(partial(_patiently, remove_objects) if acts else remove_objects)
    if undone:  # else they are needed to try again
        attempt(lambda: remove_run(client, run_id, dry_run=dry_run))
    if (before := entry.get("before")) and undone:
        changed = entry.get("changed") or made_by_start(
            before, state_of(client, str(entry["project"]))
        )
        attempt(lambda: stop_again(client, changed, dry_run=dry_run))
    if failures:
        raise failures[0]
    if not dry_run:
        reach.forget(KIND, run_id)
    if killed:
        raise HarnessFailure(
            f"containers that do not run: {', '.join(killed)}; a fault of run {run_id} may have "
            "killed them (its folder, which would show that, is gone)",
            hint="`docker start` those that are to run",
        )
    return removed


def _perhaps_killed(nodes: Mapping[str, ComposeNode], run_id: str) -> list[str]:
    """The nodes that do not run, if nothing is left that shows why: all of them ran when the run
    began."""
    folder = state.folder_of(run_id)
    if folder is not None and folder.is_dir():
        return []
    return [name for name, node in sorted(nodes.items()) if not node.process().running]


def _open_acts(nodes: dict[str, ComposeNode], run_id: str) -> list[OpenAct]:
    """What the run's journal does not report as undone, on nodes that are still there."""
    if (folder := state.folder_of(run_id)) is None:
        return []
    return [act for act in open_acts(folder / "faults.jsonl").acts if act.record.node in nodes]


def _undo(nodes: dict[str, ComposeNode], acts: Sequence[OpenAct]) -> list[str]:
    """Undo these acts: containers run again first, as rules are in networks of containers that run.
    Raises HarnessFailure for what is still in force."""
    levers, failures = levers_over(nodes), list[AcklossError]()
    latest_first = [act for act in reversed(acts) if act.lever in levers]
    for act in sorted(latest_first, key=lambda act: act.lever != ProcessLever.name):
        try:
            levers[act.lever].undo(act.record)
        except Exception as error:
            failures.append(as_failure(error))
    for node in nodes.values():
        try:
            _continue(node)
        except Exception as error:
            failures.append(as_failure(error))
    if failures:
        raise failures[0]
    if left := [sentence for node in nodes.values() for sentence in _left_on(node)]:
        raise HarnessFailure(
            f"is still in force: {'; '.join(left)}", hint="restart this container of yours"
        )
    return []


def _continue(node: ComposeNode) -> None:
    """Continue what our own marks report as paused beside a container that runs."""
    pause = PauseLever({node.name: node})
    for record in pause.marked(node) if node.process().running else ():
        pause.undo(record)


def _left_on(node: ComposeNode) -> list[str]:
    """What of ours is in force beside a container that runs; with one that does not, it ended."""
    if not node.process().running:
        return []
    levers = levers_over({node.name: node})
    return [each for name in _LEFT_IN_NAMESPACES for each in levers[name].leftover_state(node)]


def with_roles(
    nodes: Mapping[str, ComposeNode], members: Mapping[str, Node]
) -> Mapping[str, ComposeNode]:
    """The nodes that are still there, with the roles that the cluster reports: the labels of our
    containers hold none."""
    for name in nodes.keys() & members.keys():
        nodes[name].roles = members[name].roles
    return nodes


def _patiently(step: Callable[[], T]) -> T:
    """Request something of the system, of which a part has just been started again: it is waited
    for."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return step()
        except (EnvironmentFailure, HarnessFailure):
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
