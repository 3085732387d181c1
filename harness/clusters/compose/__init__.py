"""`cluster.kind = "compose"`: a compose project of the user's, named by `--cluster FILE`.

file      the file that names the project
node      one container, the infrastructure container that works on it, and the levers over it
cluster   the project's containers, as Docker knows them; starting it, and leaving it as it was; the
          nodes of a run: which container is which node of the system; what a run has left in force,
          undone in another process

Here is the plug-in. Load, observation and final read are by clients, as on any cluster of the
user's. Faults are made by a container of ours beside each of theirs. What ackloss has not made it
does not remove.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from harness.clusters.compose.file import KIND, Named, read_named
from harness.clusters.external import External, nodes_there, undo_own
from harness.errors import AcklossError, EnvironmentFailure
from harness.machine import state
from harness.protocols import Finding, GuestTarget, Order, RunCluster, Status


@dataclass(frozen=True)
class Compose(External):
    """Containers of your own compose project (`--cluster FILE`): its services are the nodes."""

    plugin: ClassVar[str] = KIND

    def with_file(self, file: Path) -> Compose:
        named = read_named(file)
        return self._reaching(named.content, file).stating(content=named)

    @property
    def levers(self) -> Sequence[str]:
        """Those that need nothing of the user's containers but that they run."""
        from harness.clusters.compose.node import levers_over

        return tuple(levers_over({}))

    def why_no_lever(self, lever: str) -> str:
        """Why ackloss does not do this to a container of the user's."""
        from harness.clusters.compose.node import WHY_NOT

        return WHY_NOT.get(lever, f"a project of yours does not offer the lever {lever!r}")

    @property
    def trouble(self) -> tuple[type[Exception], ...]:
        from harness.images.daemon import DAEMON_TROUBLE

        return DAEMON_TROUBLE

    def reach(self) -> None:
        from harness.images.daemon import connect

        self._access()
        connect()

    def require(self, order: Order) -> None:
        """A project that runs, or a command that starts it."""
        from harness.clusters.compose.cluster import Project, compose_command, no_command
        from harness.images.daemon import connect

        self._access()
        client = connect()
        if not self.content.content.start:
            Project(client, self.content).containers()
        elif compose_command() is None:
            raise no_command(self.content)

    def checkup(self) -> Sequence[Finding]:
        """Docker; with a file: its project, and what the system in it lets us do."""
        from harness.clusters.docker.checkup import docker_daemon, infra_image

        docker, info = docker_daemon()
        if info is None:
            return (docker,)
        found = [docker, infra_image()]
        if self.content is None:
            fix = "ackloss doctor --cluster FILE"
            return *found, Finding("project", Status.WARN, "none named, none examined", fix)
        project, runs = _examined(self.content)
        return *found, project, *(super().checkup() if runs else ())

    def prepare(self, order: Order, say: Callable[[str], None]) -> None:
        from harness.images.building import infra_image

        infra_image(say)

    def cluster(self, order: Order, run_id: str, say: Callable[[str], None]) -> RunCluster:
        from harness.clusters.compose.cluster import ComposeCluster
        from harness.images.building import infra_image
        from harness.images.daemon import connect

        access, target = self._access(), order.target
        assert isinstance(target, GuestTarget)
        return ComposeCluster(
            order,
            access,
            target,
            run_id,
            named=self.content,
            client=connect(),
            infra_image=infra_image(say).id,
            say=say,
        )

    def of_others(self, known: set[str]) -> list[str]:
        """What some other ackloss made there, while it runs: else nothing can be queried."""
        if self.content is None or not _examined(self.content)[1]:
            return []
        return super().of_others(known)

    def remove(self, run_id: str, *, dry_run: bool = False) -> list[str]:
        """What a dead run left in force and made, in the project and beside it."""
        from harness.clusters.compose.cluster import leave_as_found, with_roles
        from harness.clusters.compose.node import levers_over
        from harness.images.daemon import connect

        if (entry := state.remembered_cluster(KIND, run_id)) is None:
            return []
        guest = partial(self._guest, entry, run_id)
        return leave_as_found(
            connect(),
            run_id,
            partial(self._remove_objects, entry, run_id, dry_run=dry_run),
            lambda nodes: undo_own(
                run_id,
                guest(),
                lambda target, plan: with_roles(nodes, nodes_there(target, plan)),
                levers_over(nodes),
            ),
            dry_run=dry_run,
        )


def _examined(named: Named) -> tuple[Finding, bool]:
    """The project, and whether the system in it can be queried now."""
    from harness.clusters.compose.cluster import Project, compose_command, no_command
    from harness.images.daemon import connect

    what = f"project {named.project}"
    try:
        found = Project(connect(), named).containers()
    except AcklossError as error:
        starts = named.content.start and isinstance(error, EnvironmentFailure)
        if starts and compose_command() is not None:
            return Finding(what, Status.WARN, "does not run; a run starts it and stops it"), False
        wrong = no_command(named) if starts else error
        return Finding(what, Status.MISSING, wrong.what, wrong.hint), False
    return Finding(what, Status.OK, f"runs: {', '.join(found)}"), True
