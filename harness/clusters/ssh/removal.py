"""Removes what dead runs left on hosts: by the inventory that is on each host itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.clusters.ssh.cluster import side_by_side, take_down
from harness.clusters.ssh.host import Found, Host, hosts_of
from harness.clusters.ssh.inventory import read_inventory
from harness.clusters.ssh.register import forget_hosts, inventory_of
from harness.errors import AcklossError, HarnessFailure


def remove_run(run_id: str, *, dry_run: bool) -> list[str]:
    """Remove everything of a run of this machine from the hosts of its inventory. A host that
    cannot be reached keeps the run listed: raises HarnessFailure."""
    path = inventory_of(run_id)
    if path is None:
        return []
    return remove_from(hosts_of(read_inventory(path)), run_id, dry_run=dry_run)


def remove_from(hosts: Sequence[Host], run_id: str, *, dry_run: bool) -> list[str]:
    """Remove everything of a run from these hosts. Raises HarnessFailure."""
    try:
        if dry_run:
            found = runs_on(hosts)
            return [f"{host.name}: run {run_id}" for host in hosts if run_id in found[host.name]]
        removed, failures = take_down(hosts, run_id)
        if failures:
            raise HarnessFailure(
                f"not everything of run {run_id} could be removed: {'; '.join(failures)}",
                hint="run `ackloss clean` again once the host is back",
            )
        forget_hosts(run_id)
        return removed
    finally:
        for host in hosts:
            host.close()


def runs_on(hosts: Sequence[Host]) -> dict[str, dict[str, Found]]:
    """The runs of which something is on each host, by the host's name and the run's id. Raises the
    first failure."""

    def ask(host: Host) -> dict[str, Found]:
        host.admit()
        return {found.run_id: found for found in host.found()}

    return dict(zip([host.name for host in hosts], side_by_side(ask, hosts), strict=True))


def clean_inventory(path: Path, known: set[str], *, dry_run: bool) -> tuple[list[str], list[str]]:
    """Remove what dead runs of any machine left on an inventory's hosts: what was removed, and
    what was left and why. `known` are runs that this machine has in its own register.

    Raises, after having tried all hosts, the first failure.
    """
    hosts = hosts_of(read_inventory(path))

    def clean(host: Host) -> tuple[list[str], list[str]] | AcklossError:
        try:
            host.admit()
            return _clean_host(host, known, dry_run=dry_run)
        except AcklossError as error:
            return error
        finally:
            host.close()

    removed: list[str] = []
    left: list[str] = []
    failures = []
    for outcome in side_by_side(clean, hosts):
        if isinstance(outcome, AcklossError):
            failures.append(outcome)
        else:
            removed += outcome[0]
            left += outcome[1]
    if failures:
        raise failures[0]
    return removed, left


def _clean_host(host: Host, known: set[str], *, dry_run: bool) -> tuple[list[str], list[str]]:
    removed: list[str] = []
    left: list[str] = []
    for found in host.found():
        if found.run_id in known:
            continue
        if found.alive:
            left.append(f"{host.name}: run {found.run_id} is alive: left alone")
        elif dry_run:
            removed.append(f"{host.name}: run {found.run_id}")
        else:
            removed += host.down(found.run_id)
    return removed, left
