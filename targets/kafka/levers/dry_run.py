"""Leaders that never move: a dry run says what would be requested."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.protocols import PartitionView
from harness.run.dry_run import as_if_first_led
from targets.kafka.plan import KafkaPlan


@dataclass(frozen=True)
class DryRunLeadership:
    """See `targets.kafka.levers.leaders.Leadership`; the first broker leads every partition."""

    plan: KafkaPlan
    names: Sequence[str]
    say: Callable[[str], None]

    def placements(self) -> Mapping[int, PartitionView]:
        return as_if_first_led(self.plan, self.names, self.names[-1]).partitions

    def reorder(self, wanted: Mapping[int, Sequence[str]]) -> None:
        for partition, replicas in wanted.items():
            before = ",".join(self.placements()[partition].replicas)
            self.say(f"kafka: partition {partition}: replicas {before} -> {','.join(replicas)}")

    def elect(self, partitions: Sequence[int]) -> Mapping[int, str]:
        for partition in partitions:
            self.say(f"kafka: partition {partition}: elect the preferred leader")
        return {}
