"""The read-only lever: several faults at once, and what is left of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.errors import HarnessFailure
from harness.faults.records import ReadOnlyRecord
from harness.levers.disk import ReadOnlyLever
from harness.protocols import Completed
from tests.fixtures.dry_run import DryRunNode

DATA = "/var/lib/ackloss/data"
RECORD = ReadOnlyRecord(node="b1", folder="data", pid=7)


class Marked(DryRunNode):
    """A node that keeps the files that are touched in its data folder."""

    marks: set[str]
    listable: bool = True

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        super().admin(argv)
        if argv[0] == "touch":
            self.marks.add(argv[-1].rpartition("/")[2])
        if argv[0] == "rm":
            self.marks.discard(argv[-1].rpartition("/")[2])
        if argv[0] == "ls" and not self.listable:
            return Completed(2, "ls: Input/output error")
        return Completed(0, "\n".join(self.marks) if argv[0] == "ls" else "")


def test_the_data_stays_read_only_as_long_as_any_fault_keeps_it_so() -> None:
    node = Marked("b1", frozenset({"broker"}), "198.18.0.11")
    node.marks = set()
    lever, other = ReadOnlyLever({"b1": node}), replace(RECORD, fault="other")
    lever.apply(RECORD)
    lever.apply(other)
    lever.undo(RECORD)
    assert not any("u+w {}" in each for each in node.commands)
    proof = lever.probe(RECORD, applied=False)
    assert proof.proven
    assert "still read-only by other" in proof.evidence[0]
    lever.undo(other)
    assert any("u+w {}" in each for each in node.commands)


class Answers(DryRunNode):
    """A node whose commands print this."""

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        gone = f"find: '{DATA}/t-0.9f-delete': No such file or directory\n"
        return Completed(1, f"{gone}{DATA}/closed\nfind: '{DATA}/x': Permission denied\n")


def test_a_folder_that_is_removed_meanwhile_is_nothing_left() -> None:
    node = Answers("b1", frozenset({"broker"}), "198.18.0.11")
    assert ReadOnlyLever({"b1": node}).leftover_state(node) == [
        f"b1: read-only: {DATA}/closed",
        f"b1: read-only: find: '{DATA}/x': Permission denied",
    ]


def test_a_folder_that_cannot_be_listed_is_not_one_without_other_faults() -> None:
    node = Marked("b1", frozenset({"broker"}), "198.18.0.11")
    node.marks, node.listable = set(), False
    lever = ReadOnlyLever({"b1": node})
    lever.apply(RECORD)
    with pytest.raises(HarnessFailure, match=r"b1: ls .* failed: ls: Input/output error"):
        lever.undo(RECORD)
    assert not any("u+w {}" in each for each in node.commands)
