"""What the proxy before a broker costs, as a ratio: librdkafka writes directly and through it.

One real broker on loopback, without containers: its own JVM, one listener that is reached directly
and one before which the proxy stands, compiled as for a node. The two take turns; each round gives
a ratio, and their median is the result. Flat out (100-byte values, acks=all): bar 0.8. One write at
a time: the median latency of both, of which the proxy's hop is a part; no bar, as it is a share of
whatever else a write takes.

    python -m bench.proxy [ROUNDS]
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer

import harness.levers.protocol as lever
from harness.images.java import BRIEF, kept_jars
from harness.levers.proxied import SOURCES
from targets.kafka.proxy import OURS
from targets.kafka.versions import DEFAULT_VERSION, release_line

BAR = 0.8
ROUNDS = 5
WRITES, ONE_BY_ONE = 500_000, 1_000
VALUE = b"x" * 100
_START_S = 120
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,DIRECT:PLAINTEXT,BEHIND:PLAINTEXT
listeners=DIRECT://127.0.0.1:{direct},BEHIND://127.0.0.1:{behind},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=DIRECT://127.0.0.1:{direct},BEHIND://127.0.0.1:{proxied}
inter.broker.listener.name=DIRECT
offsets.topic.replication.factor=1
log.cleaner.dedupe.buffer.size=2097152
log.dirs={folder}/data
"""


def free_ports(count: int) -> list[int]:
    """Ports of loopback at which nothing listens."""
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(each.getsockname()[1]) for each in held]


@contextmanager
def process(argv: list[str], log: Path) -> Iterator[None]:
    """A process that is ended in the end, in its own session, as brokers are elsewhere."""
    with log.open("wb") as output:
        begun = subprocess.Popen(
            argv,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        finally:
            begun.kill()
            begun.wait()


def _compiled(classes: Path, libs: Path) -> str:
    sources = [*SOURCES.glob("*.java"), *OURS]
    compiler = ["java", *BRIEF, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-nowarn"]
    jars = os.pathsep.join(map(str, libs.glob("*.jar")))
    subprocess.run([*compiler, "-cp", jars, "-d", str(classes), *map(str, sources)], check=True)
    return str(classes)


@contextmanager
def broker_and_proxy(folder: Path, classes: str = "") -> Iterator[tuple[str, str, int]]:
    """Where the broker is reached directly, and through its proxy; the port behind that. With the
    class path of a proxy that is compiled, both are to start soon, not to be fast."""
    libs = kept_jars(release_line(DEFAULT_VERSION).recipe(DEFAULT_VERSION))
    names = ("direct", "behind", "controller", "proxied")
    ports = dict(zip(names, free_ports(4), strict=True))
    config = folder / "server.properties"
    config.write_text(_PROPERTIES.format(folder=folder, **ports))
    options = BRIEF if classes else ("-XX:+UseSerialGC",)
    java = ["java", *options, "-Xmx512m", "-cp", f"{libs}/*"]
    tool = [release_line(DEFAULT_VERSION).format_class, "format", "-t", "ackloss-AAAAAAAAAAAAAA"]
    brief = ["java", *BRIEF, "-cp", f"{libs}/*"]
    subprocess.run([*brief, *tool, "-c", str(config)], check=True, stdout=subprocess.DEVNULL)
    classes = classes or _compiled(folder / "classes", libs)
    data = folder / lever.FOLDER
    pair = f"{ports['proxied']}:127.0.0.1:{ports['behind']}"
    proxy = ["java", *options, "-Xmx64m", "-cp", f"{classes}:{libs}/*", "Proxy"]
    with (
        process([*java, "kafka.Kafka", str(config)], folder / "broker.log"),
        process([*proxy, str(data), "KafkaMessages", pair], folder / "proxy.log"),
    ):
        direct, proxied = (f"127.0.0.1:{ports[name]}" for name in ("direct", "proxied"))
        yield direct, proxied, ports["behind"]


def producer(address: str) -> Producer:
    """One that has written: the topic is there, and its connection."""
    made = Producer(
        {
            "bootstrap.servers": address,
            "acks": "all",
            "queue.buffering.max.messages": 2 * WRITES,
            "log_level": 0,
        }
    )
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        made.produce("bench", VALUE)
        if made.flush(10) == 0:
            return made
    raise SystemExit(f"nothing can be written to {address}")


def flat_out(made: Producer) -> float:
    """Acknowledged writes a second."""
    begun = time.monotonic()
    for _ in range(WRITES):
        made.produce("bench", VALUE)
    if made.flush(_START_S):
        raise SystemExit("not every write was acknowledged")
    return WRITES / (time.monotonic() - begun)


def one_by_one_ms(made: Producer) -> float:
    """The median latency of writes of which each waits for the one before."""
    took = []
    for _ in range(ONE_BY_ONE):
        begun = time.monotonic()
        made.produce("bench", VALUE)
        made.flush(10)
        took.append(1e3 * (time.monotonic() - begun))
    return statistics.median(took)


def main() -> int:
    """Take turns, print both sides and their ratio; 1 if the bar is missed."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as folder, broker_and_proxy(Path(folder)) as where:
        *addresses, behind = where
        sides = [producer(str(address)) for address in addresses]
        for side in sides:
            flat_out(side)  # a warm-up
        ratios, latencies = [], []
        for number in range(1, rounds + 1):
            direct, proxied = (flat_out(side) for side in sides)
            ratios.append(proxied / direct)
            latencies.append(tuple(one_by_one_ms(side) for side in sides))
            print(
                f"round {number}: direct {direct:,.0f}/s, through the proxy {proxied:,.0f}/s, "
                f"ratio {ratios[-1]:.2f}; one by one {latencies[-1][0]:.2f} and "
                f"{latencies[-1][1]:.2f} ms",
                flush=True,
            )
        if f"port {behind} 0:" not in (Path(folder) / lever.FOLDER / "state").read_text():
            raise SystemExit("the proxy met no write")
    median = statistics.median(ratios)
    one, other = (statistics.median(each) for each in zip(*latencies, strict=True))
    verdict = "met" if median >= BAR else "MISSED"
    print(f"proxy, flat out: median ratio {median:.2f}, bar {BAR}: {verdict}")
    print(f"proxy, one write at a time: {other:.2f} ms for {one:.2f} ms, ratio {other / one:.2f}")
    return 0 if median >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
