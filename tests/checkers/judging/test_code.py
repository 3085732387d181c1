"""The zip that a cluster gets: what is in it, when it is made again, which plug-ins are refused."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from checkers.judging.spark import code_zip
from harness.errors import PlanError

CHECKER = """
from dataclasses import dataclass
from typing import ClassVar
from checkers.loss.checker import Loss

@dataclass(frozen=True)
class Mine(Loss):
    plugin: ClassVar[str] = "mine"
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACKLOSS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "spark"


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of the user's with a checker, as pip installs it."""
    site = tmp_path / "site"
    info = site / "their_checks-2.0.dist-info"
    package = site / "their_checks"
    for folder in (info, package):
        folder.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-checks\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[ackloss.plugins]\ncheckers.mine = their_checks:Mine\n")
    (package / "__init__.py").write_text(CHECKER)
    monkeypatch.syspath_prepend(str(site))
    return package


def test_it_is_the_code_that_judges_and_no_more() -> None:
    names = zipfile.ZipFile(code_zip()).namelist()
    assert "checkers/judging/tasks.py" in names
    assert "harness/history/facts.py" in names
    assert all(name.endswith(".py") for name in names)
    assert not [name for name in names if name.startswith(("analysis/", "reports/", "tests/"))]


def test_it_is_made_again_only_when_the_code_has_changed(plugin: Path, cache: Path) -> None:
    first = code_zip()
    made_ns = first.stat().st_mtime_ns
    assert code_zip() == first
    assert first.stat().st_mtime_ns == made_ns
    (plugin / "more.py").write_text("")
    assert code_zip() != first
    assert len(list(cache.iterdir())) == 2


def test_a_plug_in_is_found_in_it(plugin: Path) -> None:
    script = (
        "from harness import registry; mine = registry.make('checkers', 'mine', {}, key='checks');"
        "import their_checks; print(their_checks.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(code_zip())},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"{code_zip()}/their_checks/__init__.py"


@pytest.mark.parametrize("compiled", ["fast.cpython-311-x86_64-linux-gnu.so", "fast.abi3.so"])
def test_a_plug_in_with_compiled_code_is_refused_by_name(plugin: Path, compiled: str) -> None:
    (plugin / compiled).touch()
    with pytest.raises(PlanError) as refused:
        code_zip()
    assert str(refused.value) == (
        "the plug-in 'checkers.mine' cannot be sent to a cluster: its package 'their_checks' holds "
        f"compiled code ({compiled}); judge without --master, or uninstall it"
    )


def test_a_plug_in_that_judging_does_not_call_is_left_out(plugin: Path) -> None:
    entries = plugin.parent / "their_checks-2.0.dist-info" / "entry_points.txt"
    entries.write_text("[ackloss.plugins]\nnemeses.mine = their_checks:Mine\n")
    (plugin / "fast.abi3.so").touch()
    assert "their_checks/__init__.py" not in zipfile.ZipFile(code_zip()).namelist()
