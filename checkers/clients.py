"""The client checker: what clients that are processes of the user's (`--client`) did wrong.

Whether they lost, duplicated or misreported writes is the question of the other checkers; this one
checks whether they kept to their protocol, lived, and answered everything in time. Clients of which
nothing was ever ok have shown nothing. It knows nothing about ackloss' own clients.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from harness.models import MODELS
from harness.protocols import DOUBTS, CheckResult, Count, OneShard, PrimaryFinding, Run, Statement
from harness.protocols.checkers import counted, counter_examples
from harness.protocols.runs import INVOKED, OK

_WRONG: Final = (
    Count("lies", "lies", "clients broke the protocol"),
    Count("floods", "floods", "clients wrote more than may be written"),
    Count("hangs", "hangs", "clients wrote nothing, or did not end"),
    Count("deaths", "deaths", "clients died"),
    Count("blocked", "blocked", "clients left an operation without an answer"),
)


@dataclass(frozen=True)
class Clients(OneShard[Counter[int]]):
    """Counts how the processes of `--client` violated their protocol: lies, floods, hangs,
    deaths, blocked operations. One is enough for `invalid`."""

    plugin: ClassVar[str] = "client"
    models: ClassVar[frozenset[str]] = frozenset(MODELS)
    title: ClassVar[str] = "Clients"
    primary: ClassVar[PrimaryFinding] = PrimaryFinding(
        counter_examples=tuple(each.name for each in _WRONG),
        noun="misbehaving clients",
        head="client failed",
    )
    counts: ClassVar[tuple[Count, ...]] = (
        Count("attempted", "operations attempted"),
        Count("acknowledged", "answered ok"),
        Count("started", "processes started"),
        *_WRONG,
        Count("late", "of the blocked, answered late"),
        Count("ended", "operations in flight in a process that ended"),
    )
    short: ClassVar[tuple[str, ...]] = ("started", *(each.name for each in _WRONG))

    def gather(self, run: Run) -> Counter[int]:
        """How many operations were begun, and how many ended in each way."""
        tally: Counter[int] = Counter()
        for rows in run.operations():
            marks, numbers = np.unique(rows.mark, return_counts=True)
            tally.update(dict(zip(marks.tolist(), numbers.tolist(), strict=True)))
        return tally

    def judge(self, run: Run, tally: Counter[int]) -> CheckResult:
        ended = {"attempted": tally[INVOKED], "acknowledged": tally[OK]}
        conduct = run.facts.clients
        if conduct is None:
            why = "nothing is known of the clients: they were not processes of --client"
            return CheckResult(counts=ended, doubts=(Statement(DOUBTS.vacuous, why),))
        return CheckResult(
            counts={
                **ended,
                **conduct.counts,
                "late": conduct.late,
                "ended": conduct.ended,
                "started": conduct.started,
            },
            counter_examples=counter_examples(_WRONG, conduct.counts),
            doubts=tuple(_doubts(tally)),
            all_well=f"{conduct.software or 'the clients'} kept to the protocol",
        )


def _doubts(ended: Counter[int]) -> Iterator[Statement]:
    if not ended[INVOKED]:
        yield Statement(DOUBTS.vacuous, "nothing was attempted")
    elif not ended[OK]:
        words = "none of {n} [operation|operations] was ok"
        yield Statement(DOUBTS.vacuous, counted(ended[INVOKED], words))
