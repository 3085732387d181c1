"""The clock lever: a wrong wall clock for the target's process on a node, and for nothing else.

Containers share the kernel's clock, so it is never set. The process is started with libfaketime
loaded (`prepared`), which adds to its wall clock the offset that stands in a file and leaves its
monotonic clock alone; the file is read anew within a second. A rate in that file would count from
the start of whoever reads it, so a drift is small steps of the offset, taken by a loop on the node.
That the target's process itself goes by it shows in the times of its log (`clock_written`).

Each fault has a file of its own with its present offset, and the sum of all is what the process
adds: healing one of two overlapping faults leaves the other. The loops of drift and strobe end with
their fault's file, or after `limit_s`; so undoing needs no memory, and a dead harness no undoing.

Token: {"node", "fault", "form": "jump", "offset_s": 60.0}, or "drift" with "drift_ms_per_s" and
"limit_s", or "strobe" with "offset_s", "period_s" and "limit_s"
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from harness.errors import HarnessFailure
from harness.levers.clock_script import FOLDER, LIBRARY, OFFSET, SCRIPT, START, text
from harness.levers.clock_written import Written, newest
from harness.levers.waiting import poll_until
from harness.protocols import NODE_DATA, Node, NodeSpec, Proof, Token

TOLERANCE_S = 0.05
_DRIFT_SEEN_S = 2.0
_LOOP_ENDS_S = 3.0
_WRITTEN_S = 0.5  # from the time in a line to its being in the file
_TRIES = 3  # on a busy machine a loop may come late with a step, once


def prepared(spec: NodeSpec, library: bytes) -> NodeSpec:
    """The node with libfaketime in its process from the start, at an offset of 0.

    A process whose system cannot load the library starts without it, and the lever says so.
    """
    files = {LIBRARY: library, OFFSET: b"+0\n", SCRIPT: text().encode()}
    return replace(
        spec,
        argv=["/bin/sh", "-c", START, "start", *spec.argv],
        files={**spec.files, **{f"{FOLDER}/{name}": content for name, content in files.items()}},
    )


def unprepared(node: Node) -> str | None:
    """Null, or why this node's clock cannot be moved."""
    return _look(node).why


@dataclass(frozen=True)
class ClockLever:
    """Moves the wall clock that the target's process sees."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "clock"

    def apply(self, token: Token) -> None:
        """Add the fault's offset; nothing when it stands already."""
        node = self.nodes[token["node"]]
        form = token["form"]
        size_us = token["drift_ms_per_s"] * 1e3 if form == "drift" else token["offset_s"] * 1e6
        words = [token["fault"], form, f"{size_us:.0f}"]
        if form != "jump":
            words += [f"{token.get('period_s', 0) * 1e3:.0f}", f"{token['limit_s']:.0f}"]
        done = node.admin(_command("add", *words))
        if done.exit_code:
            raise HarnessFailure(f"{node.name}: its clock was not moved: {done.output.strip()}")

    def undo(self, token: Token) -> None:
        """Take the fault's offset away; its loop ends."""
        node = self.nodes[token["node"]]
        done = node.admin(_command("drop", token["fault"]))
        if done.exit_code and node.admin(["test", "-e", _path(SCRIPT)]).exit_code == 0:
            raise HarnessFailure(f"{node.name}: its clock was not put back: {done.output.strip()}")

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """Its clock against the host's: as far off as was asked, or by nothing of this fault. `met`
        are lines of its own log, written since, whose times are as far off."""
        node, fault = self.nodes[token["node"]], token["fault"]
        if not applied:
            poll_until(lambda: fault not in _look(node).loops, within_s=_LOOP_ENDS_S)
            return _undone(node, _look(node), token)
        for _ in range(_TRIES):
            seen = _looks(node, token)
            if proven := _shows(seen, token):
                break
        met, written = _written(seen, token)
        return Proof(proven, [_told(node, seen, token), f"{node.name}: {written}"], met)

    def leftover_state(self, node: Node) -> list[str]:
        """Faults whose offset or loop stands on the node."""
        if node.admin(["test", "-e", _path(SCRIPT)]).exit_code:
            return []
        look = _look(node)
        standing = [f"{node.name}: the clock fault {fault} stands" for fault in look.offsets_s]
        return standing + [f"{node.name}: the loop of clock fault {f} runs" for f in look.loops]


@dataclass(frozen=True, kw_only=True)
class _Look:
    """A node's clock at one moment. `off_s`: how far the clock with the library is ahead of the
    host's; `offsets_s`, `ages_s`: each standing fault's offset, and for how long it stands; `why`
    the process cannot see a moved clock, if it cannot; `told`: whether the node knew its clock;
    `written`: what the process itself wrote last."""

    at_s: float
    off_s: float
    offsets_s: Mapping[str, float]
    ages_s: Mapping[str, float]
    loops: tuple[str, ...]
    why: str | None
    told: bool
    written: Written | None

    def own_s(self, fault: str) -> float:
        """How far it is off beside what other faults ask for."""
        return self.off_s - sum(us for name, us in self.offsets_s.items() if name != fault)


def _look(node: Node) -> _Look:
    """What the node itself tells now."""
    pid = node.pid()
    output = node.admin(_command("show", str(pid or 0))).output
    lines = [line.split() for line in output.splitlines()]
    told = {words[0]: words[1:] for words in lines if words}
    why = None
    if "clocks" not in told:
        why = f"it was not started with a clock that can be moved: {output.strip()[:200]}"
    elif pid is None:
        why = "its process does not run"
    elif told.get("loaded") != ["yes"]:
        why = f"its process {pid} has not loaded libfaketime"
    before_ns, own_ns, after_ns = (int(word) for word in told.get("clocks", ["0"] * 3))
    faults = [words[1:] for words in lines if words[:1] == ["fault"]]
    return _Look(
        at_s=time.monotonic(),
        off_s=(own_ns - (before_ns + after_ns) / 2) / 1e9,
        offsets_s={name: int(us) / 1e6 for name, us, _ in faults},
        ages_s={name: int(ms) / 1e3 for name, _, ms in faults},
        loops=tuple(words[1] for words in lines if words[:1] == ["loop"]),
        why=why,
        told="clocks" in told,
        written=newest(node),
    )


