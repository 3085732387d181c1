"""The clock lever: a wrong wall clock for the target's process on a node, and only for it.

Containers share the kernel's clock, so it is never set. The process is started with libfaketime
loaded (`prepared`), which adds the offset in a file to its wall clock and leaves its monotonic
clock alone; the file is read again within a second. A rate in that file would count from the start
of each process that reads it, so a drift is made of small steps of the offset, by a loop on the
node. The times in its log show that the target's process itself follows the clock
(`clock_written`).

Each fault has its own file with its present offset, and the process adds the sum of all:
healing one of two overlapping faults leaves the other. The loops of drift and strobe end with their
fault's file, or after `limit_s`: so an undo needs no memory, and a dead harness needs no undo.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from harness.errors import HarnessFailure
from harness.faults.records import ClockRecord
from harness.levers import clock_reading
from harness.levers.clock_reading import Reading
from harness.levers.clock_script import FOLDER, LIBRARY, OFFSET, SCRIPT, START, command, path, text
from harness.levers.waiting import poll_until
from harness.protocols import Lever, Node, NodeSpec, Proof, UndoRecord

_DRIFT_SEEN_S = 2.0
_LOOP_ENDS_S = 3.0
_TRIES = 3  # on a busy machine a loop may come late with a step, once


def prepared(spec: NodeSpec, library: bytes) -> NodeSpec:
    """The node with libfaketime in its process from the start, at an offset of 0.

    A process whose system cannot load the library starts without it, and the lever reports it.
    """
    files = {LIBRARY: library, OFFSET: b"+0\n", SCRIPT: text().encode()}
    return replace(
        spec,
        argv=["/bin/sh", "-c", START, "start", *spec.argv],
        files={**spec.files, **{f"{FOLDER}/{name}": content for name, content in files.items()}},
    )


@dataclass(frozen=True)
class ClockLever(Lever[ClockRecord]):
    """Moves the wall clock that the target's process sees."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "clock"
    record_type: ClassVar[type[UndoRecord]] = ClockRecord

    def unavailable(self, node: Node, record: ClockRecord) -> str | None:  # noqa: ARG002
        """Unless its process was started with libfaketime, and has loaded it."""
        why = clock_reading.read(node).why
        return f"{node.name}: {why}" if why else None

    def apply(self, record: ClockRecord) -> None:
        """Add the fault's offset; nothing if it is already in force."""
        node = self.nodes[record.node]
        drifts = record.form == "drift"
        size_us = record.drift_ms_per_s * 1e3 if drifts else record.offset_s * 1e6
        words = [record.fault, record.form, f"{size_us:.0f}"]
        if record.form != "jump":
            words += [f"{record.period_s * 1e3:.0f}", f"{record.limit_s:.0f}"]
        done = node.admin(command("add", *words))
        if done.exit_code:
            raise HarnessFailure(f"{node.name}: its clock was not moved: {done.output.strip()}")

    def undo(self, record: ClockRecord) -> None:
        """Remove the fault's offset; its loop ends."""
        node = self.nodes[record.node]
        done = node.admin(command("drop", record.fault))
        if done.exit_code and node.admin(["test", "-e", path(SCRIPT)]).exit_code == 0:
            raise HarnessFailure(f"{node.name}: its clock was not put back: {done.output.strip()}")

    def probe(self, record: ClockRecord, *, applied: bool) -> Proof:
        """Compare its clock with the host's. In force: it is as far off as requested; `met` counts
        lines of its own log, written since, whose times are as far off. Undone: nothing of this
        fault is left in it."""
        node, fault = self.nodes[record.node], record.fault
        if not applied:
            poll_until(lambda: fault not in clock_reading.read(node).loops, within_s=_LOOP_ENDS_S)
            return clock_reading.undone(node, clock_reading.read(node), record)
        for _ in range(_TRIES):
            readings = _read_often(node, record)
            if proven := clock_reading.shows(readings, record):
                break
        met, written = clock_reading.written_lines(readings, record)
        seen = clock_reading.described(node, readings, record)
        return Proof(proven, [seen, f"{node.name}: {written}"], met)

    def leftover_state(self, node: Node) -> list[str]:
        """The faults whose offset or loop is left on the node."""
        if node.admin(["test", "-e", path(SCRIPT)]).exit_code:
            return []
        now = clock_reading.read(node)
        offsets = [f"{node.name}: the clock fault {fault} is in force" for fault in now.offsets_s]
        return offsets + [f"{node.name}: the loop of clock fault {f} runs" for f in now.loops]


def _read_often(node: Node, record: ClockRecord) -> list[Reading]:
    """As many readings as it takes to see a form: one, two, or some over a period."""
    readings = [clock_reading.read(node)]
    if record.form == "drift":
        time.sleep(_DRIFT_SEEN_S)
        readings.append(clock_reading.read(node))
    elif record.form == "strobe":
        until_s = time.monotonic() + 1.5 * record.period_s
        while time.monotonic() < until_s:
            lines, _ = clock_reading.written_lines(readings, record)
            if lines and clock_reading.moved(readings, record):
                break  # a line that was written while the clock was right shows nothing
            time.sleep(record.period_s / 8)
            readings.append(clock_reading.read(node))
    return readings
