"""From one version of Kafka to another while it runs: which paths there are, and what a node runs.

KRaft    from 3.3 on every newer version may take the place of an older one, broker by broker and
         controller by controller, in any order. What is new on the wire and in the metadata is used
         only once the level of `metadata.version` is raised. An older version may come back as long
         as it knows that level; what one does that does not, the run shows.
ZooKeeper  up to 3.9: brokers speak the protocol of the version that they come from
         (`inter.broker.protocol.version`), as Kafka's own instructions for a rolling upgrade have
         it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from harness.errors import HarnessFailure, PlanError
from harness.faults.own_traffic import NoAnswer
from harness.faults.records import FeaturesRecord, Level
from harness.levers.commands import poll_until
from harness.plan import number_of
from harness.protocols import CLIENT_ROLE, NODE_DATA, Lever, Node, Proof
from targets.kafka import migration, wire
from targets.kafka.brokers import Ask, ask_of, features, finalized_and_highest
from targets.kafka.configuration import LOGS
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import KRAFT, ZOOKEEPER, metadata_of, release_line, version_of

_SPOKEN: Final = "inter.broker.protocol.version"
_REPORTED: Final = r"Kafka version ?: ?[0-9.]+"
METADATA_VERSION: Final = "metadata.version"
_RAISE, _SAFE, _UNSAFE = 1, 2, 3
_CHANGE_MS, _SEEN_S = 10_000, 10.0


def programs(plan: KafkaPlan) -> dict[str, KafkaPlan]:
    """The plan of each version or stage that its nodes are to have, by the words of the step.
    Raises PlanError where no path leads there."""
    versions = {to: _on_same_metadata(plan, later, key=key) for key, to, later in plan.upgrades()}
    return {**versions, **migration.stages(plan)}


def _on_same_metadata(plan: KafkaPlan, later: KafkaPlan, *, key: str) -> KafkaPlan:
    mode, version = metadata_of(plan), later.target.version or ""
    if mode not in release_line(version, key=key).metadata:
        last = "3.9 is the last that has it, and what migrates to KRaft"
        raise PlanError(
            f"no path leads from {version_of(plan)} with {mode} to {version}, which has no {mode} "
            "mode",
            key=key,
            hint=last if mode == ZOOKEEPER else "KRaft is run from 3.3 on",
        )
    own = plan.target.version
    older = own and number_of(version)[:2] < number_of(own)[:2]
    level_said = METADATA_VERSION in plan.target.features or any(plan.faults_of("features"))
    if mode == KRAFT and older and not level_said:
        raise PlanError(
            f"no path leads from {own} back to {version}, which does not know the metadata.version "
            f"that {own} stores",
            key=key,
            hint="give target.features a lower one, or lower it by a step before",
        )
    changes: dict[str, object] = {"metadata": mode}
    if mode != KRAFT and plan.target.version:
        low = ".".join(map(str, number_of(plan.target.version)[:2]))
        changes["settings"] = {_SPOKEN: low, **plan.target.settings}
    return later.model_copy(update={"target": later.target.model_copy(update=changes)})


@dataclass(frozen=True)
class FeaturesLever(Lever[FeaturesRecord]):
    """Changes the levels of features as `kafka-features` does: any broker passes the request on to
    the active controller."""

    nodes: Mapping[str, Node]
    plan: KafkaPlan
    name: ClassVar[str] = "features"

    def unavailable(self, node: Node, record: FeaturesRecord) -> str | None:
        """With ZooKeeper there are none."""
        kraft = metadata_of(self.plan) == KRAFT
        return None if kraft else f"{node.name}: levels of features are KRaft's"

    def capture_prior_state(self, record: FeaturesRecord) -> FeaturesRecord:
        """The levels now; without any in the plan, those of `metadata.version` and, in versions
        that need it, nothing else: the highest level that every node supports."""
        try:
            answers = [finalized_and_highest(self._ask, node.name) for node in self._servers]
        except NoAnswer:
            return record  # `apply` raises
        highest = min(answer[1].get(METADATA_VERSION, 0) for answer in answers)
        wanted = record.levels or (Level(feature=METADATA_VERSION, level=highest),)
        found = tuple(Level(feature=name, level=n) for name, n in sorted(answers[0][0].items()))
        return replace(record, levels=wanted, found=found)

    def apply(self, record: FeaturesRecord) -> None:
        if not record.found:
            raise HarnessFailure("not every node has reported the levels of its features")
        had = {each.feature: each.level for each in record.found}
        kind = wire.UpdateFeaturesRequest.FeatureUpdateKey
        lower = _UNSAFE if record.unsafe else _SAFE
        updates = [
            kind(
                feature=each.feature,
                max_version_level=each.level,
                upgrade_type=_RAISE if each.level > had.get(each.feature, 0) else lower,
            )
            for each in record.levels
        ]
        request = wire.UpdateFeaturesRequest[1](
            timeout_ms=_CHANGE_MS, feature_updates=updates, validate_only=False
        )
        answer = self._ask(
            next(n.name for n in self._servers if "broker" in n.roles),
            request,
            timeout_s=_CHANGE_MS / 1000,
        )
        for each in (answer, *(answer.results or ())):
            if each.error_code:
                why = each.error_message or wire.for_code(each.error_code).__name__
                raise HarnessFailure(f"the change of levels was refused: {why}")

    def undo(self, record: FeaturesRecord) -> None:
        """Nothing: they stay."""

    def probe(self, record: FeaturesRecord, *, applied: bool) -> Proof:
        """In force: every node reports the levels, and some have changed."""
        if not applied:
            return Proof(True, [])  # nothing was to be undone
        wanted = {each.feature: each.level for each in record.levels}
        had = {each.feature: each.level for each in record.found}
        shown: dict[str, dict[str, int]] = {}

        def seen() -> bool:
            for node in self._servers:
                with suppress(NoAnswer):
                    shown[node.name] = features(self._ask, node.name)
            return len(shown) == len(self._servers) and all(
                levels.get(name, 0) == n for levels in shown.values() for name, n in wanted.items()
            )

        reached, changed = poll_until(seen, within_s=_SEEN_S), wanted.items() - had.items()
        evidence = [
            f"{node}: {name} {levels.get(name, 0)} (before: {had.get(name, 0)})"
            for node, levels in shown.items()
            for name in wanted
        ]
        return Proof(reached and bool(changed), evidence)

    @property
    def _servers(self) -> list[Node]:
        return [node for node in self.nodes.values() if CLIENT_ROLE not in node.roles]

    @property
    def _ask(self) -> Ask:
        return ask_of(self.nodes, self.plan)


def has_program(node: Node, plan: KafkaPlan) -> tuple[bool, str]:
    """Whether a node's process has reported the plan's version as it started (the last such line
    of its log), and answers requests."""
    if plan.migrates:
        return migration.has_program(node, plan)
    if "zookeeper" in node.roles:
        return True, "its jars are those of Kafka"
    log = node.admin(["grep", "-rhoE", rf"^\[.*{_REPORTED}", f"{NODE_DATA}/{LOGS}"]).output
    if not (lines := sorted(log.splitlines())):
        return False, "its log states no version"
    version = re.split(" ?: ?", lines[-1])[-1]
    try:
        levels = features(ask_of({node.name: node}, plan), node.name)
    except NoAnswer as error:
        return False, f"its log states Kafka {version}, but it does not answer: {error}"
    level = "".join(f", {name} {n}" for name, n in levels.items() if name == METADATA_VERSION)
    return version == plan.target.version, f"reports Kafka {version}{level}"
