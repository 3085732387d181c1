"""What decides whether runs of two campaigns may be counted together: equal digests of their plans.

`plan_hash` of a campaign includes its name and seed, so two campaigns that ran the same plan in two
sessions differ in it. These digests are of a cell's plan alone:

    conditions              everything that the plan decides about a run: equal for two cells that
                            were run in the same way, whatever their campaigns are called
    conditions_but_version  the same without the version: equal for the cells of one row of a table
                            whose columns are versions

A plan does not say on which machine it was run, so neither do they.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from analysis.comparison import DESCRIPTIVE
from harness.campaigns.plan import Axis, Campaign, Cell, Document, with_choices
from harness.plan.parsing import dotted_parts
from harness.protocols.systems import EXEC

_WITHOUT_EFFECT: Final = DESCRIPTIVE | {"seed"}
"""The seed is a draw of one run, and every run of a cell has another."""
_TARGET: Final = "target"
_NAMES_VERSION: Final = frozenset({"version", "image"})


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The digests of a cell's plan, and the axis that sets its version; `None`: none does.

    `conditions` is `None` where the clients are a program of the user's, which no plan names.
    """

    conditions: str | None
    conditions_but_version: str
    version_axis: str | None


def conditions_of(campaign: Campaign, cell: Cell) -> Conditions:
    """The conditions of a cell of a campaign."""
    axes = campaign.plan.axes
    axis = next((name for name in reversed(axes) if _sets_version(axes[name])), None)
    choices = {
        name: axes[name].by_label()[label] for name, label in cell.key.items() if name != axis
    }
    own_client = cell.resolved.plan.workload.client == EXEC
    return Conditions(
        conditions=None if own_client else digest(_of_run(cell.document)),
        conditions_but_version=digest(
            _without_version(_of_run(with_choices(campaign.base, choices)))
        ),
        version_axis=axis,
    )


def digest(document: object) -> str:
    """SHA-256 of JSON data, equal for equal data."""
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _sets_version(axis: Axis) -> bool:
    """Whether each of its choices says which version is tested."""
    return all(
        any(_names_version(dotted_parts(key), value) for key, value in choice.set.items())
        for choice in axis.by_label().values()
    )


def _names_version(parts: list[str], value: object) -> bool:
    if parts == [_TARGET]:
        return isinstance(value, Mapping) and not _NAMES_VERSION.isdisjoint(value)
    return len(parts) == 2 and parts[0] == _TARGET and parts[1] in _NAMES_VERSION


def _of_run(document: Mapping[str, Any]) -> Document:
    return {name: value for name, value in document.items() if name not in _WITHOUT_EFFECT}


def _without_version(document: Document) -> Document:
    target = document.get(_TARGET)
    if not isinstance(target, Mapping):
        return document
    rest = {name: value for name, value in target.items() if name not in _NAMES_VERSION}
    others = {name: value for name, value in document.items() if name != _TARGET}
    return {**others, _TARGET: rest} if rest else others
