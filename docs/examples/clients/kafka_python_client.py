#!/usr/bin/env python3
"""A Kafka producer for `ackloss run --client`, with kafka-python (docs/how-to/any-client.md).

ackloss run clients/lose --client "python3 docs/examples/clients/kafka_python_client.py"

On a cluster of yours it has the password from the environment variable KAFKA_PASSWORD.
"""

import json
import os
import sys
import threading

import kafka
from kafka import KafkaProducer

# Kafka's names of settings, and kafka-python's.
NAMES = {
    "acks": "acks",
    "enable.idempotence": "enable_idempotence",
    "retries": "retries",
    "retry.backoff.ms": "retry_backoff_ms",
    "delivery.timeout.ms": "delivery_timeout_ms",
    "request.timeout.ms": "request_timeout_ms",
    "max.block.ms": "max_block_ms",
    "linger.ms": "linger_ms",
    "batch.size": "batch_size",
    "max.in.flight.requests.per.connection": "max_in_flight_requests_per_connection",
    "compression.type": "compression_type",
    "metadata.max.age.ms": "metadata_max_age_ms",
}

# The same for what reaches a cluster of yours (--cluster FILE); without secrets.
REACH = {
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.username": "sasl_plain_username",
    "ssl.ca.location": "ssl_cafile",
    "ssl.endpoint.identification.algorithm": "ssl_check_hostname",
}

writing = threading.Lock()


def say(**line):
    """Write one line, whole: callbacks come from the producer's own thread."""
    with writing:
        print(json.dumps(line), flush=True)


def value_of(setting, text):
    """A setting as kafka-python takes it."""
    if setting == "acks":
        return "all" if text == "all" else int(text)
    if setting == "compression.type":
        return None if text == "none" else text
    return text == "true" if text in ("true", "false") else int(text)


def producer_of(setup):
    """A producer with the settings of the plan, or None after a `failed` line."""
    connection = setup["connection"]
    unknown = sorted(set(connection["producer"]) - set(NAMES))
    properties = connection.get("properties", {})
    unknown += sorted(set(properties) - set(REACH))
    if unknown:
        say(type="failed", error=f"kafka-python has no setting {unknown[0]}")
        return None
    reach = {REACH[key]: text for key, text in properties.items()}
    if reach:
        reach["ssl_check_hostname"] = reach["ssl_check_hostname"] == "https"
    if "sasl_plain_username" in reach:
        reach["sasl_plain_password"] = os.environ["KAFKA_PASSWORD"]
    settings = {NAMES[key]: value_of(key, text) for key, text in connection["producer"].items()}
    return KafkaProducer(
        bootstrap_servers=connection["bootstrap_servers"],
        client_id=f"ackloss-{setup['client']}.{setup['start']}",
        **settings,
        **reach,
    )


def send(producer, topic, op):
    """Hand one write over; its completion is written when the producer knows how it ended."""
    number = op["id"]
    key = op["key"].encode() if "key" in op else None
    try:
        future = producer.send(topic, b"%010d" % op["value"], key, partition=op["partition"])
    except Exception as error:  # refused before it was queued, or not: only its author knows
        say(type="info", id=number, error=type(error).__name__)
        return
    future.add_callback(lambda record: say(type="ok", id=number, position=max(0, record.offset)))
    future.add_errback(lambda error: say(type="info", id=number, error=type(error).__name__))


def main():
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
