"""The set checker: the outcome of every element that was added to a set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import ClassVar, Final, NamedTuple

import pyarrow as pa

from checkers.sets.columns import shard as shard_of
from checkers.sets.judging import Tally, merge, of_all_keys, opinion, tally
from checkers.sets.pairing import by_key, paired
from harness.protocols import Checker, CheckResult, HasPrimaryFinding, PrimaryFinding, Run
from harness.protocols.checkers import counted

_SHARD_BYTES: Final = 2**28
"""Of Parquet; what reads returned is packed tightly in it, and takes 8 bytes an element here."""


class Slice(NamedTuple):
    """A shard: the elements that a hash puts at `number` of `of`."""

    number: int
    of: int


@dataclass(frozen=True)
class Set(Checker[Slice, Tally], HasPrimaryFinding):
    """Elements of a set that are lost, stale or never read, as Jepsen's set-full means them, and
    those that were read though they were never added or their add had failed.

    linearizable  a read must hold every element that was known before it began: one that does not
                  (a stale read) is then a counter-example, else it is only counted
    """

    plugin: ClassVar[str] = "set"
    models: ClassVar[frozenset[str]] = frozenset({"set"})

    linearizable: bool = False

    @property
    def primary(self) -> PrimaryFinding:
        """Lost elements."""
        return PrimaryFinding(
            counter_examples=("lost",),
            noun="loss",
            adjective="lossy",
            head="lost",
            found="Acknowledged elements were lost",
            none="No acknowledged element was lost",
            one="lost an acknowledged element",
            some="lost elements",
            does="loses",
            do="lose",
            can="lose elements",
        )

    def shards(self, run: Run) -> list[Slice]:
        """One shard for every so many bytes of history."""
        of = 1 + sum(path.stat().st_size for path in run.facts.history) // _SHARD_BYTES
        return [Slice(number, of) for number in range(of)]

    def check(self, run: Run, shard: Slice) -> Tally:
        """The outcome of the elements of one shard."""
        facts, tallies = run.facts, list[Tally]()
        for key, parts in by_key(run.operations()).items():
            history = paired(
                parts, timed=facts.timed, end_ns=facts.final_from_ns, file=facts.source
            )
            history = replace(history, key=key)
            own = history if shard.of == 1 else shard_of(history, shard.number, of=shard.of)
            tallies.append(tally(own))
        return of_all_keys(tallies)

    def merge(self, run: Run, parts: Sequence[Tally]) -> CheckResult:
        """The counts, findings and statements of all shards together."""
        whole = merge(parts)
        judged = opinion(whole, linearizable=self.linearizable)
        document = judged.document()
        run_ids = pa.array([run.facts.run_id] * len(whole.findings), pa.string())
        return CheckResult(
            counts=asdict(whole.counts),
            rates=whole.counts.rates(),
            findings=whole.findings.add_column(0, "run_id", run_ids),
            counter_examples=judged.counter_examples,
            doubts=judged.doubts,
            all_well=counted(
                whole.counts.acknowledged,
                "[the|all] {n} acknowledged [element was|elements were] kept",
            ),
            details={name: document[name] for name in ("latencies_ms", "final_read")},
        )
