"""Readings of a node's clock, and what they show of a fault: pure functions but for `read`.

A reading compares the clock that a process with the library sees with the host's clock, at one
moment. What one fault has done is the difference that the other faults do not account for.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.faults.records import ClockRecord
from harness.levers.clock_script import command
from harness.levers.clock_written import Written, newest
from harness.protocols import Node, Proof

TOLERANCE_S = 0.05
_WRITTEN_S = 0.5  # from the time in a line until the line is in the file


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A node's clock at one moment.

    off_s      how far the clock with the library is ahead of the host's
    offsets_s  the offset of each fault in force
    ages_s     for how long each of them has been in force
    loops      the faults whose loop runs
    why        why the process cannot see a moved clock, if it cannot
    known      whether the node could read its clock
    written    what the process itself wrote last
    """

    at_s: float
    off_s: float
    offsets_s: Mapping[str, float]
    ages_s: Mapping[str, float]
    loops: tuple[str, ...]
    why: str | None
    known: bool
    written: Written | None

    def own_s(self, fault: str) -> float:
        """How far the clock is off, without what other faults request."""
        return self.off_s - sum(us for name, us in self.offsets_s.items() if name != fault)


def read(node: Node) -> Reading:
    """The node's clock now."""
    pid = node.pid()
    output = node.admin(command("show", str(pid or 0))).output
    lines = [line.split() for line in output.splitlines()]
    values = {words[0]: words[1:] for words in lines if words}
    why = None
    if "clocks" not in values:
        why = f"it was not started with a clock that can be moved: {output.strip()[:200]}"
    elif pid is None:
        why = "its process does not run"
    elif values.get("loaded") != ["yes"]:
        why = f"its process {pid} has not loaded libfaketime"
    before_ns, own_ns, after_ns = (int(word) for word in values.get("clocks", ["0"] * 3))
    faults = [words[1:] for words in lines if words[:1] == ["fault"]]
    return Reading(
        at_s=time.monotonic(),
        off_s=(own_ns - (before_ns + after_ns) / 2) / 1e9,
        offsets_s={name: int(us) / 1e6 for name, us, _ in faults},
        ages_s={name: int(ms) / 1e3 for name, _, ms in faults},
        loops=tuple(words[1] for words in lines if words[:1] == ["loop"]),
        why=why,
        known="clocks" in values,
        written=newest(node),
    )


def shows(readings: Sequence[Reading], record: ClockRecord) -> bool:
    """Whether these readings show the fault, as the process itself sees it."""
    loaded = all(reading.why is None for reading in readings)
    fits = all(_fits(reading, record) for reading in readings)
    return loaded and fits and moved(readings, record)


def _fits(reading: Reading, record: ClockRecord) -> bool:
    """Whether the clock is as far off as this fault requests at this moment."""
    fault, form = record.fault, record.form
    if fault not in reading.ages_s:
        return False
    if form == "drift":
        requested_s = [record.drift_ms_per_s / 1e3 * reading.ages_s[fault]]
    else:
        requested_s = [record.offset_s, *([0.0] if form == "strobe" else [])]
    return any(abs(reading.own_s(fault) - off_s) <= TOLERANCE_S for off_s in requested_s)


def moved(readings: Sequence[Reading], record: ClockRecord) -> bool:
    """Whether the clock did what its form does between the readings: a drift is near 0 at first."""
    first, last, fault = readings[0], readings[-1], record.fault
    if record.form == "drift":
        requested_s = record.drift_ms_per_s / 1e3 * (last.at_s - first.at_s)
        moved_s = last.own_s(fault) - first.own_s(fault)
        return abs(moved_s - requested_s) <= abs(requested_s) / 2
    if record.form == "strobe":
        return {abs(reading.own_s(fault)) > TOLERANCE_S for reading in readings} == {True, False}
    return True


def written_lines(readings: Sequence[Reading], record: ClockRecord) -> tuple[int, str]:
    """How many lines of the process's own log show the fault, of the last line at each reading, and
    the same in words.

    A line counts when it was written since the fault began, and its time is off by what the fault
    requests, without what other faults request. In the first second, when the process may not have
    read the offset yet, its lines are dated rightly and do not count.
    """
    fault = record.fault
    lines = {
        round(reading.at_s - reading.written.age_s, 2): (reading, reading.written)
        for reading in readings
        if reading.written and reading.written.age_s < reading.ages_s.get(fault, 0)
    }
    if not lines:
        return 0, "its process has written no line with a time since"
    off_s = {at: line.off_s - seen.off_s + seen.own_s(fault) for at, (seen, line) in lines.items()}
    count = sum(_line_fits(off_s[at], seen, line, record) for at, (seen, line) in lines.items())
    offs = ", ".join(f"{off:+.3f}" for off in off_s.values())
    return count, f"what its process wrote last is dated {offs} s from the host's clock"


def _line_fits(off_s: float, reading: Reading, line: Written, record: ClockRecord) -> bool:
    """Whether a line's time is off by what was requested when it was written."""
    if record.form == "drift":
        age_s = reading.ages_s[record.fault] - line.age_s
        requested_s = record.drift_ms_per_s / 1e3 * age_s
    else:
        requested_s = record.offset_s
    return abs(off_s - requested_s) <= min(_WRITTEN_S, abs(requested_s) / 2)


def undone(node: Node, reading: Reading, record: ClockRecord) -> Proof:
    """Whether nothing of the fault is left."""
    fault, others = record.fault, [name for name in reading.offsets_s if name != record.fault]
    gone = fault not in reading.offsets_s and fault not in reading.loops
    beside = f", {' and '.join(others)} still in force" if others else ""
    beside += f"; {reading.why}" if reading.why else ""
    return Proof(
        gone and reading.known and abs(reading.own_s(fault)) <= TOLERANCE_S,
        [f"{node.name}: {_ahead(reading.off_s)}{beside}"],
    )


def described(node: Node, readings: Sequence[Reading], record: ClockRecord) -> str:
    """What the readings show, beside what was requested, as a sentence."""
    first, last, fault = readings[0], readings[-1], record.fault
    if why := first.why or last.why:
        return f"{node.name}: {why}"
    if record.form == "jump":
        return f"{node.name}: {_ahead(first.own_s(fault))}, {record.offset_s:+g} s requested"
    if record.form == "drift":
        moved_ms = (last.own_s(fault) - first.own_s(fault)) * 1e3 / (last.at_s - first.at_s)
        return (
            f"{node.name}: {_ahead(last.own_s(fault))}, it moved by {moved_ms:+.1f} ms a "
            f"second, {record.drift_ms_per_s:+g} requested"
        )
    states = ", ".join(f"{reading.own_s(fault):+.3f}" for reading in readings)
    return (
        f"{node.name}: its clock was ahead of the host's by {states} s in turn, "
        f"{record.offset_s:+g} and 0 every {record.period_s:g} s requested"
    )


def _ahead(off_s: float) -> str:
    return f"its clock is {abs(off_s):.3f} s {'ahead of' if off_s >= 0 else 'behind'} the host's"
