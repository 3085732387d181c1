"""The zip that a cluster gets: what is in it, which plug-ins are refused."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from checkers.judging.spark import code_zip
from harness.errors import PlanError

pytestmark = pytest.mark.slow

CHECKER = """
from dataclasses import dataclass
from typing import ClassVar
from checkers.loss import Loss

@dataclass(frozen=True)
class Mine(Loss):
    plugin: ClassVar[str] = "mine"
"""


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


def test_it_is_the_code_that_judges_and_no_more(tmp_path: Path) -> None:
    names = zipfile.ZipFile(code_zip(tmp_path)).namelist()
    assert "checkers/judging/many_runs.py" in names
    assert "harness/history/rows.py" in names
    assert "targets/kafka/clients.tsv" in names
    assert not [name for name in names if name.endswith((".java", ".pyc"))]
    assert not [name for name in names if name.startswith(("analysis/", "reports/", "tests/"))]


def test_every_target_is_made_from_it_with_the_tables_beside_it(tmp_path: Path) -> None:
    """Executors import from the file itself, in which nothing has a path."""
    script = (
        "import sys; from checkers.judging.alarms import published; from harness import registry;"
        "made = [registry.make('targets', name, {}, key='target') for name in sys.argv[1:]];"
        "assert all(published(each.alarms) for each in made);"
        "print(*{sys.modules[type(each).__module__].__file__ for each in made}, sep='\\n')"
    )
    systems = ["etcd", "galera", "kafka", "nats", "postgresql", "rabbitmq", "redis", "zookeeper"]
    done = subprocess.run(
        [sys.executable, "-c", script, *systems],
        env={**os.environ, "PYTHONPATH": str(code_zip(tmp_path))},
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    places = done.stdout.split()
    assert len(places) == len(systems)
    assert all(place.startswith(f"{tmp_path}/ackloss.zip/") for place in places)


def test_a_plug_in_is_found_in_it(plugin: Path, tmp_path: Path) -> None:
    script = (
        "from harness import registry; mine = registry.make('checkers', 'mine', {}, key='checks');"
        "import their_checks; print(their_checks.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(code_zip(tmp_path))},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"{tmp_path}/ackloss.zip/their_checks/__init__.py"


@pytest.mark.parametrize("compiled", ["fast.cpython-311-x86_64-linux-gnu.so", "fast.abi3.so"])
def test_a_plug_in_with_compiled_code_is_refused_by_name(
    plugin: Path, tmp_path: Path, compiled: str
) -> None:
    (plugin / compiled).touch()
    with pytest.raises(PlanError) as refused:
        code_zip(tmp_path)
    assert str(refused.value) == (
        "the plug-in 'checkers.mine' cannot be sent to a cluster: its package 'their_checks' holds "
        f"compiled code ({compiled}); judge without --master, or uninstall it"
    )


def test_a_plug_in_that_judging_does_not_call_is_left_out(plugin: Path, tmp_path: Path) -> None:
    entries = plugin.parent / "their_checks-2.0.dist-info" / "entry_points.txt"
    entries.write_text("[ackloss.plugins]\nnemeses.mine = their_checks:Mine\n")
    (plugin / "fast.abi3.so").touch()
    assert "their_checks/__init__.py" not in zipfile.ZipFile(code_zip(tmp_path)).namelist()
