"""ZooKeeper as a system under test, and what Kafka's ZooKeeper mode shares with it.

configuration  zoo.cfg, and what a plan may not set      asking    one query to one server
layout         nodes and their files                     words     four-letter words
settings       settings as servers report them           seeing    who leads
session        kazoo without its retries                 clients   one for each model
outcomes       error codes: fail or info                 versions  what differs between versions
levers         what faults of single requests need to know
"""

from targets.zookeeper.target import ZooKeeper

__all__ = ["ZooKeeper"]
