"""What ackloss sets unless a plan does is written where users look for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from targets.kafka import kraft, zookeeper

DOCUMENT = Path(__file__).parents[3] / "docs/reference/kafka-versions.md"


def in_table() -> dict[str, str]:
    """The values by key; a row has one key or several, with one value or one each."""
    section = DOCUMENT.read_text(encoding="utf-8").partition("## What ackloss sets")[2]
    rows = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    found = dict[str, str]()
    for row in rows:
        named, values = (column.split(", ") for column in row.strip("| ").split(" | ")[:2])
        keys = [each.strip("`") for each in named if each.startswith("`")]
        found |= zip(keys, values if len(values) > 1 else values * len(keys), strict=True)
    return found


@pytest.mark.parametrize(
    ("key", "value"),
    [*kraft.DEFAULTS.items(), *((key, value) for key, value, _ in zookeeper.DEFAULTS)],
)
def test_each_default_is_in_the_table_with_its_value(key: str, value: object) -> None:
    written = f"{value >> 20} MiB" if isinstance(value, int) and value >= 1 << 20 else f"{value:,}"
    assert in_table()[key] == (str(value).lower() if isinstance(value, bool) else written)


def test_the_table_has_nothing_else() -> None:
    set_by_us = {*kraft.DEFAULTS, *(key for key, _, _ in zookeeper.DEFAULTS)}
    assert set(in_table()) == set_by_us
