"""The tables of the lake: every column with its type and meaning, which `tables.toml` spells and
nothing else."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any, Final

import pyarrow as pa

from harness.history.documents import Availability, Counts, Rates

CAMPAIGN: Final = "campaign"

TEXT, NUMBER = pa.string(), pa.int64()
_TYPES: Final = {
    "text": TEXT,
    "number": NUMBER,
    "real": pa.float64(),
    "flag": pa.bool_(),
    "instant": pa.timestamp("us", tz="UTC"),
    "texts": pa.list_(TEXT),
    "numbers": pa.list_(NUMBER),
    "text by text": pa.map_(TEXT, TEXT),
    "number by text": pa.map_(TEXT, NUMBER),
}


@dataclass(frozen=True)
class Column:
    """A column: its name, its type in Arrow, and what it means."""

    name: str
    type: pa.DataType
    about: str


@dataclass(frozen=True)
class Table:
    """A table: its name, what one row is, and its columns."""

    name: str
    about: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """Its columns as Arrow has them."""
        return pa.schema([(column.name, column.type) for column in self.columns])


def rate(name: str) -> str:
    """The column of a rate."""
    return f"{name}_rate"


def seen(name: str) -> str:
    """The column of what clients saw. How many writes ended unknown is a count already."""
    return f"clients_{name}" if name in {field.name for field in fields(Counts)} else name


_DATA: Final[dict[str, Any]] = tomllib.loads(
    (files("analysis.lake") / "tables.toml").read_text(encoding="utf-8")
)


def _columns(given: Iterable[list[str] | str]) -> Iterator[Column]:
    """Columns, and groups of them by their names."""
    for each in given:
        if each == "*measured":
            yield from _columns(_measured())
        elif isinstance(each, str):
            yield from _columns(_DATA["groups"][each.removeprefix("*")])
        else:
            name, kind, about = each
            yield Column(name, _TYPES[kind], about)


def _measured() -> Iterator[list[str]]:
    """Counts, rates, why writes were lost, and availability, by the fields of the documents that
    hold them."""
    for field in fields(Counts):
        yield [field.name, "number", "counts of writes, as in its result"]
    for field in fields(Rates):
        yield [rate(field.name), "real", _DATA["rates"][field.name]]
    yield from _DATA["groups"]["why"]
    for field in fields(Availability):
        yield [seen(field.name), *_DATA["seen"][field.name]]


def _table(name: str) -> Table:
    given = _DATA["tables"][name]
    return Table(name, given["about"], tuple(_columns(given["columns"])))


RUNS, CELLS, FAULTS = _table("runs"), _table("cells"), _table("faults")
FINDINGS, OBSERVATIONS, OPS = _table("findings"), _table("observations"), _table("ops")
TABLES: Final = {table.name: table for table in (RUNS, CELLS, FAULTS, FINDINGS, OBSERVATIONS, OPS)}
"""What runs have, by name."""
CAMPAIGNS: Final = _table("campaigns")
