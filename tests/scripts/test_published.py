"""The published tables are what the counts in them say under today's rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.scripts import script

published = script("published")


def test_every_published_table_follows_the_rules() -> None:
    assert published.main([]) == 0, "run `python scripts/published.py --write`"


def test_an_interval_where_the_outcome_chose_the_runs_is_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = published.ROOT / "docs/evidence/results/README.md"
    text = readme.read_text(encoding="utf-8")
    assert "0/88 + 6/12 others" in text
    before = [(file, "" if file == readme else content) for file, content in published.written()]
    monkeypatch.setattr(published, "written", lambda: iter(before))
    assert published.main([]) == 1
    assert capsys.readouterr().out == "docs/evidence/results/README.md\n"
    assert Path(readme).read_text(encoding="utf-8") == text
