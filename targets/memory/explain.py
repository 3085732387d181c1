"""Why the reference system lost what it had acknowledged, by what its nodes have logged: each
replica's log when it starts, when it begins to lead, and when it is cut, and whom leaders count.

An offset together with an epoch names an entry. What dropped it is the first leader of a later
epoch that began without it; the cause is why that leader lacked it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from harness.faults.journal import windows
from harness.history.autopsy import Autopsy, Loss, Write
from harness.history.run_folder import RunDir
from harness.protocols import UNEXPLAINED, Explanation, Happened, Line
from harness.protocols.explanations import MAJORITY_CAUSES, UNDISTURBED, WITHOUT
from targets.memory.system import BEYOND, UNKNOWN

EARLY, UNCLEAN, UNCONFIRMED = "before-replication", "unclean-election", "unconfirmed-in-sync"
NO_EPOCHS, DISCARDED = "truncated-without-epochs", "discarded-by-new-leader"
CAUSES: Final[Mapping[str, str]] = {
    **{cause: text for cause, text in MAJORITY_CAUSES.items() if cause != WITHOUT},
    EARLY: "The leader acknowledged them before the next leader had them",
    UNCLEAN: "A replica was elected that was not in sync, and never had them",
    UNCONFIRMED: "The leader counted only the replicas that it reached, which nobody had confirmed",
    NO_EPOCHS: "A replica compared offsets with its leader, but not epochs, and lost them so",
    DISCARDED: "The next leader had had them, and discarded what it did not know to be committed",
}
DEFECTS: Final = frozenset({EARLY, UNCLEAN, UNCONFIRMED, NO_EPOCHS, DISCARDED})


@dataclass(frozen=True, kw_only=True)
class Note(Happened):
    """What a node has logged; `said`: the whole line."""

    said: Mapping[str, Any]

    def held(self, write: Write) -> bool:
        """Whether the log that it is about had the entry."""
        if (position := write.position or 0) >= (self.end or 0):
            return False
        runs = [run[0] for run in self.said["epochs"] if run[1] <= position]
        return bool(runs[-1] == write.epoch)


_KINDS: Final[Mapping[str, str]] = {
    "starts": "starts",
    "leads": "leads",
    "cuts": "cut",
    "elected": "elects",
    "counts": "counts",
}


def explain(folder: Path, lost: pa.Table) -> list[Explanation]:
    """The explanations of these lost writes."""
    rundir = RunDir(folder)
    return MemoryAutopsy(rundir, lost, windows(rundir.faults), _notes(rundir)).explanations()


def _notes(rundir: RunDir) -> list[Note]:
    """What all nodes have logged, in order of time; nothing of a run that does not say when it
    began."""
    zero_ns = rundir.of_run.read_json(rundir.of_run.run).get("zero_ns")
    first = rundir.read_json(rundir.plan)["target"].get("first_partition", 0)
    found = []
    for file in rundir.logs() if zero_ns is not None else ():
        place, node = file.relative_to(rundir.of_run.path), file.parent.name
        for number, text in enumerate(file.read_text().splitlines(), 1):
            said = json.loads(text)
            at_s = (said["at_ns"] - zero_ns) / 1e9
            found.append(
                Note(
                    kind=_KINDS[said["event"]],
                    line=Line(at_s=at_s, node=node, place=f"{place}:{number}", text=text),
                    text=_text(said),
                    end=said.get("end"),
                    epoch=said.get("epoch", 0),
                    partition=said["partition"] - first,
                    said=said,
                )
            )
    return sorted(found, key=lambda note: note.at_s)


def _text(said: Mapping[str, Any]) -> str:
    if said["event"] == "elected":
        how = "cleanly" if said["clean"] else "uncleanly"
        return f"elected {said['leader']} {how}; in sync were {', '.join(said['isr'])}"
    if said["event"] == "cuts":
        return f"discarded from {said['at']:,} on what was {said['why']}"
    if said["event"] == "counts":
        return f"counted only {', '.join(said['only'])}"
    did = "started" if said["event"] == "starts" else "began to lead"
    return f"{did} with a log that ended at {said['end']:,}"


class MemoryAutopsy(Autopsy):
    """Every lost entry is known exactly, and every event of its partition."""

    events: list[Note]

    def _of(self, write: Write, kind: str) -> list[Note]:
        return [e for e in self.events if (e.kind, e.partition) == (kind, write.partition)]

    def placed(self) -> Iterator[Write]:
        """With the partition, and the epoch of the entry; what was delivered, where that was."""
        of_client = {write.value: write for write in super().placed()}
        for row in self.lost.to_pylist():
            at_s = row["complete_ns"] / 1e9
            unknown = Write(row["value"], row.get("offset"), row["invoke_ns"] / 1e9, at_s)
            delivered = row.get("state") == "delivered"
            write = unknown if delivered else of_client.get(row["value"], unknown)
            yield write._replace(partition=row.get("partition") or 0)

    def loss(self, write: Write) -> Loss:
        """The first leader of a later epoch that began without it."""
        leaders = self._of(write, "leads")
        led = [e for e in leaders if e.at_s <= write.acknowledged_s]
        led = [e for e in led if write.node in (None, e.line.node)]
        if not led or write.position is None:
            return Loss(UNEXPLAINED, partition=write.partition, why="no log says who led")
        for own in reversed(led if write.node is None else led[-1:]):
            runs = [run[0] for run in own.said["epochs"] if run[1] <= write.position]
            epoch = own.epoch if write.position >= (own.end or 0) else runs[-1]
            there = write._replace(epoch=epoch)
            for leader in sorted(leaders, key=lambda each: each.epoch):
                if leader.epoch > own.epoch and not leader.held(there):
                    cause = self._cause_of(there, leader)
                    return Loss(cause, own.epoch, leader.epoch, write.partition)
        return Loss(
            UNEXPLAINED, own.epoch, partition=write.partition, why="no later leader lacked it"
        )

    def _cause_of(self, write: Write, leader: Note) -> str:
        """Why that leader lacked it."""

        def before(kind: str, since_s: float) -> list[Note]:
            return [e for e in self._of(write, kind) if since_s < e.at_s <= leader.at_s]

        position, node = write.position or 0, leader.line.node
        cuts = [
            e for e in before("cut", write.begun_s) if e.held(write) and e.said["at"] <= position
        ]
        if any(e.line.node == node and e.said["why"] == UNKNOWN for e in cuts):
            return DISCARDED
        other = any(
            run[0] >= (write.epoch or 0) and run[1] > position for run in leader.said["epochs"]
        )
        if other or any(e.said["why"] == BEYOND for e in cuts):
            return NO_EPOCHS
        disks = {
            e.line.node: self.disk(write, e)
            for e in before("starts", write.begun_s)
            if not e.held(write) and self.disk(write, e) != UNDISTURBED
        }
        if node in disks:
            return disks[node]
        elected = [e for e in self._of(write, "elects") if e.epoch == leader.epoch]
        if elected and not elected[0].said["clean"]:
            return UNCLEAN
        if disks:
            return next(iter(disks.values()))
        counted = [
            e.said["only"]
            for e in self._of(write, "counts")
            if e.line.node == write.node and e.at_s <= write.acknowledged_s
        ]
        if counted and node not in counted[-1]:
            return UNCONFIRMED
        return EARLY if elected else UNEXPLAINED
