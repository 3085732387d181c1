"""faults.jsonl: what the nemesis meant to do, did, proved and undid, one JSON object a line.

Every line is fsynced before the act that it announces, so that after any crash the file tells what
may still be in force. A lever's act is written as its name and a typed token, never as a command.

    {"type": "step",    "fault", "nemesis", "nodes", "met", "why", "time_ns"}  the step begins
    {"type": "skip",    "fault", "nemesis", "met", "why", "time_ns"}           it was left out
    {"type": "intent",  "n", "fault", "lever", "token", "time_ns"}             about to act
    {"type": "done",    "n", "time_ns"}                                        acted
    {"type": "undone",  "n", "time_ns"}                                        undone
    {"type": "failed",  "n", "what", "error", "time_ns"}                       an act or undo failed
    {"type": "proof",   "fault", "phase", "proven", "evidence", "met", "time_ns"}  a probe's answer
    {"type": "on",      "fault", "time_ns"}   every act of the fault is done
    {"type": "healed",  "fault", "time_ns"}   every act of the fault is undone

    {"type": "heal",    "faults", "step", "met", "why", "time_ns"}             a step heals these

`phase` is `applied` (right after the acts), `held` (right before they are undone) or `undone`;
`evidence` is a list of sentences, `met` how much of the system the fault has met so far, beyond
what the probe itself sent: null where its levers do not count that, absent in journals of before.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from harness.errors import EnvironmentFailure, HistoryError
from harness.protocols import FaultWindow


class Journal:
    """Appends lines to faults.jsonl; each is on disk when the call returns. Thread-safe."""

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._n = 0
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, kind: str, **fields: Any) -> None:
        """Append one line. Raises EnvironmentFailure when the disk takes it not."""
        line = orjson.dumps({"type": kind, **fields, "time_ns": self._clock()}) + b"\n"
        try:
            with self._lock:
                os.write(self._fd, line)
                os.fsync(self._fd)
        except OSError as error:
            raise EnvironmentFailure(
                f"cannot write the journal of faults: {error.strerror}", file=str(self._path)
            ) from error

    def intent(self, *, fault: str, lever: str, token: dict[str, Any]) -> int:
        """Announce an act; its number is what `done`, `undone` and `failed` refer to."""
        with self._lock:
            self._n += 1
            n = self._n
        self.write("intent", n=n, fault=fault, lever=lever, token=token)
        return n

    def close(self) -> None:
        os.close(self._fd)


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal; a last line that a crash has cut off is left out."""
    for _, entry in _numbered(path):
        yield entry


def _numbered(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if not path.exists():
        return
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if (entry := _entry(line)) is not None:
            yield number, entry


def _entry(line: bytes) -> dict[str, Any] | None:
    """What a line says; null where it is no line of a journal."""
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return entry if isinstance(entry, dict) and "type" in entry else None


def damaged_lines(path: Path) -> list[int]:
    """The numbers, from 1 on, of the lines that `entries` leaves out though another follows."""
    if not path.exists():
        return []
    *whole, _ = path.read_bytes().split(b"\n")
    lines = enumerate(whole, start=1)
    return [number for number, line in lines if line.strip() and _entry(line) is None]


def windows(path: Path) -> list[FaultWindow]:
    """The fault windows that a journal tells of, in the order in which they were begun.

    Raises HistoryError for a line that says what no line of a journal says.
    """
    begun: dict[str, dict[str, Any]] = {}
    for number, entry in _numbered(path):
        try:
            _take(entry, begun)
        except (KeyError, TypeError) as error:
            raise HistoryError(
                f"is no journal as ackloss writes it: {error!r}",
                file=f"{path}:{number}",
                hint="copy the run folder again",
            ) from error
    return [
        FaultWindow(
            id=fault,
            nemesis=told["nemesis"],
            from_s=told["on"],
            to_s=told["healed"],
            nodes=told.get("nodes", []),
            met=told["met"],
            proven=told["on"] is not None and _proven(told["proofs"]),
            evidence=told["evidence"],
            why=told.get("why") or "",
            touched=_touched(told["proofs"]),
        )
        for fault, told in begun.items()
    ]


def _take(entry: dict[str, Any], begun: dict[str, dict[str, Any]]) -> None:
    """Note what one line says of the faults that were begun."""
    kind, fault = entry["type"], entry.get("fault", "")
    if kind in ("step", "skip"):
        seen = begun.get(fault, {"proofs": [], "evidence": []})
        named = {name: entry[name] for name in ("nemesis", "met")}
        kept = {name: seen[name] for name in ("proofs", "evidence")}  # of a fault begun twice, too
        begun[fault] = {**entry, **named, **kept, "on": None, "healed": None}
    elif fault in begun and kind == "proof":
        if type(entry["proven"]) is not bool or type(entry.get("met")) not in (int, type(None)):
            raise TypeError(f"a proof of {entry['proven']!r}, met {entry.get('met')!r}")
        begun[fault]["proofs"].append(entry)
        begun[fault]["evidence"] += entry["evidence"]
    elif fault in begun and kind in ("on", "healed"):
        begun[fault][kind] = entry["time_ns"] / 1e9
    elif kind == "heal":
        for healed in set(entry["faults"]) & set(begun):
            begun[healed]["evidence"].append(f"healed by step {entry['step']!r}{entry['why']}")


def _proven(proofs: Sequence[Mapping[str, Any]]) -> bool:
    """Every probe said so, one of them while it was on, and what it would have met was there. A run
    that broke off has no probe from before the undoing: what was met until then is what counts."""
    touched = _touched(proofs)
    return (
        any(proof.get("phase") != "undone" for proof in proofs)
        and all(proof["proven"] for proof in proofs)
        and (touched is None or touched > 0)
    )


def _touched(proofs: Sequence[Mapping[str, Any]]) -> int | None:
    met = [proof["met"] for proof in proofs if proof.get("met") is not None]
    return max(met, default=None)


def open_acts(path: Path) -> list[dict[str, Any]]:
    """The intents that were announced and not undone: what `clean` has to undo."""
    open_: dict[int, dict[str, Any]] = {}
    for entry in entries(path):
        if entry["type"] == "intent":
            open_[entry["n"]] = entry
        elif entry["type"] == "undone":
            open_.pop(entry["n"], None)
    return list(open_.values())
