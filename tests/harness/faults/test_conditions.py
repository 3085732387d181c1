"""Observations that steps wait for."""

from __future__ import annotations

import pytest

from harness.errors import PlanError
from harness.faults.selectors import Condition
from harness.faults.selectors import parse_condition as parse_in
from harness.protocols import PartitionView, Situation, Vocabulary
from harness.protocols.faults import Since
from targets.kafka.log import VOCABULARY as KAFKA
from targets.memory.system import VOCABULARY as MEMORY


def situation(*partitions: tuple[str | None, tuple[str, ...]], controller: str = "c1") -> Situation:
    views = {
        n: PartitionView(partition=n, leader=leader, leader_epoch=n, members=isr)
        for n, (leader, isr) in enumerate(partitions)
    }
    return Situation(time_ns=0, partitions=views, controller=controller)


def parse(text: str, *, key: str) -> Condition:
    return parse_in(text, KAFKA, key=key)


WHOLE = ("b1", "b2", "b3")
BEFORE = situation(("b1", WHOLE), ("b2", WHOLE))


@pytest.mark.parametrize(
    ("text", "now", "holds"),
    [
        ("isr == [leader]", situation(("b1", ("b1",)), ("b2", WHOLE)), True),
        ("isr == [leader]", situation(("b1", ("b1", "b2")), ("b2", ("b2",))), False),
        ("isr(1) == [leader]", situation(("b1", WHOLE), ("b2", ("b2",))), True),
        ("isr whole", situation(("b1", WHOLE), ("b2", WHOLE)), True),
        ("isr whole", situation(("b1", WHOLE), ("b2", ("b2",))), False),
        ("isr < 3", situation(("b1", ("b1", "b2")), ("b2", WHOLE)), True),
        ("isr == 2", situation(("b1", ("b1", "b2")), ("b2", WHOLE)), True),
        ("isr > 2", situation(("b1", ("b1", "b2")), ("b2", WHOLE)), False),
        ("leader moved", situation(("b3", ("b3",)), ("b2", WHOLE)), True),
        ("leader moved", situation(("b1", ("b1",)), ("b3", WHOLE)), False),
        ("leader moved", situation((None, ("b1",)), ("b2", WHOLE)), False),
        ("no leader", situation((None, ()), ("b2", WHOLE)), True),
        ("controller moved", situation(("b1", WHOLE), controller="c2"), True),
        ("controller moved", situation(("b1", WHOLE), controller="c1"), False),
    ],
)
def test_it_looks_at_the_partitions_that_the_fault_concerned(
    text: str, now: Situation, holds: bool
) -> None:
    since = Since(nodes=("b1",), situation=BEFORE, replication_factor=3)
    assert parse(text, key="when").holds(now, since) is holds


def test_a_leader_of_many_has_moved_when_it_leads_none_of_them() -> None:
    """As the experiment of 2013 waited: until the isolated broker leads nothing."""
    all_led = situation(*[("b1", WHOLE)] * 5)
    since = Since(nodes=("b1",), situation=all_led, replication_factor=3)
    moved = parse("leader moved", key="when")
    assert not moved.holds(situation(*[("b2", WHOLE)] * 4, ("b1", WHOLE)), since)
    assert moved.holds(situation(*[("b2", WHOLE)] * 4, ("b3", WHOLE)), since)


def test_nothing_observed_satisfies_nothing() -> None:
    since = Since(nodes=("b1",), situation=BEFORE, replication_factor=3)
    for text in ("isr == [leader]", "isr whole", "leader moved", "no leader", "isr < 3"):
        assert not parse(text, key="when").holds(situation(controller="c1"), since)


@pytest.mark.parametrize(
    ("text", "vocabulary", "what", "hint"),
    [
        (
            "isr hole",
            KAFKA,
            "'isr hole' is not a condition of kafka",
            "did you mean 'isr whole'? it has: isr == [leader], isr whole, fully replicated, ",
        ),
        (
            "leader moved",
            Vocabulary(owner="etcd"),
            "'leader moved' is not a condition of etcd",
            "it has none: use at_s",
        ),
    ],
)
def test_a_condition_that_the_target_does_not_have_is_refused_with_the_nearest(
    text: str, vocabulary: Vocabulary, what: str, hint: str
) -> None:
    with pytest.raises(PlanError) as refused:
        parse_in(text, vocabulary, key="faults.1.when")
    assert refused.value.what == what
    assert (refused.value.hint or "").startswith(hint)


def test_the_reference_system_has_conditions_of_its_own() -> None:
    since = Since(nodes=("b1",), situation=BEFORE, replication_factor=3)
    whole = parse_in("fully replicated", MEMORY, key="when")
    assert whole.holds(situation(("b1", WHOLE), ("b2", WHOLE)), since)
    assert not whole.holds(situation(("b1", WHOLE), ("b2", ("b2",))), since)
    assert not whole.holds(situation((None, WHOLE)), since)
    one = parse_in("fully replicated(0)", MEMORY, key="when")
    assert one.holds(situation(("b1", WHOLE), ("b2", ("b2",))), since)
    assert parse_in("leader(0) moved", MEMORY, key="when").holds(situation(("b2", WHOLE)), since)
