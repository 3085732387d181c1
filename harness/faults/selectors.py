"""Selectors of nodes: one small language for all faults, resolved when the fault begins.

    expression := term (("+" | "-" | "&") term)*       from left to right
    term       := all                                  every node of the system under test
                | members | member(N)                  the nodes that hold what clients write; the
                                                       Nth of them: 1, 2 ...
                | one | minority | majority | random   drawn from the seed among the members;
                                                       random: a coin toss each, at least one
                | role:NAME | rack:NAME | node:NAME    NAME of a role, of a rack, of a node
                | same:STEP                            the nodes of an earlier step
                | WORD | WORD(N)                       a word of the target, such as its leader

Nodes that hold a client are selected only by `role:client` and by name, so a node that is cut from
`all` keeps its clients. A plan with a word, node, role, rack or number (`leader(99)`) that its
target or cluster does not have is refused when it is read; so are nodes of which a fault could
never affect any.

Conditions that a step can wait for: each target has its own. One about a change ("new", "moved",
"different") compares with the moment when the last fault began. One that the target does not have,
or that can never hold, is refused when the plan is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from harness.errors import PlanError, nearest
from harness.faults.leaders import nth_member
from harness.protocols import CLIENT_ROLE, Situation
from harness.protocols.faults import Choice, ConditionForm, Groups, Since, Vocabulary


@dataclass(frozen=True)
class Condition:
    """A parsed condition; `holds` compares the situation now with that of the last fault."""

    text: str
    form: ConditionForm
    groups: Groups

    def holds(self, now: Situation, since: Since) -> bool:
        """Whether it holds. What was not observed never satisfies it."""
        return self.form.holds(self.groups, now, since)

    def why_never(self, partitions: int, replicas: int) -> str | None:
        """Why it can never hold with so many partitions of so many replicas; `None`: it can."""
        return self.form.why_never(self.groups, partitions, replicas)


def parse_condition(text: str, vocabulary: Vocabulary, *, key: str) -> Condition:
    """A condition from its text. Raises PlanError that lists the target's forms."""
    normal = " ".join(text.split())
    for form in vocabulary.conditions:
        if match := form.pattern.fullmatch(normal):
            return Condition(normal, form, match.groupdict())
    hint = "it has none: use at_s"
    if forms := [form.form for form in vocabulary.conditions]:
        near = nearest(normal, forms)
        question = f"did you mean {near!r}? " if near else ""
        hint = f"{question}it has: {', '.join(forms)}"
    raise PlanError(f"{text!r} is not a condition of {vocabulary.owner}", key=key, hint=hint)


_TERM = r"[a-z-]+(?:\(\d+\)|:[a-z0-9][a-z0-9._]*(?:-[a-z0-9._]+)*)?"
_EXPRESSION = re.compile(rf"\s*({_TERM})\s*((?:[+&-]\s+{_TERM}\s*)*)$")
_DRAWN: Final = ("one", "minority", "majority", "random")
CORE_WORDS: Final = ("all", "members", *_DRAWN)
"""The words of the core; those with a name after a colon follow."""
CORE_NAMED: Final = ("role", "rack", "node", "same")
MEMBER: Final = "member"
_RACK: Final = "rack:"
"""What the role begins with that says in which rack a node is."""

Roles = Mapping[str, frozenset[str]]
"""The nodes of a cluster by name, with their roles."""


def check_grammar(text: str, *, key: str) -> None:
    """Raise PlanError unless `text` may be a selector of some target."""
    _terms(text, key)


def check(text: str, vocabulary: Vocabulary, *, key: str) -> None:
    """Raise PlanError unless `text` is a selector in these words and the core's."""
    for _, term in _terms(text, key):
        word, _ = _split(term)
        if ":" in term:
            known: AbstractSet[str] = set(CORE_NAMED)
        elif "(" in term:
            known = {MEMBER, *vocabulary.numbered}
        else:
            known = {*CORE_WORDS, *vocabulary.words}
        if word not in known:
            raise PlanError(
                f"{term!r} is not a selector of {vocabulary.owner}",
                key=key,
                hint=_hint(term, vocabulary),
            )


