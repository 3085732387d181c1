#!/usr/bin/env python3
"""A Kafka producer with kafka-python, as a program that speaks docs/how-to/any-client.md.

ackloss runs it itself (`workload.client = "kafka-python"`), and it is an example for authors:

ackloss run clients/lose --client "python3 docs/examples/clients/kafka_python_client.py"

On a cluster of yours it then has the password from the environment variable KAFKA_PASSWORD.
"""

import json
import os
import sys
import threading
from typing import Any

import kafka
from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError

# What reaches a cluster of yours (--cluster FILE), without secrets, as kafka-python calls it.
REACH = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "ssl.ca.location": "ssl_cafile",
    "ssl.endpoint.identification.algorithm": "ssl_check_hostname",
}

writing = threading.Lock()


def say(**line: Any) -> None:
    """Write one line, whole: callbacks come from the producer's own thread."""
    text = json.dumps(line)
    with writing:
        print(text, flush=True)


def value_of(keyword: str, text: str) -> Any:
    """A setting as kafka-python takes it."""
    if keyword == "api_version":
        return tuple(map(int, text.split(".")))
    if keyword == "compression_type":
        return None if text == "none" else text
    if text in ("true", "false"):
        return text == "true"
    return text if text == "all" else int(text)


def producer_of(setup: dict[str, Any]) -> KafkaProducer | None:
    """A producer with the settings of the plan, or None after a `failed` line."""
    connection = setup["connection"]
    # kafka-python has Kafka's own names of settings, with underscores.
    given = {name.replace(".", "_"): text for name, text in connection["producer"].items()}
    properties = connection.get("properties", {})
    unknown = sorted(set(given) - set(KafkaProducer.DEFAULT_CONFIG))
    unknown += sorted(set(properties) - set(REACH))
    if unknown:
        say(type="failed", error=f"kafka-python has no setting {unknown[0]}")
        return None
    reach = {REACH[key]: text for key, text in properties.items()}
    if reach:
        reach["ssl_check_hostname"] = reach["ssl_check_hostname"] == "https"
    if "sasl_plain_username" in reach:
        reach["sasl_plain_password"] = os.environ["KAFKA_PASSWORD"]
    reach |= connection.get("keywords", {})  # of ackloss itself, with secrets
    return KafkaProducer(
        bootstrap_servers=connection["bootstrap_servers"],
        client_id=f"ackloss-{setup['client']}.{setup['start']}",
        metrics_enabled=False,
        **{keyword: value_of(keyword, text) for keyword, text in given.items()},
        **reach,
    )


def send(producer: KafkaProducer, topic: str, op: dict[str, Any]) -> None:
    """Hand one write over; its completion is written when the producer knows how it ended."""
    number = op["id"]
    key = op["key"].encode() if "key" in op else None

    def kept(record: Any) -> None:
        known = producer.config["acks"] != 0 and record.offset >= 0
        where = {"position": record.offset} if known else {}
        say(type="ok", id=number, **where)

    try:
        future = producer.send(topic, b"%010d" % op["value"], key, partition=op["partition"])
    except KafkaTimeoutError as error:
        say(type="info", id=number, error=type(error).__name__)
    except (KafkaError, ValueError) as error:  # before it was queued
        say(type="fail", id=number, error=type(error).__name__)
    else:
        future.add_callback(kept)
        future.add_errback(lambda error: say(type="info", id=number, error=type(error).__name__))


def main() -> None:
    """Speak until the close line, or the end of ackloss."""
    setup = json.loads(sys.stdin.readline())
    producer = producer_of(setup)
    if producer is None:
        return
    topic = setup["connection"]["topic"]
    producer.partitions_for(topic)
    say(type="ready", name="kafka-python", version=kafka.__version__)
    for line in sys.stdin:
        op = json.loads(line)
        if op["type"] == "close":
            producer.flush(timeout=2)
            break
        send(producer, topic, op)
    producer.close(timeout=1)


if __name__ == "__main__":
    main()
