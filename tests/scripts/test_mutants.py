"""The list of mutants that no test can kill, `tests/mutants.toml`."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
REASONS = tomllib.loads((ROOT / "tests/mutants.toml").read_text())["equivalent"]
SOURCES = {
    str(path.relative_to(ROOT)): path.read_text()
    for folder in ("checkers", "analysis", "harness")
    for path in (ROOT / folder).rglob("*.py")
}


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason["was"])
def test_each_is_of_a_line_that_is_in_its_module(reason: dict[str, str]) -> None:
    """A line that has changed since has no reason any more."""
    module, line = reason.get("module", "*"), reason["was"]
    assert any(fnmatch(name, module) and line in source for name, source in SOURCES.items())


def test_what_the_product_and_its_tests_read_is_in_the_copy() -> None:
    """In `mutants/` there is nothing else: a plan that was missing there ended every run."""
    packages = {*PROJECT["hatch"]["build"]["targets"]["wheel"]["packages"]}
    copied = PROJECT["mutmut"]["also_copy"] + PROJECT["mutmut"]["source_paths"]
    assert packages | {"plans", "docs", "bench"} <= {*copied}
