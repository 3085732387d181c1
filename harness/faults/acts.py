"""The acts of a nemesis, as far as they can be refused before one is journalled: a plug-in that
returns something else is named, with what it returned. Whether they can be done on a cluster is
answered by its levers, so a nemesis runs no command.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

from harness.errors import AcklossError, HarnessFailure
from harness.faults import selectors
from harness.faults.records import from_document, to_document
from harness.protocols import Act, Lever, Nemesis, Node, Select, UndoRecord, Vocabulary

_AT_ONCE: Final = 12
"""Nodes that are queried at the same time."""


def missing_levers(nemesis: Nemesis, offered: Collection[str]) -> list[str]:
    """The levers that a fault needs and that are not among those offered."""
    needed = dict.fromkeys(act.lever for act in required(nemesis, "any"))
    return [lever for lever in needed if lever not in offered]


def unavailable(
    nemesis: Nemesis, nodes: Mapping[str, Node], levers: Mapping[str, Lever[Any]]
) -> str | None:
    """None, or why this fault cannot be made on these nodes with these levers."""
    if missing := missing_levers(nemesis, levers):
        offered = ", ".join(levers) or "none"
        return f"the cluster does not offer the lever {missing[0]!r}; it offers {offered}"

    def on(node: Node) -> str | None:
        for act in required(nemesis, node.name):
            if why := levers[act.lever].unavailable(node, act.record):
                return why
        return None

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return next((why for why in pool.map(on, nodes.values()) if why), None)


Levers = Mapping[str, Lever[Any]]


def required(nemesis: Nemesis, node: str) -> list[Act]:
    """What a fault needs on a node. Raises HarnessFailure for anything but a list of acts."""
    return _listed(nemesis.requires(node), f"{_named(nemesis)}: requires()")


def chosen(
    nemesis: Nemesis,
    nodes: Sequence[Node],
    select: Select,
    *,
    levers: Levers,
    among: Collection[str],
    vocabulary: Vocabulary,
) -> list[Act]:
    """The acts of a fault on these nodes, `among` all that there are. Raises HarnessFailure for a
    selector that the target does not have, and for acts that no lever here can do."""
    name = _named(nemesis)

    def selected(text: str) -> Sequence[Node]:
        try:
            selectors.check(text, vocabulary, key="")
        except AcklossError as error:
            raise HarnessFailure(f"{name}: select(): {error.what}", hint=error.hint) from error
        return select(text)

    acts = _listed(nemesis.acts(nodes, selected), f"{name}: acts()")
    for act in acts:
        if why := _why_not(act, levers, among):
            raise HarnessFailure(f"{name}: acts(): {why}")
    return acts


def _named(nemesis: Nemesis) -> str:
    return f"the nemesis {nemesis.plugin!r}"


def _listed(acts: object, source: str) -> list[Act]:
    if isinstance(acts, Iterable) and not isinstance(acts, Act):
        listed = list(acts)
        wrong = [each for each in listed if not isinstance(each, Act)]
        if not wrong:
            return listed
        given = f"a list with {_shown(wrong[0])}"
    else:
        given = _shown(acts)
    raise HarnessFailure(f"{source} returns {given}, not a list of Act(lever, record)")


def _shown(thing: object) -> str:
    return "None" if thing is None else f"a {type(thing).__name__}"


def _why_not(act: Act, levers: Levers, among: Collection[str]) -> str | None:
    """Why an act cannot be done; `None` if it can."""
    if act.lever not in levers:
        return f"there is no lever {act.lever!r} here; there are: {', '.join(levers) or 'none'}"
    wanted = levers[act.lever].record_type
    if not isinstance(act.record, wanted):
        return (
            f"the lever {act.lever!r} takes a {wanted.__name__}, not a {type(act.record).__name__}"
        )
    if why := _why_no_record(act.record):
        return f"the {wanted.__name__} cannot be journalled: {why}"
    strange = [name for name in act.record.node.split(",") if name not in among]
    return f"there is no node {strange[0]!r}" if strange else None


def _why_no_record(record: UndoRecord) -> str | None:
    try:
        from_document(type(record), to_document(replace(record, fault="example")))
    except (AcklossError, TypeError) as error:
        return str(error).rpartition("writes it: ")[2]
    return None
