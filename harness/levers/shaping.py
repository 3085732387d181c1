"""The shaping lever: limits the rate of what a node sends (tbf), or delays, duplicates, corrupts or
reorders it (netem); counts it, and undoes it.

A queueing discipline is put at the root of the node's network device, for all that the node sends,
with a handle made from the fault's name. The kernel refuses to add a second one there and to remove
one of another handle: what is not ours is never replaced, and a second fault of this kind on the
same node fails with a clear sentence. Not every kernel has netem: `refused` tries it.

The probe's pings show that the mechanism works. What it does to the system is what the discipline
counts while no probe runs: `met` are packets held back or dropped (tbf), or sent through it
(netem). The counters after a probe are kept in a file of ours on the node, so any process can go on
from there. Answers to the observer are counted too: they leave through the same queue.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar
from zlib import crc32

from harness.errors import HarnessFailure
from harness.faults.records import ShapingRecord
from harness.levers.commands import must, poll_until
from harness.levers.net import refuse_gateway, why_no_clients
from harness.protocols import Lever, Node, OwnConnection, Proof

_QUEUE_MS = 400
_LEAST_BURST_BYTES = 16_384  # more than one full packet, and many ticks of the kernel's clock
_BURST_S = 0.02
_PING_BYTES = 1400
_AT_ONCE = 16
_SENDING_S = 2
_SLACK = 1.1
_KEPT = "/run/ackloss.shaped."
_USUAL_DEVICE = "eth0"
_OUR_HANDLES = re.compile(r"[56][0-9a-f]{3}:")
_UNLIMITED = "10gbit"


@dataclass(frozen=True)
class ShapingLever(Lever[ShapingRecord]):
    """Limits the rate of what a node sends, or delays, duplicates, corrupts or reorders it."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "shaping"

    def unavailable(self, node: Node, record: ShapingRecord) -> str | None:
        """Where the kernel lacks the discipline, or the probe would have no peer to ping."""
        if why := refused(node, record.kind):
            return why
        return why_no_clients(node)

    def apply(self, record: ShapingRecord) -> None:
        """Put our discipline at the device's root; nothing when it stands there already. Raises
        HarnessFailure where it would slow our way to others."""
        node = self.nodes[record.node]
        refuse_gateway(node, self.nodes)
        if _ours(node, record) is not None:
            return
        at_device = _device(node)
        if others := [qdisc for qdisc in _qdiscs(node, at_device) if qdisc.handle != "0:"]:
            raise HarnessFailure(
                f"{node.name}: {at_device} is shaped by another already "
                f"({others[0].kind} {others[0].handle}), which is left as it is"
            )
        at = ["root"]
        if (own := node.own_connection) is not None:
            _leave_alone(node, own, at_device, _guard(record))
            at = ["parent", f"{_guard(record)}2"]
        at = ["dev", at_device, *at, "handle", _handle(record)]
        must(node, ["tc", "qdisc", "add", *at, *_discipline(record)])

    def undo(self, record: ShapingRecord) -> None:
        """Remove our discipline; the kernel refuses when another one stands there, or none."""
        node = self.nodes[record.node]
        at, handle = _device(node), _handle(record)
        top = _guard(record) if node.own_connection is not None else handle
        node.admin(["tc", "qdisc", "del", "dev", at, "root", "handle", top])
        if _ours(node, record) is not None:
            raise HarnessFailure(f"{node.name}: {handle} at {at} cannot be removed")
        node.admin(["rm", "-f", f"{_KEPT}{record.fault}"])

    def probe(self, record: ShapingRecord, *, applied: bool) -> Proof:
        """In force: our discipline stands with its parameters, packets went through it, and it held
        them back; `met` counts those of the system. Undone: none of our handle stands."""
        node = self.nodes[record.node]
        standing, handle, at = _ours(node, record), _handle(record), _device(node)
        if not applied:
            kinds = ", ".join(qdisc.kind for qdisc in _qdiscs(node, at)) or "nothing"
            left = "still" if standing else "no longer"
            evidence = f"{node.name}: {handle} is {left} at {at}, which has {kinds}"
            return Proof(standing is None, [evidence])
        if standing is None:
            return Proof(False, [f"{node.name}: no {record.kind} {handle} at {at}"])
        met = _met(node, record, standing)
        proof = _limited(node, record) if record.kind == "tbf" else _unruly(node, record)
        _keep(node, record, met)
        done = "held back or dropped" if record.kind == "tbf" else "sent through it"
        counts = f"packets of the system were {done} {met:,} times"
        evidence = f"{node.name}: while no probe ran, {counts}"
        return Proof(proof.proven, [*proof.evidence, evidence], met)

    def leftover_state(self, node: Node) -> list[str]:
        """Disciplines with a handle such as ours. Others may be there, and are not ours."""
        return [
            f"{node.name}: qdisc {qdisc.kind} {qdisc.handle} at {qdisc.device}"
            for qdisc in _qdiscs(node)
            if _OUR_HANDLES.fullmatch(qdisc.handle)
        ]


