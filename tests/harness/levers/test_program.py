"""The lever that replaces a node's program believes nothing but what the node reports itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.errors import HarnessFailure
from harness.faults.records import ProgramRecord
from harness.levers.process import Program, ProgramLever
from harness.plan import parse_plan
from harness.protocols import NodeSpec, ProcessState, Proof
from tests.fixtures.dry_run import DryRunNode

PLAN = parse_plan({"schema": 1, "name": "p", "target": {"version": "4.4.0"}})
RECORD = ProgramRecord(node="b1", to="4.4.0", fault="roll")


@dataclass
class Reports:
    """A target whose nodes report a version, whatever was installed."""

    version: str

    def has_program(self, node: Any, plan: Any) -> tuple[bool, str]:
        return self.version == plan.target.version, f"reports {self.version}"

    def logs(self, node: Any) -> dict[str, bytes]:
        return {"server.log": b"INFO fine\n[1] ERROR level 27 is not supported\nINFO over\n"}


class Runs(DryRunNode):
    def process(self) -> ProcessState:
        return ProcessState(running=True)


class Ended(DryRunNode):
    def process(self) -> ProcessState:
        return ProcessState(running=False, exit_code=1)

    def pid(self) -> None:
        return None


@dataclass
class Installed:
    done: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, image: str, spec: NodeSpec) -> None:
        self.done.append((image, spec.name))


def lever(version: str, kind: type[DryRunNode] = Runs) -> ProgramLever:
    node = kind("b1", frozenset({"broker"}), "198.18.0.11")
    spec = NodeSpec(name="b1", roles=node.roles, argv=["java"])
    programs = {"4.4.0": Program(PLAN, "sha256:new", {"b1": spec})}
    return ProgramLever({"b1": node}, Reports(version), programs, Installed())


def test_it_is_proven_by_what_the_node_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.levers.process._UP_S", 0.1)
    new, old = lever("4.4.0"), lever("3.9.2")
    assert new.probe(RECORD, applied=True).proven
    already = new.capture_prior_state(RECORD)
    assert not new.probe(already, applied=True).proven  # nothing has changed
    assert old.probe(RECORD, applied=True) == Proof(False, ["b1: reports 3.9.2"])


def test_a_program_that_does_not_start_is_named_with_its_last_error() -> None:
    proof = lever("4.4.0", Ended).probe(RECORD, applied=True)
    assert not proof.proven
    ended = "b1: its process ended with exit code 1: [1] ERROR level 27 is not supported"
    assert proof.evidence == [ended]


class Signalled(DryRunNode):
    """Its process ends at the first signal; those that it got."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.signals: list[str] = []

    def pid(self) -> int | None:
        return None if self.signals else 7

    def process(self) -> ProcessState:
        return ProcessState(running=not self.signals)

    def send_signal(self, signal: str, pid: int) -> None:
        self.signals.append(signal)


@pytest.mark.parametrize(("kill", "signal"), [(False, "TERM"), (True, "KILL")])
def test_the_old_program_is_stopped_unless_it_is_to_be_killed(kill: bool, signal: str) -> None:
    made = lever("4.4.0", Signalled)
    made.apply(ProgramRecord(node="b1", to="4.4.0", kill=kill))
    node = made.nodes["b1"]
    assert isinstance(node, Signalled)
    assert node.signals == [signal]


def test_one_that_does_not_stop_in_time_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed node would show another thing than a planned stop."""
    monkeypatch.setattr("harness.levers.process._STOP_S", 0.1)
    made = lever("4.4.0", Runs)
    with pytest.raises(HarnessFailure, match=r"b1 still ran 0\.1 s after TERM"):
        made.apply(RECORD)
    assert isinstance(made.install, Installed)
    assert made.install.done == []


def test_the_prepared_program_is_installed_once_the_old_one_has_ended() -> None:
    made = lever("4.4.0", Ended)
    made.apply(RECORD)
    assert isinstance(made.install, Installed)
    assert made.install.done == [("sha256:new", "b1")]
    assert made.unavailable(made.nodes["b1"], ProgramRecord(node="b1", to="4.5.0")) is not None
