"""A producer whose broker does not answer leaves the processors to others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from targets.kafka.clients.producer_settings import effective_settings

BROKER = """
import time
from confluent_kafka import Producer
mock = Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1, "log_level": 0})
for broker in mock.list_topics(timeout=10).brokers.values():
    print(f"{broker.host}:{broker.port}", flush=True)
time.sleep(60)
"""
SILENT_S = 2.0


@pytest.fixture
def broker() -> Iterator[tuple[str, int]]:
    """The address of librdkafka's mock broker, and its process, which can be stopped."""
    with subprocess.Popen([sys.executable, "-c", BROKER], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().decode().strip(), process.pid
        finally:
            process.kill()


def of_librdkafka_s() -> float:
    """The processor time so far of all threads of librdkafka in this process."""
    stats = [path.read_text() for path in Path("/proc/self/task").glob("*/stat")]
    ticks = [stat.rpartition(")")[2].split()[11:13] for stat in stats if "(rdk:" in stat]
    return sum(int(user) + int(system) for user, system in ticks) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("idempotent", [True, False])
def test_it_does_not_poll_without_waiting(broker: tuple[str, int], idempotent: bool) -> None:
    """With 5 requests in flight an idempotent producer takes all of `SILENT_S` here."""
    address, pid = broker
    settings = effective_settings({"enable.idempotence": idempotent})
    producer = Producer({**settings, "bootstrap.servers": address, "log_level": 0})
    producer.produce("t", b"first", partition=0)
    assert producer.flush(20) == 0
    os.kill(pid, signal.SIGSTOP)
    before_s, until = of_librdkafka_s(), time.monotonic() + SILENT_S
    while time.monotonic() < until:
        producer.produce("t", b"next", partition=0)
        producer.poll(0.02)
    took_s = of_librdkafka_s() - before_s
    os.kill(pid, signal.SIGCONT)
    producer.purge()
    producer.flush(10)
    assert took_s < SILENT_S / 5
