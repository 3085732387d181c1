"""Kafka as a log that clients write to and readers read to the end, whoever started the cluster."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from harness.errors import Mistakes
from harness.history.run_folder import RunDir
from harness.protocols import Cluster, End, Explanation, Fact, Promises, Range, Target, Vocabulary
from harness.protocols.explanations import Removed
from harness.protocols.systems import JSON
from harness.run.cells import group_of
from targets.kafka import explain, promises, removed
from targets.kafka.clients import ANY_CLIENT, library_of
from targets.kafka.clients.library import READERS
from targets.kafka.configuration import check_settings
from targets.kafka.plan import KafkaPlan
from targets.kafka.reading import Source, read_from, read_ranges_from
from targets.kafka.vocabulary import VOCABULARY


class KafkaLog(Target[KafkaPlan]):
    """What our own clusters and those of users have in common."""

    plan: ClassVar[type[KafkaPlan]] = KafkaPlan
    causes: ClassVar[Mapping[str, str]] = explain.CAUSES
    defects: ClassVar[frozenset[str]] = explain.DEFECTS

    @abstractmethod
    def addresses(self, cluster: Cluster) -> str:
        """The bootstrap servers, comma separated."""

    @abstractmethod
    def source(self, cluster: Cluster, plan: KafkaPlan) -> AbstractContextManager[Source]:
        """What the final read reads."""

    def check(self, plan: KafkaPlan) -> None:
        """Refuse settings that a plan may not touch, and what clients cannot do."""
        mistakes = Mistakes()
        with mistakes.noted():
            check_settings(plan.target.settings, where="target.settings")
        with mistakes.noted():
            check_settings(plan.topic.settings, where="topic.settings", level="topic")
        for check in self.checks(plan):
            with mistakes.noted():
                check(plan)
        mistakes.refuse()

    def checks(self, plan: KafkaPlan) -> Sequence[Callable[[KafkaPlan], None]]:
        """What else is checked, each raising PlanError."""
        return [library_of(plan).check]

    def requested(self, plan: KafkaPlan) -> dict[str, Any]:
        settings = {
            "broker": plan.target.settings,
            "topic": plan.topic.settings,
            "producer": plan.workload.producer,
            **({"consumer": plan.workload.consumer} if group_of(plan) is not None else {}),
        }
        return {"settings": settings, "features": plan.target.features}

    def vocabulary(self) -> Vocabulary:
        return VOCABULARY

    def promises(self, plan: Mapping[str, Any], effective: Mapping[str, Any]) -> Promises:
        return promises.promises(plan, effective.get("producer") or plan["workload"]["producer"])

    def explain(self, folder: Path, lost: pa.Table) -> Sequence[Explanation]:
        return explain.explain(folder, lost)

    def coordinators(self, folder: Path) -> Sequence[Fact]:
        return explain.coordinators(folder)

    def removed(self, folder: Path) -> Removed | None:
        return removed.removed(RunDir(folder))

    def connection(self, cluster: Cluster, plan: KafkaPlan, number: int) -> Mapping[str, JSON]:
        return ANY_CLIENT.connection(self.addresses(cluster), plan, number)

    def answers_within_s(self, plan: KafkaPlan) -> float:
        return ANY_CLIENT.answers_within_s(plan)

    def writer(self, plan: KafkaPlan) -> str:
        return library_of(plan).software(plan)

    def readers(self, plan: KafkaPlan) -> tuple[str, str]:
        return READERS

    def read_all(
        self, cluster: Cluster, plan: KafkaPlan, *, reader: str, timeout_s: float
    ) -> tuple[pa.Table, list[End]]:
        with self.source(cluster, plan) as source:
            return read_from(source, plan, reader=reader, timeout_s=timeout_s)

    def read_ranges(
        self,
        cluster: Cluster,
        plan: KafkaPlan,
        *,
        reader: str,
        ranges: Mapping[int, Sequence[Range]],
        timeout_s: float,
    ) -> tuple[pa.Table, list[End]]:
        with self.source(cluster, plan) as source:
            return read_ranges_from(source, plan, ranges, timeout_s=timeout_s)
