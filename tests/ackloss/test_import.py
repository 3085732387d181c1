"""`import ackloss` is cheap and offers what it promises, each with types and a docstring."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import ackloss
from ackloss import plugins
from harness import protocols

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


def test_the_names_for_plug_ins_take_no_heavy_library() -> None:
    assert imported_by("import ackloss.plugins") & set(HEAVY) == set()


@pytest.mark.parametrize("name", [n for n in ackloss.__all__ if n != "__version__"])
def test_every_name_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(ackloss, name))


def test_the_functions_are_a_handful_and_typed() -> None:
    functions = {n: f for n in ackloss.__all__ if inspect.isfunction(f := getattr(ackloss, n))}
    assert sorted(functions) == ["check", "load_campaign", "load_run", "run"]
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
    assert set(plugins.__all__) == {*protocols.__all__, "MODELS", "Model", "Plan"}
    assert all(hasattr(plugins, name) for name in plugins.__all__)
    doors = ("Checker", "Client", "Lever", "Nemesis", "Provider", "Target", "Workload")
    for name in doors:
        assert getattr(ackloss, name) is getattr(plugins, name) is getattr(protocols, name)
