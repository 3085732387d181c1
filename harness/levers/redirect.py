"""Connections to ports of a node are redirected to ports of a proxy there; no address changes.

One rule for each port, in a chain of ours in the node's nat table, hooked in before routing: so
what the proxy sends to the node's own process is not met, and there is no loop. The harness' own
connections (`harness.faults.own_traffic`) pass, so that observers are not clients of the proxy.

The nat table decides once for a connection, so a redirect meets only what connects afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from harness.faults.own_traffic import FIRST_PORT, LAST_PORT
from harness.levers.commands import must
from harness.protocols import Node

CHAIN: Final = "ACKLOSS-REDIRECT"
MARK: Final = "/run/ackloss.redirected"
"""A file that says on a node that there is a redirect: where nodes are hosts, its removal would
otherwise have to load a table that the host does not use."""

_REDIRECT: Final = """\
touch "$0" || exit 1
own=$1
shift
to="iptables -w -t nat"
$to -N @CHAIN@ 2>/dev/null || $to -F @CHAIN@ || exit 1
$to -A @CHAIN@ -p tcp --sport "$own" -j RETURN || exit 1
for pair in "$@"; do
    $to -A @CHAIN@ -p tcp --dport "${pair%:*}" -m comment --comment ackloss:proxy \\
        -j REDIRECT --to-ports "${pair#*:}" || exit 1
done
hook="PREROUTING ! -i lo -m addrtype --dst-type LOCAL -j @CHAIN@"
$to -C $hook 2>/dev/null || $to -I $hook
""".replace("@CHAIN@", CHAIN)


def redirect(node: Node, ports: Mapping[int, int]) -> None:
    """Redirect connections to each port to the one of the proxy. Raises HarnessFailure."""
    pairs = [f"{port}:{proxy}" for port, proxy in ports.items()]
    must(node, ["sh", "-c", _REDIRECT, MARK, f"{FIRST_PORT}:{LAST_PORT}", *pairs])


def redirected(node: Node) -> dict[int, int]:
    """The ports that are redirected at a node, each with the one of the proxy."""
    if node.admin(["test", "-e", MARK]).exit_code:
        return {}
    rules = must(node, ["iptables", "-w", "-t", "nat", "-S"])
    if not re.search(rf"^-A PREROUTING .*-j {CHAIN}$", rules, re.MULTILINE):
        return {}
    found = re.findall(rf"^-A {CHAIN} .*--dport (\d+) .*--to-ports (\d+)", rules, re.MULTILINE)
    return {int(port): int(proxy) for port, proxy in found}
