"""The published tables are what the counts in them say under today's rules."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import ackloss
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


def test_runs_that_lost_writes_get_a_row_for_each_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "causes.csv"
    table.write_text("plan,version,run,cause,writes\nold,Kafka 0.8.0,r,unclean-election,3\n")
    monkeypatch.setattr(published, "CAUSES", table)
    lossy = ackloss.run(
        "memory/unclean-election", out=tmp_path / "runs", set={"workload.duration_s": 5}
    )
    kept = ackloss.run("memory/log", out=tmp_path / "runs")
    assert (lossy.result.verdict, kept.result.verdict) == ("invalid", "valid")
    for _ in range(2):  # each run counts once
        published.add_causes([tmp_path / "runs"])
    rows = pd.read_csv(table).set_index("run")
    assert rows.loc["r", "writes"] == 3
    assert kept.id not in rows.index
    own = rows.loc[[lossy.id]]
    assert own["writes"].sum() == lossy.result.counts.lost > 0
    assert set(own["cause"]) == set(lossy.result.causes or ())
