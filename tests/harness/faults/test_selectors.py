"""Selectors: what each term picks, and that nonsense is refused."""

from __future__ import annotations

import random

import pytest

from harness.errors import PlanError
from harness.faults import selectors
from harness.protocols import PartitionView, Situation, Vocabulary
from harness.protocols.faults import Choice
from targets.kafka.log import VOCABULARY as KAFKA
from targets.memory.system import VOCABULARY as MEMORY

ROLES = {
    **{f"b{n}": frozenset({"broker", f"rack:r{n % 2}"}) for n in (1, 2, 3)},
    **{f"c{n}": frozenset({"controller", f"rack:r{n % 2}"}) for n in (1, 2, 3)},
    "z1": frozenset({"zookeeper"}),
    "k1": frozenset({"client"}),
}


def view(partition: int, leader: str | None, *isr: str) -> PartitionView:
    return PartitionView(partition=partition, leader=leader, leader_epoch=1, members=isr)


def choice(*views: PartitionView, seed: int = 1, **earlier: tuple[str, ...]) -> Choice:
    return Choice(
        roles=ROLES,
        situation=Situation(time_ns=0, partitions={v.partition: v for v in views}, controller="c2"),
        vocabulary=KAFKA,
        earlier=earlier,
        draw=random.Random(seed),
    )


THREE = (view(0, "b2", "b1", "b2"), view(1, "b2", "b2"), view(2, "b1", "b1", "b2", "b3"))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("all", ["b1", "b2", "b3", "c1", "c2", "c3", "z1"]),
        ("role:client", ["k1"]),
        ("all + role:client", ["b1", "b2", "b3", "c1", "c2", "c3", "z1", "k1"]),
        ("leader", ["b2"]),
        ("leader(2)", ["b1"]),
        ("follower(2)", ["b2", "b3"]),
        ("isr(0)", ["b1", "b2"]),
        ("out-of-isr(0)", ["b3"]),
        ("controller", ["c2"]),
        ("after-controller", ["b1"]),
        ("role:controller", ["c1", "c2", "c3"]),
        ("node:b3", ["b3"]),
        ("node:b9", []),
        ("broker(2)", ["b2"]),
        ("member(3)", ["b3"]),
        ("member(0)", []),
        ("followers", ["b1", "b3"]),
        ("members - same:cut", ["b2", "b3"]),
        ("leader + followers - node:b1", ["b2", "b3"]),
        ("broker(4)", []),
        ("rack:r1 & role:broker", ["b1", "b3"]),
        ("rack:nowhere", []),
        ("same:cut", ["b1"]),
        ("role:broker - leader", ["b1", "b3"]),
        ("role:broker & isr(0) - leader(0)", ["b1"]),
        ("leader(7)", []),
    ],
)
def test_each_term_picks_what_it_says(text: str, names: list[str]) -> None:
    assert selectors.select(text, choice(*THREE, cut=("b1",))) == names


@pytest.mark.parametrize("text", ["leader", "followers", "one-follower", "followers - same:cut"])
def test_nobody_follows_while_nobody_is_known_to_lead(text: str) -> None:
    """Any of them may lead: a step that is to leave the leader alone waits for one."""
    assert selectors.select(text, choice(view(0, None, "b1", "b2", "b3"), cut=("b1",))) == []


def test_draws_follow_the_seed_and_have_the_right_size() -> None:
    for word, size in (("one", 1), ("minority", 1), ("majority", 2), ("one-follower", 1)):
        drawn = {tuple(selectors.select(word, choice(*THREE, seed=s))) for s in range(20)}
        assert all(len(names) == size for names in drawn)
        assert len(drawn) > 1, "twenty seeds never chose another node"
        again = [selectors.select(word, choice(*THREE, seed=7)) for _ in range(2)]
        assert again[0] == again[1]


