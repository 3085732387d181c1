"""The power lever over a pretended disk: when it may act, and what proves that it did."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from harness import protocols
from harness.errors import HarnessFailure
from harness.faults.records import PowerRecord
from harness.levers.process import PowerLever, described
from harness.protocols import Completed, OwnDisk, PowerLoss, ProcessState, Stored
from tests.fixtures.noted_deaths import Notes

LOST = PowerLoss(
    device="/dev/loop7",
    before={
        "log.1": Stored(size_bytes=64, allocated_bytes=48),
        "log.2": Stored(size_bytes=10, allocated_bytes=10),
        "myid": Stored(size_bytes=1, allocated_bytes=4),
    },
    after={
        "log.1": Stored(size_bytes=64, allocated_bytes=16),
        "myid": Stored(size_bytes=1, allocated_bytes=4),
    },
    canary_synced=5,
    canary_written=10,
    canary_left=5,
)


@dataclass
class Disk(OwnDisk):
    lost: PowerLoss = LOST
    refused: str | None = None
    faults: list[str] = field(default_factory=list)

    def why_not(self) -> str | None:
        return self.refused

    def flush(self) -> None: ...

    def lose_power(self, fault: str) -> None:
        self.faults.append(fault)

    def power_loss(self, fault: str) -> PowerLoss | None:
        return self.lost if fault in self.faults else None

    def power_losses(self) -> list[str]:
        return self.faults

    def restore(self, fault: str) -> None:
        self.faults = [each for each in self.faults if each != fault]

    def written_back_s(self) -> tuple[float, float]:
        return 5.0, 35.0


@dataclass
class Node(protocols.Node):
    own_disk: Disk | None = None
    name: str = "n1"
    number: int = 7
    alive: bool = True
    dies: bool = True
    notes: Notes = field(default_factory=Notes)

    def admin(self, argv: list[str], **_: object) -> Completed:
        if (noted := self.notes.run(argv)) is not None:
            return noted
        self.alive = self.alive and not (argv[0] == "kill" and self.dies)
        return Completed(0, "")

    def process(self) -> ProcessState:
        code = None if self.alive else 137
        return ProcessState(running=self.alive, exit_code=code, started_at=f"life-{self.number}")

    def pid(self) -> int | None:
        return self.number if self.alive else None

    def start(self) -> None:
        self.alive, self.number = True, self.number + 1


Node.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]

RECORD = PowerRecord(node="n1", signal="KILL", pid=7, fault="f")


def lever_on(node: Node) -> PowerLever:
    return PowerLever({"n1": node})  # type: ignore[dict-item]


def test_it_kills_the_process_and_then_the_disk_loses_power() -> None:
    node = Node(Disk())
    lever = lever_on(node)
    assert lever.unavailable(node, RECORD) is None  # type: ignore[arg-type]
    assert not lever.probe(RECORD, applied=True).proven, "nothing was done yet"
    lever.apply(RECORD)
    proof = lever.probe(RECORD, applied=True)
    assert proof.proven, proof.evidence
    assert proof.met is None
    assert lever.leftover_state(node) == ["n1: its disk has lost power by f"]  # type: ignore[arg-type]
    lever.undo(RECORD)
    assert lever.probe(RECORD, applied=False).proven
    assert lever.leftover_state(node) == []  # type: ignore[arg-type]
    lever.undo(RECORD)
    assert node.number == 8, "it was started once"


@pytest.mark.parametrize(
    ("seen", "proven"),
    [
        ({"canary_left": 8}, True),  # on a busy machine: of 10,000, 5,000 of them fsynced, 8,192
        ({"canary_left": 0}, False),
        ({"canary_left": 10}, False),
        ({"canary_written": 5}, False),
    ],
    ids=str,
)
def test_a_disk_that_kept_or_lost_the_wrong_half_or_was_not_written_to_proves_nothing(
    seen: dict[str, int], proven: bool
) -> None:
    """One of which the kernel wrote a part back has lost the rest."""
    lever = lever_on(Node(Disk(replace(LOST, **seen))))  # type: ignore[arg-type]
    lever.apply(RECORD)
    assert lever.probe(RECORD, applied=True).proven is proven


def test_a_process_that_still_runs_keeps_its_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.levers.process._DEATH_S", 0.01)
    disk = Disk()
    with pytest.raises(HarnessFailure, match="still runs: the disk is left alone"):
        lever_on(Node(disk, dies=False)).apply(RECORD)
    assert disk.faults == []


@pytest.mark.parametrize(
    ("disk", "words"),
    [
        (None, "does not store on its own disk"),
        (Disk(refused="/dev/vda is not a loop device over x"), "/dev/vda is not a loop device"),
    ],
)
def test_another_disk_is_refused(disk: Disk | None, words: str) -> None:
    node = Node(disk)
    assert words in (lever_on(node).unavailable(node, RECORD) or "")  # type: ignore[arg-type]


def test_what_is_gone_is_described_with_the_bound_of_the_kernel() -> None:
    ours, sizes, bound = described(LOST, (5.0, 35.0))
    assert ours.endswith("of 10 bytes in our file, 5 of them fsynced, 5 are left")
    assert sizes == (
        "3 files of 75 bytes (62 on the disk) before, 2 of 65 (20 on the disk) after; "
        "log.1: 64 to 64 bytes (48 to 16 on the disk); log.2 is gone"
    )
    assert "5 to 35 s old" in bound
