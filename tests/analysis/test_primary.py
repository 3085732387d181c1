"""Which finding the runs of a campaign are counted by, and in whose words."""

from __future__ import annotations

from typing import Any

import pytest

from analysis import primary
from analysis.statistics.cells import verdict_class
from checkers.loss import Loss
from checkers.register import Register
from checkers.sets import Set
from harness import registry
from harness.campaigns.plan import campaign_of, parse_campaign
from harness.history.documents import CheckRecord, RunResult
from harness.protocols import PrimaryFinding
from tests.fixtures.synthetic_results import lossy, run


def of(model: str, check: str, *counter_examples: str) -> RunResult:
    """A result of a run that is invalid for these reasons."""
    checks = (CheckRecord(name=check, verdict="invalid"),)
    ended: Any = run("invalid", counter_examples=counter_examples)
    return RunResult(**{**vars(ended), "model": model, "checks": checks})


@pytest.mark.parametrize("name", registry.usable("checkers"))
def test_every_shipped_checker_declares_its_finding(name: str) -> None:
    checker = registry.plugins("checkers")[name]
    assert checker.primary != PrimaryFinding()
    assert all(vars(checker.primary).values())
    names = [each.name for each in checker.counts]
    assert len(set(names)) == len(names)
    assert {*checker.short, *(each.of for each in checker.counts if each.of)} <= {*names}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (of("register", "register", "not_linearizable"), "loss"),
        (of("register", "register", "not_sequential"), "loss"),
        (of("register", "register", "replicas_differ"), "wrong"),
        (of("set", "set", "lost"), "loss"),
        (of("set", "set", "unexpected"), "wrong"),
        (of("log", "loss", "duplicates"), "wrong"),
        (of("log", "from-a-package-that-is-gone", "odd"), "loss"),
        (lossy(), "loss"),
    ],
)
def test_a_run_is_counted_by_the_finding_of_its_first_check(
    result: RunResult, expected: str
) -> None:
    assert verdict_class(result) == expected


def campaign(*workloads: str, **base: Any) -> Any:
    plan = {"schema": 1, "name": "p", "cluster": {"kind": "memory"}, "target": {"system": "memory"}}
    choices = "".join(f'{name}.set = {{ "workload.name" = "{name}" }}\n' for name in workloads)
    text = f'schema = 1\nname = "c"\nplan = "memory/log"\n[axes.load.choices]\n{choices}'
    return campaign_of(parse_campaign(text, file="c"), text, {**plan, **base}, file="c")


def test_a_campaign_has_the_words_of_its_models_checker() -> None:
    assert primary.of_campaign(campaign("append")) == Loss().primary
    assert primary.of_campaign(campaign("set")) == Set().primary
    assert primary.of_campaign(campaign("register")) == Register().primary
    sequential = {"name": "register", "consistency": "sequential"}
    found = primary.of_campaign(campaign("register", checks=[sequential]))
    assert found == Register.primary


def test_a_campaign_of_several_models_has_the_words_of_all() -> None:
    found = primary.of_campaign(campaign("append", "register"))
    assert found.noun == "lost writes or inconsistent registers"
    assert found.counter_examples == ("lost", *Register.primary.counter_examples)
