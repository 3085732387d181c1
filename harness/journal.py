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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from harness.errors import EnvironmentFailure


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


@dataclass(frozen=True, kw_only=True)
class FaultWindow:
    """One fault as result.json and the page tell it; times in seconds since the run's start.

    `from_s` is null when the fault was skipped or never came into force, `to_s` when it was never
    seen to heal. `met` is null for a step that waited for nothing. `proven` holds only when every
    probe, while it was on and after it was healed, said so, and it met something of the system:
    `touched` is how much, in the unit of its lever (null: nothing of the kind is counted).
    """

    id: str
    nemesis: str
    from_s: float | None
    to_s: float | None
    nodes: list[str]
    met: bool | None
    proven: bool
    evidence: list[str]
    why: str
    touched: int | None = None


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal; a last line that a crash has cut off is left out."""
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(entry, dict) and "type" in entry:
            yield entry


def windows(path: Path) -> list[FaultWindow]:
    """The fault windows that a journal tells of, in the order in which they were begun."""
    begun: dict[str, dict[str, Any]] = {}
    for entry in entries(path):
        kind, fault = entry["type"], entry.get("fault", "")
        if kind in ("step", "skip"):
            begun[fault] = {**entry, "proofs": [], "evidence": [], "on": None, "healed": None}
        elif fault in begun and kind == "proof":
            begun[fault]["proofs"].append(entry)
            begun[fault]["evidence"] += entry["evidence"]
        elif fault in begun and kind in ("on", "healed"):
            begun[fault][kind] = entry["time_ns"] / 1e9
        elif kind == "heal":
            for healed in set(entry["faults"]) & set(begun):
                begun[healed]["evidence"].append(f"healed by step {entry['step']!r}{entry['why']}")
    return [
        FaultWindow(
            id=fault,
            nemesis=told["nemesis"],
            from_s=told["on"],
            to_s=told["healed"],
            nodes=told.get("nodes", []),
            met=told["met"],
            proven=_proven(told["proofs"]),
            evidence=told["evidence"],
            why=told.get("why") or "",
            touched=_touched(told["proofs"]),
        )
        for fault, told in begun.items()
    ]


def _proven(proofs: Sequence[Mapping[str, Any]]) -> bool:
    """Every probe said so, and what it would have met was there. A run that broke off has no probe
    from before the undoing: what was met until then is what counts."""
    return bool(proofs) and all(proof["proven"] for proof in proofs) and _touched(proofs) != 0


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
