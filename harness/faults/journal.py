"""faults.jsonl: what the faults of a run meant to do, did, proved and undid; a JSON object a line.

Every line is fsynced before the act that it announces, so after any crash the file says what may
still be in force. An act is journalled as the name of its lever and a typed undo record (`token`,
see `harness.faults.records`), never as a command.

    {"type": "step",    "fault", "nemesis", "nodes", "met", "why", "time_ns"}  the step begins
    {"type": "skip",    "fault", "nemesis", "met", "why", "time_ns"}           it is skipped
    {"type": "intent",  "n", "fault", "lever", "token", "time_ns"}             about to act
    {"type": "done",    "n", "time_ns"}                                        applied
    {"type": "undone",  "n", "time_ns"}                                        undone
    {"type": "failed",  "n", "what", "error", "time_ns"}                       apply or undo failed
    {"type": "proof",   "fault", "phase", "proven", "evidence", "met", "time_ns"}  a probe's result
    {"type": "on",      "fault", "time_ns"}   its acts are applied: at least one of them;
                                              before them, where nothing undoes them
    {"type": "healed",  "fault", "time_ns"}   every act of the fault is undone
    {"type": "heal",    "faults", "step", "met", "why", "time_ns"}             a step heals these

`phase` is `applied` (right after the acts), `held` (right before they are undone) or `undone`;
`evidence` is a list of sentences. In a proof, `met` is how much of the system the fault has met so
far, without what the probe itself sent; null where its levers do not count that, missing in
journals of older versions, which therefore prove no fault of a lever that counts
(`UndoRecord.counts`). With `claimed`, the operator states whether it is so, and nothing proves it.

The type of an undo record is found by the name of its lever: the core's own types come first, and
only for another name are the targets of this installation looked up. So a journal is read without
importing a target that it does not need.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

import orjson

from harness import registry
from harness.errors import HistoryError, disk_errors, nearest
from harness.faults.records import RECORD_TYPES, from_document, to_document
from harness.protocols import FaultWindow, UndoRecord


def record_type(lever: str) -> type[UndoRecord]:
    """The type of this lever's records. Raises HistoryError for a lever that nothing here has, and
    for one that two targets declare differently; the caller adds the file."""
    declared = known_types(lever)
    if len({*declared.values()}) > 1:
        raise HistoryError(
            f"names the lever {lever!r}, for which the targets {' and '.join(declared)} declare "
            "different undo records",
            hint="uninstall the package that the run did not use",
        )
    if declared:
        return next(iter(declared.values()))
    near = nearest(lever, [*RECORD_TYPES, *(each for _, types in _declared() for each in types)])
    similar = f" (the nearest is {near!r})" if near else ""
    raise HistoryError(
        f"names the lever {lever!r}, which neither this version nor a target here has{similar}",
        hint="install the package of the run's target, in the version that the run used",
    )


def known_types(lever: str) -> Mapping[str, type[UndoRecord]]:
    """The core's type of this lever's records, or else those of targets, by their names."""
    if (known := RECORD_TYPES.get(lever)) is not None:
        return {"": known}
    return {name: types[lever] for name, types in _declared() if lever in types}


def _declared() -> Iterator[tuple[str, Mapping[str, type[UndoRecord]]]]:
    for name in registry.usable("targets"):
        yield name, registry.plugins("targets")[name].record_types


PHASES: Final = ("applied", "held", "undone")
NOT_COUNTED: Final = "its journal does not record how much of the system it affected"

_KEPT: Final = ("proofs", "evidence", "acts", "failed", "begun", "changes")


class Journal:
    """Appends lines to faults.jsonl; each is on disk when the call returns. Thread-safe."""

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._n = 0
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, kind: str, **fields: Any) -> int:
        """Append one line, or nothing; returns its time. Raises EnvironmentFailure when the disk
        fails."""
        time_ns = self._clock()
        line = orjson.dumps({"type": kind, **fields, "time_ns": time_ns}) + b"\n"
        with disk_errors("cannot write the journal of faults", self._path), self._lock:
            append(self._fd, line)
        return time_ns

    def intent(self, *, fault: str, lever: str, record: UndoRecord) -> int:
        """Announce an act; returns its number, to which `done`, `undone` and `failed` refer."""
        with self._lock:
            self._n += 1
            n = self._n
        self.write("intent", n=n, fault=fault, lever=lever, token=to_document(record))
        return n

    def close(self) -> None:
        os.close(self._fd)


def append(fd: int, line: bytes) -> None:
    """Append a line to a file and fsync it. Raises OSError; then nothing is left of the line, as
    far as the disk allows: a disk that becomes full takes a part of it without an error."""
    before = os.fstat(fd).st_size
    rest = memoryview(line)
    try:
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    except OSError:
        os.ftruncate(fd, before)
        raise


def end_last_line(path: Path, fd: int) -> None:
    """Let the next line that is appended to a journal begin a line, by the rule of `entries`: an
    entry that lacks only its newline gets it, and half an entry that a crash has left is cut off.
    Raises OSError."""
    content = path.read_bytes()
    last = content[content.rfind(b"\n") + 1 :]
    if _entry(last) is not None:
        append(fd, b"\n")
    elif last:
        os.ftruncate(fd, len(content) - len(last))


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal. A last line that a crash has cut off is left out; one that lacks only
    its newline is an entry."""
    return (entry for _, entry in lines(path) if entry is not None)


def lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """The same with the number of each line, from 1 on, and with lines that are damaged though
    another follows: `None`."""
    if not path.exists():
        return
    *complete, last = path.read_bytes().split(b"\n")
    for number, line in enumerate(complete, start=1):
        if line.strip():
            yield number, _entry(line)
    if (entry := _entry(last)) is not None:
        yield len(complete) + 1, entry


def _entry(line: bytes) -> dict[str, Any] | None:
    """The entry of a line; None where the line is not one of a journal."""
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("type"), str) else None


def damaged_lines(path: Path) -> list[int]:
    """The numbers, from 1 on, of the lines that `entries` leaves out though another follows."""
    return [number for number, entry in lines(path) if entry is None]


def _cut_off(path: Path) -> int | None:
    """The number of a last line that is not complete."""
    if not path.exists():
        return None
    lines = path.read_bytes().split(b"\n")
    return len(lines) if lines[-1].strip() and _entry(lines[-1]) is None else None


def windows(path: Path) -> list[FaultWindow]:
    """The fault windows of a journal, in the order in which they began.

    Raises HistoryError for a line that ackloss does not write.
    """
    begun: dict[str, dict[str, Any]] = {}
    for number, entry in lines(path):
        try:
            if entry is not None:
                _take(entry, begun)
        except (KeyError, TypeError) as error:
            raise HistoryError(
                f"is not a journal as ackloss writes it: {error!r}",
                file=f"{path}:{number}",
                hint="copy the run folder again",
            ) from error
    why_not = {fault: _why_not(seen) for fault, seen in begun.items()}
    return [
        FaultWindow(
            id=fault,
            nemesis=seen["nemesis"],
            from_s=seen["on"],
            to_s=seen["healed"],
            nodes=seen.get("nodes", []),
            met=seen["met"],
            proven=not why_not[fault] and bool(seen["changes"]),
            control=not why_not[fault] and not seen["changes"],
            claimed=seen["on"] is not None and _claimed(seen["proofs"]),
            evidence=[*seen["evidence"], *([NOT_COUNTED] if _uncounted(seen) else [])],
            why=seen.get("why") or "",
            touched=_touched(seen["proofs"]),
            begun_s=seen["begun"],
            unproven="" if seen["on"] is None else why_not[fault],
        )
        for fault, seen in begun.items()
    ]


