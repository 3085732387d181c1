"""What runs and campaigns are counted by: the primary finding of their first check, and what else
statistics show of it.

Checkers declare both (`harness.protocols.HasPrimaryFinding`, `HasMeasures`); nothing here knows one
by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from functools import cache
from typing import Any, Final

from harness import registry
from harness.campaigns.plan import Campaign
from harness.errors import PlanError
from harness.history.documents import RunResult
from harness.models import MODELS
from harness.plan import Plan
from harness.protocols import HasMeasures, HasPrimaryFinding, Measure, PrimaryFinding

ANY: Final = PrimaryFinding(
    counter_examples=None,
    noun="a counter-example",
    adjective="invalid",
    head="invalid",
    found="Counter-examples were found",
    none="No counter-example was found",
    one="had a counter-example",
    some="had counter-examples",
    does="is invalid",
    do="are invalid",
    can="be invalid",
)
"""Of checkers that declare none."""


def of_result(result: RunResult) -> PrimaryFinding:
    """What the run is counted by, with the words of its checker's default options."""
    return _of_default(_first_check(result))


def measures_of(result: RunResult) -> tuple[Measure, ...]:
    """What else statistics show of the run: its first check's measures; often none."""
    return _measures_of_default(_first_check(result))


def _first_check(result: RunResult) -> str:
    return result.checks[0].name if result.checks else MODELS[result.model].check


def of_checks(names: Iterable[str]) -> PrimaryFinding:
    """What runs are counted by whose first checks have these names; if they differ, the words of
    all."""
    return _either(map(_of_default, names))


def of_campaign(*campaigns: Campaign) -> PrimaryFinding:
    """What the cells of these campaigns are counted by; if they differ, the words of all."""
    plans = [cell.resolved for each in campaigns for cell in each.cells]
    return _either(_of_plan(each.plan, each.workload.model) for each in plans)


def _of_plan(plan: Plan, model: str) -> PrimaryFinding:
    first = plan.checks[0] if plan.checks else MODELS[model].check
    if isinstance(first, str):
        return _of_default(first)
    return _of(registry.make("checkers", first.name, first.options, key="checks.0"))


@cache
def _of_default(name: str) -> PrimaryFinding:
    return _of(_default(name))


@cache
def _measures_of_default(name: str) -> tuple[Measure, ...]:
    checker = _default(name)
    return checker.measures if isinstance(checker, HasMeasures) else ()


def _default(name: str) -> Any:
    """The checker with its default options; `None`: a plug-in that is no longer installed."""
    try:
        return registry.make("checkers", name, {}, key="checks.0")
    except PlanError:
        return None


def _of(checker: Any) -> PrimaryFinding:
    return checker.primary if isinstance(checker, HasPrimaryFinding) else ANY


def _either(findings: Iterable[PrimaryFinding]) -> PrimaryFinding:
    """The one finding, or several as one: `loss or inconsistency`."""
    first, *others = dict.fromkeys(findings) or [ANY]
    for each in others:
        words = {
            field.name: _joined(getattr(first, field.name), getattr(each, field.name), field.name)
            for field in fields(each)
            if field.name != "counter_examples"
        }
        names, more = first.counter_examples, each.counter_examples
        both = None if names is None or more is None else tuple(dict.fromkeys((*names, *more)))
        first = replace(first, counter_examples=both, **words)
    return first


def _joined(one: str, other: str, field: str) -> str:
    if one == other:
        return one
    word = "and" if field == "none" else "or"
    return f"{one} {word} {other[0].lower()}{other[1:]}"
