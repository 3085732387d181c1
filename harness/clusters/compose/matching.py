"""Which container is which node of the system: by the address at which the system says that clients
find it, or by the number that the cluster file gives. Both are compared where both are there: a
fault on another container than the one that is meant would prove nothing."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.clusters.compose.file import Named
from harness.clusters.compose.project import Container
from harness.errors import EnvironmentFailure, PlanError
from harness.protocols import Member


@dataclass(frozen=True, kw_only=True)
class Matched:
    """A node: its name and roles, and its container."""

    name: str
    roles: frozenset[str]
    container: Container


def matched(
    named: Named, containers: Mapping[str, Container], members: Sequence[Member]
) -> list[Matched]:
    """The nodes: members first, then services that are none of them. Raises EnvironmentFailure or
    PlanError where it is not certain which is which."""
    services = named.content.services
    of_service: dict[str, Member] = {}
    for member in members:
        service = _service_of(named, containers, member)
        if (other := of_service.get(service)) is not None:
            raise EnvironmentFailure(
                f"{other.name} and {member.name} have the same address, {member.address}",
                file=str(named.file),
                key=f"services.{service}",
                hint="give `node` for each service",
            )
        of_service[service] = member
    nodes = []
    for service, member in of_service.items():
        roles = member.roles | set(services[service].roles)
        nodes.append(Matched(name=member.name, roles=roles, container=containers[service]))
    taken = frozenset[str]().union(*(member.roles for member in members))
    for service in services.keys() - of_service.keys():
        roles = frozenset(services[service].roles)
        if not roles or roles & taken or services[service].node is not None:
            raise _no_member(named, service, members)
    others = [service for service in services if service not in of_service]
    nodes += [
        Matched(
            name=_node_name(service),
            roles=frozenset(services[service].roles),
            container=containers[service],
        )
        for service in others
    ]
    _check_names(named, nodes)
    return nodes


def _service_of(named: Named, containers: Mapping[str, Container], member: Member) -> str:
    """The service whose container a member is."""
    by_number = [
        service
        for service, each in named.content.services.items()
        if each.node is not None and each.node == member.number
    ]
    by_address = at_address(member.address, containers)
    if by_number:
        (service,) = by_number
        if by_address and service not in by_address:
            raise _contradiction(named, service, member, by_address)
        return service
    free = [each for each in by_address if named.content.services[each].node is None]
    if len(free) == 1:
        return free[0]
    if by_address and not free:
        raise _contradiction(named, by_address[0], member, by_address)
    what = f"is {' or '.join(free)}" if free else "is not one of the services"
    number = "" if member.number is None else f"; say `node = {member.number}` where it belongs"
    raise EnvironmentFailure(
        f"which container is {member.name} is not certain: its address, {member.address}, {what}",
        file=str(named.file),
        key="services",
        hint=f"name the service of each node of the system{number}",
    )


def _contradiction(
    named: Named, service: str, member: Member, by_address: Sequence[str]
) -> PlanError:
    return PlanError(
        f"is {named.content.services[service].node}, but {member.name} is at {member.address}, "
        f"which is {' or '.join(by_address)}",
        file=str(named.file),
        key=f"services.{service}.node",
        hint="correct it, or leave it out",
    )


def at_address(address: str, containers: Mapping[str, Container]) -> list[str]:
    """The services whose container is at a host:port: by a name or address of it in its networks,
    else by the port that it has on this machine."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not _is_loopback(host):
        inside = [
            service
            for service, each in containers.items()
            if host in each.names or host in each.addresses.values()
        ]
        if inside:
            return inside
    return [s for s, each in containers.items() if int(port) in each.published]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _no_member(named: Named, service: str, members: Sequence[Member]) -> EnvironmentFailure:
    found = ", ".join(f"{member.name} at {member.address}" for member in members)
    return EnvironmentFailure(
        f"no node of the system is in the service {service}: it names {found or 'none'}",
        file=str(named.file),
        key=f"services.{service}",
        hint="leave the service out, or give it a role that these do not have",
    )


def _node_name(service: str) -> str:
    """The name of a node that the system does not name: as journals can hold it."""
    return re.sub(r"[^a-z0-9.-]", "-", service.lower())


def _check_names(named: Named, nodes: Sequence[Matched]) -> None:
    names = [node.name for node in nodes]
    for node in nodes:
        if names.count(node.name) > 1:
            raise PlanError(
                f"two nodes would have the name {node.name}",
                file=str(named.file),
                key=f"services.{node.container.service}",
                hint="rename the service",
            )
