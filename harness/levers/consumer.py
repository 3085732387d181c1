"""The consumer lever: a consumer of the run's groups crashes, pauses, leaves or joins, and back.

If a run has several groups, the fault affects the consumer of that number in each of them.
Consumers end with the process that runs the plan: if another process undoes a journal, there is
nothing to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from harness.faults.records import ConsumerRecord
from harness.levers.waiting import poll_until
from harness.protocols import Lever, Node, Proof, UndoRecord
from harness.protocols.groups import Consumers, ConsumerState

_SEEN_S = 10
_THERE = {"crash": False, "leave": False, "join": True, "pause": True}
"""By action, whether a life of the consumer runs while the fault is in force."""


@dataclass(frozen=True)
class ConsumerLever(Lever[ConsumerRecord]):
    """Acts on one consumer of each group, by its number."""

    groups: Sequence[Consumers]
    name: ClassVar[str] = "consumer"
    record_type: ClassVar[type[UndoRecord]] = ConsumerRecord

    def unavailable(self, node: Node, record: ConsumerRecord) -> str | None:  # noqa: ARG002
        """Nothing: consumers are processes of the run's."""
        return None

    def apply(self, record: ConsumerRecord) -> None:
        """Do it to the consumer of each group."""
        for group in self.groups:
            group.act(record.consumer, record.action)

    def undo(self, record: ConsumerRecord) -> None:
        """End it."""
        for group in self.groups:
            group.undo(record.consumer, record.action)

    def probe(self, record: ConsumerRecord, *, applied: bool) -> Proof:
        """In force: its process is gone, stopped or running, by the kernel; else it runs."""
        there = _THERE[record.action] if applied else record.action != "join"
        paused = applied and record.action == "pause"

        def as_wanted() -> bool:
            return all(
                (state.life is not None) == there and state.paused == paused
                for state in self._states(record)
            )

        poll_until(as_wanted, within_s=_SEEN_S)
        return Proof(as_wanted(), [_described(record.node, each) for each in self._states(record)])

    def leftover_state(self, node: Node) -> list[str]:  # noqa: ARG002
        """Nothing: what happens to a consumer leaves nothing on any node."""
        return []

    def _states(self, record: ConsumerRecord) -> list[ConsumerState]:
        return [group.state(record.consumer) for group in self.groups]


def _described(name: str, state: ConsumerState) -> str:
    if state.life is None:
        return f"{name}: does not run; {state.ended}"
    return f"{name}: life {state.life} {'is paused' if state.paused else 'runs'}; {state.ended}"
