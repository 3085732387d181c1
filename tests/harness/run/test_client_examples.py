"""The examples of docs/examples/clients, each in its language and with its library, against a fake
broker. On real Kafka: tests/e2e/test_any_client.py."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.errors import EnvironmentFailure
from harness.images.java import kept_jars
from harness.images.recipe import Recipe
from harness.protocols import Completion, invoke
from harness.protocols.clock import RealClock
from harness.protocols.runs import Conduct
from harness.run.client_process import ClientLog, ClientProcess, setup_line
from harness.run.exec_client import ExecClient, Notes
from targets.kafka.clients.library import ANY_DEFAULTS as DEFAULTS
from tests.fixtures.fake_kafka import Answer, FakeKafka, fake_kafka
from tests.fixtures.java_driver import JAVA, JAVAC

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[3] / "docs/examples/clients"
AT_MOST_S = 30.0
BUILD_S = 300


@dataclass(frozen=True)
class Example:
    """A client that is ready to be run, and what it says it is."""

    argv: tuple[str, ...]
    software: str


def python(_: Path) -> Example:
    return Example((sys.executable, str(EXAMPLES / "kafka_python_client.py")), "kafka-python ")


def confluent(_: Path) -> Example:
    argv = (sys.executable, str(EXAMPLES / "confluent_kafka_client.py"))
    return Example(argv, "confluent-kafka ")


def java(folder: Path) -> Example:
    """Compiled with the jars that its pom.xml names, which the cache keeps."""
    pom = (EXAMPLES / "java" / "pom.xml").read_text().partition("<dependencies>")[2]
    named = r"<groupId>(.+)</groupId>\s*<artifactId>(.+)</artifactId>\s*<version>(.+)</version>"
    coordinates = tuple(map(":".join, re.findall(named, pom)))
    jars = kept_jars(Recipe(name="java-example", packages=(), jars=coordinates))
    source = str(EXAMPLES / "java" / "KafkaClient.java")
    build([*JAVAC, "-cp", f"{jars}/*", "-d", "classes", source], folder)
    argv = (*JAVA, "-cp", f"{folder}/classes:{jars}/*", "KafkaClient")
    return Example(argv, "kafka-clients 4.3.1")


def go(folder: Path) -> Example:
    """Built with franz-go as Go's module proxy has it."""
    build(["go", "build", "-o", str(folder / "client"), "."], EXAMPLES / "go")
    return Example((str(folder / "client"),), "franz-go v1.15.4")


def javascript(folder: Path) -> Example:
    """Installed with KafkaJS as npm has it."""
    return Example(by_npm("javascript", folder), "kafkajs 2.2.4")


def platformatic(folder: Path) -> Example:
    """Installed with @platformatic/kafka as npm has it: the release that the example uses."""
    return Example(by_npm("platformatic", folder), "@platformatic/kafka 2.4.0")


def by_npm(example: str, folder: Path) -> tuple[str, ...]:
    for name in ("package.json", "client.js"):
        shutil.copy(EXAMPLES / example / name, folder)
    build(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], folder)
    return ("node", str(folder / "client.js"))


def build(argv: list[str], folder: Path) -> None:
    subprocess.run(argv, cwd=folder, check=True, timeout=BUILD_S, stdin=subprocess.DEVNULL)


