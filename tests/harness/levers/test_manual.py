"""A fault that a person makes: what is asked for, what is claimed, and that nothing is proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness import registry
from harness.errors import PlanError
from harness.faults.injection import Faults, chosen
from harness.faults.journal import Journal, windows
from harness.levers.manual import ManualLever, Operator
from harness.plan import parse_plan
from harness.protocols import FaultWindow, Nemesis, Vocabulary
from harness.run.by_hand import begin_by_hand, refuse_manual, with_operator
from harness.run.preview import dry_run
from harness.run.resolving import resolve
from tests.fixtures.dry_run import DryRunNode

NODE = DryRunNode("b2", frozenset({"broker"}), "198.18.0.12")


@dataclass
class Scripted(Operator):
    """Reports as it is set up to, and keeps what it was asked for."""

    begins: bool = True
    ends: bool = True
    asked: list[str] = field(default_factory=list)
    over: int = 0

    def begin(self, faults: Sequence[str]) -> None:
        self.asked.append(f"may be asked for: {', '.join(faults)}")

    def done(self, fault: str, what: str, *, begun: bool, at_most_s: float) -> bool:
        self.asked.append(f"{fault} {'begin' if begun else 'end'} {at_most_s:g} s: {what}")
        return self.begins if begun else self.ends

    def leave(self) -> None:
        """Nothing is waited for."""

    def give_up(self) -> None:
        self.over += 1


def nemesis(**options: object) -> Nemesis:
    made = registry.make("nemeses", "manual", options, key="faults.0.nemesis")
    assert isinstance(made, Nemesis)
    return made


def window_of(operator: Scripted, journal: Journal, path: Path) -> FaultWindow:
    """The window of one fault, begun and healed."""
    levers = {"manual": ManualLever(operator)}
    faults = Faults(levers, journal)
    how = nemesis(instruction="pull the plug", undo_instruction="put it back", at_most_s=7.0)
    acts = chosen(how, [NODE], lambda _: [], levers=levers, among=["b2"], vocabulary=Vocabulary())
    journal.write("step", fault="plug", nemesis="manual", nodes=["b2"], met=None, why="")
    faults.inject("plug", "manual", acts)
    faults.heal_all()
    faults.give_up_waiting()
    (window,) = windows(path)
    return window


def test_what_is_reported_is_a_claim_and_no_proof(journal: Journal, path: Path) -> None:
    operator = Scripted()
    window = window_of(operator, journal, path)
    assert operator.asked == [
        "plug begin 7 s: pull the plug (b2: 198.18.0.12)",
        "plug end 7 s: put it back (b2: 198.18.0.12)",
    ]
    assert (window.claimed, window.proven) == (True, False)
    assert window.from_s is not None
    assert window.to_s is not None
    assert "claimed by the operator, not proven: pull the plug" in window.evidence
    assert operator.over == 1


def test_what_nobody_reports_is_no_claim_and_is_not_undone(journal: Journal, path: Path) -> None:
    operator = Scripted(begins=False)
    window = window_of(operator, journal, path)
    assert len(operator.asked) == 1  # nobody is asked to undo what nobody did
    assert (window.claimed, window.proven) == (False, False)
    assert "it was not reported: pull the plug" in window.evidence
    assert window.from_s is None


def test_an_end_that_nobody_reports_does_not_break_the_run(journal: Journal, path: Path) -> None:
    window = window_of(Scripted(ends=False), journal, path)
    assert window.claimed
    assert "it was not reported: put it back" in window.evidence


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"instruction": " "}, "instruction is one line of text"),
        ({"instruction": "a\nb"}, "instruction is one line of text"),
        ({"undo_instruction": "x" * 501}, "undo_instruction is one line of text"),
        ({"at_most_s": 0}, "at_most_s: 0 is not allowed here; use more than 0"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], what: str) -> None:
    with pytest.raises(PlanError, match=what):
        nemesis(**options)


MANUAL = {"id": "plug", "at_s": 1, "nemesis": "manual", "instruction": "pull the plug"}
PLAN = {"schema": 1, "name": "p", "target": {"version": "4.3.1"}, "faults": [MANUAL]}


def test_a_plan_with_one_needs_somebody_to_make_it() -> None:
    resolved = resolve(parse_plan(PLAN))
    with pytest.raises(PlanError, match=r"there is no terminal here.*--signals FOLDER"):
        with_operator(resolved, None, file="p.toml")
    with pytest.raises(PlanError, match="nobody is waited for here"):
        refuse_manual(resolved)
    operator = Scripted()
    assert with_operator(resolved, operator).operator is operator
    assert operator.asked == ["may be asked for: plug"]
    begin_by_hand(with_operator(resolved, operator))  # as each run does, before anything starts
    assert len(operator.asked) == 3
    with pytest.raises(PlanError, match="there is no terminal here"):
        begin_by_hand(resolved)


def test_a_plan_without_one_needs_nobody() -> None:
    resolved = resolve(parse_plan({**PLAN, "faults": []}))
    assert with_operator(resolved, None) is resolved
    refuse_manual(resolved)


def test_a_dry_run_says_what_would_be_asked_for() -> None:
    (step,) = dry_run(resolve(parse_plan(PLAN)))["faults"]
    (act,) = step["commands"]
    assert act.startswith('b1: manual (instruction = "pull the plug"')


def test_on_simulated_nodes_nobody_can_do_anything() -> None:
    document = {
        "schema": 1,
        "name": "p",
        "cluster": {"kind": "memory"},
        "target": {"system": "memory"},
        "faults": [MANUAL],
    }
    with pytest.raises(PlanError, match="needs the lever 'manual'"):
        resolve(parse_plan(document))
