"""A node of several processes: what kills, stops and starts its program does so to all of them, on
real pods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.faults.records import PauseRecord, ProcessRecord, StressRecord
from harness.levers.commands import poll_until
from harness.protocols import Node
from tests.conformance.conftest import LISTEN, Pods, pods_in

pytestmark = pytest.mark.docker

CHILD, DAEMON, ASIDE = "7601", "7602", "7603"
PROGRAM = f"sleep {CHILD} & setsid sh -c 'sleep {DAEMON} &'; exec {' '.join(LISTEN)}"
"""A child, as those of `ServerSystem.beside` are, and a daemon that nobody is the parent of."""


@pytest.fixture(scope="module")
def several(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    folder, argv = tmp_path_factory.mktemp("several"), ["sh", "-c", PROGRAM]
    with pods_in(folder, kind=kind, argv=argv, beside=["sleep", ASIDE]) as pods:
        yield pods


@pytest.fixture
def node(several: Pods) -> Node:
    node = several.nodes["b1"]
    assert poll_until(lambda: set(states(node)) == {"nc", CHILD, DAEMON, ASIDE}, within_s=5)
    return node


def states(node: Node) -> dict[str, str]:
    """The state of each process, by what it is known by."""
    found = {}
    for line in node.admin(["ps", "-e", "-o", "state=,args="]).output.splitlines():
        state, program, *words = line.split()
        if program == "nc" or (program == "sleep" and words[-1].startswith("76")):
            found["nc" if program == "nc" else words[-1]] = state
    return found


def test_all_stop_and_go_on_together(several: Pods, node: Node) -> None:
    lever = several.levers["pause"]
    record = PauseRecord(node="b1", fault="still", pid=node.pid())
    before = states(node)
    lever.apply(record)
    stopped = lever.probe(record, applied=True)
    assert stopped.proven
    assert "with 2 more has State: T (stopped) in 3 of 3" in stopped.evidence[0]
    assert states(node) == {**dict.fromkeys(("nc", CHILD, DAEMON), "T"), ASIDE: before[ASIDE]}
    lever.undo(record)
    assert lever.probe(record, applied=False).proven
    assert states(node) == before
    assert lever.leftover_state(node) == []


def test_one_that_goes_on_is_seen(
    several: Pods, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    lever = several.levers["pause"]
    record = PauseRecord(node="b1", fault="still", pid=node.pid())
    lever.apply(record)
    node.admin(["sh", "-c", f"kill -CONT $(pgrep -x -f 'sleep {DAEMON}')"])
    monkeypatch.setattr("harness.levers.process._SEEN_S", 0.2)
    assert not lever.probe(record, applied=True).proven
    lever.undo(record)
    node.admin(["sh", "-c", f"kill -STOP $(pgrep -x -f 'sleep {CHILD}')"])
    assert poll_until(lambda: bool(lever.leftover_state(node)), within_s=2)
    assert not lever.probe(record, applied=False).proven
    node.admin(["sh", "-c", f"kill -CONT $(pgrep -x -f 'sleep {CHILD}')"])


def test_load_of_ours_is_not_stopped(several: Pods, node: Node) -> None:
    load = StressRecord(node="b1", fault="busy", busy_count=1, memory_mb=0, at_most_s=60.0)
    record = PauseRecord(node="b1", fault="still", pid=node.pid())
    several.levers["stress"].apply(load)
    several.levers["pause"].apply(record)
    assert several.levers["pause"].probe(record, applied=True).proven
    assert several.levers["stress"].probe(load, applied=True).proven
    several.levers["pause"].undo(record)
    several.levers["stress"].undo(load)


@pytest.mark.parametrize("signal", ["KILL", "TERM"])
def test_all_die_with_the_first_and_come_back_with_it(
    several: Pods, node: Node, signal: str
) -> None:
    lever = several.levers["process"]
    record = ProcessRecord(node="b1", fault="kill", signal=signal, pid=node.pid())  # type: ignore[arg-type]
    lever.apply(record)
    assert set(states(node)) == {ASIDE}, "at once: a disk is about to lose power"
    assert lever.probe(record, applied=True).proven
    lever.undo(record)
    assert lever.probe(record, applied=False).proven
    assert poll_until(lambda: set(states(node)) == {"nc", CHILD, DAEMON, ASIDE}, within_s=5)
