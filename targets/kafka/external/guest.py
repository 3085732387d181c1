"""Kafka on a cluster that ackloss did not start: one topic of ours, clients, and nothing else.

Which version it is, how many brokers and controllers there are and how they are set up is the
cluster's own: a plan's keys for that are left out, but for `target.settings`, which are compared
with what brokers report, as far as we may read it. The topic has its own name in each run.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Final

from kafka import errors as theirs

from harness.errors import EnvironmentFailure, HarnessFailure, Mistakes, PlanError
from harness.faults.own_traffic import NoAnswer
from harness.models import LOG
from harness.protocols import (
    Access,
    Client,
    Cluster,
    End,
    Finding,
    GuestTarget,
    Member,
    Node,
    NodeView,
    Status,
    with_role,
)
from harness.protocols.systems import JSON
from targets.kafka import effective
from targets.kafka.brokers import (
    Values,
    await_none,
    broker_name,
    partitions,
    why_not_whole,
)
from targets.kafka.clients import library_of
from targets.kafka.clients.kafka_python import KafkaPython
from targets.kafka.clients.librdkafka import Librdkafka
from targets.kafka.configuration import check_settings, text
from targets.kafka.effective import OURS, shortened
from targets.kafka.external.session import ClientProperties, Session, client_properties
from targets.kafka.log import KafkaLog
from targets.kafka.plan import KafkaPlan
from targets.kafka.reading import Source, ends_of

ASK_S = 5.0

PREFIX: Final = "ackloss-"
"""What the names of all topics of ours begin with."""

_TOPIC_EXISTS, _UNKNOWN_TOPIC = 36, 3
_WRONG: Final = {40: "topic.settings", 44: "topic.settings"}
"""INVALID_CONFIG, POLICY_VIOLATION."""

_POLL_S, _GONE_S, _SETTLE_S = 0.2, 20.0, 10.0
_OBJECT: Final = "topic "


def in_words(topic: str) -> str:
    """A topic as an object of ours: what kind of thing it is, and its name."""
    return f"{_OBJECT}{topic}"


_IGNORED: Final[Mapping[str, tuple[str, ...]]] = {
    "target": ("version", "image", "metadata", "controllers", "zookeepers", "racks", "combined",
               "coordinator", "features", "memory_mb"),
    "topic": ("leaders", "first_leader"),
}  # fmt: skip
"""Keys of a plan that are for a cluster of our own."""


@dataclass(frozen=True)
class KafkaGuest(KafkaLog, GuestTarget[KafkaPlan]):
    """Kafka that ackloss did not start. Brokers are named b and their id."""

    plugin: ClassVar[str] = "kafka"
    models: ClassVar[frozenset[str]] = frozenset({LOG.name})
    libraries: ClassVar[tuple[str, ...]] = (Librdkafka.plugin, KafkaPython.plugin)

    access: Access
    properties: ClientProperties

    @classmethod
    def reached_by(cls, access: Access) -> KafkaGuest:
        return cls(access, client_properties(access))

    @cached_property
    def session(self) -> Session:
        return Session(self.access, self.properties)

    def adapted(self, document: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """The plan without the keys of `_IGNORED`, and a topic that no other run writes to."""
        made, ignored = dict(document), []
        for section, keys in _IGNORED.items():
            if isinstance(table := made.get(section), dict):
                ignored += [f"{section}.{key}" for key in keys if key in table]
                made[section] = {key: value for key, value in table.items() if key not in keys}
        topic = made.setdefault("topic", {})
        if isinstance(topic, dict):
            name = str(topic.get("name", "run"))
            made["topic"] = {**topic, "name": f"{PREFIX}{name[:32]}-{secrets.token_hex(6)}"}
        return made, [f"{key} is ignored: it is the cluster's own" for key in ignored]

    def check(self, plan: KafkaPlan) -> None:
        mistakes = Mistakes()
        with mistakes.noted():
            check_settings(plan.target.settings, where="target.settings")
        with mistakes.noted():
            check_settings(plan.topic.settings, where="topic.settings", level="topic")
        with mistakes.noted():
            library_of(plan).check(plan)
        mistakes.refuse()

    def objects(self, plan: KafkaPlan) -> tuple[str, ...]:
        return (in_words(plan.topic.name),)

    def members(self, plan: KafkaPlan, *, timeout_s: float) -> list[Member]:
        """The brokers. Raises EnvironmentFailure when there are fewer than replicas."""
        self.session.reach(timeout_s)
        brokers = self.session.brokers()
        factor = plan.topic.replication_factor
        if len(brokers) < factor:
            raise EnvironmentFailure(
                f"{factor} replicas need {factor} brokers, the cluster has {len(brokers)}",
                file=str(self.access.file),
                hint=f"--set topic.replication_factor={len(brokers)}",
            )
        return [
            Member(
                name=broker_name(number),
                roles=frozenset({"broker", *([f"rack:{each['rack']}"] if each["rack"] else [])}),
                address=f"{each['host']}:{each['port']}",
                number=number,
            )
            for number, each in sorted(brokers.items())
        ]

    def bring_up(self, cluster: Cluster, plan: KafkaPlan, *, timeout_s: float) -> None:
        """Make the topic and wait until it is fully replicated."""
        deadline = time.monotonic() + timeout_s
        self._make_topic(plan)
        brokers = with_role(cluster, "broker")
        await_none(cluster, lambda: why_not_whole(brokers, plan, self.observe), deadline)

    def observe(self, node: Node, plan: KafkaPlan, *, timeout_s: float) -> NodeView | None:
        """A broker's own view of the topic. Clients do not learn which controller is active, and
        nodes other than brokers are not queried."""
        if "broker" not in node.roles:
            return None
        try:
            (seen,) = partitions(self._ask, node.name, [plan.topic.name], timeout_s=timeout_s)
        except NoAnswer:
            return None
        return NodeView(answered_by=node.name, partitions=seen)

    def _ask(self, node: str, request: Any, *, timeout_s: float) -> Any:
        """Ask a broker by its node's name. Raises NoAnswer."""
        return self.session.ask(int(node[1:]), request, timeout_s=timeout_s)

    def effective(self, cluster: Cluster, plan: KafkaPlan) -> dict[str, Any]:
        """Settings of brokers and topic as far as we may read them, compared with the plan's."""
        in_force = effective.reported(self._ask, cluster.nodes, plan)
        found = in_force["settings"]
        _refuse_compaction(plan, found["topic"])
        found["producer"] = producer = dict(library_of(plan).settings(plan))
        return {
            **in_force,
            "origins": {
                **{of: dict.fromkeys(found[of], "your cluster") for of in ("broker", "topic")},
                "producer": dict.fromkeys(producer, OURS),
            },
            "shortened": {"producer": shortened(plan, "producer", producer)},
        }

    def requested(self, plan: KafkaPlan) -> dict[str, Any]:
        requested = {
            "broker": plan.target.settings,
            "topic": plan.topic.settings,
            "producer": plan.workload.producer,
        }
        return {"settings": requested, "features": {}}

    def client(self, cluster: Cluster, plan: KafkaPlan) -> Client:
        library = library_of(plan)  # others are refused with the plan
        more = {
            Librdkafka.plugin: self.properties.librdkafka,
            KafkaPython.plugin: self.properties.kafka_python,
        }[library.plugin]
        return library.producing(self.addresses(cluster), plan, more)

    def connection(self, cluster: Cluster, plan: KafkaPlan, number: int) -> Mapping[str, JSON]:
        """Also the file's properties, without secrets: a
        process of the user's has its own way to those."""
        connection = super().connection(cluster, plan, number)
        return {**connection, "properties": {**self.properties.shown}}

    def addresses(self, cluster: Cluster) -> str:
        return ",".join(self.access.addresses)

    @contextmanager
    def source(self, cluster: Cluster, plan: KafkaPlan) -> Iterator[Source]:
        def ends() -> dict[int, End]:
            views = [self.observe(n, plan, timeout_s=ASK_S) for n in cluster.nodes.values()]

            return ends_of(self._ask, [view for view in views if view], plan)

        yield Source(
            addresses=self.addresses(cluster),
            ends=ends,
            ask=self._ask,
            librdkafka=self.properties.librdkafka,
        )

    def checkup(self, *, timeout_s: float) -> Sequence[Finding]:
        """Both client libraries are answered; the brokers; a topic that is validated and not
        made."""
        try:
            self.session.reach(timeout_s)
            brokers = self.session.brokers()
        except EnvironmentFailure as error:
            fix = "check the addresses and properties in the cluster file"
            return [Finding("cluster", Status.MISSING, error.what, fix)]
        named = [f"{broker_name(n)} {b['host']}:{b['port']}" for n, b in sorted(brokers.items())]
        answers = f"answers both client libraries; brokers: {', '.join(named)}"
        return [Finding("cluster", Status.OK, answers), self._topic_may_be_made()]

    def remove(self, objects: tuple[str, ...], *, dry_run: bool) -> list[str]:
        here = {each.removeprefix(_OBJECT) for each in objects} & self._names()
        if here and not dry_run:
            try:
                self._delete(here)
            except theirs.KafkaError as error:
                raise self._silent(error) from error
        return [in_words(name) for name in sorted(here)]

    def ours(self) -> list[str]:
        return [in_words(name) for name in sorted(self._names()) if name.startswith(PREFIX)]

    def close(self) -> None:
        self.session.close()

    def _make_topic(self, plan: KafkaPlan) -> None:
        """Raises PlanError for settings that the cluster refuses,
        EnvironmentFailure where it makes none."""
        wanted = {
            "num_partitions": plan.topic.partitions,
            "replication_factor": plan.topic.replication_factor,
            "configs": {key: text(value) for key, value in plan.topic.settings.items()},
        }
        answer, again = self._asked_for({plan.topic.name: wanted})
        code, why = answer["error_code"], answer.get("error_message")
        if not code or (again and code == _TOPIC_EXISTS):
            return
        sentence = f"{theirs.for_code(code).__name__}{f': {why}' if why else ''}".rstrip(".")
        if code in _WRONG:
            raise PlanError(f"the cluster refuses the topic: {sentence}", key=_WRONG[code])
        raise self._failure(f"refuses the topic {plan.topic.name}: {sentence}")

    def _asked_for(self, wanted: dict[str, Any]) -> tuple[Any, bool]:
        """The answer about one topic, and whether it was requested more than once."""
        deadline, again = time.monotonic() + _SETTLE_S, False
        while True:
            try:
                answer = self.session.admin.create_topics(wanted, raise_errors=False)
            except theirs.KafkaError as error:
                # brokers that have just started do not all know each other
                passes = error.retriable or isinstance(error, theirs.UnknownBrokerIdError)
                if not passes or time.monotonic() > deadline:
                    what = f"makes no topic: {type(error).__name__}: {error}"
                    raise self._failure(what) from error
            else:
                return answer["topics"][0], again
            again = True
            time.sleep(_POLL_S)

    def _topic_may_be_made(self) -> Finding:
        """Whether a run could make its topic: one that is validated and not made."""
        what, name = "topic of a run", f"{PREFIX}doctor-{secrets.token_hex(6)}"
        wanted = {name: {"num_partitions": 1, "replication_factor": 1}}
        try:
            answer = self.session.admin.create_topics(
                wanted, validate_only=True, raise_errors=False
            )
        except theirs.IncompatibleBrokerVersion:
            why = "may be made or not: these brokers do not say it without making one"
            return Finding(what, Status.WARN, why)
        except theirs.KafkaError as error:
            why = f"the cluster does not say whether it may be made: {type(error).__name__}"
            return Finding(what, Status.MISSING, why, "run `ackloss doctor --cluster FILE` again")
        if code := answer["topics"][0]["error_code"]:
            fix = f"grant Create and Delete on topics with the prefix {PREFIX}"
            refused = f"the cluster refuses it: {theirs.for_code(code).__name__}"
            return Finding(what, Status.MISSING, refused, fix)
        return Finding(what, Status.OK, "may be made (validated by the cluster; none was made)")

    def _delete(self, names: set[str]) -> None:
        deadline, left, why = time.monotonic() + _GONE_S, set(names), ""
        while left and time.monotonic() < deadline:
            answer = self.session.admin.delete_topics(sorted(left), raise_errors=False)
            codes = {topic["error_code"] for topic in answer["topics"]} - {0, _UNKNOWN_TOPIC}
            why = ", ".join(theirs.for_code(code).__name__ for code in sorted(codes))
            time.sleep(_POLL_S)
            left = names & self._names()
        if left:
            raise HarnessFailure(
                f"the cluster still has {_OBJECT}{', '.join(sorted(left))}: {why or 'no reason'}",
                hint="delete it, or run `ackloss clean --cluster FILE`",
            )

    def _names(self) -> set[str]:
        try:
            return {*self.session.admin.list_topics()}
        except theirs.KafkaError as error:
            raise self._silent(error) from error

    def _silent(self, error: theirs.KafkaError) -> EnvironmentFailure:
        return self._failure(f"does not answer: {type(error).__name__}: {error}")

    def _failure(self, what: str) -> EnvironmentFailure:
        return EnvironmentFailure(f"the cluster {what}", file=str(self.access.file))


def _refuse_compaction(plan: KafkaPlan, topic: Values) -> None:
    """A topic that the cluster compacts by its own default loses writes as it should."""
    key = "cleanup.policy"
    if "compact" in str(topic.get(key)) and key not in plan.topic.settings:
        raise PlanError(
            "the cluster compacts topics by default, and what it compacts away would look lost",
            key=f'topic.settings."{key}"',
            hint='set it to "delete"',
        )
