"""run.json names the commit of ackloss' own checkout, and of no other repository."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.history.run_folder import RunDir
from harness.plan import load_plan
from harness.run import metadata
from harness.run.metadata import RunMetadata, commit

PLAN = Path(__file__).parents[3] / "plans" / "memory" / "log.toml"


def repository(folder: Path) -> str:
    """Make a repository with one commit; returns the commit."""
    folder.mkdir(parents=True, exist_ok=True)

    def git(*words: str) -> str:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *who, "-C", str(folder), *words], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", f"First commit of {folder.name}")
    return git("rev-parse", "HEAD")


def test_the_commit_of_a_checkout_is_found(tmp_path: Path) -> None:
    head = repository(tmp_path / "ackloss")
    assert len(head) == 40
    assert commit(tmp_path / "ackloss") == head


def test_a_repository_around_the_code_is_not_asked(tmp_path: Path) -> None:
    repository(tmp_path)
    inside = tmp_path / "vendor" / "ackloss"
    inside.mkdir(parents=True)
    assert commit(inside) is None


def test_no_checkout_no_repository_and_no_commit_give_none(tmp_path: Path) -> None:
    assert commit(None) is None
    assert commit(tmp_path) is None
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert commit(tmp_path) is None


def test_the_repository_of_a_git_hook_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = repository(tmp_path / "ackloss")
    assert head != repository(tmp_path / "users")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "users" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "users"))
    assert commit(tmp_path / "ackloss") == head


@pytest.mark.parametrize("inside", [True, False])
def test_run_json_names_it_wherever_the_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: bool
) -> None:
    users, own = tmp_path / "users", tmp_path / "ackloss"
    repository(users)
    head = repository(own)
    monkeypatch.chdir(users)
    monkeypatch.setattr(metadata, "checkout", lambda: own if inside else None)
    rundir = RunDir.create(users / "runs", "r1")
    RunMetadata.begin(rundir, load_plan(PLAN), command=[], file="p")
    assert rundir.read_json(rundir.run)["versions"]["commit"] == (head if inside else None)
