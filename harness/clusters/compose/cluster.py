"""The cluster of a run in a compose project of the user's."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import docker

from harness.clusters.compose.file import KIND, Named
from harness.clusters.compose.levers import levers_over
from harness.clusters.compose.matching import Matched, matched
from harness.clusters.compose.node import ComposeNode, Limits, attach
from harness.clusters.compose.project import Container, Project, made_by_start, state_of
from harness.clusters.compose.undoing import leave_as_found
from harness.clusters.external.cluster import ASK_S, ExternalCluster
from harness.errors import EnvironmentFailure
from harness.machine import reach
from harness.protocols import Lever, Member, Node

_UP_S: Final = 120.0
_RETRY_S: Final = 1.0
_CONNECT_S: Final = 3.0


@dataclass
class ComposeCluster(ExternalCluster):
    """See `harness.protocols.RunCluster`. What is needed to leave the project as it was found is
    noted before the first change."""

    named: Named = field(kw_only=True)
    client: docker.DockerClient = field(kw_only=True)
    infra_image: str = field(kw_only=True)
    say: Callable[[str], None] = field(kw_only=True)

    @property
    def levers(self) -> Mapping[str, Lever[Any]]:
        """Those that a container of the user's allows."""
        return levers_over(self.members)

    def start(self) -> None:
        """Start the project if that is requested, find out which container is which node, and
        put ours beside each."""
        project = Project(self.client, self.named)
        noted = self._started(project) if self.named.content.start else self._note()
        nodes = self._matched(project.containers())
        network, limits = shared_network(self.named, [node.container for node in nodes])
        with ThreadPoolExecutor(max_workers=12) as pool:
            for node, made in zip(nodes, pool.map(self._attached, nodes), strict=True):
                self.members[node.name] = ComposeNode(
                    node.name,
                    node.roles | {f"service:{node.container.service}"},
                    node.container.id,
                    made,
                    self.client,
                    network=network,
                    limits=limits[node.container.id],
                )
        self._note(noted, objects=list(self.guest.objects(self.order.plan)))

    def output(self, node: Node) -> bytes | None:
        """None: what the user's containers print is theirs."""
        return None

    def down(self) -> list[str]:
        """Undo what is in force, remove what is ours, and leave the project as it was found."""
        try:
            return leave_as_found(
                self.client,
                self.run_id,
                lambda: self.guest.remove(self.guest.objects(self.order.plan), dry_run=False),
                lambda _: self.undo_own(),
            )
        finally:
            self.guest.close()

    def _note(
        self, noted: Mapping[str, reach.Note] | None = None, **more: reach.Note
    ) -> dict[str, reach.Note]:
        """Add to what another process must know; there are no objects of ours at first."""
        first = {**self.entry(), "project": self.named.project, "objects": []}
        entry = {**(first if noted is None else noted), **more}
        reach.remember(KIND, self.run_id, entry)
        return entry

    def _started(self, project: Project) -> dict[str, reach.Note]:
        before = state_of(self.client, self.named.project)
        noted = self._note(before=before)
        self.say(f"starting the project {self.named.project}")
        project.up()
        now = state_of(self.client, self.named.project)
        return self._note(noted, changed=made_by_start(before, now))

    def _attached(self, node: Matched) -> str:
        return attach(
            self.client,
            self.run_id,
            self.infra_image,
            name=node.name,
            container=node.container.id,
        )

    def _matched(self, containers: Mapping[str, Container]) -> list[Matched]:
        """The nodes, by what the cluster says it is; one that was just started, by us or by the
        user, is waited for."""
        until_s = max(each.started_s for each in containers.values()) + _UP_S
        waits = False
        while True:
            try:
                members = self.guest.members(self.order.plan, timeout_s=ASK_S)
                for member in members:
                    self._connect(member)
                return matched(self.named, containers, members)
            except EnvironmentFailure as error:
                if time.time() > until_s:
                    raise
                if not waits:
                    self.say(f"waiting for the project {self.named.project}: {error.what}")
                    waits = True
                time.sleep(_RETRY_S)

    def _connect(self, member: Member) -> None:
        """Raise EnvironmentFailure for a node whose address this machine does not reach."""
        host, _, port = member.address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_S).close()
        except OSError as error:
            why = error.strerror or ("no answer in time" if isinstance(error, TimeoutError) else "")
            raise EnvironmentFailure(
                f"{member.name} is advertised to clients as {member.address}, where this machine "
                f"does not reach it ({why or error})",
                file=str(self.named.file),
                key="bootstrap",
                hint="name a listener that is advertised with an address for this machine",
            ) from error


def shared_network(named: Named, containers: Sequence[Container]) -> tuple[str, dict[str, Limits]]:
    """The network in which all nodes reach each other, and what may not be done to each container,
    by its id. Raises EnvironmentFailure if there is none."""
    common = set(containers[0].addresses).intersection(*(each.addresses for each in containers))
    if not common:
        raise EnvironmentFailure(
            "the services share no network",
            file=str(named.file),
            key="services",
            hint="name services that reach each other in one network",
        )
    network = sorted(common)[0]
    return network, {each.id: _limits(each, containers, network) for each in containers}


def _limits(container: Container, all_: Sequence[Container], network: str) -> Limits:
    others = [each for each in all_ if each.id != container.id]
    further = {n for each in others for n in each.addresses} & container.addresses.keys()
    further -= {network}
    cut = None
    if further:
        ways = ", ".join(sorted({network, *further}))
        cut = f"reaches others in several networks ({ways}): a cut would leave a way"
    elif container.six:
        cut = "has an IPv6 address too, and cuts are of IPv4: a cut would leave a way"
    shape = None
    if len(container.addresses) > 1:
        shape = "has several networks, and what it sends is shaped in one of them"
    memory = None
    if not container.limited_memory:
        memory = "has no memory limit: what is held would be the machine's memory"
    kill = None
    if container.removed_at_end:
        kill = "is removed by Docker when its process ends"
    return Limits(cut=cut, shape=shape, memory=memory, kill=kill)
