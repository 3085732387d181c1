#!/usr/bin/env python3
"""A Kafka client that lies: it says ok before it has sent anything.

It keeps to the protocol, so only the count of what is there can find it out
(docs/how-to/any-client.md):

    ackloss run clients/lose --client "python3 docs/examples/clients/liar.py"   # invalid
"""

import kafka_python_client as honest


def send_and_lie(producer, topic, op):
    honest.say(type="ok", id=op["id"])
    key = op["key"].encode() if "key" in op else None
    try:  # nobody hears how it ends
        producer.send(topic, b"%010d" % op["value"], key, partition=op["partition"])
    except Exception as error:
        print(f"operation {op['id']}: {error!r}", file=honest.sys.stderr)


honest.send = send_and_lie
honest.main()
