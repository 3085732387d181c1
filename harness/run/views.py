"""Checks what a target returns as the views of a node (`HasLeaders`, `HoldsCells`): a view that is
none would be stored, and stop the schedule that compares it with those of other nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.protocols import NodeView, PartitionView

_LEAST, _MOST = -(2**31), 2**31 - 1
"""What the columns of observations hold."""


def views_of(given: object, cells: int) -> Sequence[NodeView | None]:
    """The views of one node for so many cells. Raises TypeError, with what is wrong with them."""
    if not isinstance(given, Sequence) or len(given) != cells:
        many = f"{len(given)} views" if isinstance(given, Sequence) else _shown(given)
        raise TypeError(f"observe_cells() returns {many} for {cells} cells")
    for view in given:
        if (why := None if view is None else next(_wrong(view), None)) is not None:
            raise TypeError(f"{'observe_cells' if cells > 1 else 'observe'}() returns {why}")
    return given


def _wrong(view: object) -> Iterator[str]:
    if not isinstance(view, NodeView):
        yield f"{_shown(view)}, not a NodeView"
        return
    if not isinstance(view.answered_by, str):
        yield f"a view with answered_by = {_shown(view.answered_by)}"
    if not _is_text(view.controller):
        yield f"a view with controller = {_shown(view.controller)}"
    if view.controller_epoch is not None and not _is_number(view.controller_epoch):
        yield f"a view with controller_epoch = {_shown(view.controller_epoch)}"
    if not isinstance(view.partitions, tuple):
        yield f"a view with partitions = {_shown(view.partitions)}, not a tuple"
        return
    for partition in view.partitions:
        yield from _wrong_partition(partition)
    if view.coordination is not None:
        yield from _wrong_partition(view.coordination)


def _wrong_partition(view: object) -> Iterator[str]:
    if not isinstance(view, PartitionView):
        yield f"{_shown(view)}, not a PartitionView"
        return
    if not _is_number(view.partition):
        yield f"a partition = {_shown(view.partition)}"
    if not _is_number(view.leader_epoch):
        yield f"a leader_epoch = {_shown(view.leader_epoch)}"
    if not _is_text(view.leader):
        yield f"a leader = {_shown(view.leader)}"
    for name, names in (("members", view.members), ("replicas", view.replicas)):
        if not isinstance(names, tuple) or not all(isinstance(each, str) for each in names):
            yield f"{name} = {_shown(names)}, not a tuple of names"
    if view.unnamed is not None and not _is_number(view.unnamed):
        yield f"unnamed = {_shown(view.unnamed)}"


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int):
        return False
    return _LEAST <= value <= _MOST


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 and "\n" not in text else f"a {type(value).__name__}"
