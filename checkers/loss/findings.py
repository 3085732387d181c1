"""The findings of the loss checker as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from checkers.loss.closer import Odd
from checkers.loss.judged import Judged, is_first
from harness.history.arrays import numbers, texts, values
from harness.history.rows import NEVER, bounds_ns
from harness.protocols import NULL, Bools, Facts, FaultWindow, Ints, Texts

FINDINGS: Final = pa.schema(
    {
        "run_id": pa.string(),
        "kind": pa.string(),
        "key": pa.string(),
        "value": pa.int64(),
        "process": pa.int32(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "intended_ns": pa.int64(),
        "invoke_ns": pa.int64(),
        "complete_ns": pa.int64(),
        "error": pa.string(),
        "fault": pa.string(),
        "found_partition": pa.int32(),
        "found_offset": pa.int64(),
    }
)
"""One row a finding. `kind`: lost, deleted, not_yet_visible, failed_found, unexpected or duplicate;
`partition`, `offset` and times as the client knew them; `fault`: the windows in which the write was
answered, or begun where it never was, joined by commas; `found_*`: where it was read."""

KINDS: Final = ("deleted", "duplicate", "failed_found", "lost", "not_yet_visible", "unexpected")
"""In order."""

_OF_THE_CLIENT: Final = (
    *("process", "partition", "offset"),
    *("intended_ns", "invoke_ns", "complete_ns"),
)

ORDER: Final = ("kind", "partition", "complete_ns", "value")


def findings_of(facts: Facts, odd: Odd, judged: Judged) -> pa.Table:
    """The rows of FINDINGS, in order."""
    kinds, home = judged.by_name, judged.home
    at_home, astray = odd.copies[home], odd.copies[~home]
    failed_found = kinds["failed_found"][at_home[:, 0]] & is_first(at_home[:, 0])
    found = {
        "lost": _nowhere(kinds["lost"] & ~kinds["deleted"]),
        "deleted": _nowhere(kinds["deleted"]),
        "not_yet_visible": _nowhere(kinds["not_yet_visible"]),
        "failed_found": at_home[failed_found],
        "unexpected": astray[is_first(astray[:, 0])],
        "duplicate": odd.copies[judged.extra],
    }
    places = np.concatenate(list(found.values()))
    at = places[:, 0]
    kind = np.repeat(np.arange(len(found), dtype=np.int32), list(map(len, found.values())))
    answered_ns = np.where(odd.complete_ns == NULL, odd.invoke_ns, odd.complete_ns)
    columns = {
        "run_id": texts(Texts(np.zeros(len(at), np.int32), [facts.run_id])),
        "kind": texts(Texts(kind, list(found))),
        "key": texts(_at(odd.keys, at)),
        "value": values(odd.values[at]),
        **{name: numbers(getattr(odd, name)[at]) for name in _OF_THE_CLIENT},
        "error": texts(_at(odd.error, at)),
        "fault": texts(_faults(facts.windows, answered_ns[at])),
        "found_partition": numbers(places[:, 1]),
        "found_offset": numbers(places[:, 2]),
    }
    typed = [columns[field.name].cast(field.type) for field in FINDINGS]
    return ordered(pa.Table.from_arrays(typed, schema=FINDINGS))


def _at(column: Texts, places: Ints) -> Texts:
    return Texts(column.codes[places], column.names)


def ordered(findings: pa.Table) -> pa.Table:
    """The same rows, in order."""
    keys = [(name, "ascending", "at_start") for name in ORDER]
    return findings.take(pc.sort_indices(findings, sort_keys=keys))


def _nowhere(chosen: Bools) -> Ints:
    """The chosen values as copies that were not read."""
    at = np.flatnonzero(chosen)
    return np.column_stack([at, np.full((len(at), 2), NULL)])


def _faults(windows: Sequence[FaultWindow], time_ns: Ints) -> Texts:
    """The fault windows that contain each instant; null if none does. Between two instants at which
    a window begins or has ended they are the same."""
    begins, ends = bounds_ns(windows)
    began = begins <= ends
    after = ends[began & (ends < NEVER)] + 1
    edges = np.unique(np.concatenate([begins[began], after]))
    names = ["", *(_names(windows, (begins <= edge) & (edge <= ends)) for edge in edges)]
    codes = np.array([place if name else -1 for place, name in enumerate(names)], np.int32)
    return Texts(codes[np.searchsorted(edges, time_ns, side="right")], names)


def _names(windows: Sequence[FaultWindow], chosen: Bools) -> str:
    return ",".join(windows[place].id for place in np.flatnonzero(chosen).tolist())
