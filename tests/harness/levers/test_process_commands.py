"""The levers that touch processes: marks on the node, processes of another life, bad options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from harness import registry
from harness.errors import PlanError
from harness.faults.records import PauseRecord, ProcessRecord
from harness.levers.process import PauseLever, ProcessLever
from harness.protocols import Completed, UndoRecord
from tests.fixtures.dry_run import DryRunNode

PAUSE = PauseRecord(node="b1", fault="still", pid=7)


@pytest.fixture
def node() -> DryRunNode:
    return DryRunNode("b1", frozenset({"broker"}), "198.18.0.11")


@dataclass
class Living(DryRunNode):
    """A node on which process 7 runs since some tick of a boot, and files are made and removed."""

    life: tuple[str, int] | None = ("boot", 41)
    files: set[str] = field(default_factory=set)

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        if argv[0] == "ls":
            return Completed(0, "".join(f"{Path(each).name}\n" for each in sorted(self.files)))
        if argv[0] == "ps":
            return Completed(0, "7 0 7 T nc -lk\n" if self.life else "1 0 1 S sh\n")
        if argv[0] == "cat":
            if argv[-1] != "/proc/7/stat" or self.life is None:
                return Completed(1, "cat: no such file")
            boot, began = self.life
            zeros = " ".join(["0"] * 18)
            return Completed(0, f"{boot}\n7 (a (b) c) T {zeros} {began} 0\n")
        if argv[0] == "touch":
            self.files.add(argv[-1])
        if argv[0] == "rm":
            self.files.discard(argv[-1])
        return super().admin(argv, timeout_s=timeout_s)


@pytest.fixture
def living() -> Living:
    return Living("b1", frozenset({"broker"}), "198.18.0.11")


MARK = "/run/ackloss.paused.7.boot-41.still"


def test_whose_pause_it_is_stands_on_the_node_before_the_process_stops(living: Living) -> None:
    lever = PauseLever({"b1": living})
    lever.apply(PAUSE)
    assert living.commands == [f"b1# touch {MARK}", "b1# kill -STOP 7"]
    assert lever.marked(living) == [replace(PAUSE, stopped=False)]
    lever.undo(PAUSE)
    assert living.commands[2:] == ["b1# kill -CONT 7", f"b1# rm -f {MARK}"]
    assert lever.marked(living) == []


@pytest.mark.parametrize("life", [("boot", 42), ("later", 41), None])
def test_another_process_with_the_same_id_is_sent_nothing(
    living: Living, life: tuple[str, int] | None
) -> None:
    """The process that was paused has ended, or the machine has started again."""
    lever = PauseLever({"b1": living})
    lever.apply(PAUSE)
    living.life = life
    lever.undo(PAUSE)
    assert lever.marked(living) == []
    assert [each for each in living.commands if "kill" in each] == ["b1# kill -STOP 7"]
    assert living.files == set(), "the mark is not needed any more"


@pytest.mark.parametrize(
    ("lever", "record"),
    [
        (ProcessLever, ProcessRecord(node="b1", fault="late", signal="KILL", pid=None)),
        (PauseLever, PauseRecord(node="b1", fault="late", pid=None)),
    ],
)
def test_a_process_that_was_dead_before_is_sent_nothing(
    node: DryRunNode,
    lever: type[Any],
    record: UndoRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.levers.process._SEEN_S", 0.1)
    lever({"b1": node}).apply(record)
    assert node.commands == []
    assert not lever({"b1": node}).probe(record, applied=True).proven


@pytest.mark.parametrize(
    ("nemesis", "options"),
    [
        ("kill", {"signal": "HUP"}),
        ("stress", {"busy_count": 0}),
        ("stress", {"busy_count": -1}),
        ("stress", {"memory_mb": 99_999}),
        ("stress", {"at_most_s": 0}),
    ],
)
def test_bad_options_are_refused(nemesis: str, options: dict[str, object]) -> None:
    with pytest.raises(PlanError):
        registry.make("nemeses", nemesis, options, key="faults.0.nemesis")
