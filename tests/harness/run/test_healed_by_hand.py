"""What an operator has to restart before the final read is restarted, journalled and reported; it
is not a fault of the plan."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.faults.injection import Act, Faults
from harness.faults.journal import Journal, entries, open_acts, windows
from harness.faults.records import ProcessRecord
from harness.levers.process import ProcessLever
from harness.run import runner
from tests.fixtures.dry_run import DryRunNode

CLOCK: Any = SimpleNamespace(wait=lambda stop, seconds: None)
STOP = SimpleNamespace(interrupts=SimpleNamespace(stop=threading.Event()))


class Mortal(DryRunNode):
    """A node whose process ends by a signal, and is started again."""

    alive = True
    lives = 1

    def pid(self) -> int | None:
        return self.lives if self.alive else None

    def process(self) -> Any:
        return SimpleNamespace(running=self.alive, exit_code=0, started_at="1", finished_at="2")

    def send_signal(self, signal: str, pid: int) -> None:
        self.commands.append(signal)
        self.alive = False

    def start(self) -> None:
        self.commands.append("start")
        self.alive = True
        self.lives += 1


@pytest.mark.parametrize("named", [[[]], [["n2"], []], [["n1", "n2"], []], [["n1"], ["n3"], []]])
@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("dead", [[], ["n1"]])
def test_what_the_target_names_is_restarted_or_started_until_it_names_none(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    named: Sequence[Sequence[str]],
    whole: bool,
    dead: Sequence[str],
) -> None:
    nodes = {name: Mortal(name, frozenset(), name) for name in ("n1", "n2", "n3")}
    for name in dead:
        nodes[name].alive = False
    warnings: list[str] = []
    ticks, looks = count(), list[bool]()
    journal = Journal(tmp_path / "faults.jsonl", lambda: next(ticks))
    plan = SimpleNamespace(final=SimpleNamespace(settle_s=1))
    other = SimpleNamespace(**vars(plan))  # the second cell's: each has an object of its own

    def to_restart(cluster: Any, of_cell: Any) -> Sequence[str]:
        return named[len(looks) - 1][: 1 if of_cell is plan else None]

    def replicated(*_: Any) -> bool:
        looks.append(whole)
        return whole

    target = SimpleNamespace(to_restart=to_restart, does=lambda _: True)
    run: Any = SimpleNamespace(
        resolved=SimpleNamespace(target=target, plan=plan),
        cluster=SimpleNamespace(nodes=nodes),
        cells=[SimpleNamespace(resolved=SimpleNamespace(plan=each)) for each in (plan, other)],
        record=SimpleNamespace(warn=warnings.append, update=lambda **_: None),
        how=SimpleNamespace(
            interrupts=SimpleNamespace(stop=threading.Event()),
            status=SimpleNamespace(enter=lambda _: None),
        ),
    )
    run._heal_by_hand = partial(runner._Run._heal_by_hand, run)
    monkeypatch.setattr(runner, "wait_until_replicated", replicated)
    faults = Faults({"process": ProcessLever(nodes)}, journal)
    runner._Run._recover(run, SimpleNamespace(observes=False), CLOCK, faults)  # type: ignore[arg-type]
    assert len(looks) == len(named)
    restarted = [name for names in named for name in names]
    for name, node in nodes.items():
        done = [each for each in node.commands if each in ("TERM", "start")]
        started = ["start"] if name in dead else ["TERM", "start"]
        assert done == (started if name in restarted else [])
    assert windows(tmp_path / "faults.jsonl") == []
    acts = [each["token"]["node"] for each in entries(tmp_path / "faults.jsonl") if "token" in each]
    assert acts == [name for name in restarted if name not in dead]
    assert open_acts(tmp_path / "faults.jsonl").acts == []
    by_hand = [each for each in warnings if "was healed by hand" in each]
    assert [each.rpartition("by restarting ")[2] for each in by_hand] == [
        ", ".join(names) for names in named if names
    ]
    assert warnings == by_hand + ([] if whole else [runner.NOT_FULLY_REPLICATED])


def test_nothing_is_restarted_while_a_fault_is_there(tmp_path: Path) -> None:
    nodes = {"n1": Mortal("n1", frozenset(), "n1")}
    faults = Faults({"process": ProcessLever(nodes)}, Journal(tmp_path / "faults.jsonl", lambda: 0))
    faults.inject("kill", "kill", [Act("process", ProcessRecord(node="n1", signal="TERM", pid=1))])
    run: Any = SimpleNamespace(
        resolved=SimpleNamespace(target=None), cluster=SimpleNamespace(nodes=nodes), how=STOP
    )
    assert not runner._Run._heal_by_hand(run, faults, CLOCK, whole=False)
    assert "TERM" in nodes["n1"].commands
    assert "start" not in nodes["n1"].commands


@pytest.mark.parametrize(
    ("looks", "whole", "restarted"),
    [
        ([["n1"], ["n1"]], True, ["n1"]),
        ([["n1"], [], []], True, []),
        ([["n1"], [], [], [], []], False, []),
        ([[], [], ["n2"], ["n2"]], False, ["n2"]),
        ([["n1"], ["n2", "n3"], ["n2", "n3"]], True, ["n2", "n3"]),
        ([["n1"], ["n2"]] * 3, True, []),
    ],
)
def test_what_is_named_once_was_perhaps_only_slow(
    tmp_path: Path, looks: Sequence[list[str]], whole: bool, restarted: Sequence[str]
) -> None:
    nodes = {name: Mortal(name, frozenset(), name) for name in ("n1", "n2", "n3")}
    each = iter(looks)
    target = SimpleNamespace(to_restart=lambda *_: next(each), does=lambda _: True)
    run: Any = SimpleNamespace(
        resolved=SimpleNamespace(target=target),
        cluster=SimpleNamespace(nodes=nodes),
        cells=[SimpleNamespace(resolved=SimpleNamespace(plan=None))],
        record=SimpleNamespace(warn=lambda _: None),
        how=STOP,
    )
    ticks = count()
    journal = Journal(tmp_path / "faults.jsonl", lambda: next(ticks))
    faults = Faults({"process": ProcessLever(nodes)}, journal)
    assert runner._Run._heal_by_hand(run, faults, CLOCK, whole=whole) == bool(restarted)
    assert [name for name, node in nodes.items() if "TERM" in node.commands] == [*restarted]
