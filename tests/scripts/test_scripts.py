"""The Makefile and the setup scripts, as far as tests can run them on any machine."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = [
    ROOT / "scripts" / name for name in ("setup", "venv", "compile", "nightly", "lib.sh")
] + [ROOT / ".ci/run"]
WITHOUT_NODES = "not docker and not real_time and not e2e"
TARGETS = (
    *("help", "setup", "run", "test", "check", "docs", "bench", "e2e", "track-record", "torture"),
    *("mutants", "clean"),
)


def sh(script: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"set -euo pipefail; . scripts/lib.sh; {script}"],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", "-x", script], check=True, cwd=ROOT)
    if script.suffix != ".sh":
        assert os.access(script, os.X_OK)


def test_every_target_exists_and_is_in_the_help() -> None:
    make = ["make", "-C", str(ROOT)]
    dry = subprocess.run([*make, "-n", *TARGETS], check=True, capture_output=True, text=True).stdout
    assert "no issues found" not in dry  # a line with $(MAKE) is run all the same
    printed = subprocess.run([*make, "help"], check=True, capture_output=True, text=True).stdout
    assert [target for target in TARGETS if f"make {target}\t" not in printed] == []


def test_tests_that_try_few_cases_by_default_try_many_in_some_target() -> None:
    """Every variable that tests read is set by some recipe; that of `make e2e` leaves none out."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    read = {name for text in sources for name in re.findall(r'environ\.get\("(ACKLOSS_\w+)"', text)}
    recipes = [ROOT / "Makefile", ROOT / "scripts" / "mutants.py"]
    said = "".join(path.read_text(encoding="utf-8") for path in recipes)
    assert {"ACKLOSS_E2E", "ACKLOSS_ORACLE_EXAMPLES"} <= read
    assert {name for name in read if not re.search(rf'\b{name}(=|": )', said)} == set()
    dry = subprocess.run(
        ["make", "-C", str(ROOT), "-n", "e2e"], check=True, capture_output=True, text=True
    ).stdout
    marks = re.findall(r'ACKLOSS_E2E=all \S+pytest .*-m "(.*)" ', dry)
    assert sorted(marks) == sorted([WITHOUT_NODES, f"not ({WITHOUT_NODES})"])


def test_a_step_is_named_and_timed_and_its_failure_ends_the_script() -> None:
    done = sh("step 'a nap' sleep 0.2; step 'a failure' false; echo never")
    assert done.returncode == 5
    assert "a nap ...\na nap: 0." in done.stderr
    assert done.stderr.endswith("setup: a failure: failed\n")
    assert done.stdout == ""


def test_two_set_ups_take_turns(tmp_path: Path) -> None:
    order = tmp_path / "order"
    script = f"one_at_a_time; echo in >>{order}; sleep 0.5; echo out >>{order}"
    command = ["bash", "-c", f"set -euo pipefail; . scripts/lib.sh; {script}"]
    env = {**os.environ, "ACKLOSS_STATE": str(tmp_path / "state")}
    both = [subprocess.Popen(command, cwd=ROOT, env=env) for _ in range(2)]
    assert [process.wait(timeout=30) for process in both] == [0, 0]
    assert order.read_text().split() == ["in", "out", "in", "out"]


def test_what_a_step_leaves_running_does_not_hold_the_lock(tmp_path: Path) -> None:
    env = {"ACKLOSS_STATE": str(tmp_path)}
    linger = "one_at_a_time; later() { as_root sleep 5 >/dev/null 2>&1 & }; step later later"
    assert sh(linger, **env).returncode == 0
    again = sh("one_at_a_time", **env)
    assert (again.returncode, again.stderr) == (0, "")


def test_a_python_that_cannot_make_environments_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "python3").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python3").chmod(0o755)
    done = sh("find_python", PATH=f"{tmp_path}:{os.environ['PATH']}")
    found = done.stdout.strip()
    assert found != str(tmp_path / "python3")
    wanted = "import sys, venv, ensurepip; print(sys.version_info >= (3, 11))"
    done = subprocess.run([found, "-c", wanted], check=True, capture_output=True, text=True)
    assert done.stdout == "True\n"


def test_at_a_terminal_it_lists_what_it_will_do_and_asks(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    ours, theirs = pty.openpty()
    env = {key: value for key, value in os.environ.items() if key != "YES"}
    with subprocess.Popen(
        ["scripts/setup"],
        cwd=tmp_path,
        env={**env, "ACKLOSS_STATE": str(tmp_path / "state")},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as setup:
        os.close(theirs)
        os.write(ours, b"n\n")
        printed = b""
        with contextlib.suppress(OSError):  # how a terminal reports that its other end is closed
            while part := os.read(ours, 4096):
                printed += part
        assert setup.wait(timeout=30) == 5
    os.close(ours)
    text = printed.decode()
    assert "make .venv and install ackloss into it (pip)" in text
    assert text.rstrip().endswith("setup: stopped, nothing was changed")
    assert not (tmp_path / ".venv").exists()
