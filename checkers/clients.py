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
from harness.protocols import (
    DOUBTS,
    CheckResult,
    HasPrimaryFinding,
    OneShard,
    PrimaryFinding,
    Run,
    Statement,
)
from harness.protocols.checkers import counted
from harness.protocols.runs import INVOKED, OK

_WHAT: Final = {
    "lies": "broke the protocol",
    "floods": "wrote more than may be written",
    "hangs": "wrote nothing, or did not end",
    "deaths": "died",
    "blocked": "left an operation without an answer",
}


@dataclass(frozen=True)
class Clients(OneShard[Counter[int]], HasPrimaryFinding):
    """Counts how the processes of `--client` violated their protocol: lies, floods, hangs,
    deaths, blocked operations. One is enough for `invalid`."""

    plugin: ClassVar[str] = "client"
    models: ClassVar[frozenset[str]] = frozenset(MODELS)

    @property
    def primary(self) -> PrimaryFinding:
        """Anything of it."""
        return PrimaryFinding(
            counter_examples=tuple(_WHAT),
            noun="misbehaving clients",
            adjective="with misbehaving clients",
            head="client failed",
            found="Clients broke their protocol, died or hung",
            none="No client broke its protocol, died or hung",
            one="had a client that broke its protocol, died or hung",
            some="had clients that broke their protocol, died or hung",
            does="has misbehaving clients",
            do="have misbehaving clients",
            can="have misbehaving clients",
        )

    def gather(self, run: Run) -> Counter[int]:
        """How many operations were begun, and how many ended in each way."""
        tally: Counter[int] = Counter()
        for rows in run.operations():
            marks, numbers = np.unique(rows.mark, return_counts=True)
            tally.update(dict(zip(marks.tolist(), numbers.tolist(), strict=True)))
        return tally

    def judge(self, run: Run, tally: Counter[int]) -> CheckResult:
        """What the run's metadata holds about its clients."""
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
            counter_examples=tuple(
                Statement(name, f"clients {_WHAT[name]}: {number:,}")
                for name, number in conduct.counts.items()
                if number
            ),
            doubts=tuple(_doubts(tally)),
            all_well=f"{conduct.software or 'the clients'} kept to the protocol",
        )


def _doubts(ended: Counter[int]) -> Iterator[Statement]:
    if not ended[INVOKED]:
        yield Statement(DOUBTS.vacuous, "nothing was attempted")
    elif not ended[OK]:
        words = "none of {n} [operation|operations] was ok"
        yield Statement(DOUBTS.vacuous, counted(ended[INVOKED], words))
