"""The clock lever: a wrong wall clock for the target's process on a node, and only for it.

Containers share the kernel's clock, so it is never set. The process is started with libfaketime
loaded (`prepared`), which adds the offset in a file to its wall clock and leaves its monotonic
clock alone; the file is read again within a second. A rate in that file would count from the start
of each process that reads it, so a drift is made of small steps of the offset, by a loop on the
node. All of that is a shell script (`_TEXT`), so that a node needs no other tools.

Each fault has its own file with its present offset, and the process adds the sum of all:
healing one of two overlapping faults leaves the other. The loops of drift and strobe end with their
fault's file, or after `limit_s`: so an undo needs no memory, and a dead harness needs no undo.

A reading compares the clock that a process with the library sees with the host's clock, at one
moment. What one fault has done is the difference that the other faults do not account for. What
the target's process itself does is seen in the newest line of its log that begins with a time
(UTC), compared with the time at which the kernel saw the file change. The target's data files are
left out, because a record's time may be its producer's, and so are our own files.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar, Final

from harness.errors import HarnessFailure
from harness.faults.records import ClockRecord
from harness.levers.commands import poll_until
from harness.protocols import NODE_DATA, STORED, Lever, Node, NodeSpec, Proof

FOLDER: Final = "clock"
LIBRARY: Final = "libfaketimeMT.so.1"
OFFSET: Final = "offset"
SCRIPT: Final = "clock.sh"

_INSIDE: Final = f"{NODE_DATA}/{FOLDER}"

# Without the fix for old systems timed waits work and Java does not spin. With a cache of 0 seconds
# the file is read once a second. File times stay as they are when a clock is moved.
_ENV: Final = (
    f"LD_PRELOAD={_INSIDE}/{LIBRARY} FAKETIME_TIMESTAMP_FILE={_INSIDE}/{OFFSET} "
    "FAKETIME_CACHE_DURATION=0 FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_FORCE_MONOTONIC_FIX=0 "
    "NO_FAKE_STAT=1"
)

START: Final = f"""\
if {_ENV} /bin/sh -c : 2>/dev/null; then export {_ENV}; fi
exec "$@"
"""
"""A shell script that becomes the target's process, with the library if its system can load it."""

_TEXT: Final = """\
# clock.sh: the offset of this node's wall clock is the sum of the offsets of the files in faults/.
#   add FAULT FORM MICROSECONDS [PERIOD_MS LIMIT_S]   drop FAULT   show PID
# A file holds its fault's present offset in microseconds, and the uptime in ms when it began.
cd @INSIDE@ || exit 1
mkdir -p faults

uptime_ms() {
    read -r up _ </proc/uptime
    now_ms=${up%.*}${up#*.}0
}

write_offset() {
    total=0
    for file in faults/*; do
        [ -e "$file" ] || continue
        read -r us _ <"$file"
        total=$((total + us))
    done
    sign=+
    [ "$total" -ge 0 ] || { sign=-; total=$((-total)); }
    printf '%s%d.%06d\\n' "$sign" $((total / 1000000)) $((total % 1000000)) >next
    mv next @OFFSET@
}

add() {
    [ ! -e "faults/$1" ] || exit 0
    uptime_ms
    us=$3
    [ "$2" != drift ] || us=0
    echo "$us $now_ms" >"faults/$1"
    write_offset
    if [ "$2" != jump ]; then
        setsid sh @SCRIPT@ loop "$@" "$now_ms" </dev/null >/dev/null 2>&1 9>&- &
    fi
}

# loop FAULT FORM MICROSECONDS PERIOD_MS LIMIT_S BEGAN_MS
loop() {
    while sleep 0.2; do
        exec 9>lock
        flock 9
        [ -e "faults/$1" ] || exit 0
        read -r was began <"faults/$1"
        [ "$began" = "$6" ] || exit 0
        uptime_ms
        age_ms=$((now_ms - began))
        if [ "$age_ms" -ge $(($5 * 1000)) ]; then
            rm -f "faults/$1"
            write_offset
            exit 0
        fi
        if [ "$2" = drift ]; then
            us=$(($3 * age_ms / 1000))
        else
            us=$((age_ms * 2 / $4 % 2 ? 0 : $3))
        fi
        echo "$us $began" >"faults/$1"
        [ "$us" = "$was" ] || write_offset
        exec 9>&-
    done
}

show() {
    # A command that takes long, on a busy machine, says little about the moment between.
    for _ in 1 2 3 4 5 6 7 8; do
        before=$(date +%s%N)
        own=$(@ENV@ date +%s%N)
        after=$(date +%s%N)
        [ $((after - before)) -gt 20000000 ] || break
    done
    uptime_ms
    echo "clocks $before $own $after"
    for file in faults/*; do
        [ -e "$file" ] || continue
        read -r us began <"$file"
        echo "fault ${file#faults/} $us $((now_ms - began))"
    done
    pgrep -af '^sh @SCRIPT@ loop' | while read -r _ _ _ _ fault _; do echo "loop $fault"; done
    if grep -q '@INSIDE@/@LIBRARY@' "/proc/$1/maps" &&
        tr '\\0' '\\n' <"/proc/$1/environ" | grep -qx 'FAKETIME_TIMESTAMP_FILE=@INSIDE@/@OFFSET@'
    then
        echo "loaded yes"
    fi
}

verb=$1
shift
if [ "$verb" = loop ]; then
    loop "$@"
    exit
fi
exec 9>lock
flock 9
case $verb in
add) add "$@" ;;
drop) rm -f "faults/$1" && write_offset ;;
show) show "$@" ;;
esac
"""


