"""The disk lever, seen on a node that writes them down and whose files are a
dictionary: what deletes and cuts there does what it does on a disk, unless a test breaks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness import registry
from harness.errors import HarnessFailure, PlanError
from harness.faults.records import DiskRecord
from harness.levers.disk import DiskLever
from harness.protocols import NODE_DATA, Completed, ProcessState
from nemeses.disk import Disk
from targets.kafka.levers import KafkaStorage
from tests.fixtures.dry_run import DryRunNode
from tests.fixtures.noted_deaths import Notes

SEGMENT = (Path(__file__).parents[2] / "targets" / "kafka" / "segment.log").read_bytes()
LOG = f"data/ackloss-0/{0:020}.log"
KILL = "b1# kill -KILL 7"
NOTED = "b1# touch /tmp/ackloss.dead.7.x@START"


@dataclass
class DiskNode(DryRunNode):
    """A recording node with files and a process; `broken` commands do nothing."""

    files: dict[str, bytes] = field(default_factory=dict)
    broken: tuple[str, ...] = ()
    running: bool = True
    notes: Notes = field(default_factory=Notes)

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        done = super().admin(argv)
        if (noted := self.notes.run(argv)) is not None:
            return noted
        path = argv[-1].removeprefix(f"{NODE_DATA}/")
        if argv[0] in self.broken:
            return done
        if argv[0] == "kill":
            self.running = False
        elif argv[0] == "find":
            return Completed(0, "".join(f"{len(c)} {p}\n" for p, c in self.files.items()))
        elif argv[0] == "rm":
            for gone in [p for p in self.files if p == path or p.startswith(f"{path}/")]:
                del self.files[gone]
        elif argv[0] == "truncate":
            size = int(argv[2])
            self.files[path] = self.files[path][:size].ljust(size, b"\0")
        return done

    def put(self, files: Any) -> None:
        super().put(files)
        self.files |= files

    def get(self, name: str) -> dict[str, bytes]:
        return {name: self.files[name]} if name in self.files else {}

    def start(self) -> None:
        super().start()
        self.running = True

    def process(self) -> ProcessState:
        code = None if self.running else 137
        return ProcessState(running=self.running, exit_code=code, started_at="START")


@pytest.fixture
def node() -> DiskNode:
    files = {LOG: SEGMENT, "data/meta.properties": b"directory.id=old\n", "log/server.log": b"."}
    return DiskNode("b1", frozenset({"broker"}), "198.18.0.11", files=files)


def record(node: DiskNode, **options: Any) -> DiskRecord:
    (act,) = Disk(**options).acts([node], lambda _: [])
    assert isinstance(act.record, DiskRecord)
    return replace(act.record, fault="x", seed=1)


def lever(node: DiskNode) -> DiskLever:
    return DiskLever({"b1": node}, KafkaStorage())


def test_the_process_is_dead_and_our_file_written_before_anything_is_deleted(
    node: DiskNode,
) -> None:
    lever(node).apply(record(node, form="wipe"))
    assert node.commands == [
        KILL,
        NOTED,
        f"b1# find {NODE_DATA} -type f -printf %s %P\\n",
        "b1: write ackloss-disk/x.json",
        f"b1# rm -rf -- {NODE_DATA}/data/ackloss-0",
    ]
    assert set(node.files) == {"data/meta.properties", "log/server.log", "ackloss-disk/x.json"}


def test_no_file_is_touched_while_the_process_lives(
    node: DiskNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.levers.process._DEATH_S", 0.1)
    node.broken = ("kill",)
    with pytest.raises(HarnessFailure, match="still runs"):
        lever(node).apply(record(node))
    assert set(node.commands) == {KILL}
    assert not lever(node).probe(record(node), applied=True).proven


def test_applied_twice_is_applied_once(node: DiskNode) -> None:
    asked = record(node, form="truncate", cut_bytes=100)
    lever(node).apply(asked)
    lever(node).apply(asked)
    assert len(node.files[LOG]) == 480


def test_undo_starts_the_process_and_removes_our_file(node: DiskNode) -> None:
    asked = record(node, form="truncate")
    lever(node).apply(asked)
    lever(node).undo(asked)
    lever(node).undo(asked)
    assert node.commands.count("b1: start the target's process") == 1
    assert set(node.files) == {LOG, "data/meta.properties", "log/server.log"}


def test_a_process_that_was_dead_before_is_not_started(node: DiskNode) -> None:
    node.running = False
    asked = replace(record(node), pid=None)
    lever(node).apply(asked)
    assert lever(node).probe(asked, applied=True).proven
    lever(node).undo(asked)
    assert not node.running
    assert lever(node).probe(asked, applied=False).proven


def test_a_log_without_anything_to_lose_is_no_proof(node: DiskNode) -> None:
    node.files[LOG] = b""
    asked = record(node)
    lever(node).apply(asked)
    proof = lever(node).probe(asked, applied=True)
    assert not proof.proven
    assert "nothing to change" in proof.evidence[-1]


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ({"form": "wipe", "tail": "torn"}, "belongs to form 'unsynced'"),
        ({"alive": True}, "belongs to form 'flip'"),
        ({"keep_share": 1.0}, "keep_share: 1.0 is not allowed here; use less than 1"),
        ({"form": "flip", "flip_count": 0}, "flip_count: 0 is not allowed here; use more than 0"),
        ({"folders": ()}, "at least one folder"),
        ({"folders": ("../etc",)}, "not a pattern"),
        ({"folders": ("/etc",)}, "not a pattern"),
        ({"folders": ("data/../..",)}, "not a pattern"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], reported: str) -> None:
    with pytest.raises(PlanError, match=reported):
        registry.make("nemeses", "disk", options, key="faults.0.nemesis")
