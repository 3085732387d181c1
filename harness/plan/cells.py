"""Cells: several settings under one fault. Each is a separate object in the system, such as a
topic, with its own settings and clients; all of them meet the same faults at the same instant.

A cell is a plan with some keys changed. The target decides which keys it may change
(`Target.cell_keys`); `harness.run.cells` derives the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from pydantic import Field

from harness.plan.steps import OpenSection, Slug
from harness.wrong_values import dotted

MOST: Final = 32
"""Cells of one run: each has its own clients, which share one machine."""


class Cell(OpenSection):
    """One cell; other keys are keys of the plan, with other values than the plan has."""

    name: Slug = Field(description="Its name, unique in the plan.")
    expect: Literal["valid", "invalid", "unknown"] | None = Field(
        None, description="The expected verdict of this cell."
    )

    @property
    def overrides(self) -> dict[str, Any]:
        """The keys that it changes, nested as in the plan."""
        return self.options


def check_number(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Raise ValueError for one cell alone, and for too many of them."""
    if len(cells) == 1:
        raise ValueError("one cell alone is a run without cells: add another, or leave it out")
    if len(cells) > MOST:
        raise ValueError(f"a run has at most {MOST} cells, not {len(cells)}: make several plans")
    return cells


def check_names(cells: Sequence[Cell]) -> None:
    """Raise ValueError for two cells of one name."""
    seen: set[str] = set()
    for place, cell in enumerate(cells):
        if cell.name in seen:
            raise ValueError(f"cells.{place}.name: {cell.name!r} names an earlier cell too")
        seen.add(cell.name)


def merged(document: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A document with some keys changed: tables are merged, all else is replaced."""
    changed = dict(document)
    for key, value in overrides.items():
        before = changed.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        changed[key] = merged(before, value) if both else value  # type: ignore[arg-type]
    return changed


def keys_of(overrides: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys that hold a value, each as its parts."""
    for key, value in overrides.items():
        if isinstance(value, Mapping) and value:
            yield from keys_of(value, (*above, key))
        else:
            yield (*above, key)


def dotted_keys(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The values by TOML dotted key: `topic.settings."min.insync.replicas"`."""
    found = {}
    for parts in keys_of(overrides):
        value: Any = overrides
        for part in parts:
            value = value[part]
        found[dotted(parts)] = value
    return found
