"""Faults as a whole: what cannot be looked at is not proven, and does not stop the run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.errors import HarnessFailure
from harness.faults.injection import NO_ACTS, NOTHING_MET, Faults
from harness.faults.journal import Journal, entries, windows
from harness.faults.records import PauseRecord
from harness.levers.process import PauseLever
from harness.protocols import Act, Completed, Lever, Node, Proof, UndoRecord
from tests.fixtures.dry_run import DryRunNode

NAMES = ("b1", "b2", "b3")


def begun(folder: Path, fault: str, levers: dict[str, Lever[Any]], **how: Any) -> Faults:
    """The faults of a run, whose journal has the step of this one; its clock ticks seconds."""
    ticks = count(0, 10**9)
    faults = Faults(levers, Journal(folder / "faults.jsonl", lambda: next(ticks)), **how)
    faults.journal.write("step", fault=fault, nemesis="n", nodes=["b1"], met=None, why="")
    return faults


@dataclass
class Counting(Lever[UndoRecord]):
    """A lever whose mechanism works, and that has met so much on the node of its record."""

    name: str
    met: dict[str, int | None]
    record_type: ClassVar[type[UndoRecord]] = UndoRecord

    def unavailable(self, node: Node, record: UndoRecord) -> None: ...

    def apply(self, record: UndoRecord) -> None: ...

    def undo(self, record: UndoRecord) -> None: ...

    def probe(self, record: UndoRecord, *, applied: bool) -> Proof:
        return Proof(True, ["seen"], self.met[record.node] if applied else None)

    def leftover_state(self, node: Node) -> list[str]:
        return []


@pytest.mark.parametrize(
    ("net", "shaping", "proven", "touched"),
    [
        ({"b1": 0, "b2": 4}, {"b1": 9}, True, 4),
        ({"b1": 0, "b2": 0}, {"b1": None}, False, 0),
        ({"b1": 5, "b2": 5}, {"b1": 0}, False, 0),
        ({"b1": None, "b2": None}, {"b1": None}, False, None),
    ],
    ids=["through one act", "through none", "by one lever of two", "not counted"],
)
def test_a_fault_must_meet_the_system_through_one_act_of_each_lever(
    tmp_path: Path,
    net: dict[str, int | None],
    shaping: dict[str, int | None],
    proven: bool,
    touched: int | None,
) -> None:
    levers = {"net": Counting("net", net), "shaping": Counting("shaping", shaping)}
    faults = begun(tmp_path, "cut", {**levers})
    acts = [Act(name, UndoRecord(node=node)) for name, one in levers.items() for node in one.met]
    faults.inject("cut", "n", acts)
    faults.heal("cut")
    (window,) = windows(tmp_path / "faults.jsonl")
    assert (window.proven, window.touched) == (proven, touched)
    assert (NOTHING_MET in window.evidence) is (touched == 0)


def test_a_fault_without_acts_is_unproven_and_says_so(tmp_path: Path) -> None:
    faults = begun(tmp_path, "cut", {})
    faults.inject("cut", "n", [])
    faults.heal("cut")
    (window,) = windows(tmp_path / "faults.jsonl")
    assert not window.proven
    assert NO_ACTS in window.evidence
    assert (window.begun_s, window.from_s) == (None, None)


@dataclass
class Refusing(Counting):
    """It cannot be applied on some nodes."""

    refused: tuple[str, ...] = ()

    def apply(self, record: UndoRecord) -> None:
        if record.node in self.refused:
            raise HarnessFailure(f"{record.node}: refused")


@pytest.mark.parametrize(("refused", "from_s"), [((), 5.0), (("b2",), 5.0), (("b1", "b2"), None)])
def test_a_fault_none_of_whose_acts_was_applied_never_came_into_force(
    tmp_path: Path, refused: tuple[str, ...], from_s: float | None
) -> None:
    faults = begun(tmp_path, "cut", {"net": Refusing("net", {"b1": None, "b2": None}, refused)})
    faults.inject("cut", "n", [Act("net", UndoRecord(node=node)) for node in ("b1", "b2")])
    (window,) = windows(tmp_path / "faults.jsonl")
    assert (window.begun_s, window.from_s) == (1.0, from_s)
    assert not (refused and window.proven)
    assert faults.active
    faults.heal("cut")
    assert not faults.active, "what may have been done is undone"


class Unseen(DryRunNode):
    """A node on which nobody can look at processes."""

    def admin(self, argv: list[str], *, timeout_s: float = 10) -> Completed:  # type: ignore[override]
        return Completed(124, "no answer") if argv[0] == "ps" else super().admin(argv)


def test_a_probe_that_cannot_look_leaves_the_fault_unproven(tmp_path: Path) -> None:
    node = Unseen("b1", frozenset({"broker"}), "198.18.0.11")
    faults = begun(tmp_path, "still", {"pause": PauseLever({"b1": node})})
    record = PauseRecord(node="b1", pid=7)
    with pytest.raises(HarnessFailure):
        faults.levers["pause"].probe(replace(record, fault="still"), applied=True)
    faults.inject("still", "pause", [Act("pause", record)])
    faults.heal("still")
    (window,) = windows(tmp_path / "faults.jsonl")
    assert not window.proven
    assert "no answer" in window.evidence[0]
    assert window.to_s is not None


@dataclass
class Raising(Counting):
    """A lever beside a daemon that fails at one node, with an error of its own library."""

    probes: bool = False
    undone: list[str] = field(default_factory=list)

    def undo(self, record: UndoRecord) -> None:
        self.undone.append(record.node)
        if not self.probes and record.node == "b2":
            raise OSError("500 Server Error: container is dead")

    def probe(self, record: UndoRecord, *, applied: bool) -> Proof:
        if self.probes and record.node == "b2":
            raise OSError("500 Server Error: container is dead")
        return super().probe(record, applied=applied)


@pytest.mark.parametrize("probes", [True, False])
def test_an_error_of_a_library_ends_neither_the_undo_nor_the_others(
    tmp_path: Path, probes: bool
) -> None:
    lever = Raising("net", dict.fromkeys(NAMES, 1), probes=probes)
    faults = begun(tmp_path, "b1", {"net": lever})
    for name in NAMES:
        faults.journal.write("step", fault=name, nemesis="n", nodes=[name], met=None, why="")
        faults.inject(name, "n", [Act("net", UndoRecord(node=name))])
    if probes:
        faults.heal_all()
    else:
        with pytest.raises(HarnessFailure, match="OSError: 500 Server Error: container is dead"):
            faults.heal_all()
    assert lever.undone == ["b3", "b2", "b1"]
    assert list(faults.active) == ([] if probes else ["b2"])
    by_id = {window.id: window for window in windows(tmp_path / "faults.jsonl")}
    assert [by_id[name].proven for name in NAMES] == [True, not probes, True]
    assert probes == ("500 Server Error" in " ".join(by_id["b2"].evidence))
    assert any(line["type"] == "failed" for line in entries(tmp_path / "faults.jsonl")) != probes


def test_a_record_of_another_lever_is_refused_before_anything_is_journalled(
    tmp_path: Path,
) -> None:
    node = DryRunNode("b1", frozenset({"broker"}), "198.18.0.11")
    journal = Journal(tmp_path / "faults.jsonl", lambda: 0)
    faults = Faults({"pause": PauseLever({"b1": node})}, journal)
    with pytest.raises(HarnessFailure, match="'pause' takes a PauseRecord, not a UndoRecord"):
        faults.inject("x", "pause", [Act("pause", UndoRecord(node="b1"))])
    assert (tmp_path / "faults.jsonl").read_bytes() == b""
    assert node.commands == []


def test_the_fault_and_the_seed_are_in_every_record(tmp_path: Path) -> None:
    lever = Counting("net", {"b1": None, "b2": None})
    faults = begun(tmp_path, "cut", {"net": lever}, seed=7)
    faults.inject("cut", "n", [Act("net", UndoRecord(node=node)) for node in ("b1", "b2")])
    intents = [entry for entry in entries(tmp_path / "faults.jsonl") if entry["type"] == "intent"]
    assert [entry["token"] for entry in intents] == [
        {"node": "b1", "fault": "cut", "seed": 7},
        {"node": "b2", "fault": "cut", "seed": 7},
    ]