def _take(entry: dict[str, Any], begun: dict[str, dict[str, Any]]) -> None:
    """Note what one line says about the faults that have begun."""
    kind, fault = entry["type"], entry.get("fault", "")
    if kind in ("step", "skip"):
        seen = begun.get(fault, {**dict.fromkeys(_KEPT), "proofs": [], "evidence": [], "acts": {}})
        named = {name: entry[name] for name in ("nemesis", "met")}
        kept = {name: seen[name] for name in _KEPT}  # of a fault that began twice
        begun[fault] = {**entry, **named, **kept, "on": None, "healed": None}
    elif fault in begun and kind == "intent":
        seen = begun[fault]
        seen["acts"][entry["n"]] = entry["lever"]
        token = entry.get("token") or {}
        is_control = any(each.is_control(token) for each in known_types(entry["lever"]).values())
        seen["changes"] = seen["changes"] or not is_control
        if seen["begun"] is None and "time_ns" in entry:
            seen["begun"] = entry["time_ns"] / 1e9
    elif kind == "failed" and entry["what"] == "apply":
        for seen in begun.values():
            seen["failed"] = seen["failed"] or entry["n"] in seen["acts"]
    elif fault in begun and kind == "proof":
        _refuse_odd(entry)
        begun[fault]["proofs"].append(entry)
        begun[fault]["evidence"] += entry["evidence"]
    elif fault in begun and kind in ("on", "healed"):
        begun[fault][kind] = entry["time_ns"] / 1e9
    elif kind == "heal":
        for healed in set(entry["faults"]) & set(begun):
            begun[healed]["evidence"].append(f"healed by step {entry['step']!r}{entry['why']}")


def _refuse_odd(proof: Mapping[str, Any]) -> None:
    """Raise TypeError for a proof that no probe gives."""
    if type(proof["proven"]) is not bool or type(proof.get("met")) not in (int, type(None)):
        raise TypeError(f"a proof of {proof['proven']!r}, met {proof.get('met')!r}")
    if proof["phase"] not in PHASES:
        raise TypeError(f"a proof of the phase {proof['phase']!r}")
    evidence = proof["evidence"]
    if type(evidence) is not list or not all(type(each) is str for each in evidence):
        raise TypeError(f"a proof whose evidence is {evidence!r:.60}, not a list of sentences")


def _why_not(seen: Mapping[str, Any]) -> str:
    """Why a fault is not proven; empty if it is: its acts were announced and none failed; every
    probe succeeded, at least one of them while the fault was on, and one after it was undone; and
    the fault met what it was to meet. A run that broke off has no probe from before the undo: what
    was met until then counts."""
    if seen["on"] is None:
        return "it never was in force"
    refuted = next((proof for proof in seen["proofs"] if not proof["proven"]), None)
    if refuted is not None:
        return "; ".join(refuted["evidence"]) or "a probe did not see it"
    phases = {proof["phase"] for proof in seen["proofs"]}
    if seen["failed"] or not seen["acts"]:
        return "one of its acts failed" if seen["failed"] else "it did nothing"
    if not phases - {"undone"}:
        return "no probe asked while it was in force"
    if seen["healed"] is not None and "undone" not in phases:
        return "no probe asked after its end"
    touched = _touched(seen["proofs"])
    if touched is not None and touched <= 0:
        return "it affected nothing of the system"
    return NOT_COUNTED if _uncounted(seen) else ""


def _uncounted(seen: Mapping[str, Any]) -> bool:
    """Whether a lever of the fault counts what meets it, and its proofs hold no such number."""
    if not seen["proofs"] or _touched(seen["proofs"]) is not None:
        return False
    types = (known_types(lever).values() for lever in seen["acts"].values())
    return any(each.counts for each in chain.from_iterable(types))