def check_names(text: str, roles: Callable[[], Roles], *, key: str) -> None:
    """Raise PlanError for a node, role or rack that is named and that the cluster does not have.

    `roles` is called only when something is named.
    """
    for _, term in _terms(text, key):
        word, name = _split(term)
        if ":" not in term or word == "same":
            continue
        known = _names(word, roles())
        if name not in known:
            near = nearest(name or "", known)
            question = f"did you mean '{word}:{near}'? " if near else ""
            has = f"the {word}s {', '.join(known)}" if known else f"no {word}s"
            raise PlanError(
                f"{term!r} names no {word} of this cluster", key=key, hint=f"{question}it has {has}"
            )


def _names(word: str, roles: Roles) -> list[str]:
    """All that can be named after a word of the core and a colon, in the cluster's order."""
    if word == "node":
        return list(roles)
    every = dict.fromkeys(role for of_node in roles.values() for role in sorted(of_node))
    if word == "rack":
        return [role.removeprefix(_RACK) for role in every if role.startswith(_RACK)]
    return [role for role in every if not role.startswith(_RACK)]


def _hint(term: str, vocabulary: Vocabulary) -> str:
    """The nearest term of the same shape, else of another, and all that there are."""
    word, arg = _split(term)
    words = [*CORE_WORDS, *vocabulary.words]
    with_number = (MEMBER, *vocabulary.numbered)
    numbered = [f"{each}({arg if '(' in term else 0})" for each in with_number]
    named = [f"{each}:{arg if ':' in term else 'NAME'}" for each in CORE_NAMED]
    same_shape = named if ":" in term else numbered if "(" in term else words
    near = nearest(term, same_shape) or nearest(word, words)
    question = f"did you mean {near!r}? " if near else ""
    shown = [*words, *(f"{each}(N)" for each in with_number)]
    return f"{question}it has: {', '.join([*shown, *(f'{each}:NAME' for each in CORE_NAMED)])}"


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
            hint="terms such as all, one or node:NAME, joined by ' + ', ' - ' or ' & '",
        )
    rest = re.findall(rf"([+&-])\s+({_TERM})", match[2])
    return [("+", match[1]), *rest]


def _split(term: str) -> tuple[str, str | None]:
    word, _, arg = re.sub(r"[():]", " ", term).strip().partition(" ")
    return word, arg or None


def _resolve(term: str, choice: Choice) -> AbstractSet[str]:
    word, arg = _split(term)
    if arg is None:
        return _of_word(word, choice)
    if word == "same":
        return set(choice.earlier.get(arg, ()))
    if ":" in term:
        return _named(word, arg, choice.roles)
    nth = nth_member if word == MEMBER else choice.vocabulary.numbered[word]
    return nth(choice, int(arg))


def _of_word(word: str, choice: Choice) -> AbstractSet[str]:
    if word == "all":
        return {name for name, roles in choice.roles.items() if CLIENT_ROLE not in roles}
    members = sorted(choice.members)
    if word == "members":
        return set(members)
    if word not in _DRAWN:
        return choice.vocabulary.words[word](choice)
    if word == "random":
        heads = {name for name in members if choice.draw.random() < 0.5}
        return heads or {choice.draw.choice(members)}
    half = (len(members) - 1) // 2
    count = {"one": 1, "minority": half, "majority": len(members) - half}[word]
    return set(choice.draw.sample(members, count))


def _named(word: str, name: str, roles: Roles) -> set[str]:
    """The nodes of a name: one, or those of a rack or a role."""
    if word == "node":
        return {name} & set(roles)
    role = f"{_RACK}{name}" if word == "rack" else name
    return {each for each, of_node in roles.items() if role in of_node}


def possible(text: str, roles: Roles) -> AbstractSet[str]:
    """All nodes that a selector may choose, whatever is so when the fault begins."""
    found: set[str] = set()
    for operator, term in _terms(text, "nodes"):
        word, name = _split(term)
        named = ":" in term and word != "same"
        names = _named(word, name or "", roles) if named else set(roles)
        if operator == "-":
            found -= names if named else set()
        else:
            found = found & names if operator == "&" else found | names
    return found


def numbered_terms(text: str) -> list[str]:
    """The terms with a number: `leader(0)`."""
    return [term for _, term in _terms(text, "nodes") if "(" in term]


def earlier_steps(text: str) -> list[str]:
    """The steps to which a selector refers."""
    return re.findall(r"same:([a-z0-9._-]+)", text)
