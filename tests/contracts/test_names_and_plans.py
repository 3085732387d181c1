"""The names that Python programs and plug-ins import, and what shipped plans are when resolved."""

from __future__ import annotations

import hashlib
import inspect
import json

import pytest

import ackloss
from ackloss import plugins
from harness.plan.parsing import PLANS, named_files
from tests.contracts.conftest import Frozen, as_text
from tests.fixtures import command_line

DUMPED = ("kafka-safe", "isr-cells", "memory/log", "zookeeper/kill-leader", "faults/storm")


def test_python_names(frozen: Frozen) -> None:
    """Functions with their parameters, classes with their public members."""
    names: dict[str, object] = {}
    for name in ackloss.__all__:
        of = getattr(ackloss, name)
        if inspect.isfunction(of):
            names[name] = str(inspect.signature(of))
        elif name in ("Campaign", "Lake", "Run"):
            names[name] = {
                member: str(inspect.signature(each)) if inspect.isfunction(each) else "property"
                for member, each in sorted(vars(of).items())
                if not member.startswith("_")
            }
        else:
            names[name] = "class" if inspect.isclass(of) else type(of).__name__
    frozen("python-names.json", as_text({"ackloss": names, "plugins": sorted(plugins.__all__)}))


def test_shipped_plans(frozen: Frozen) -> None:
    """The digest of each plan with its defaults, and some of them in full."""
    digests, dumped = {}, {}
    for name in sorted(named_files(PLANS)):
        plan = json.loads(command_line.ackloss("plan", "show", name, "--json").stdout)
        del plan["about"]  # which may name a page of the documentation
        text = json.dumps(plan, sort_keys=True)
        digests[name] = hashlib.sha256(text.encode()).hexdigest()[:16]
        if name in DUMPED:
            dumped[name] = plan
    frozen("shipped-plans.json", as_text({"digests": digests, "in full": dumped}))


def test_a_changed_contract_fails(frozen: Frozen, pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--freeze", default=False):
        with pytest.raises(AssertionError, match="more"):
            frozen("python-names.json", "more\n")
