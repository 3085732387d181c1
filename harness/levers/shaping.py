"""The shaping lever: makes what a node sends slow (tbf) or unruly (netem), counts it, undoes it.

It puts a queueing discipline at the root of the node's network device, for all that the node sends,
with a handle made from the fault's name. The kernel refuses to put a second one there and to remove
one of another handle: what is not ours is never replaced, and a second fault of this kind on the
same node fails with a clear sentence. netem is not in every kernel: `refused` tells.

The probe's pings show that it works. What it does to the system is what the discipline counts while
no probe runs: `met` are packets held back or dropped (tbf), or sent through it (netem). Where the
counters stood after a probe is kept in a file of ours on the node, so any process can go on.
Answers to the observer are counted too: they leave through the same queue.

Token: {"node", "fault", "kind": "tbf", "rate_kbit": 500}
       {"node", "fault", "kind": "netem", "delay_ms": 100, "jitter_ms": 20,
        "duplicate_share": 0.1, "corrupt_share": 0.1, "reorder_share": 0.1}  (any of them)
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar
from zlib import crc32

from harness.errors import HarnessFailure
from harness.levers.clients import clients_address
from harness.levers.commands import must
from harness.levers.waiting import poll_until
from harness.protocols import Node, Proof, Token

_DEVICE = "eth0"
_QUEUE_MS = 400
_LEAST_BURST_BYTES = 16_384  # more than one whole packet, and many ticks of the kernel's clock
_BURST_S = 0.02
_PING_BYTES = 1400
_AT_ONCE = 16
_PROBE_S = 3
_SLACK = 1.1
_KEPT = "/run/ackloss.shaped."


@dataclass(frozen=True)
class ShapingLever:
    """Limits the rate of what a node sends, or delays, doubles, corrupts or reorders it."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "shaping"

    def apply(self, token: Token) -> None:
        """Put ours at the device's root; nothing when it stands there already."""
        node = self.nodes[token["node"]]
        if _ours(node, token) is not None:
            return
        if others := [told for told in _qdiscs(node, _DEVICE) if told["handle"] != "0:"]:
            raise HarnessFailure(
                f"{node.name}: {_DEVICE} is shaped by another already "
                f"({others[0]['kind']} {others[0]['handle']}), which is left as it is"
            )
        must(
            node,
            ["tc", "qdisc", "add", "dev", _DEVICE, "root", "handle", _handle(token), *_what(token)],
        )

    def undo(self, token: Token) -> None:
        """Remove ours; the kernel refuses when another's stands there, or none."""
        node = self.nodes[token["node"]]
        node.admin(["tc", "qdisc", "del", "dev", _DEVICE, "root", "handle", _handle(token)])
        if _ours(node, token) is not None:
            raise HarnessFailure(f"{node.name}: {_handle(token)} at {_DEVICE} cannot be removed")
        node.admin(["rm", "-f", f"{_KEPT}{token['fault']}"])

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: ours stands with its parameters, packets went through it, and it held them
        back; `met` are those of the system. Undone: none of our handle stands."""
        node = self.nodes[token["node"]]
        standing = _ours(node, token)
        if not applied:
            kinds = ", ".join(told["kind"] for told in _qdiscs(node, _DEVICE)) or "nothing"
            left = "still" if standing else "no longer"
            told = f"{_handle(token)} is {left} at {_DEVICE}, which has {kinds}"
            return Proof(standing is None, [f"{node.name}: {told}"])
        if standing is None:
            told = f"no {token['kind']} {_handle(token)} at {_DEVICE}"
            return Proof(False, [f"{node.name}: {told}"])
        met = _met(node, token, standing)
        proof = _limited(node, token) if token["kind"] == "tbf" else _unruly(node, token)
        _keep(node, token, met)
        done = "held back or dropped" if token["kind"] == "tbf" else "sent through it"
        told = f"{node.name}: while no probe ran, packets of the system were {done} {met:,} times"
        return Proof(proof.proven, [*proof.evidence, told], met)

    def leftover_state(self, node: Node) -> list[str]:
        """Any discipline that somebody put there: those of a fresh node have the handle 0."""
        return [
            f"{node.name}: qdisc {told['kind']} {told['handle']} at {told.get('dev', '')}"
            for told in _qdiscs(node)
            if told["handle"] != "0:"
        ]


def refused(node: Node, kind: str) -> str | None:
    """Null, or why the node's kernel has no such discipline: tried for a moment at the loopback
    device, with parameters that hold nothing back."""
    harmless = {"netem": ["netem"], "tbf": ["tbf", *_tbf(10_000_000)]}[kind]
    at = ["dev", "lo", "root", "handle", "5fff:"]
    tried = node.admin(["tc", "qdisc", "add", *at, *harmless])
    if tried.exit_code == 0:
        must(node, ["tc", "qdisc", "del", *at])
        return None
    return f"{node.name}: this kernel has no {kind}: {tried.output.strip()[:200]}"


def _handle(token: Token) -> str:
    return f"{0x5000 + crc32(token['fault'].encode()) % 0xFFF:x}:"


def _what(token: Token) -> list[str]:
    """The discipline and its parameters as `tc` wants them."""
    if token["kind"] == "tbf":
        return ["tbf", *_tbf(token["rate_kbit"])]
    words = ["netem"]
    if token.get("delay_ms"):
        words += ["delay", f"{token['delay_ms']:g}ms"]
        words += [f"{token['jitter_ms']:g}ms"] if token.get("jitter_ms") else []
    for name in ("duplicate", "corrupt", "reorder"):
        if part := token.get(f"{name}_share"):
            words += [name, f"{100 * part:g}%"]
    return words


def _tbf(rate_kbit: int) -> list[str]:
    burst = str(_burst_bytes(rate_kbit))
    return ["rate", f"{rate_kbit}kbit", "burst", burst, "latency", f"{_QUEUE_MS}ms"]


def _burst_bytes(rate_kbit: int) -> int:
    return max(_LEAST_BURST_BYTES, round(rate_kbit * 125 * _BURST_S))


def _qdiscs(node: Node, device: str | None = None) -> list[dict[str, Any]]:
    """The disciplines of a device, or of all, with their counters. Raises HarnessFailure when they
    cannot be seen."""
    at = ["dev", device] if device else []
    told = must(node, ["tc", "-s", "-j", "qdisc", "show", *at])
    try:
        found = json.loads(told)
    except json.JSONDecodeError:
        return []
    return [qdisc for qdisc in found if isinstance(qdisc, dict)]


def _ours(node: Node, token: Token) -> dict[str, Any] | None:
    for told in _qdiscs(node, _DEVICE):
        if (told["kind"], told["handle"]) == (token["kind"], _handle(token)):
            return told
    return None


def _acted(token: Token, told: Mapping[str, Any]) -> int:
    """How often a discipline did to packets what it is for."""
    if token["kind"] == "tbf":
        return int(told["overlimits"]) + int(told["drops"])
    return int(told["packets"])


def _met(node: Node, token: Token, now: Mapping[str, Any]) -> int:
    """How often since it stands, but while a probe sent packets."""
    kept = node.admin(["cat", f"{_KEPT}{token['fault']}"])
    met, acted = map(int, kept.output.split()) if kept.exit_code == 0 else (0, 0)
    return met + _acted(token, now) - acted


def _keep(node: Node, token: Token, met: int) -> None:
    """Note what the system met so far, and where the counter stands now that a probe has ended and
    none of its packets waits in the queue any more."""
    poll_until(lambda: not (_ours(node, token) or {}).get("backlog"), within_s=_QUEUE_MS / 1000)
    if now := _ours(node, token):
        script = 'printf "%s %s" "$1" "$2" > "$0"'
        words = [f"{_KEPT}{token['fault']}", str(met), str(_acted(token, now))]
        must(node, ["sh", "-c", script, *words])


def _ping(node: Node, *argv: str) -> str:
    """Send packets through the device, to where clients are, for a few seconds at most."""
    ping = ["timeout", str(_PROBE_S), "ping", "-n", "-q", "-W", "1", *argv]
    return node.admin([*ping, clients_address(node) or ""]).output


def _limited(node: Node, token: Token) -> Proof:
    """More than a burst is sent at once: it goes no faster than asked, and some is held back."""
    rate_bytes_per_s = token["rate_kbit"] * 125
    burst_bytes = _burst_bytes(token["rate_kbit"])
    begun_s, before = time.monotonic(), _ours(node, token)
    count = 2 + 3 * burst_bytes // (2 * _PING_BYTES)
    _ping(node, "-f", "-l", str(_AT_ONCE), "-c", str(count), "-s", str(_PING_BYTES))
    after, took_s = _ours(node, token), time.monotonic() - begun_s
    if before is None or after is None:
        return Proof(False, [f"{node.name}: {_handle(token)} at {_DEVICE} is gone"])
    sent, held, dropped = (after[of] - before[of] for of in ("bytes", "overlimits", "drops"))
    allowed_bytes = burst_bytes + round(rate_bytes_per_s * took_s * _SLACK)
    rate_kept = after["options"]["rate"] == rate_bytes_per_s
    return Proof(
        rate_kept and 0 < sent <= allowed_bytes and held + dropped > 0,
        [
            f"{node.name}: tbf {_handle(token)} at {_DEVICE} with "
            f"{after['options']['rate'] * 8 / 1000:,.0f} kbit/s: {sent:,} bytes in {took_s:.2f} s "
            f"(at most {allowed_bytes:,}), packets held back {held:,} times, {dropped:,} dropped"
        ],
    )


def _unruly(node: Node, token: Token) -> Proof:
    """Packets go through netem; where they are delayed, answers take as long."""
    before = _ours(node, token)
    told = _ping(node, "-i", "0.1", "-c", "10")
    after = _ours(node, token)
    if before is None or after is None:
        return Proof(False, [f"{node.name}: {_handle(token)} at {_DEVICE} is gone"])
    sent = after["packets"] - before["packets"]
    least_ms = token.get("delay_ms", 0) - token.get("jitter_ms", 0)
    times = re.search(r"= [\d.]+/([\d.]+)/", told)
    mean_ms = float(times[1]) if times else None
    late = least_ms <= 0 or (mean_ms is not None and mean_ms >= least_ms)
    answers = f"answers took {mean_ms:.1f} ms" if mean_ms is not None else "no answer came"
    return Proof(
        sent > 0 and late,
        [f"{node.name}: {' '.join(_what(token))} at {_DEVICE}: {sent:,} packets sent; {answers}"],
    )
