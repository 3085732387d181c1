"""The words by which a plan names nodes (selectors) and instants (conditions).

The core has words that mean the same for every system (`harness.faults.selectors`). What only one
system has, its leaders, its in-sync replicas, its numbered nodes, is declared by its target
(`Target.vocabulary`). `harness.faults.leaders` has words for systems with leaders.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from harness.protocols.nodes import CLIENT_ROLE, Situation

Groups = Mapping[str, str | None]
"""The named groups of a condition's pattern, as its text filled them."""


@dataclass(frozen=True, kw_only=True)
class Since:
    """When the last fault began: its nodes, and the situation then."""

    nodes: Sequence[str]
    situation: Situation
    replication_factor: int


@dataclass(frozen=True, kw_only=True)
class ConditionForm:
    """One form of condition. `form` is how messages show it (`isr < N`); `holds` compares the
    situation now with that of the last fault, and never holds for what was not observed.
    `why_never`: why it can never hold with so many partitions of so many replicas; `None`: it
    can."""

    form: str
    pattern: re.Pattern[str]
    holds: Callable[[Groups, Situation, Since], bool]
    why_never: Callable[[Groups, int, int], str | None] = lambda *_: None


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The words that a target adds to those of the core, whose words it cannot redefine.

    owner         the target, as messages name it
    member_roles  the roles of nodes that hold what clients write: `one`, `majority` and their like
                  mean these; empty: every node that is not a client's
    words         selectors: `controller`
    numbered      selectors with a number in brackets: `leader(0)`
    conditions    forms of what a step can wait for
    """

    owner: str = "the target"
    member_roles: frozenset[str] = frozenset()
    words: Mapping[str, Callable[[Choice], AbstractSet[str]]] = field(default_factory=dict)
    numbered: Mapping[str, Callable[[Choice, int], AbstractSet[str]]] = field(default_factory=dict)
    conditions: tuple[ConditionForm, ...] = ()

    def members(self, roles: Mapping[str, frozenset[str]]) -> list[str]:
        """Of nodes with these roles, those that hold what clients write."""
        wanted = self.member_roles
        return [
            name
            for name, own in roles.items()
            if (own & wanted if wanted else CLIENT_ROLE not in own)
        ]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """All that a selector may depend on. `roles` by node, in the cluster's order; `earlier`: the
    nodes of earlier steps; `draw` is the only source of random choices."""

    roles: Mapping[str, frozenset[str]]
    situation: Situation
    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    earlier: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    draw: random.Random = field(default_factory=lambda: random.Random(0))

    @property
    def members(self) -> list[str]:
        """The nodes that hold what clients write."""
        return self.vocabulary.members(self.roles)
