"""`ackloss campaign compare`: what it prints and writes, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import orjson
from click.testing import CliRunner, Result

from harness.cli import main
from tests.fixtures.campaign_folder import OFF, ON, build
from tests.fixtures.result_documents import lossy, run

QUIET = {ON: [lossy()] * 20, OFF: [run()] * 20}
WORSE = {ON: [lossy()] * 20, OFF: [lossy()] * 10 + [run()] * 10}


def compare(*words: object) -> Result:
    return CliRunner().invoke(main, ["campaign", "compare", *map(str, words)])


def test_the_exit_code_is_1_only_where_something_got_worse(tmp_path: Path) -> None:
    old = build(tmp_path / "old", QUIET).path
    new = build(tmp_path / "new", WORSE).path
    worse = compare(old, new)
    assert worse.exit_code == 1, worse.output
    assert "1 regression" in worse.output
    assert compare(new, old).exit_code == 0
    assert compare(old, old).exit_code == 0


def test_of_three_nights_the_last_two_are_compared(tmp_path: Path) -> None:
    first = build(tmp_path / "a", QUIET).path
    second = build(tmp_path / "b", WORSE).path
    third = build(tmp_path / "c", WORSE).path
    done = compare(first, second, third, "--json")
    assert done.exit_code == 0, done.output
    document = orjson.loads(done.stdout)
    assert (document["old"], document["new"]) == ("b", "c")
    assert [len(cell["nights"]) for cell in document["trend"]] == [3, 3]


def test_it_writes_what_it_was_asked_for(tmp_path: Path) -> None:
    old = build(tmp_path / "old", QUIET).path
    new = build(tmp_path / "new", WORSE).path
    page, text = tmp_path / "n.html", tmp_path / "n.md"
    done = compare(old, new, "--html", page, "--markdown", text, "--json")
    assert done.exit_code == 1
    assert orjson.loads(done.stdout)["regressions"] == 1
    assert page.read_text().startswith("<!DOCTYPE html>")
    assert text.read_text().startswith("# 1 regression: new against old")


def test_one_campaign_is_too_few_and_another_folder_is_none(tmp_path: Path) -> None:
    old = build(tmp_path / "old", QUIET).path
    assert compare(old).exit_code == 2
    (tmp_path / "empty").mkdir()
    done = compare(old, tmp_path / "empty")
    assert done.exit_code == 4
    assert "holds no campaign.toml" in done.output