def _looks(node: Node, token: Token) -> list[_Look]:
    """As many looks as it takes to see a form: one, two, or over a period."""
    seen = [_look(node)]
    if token["form"] == "drift":
        time.sleep(_DRIFT_SEEN_S)
        seen.append(_look(node))
    elif token["form"] == "strobe":
        until_s = time.monotonic() + 1.5 * token["period_s"]
        while time.monotonic() < until_s:
            if _moved(seen, token) and _written(seen, token)[0]:
                break  # a line that was written in the half that is right shows nothing
            time.sleep(token["period_s"] / 8)
            seen.append(_look(node))
    return seen


def _shows(seen: list[_Look], token: Token) -> bool:
    """Whether these looks show the fault, seen by the process itself."""
    loaded = all(look.why is None for look in seen)
    return loaded and all(_fits(look, token) for look in seen) and _moved(seen, token)


def _fits(look: _Look, token: Token) -> bool:
    """Whether the clock is as far off as this fault asks for at this moment."""
    fault, form = token["fault"], token["form"]
    if fault not in look.ages_s:
        return False
    if form == "drift":
        asked = [token["drift_ms_per_s"] / 1e3 * look.ages_s[fault]]
    else:
        asked = [token["offset_s"], *([0.0] if form == "strobe" else [])]
    return any(abs(look.own_s(fault) - s) <= TOLERANCE_S for s in asked)


def _moved(seen: list[_Look], token: Token) -> bool:
    """Whether the clock was seen to do what its form does: a small drift is near 0 at first."""
    first, last, fault = seen[0], seen[-1], token["fault"]
    if token["form"] == "drift":
        asked_s = token["drift_ms_per_s"] / 1e3 * (last.at_s - first.at_s)
        moved_s = last.own_s(fault) - first.own_s(fault)
        return bool(abs(moved_s - asked_s) <= abs(asked_s) / 2)
    if token["form"] == "strobe":
        return {abs(look.own_s(fault)) > TOLERANCE_S for look in seen} == {True, False}
    return True


def _written(seen: list[_Look], token: Token) -> tuple[int, str]:
    """How many lines of its own show the fault, of the last ones that were looked at, and in words.

    A line counts when it was written since the process can know of the fault, and is off by what
    is asked for, beside what other faults ask for.
    """
    fault = token["fault"]
    lines = {
        round(look.at_s - look.written.age_s, 2): (look, look.written)
        for look in seen
        if look.written and look.written.age_s < look.ages_s.get(fault, 0)
    }
    if not lines:
        return 0, "its process has written nothing since that tells a time"
    off_s = {at: line.off_s - look.off_s + look.own_s(fault) for at, (look, line) in lines.items()}
    shows = sum(_as_asked(off_s[at], look, line, token) for at, (look, line) in lines.items())
    offs = ", ".join(f"{off:+.3f}" for off in off_s.values())
    return shows, f"what its process wrote last is dated {offs} s from the host's clock"


def _as_asked(off_s: float, look: _Look, line: Written, token: Token) -> bool:
    """Whether a line's time is off by what was asked for when it was written."""
    if token["form"] == "drift":
        asked_s = token["drift_ms_per_s"] / 1e3 * (look.ages_s[token["fault"]] - line.age_s)
    else:
        asked_s = token["offset_s"]
    return bool(abs(off_s - asked_s) <= min(_WRITTEN_S, abs(asked_s) / 2))


def _undone(node: Node, look: _Look, token: Token) -> Proof:
    fault, others = token["fault"], [name for name in look.offsets_s if name != token["fault"]]
    gone = fault not in look.offsets_s and fault not in look.loops
    beside = f", {' and '.join(others)} still asked for" if others else ""
    beside += f"; {look.why}" if look.why else ""
    return Proof(
        gone and look.told and abs(look.own_s(fault)) <= TOLERANCE_S,
        [f"{node.name}: {_ahead(look.off_s)}{beside}"],
    )


def _told(node: Node, seen: list[_Look], token: Token) -> str:
    first, last, fault = seen[0], seen[-1], token["fault"]
    if why := first.why or last.why:
        return f"{node.name}: {why}"
    if token["form"] == "jump":
        return f"{node.name}: {_ahead(first.own_s(fault))}, {token['offset_s']:+g} s asked"
    if token["form"] == "drift":
        moved_ms = (last.own_s(fault) - first.own_s(fault)) * 1e3 / (last.at_s - first.at_s)
        return (
            f"{node.name}: {_ahead(last.own_s(fault))}, having moved by {moved_ms:+.1f} ms a "
            f"second, {token['drift_ms_per_s']:+g} asked"
        )
    states = ", ".join(f"{look.own_s(fault):+.3f}" for look in seen)
    return (
        f"{node.name}: its clock was ahead of the host's by {states} s in turn, "
        f"{token['offset_s']:+g} and 0 every {token['period_s']:g} s asked"
    )


def _ahead(off_s: float) -> str:
    return f"its clock is {abs(off_s):.3f} s {'ahead of' if off_s >= 0 else 'behind'} the host's"


def _path(name: str) -> str:
    return f"{NODE_DATA}/{FOLDER}/{name}"


def _command(*words: str) -> list[str]:
    return ["sh", _path(SCRIPT), *words]
