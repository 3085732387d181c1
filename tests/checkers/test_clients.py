"""The client checker: what processes of the user's did wrong is found, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from checkers.clients import Clients
from checkers.judging.verdict import judge
from harness.protocols import CheckResult, Facts
from harness.protocols.runs import COUNTED, Conduct, Incident
from tests.fixtures.operation_rows import History, Row

CLEAN = Conduct(command=("x",), software="lib 1.0", started=3)


def facts(clients: Conduct | None) -> Facts:
    return Facts(run_id="r", history=(), reads=(), ends=(), clients=clients)


class Operated(History):
    """A run of such clients."""

    def __init__(self, rows: Sequence[Row], facts: Facts) -> None:
        super().__init__(rows, 100)
        self.facts = facts


def operation(end: str) -> list[Row]:
    return [Row(f="append"), Row(f="append", type=end)]


def checked(clients: Conduct | None, *ends: str) -> CheckResult:
    """What the checker reports about clients whose operations ended so."""
    rows = [row for end in ends for row in operation(end)]
    run, checker = Operated(rows, facts(clients)), Clients()
    return checker.merge(run, [checker.check(run, shard) for shard in checker.shards(run)])


@pytest.mark.parametrize("ends", [("ok",), ("fail", "info", "ok")])
def test_clients_that_did_nothing_wrong_are_valid(ends: Sequence[str]) -> None:
    result = checked(CLEAN, *ends)
    assert result.counter_examples == ()
    assert result.doubts == ()
    assert result.all_well == "lib 1.0 kept to the protocol"


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ((), "nothing was attempted"),
        (("fail",), "none of 1 operation was ok"),
        (("fail", "fail"), "none of 2 operations was ok"),
        (("info", "info", "fail"), "none of 3 operations was ok"),
    ],
)
def test_clients_that_completed_nothing_have_not_shown_that_they_are_right(
    ends: Sequence[str], sentence: str
) -> None:
    assert checked(CLEAN, *ends).doubts == (("vacuous", sentence),)
    assert checked(replace(CLEAN, started=0), *ends).doubts == (("vacuous", sentence),)


@pytest.mark.parametrize("name", COUNTED)
def test_each_kind_of_incident_is_a_counter_example(name: str) -> None:
    result = checked(replace(CLEAN, **{name: 2}))
    assert [each.name for each in result.counter_examples] == [name]
    assert result.counts[name] == 2


def test_late_answers_and_operations_of_ended_processes_are_counted_alone() -> None:
    result = checked(replace(CLEAN, late=1, ended=5))
    assert result.counter_examples == ()
    assert (result.counts["late"], result.counts["ended"]) == (1, 5)


def test_nothing_is_known_of_other_clients() -> None:
    assert [each.name for each in checked(None).doubts] == ["vacuous"]


@pytest.mark.parametrize("name", ["lies", "floods"])
def test_a_run_whose_clients_broke_the_protocol_is_not_valid(name: str) -> None:
    """Also where no check asks for it."""
    nothing = CheckResult(counts={"attempted": 1, "acknowledged": 1})
    assert judge(facts(CLEAN), [nothing]).doubts == ()
    verdict = judge(facts(replace(CLEAN, **{name: 1})), [nothing])
    assert (verdict.verdict, verdict.doubts) == ("unknown", ("client",))
    assert verdict.eligible


def test_a_run_whose_clients_died_may_be_valid_without_this_check() -> None:
    nothing = CheckResult(counts={"attempted": 1, "acknowledged": 1})
    assert judge(facts(replace(CLEAN, deaths=1, hangs=1, blocked=1)), [nothing]).doubts == ()


def test_conduct_is_read_as_it_was_written() -> None:
    incident = Incident(client=1, at_s=1.5, kind="lie", what="w")
    conduct = replace(CLEAN, lies=1, incidents=(incident,))
    assert Conduct.of(conduct.document()) == conduct
    assert Conduct.of({**conduct.document(), "later": 1}) == conduct
    assert conduct.sentence == "1 lie"
    assert replace(conduct, blocked=2).sentence == "1 lie, 2 blocked operations"
    with pytest.raises(ValueError, match=r"clients.lies is .1."):
        Conduct.of({**conduct.document(), "lies": "1"})
