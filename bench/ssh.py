"""One command on a node over SSH, beside `docker exec` of the same command in the same container.

Ours is `Node.admin` on a host that is a container with an SSH server, as a user who needs sudo;
beside it is the Docker client's exec (create, start, inspect), as a harness would run commands in
containers without namespaces of its own, and a new SSH channel for each command. They take turns.
Then 40 commands at once: none may be refused (OpenSSH allows 10 sessions a connection).
Bars: 10 ms in the median, and 40 of 40.

    python -m bench.ssh [COMMANDS]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from harness.clusters.ssh.cluster import SshCluster
from harness.clusters.ssh.host import hosts_of
from harness.clusters.ssh.inventory import read_inventory
from harness.history.run_folder import new_run_id
from harness.images.daemon import connect
from harness.protocols import NodeSpec
from tests.fixtures.ssh_hosts import ssh_hosts

COMMANDS: Final = 200
AT_ONCE: Final = 40
BAR_MS: Final = 10.0
ARGV: Final = ["true"]
SPEC: Final = NodeSpec(name="b1", roles=frozenset({"broker"}), argv=["sleep", "3600"])


def main() -> int:
    """Measure, print, and say by the exit code whether the bars are held."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COMMANDS
    with tempfile.TemporaryDirectory() as folder, ssh_hosts(Path(folder), 1) as hosts:
        (host,) = hosts_of(read_inventory(hosts.inventory()))
        cluster, api = SshCluster(new_run_id(), {"b1": host}), connect().api
        try:
            cluster.admit()
            cluster.start_nodes([SPEC], folders={}, programs={})
            node, container = cluster.nodes["b1"], hosts.containers["h1"]

            def by_docker() -> None:
                made = api.exec_create(container, ARGV)["Id"]
                api.exec_start(made)
                assert api.exec_inspect(made)["ExitCode"] == 0

            took = in_turns(
                count,
                {
                    "over SSH, a kept shell": lambda: node.admin(ARGV),
                    "over SSH, a channel each": lambda: host.execute(" ".join(ARGV)),
                    "docker exec": by_docker,
                },
            )
            answered = at_once(lambda: node.admin(ARGV).exit_code == 0)
        finally:
            cluster.down()
    beside = statistics.median(took["docker exec"])
    for name, times in took.items():
        median, late = statistics.median(times), statistics.quantiles(times, n=20)[-1]
        print(
            f"{name:26} {median:7.1f} ms  95 % {late:7.1f} ms  {median / beside:.3f} of docker exec"
        )
    print(f"{AT_ONCE} at once: {answered} answered")
    held = statistics.median(took["over SSH, a kept shell"]) <= BAR_MS and answered == AT_ONCE
    return 0 if held else 1


def in_turns(count: int, calls: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Milliseconds of each call, one after the other, after one that is not counted."""
    took: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(count + 1):
        for name, call in calls.items():
            begun_s = time.perf_counter()
            call()
            if number:
                took[name].append((time.perf_counter() - begun_s) * 1000)
    return took


def at_once(call: Callable[[], bool]) -> int:
    """How many of many calls at once are answered as they should be."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return sum(pool.map(lambda _: call(), range(AT_ONCE)))


if __name__ == "__main__":
    sys.exit(main())
