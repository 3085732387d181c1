"""What the agent that samples a broker's metrics costs: the start of a broker, and how fast it
takes records, with the agent and without it, in turns.

One combined node of the default version a round, in a container of its image: seconds until it
serves, the processor time of its JVM by then, and records a second by Kafka's own
ProducerPerformance (acks=1, 100 bytes), the second of two. Of the agent also its own thread's
processor time a minute. Medians decide; the fastest are printed beside.

    python -m bench.agent [ROUNDS]
"""

from __future__ import annotations

import re
import statistics
import sys
import time
from pathlib import Path
from typing import Final

from harness.images.daemon import one_off
from harness.images.recipe import FILES
from targets.kafka import images
from targets.kafka.configuration import AGENT, METRICS
from targets.kafka.jars import agent_files
from targets.kafka.plan import KafkaTargetPlan
from targets.kafka.versions import DEFAULT_VERSION, release_line

ROUNDS: Final = 8
RECORDS: Final = 300_000
TICKS_A_S: Final = 100
THREAD: Final = "ackloss-metrics"[:15]
Measured = dict[str, float]


def cpu_s(stat: Path) -> float:
    """User and system time in a stat file of /proc."""
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_S


def measured(*, with_agent: bool) -> Measured:
    """One node's start and load."""
    release = release_line(DEFAULT_VERSION)
    image = images.resolve(KafkaTargetPlan.model_validate({"version": DEFAULT_VERSION}))
    archive = images.archive(image)
    agent = f"-javaagent:{FILES}/{AGENT}={FILES}/{METRICS}"
    argv = release.process(
        release.broker_class,
        config=f"{FILES}/server.properties",
        log_config=f"{FILES}/{release.log_file}",
        log_folder=FILES,
        heap_mb=images._HEAP_MB,
        archive=images.ARCHIVE_INSIDE if archive else None,
        flags=[agent] if with_agent else [],
    )
    identity = f"version=1\ncluster.id={images._CLUSTER_ID}\nnode.id=1\n"
    files = {
        "server.properties": images._PROPERTIES.encode(),
        release.log_file: release.log_config.encode(),
        f"data/{release.bootstrap}": images.bootstrap_checkpoint(image, {}),
        "data/meta.properties": identity.encode(),
        **(agent_files(image, print) if with_agent else {}),
    }
    mounts = {archive: images.ARCHIVE_INSIDE} if archive else {}
    begun = time.monotonic()
    with one_off(image.id, argv, files=files, mounts=mounts) as node:
        if not images.serves(node):
            raise SystemExit(f"the node did not start: {node.output()[-300:]}")
        found = {"start s": time.monotonic() - begun}
        pid = node.client.api.inspect_container(node.container)["State"]["Pid"]
        found["start CPU s"] = cpu_s(Path(f"/proc/{pid}/stat"))
        load = [
            *release.java(heap_mb=128),
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", "bench", "--num-records", str(RECORDS), "--record-size", "100"),
            *("--throughput", "-1", "--producer-props", "bootstrap.servers=127.0.0.1:9092"),
            *("acks=1", "enable.idempotence=false"),
        ]
        for _ in range(2):
            _, output = node.run(load)
        found["records/s"] = float(re.findall(r"([\d.]+) records/sec", output)[-1])
        if with_agent:
            threads = Path(f"/proc/{pid}/task").glob("*")
            [own] = [each for each in threads if (each / "comm").read_text().strip() == THREAD]
            minutes = (time.monotonic() - begun) / 60
            found["agent CPU s a minute"] = cpu_s(own / "stat") / minutes
        return found


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    sides: dict[bool, list[Measured]] = {False: [], True: []}
    for _ in range(rounds):
        for with_agent, found in sides.items():
            found.append(measured(with_agent=with_agent))
    for name in sides[True][0]:
        for with_agent, found in sides.items():
            if numbers := [each[name] for each in found if name in each]:
                side = "with the agent" if with_agent else "without"
                best = max(numbers) if name == "records/s" else min(numbers)
                print(f"{name:22} {side:15} {statistics.median(numbers):10.2f}  best {best:.2f}")


if __name__ == "__main__":
    main()
