"""Conditions that a step of the schedule can wait for: each target has its own.

A condition about a change, such as that of a leader, compares with the moment when the last fault
began. A plan with a condition that its target does not have, or that can never hold (of a partition
that there is not), is refused when it is read.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.errors import PlanError, nearest
from harness.protocols import Situation
from harness.protocols.vocabulary import ConditionForm, Groups, Since, Vocabulary


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


def parse(text: str, vocabulary: Vocabulary, *, key: str) -> Condition:
    """A condition from its text. Raises PlanError that lists the target's forms."""
    normal = " ".join(text.split())
    for form in vocabulary.conditions:
        if match := form.pattern.fullmatch(normal):
            return Condition(normal, form, match.groupdict())
    forms = [form.form for form in vocabulary.conditions]
    raise PlanError(
        f"{text!r} is not a condition of {vocabulary.owner}", key=key, hint=_hint(normal, forms)
    )


def _hint(text: str, forms: list[str]) -> str:
    if not forms:
        return "it has none: use at_s"
    near = nearest(text, forms)
    question = f"did you mean {near!r}? " if near else ""
    return f"{question}it has: {', '.join(forms)}"