def text() -> str:
    """The script."""
    names = {"INSIDE": _INSIDE, "OFFSET": OFFSET, "SCRIPT": SCRIPT, "LIBRARY": LIBRARY, "ENV": _ENV}
    script = _TEXT
    for name, value in names.items():
        script = script.replace(f"@{name}@", value)
    return script


def path(name: str) -> str:
    """Where a file of this lever is on a node."""
    return f"{_INSIDE}/{name}"


def command(*words: str) -> list[str]:
    """The command that runs the script on a node."""
    return ["sh", path(SCRIPT), *words]


_STAMP: Final = r"^\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}[.,][0-9]{3}"
# The newest file with a time that did not change while it was read, and its last line with one.
_NEWEST: Final = f"""\
cd {NODE_DATA} || exit 1
for _ in 1 2 3 4 5; do
    newest=$(find . \\( -path ./{STORED} -o -path ./{FOLDER} \\) -prune -o -type f -size +0 \
        -printf '%T@ %p\\n' | sort -rn | while read -r at file; do
            if tail -c 8192 "$file" | grep -qaE '{_STAMP}'; then echo "$at $file"; break; fi
        done)
    file=${{newest#* }}
    line=$(tail -c 8192 "$file" | grep -aoE '{_STAMP}' | tail -n 1)
    [ "${{newest%% *}}" = "$(find "$file" -printf '%T@')" ] && break
done
echo "${{newest%% *}} $(date +%s.%N) $line"
"""


@dataclass(frozen=True)
class Written:
    """The newest line with a time: written `age_s` ago, and `off_s` ahead of the host's clock."""

    age_s: float
    off_s: float


def newest(node: Node) -> Written | None:
    """What the node's process wrote last; None when it has written nothing with a time."""
    output = node.admin(["sh", "-c", _NEWEST]).output
    found = re.fullmatch(r"(\d+\.\d+) (\d+\.\d+) \[?(\S+)[ T](\S+)", output.strip())
    if found is None:
        return None
    at_s, now_s = float(found[1]), float(found[2])
    stamp = datetime.fromisoformat(f"{found[3]} {found[4].replace(',', '.')}")
    return Written(now_s - at_s, stamp.replace(tzinfo=UTC).timestamp() - at_s)


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
    offs_s = [_requested_s(record, reading.ages_s[fault]), *([0.0] if form == "strobe" else [])]
    return any(abs(reading.own_s(fault) - off_s) <= TOLERANCE_S for off_s in offs_s)


def _requested_s(record: ClockRecord, age_s: float) -> float:
    """How far off the clock is to be when the fault has this age."""
    return record.drift_ms_per_s / 1e3 * age_s if record.form == "drift" else record.offset_s


def moved(readings: Sequence[Reading], record: ClockRecord) -> bool:
    """Whether the clock did what its form does between the readings: a drift is near 0 at first."""
    first, last, fault = readings[0], readings[-1], record.fault
    if record.form == "drift":
        requested_s = _requested_s(record, last.at_s - first.at_s)
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
    requested_s = _requested_s(record, reading.ages_s[record.fault] - line.age_s)
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

    def unavailable(self, node: Node, record: ClockRecord) -> str | None:
        """Unless its process was started with libfaketime, and has loaded it."""
        why = read(node).why
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
            poll_until(lambda: fault not in read(node).loops, within_s=_LOOP_ENDS_S)
            return undone(node, read(node), record)
        for _ in range(_TRIES):
            readings = _read_often(node, record)
            if proven := shows(readings, record):
                break
        met, written = written_lines(readings, record)
        seen = described(node, readings, record)
        return Proof(proven, [seen, f"{node.name}: {written}"], met)

    def leftover_state(self, node: Node) -> list[str]:
        if node.admin(["test", "-e", path(SCRIPT)]).exit_code:
            return []
        now = read(node)
        offsets = [f"{node.name}: the clock fault {fault} is in force" for fault in now.offsets_s]
        return offsets + [f"{node.name}: the loop of clock fault {f} runs" for f in now.loops]


def _read_often(node: Node, record: ClockRecord) -> list[Reading]:
    """As many readings as it takes to see a form: one, two, or some over a period."""
    readings = [read(node)]
    if record.form == "drift":
        time.sleep(_DRIFT_SEEN_S)
        readings.append(read(node))
    elif record.form == "strobe":
        until_s = time.monotonic() + 1.5 * record.period_s
        while time.monotonic() < until_s:
            lines, _ = written_lines(readings, record)
            if lines and moved(readings, record):
                break  # a line that was written while the clock was right shows nothing
            time.sleep(record.period_s / 8)
            readings.append(read(node))
    return readings
