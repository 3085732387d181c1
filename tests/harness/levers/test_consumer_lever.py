"""Faults of one consumer overlap: one that has nothing to do is not proven, and heals nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Literal

import pytest

from harness.faults.injection import Faults
from harness.faults.journal import Journal, windows
from harness.faults.records import (
    ConsumerRecord,
    FoundConsumer,
)
from harness.levers.client import ConsumerLever
from harness.protocols import Act, FaultWindow
from harness.protocols.groups import Action, Consumers, ConsumerState, Delivery


class Group(Consumers):
    """Consumers that end at once when they are to leave. `acts` are those that reached one."""

    def __init__(self) -> None:
        self.lives, self.running, self.paused = {1: 1}, {1}, set[int]()
        self.acts: list[str] = []

    def start(self) -> None: ...

    def assigned(self) -> None: ...

    def drained(self) -> None: ...

    def close(self, timeout_s: float) -> None: ...

    def committed(self, timeout_s: float) -> list[Delivery]:
        return []

    def act(self, number: int, action: Action) -> None:
        self.acts.append(action)
        if action == "join":
            self.begin(number)
        elif action == "pause":
            self.paused.add(number)
        else:
            self.running.discard(number)
            self.paused.discard(number)

    def undo(self, number: int, action: Action) -> None:
        self.acts.append(f"undo {action}")
        if action == "pause":
            self.paused.discard(number)
        elif action == "join":
            self.running.discard(number)
        else:
            self.begin(number)

    def begin(self, number: int) -> None:
        if number not in self.running:
            self.lives[number] = self.lives.get(number, 0) + 1
            self.running.add(number)

    def state(self, number: int) -> ConsumerState:
        if number not in self.running:
            return ConsumerState(life=None)
        return ConsumerState(life=self.lives[number], paused=number in self.paused)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group:
    monkeypatch.setattr("harness.levers.client._SEEN_S", 0.1)
    return Group()


Step = tuple[str, Action | Literal["heal"]]


def run(tmp_path: Path, groups: Sequence[Group], *steps: Step) -> dict[str, FaultWindow]:
    """Inject the fault of each step, or heal it; the windows by fault."""
    path, ticks = tmp_path / "faults.jsonl", count()
    journal = Journal(path, lambda: next(ticks))
    faults = Faults({"consumer": ConsumerLever(groups)}, journal)
    for fault, action in steps:
        if action == "heal":
            faults.heal(fault)
            continue
        number = 2 if action == "join" else 1
        name = f"consumer-{number}"
        journal.write("step", fault=fault, nemesis="n", nodes=[name], met=None, why="")
        record = ConsumerRecord(node=name, consumer=number, action=action)
        faults.inject(fault, "n", [Act("consumer", record)])
    return {window.id: window for window in windows(path)}


OVERLAPS: list[tuple[Action, Action, str]] = [
    ("crash", "crash", "none was there before"),
    ("crash", "leave", "none was there before"),
    ("leave", "crash", "none was there before"),
    ("crash", "pause", "it was paused, or not there, before"),
    ("pause", "pause", "it was paused, or not there, before"),
    ("join", "join", "it was there before"),
]


@pytest.mark.parametrize("first_ends", ["first", "last"])
@pytest.mark.parametrize(("first", "second", "words"), OVERLAPS)
def test_only_the_fault_that_reached_a_consumer_is_proven(
    tmp_path: Path, group: Group, first: Action, second: Action, words: str, first_ends: str
) -> None:
    order = ("a", "b") if first_ends == "first" else ("b", "a")
    heals: list[Step] = [(fault, "heal") for fault in order]
    seen = run(tmp_path, [group], ("a", first), ("b", second), *heals)
    assert group.acts == [first, f"undo {first}"]
    assert (seen["a"].proven, seen["b"].proven) == (True, False), seen
    assert words in seen["b"].evidence[0]


@pytest.mark.parametrize("action", ["crash", "leave", "pause", "join"])
def test_one_fault_is_proven_and_undone(tmp_path: Path, group: Group, action: Action) -> None:
    seen = run(tmp_path, [group, Group()], ("a", action), ("a", "heal"))
    assert seen["a"].proven, seen["a"].evidence
    assert group.acts == [action, f"undo {action}"]


def test_a_pause_of_an_earlier_life_leaves_the_pause_of_the_next_alone(
    tmp_path: Path, group: Group
) -> None:
    steps: list[Step] = [
        ("a", "pause"), ("b", "crash"), ("b", "heal"), ("c", "pause"), ("a", "heal"),
    ]  # fmt: skip
    seen = run(tmp_path, [group], *steps, ("c", "heal"))
    assert group.acts == ["pause", "crash", "undo crash", "pause", "undo pause"]
    assert (seen["a"].proven, seen["b"].proven, seen["c"].proven) == (False, True, True)


def test_a_consumer_that_two_faults_ended_starts_when_both_are_healed(
    tmp_path: Path, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is slow to leave still runs when it is crashed."""
    act, leaving = group.act, ["leave"]

    def slowly(number: int, action: Action) -> None:
        if action not in leaving:
            act(number, action)

    monkeypatch.setattr(group, "act", slowly)
    lever = ConsumerLever([group])
    leave, crash = (
        lever.capture_prior_state(ConsumerRecord(node="consumer-1", fault=f, consumer=1, action=a))
        for f, a in (("leave", "leave"), ("crash", "crash"))
    )
    lever.apply(leave)
    lever.apply(crash)
    lever.undo(crash)
    assert group.state(1).life is None
    proof = lever.probe(crash, applied=False)
    assert proof.proven
    assert "also kept down by leave" in proof.evidence[0]
    lever.undo(leave)
    assert group.state(1).life == 2


def test_what_was_there_in_each_group_is_found_before(group: Group) -> None:
    other = Group()
    other.paused.add(1)
    record = ConsumerRecord(node="consumer-1", consumer=1, action="pause")
    found = ConsumerLever([group, other]).capture_prior_state(record).found
    assert found == (FoundConsumer(life=1), FoundConsumer(life=1, paused=True))
