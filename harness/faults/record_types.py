"""The type of an undo record by the name of its lever, for the code that reads a journal.

The core's own types come first. Only for another name are the targets of this installation looked
up: so a journal is read without importing a target that it does not need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness import registry
from harness.errors import HistoryError, nearest
from harness.faults.records import RECORD_TYPES
from harness.protocols import DeclaresRecords, UndoRecord


def is_core(lever: str) -> bool:
    """Whether the core itself has a record for this lever."""
    return lever in RECORD_TYPES


def record_type(lever: str) -> type[UndoRecord]:
    """The type of this lever's records. Raises HistoryError for a lever that nothing here has, and
    for one that two targets declare differently; the caller adds the file."""
    if (known := RECORD_TYPES.get(lever)) is not None:
        return known
    declared = {name: types[lever] for name, types in _declared() if lever in types}
    if not declared:
        raise _unknown(lever)
    if len({*declared.values()}) > 1:
        raise HistoryError(
            f"names the lever {lever!r}, for which the targets {' and '.join(declared)} declare "
            "different undo records",
            hint="uninstall the package that the run did not use",
        )
    return next(iter(declared.values()))


def known_types(lever: str) -> list[type[UndoRecord]]:
    """The types of this lever's records, as far as it is known here."""
    if (known := RECORD_TYPES.get(lever)) is not None:
        return [known]
    return [types[lever] for _, types in _declared() if lever in types]


def _declared() -> Iterator[tuple[str, Mapping[str, type[UndoRecord]]]]:
    """What each target declares, by its name."""
    for name in registry.usable("targets"):
        target: object = registry.plugins("targets")[name]
        if isinstance(target, DeclaresRecords):
            yield name, target.record_types


def _unknown(lever: str) -> HistoryError:
    names = [*RECORD_TYPES, *(each for _, types in _declared() for each in types)]
    near = nearest(lever, names)
    similar = f" (the nearest is {near!r})" if near else ""
    return HistoryError(
        f"names the lever {lever!r}, which neither this version nor a target here has{similar}",
        hint="install the package of the run's target, in the version that the run used",
    )