@pytest.fixture(
    scope="module",
    params=[
        python,
        confluent,
        pytest.param(java, marks=pytest.mark.java),
        pytest.param(go, marks=[pytest.mark.full, pytest.mark.go]),
        pytest.param(javascript, marks=[pytest.mark.full, pytest.mark.node]),
        pytest.param(platformatic, marks=[pytest.mark.full, pytest.mark.node]),
    ],
    ids=lambda build: build.__name__,
)
def example(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Example:
    made: Example = request.param(tmp_path_factory.mktemp("client"))
    return made


@dataclass
class Running:
    """An example under way."""

    client: ExecClient
    notes: Notes
    ended: dict[int, Completion] = field(default_factory=dict)

    def write(self, count: int, partitions: int = 1) -> list[Completion]:
        """The completions of as many writes, in flight side by side."""
        for process in range(count):
            op = invoke("append", process, process % partitions)
            assert self.client.submit(process, op)
        deadline = time.monotonic() + AT_MOST_S
        while len(self.ended) < count:
            assert time.monotonic() < deadline, (self.ended, self.notes.conduct())
            self.client.poll(0.05, self.ended.__setitem__)
        return [self.ended[process] for process in range(count)]

    def close(self) -> Conduct:
        self.client.close(2.0, self.ended.__setitem__)
        return self.notes.conduct()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    begun: list[ExecClient] = []

    def begin(
        broker: FakeKafka,
        argv: tuple[str, ...],
        properties: Mapping[str, str] | None = None,
        **settings: str,
    ) -> Running:
        notes, log = Notes(RealClock()), ClientLog(tmp_path / "client.log")
        setup = setup_line(
            run_id="test",
            system="kafka",
            version="4.3.1",
            model="log",
            client=1,
            clients=1,
            start=1,
            answer_within_s=AT_MOST_S,
            connection={
                "bootstrap_servers": [broker.address],
                "topic": broker.topic,
                "partitions": broker.partitions,
                "producer": {**DEFAULTS, **settings},
                **({} if properties is None else {"properties": {**properties}}),
            },
        )
        client = ExecClient(
            lambda *_: ClientProcess(argv, run_id="test", log=log, name="c", setup=setup),
            places=1,
            model="log",
            answer_within_s=AT_MOST_S,
            clock=RealClock(),
            notes=notes,
        )
        begun.append(client)
        return Running(client, notes)

    yield begin
    for client in begun:
        client.end()


def test_an_example_writes_what_it_is_asked_to(
    run: Callable[..., Running], example: Example
) -> None:
    with fake_kafka(partitions=2) as broker:
        running = run(broker, example.argv)
        ended = running.write(100, partitions=2)
        conduct = running.close()
        assert [each[0] for each in ended] == ["ok"] * 100
        assert conduct.clean, conduct
        assert conduct.software.startswith(example.software)
        for partition in (0, 1):
            written = [b"%010d" % value for value in range(partition, 100, 2)]
            assert sorted(filter(None, broker.values(partition))) == written
            for value in range(partition, 100, 2):  # the position is the record's own
                position = ended[value][1]
                assert position is not None
                assert broker.values(partition)[position] == b"%010d" % value
        assert {request.acks for request in broker.produced} == {-1}


def test_an_example_says_info_when_it_cannot_know(
    run: Callable[..., Running], example: Example
) -> None:
    """Refused in the last attempt, appended in the first: `fail` would be wrong."""
    with fake_kafka() as broker:
        limits = {"delivery.timeout.ms": "3000", "request.timeout.ms": "1000"}
        running = run(broker, example.argv, **limits)
        broker.script.extend([Answer(7), *[Answer(19, appends=False)] * 1000])
        (ended,) = running.write(1)
        conduct = running.close()
    assert ended[0] == "info"
    assert ended[2]
    assert broker.values() == [b"0000000000"]
    assert conduct.clean, conduct


def test_an_example_heeds_acks(run: Callable[..., Running], example: Example) -> None:
    with fake_kafka() as broker:
        running = run(broker, example.argv, acks="1")
        assert running.write(1)[0][0] == "ok"
        running.close()
    assert {request.acks for request in broker.produced} == {1}


def test_an_example_says_so_when_it_cannot_reach_the_requested_cluster(
    run: Callable[..., Running], example: Example
) -> None:
    """It must not speak plain text where TLS is asked for, nor leave a property out."""
    reported = {"security.protocol": "SSL", "ssl.crl.location": "/nowhere.pem"}
    with fake_kafka() as broker, pytest.raises(EnvironmentFailure) as refused:
        run(broker, example.argv, reported)
    assert re.search("it cannot be a client: .*(SSL|ssl.crl.location)", str(refused.value))


def test_the_liar_says_ok_to_what_is_not_there(run: Callable[..., Running]) -> None:
    with fake_kafka() as broker:
        running = run(broker, (sys.executable, str(EXAMPLES / "liar.py")))
        broker.script.extend([Answer(19, appends=False)] * 1000)
        ended = running.write(10)
        conduct = running.close()
    assert [each[0] for each in ended] == ["ok"] * 10
    assert broker.values() == []
    assert not conduct.lies  # it keeps to the protocol
