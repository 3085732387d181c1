"""`import ackloss` is cheap and offers what it promises, each with types and a docstring."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import ackloss
from ackloss import plugins
from harness import protocols
from harness.faults.records import RECORD_TYPES
from harness.models import MODELS

ROOT = Path(__file__).parents[2]
HEAVY = ("pyspark", "docker", "matplotlib", "pandas", "scipy", "jinja2", "click", "rich")
HEAVY += ("confluent_kafka", "kafka", "kazoo", "requests")


def imported_by(code: str) -> set[str]:
    """The top-level modules that a fresh Python has after this code."""
    script = f"{code}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return set(done.stdout.split())


def test_the_import_takes_no_heavy_library() -> None:
    assert imported_by("import ackloss") & set(HEAVY) == set()
    assert "harness" in imported_by("import ackloss")


def test_the_heavy_libraries_can_be_seen() -> None:
    assert "pandas" in imported_by("import ackloss\nimport analysis.frames")


def test_the_page_of_a_run_takes_no_statistics() -> None:
    assert "scipy" in imported_by("import analysis.campaign")
    assert "scipy" not in imported_by("import reports.page")


def test_the_names_for_plug_ins_take_no_heavy_library() -> None:
    assert imported_by("import ackloss.plugins") & set(HEAVY) == set()


@pytest.mark.parametrize("name", [n for n in ackloss.__all__ if n != "__version__"])
def test_every_name_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(ackloss, name))


def test_the_functions_are_a_handful_and_typed() -> None:
    functions = {n: f for n in ackloss.__all__ if inspect.isfunction(f := getattr(ackloss, n))}
    assert sorted(functions) == ["check", "lake", "load_campaign", "load_run", "run"]
    for function in functions.values():
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(p.annotation is not p.empty for p in signature.parameters.values())


def test_every_error_has_the_exit_code_of_the_command_line() -> None:
    errors = {e for n in ackloss.__all__ if inspect.isclass(e := getattr(ackloss, n))}
    errors = {error for error in errors if issubclass(error, Exception)}
    assert all(issubclass(error, ackloss.AcklossError) for error in errors)
    assert {error.exit_code for error in errors} == {4, 5, 6, 130}


def test_plug_ins_find_every_protocol_and_the_plan() -> None:
    assert set(plugins.__all__) >= {*protocols.__all__, "MODELS", "Model", "Plan", "TargetPlan"}
    assert all(hasattr(plugins, name) for name in plugins.__all__)
    assert len(set(plugins.__all__)) == len(plugins.__all__)
    doors = ("Checker", "Client", "Lever", "Nemesis", "Provider", "Target", "Workload")
    for name in doors:
        assert getattr(ackloss, name) is getattr(plugins, name) is getattr(protocols, name)


def test_plug_ins_find_the_record_of_every_lever() -> None:
    for record in RECORD_TYPES.values():
        assert getattr(plugins, record.__name__) is record
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchRecord'"):
        plugins.NoSuchRecord  # noqa: B018


OF_THE_TREE = {"grudges", "links", "selectors", "APPEND", *(name.upper() for name in MODELS)}
"""Helpers of the nemeses of the tree, and the models as objects: a plug-in names its model."""


def test_what_plug_ins_of_the_tree_import_others_can_import_too() -> None:
    imported = {
        alias.name
        for package in ("nemeses", "workloads")
        for file in (ROOT / package).glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("harness")
        for alias in node.names
    }
    assert {"ProcessRecord", "Nemesis", "invoke", "ClientNemesis"} <= imported
    assert imported - OF_THE_TREE <= set(plugins.__all__)


def test_images_are_made_by_the_functions_of_the_harness() -> None:
    code = """
from ackloss.plugins import Recipe, ensure_image, pulled_image
from harness.images import building
assert (ensure_image, pulled_image) == (building.ensure, building.pulled)
"""
    assert "docker" in imported_by(code)