def refused(node: Node, kind: str) -> str | None:
    """None, or why the node's kernel lacks a discipline: tried for a moment at the loopback device,
    with parameters that hold nothing back."""
    harmless = {"netem": ["netem"], "tbf": ["tbf", *_tbf(10_000_000)]}[kind]
    at = ["dev", "lo", "root", "handle", "5fff:"]
    tried = node.admin(["tc", "qdisc", "add", *at, *harmless])
    if tried.exit_code == 0:
        must(node, ["tc", "qdisc", "del", *at])
        return None
    return f"{node.name}: this kernel has no {kind}: {tried.output.strip()[:200]}"


def _device(node: Node) -> str:
    """The device through which a node reaches its clients, or others at all: it is shaped there."""
    address = node.clients_address if node.own_connection is not None else None
    to = ["get", address] if address else ["show", "default"]
    match = re.search(r"\bdev (\S+)", node.admin(["ip", "-4", "route", *to]).output)
    return match[1] if match else _USUAL_DEVICE


def _handle(record: ShapingRecord) -> str:
    return f"{0x5000 + crc32(record.fault.encode()) % 0xFFF:x}:"


def _guard(record: ShapingRecord) -> str:
    """The handle of what leaves our own connection alone."""
    return f"{0x6000 + crc32(record.fault.encode()) % 0xFFF:x}:"


def _leave_alone(node: Node, own: OwnConnection, at: str, handle: str) -> None:
    """Put two classes at a device's root: our own connection goes through the first as it did, and
    all else through the second."""
    must(node, ["tc", "qdisc", "add", "dev", at, "root", "handle", handle, "htb", "default", "2"])
    for number in "12":
        rate = ["htb", "rate", _UNLIMITED, "quantum", "60000"]
        parent = ["parent", handle, "classid", f"{handle}{number}"]
        must(node, ["tc", "class", "add", "dev", at, *parent, *rate])
    match = f"match ip dst {own.peer}/32 match ip sport {own.port} 0xffff".split()
    where = ["parent", handle, "protocol", "ip", "prio", "1"]
    must(node, ["tc", "filter", "add", "dev", at, *where, "u32", *match, "flowid", f"{handle}1"])


def _discipline(record: ShapingRecord) -> list[str]:
    """The discipline and its parameters as arguments of `tc`."""
    if record.kind == "tbf":
        return ["tbf", *_tbf(record.rate_kbit)]
    words = ["netem"]
    if record.delay_ms:
        words += ["delay", f"{record.delay_ms:g}ms"]
        words += [f"{record.jitter_ms:g}ms"] if record.jitter_ms else []
    shares = {
        "duplicate": record.duplicate_share,
        "corrupt": record.corrupt_share,
        "reorder": record.reorder_share,
    }
    for name, share in shares.items():
        words += [name, f"{100 * share:g}%"] if share else []
    return words


def _tbf(rate_kbit: int) -> list[str]:
    burst = str(_burst_bytes(rate_kbit))
    return ["rate", f"{rate_kbit}kbit", "burst", burst, "latency", f"{_QUEUE_MS}ms"]


def _burst_bytes(rate_kbit: int) -> int:
    return max(_LEAST_BURST_BYTES, round(rate_kbit * 125 * _BURST_S))


@dataclass(frozen=True, kw_only=True)
class Qdisc:
    """A queueing discipline that stands at a device, with its counters, as `tc` reports it."""

    kind: str
    handle: str
    device: str
    rate_bytes_per_s: int
    bytes: int
    packets: int
    overlimits: int
    drops: int
    backlog_bytes: int

    def acted(self) -> int:
        """How many times it has acted on packets as intended."""
        return self.overlimits + self.drops if self.kind == "tbf" else self.packets


def _qdiscs(node: Node, device: str | None = None) -> list[Qdisc]:
    """The disciplines of a device, or of all. Raises HarnessFailure when they cannot be read."""
    at = ["dev", device] if device else []
    output = must(node, ["tc", "-s", "-j", "qdisc", "show", *at])
    try:
        found = json.loads(output)
    except json.JSONDecodeError:
        return []
    return [
        Qdisc(
            kind=qdisc["kind"],
            handle=qdisc["handle"],
            device=qdisc.get("dev", ""),
            rate_bytes_per_s=qdisc.get("options", {}).get("rate", 0),
            backlog_bytes=qdisc.get("backlog", 0),
            **{name: qdisc.get(name, 0) for name in ("bytes", "packets", "overlimits", "drops")},
        )
        for qdisc in found
        if isinstance(qdisc, dict)
    ]


