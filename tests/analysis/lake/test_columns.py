"""docs/how-to/lake.md names each table that the code has; `DESCRIBE` lists its columns."""

from __future__ import annotations

from analysis.lake.delta import CAMPAIGNS, TABLES
from tests.fixtures.lakes import ROOT

PAGE = (ROOT / "docs" / "how-to" / "lake.md").read_text(encoding="utf-8")


ALL = (CAMPAIGNS, *TABLES.values())


def test_the_page_has_every_table() -> None:
    rows = [f"| `{table.name}` | {table.about} |" for table in ALL]
    assert [line for line in PAGE.splitlines() if line in rows] == rows


def test_each_column_says_what_it_means_and_is_there_once() -> None:
    for table in ALL:
        assert len(set(table.schema.names)) == len(table.schema.names)
        assert all(column.about for column in table.columns)
