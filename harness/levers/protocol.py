"""The protocol lever: requests to a node, or their answers, are dropped, delayed, cut, repeated or
answered with an error, one by one, by a proxy that knows where each begins and ends.

The proxy (`proxy/Proxy.java`) is a process beside the target's on the node (`NodeSpec.beside`).
Connections are redirected to it (`redirect`) before any client connects, so that a
fault is a rule in the proxy: it begins and ends without a connection that breaks. A rule is a file
on the node, and ends with it; then what it had stalled is reset, and what it had held is released.
A hit counts when the act is done.

The target names the requests of its system and the class that reads them (`Requests`); nothing here
knows any.

A redirect is one rule for each port, in a chain of ours in the node's nat table, hooked in before
routing: so what the proxy sends to the node's own process is not met, and there is no loop. The
harness' own connections (`harness.faults.own_traffic`) pass, so that observers are not clients of
the proxy. The nat table decides once for a connection, so a redirect meets only what connects
afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from harness.errors import HarnessFailure
from harness.faults.own_traffic import FIRST_PORT, LAST_PORT
from harness.faults.records import ProtocolRecord
from harness.levers.commands import must, poll_until
from harness.protocols import NODE_DATA, Lever, Node, Proof

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


FOLDER: Final = "proxy"
"""The folder of the proxy below the node's data."""
MORE: Final = 10_000
"""The distance from the target's port to the port of its proxy."""

_STARTS_S: Final = 30
_TAKEN_S: Final = 5


def port_of_proxy(port: int) -> int:
    """Where the proxy in front of a port listens."""
    return port + MORE


@dataclass(frozen=True, kw_only=True)
class Requests:
    """What a target states about its requests: the number of each API and of each error by name,
    `ports` where a node gets requests (none: it has no proxy), other names of a `topic` in
    requests."""

    apis: Mapping[str, int]
    codes: Mapping[str, int]
    ports: Callable[[Node], tuple[int, ...]]
    other_names: Callable[[str], tuple[str, ...]] = lambda _: ()

    def named(self, number: int) -> str:
        """The name of an API."""
        names = (name for name, each in self.apis.items() if each == number)
        return next(names, f"API {number}")


