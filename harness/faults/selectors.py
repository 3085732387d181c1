"""Selectors of nodes: one small language for all faults, resolved when the fault begins.

    expression := term (("+" | "-" | "&") term)*       from left to right
    term       := all | controller | leader | leader(P) | follower(P) | isr(P) | out-of-isr(P)
                | one | minority | majority | random   drawn from the seed among the members,
                                                       the nodes that hold what clients write;
                                                       random: a coin toss each, at least one
                | broker(N)                            the Nth member: 1, 2 ...
                | role:NAME | rack:NAME | node:NAME    NAME of a role, of a rack, of a node
                | same:STEP                            the nodes of an earlier step

`leader` without a partition is the node that leads most partitions (the lowest name when several
do), as in the experiment of 2013. `all` are the nodes of the system under test. Nodes that hold a
client are selected only by `role:client` and by name, so a node that is cut from `all` keeps its
clients.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.errors import PlanError
from harness.protocols import CLIENT_ROLE, MEMBER_ROLES, Situation

_TERM = r"[a-z-]+(?:\(\d+\)|:[a-z0-9][a-z0-9._]*(?:-[a-z0-9._]+)*)?"
_EXPRESSION = re.compile(rf"\s*({_TERM})\s*((?:[+&-]\s+{_TERM}\s*)*)$")
_PLAIN = frozenset({"all", "controller", "leader", "one", "minority", "majority", "random"})
_NUMBERED = frozenset({"leader", "follower", "isr", "out-of-isr", "broker"})
_NAMED = frozenset({"role", "rack", "node", "same"})


@dataclass(frozen=True, kw_only=True)
class Choice:
    """All that a selector may depend on."""

    roles: Mapping[str, frozenset[str]]
    situation: Situation
    earlier: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    draw: random.Random = field(default_factory=lambda: random.Random(0))

    @property
    def members(self) -> list[str]:
        """The nodes that hold what clients write."""
        return [name for name, roles in self.roles.items() if roles & MEMBER_ROLES]


def check(text: str, *, key: str) -> None:
    """Raise PlanError unless `text` is a selector."""
    for _, term in _terms(text, key):
        word, arg = _split(term)
        known = _NAMED if ":" in term else _NUMBERED if "(" in term else _PLAIN
        if word not in known:
            raise PlanError(
                f"{term!r} is not a selector",
                key=key,
                hint="e.g. leader, leader(0), controller, role:broker, node:b1, same:STEP, all",
            )
        del arg


def select(text: str, choice: Choice) -> list[str]:
    """The names of the chosen nodes in the cluster's order; empty when none matches."""
    chosen: set[str] = set()
    for operator, term in _terms(text, "nodes"):
        names = _resolve(term, choice)
        chosen = {"+": chosen | names, "-": chosen - names, "&": chosen & names}[operator]
    return [name for name in choice.roles if name in chosen]


def _terms(text: str, key: str) -> list[tuple[str, str]]:
    match = _EXPRESSION.match(text)
    if match is None:
        raise PlanError(
            f"{text!r} is not a selector",
            key=key,
            hint="terms such as leader, role:broker or node:b1, joined by ' + ', ' - ' or ' & '",
        )
    rest = re.findall(rf"([+&-])\s+({_TERM})", match[2])
    return [("+", match[1]), *rest]


def _split(term: str) -> tuple[str, str | None]:
    word, _, arg = re.sub(r"[():]", " ", term).strip().partition(" ")
    return word, arg or None


def _resolve(term: str, choice: Choice) -> set[str]:
    word, arg = _split(term)
    if arg is not None and word == "role":
        return {name for name, roles in choice.roles.items() if arg in roles}
    if arg is not None and word == "rack":
        return {name for name, roles in choice.roles.items() if f"rack:{arg}" in roles}
    if arg is not None and word == "broker":
        return set(choice.members[int(arg) - 1 : int(arg)])
    if arg is not None and word == "node":
        return {arg} & set(choice.roles)
    if arg is not None and word == "same":
        return set(choice.earlier.get(arg, ()))
    if arg is not None:
        return _of_partition(word, int(arg), choice)
    if word == "all":
        return {name for name, roles in choice.roles.items() if CLIENT_ROLE not in roles}
    if word == "controller":
        return {choice.situation.controller} - {None}  # type: ignore[return-value]
    if word == "leader":
        return _leading_most(choice)
    members = sorted(choice.members)
    if word == "random":
        heads = {name for name in members if choice.draw.random() < 0.5}
        return heads or {choice.draw.choice(members)}
    half = (len(members) - 1) // 2
    count = {"one": 1, "minority": half, "majority": len(members) - half}[word]
    return set(choice.draw.sample(members, count))


def _of_partition(word: str, partition: int, choice: Choice) -> set[str]:
    view = choice.situation.partitions.get(partition)
    if view is None:
        return set()
    isr, leader = set(view.isr), {view.leader} if view.leader else set()
    if word == "leader":
        return leader
    if word == "isr":
        return isr
    if word == "follower":
        return isr - leader
    return set(choice.members) - isr


def _leading_most(choice: Choice) -> set[str]:
    leaders = Counter(v.leader for v in choice.situation.partitions.values() if v.leader)
    if not leaders:
        return set()
    return {min(leaders, key=lambda name: (-leaders[name], name))}


def earlier_steps(text: str) -> list[str]:
    """The steps to which a selector refers."""
    return re.findall(r"same:([a-z0-9._-]+)", text)
