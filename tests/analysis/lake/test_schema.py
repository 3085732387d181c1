"""docs/how-to/lake.md says of each table what the code has."""

from __future__ import annotations

import re

import pytest

from analysis.lake.schema import CAMPAIGNS, TABLES, as_markdown
from tests.fixtures.lakes import ROOT

PAGE = (ROOT / "docs" / "how-to" / "lake.md").read_text(encoding="utf-8")


ALL = {CAMPAIGNS.name: CAMPAIGNS, **TABLES}


@pytest.mark.parametrize("name", ALL)
def test_the_page_has_every_column(name: str) -> None:
    section = re.split(r"^### ", PAGE, flags=re.MULTILINE)[1 + list(ALL).index(name)]
    head, about, table = section.split("\n\n", 2)
    assert head == name
    assert about == f"One row: {ALL[name].about}."
    assert table.strip() == as_markdown(ALL[name]).strip()


def test_no_table_has_a_column_twice() -> None:
    for table in ALL.values():
        assert len(set(table.schema.names)) == len(table.schema.names)
