"""The Java client as a library of Kafka's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

from harness.errors import HarnessFailure, PlanError
from harness.images.steps import Say
from harness.plan import number_of
from harness.protocols import (
    Client,
    Cluster,
    ImageRef,
    Ingredients,
    Node,
    NodeSpec,
)
from targets.kafka import definitions
from targets.kafka.acks import ALL, acks_of
from targets.kafka.clients.java import nodes
from targets.kafka.clients.java.lines import DRIVER_PORT, JAVA, Line, Lost, Refused
from targets.kafka.clients.java.producers import START_S, JavaClient
from targets.kafka.clients.library import Library, bootstrap, bootstrap_of
from targets.kafka.definitions import canonical, place_of, requested
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import ReleaseLine

_MOST: Final = 9
_OLDEST: Final = "2.0.0"
_DELIVERY, _REQUEST = "delivery.timeout.ms", "request.timeout.ms"
_REQUEST_MS, _LINGER_MS = 30_000, 5  # Java's own defaults
_UNSAID: Final = r"(ssl|sasl|security|bootstrap|key|value)\..*|client\.id"


@dataclass(frozen=True)
class Java(Library):
    """kafka-clients, the Java client: see `targets.kafka.clients.library` and `.nodes`."""

    plugin: ClassVar[str] = JAVA
    naming: ClassVar[definitions.Library] = "java"

    def check(self, plan: KafkaPlan) -> None:
        """Refuse settings, too many clients, and versions too old for the driver."""
        requested_settings(plan.workload.producer)
        version = plan.target.version
        if version and number_of(version) < number_of(_OLDEST):
            raise PlanError(
                f"the Java client needs Kafka {_OLDEST} or later, not {version}",
                key="workload.client",
                hint='client = "librdkafka"',
            )
        check_count(plan)

    def settings(self, plan: KafkaPlan) -> dict[str, str]:
        """What the plan requests, and almost nothing else."""
        return requested_settings(plan.workload.producer)

    def reported_settings(self, plan: KafkaPlan, cluster: Cluster) -> dict[str, str]:
        """What a producer of the first client's reports."""
        node = cluster.nodes[nodes.names(plan)[0]]
        begin = partial(_begin, node, 0, bootstrap(cluster), plan, 0)
        return reported_by(begin, plan.workload.producer, self.software(plan))

    def software(self, plan: KafkaPlan) -> str:
        """kafka-clients in the version of the brokers, whose image it is of."""
        return f"kafka-clients {plan.target.version or f'of {plan.target.image}'} (Java)"

    def client(self, cluster: Cluster, plan: KafkaPlan) -> Client:
        """A producer in every client's node, shared by the processes."""
        addresses = bootstrap(cluster)
        clients = [cluster.nodes[name] for name in nodes.names(plan)]
        return JavaClient(
            [partial(_begin, node, n, addresses, plan) for n, node in enumerate(clients)]
        )

    def names(self, plan: KafkaPlan) -> list[str]:
        """k1 ... for clients."""
        return nodes.names(plan)

    def files(self, plan: KafkaPlan, image: ImageRef, say: Say) -> dict[str, bytes]:
        """The jar of the program that its nodes run."""
        return {nodes.program(plan).jar: nodes.jar(plan, image, say)}

    def nodes(
        self, plan: KafkaPlan, release: ReleaseLine, ingredients: Ingredients
    ) -> list[NodeSpec]:
        """A JVM for each client."""
        return nodes.specs(plan, release, ingredients)


def reported_by(
    begin: Callable[[float], Line], given: Mapping[str, Any], software: str
) -> dict[str, str]:
    """The settings that a producer reports, where a plan has `given` settings. Raises PlanError and
    HarnessFailure."""
    try:
        line = begin(START_S)
    except Refused as error:
        raise javas_refusal(str(error), given) from error
    except Lost as error:
        raise HarnessFailure(f"the Java client did not start: {error}") from error
    line.socket.close()
    return checked_settings(line.reported, given, software)


def requested_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """What the producers are given: all that the plan requests, and nothing else, since the point
    of this client is what it does by itself.

    One thing more where it must be: Java refuses a delivery.timeout.ms below request.timeout.ms +
    linger.ms, so a plan that only shortens the first has the second shortened with it. Raises
    PlanError."""
    own = requested(settings, "java")
    if _DELIVERY in own and _REQUEST not in own:
        left = int(own[_DELIVERY]) - int(own.get("linger.ms", _LINGER_MS))
        if 0 < left < _REQUEST_MS:
            own[_REQUEST] = str(left)
    return own


def checked_settings(
    reported: Mapping[str, str], plan_settings: Mapping[str, Any], software: str
) -> dict[str, str]:
    """The settings that a producer reports, but for addresses, names and what no plan may set.

    Raises PlanError for a setting that its version does not know, or took for another value.
    """
    for name, wanted in requested(plan_settings, "java").items():
        place = place_of(name, plan_settings, "java")
        if name not in reported:
            raise PlanError(f"{software} does not know this setting", key=place)
        if reported[name] != ("-1" if wanted == ALL else wanted):
            raise PlanError(
                f"{software} has {reported[name]!r}, but {wanted!r} was requested", key=place
            )
    return {
        name: acks_of(value) or value if name == "acks" else value
        for name, value in reported.items()
        if value not in ("null", "") and not re.fullmatch(_UNSAID, name)
    }


def javas_refusal(sentence: str, settings: Mapping[str, Any]) -> PlanError:
    """The Java client's own sentence, at the plan's key that it is about."""
    names = (canonical(key, "java") for key in settings)
    name = next((each for each in names if each in sentence), "")
    place = place_of(name, settings, "java")
    return PlanError(f"the Java client refuses it: {sentence}", key=place)


def check_count(plan: KafkaPlan) -> None:
    """Refuse more clients than there may be. Raises PlanError."""
    if plan.workload.clients > _MOST:
        raise PlanError(
            f"{plan.workload.clients} Java clients are too many: each has its own node",
            key="workload.clients",
            hint=f"at most {_MOST}",
        )


def _begin(
    node: Node, client: int, addresses: str, plan: KafkaPlan, begun: int, within_s: float
) -> Line:
    """The nth producer of a client, counted from 0."""
    settings = {
        **Java().settings(plan),
        "bootstrap.servers": bootstrap_of(client, addresses, plan),
        "client.id": f"ackloss-{client + 1}.{begun}",
    }
    where = (node.address, DRIVER_PORT)
    return Line(where, plan.topic.name, settings, within_s=within_s)
