"""What runs and campaigns are counted by: the primary finding of their first check, what else
statistics show of it, and why writes were lost.

Checkers declare both (`harness.protocols.Checker.primary`, `counts`); nothing here knows one by
name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from harness import registry
from harness.campaigns.plan import Campaign
from harness.history.documents import CellResult, RunResult
from harness.models import MODELS
from harness.protocols import NOT_EXAMINED, UNEXPLAINED, Checker, Count, PrimaryFinding


class Measure(NamedTuple):
    """A count that is shown as a share of another: their names, and their labels."""

    part: str
    whole: str
    head: str
    of: str


def of_result(result: RunResult) -> PrimaryFinding:
    """What the run is counted by."""
    return of_checks([first_check(result)])


def of_checks(names: Iterable[str]) -> PrimaryFinding:
    """What runs are counted by whose first checks have these names: any of theirs."""
    findings = dict.fromkeys(_declared(name)[0] for name in names) or [PrimaryFinding()]
    first, *others = findings
    if not others:
        return first
    known = [each.counter_examples for each in findings]
    every = [name for names in known for name in names or ()]
    return PrimaryFinding(
        counter_examples=None if None in known else tuple(dict.fromkeys(every)),
        noun=" or ".join(dict.fromkeys(each.noun for each in findings)),
        head=" or ".join(dict.fromkeys(each.head for each in findings)),
    )


def of_campaign(*campaigns: Campaign) -> PrimaryFinding:
    """What the cells of these campaigns are counted by."""
    cells = [cell.resolved for each in campaigns for cell in each.cells]
    firsts = [[*each.plan.checks, MODELS[each.workload.model].check][0] for each in cells]
    return of_checks(each if isinstance(each, str) else each.name for each in firsts)


def measures_of(result: RunResult) -> tuple[Measure, ...]:
    """What else statistics show of the run: shares of its first check's counts; often none."""
    _, counts = _declared(first_check(result))
    labels = {each.name: each.label for each in counts}
    return tuple(
        Measure(each.name, each.of, each.label, labels[each.of]) for each in counts if each.of
    )


def first_check(result: RunResult) -> str:
    """The name of the check that the run is counted by."""
    return result.checks[0].name if result.checks else MODELS[result.model].check


@cache
def _declared(name: str) -> tuple[PrimaryFinding, tuple[Count, ...]]:
    """What a checker declares; of a plug-in that is no longer installed, the defaults."""
    checker = registry.plugins("checkers").get(name, Checker)
    return checker.primary, checker.counts


@dataclass(frozen=True, kw_only=True)
class WhyLost:
    """Why writes were lost: how many for each cause, how many that nothing explains, how many that
    were not examined, and how many electing the longest log would have kept; of runs that were
    asked."""

    causes: Mapping[str, int]
    unexplained: int | None
    not_examined: int
    survivable: int | None
    survivable_rate: float | None

    @property
    def why_known(self) -> int:
        """The lost writes of the runs that were asked."""
        return sum(self.causes.values()) + (self.unexplained or 0) + self.not_examined

    @property
    def why_in_words(self) -> str:
        """`1,667 unclean-election, 2 unexplained`, the most frequent first; empty where none was
        lost."""
        counts = Counter(self.causes)
        counts += Counter({UNEXPLAINED: self.unexplained or 0, NOT_EXAMINED: self.not_examined})
        return ", ".join(f"{number:,} {cause}" for cause, number in counts.most_common())


def why_lost(results: Iterable[RunResult | CellResult]) -> WhyLost:
    """Over these results; `None` where none was asked."""
    asked = [result for result in results if result.unexplained is not None]
    causes: Counter[str] = Counter()
    for result in asked:
        causes.update(result.causes)
    unexplained = sum(each.unexplained or 0 for each in asked)
    not_examined = sum(each.not_examined or 0 for each in asked)
    lost = causes.total() + unexplained + not_examined
    survivable = sum(each.survivable or 0 for each in asked)
    is_known = any(each.survivable is not None for each in asked)
    return WhyLost(
        causes=dict(causes.most_common()),
        unexplained=unexplained if asked else None,
        not_examined=not_examined,
        survivable=survivable if is_known else None,
        survivable_rate=survivable / lost if is_known and lost else None,
    )
