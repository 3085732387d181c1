"""Apache Kafka: its eras, its files, its administration, its clients and its final read.

target         the plug-in        eras      what differs between versions, as data
images         images, archives   asking    one question to one node
configuration  files of a node    admin     topics, settings, features, who leads
clients        what writes        reading   the final read
"""

from targets.kafka.target import Kafka

__all__ = ["Kafka"]
