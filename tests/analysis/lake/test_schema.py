"""docs/how-to/lake.md says of each table what the code has."""

from __future__ import annotations

import re
from itertools import groupby

import pyarrow as pa
import pytest

from analysis.lake.schema import (
    CAMPAIGNS,
    FLAG,
    INSTANT,
    NUMBER,
    NUMBER_BY_TEXT,
    REAL,
    TABLES,
    TEXT,
    TEXT_BY_TEXT,
    Table,
)
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


def as_markdown(table: Table) -> str:
    """The columns of a table as documents list them: those that an earlier table has too are only
    named, and neighbours with one meaning share a line."""
    tables = [CAMPAIGNS, *TABLES.values()]
    earlier = [column for each in tables[: tables.index(table)] for column in each.columns]
    same = [column for column in table.columns if column in earlier]
    others = [f"`{c.name}`" for c in earlier if c.name not in table.schema.names]
    named = ", ".join(f"`{column.name}`" for column in same)
    if len(same) > len(others):
        named = f"all but {', '.join(others)}"
    own = [column for column in table.columns if column not in earlier]
    lines = [
        f"- {', '.join(f'`{column.name}`' for column in alike)} ({_type_in_words(kind)}): {about}"
        for (kind, about), alike in groupby(own, key=lambda column: (column.type, column.about))
    ]
    return "\n".join([*([f"- as above: {named}"] if same else []), *lines]) + "\n"


def _type_in_words(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_type_in_words(kind.value_type)}"
    words = {TEXT: "text", NUMBER: "integer", REAL: "number", FLAG: "true or false"}
    return {
        **words,
        TEXT_BY_TEXT: "map of text",
        NUMBER_BY_TEXT: "map of integers",
        INSTANT: "timestamp (UTC)",
    }[kind]
