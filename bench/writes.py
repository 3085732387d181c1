"""Recorded, acknowledged writes flat out, beside Kafka's own ProducerPerformance, as a ratio.

The same cluster in the same run: 3 controllers and 3 brokers on this machine, one topic of RF 3 (of
1 partition, then of 3), acks=all, linger 5 ms, no idempotence, 10-byte values. ProducerPerformance
is of the cluster's version and runs in one of its containers; its JVM's start is not counted. What
ackloss does more: it records every invocation and every acknowledgement in Parquet. The two take
turns, each round gives a ratio, and their median is a shape's result: bar 0.5, aim 1.0. Where the
rest goes: the processor time of a write in the thread of the load, in the other threads of ackloss,
and everywhere else; `bench.interpreter` has the part of the first that needs no client.

    python -m bench.writes [ROUNDS]
"""

from __future__ import annotations

import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.processors import Processors
from harness.clusters.docker.cluster import DockerCluster
from harness.errors import HarnessFailure
from harness.history.run_folder import new_run_id
from harness.images.building import infra_image
from harness.images.daemon import connect
from harness.machine import state
from harness.protocols import Cluster
from harness.protocols.clock import RunClock
from harness.run.load import run_workload
from harness.run.recorder import Recorder
from targets.kafka import Kafka
from targets.kafka.plan import KafkaPlan
from workloads.append import Append

BAR, AIM = 0.5, 1.0
ROUNDS = 3
ROUND_S = 10.0

PARTITIONS = (1, 3)


def shape(partitions: int) -> KafkaPlan:
    """The plan of a topic with so many partitions."""
    return KafkaPlan.model_validate(
        {
            "schema": 1,
            "name": "bench-writes",
            "target": {"memory_mb": 1024},
            "topic": {"partitions": partitions, "replication_factor": 3},
            "workload": {
                "processes": 20_000,
                "clients": 1,
                "rate_per_s": 0,
                "duration_s": ROUND_S,
                "producer": {"acks": "all", "linger.ms": 5, "enable.idempotence": False},
            },
        }
    )


TARGET = Kafka()


class Recorded(NamedTuple):
    """Acknowledged writes a second, from the first invocation to the last acknowledgement, and the
    processor seconds of a write: in the thread of the load, in other threads of this process
    (librdkafka's, the recorder's), and elsewhere (brokers)."""

    per_s: float
    load_s: float
    others_s: float
    elsewhere_s: float

    def __str__(self) -> str:
        parts = (self.load_s, self.others_s, self.elsewhere_s)
        load, others, elsewhere = (f"{part * 1e6:.1f} us" for part in parts)
        return (
            f"a write: {load} in the thread of the load, which has {self.load_s * self.per_s:.0%} "
            f"of a core, {others} in other threads of ackloss, {elsewhere} elsewhere"
        )


def recorded(cluster: Cluster, plan: KafkaPlan) -> Recorded:
    """Run the plan's workload in this thread."""
    client = TARGET.client(cluster, plan)
    processors, load_s = Processors(), time.thread_time()
    with tempfile.TemporaryDirectory() as folder:
        clock = RunClock()
        with Recorder(Path(folder), run_id="bench") as recorder:
            report = run_workload(
                Append(),
                client,
                plan=plan,
                recorder=recorder,
                clock=clock,
                stop=threading.Event(),
            )
            took_s = (clock.now_ns() - report.begun_ns) / 1e9
            load_s = time.thread_time() - load_s
            ours_s, elsewhere_s = processors.split()
            acknowledged = len(recorder.written().acknowledged)
        if acknowledged != report.attempted:
            raise HarnessFailure(f"{acknowledged} of {report.attempted} writes acknowledged")
    costs_s = (load_s, ours_s - load_s, elsewhere_s)
    return Recorded(acknowledged / took_s, *(cost_s / acknowledged for cost_s in costs_s))


def producer_performance_per_s(cluster: Cluster, plan: KafkaPlan, *, records: int) -> float:
    """What ProducerPerformance says of itself, run in the first broker's container."""
    broker = cluster.nodes["b1"]
    servers = ",".join(
        f"{node.address}:9092" for node in cluster.nodes.values() if node.name[0] == "b"
    )
    props = [f"bootstrap.servers={servers}", "acks=all", "linger.ms=5", "enable.idempotence=false"]
    done = broker.run(
        [
            *("java", "-Xmx256m", "-cp", "/opt/kafka/libs/*"),
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", plan.topic.name, "--num-records", str(records)),
            *("--record-size", "10", "--throughput", "-1", "--producer-props", *props),
        ]
    )
    totals = re.findall(r"(\d+) records sent, ([\d.]+) records/sec", done.output)
    if done.exit_code or not totals or int(totals[-1][0]) != records:
        raise HarnessFailure(f"ProducerPerformance failed: {done.output[-500:]}")
    return float(totals[-1][1])


@contextmanager
def running_cluster(plan: KafkaPlan) -> Iterator[DockerCluster]:
    """The plan's cluster, up and whole; taken down at the end."""
    run_id = new_run_id()
    with tempfile.TemporaryDirectory() as folder, state.registered(run_id, Path(folder)):
        cluster = DockerCluster(run_id, connect(), infra_image().id)
        try:
            ingredients = TARGET.prepare(plan, lambda _: None)
            addresses = cluster.create_network(TARGET.names(plan))
            specs = TARGET.nodes(plan, ingredients, addresses)
            cluster.start_pods(specs, ingredients.image.id, addresses)
            TARGET.bring_up(cluster, plan, timeout_s=90)
            yield cluster
        finally:
            cluster.down()
            state.forget(run_id)


def measure(plan: KafkaPlan, rounds: int) -> Iterator[tuple[Recorded, float]]:
    """Both sides, ProducerPerformance in writes a second, round by round after a warm-up."""
    with running_cluster(plan) as cluster:
        records = int(recorded(cluster, plan).per_s * ROUND_S)
        producer_performance_per_s(cluster, plan, records=records)
        for _ in range(rounds):
            yield (
                recorded(cluster, plan),
                producer_performance_per_s(cluster, plan, records=records),
            )


def met(partitions: int, rounds: int) -> bool:
    """Take turns on one shape, print both sides and their ratio: whether it meets the bar."""
    ratios = []
    for ours, kafkas in measure(shape(partitions), rounds):
        ratios.append(ours.per_s / kafkas)
        print(
            f"partitions {partitions}, round {len(ratios)}: recorded and acknowledged "
            f"{ours.per_s:,.0f}/s, ProducerPerformance {kafkas:,.0f}/s, ratio {ratios[-1]:.2f}\n"
            f"  {ours}",
            flush=True,
        )
    median = statistics.median(ratios)
    verdict = "met" if median >= BAR else "MISSED"
    print(
        f"writes, partitions {partitions}: median ratio {median:.2f}, "
        f"bar {BAR} (aim {AIM}): {verdict}",
        flush=True,
    )
    return median >= BAR


def main() -> int:
    """Both shapes; 1 if the bar is missed by either."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    shapes = [met(partitions, rounds) for partitions in PARTITIONS]
    return 0 if all(shapes) else 1


if __name__ == "__main__":
    sys.exit(main())
