"""Writes to Kafka by kafka-python, in pure Python, for every version of Kafka: each client is a
process here, of the program `kafka_python_client.py`, which speaks the documented line protocol.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any, ClassVar, Final

from confluent_kafka import KafkaError

from harness.errors import PlanError
from harness.models import LOG
from harness.protocols import FAIL, Completion, completion
from harness.protocols.clock import RealClock
from harness.run.client_process import ClientLog, ClientProcess, Ready, setup_line
from harness.run.exec_client import ExecClient
from harness.servers import setting_text
from targets.kafka import definitions, wire
from targets.kafka.clients.library import Library, outcome, protocol, refusals
from targets.kafka.definitions import (
    ALL,
    DEFAULTS,
    KAFKA_PYTHON,
    LEADER,
    NOBODY,
    meant,
    place_of,
    requested,
)
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import release_line_of

_PROGRAM: Final = Path(__file__).with_name("kafka_python_client.py")
_BLOCK_MS: Final = "3000"
"""How long handing over a write may wait while the topic is unknown."""

_CODES: Final = {
    "KafkaTimeoutError": KafkaError._MSG_TIMED_OUT,
    "KafkaConnectionError": KafkaError._TRANSPORT,
    "Cancelled": KafkaError._TRANSPORT,
    "NodeNotReadyError": KafkaError._TRANSPORT,
    ValueError.__name__: KafkaError._UNKNOWN_PARTITION,  # from `send` alone
    "IllegalStateError": KafkaError._PURGE_INFLIGHT,  # "Producer is closed forcefully"
}
"""What errors without a code of Kafka's protocol are to librdkafka. All prove nothing."""


def _named(error: str) -> tuple[str, int | None]:
    """An error's name and code, by the name of kafka-python's class: one set for all libraries
    where there is a code."""
    code = _CODES.get(error, getattr(getattr(wire, error, None), "errno", None))
    return (error if code is None else KafkaError(code).name()), code


@dataclass(frozen=True)
class KafkaPython(Library):
    """kafka-python: see `targets.kafka.clients.library`."""

    plugin: ClassVar[str] = "kafka-python"
    naming: ClassVar[definitions.Library] = "kafka-python"

    def check(self, plan: KafkaPlan) -> None:
        for name, why in _wrong(self.settings(plan)):
            raise PlanError(why, key=place_of(name, plan.workload.producer))

    def settings(self, plan: KafkaPlan) -> dict[str, str]:
        """The protocol, if brokers do not report it, and defaults of ackloss; then what is
        requested. Raises PlanError.

        kafka-python has one timeout for a request, where librdkafka has one for the response
        (`socket.timeout.ms`) and one that it sends to the leader (`request.timeout.ms`)."""
        own = requested(plan.workload.producer, "kafka-python")
        if own.get(_REQUEST, own.get(_SOCKET)) != own.get(_SOCKET, own.get(_REQUEST)):
            raise PlanError(
                f"kafka-python has one timeout for both {_REQUEST} and {_SOCKET}",
                key=place_of(_SOCKET, plan.workload.producer),
                hint="set one of them",
            )
        force = {**DEFAULTS, **own}
        socket_ms = force.pop(_SOCKET)
        return {**protocol(plan), **force, _REQUEST: own.get(_REQUEST, socket_ms)}

    def software(self, plan: KafkaPlan) -> str:
        return f"{KAFKA_PYTHON} {installed(KAFKA_PYTHON)}"

    def producing(
        self, addresses: str, plan: KafkaPlan, *, run_id: str = "", more: Mapping[str, Any] = {}
    ) -> ExecClient:
        settings, log = self.settings(plan), ClientLog()
        proof = refusals(self.plugin, settings)
        keywords = {**keyword_arguments(settings), "max_block_ms": _BLOCK_MS}
        given = {name.replace("_", "."): setting_text(value) for name, value in keywords.items()}
        command = (sys.executable, "-P", str(_PROGRAM))

        def settled(type_: str, error: str, _: Ready) -> Completion:
            name, code = _named(error)
            return completion(type_ if type_ == FAIL else outcome(code, proof), error=name)

        def start(number: int, nth: int) -> ClientProcess:
            connection = self.connection(addresses, plan, number)
            connection |= {"producer": {**given}, "keywords": {**more}}
            setup = setup_line(
                run_id=run_id,
                system=plan.target.system,
                version=plan.target.version,
                model=LOG.name,
                client=number,
                clients=plan.workload.clients,
                start=nth,
                connection=connection,
            )
            name = f"ackloss-{number}.{nth}"
            return ClientProcess(command, run_id=run_id, log=log, name=name, setup=setup)

        return ExecClient(
            start,
            places=plan.workload.clients,
            model=LOG.name,
            clock=RealClock(),
            settle=settled,
            positions=release_line_of(plan).offsets_acknowledged,
        )


_REQUEST, _SOCKET = "request.timeout.ms", "socket.timeout.ms"
_IN_FLIGHT: Final = "max.in.flight.requests.per.connection"
_MOST_IN_FLIGHT: Final = 5
_LINGER_MS: Final = "0"  # kafka-python's own default
_ACKS: Final[Mapping[str, int]] = {ALL: -1, LEADER: 1, NOBODY: 0}
_CODECS: Final = ("snappy", "lz4", "zstd")
"""Compressions that need a Python package."""


def keyword_arguments(force: Mapping[str, str]) -> dict[str, Any]:
    """The settings in force by the keywords of `KafkaProducer`."""
    arguments: dict[str, Any] = {
        found.keyword: int(value)
        for name, value in force.items()
        if (found := meant(name)) and found.kind == "number" and found.keyword
    }
    arguments["acks"] = _ACKS[force["acks"]]
    arguments["enable_idempotence"] = force["enable.idempotence"] == "true"
    if (codec := force.get("compression.type", "none")) != "none":
        arguments["compression_type"] = codec
    if speaks := force.get("broker.version.fallback"):
        arguments["api_version"] = speaks
    return arguments


def _wrong(force: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in force.items():
        if (found := meant(name)) and found.kind == "number" and int(value) < 0:
            yield name, f"{name} is below 0"
    in_flight = int(force.get(_IN_FLIGHT, "1"))
    if in_flight == 0:
        yield _IN_FLIGHT, "no request may be under way"
    codec = force.get("compression.type", "none")
    if codec in _CODECS and not getattr(wire, f"has_{codec}")():
        yield "compression.type", f"kafka-python finds no Python package for {codec}"
    if force["enable.idempotence"] == "true":
        if force["acks"] != ALL:
            yield "acks", "an idempotent producer needs acks = all"
        if force.get("retries") == "0":
            yield "retries", "an idempotent producer needs retries"
        if in_flight > _MOST_IN_FLIGHT:
            why = f"an idempotent producer has at most {_MOST_IN_FLIGHT} requests under way"
            yield _IN_FLIGHT, why
    needed_ms = int(force.get("linger.ms", _LINGER_MS)) + int(force[_REQUEST])
    if int(force["message.timeout.ms"]) < needed_ms:
        why = f"kafka-python needs at least linger.ms + {_REQUEST}, {needed_ms} here"
        yield "message.timeout.ms", why