def _ours(node: Node, record: ShapingRecord) -> Qdisc | None:
    wanted, found = (record.kind, _handle(record)), _qdiscs(node, _device(node))
    return next((qdisc for qdisc in found if (qdisc.kind, qdisc.handle) == wanted), None)


def _met(node: Node, record: ShapingRecord, now: Qdisc) -> int:
    """How many times since it stands, without those while a probe sent packets."""
    kept = node.admin(["cat", f"{_KEPT}{record.fault}"])
    met, acted = map(int, kept.output.split()) if kept.exit_code == 0 else (0, 0)
    return met + now.acted() - acted


def _keep(node: Node, record: ShapingRecord, met: int) -> None:
    """Note what the system has met so far, and the counter's value now that a probe has ended and
    none of its packets waits in the queue any more."""

    def drained() -> bool:
        qdisc = _ours(node, record)
        return qdisc is None or not qdisc.backlog_bytes

    poll_until(drained, within_s=_QUEUE_MS / 1000)
    if now := _ours(node, record):
        script = 'printf "%s %s" "$1" "$2" > "$0"'
        words = [f"{_KEPT}{record.fault}", str(met), str(now.acted())]
        must(node, ["sh", "-c", script, *words])


def _ping(node: Node, *argv: str, wait_s: int = 1) -> str:
    """Send packets to where clients are, for some seconds, and wait so long for a first answer."""
    limit_s = _SENDING_S + wait_s
    ping = ["timeout", str(limit_s), "ping", "-n", "-q", "-W", str(wait_s), *argv]
    return node.admin([*ping, node.clients_address or ""], timeout_s=limit_s + 7).output


def _limited(node: Node, record: ShapingRecord) -> Proof:
    """More than a burst at once goes no faster than requested, and some is held back."""
    rate_bytes_per_s = record.rate_kbit * 125
    burst_bytes = _burst_bytes(record.rate_kbit)
    begun_s, before = time.monotonic(), _ours(node, record)
    count = 2 + 3 * burst_bytes // (2 * _PING_BYTES)
    _ping(node, "-f", "-l", str(_AT_ONCE), "-c", str(count), "-s", str(_PING_BYTES))
    after, took_s = _ours(node, record), time.monotonic() - begun_s
    if before is None or after is None:
        return Proof(False, [f"{node.name}: {_handle(record)} is gone"])
    sent, held = after.bytes - before.bytes, after.overlimits - before.overlimits
    dropped = after.drops - before.drops
    allowed_bytes = burst_bytes + round(rate_bytes_per_s * took_s * _SLACK)
    rate_kept = after.rate_bytes_per_s == rate_bytes_per_s
    return Proof(
        rate_kept and 0 < sent <= allowed_bytes and held + dropped > 0,
        [
            f"{node.name}: tbf {_handle(record)} at {after.device} with "
            f"{after.rate_bytes_per_s * 8 / 1000:,.0f} kbit/s: {sent:,} bytes in {took_s:.2f} s "
            f"(at most {allowed_bytes:,}), packets held back {held:,} times, {dropped:,} dropped"
        ],
    )


def _unruly(node: Node, record: ShapingRecord) -> Proof:
    """Packets go through netem; where they are delayed, answers take as long."""
    before = _ours(node, record)
    latest_s = math.ceil((record.delay_ms + record.jitter_ms) / 1000)
    summary = _ping(node, "-i", "0.1", "-c", "10", wait_s=1 + latest_s)
    after = _ours(node, record)
    if before is None or after is None:
        return Proof(False, [f"{node.name}: {_handle(record)} is gone"])
    sent = after.packets - before.packets
    least_ms = record.delay_ms - record.jitter_ms
    times = re.search(r"= [\d.]+/([\d.]+)/", summary)
    mean_ms = float(times[1]) if times else None
    late = least_ms <= 0 or (mean_ms is not None and mean_ms >= least_ms)
    answers = f"answers took {mean_ms:.1f} ms" if mean_ms is not None else "no answer came"
    form = " ".join(_discipline(record))
    return Proof(
        sent > 0 and late,
        [f"{node.name}: {form} at {after.device}: {sent:,} packets sent; {answers}"],
    )
