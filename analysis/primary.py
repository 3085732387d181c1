"""What runs and campaigns are counted by: the primary finding of their first check, and what else
statistics show of it.

Checkers declare both (`harness.protocols.Checker.primary`, `counts`); nothing here knows one by
name.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from harness import registry
from harness.campaigns.plan import Campaign
from harness.history.documents import RunResult
from harness.models import MODELS
from harness.protocols import Checker, Count, PrimaryFinding


class Measure(NamedTuple):
    """A count that is shown as a share of another: their names, and their labels."""

    part: str
    whole: str
    head: str
    of: str


def of_result(result: RunResult) -> PrimaryFinding:
    """What the run is counted by."""
    return of_checks([_first_check(result)])


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
    _, counts = _declared(_first_check(result))
    labels = {each.name: each.label for each in counts}
    return tuple(
        Measure(each.name, each.of, each.label, labels[each.of]) for each in counts if each.of
    )


def _first_check(result: RunResult) -> str:
    return result.checks[0].name if result.checks else MODELS[result.model].check


@cache
def _declared(name: str) -> tuple[PrimaryFinding, tuple[Count, ...]]:
    """What a checker declares; of a plug-in that is no longer installed, the defaults."""
    checker = registry.plugins("checkers").get(name, Checker)
    return checker.primary, checker.counts
