"""The exact commands of the full lever, and what it refuses to fill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.errors import HarnessFailure
from harness.faults.records import FullRecord
from harness.levers.full import FullLever, unbounded
from harness.protocols import Completed
from harness.run.dry_run import DryRunNode
from nemeses.disk import Disk

DATA = "/var/lib/ackloss/data"
FILE = f"{DATA}/ackloss-full.x"
GIB = 1 << 30


class Storing(DryRunNode):
    """A node that stores on a disk of some size, mounted somewhere."""

    mounted_at, size_bytes = DATA, 128 << 20

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        if argv[0] == "df":
            head = "Mounted on 1B-blocks Avail"
            return Completed(0, f"{head}\n{self.mounted_at} {self.size_bytes} 0\n")
        return super().admin(argv, timeout_s=timeout_s)


@pytest.fixture
def node() -> Storing:
    return Storing("b1", frozenset({"broker"}), "198.18.0.11")


RECORD = FullRecord(node="b1", fault="x", folder="data", pid=7)


def test_its_nemesis_names_where_a_node_stores(node: Storing) -> None:
    (act,) = Disk(form="full").acts([node], lambda _: [])
    assert act == ("full", replace(RECORD, fault=""))


def test_it_writes_and_removes_one_file_of_its_own(node: Storing) -> None:
    lever, how = FullLever({"b1": node}), "oflag=append conv=notrunc status=none"
    lever.apply(RECORD)
    lever.undo(replace(RECORD, pid=None))
    assert node.commands == [
        f"b1# dd if=/dev/zero of={FILE} {how} bs=1048576 count=128",
        f"b1# dd if=/dev/zero of={FILE} {how} bs=4096 count=32768",
        f"b1# dd if=/dev/zero of={FILE} {how} bs=512 count=262144",
        f"b1# rm -f -- {FILE}",
        f"b1# ls {DATA}",
    ]


def test_a_process_that_died_of_it_is_started_again(node: Storing) -> None:
    FullLever({"b1": node}).undo(RECORD)
    assert node.commands[-1] == "b1: start the target's process"


@pytest.mark.parametrize(
    ("mounted_at", "size_bytes", "why"),
    [
        ("/var/lib/ackloss", 250 * GIB, "b1: what it stores lies on a disk of 250.0 GiB that oth"),
        ("/", GIB // 2, "b1: what it stores lies on a disk of 0.5 GiB that others use too"),
        (DATA, 250 * GIB, "b1: what it stores lies on a disk of 250.0 GiB"),
    ],
)
def test_a_disk_that_others_use_or_that_is_large_is_never_filled(
    node: Storing, mounted_at: str, size_bytes: int, why: str
) -> None:
    node.mounted_at, node.size_bytes = mounted_at, size_bytes
    assert (unbounded(node) or "").startswith(why)
    with pytest.raises(HarnessFailure, match=why):
        FullLever({"b1": node}).apply(RECORD)
    assert node.commands == []


def test_where_a_block_can_be_written_nothing_is_proven(node: Storing) -> None:
    proof = FullLever({"b1": node}).probe(RECORD, applied=True)
    assert not proof.proven, proof.evidence
