"""docs/how-to/lake.md says of each table what the code has."""

from __future__ import annotations

import re

import pytest

from analysis.lake.schema import SCHEMA_VERSION, TABLES, as_markdown
from tests.fixtures.lakes import ROOT

PAGE = (ROOT / "docs" / "how-to" / "lake.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_every_column(name: str) -> None:
    section = re.split(r"^### ", PAGE, flags=re.MULTILINE)[1 + list(TABLES).index(name)]
    head, about, table = section.split("\n\n", 2)
    assert head == name
    assert about == f"One row: {TABLES[name].about}."
    assert table.strip() == as_markdown(TABLES[name]).strip()


def test_the_page_names_the_version_of_the_schema() -> None:
    assert f"The version of the schema is {SCHEMA_VERSION}." in PAGE


def test_no_table_has_a_column_twice() -> None:
    for table in TABLES.values():
        assert len(set(table.schema.names)) == len(table.schema.names)