@dataclass(frozen=True)
class ProtocolLever(Lever[ProtocolRecord]):
    """Rules in the proxies in front of the nodes of a system."""

    nodes: Mapping[str, Node]
    requests: Requests
    name: ClassVar[str] = "protocol"

    def prepare(self, node: Node) -> None:
        """Redirect the node's ports, then wait for its proxy: until it listens, a connection is
        refused, as before the system itself listens."""
        if ports := self.requests.ports(node):
            wanted = {port: port_of_proxy(port) for port in ports}
            if redirected(node) != wanted:
                redirect(node, wanted)
            if not poll_until(lambda: hits_of(node) is not None, within_s=_STARTS_S, every_s=0.2):
                raise HarnessFailure(f"{node.name}: its proxy did not start")

    def unavailable(self, node: Node, record: ProtocolRecord) -> str | None:
        """If a node was not prepared. Nodes that get no requests need no proxy."""
        if not self.requests.ports(node):
            return None
        if hits_of(node) is None:
            return f"{node.name} has no proxy: it was not started for such a fault"
        return _why_blind(node, self.requests.ports(node))

    def apply(self, record: ProtocolRecord) -> None:
        """Write the rule; the probe checks whether the proxy has accepted it."""
        node = self.nodes[record.node]
        if not self.requests.ports(node):
            raise HarnessFailure(f"{node.name} has no proxy: it has no requests to meet")
        node.put({f"{_RULES}/{record.fault}": self._rule(record).encode()})

    def undo(self, record: ProtocolRecord) -> None:
        """Remove the rule; the proxy releases what it held and resets what it had stalled."""
        path = f"{NODE_DATA}/{_RULES}/{record.fault}"
        must(self.nodes[record.node], ["rm", "-f", "--", path])

    def probe(self, record: ProtocolRecord, *, applied: bool) -> Proof:
        """In force: the proxy has the rule, and connections are redirected to it; `met` are the
        requests to which its act was done. Undone: it no longer has the rule."""
        node = self.nodes[record.node]
        taken = poll_until(
            lambda: (record.fault in (hits_of(node) or {})) == applied,
            within_s=_TAKEN_S,
            every_s=0.1,
        )
        if not applied:
            words = "does not have the rule any more" if taken else "still has the rule"
            return Proof(taken, [f"{node.name}: its proxy {words}"])
        if not taken:
            return Proof(False, [f"{node.name}: its proxy does not have the rule"], 0)
        hits = (hits_of(node) or {})[record.fault]
        blind = _why_blind(node, self.requests.ports(node))
        evidence = f"{node.name}: its proxy {_DONE[record.act]} {self._counted(hits, record)}"
        met = sum(hits.values())
        return Proof(blind is None, [evidence, *([blind] if blind else [])], met)

    def leftover_state(self, node: Node) -> list[str]:
        """The rules in the node's proxy; one that forwards everything has none."""
        rules = hits_of(node) or {}
        return [f"{node.name}: the proxy's rule of fault {fault}" for fault in rules]

    def _rule(self, record: ProtocolRecord) -> str:
        """The file of a rule, as `Rule.java` reads it."""
        topics = (record.topic, *self.requests.other_names(record.topic)) if record.topic else ()
        subjects = [word for word in (*topics, record.below) if word]
        return "".join(
            f"{key}={value}\n"
            for key, value in {
                "act": record.act,
                "side": record.side,
                "apis": ",".join(str(self.requests.apis[api]) for api in record.apis),
                "client": _escaped(record.client_id),
                "subjects": _escaped(",".join(subjects)),
                "peers": ",".join(peer.address or "" for peer in record.peers),
                "others": ",".join(peer.address or "" for peer in record.others),
                "share": record.share,
                "first": record.first,
                "ms": record.ms or -1,
                "code": self.requests.codes[record.code] if record.code else 0,
                "seed": record.seed,
                "whole": "yes",
            }.items()
        )

    def _counted(self, hits: Mapping[int, int], record: ProtocolRecord) -> str:
        what = "requests" if record.side == "request" else "answers"
        if not hits:
            return f"no {what}"
        by_api = ", ".join(f"{self.requests.named(api)} {count:,}" for api, count in hits.items())
        return f"{sum(hits.values()):,} {what} ({by_api})"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\")


_RULES: Final = f"{FOLDER}/rules"
_DONE: Final[Mapping[str, str]] = {
    "count": "counted",
    "drop": "dropped, with all that followed on their connections,",
    "delay": "delayed",
    "reset": "reset the connection instead of",
    "error": "gave an error for",
    "duplicate": "sent once more",
}


def hits_of(node: Node) -> dict[str, dict[int, int]] | None:
    """By API the hits of each rule of a node's proxy; `None`: there is no proxy, or none yet."""
    read = node.admin(["cat", f"{NODE_DATA}/{FOLDER}/state"])
    if read.exit_code:
        return None
    lines = (line.split() for line in read.output.splitlines())
    return {
        name: {int(api): int(count) for api, count in (each.split(":") for each in counts)}
        for kind, name, *counts in lines
        if kind == "rule"
    }


def _why_blind(node: Node, ports: tuple[int, ...]) -> str | None:
    """Why the proxy affects nothing on a node, if so."""
    stand = redirected(node)
    if missing := [port for port in ports if stand.get(port) != port_of_proxy(port)]:
        return f"{node.name}: port {missing[0]} is not redirected to its proxy"
    listening = must(node, ["ss", "-Hltn"])
    if dead := [port for port in ports if f":{port_of_proxy(port)} " not in listening]:
        return f"{node.name}: no proxy listens at port {port_of_proxy(dead[0])}"
    return None
