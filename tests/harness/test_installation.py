"""ackloss knows its own checkout from a package that was installed into somebody's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.plan.parsing import checkout, shipped

ROOT = Path(__file__).parents[2]


def harness_in(root: Path, project: str | None) -> Path:
    """The folder of a harness below `root`, which has this pyproject.toml."""
    (root / "harness").mkdir(parents=True)
    if project is not None:
        (root / "pyproject.toml").write_text(project, encoding="utf-8")
    return root / "harness"


def test_this_is_a_checkout() -> None:
    assert checkout() == ROOT
    assert shipped("plans").resolve() == ROOT / "plans"
    assert shipped("campaigns").resolve() == ROOT / "campaigns"


def test_a_folder_with_the_pyproject_of_ackloss_is_a_checkout(tmp_path: Path) -> None:
    assert checkout(harness_in(tmp_path, '[project]\nname = "ackloss"\n')) == tmp_path


@pytest.mark.parametrize(
    "project",
    [None, "", "[project", "project = 3\n", '[project]\nname = "my-service"\n', "[project]\n"],
    ids=["none", "empty", "broken", "no table", "another", "nameless"],
)
def test_any_other_folder_is_not(tmp_path: Path, project: str | None) -> None:
    assert checkout(harness_in(tmp_path, project)) is None
