#!/usr/bin/env python3
"""A Kafka producer for `ackloss run --client`, with confluent-kafka, which is librdkafka.

ackloss run clients/lose --client "python3 docs/examples/clients/confluent_kafka_client.py"

librdkafka has most of Kafka's names of settings. It resends after some errors without counting the
attempt, so its error proves nothing about an earlier attempt: it is `info`, never `fail`. On a
cluster of yours the password comes from the environment variable KAFKA_PASSWORD.
"""

import json
import os
import queue
import sys
import threading

import confluent_kafka

# Kafka's names of settings that librdkafka spells in another way, or does not have.
NAMES = {"max.block.ms": None, "delivery.timeout.ms": "message.timeout.ms"}


def say(**line):
    """Write one line. All come from the main thread."""
    print(json.dumps(line), flush=True)


def producer_of(setup):
    """A producer with the settings of the plan. Raises KafkaException for one that it lacks."""
    connection = setup["connection"]
    settings = {
        name: text
        for key, text in connection["producer"].items()
        if (name := NAMES.get(key, key)) is not None
    }
    settings |= connection.get("properties", {})
    if "sasl.username" in settings:
        settings["sasl.password"] = os.environ["KAFKA_PASSWORD"]
    return confluent_kafka.Producer(
        {
            **settings,
            "bootstrap.servers": ",".join(connection["bootstrap_servers"]),
            "client.id": f"ackloss-{setup['client']}.{setup['start']}",
        }
    )


def send(producer, topic, op):
    """Hand one write over; its completion is written when librdkafka knows how it ended."""

    def ended(error, message):
        if error is None:
            say(type="ok", id=op["id"], position=max(0, message.offset()))
        else:
            say(type="info", id=op["id"], error=error.name())

    try:
        producer.produce(
            topic, b"%010d" % op["value"], op.get("key"), op["partition"], on_delivery=ended
        )
    except BufferError:  # its queue is full: it was not accepted
        say(type="fail", id=op["id"], error="_QUEUE_FULL")


def main():
    setup = json.loads(sys.stdin.readline())
    try:
        producer = producer_of(setup)
        producer.list_topics(setup["connection"]["topic"], timeout=30)
    except confluent_kafka.KafkaException as error:
        say(type="failed", error=str(error)[:200])
        return
    say(type="ready", name="confluent-kafka", version=confluent_kafka.__version__)
    lines = queue.SimpleQueue()  # stdin is read beside the producer's callbacks

    def read():
        for line in sys.stdin:
            lines.put(json.loads(line))
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            op = lines.get(timeout=0.005)
        except queue.Empty:
            producer.poll(0)
            continue
        if op is None:
            os._exit(0)
        if op["type"] == "close":
            producer.flush(2)
            os._exit(0)
        send(producer, setup["connection"]["topic"], op)
        producer.poll(0)


if __name__ == "__main__":
    main()
