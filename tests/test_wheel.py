"""What is shipped works without a checkout: a wheel is built, unpacked, and used from elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
PACKAGES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "hatch"
]["build"]["targets"]["wheel"]["packages"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the wheel was unpacked, as pip does with --target."""
    folder = tmp_path_factory.mktemp("target")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def python(installed: Path, cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Python with the unpacked wheel and its dependencies. `-S`: no .pth file of an editable
    installation leads to the checkout."""
    libraries = {sysconfig.get_paths()[name] for name in ("purelib", "platlib")}
    return subprocess.run(
        [sys.executable, "-S", *args],
        cwd=cwd,
        env={
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "PYTHONPATH": os.pathsep.join([str(installed), *libraries]),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


VERBS = """
import json, sys
from click.testing import CliRunner
import harness
from ackloss.cli import main
ended = [CliRunner().invoke(main, words) for words in json.loads(sys.argv[1])]
found = [(each.exit_code, each.stdout, each.stderr) for each in ended]
print(json.dumps([harness.__file__, found]))
"""
PLANS = ("faults/isolate-leader-acks1", "kafka-unclean", "log")


@pytest.fixture(scope="module")
def ended(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What verbs of the wheel end with, in one process: exit code, stdout and stderr."""
    verbs = [
        *(["plan", "validate", name] for name in PLANS),
        ["campaign", "plan", "always-valid"],
        ["plan", "validate", "kafka-unclaen"],
    ]
    folder = tmp_path_factory.mktemp("elsewhere")
    done = python(installed, folder, "-c", VERBS, json.dumps(verbs))
    assert done.returncode == 0, done.stderr
    code, found = json.loads(done.stdout)
    assert Path(code).parents[1] == installed
    assert list(folder.iterdir()) == []
    return list(found)


def test_every_package_is_typed(installed: Path) -> None:
    assert "ackloss" in PACKAGES
    assert {path.parent.name for path in installed.glob("*/py.typed")} == set(PACKAGES)


def test_nothing_else_is_shipped(installed: Path) -> None:
    top = {path.name for path in installed.iterdir()}
    assert {name for name in top if not name.endswith(".dist-info")} == set(PACKAGES)


def test_every_file_of_the_packages_is_shipped(installed: Path) -> None:
    wanted = {
        path.relative_to(ROOT).as_posix()
        for folder in (*PACKAGES, "plans", "campaigns")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for name in wanted:
        kind = name.partition("/")[0]
        inside = f"harness/shipped/{name}" if kind in ("plans", "campaigns") else name
        assert (installed / inside).read_bytes() == (ROOT / name).read_bytes()
    assert {"plans/kafka-unclean.toml", "schedules/storm.toml"} <= wanted


def test_the_license_is_named_and_included(installed: Path) -> None:
    (info,) = installed.glob("*.dist-info")
    metadata = Parser().parsestr((info / "METADATA").read_text(encoding="utf-8"))
    assert metadata["License-Expression"] == "Apache-2.0"
    (file,) = metadata.get_all("License-File", [])
    assert (info / "licenses" / file).read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_plans_and_campaigns_are_found_by_name(ended: list[Any]) -> None:
    *plans, (code, said, why), unknown = ended
    assert plans == [[0, f"{name}: valid\n", ""] for name in PLANS]
    assert (code, "always-valid: 1 cell, 100 runs" in said) == (0, True), why
    assert unknown[0] == 4
    assert unknown[2].endswith("did you mean 'kafka-unclean'?\n")


def test_all_names_are_listed(installed: Path, tmp_path: Path) -> None:
    done = python(installed, tmp_path, "-m", "ackloss", "list", "--json")
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    for kind in ("plans", "campaigns", "schedules"):
        files = (ROOT / kind).rglob("*.toml")
        names = {file.relative_to(ROOT / kind).with_suffix("").as_posix() for file in files}
        assert set(listed[kind]) == names


def test_a_run_does_not_record_the_commit_of_the_users_repository(
    installed: Path, tmp_path: Path
) -> None:
    """The wheel lies inside a user's repository, as in a virtual environment there."""
    users = tmp_path / "users"
    users.mkdir()
    shutil.copytree(installed, users / "site-packages")
    who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(["git", "init", "-q", str(users)], check=True)
    command = ["git", *who, "-C", str(users), "commit", "-q", "--allow-empty", "-m", "First"]
    subprocess.run(command, check=True)
    code = (
        "import ackloss; sets = {'workload.duration_s': 1, 'faults': []}; "
        "run = ackloss.run('memory/log', set=sets); "
        "print(run.result.counts.lost, run.metadata.versions['commit'])"
    )
    done = python(users / "site-packages", users, "-c", code)
    assert done.stdout == "0 None\n", done.stderr