def _claimed(proofs: Sequence[Mapping[str, Any]]) -> bool:
    """An operator reports, while the fault was in force, that it was; no proof contradicts it."""
    on = [proof for proof in proofs if proof["phase"] != "undone"]
    return bool(on) and all(proof.get("claimed") is True for proof in on)


def _touched(proofs: Sequence[Mapping[str, Any]]) -> int | None:
    met = [proof["met"] for proof in proofs if proof.get("met") is not None]
    return max(met, default=None)


@dataclass(frozen=True, kw_only=True)
class OpenAct:
    """An act that was announced and never undone: it may still be in force."""

    n: int
    fault: str
    lever: str
    record: UndoRecord


@dataclass(frozen=True, kw_only=True)
class OpenActs:
    """What a journal leaves to undo: `acts`, and a sentence for each line that may announce another
    one and cannot be read (`unreadable`). `foreign`: why, for those of levers that the core does
    not have; another package may make them readable."""

    acts: list[OpenAct] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    foreign: list[HistoryError] = field(default_factory=list)


def open_acts(path: Path) -> OpenActs:
    """The acts of a journal that were announced and not undone, by lever and typed record.

    Nothing is raised for a line that is damaged, or was written by another version or for a lever
    that nothing here has: it is never guessed what it meant.
    """
    found = OpenActs()
    open_: dict[object, tuple[int, dict[str, Any]]] = {}
    for number, entry in lines(path):
        if entry is None:
            found.unreadable.append(f"{path}:{number}: is damaged")
            continue
        n = entry.get("n")
        if entry["type"] == "intent":
            known = isinstance(n, int) and n not in open_
            open_[n if known else f"line {number}"] = number, entry
        elif entry["type"] == "undone" and isinstance(n, int):
            open_.pop(n, None)
    if (last := _cut_off(path)) is not None:
        found.unreadable.append(f"{path}:{last}: is cut off")
    for number, entry in open_.values():
        try:
            found.acts.append(_open_act(entry))
        except HistoryError as error:
            error.file = f"{path}:{number}"
            found.unreadable.append(str(error))
            if isinstance(lever := entry.get("lever"), str) and lever not in RECORD_TYPES:
                found.foreign.append(error)
    return found


def _open_act(entry: dict[str, Any]) -> OpenAct:
    """The act that an intent announces. Raises HistoryError."""
    n, fault, lever = (entry.get(key) for key in ("n", "fault", "lever"))
    if not (isinstance(n, int) and isinstance(fault, str) and isinstance(lever, str)):
        raise HistoryError("is not an intent as ackloss writes it")
    record = from_document(record_type(lever), entry.get("token"))
    if record.fault != fault:
        raise HistoryError(f"is of fault {fault!r}, but its record is of {record.fault!r}")
    return OpenAct(n=n, fault=fault, lever=lever, record=record)


def affected_nodes(journal: Path) -> dict[str, set[str]]:
    """By fault the nodes that it affects, by the acts that its journal announces; of a fault that
    began twice, those of the second time. These are not always the nodes that its step chose: a
    partition by groups cuts none of a node that is in no group.

    A cut link affects the end that the step chose: peers of an isolated node still reach each
    other. It affects both ends if the step chose both (a ring, groups), or neither (a bridge).
    """
    chosen: dict[str, set[str]] = {}
    affected: dict[str, set[str]] = {}
    for entry in entries(journal):
        match entry:
            case {"type": "step", "fault": fault, "nodes": nodes}:
                chosen[fault], affected[fault] = set(nodes), set()
            case {
                "type": "intent",
                "fault": fault,
                "lever": "net",
                "token": {"node": node, "peers": peers},
            } if fault in affected:
                links = ({node, peer["name"]} for peer in peers)
                affected[fault].update(*(link & chosen[fault] or link for link in links))
            case {"type": "intent", "fault": fault, "token": {"node": node}} if fault in affected:
                affected[fault].update(node.split(","))  # one act may be of several nodes
    return affected
