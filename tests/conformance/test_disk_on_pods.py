"""The disk lever on a real node: what `tests/levers` expects of its commands, on real files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.faults.injection import unavailable
from harness.faults.records import DiskRecord
from harness.levers.disk import DiskLever
from harness.protocols import Completed, Node
from nemeses.disk import Disk
from targets.kafka.levers import KafkaStorage
from tests.conformance.conftest import Pods

pytestmark = pytest.mark.docker

SEGMENT = (Path(__file__).parents[1] / "targets" / "kafka" / "segment.log").read_bytes()
FOLDER = "data/ackloss-0"
LOG = f"{0:020}.log"
META = b"version=1\ncluster.id=C\nnode.id=1\ndirectory.id=old\n"
FILES = {
    f"{FOLDER}/{LOG}": SEGMENT,
    f"{FOLDER}/partition.metadata": b"p",
    "data/__offsets-0/x": b"o",
    "data/meta.properties": META,
    "data/bootstrap.checkpoint": b"c",
    "data/recovery-point-offset-checkpoint": b"0\n1\nackloss 0 5\n",
}


@pytest.fixture
def node(pods: Pods) -> Iterator[Node]:
    node = pods.nodes["b2"]
    node.put(FILES)
    yield node
    node.start()
    node.admin(["rm", "-rf", "/var/lib/ackloss/data", "/var/lib/ackloss/ackloss-disk"])


def record(node: Node, **options: Any) -> DiskRecord:
    (act,) = Disk(**options).acts([node], lambda _: [])
    assert isinstance(act.record, DiskRecord)
    return replace(act.record, fault="x", seed=1)


def files_after(node: Node, asked: DiskRecord) -> dict[str, bytes]:
    """Apply, prove, undo from the record alone, prove; the data folder as the fault left it."""
    lever = DiskLever({node.name: node}, KafkaStorage())
    lever.apply(asked)
    proof = lever.probe(asked, applied=True)
    assert proof.proven, proof.evidence
    assert lever.leftover_state(node)
    left = node.get("data")
    lever.undo(asked)
    proof = lever.probe(asked, applied=False)
    assert proof.proven, proof.evidence
    assert lever.leftover_state(node) == []
    assert node.process().running
    assert node.get("data") == left, "what was lost stays lost"
    return left


def test_wipe_deletes_the_topic_and_nothing_else(node: Node) -> None:
    left = files_after(node, record(node, form="wipe"))
    assert left == {
        path.removeprefix("data/"): content
        for path, content in FILES.items()
        if not path.startswith(FOLDER)
    }


def test_reformat_leaves_a_formatted_disk_with_another_id(node: Node) -> None:
    left = files_after(node, record(node, form="reformat"))
    assert set(left) == {"meta.properties", "bootstrap.checkpoint"}
    assert left["bootstrap.checkpoint"] == b"c"
    assert left["meta.properties"].startswith(META.partition(b"directory.id=")[0])
    assert left["meta.properties"] != META


@pytest.mark.parametrize(
    ("tail", "log"),
    [("clean", SEGMENT[:268]), ("zeros", SEGMENT[:268] + bytes(len(SEGMENT) - 268))],
)
def test_power_loss_cuts_at_the_recovery_point(node: Node, tail: str, log: bytes) -> None:
    left = files_after(node, record(node, form="unsynced", tail=tail))
    assert left[f"ackloss-0/{LOG}"] == log
    assert left["meta.properties"] == META


def test_a_torn_tail_ends_inside_a_batch(node: Node) -> None:
    left = files_after(node, record(node, form="unsynced", tail="torn"))[f"ackloss-0/{LOG}"]
    assert SEGMENT.startswith(left)
    assert 268 < len(left) < 346


def test_every_byte_can_be_flipped_to_any_other(node: Node) -> None:
    before = bytes(range(256))
    node.put({f"{FOLDER}/{LOG}": before})
    pid = node.pid()
    asked = record(node, form="flip", flip_count=1024, alive=True)
    after = files_after(node, asked)[f"ackloss-0/{LOG}"]
    assert len(after) == 256
    assert sum((a ^ b).bit_count() for a, b in zip(before, after, strict=True)) == 1024
    assert len(set(after)) > 100
    assert node.pid() == pid


@pytest.mark.parametrize(
    ("options", "command"),
    [({"form": "wipe"}, "rm"), ({"form": "truncate"}, "truncate"), ({"form": "flip"}, "sh")],
)
def test_a_command_that_does_nothing_is_found_out(
    node: Node, options: dict[str, Any], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = type(node).admin

    def lying(node: Any, argv: Sequence[str], **kinds: Any) -> Completed:
        return Completed(0, "") if argv[0] == command else real(node, argv, **kinds)

    monkeypatch.setattr(type(node), "admin", lying)
    asked = record(node, **options)
    DiskLever({node.name: node}, KafkaStorage()).apply(asked)
    proof = DiskLever({node.name: node}, KafkaStorage()).probe(asked, applied=True)
    assert not proof.proven, proof.evidence
    assert not node.process().running


def test_it_is_not_available_without_its_tools(pods: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    levers = {"disk": DiskLever(pods.nodes, KafkaStorage())}
    assert unavailable(Disk(), pods.nodes, levers) is None
    monkeypatch.setattr("harness.levers.disk.TOOLS", ("find", "no-such-tool"))
    assert "no-such-tool" in (unavailable(Disk(), pods.nodes, levers) or "")