@pytest.mark.parametrize("text", ["", "leader of 0", "leeder", "role", "leader(x)", "all; reboot"])
def test_nonsense_is_refused_with_its_key(text: str) -> None:
    with pytest.raises(PlanError) as refused:
        selectors.check(text, KAFKA, key="faults.0.nodes")
    assert refused.value.key == "faults.0.nodes"
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "vocabulary", "what", "near"),
    [
        ("leeder", KAFKA, "'leeder' is not a selector of kafka", "leader"),
        ("all - leder(2)", KAFKA, "'leder(2)' is not a selector of kafka", "leader(2)"),
        ("roles:broker", KAFKA, "'roles:broker' is not a selector of kafka", "role:broker"),
        ("broker", KAFKA, "'broker' is not a selector of kafka", None),
        ("leader", Vocabulary(owner="etcd"), "'leader' is not a selector of etcd", None),
        ("al", Vocabulary(owner="etcd"), "'al' is not a selector of etcd", "all"),
    ],
)
def test_a_word_that_the_target_does_not_have_is_refused_with_the_nearest(
    text: str, vocabulary: Vocabulary, what: str, near: str | None
) -> None:
    with pytest.raises(PlanError) as refused:
        selectors.check(text, vocabulary, key="faults.0.nodes")
    assert refused.value.what == what
    hint = refused.value.hint or ""
    assert hint.startswith(f"did you mean {near!r}? it has: " if near else "it has: ")
    assert "all, members, one, minority, majority, random" in hint


def test_the_words_of_the_core_need_no_target() -> None:
    bare = Vocabulary()
    for text in ("all", "one + majority", "role:x - node:b1", "rack:a & same:cut", "random"):
        selectors.check(text, bare, key="nodes")
    everybody = Choice(roles=ROLES, situation=Situation(time_ns=0))
    assert everybody.members == ["b1", "b2", "b3", "c1", "c2", "c3", "z1"], "all but clients"


def test_the_reference_system_has_words_of_its_own() -> None:
    names = {f"n{n}": frozenset({"replica"}) for n in (1, 2, 3)}
    view = PartitionView(partition=0, leader="n2", leader_epoch=1, members=("n1", "n2"))
    chosen = Choice(
        roles={**names, "c1": frozenset({"controller"})},
        situation=Situation(time_ns=0, partitions={0: view}, controller="c1"),
        vocabulary=MEMORY,
    )
    picked = {
        text: selectors.select(text, chosen)
        for text in ("leader", "followers", "follower(0)", "leader(0)", "replica(3)", "controller")
    }
    assert picked == {
        "leader": ["n2"],
        "followers": ["n1", "n3"],
        "follower(0)": ["n1"],
        "leader(0)": ["n2"],
        "replica(3)": ["n3"],
        "controller": ["c1"],
    }


@pytest.mark.parametrize("vocabulary", [KAFKA, MEMORY])
def test_no_target_redefines_a_word_of_the_core(vocabulary: Vocabulary) -> None:
    own = {*vocabulary.words, *vocabulary.numbered}
    assert not own & {*selectors.CORE_WORDS, *selectors.CORE_NAMED}


def test_random_is_never_nobody_and_not_always_the_same() -> None:
    drawn = [tuple(selectors.select("random", choice(seed=seed))) for seed in range(60)]
    assert drawn == [tuple(selectors.select("random", choice(seed=seed))) for seed in range(60)]
    assert () not in drawn
    assert {name for names in drawn for name in names} == {"b1", "b2", "b3"}
    assert {len(names) for names in drawn} == {1, 2, 3}


EVERY = frozenset(ROLES)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("leader", EVERY),
        ("node:b3", {"b3"}),
        ("role:broker", {"b1", "b2", "b3"}),
        ("leader & role:broker", {"b1", "b2", "b3"}),
        ("all - node:b3", EVERY - {"b3"}),
        ("all - leader", EVERY),
        ("role:client + all - all", EVERY),
        ("node:b1 + rack:r0", {"b1", "b2", "c2"}),
        ("same:first", EVERY),
        ("node:b9", set()),
    ],
)
def test_what_may_be_chosen_is_known_before(text: str, names: set[str]) -> None:
    """Whatever is so then: no node is chosen that was not possible."""
    possible = selectors.possible(text, ROLES)
    assert possible == names
    for seed in range(5):
        made = choice(*THREE, seed=seed, first=("b1", "z1"))
        assert set(selectors.select(text, made)) <= possible


@pytest.mark.parametrize(("active", "after"), [("b1", "b2"), ("b3", "b1"), (None, "b1")])
def test_after_the_controller_is_never_the_controller(active: str | None, after: str) -> None:
    situation = Situation(time_ns=0, controller=active)
    seen = Choice(roles=ROLES, situation=situation, vocabulary=KAFKA)
    assert selectors.select("after-controller", seen) == [after]
