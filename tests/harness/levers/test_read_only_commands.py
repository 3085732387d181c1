"""The exact commands of the read-only lever."""

from __future__ import annotations

from dataclasses import replace

from harness.faults.records import ReadOnlyRecord
from harness.levers.read_only import ReadOnlyLever
from harness.run.dry_run import DryRunNode
from nemeses.disk import Disk

DATA = "/var/lib/ackloss/data"
RECORD = ReadOnlyRecord(node="b1", folder="data", pid=7)


def test_it_changes_folders_of_the_data_only_and_gives_back_what_it_took() -> None:
    node = DryRunNode("b1", frozenset({"broker"}), "198.18.0.11")
    (act,) = Disk(form="read-only").acts([node], lambda _: [])
    assert act == ("read-only", RECORD)
    lever = ReadOnlyLever({"b1": node})
    lever.apply(RECORD)
    lever.undo(replace(RECORD, pid=None))
    assert node.commands == [
        f"b1# find {DATA} -type d -perm -u+w -exec chmod u-w {{}} +",
        f"b1# find {DATA} -type d ! -perm -u+w -exec chmod u+w {{}} +",
    ]


def test_a_process_that_died_of_it_is_started_again() -> None:
    node = DryRunNode("b1", frozenset({"broker"}), "198.18.0.11")
    ReadOnlyLever({"b1": node}).undo(RECORD)
    assert node.commands[-1] == "b1: start the target's process"


def test_where_every_file_can_be_made_nothing_is_proven() -> None:
    node = DryRunNode("b1", frozenset({"broker"}), "198.18.0.11")
    proof = ReadOnlyLever({"b1": node}).probe(RECORD, applied=True)
    assert not proof.proven, proof.evidence
