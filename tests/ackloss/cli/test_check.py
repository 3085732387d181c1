"""`ackloss check`: which runs it judges."""

from __future__ import annotations

from pathlib import Path

from tests.fixtures.command_line import ackloss_json
from tests.fixtures.hand_made import E, Made, R, W


def made(folder: Path, name: str) -> Path:
    run = Made(writes=[W(1, "o", offset=0)], reads=[R(1)], ends=[E(position=1)])
    return run.build(folder, name).path


def test_a_run_that_is_named_twice_is_judged_once(tmp_path: Path) -> None:
    """Two writers of one result would be in each other's way."""
    one, _ = made(tmp_path, "one"), made(tmp_path, "two")
    (tmp_path / "link").symlink_to(one)
    given = (tmp_path, one, one, tmp_path / "link", f"file://{one}", tmp_path / "." / "one")
    printed = ackloss_json("check", *given)
    assert [each["run_id"] for each in printed["results"]] == ["one", "two"]
