"""The lever that is an operator: the operator reads what to do, and reports that it is done.

ackloss itself does nothing and observes nothing, so its probes never prove anything: the window
is what the operator claims. That holds on every kind of cluster whose time is real.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from harness.errors import HarnessFailure
from harness.faults.records import ManualRecord
from harness.protocols import Lever, Proof

CLAIMED = "claimed by the operator, not proven"


class Operator(Protocol):
    """An operator, or an operator's program, that causes faults."""

    @abstractmethod
    def begin(self, faults: Sequence[str]) -> None:
        """These faults may be requested. Raises PlanError when their reports could not be
        distinguished from earlier ones."""

    @abstractmethod
    def done(self, fault: str, what: str, *, begun: bool, at_most_s: float) -> bool:
        """Request something and wait until it is reported as done, for a limited time. `begun`: the
        fault is to begin, otherwise it is to end."""

    @abstractmethod
    def give_up(self) -> None:
        """No fault needs to begin any more: stop waiting for that. From any thread."""

    @abstractmethod
    def leave(self) -> None:
        """Wait for nothing any more, not even for the end of a fault. Called from a signal handler,
        so it takes no lock."""


@dataclass(frozen=True)
class ManualLever(Lever[ManualRecord]):
    """See `harness.protocols.Lever`. `_claims`: what the operator reported, by fault and form."""

    operator: Operator
    _claims: dict[tuple[str, bool], bool] = field(default_factory=dict)

    name: ClassVar[str] = "manual"

    def apply(self, record: ManualRecord) -> None:
        """Have the operator do it. Raises HarnessFailure when it is not reported."""
        if not self._ask(record, record.instruction, begun=True):
            raise HarnessFailure(f"it was not reported in time as done: {record.instruction}")

    def undo(self, record: ManualRecord) -> None:
        """Have the operator undo it. The probe reports if it is not reported: what can still
        be read of the run is read."""
        if self._claims.get((record.fault, True), True):
            self._ask(record, record.undo_instruction, begun=False)

    def probe(self, record: ManualRecord, *, applied: bool) -> Proof:
        claimed = self._claims.get((record.fault, applied), False)
        what = record.instruction if applied else record.undo_instruction
        how = CLAIMED if claimed else "it was not reported"
        return Proof(False, [f"{how}: {what}"], claimed=claimed)

    def give_up(self) -> None:
        self.operator.give_up()

    def _ask(self, record: ManualRecord, what: str, *, begun: bool) -> bool:
        where = f" ({', '.join(record.places)})" if record.places else ""
        done = self.operator.done(
            record.fault, f"{what}{where}", begun=begun, at_most_s=record.at_most_s
        )
        self._claims[record.fault, begun] = done
        return done
