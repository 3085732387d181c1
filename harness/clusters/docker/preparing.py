"""What nodes must have from their start for the faults of a plan, and only of such a plan.

A nemesis that needs something says so by name (`Nemesis.needs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.images import faketime
from harness.levers import clock
from harness.protocols import BOUNDED_DISK, FAKETIME, OWN_DISK, NodeSpec

_DATA_MB = 128
"""Holds what a log stores in some minutes at 2,000 small writes a second."""
_OWN_DISK_MB = 1024
"""Sparse: it takes what is written. Some systems allocate files of 64 MB in advance."""


def prepared(specs: Sequence[NodeSpec], needs: frozenset[str], *, holder_id: str) -> list[NodeSpec]:
    """The nodes with what is needed, the same when nothing is; libraries are the holder image's."""
    specs = list(specs)
    if OWN_DISK in needs:  # one that is small may be filled, too
        size_mb = _DATA_MB if BOUNDED_DISK in needs else _OWN_DISK_MB
        specs = [replace(spec, own_disk_mb=size_mb) for spec in specs]
    elif BOUNDED_DISK in needs:
        specs = [replace(spec, data_mb=_DATA_MB) for spec in specs]
    if FAKETIME in needs:
        library = faketime.library(holder_id)
        specs = [clock.prepared(spec, library) for spec in specs]
    return specs
