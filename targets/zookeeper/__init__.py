"""ZooKeeper as a system under test, and what Kafka's ZooKeeper mode shares with it.

configuration  zoo.cfg, and what a plan may not set      asking    one query to one server
layout         nodes and their files                     seeing    four-letter words: who leads
settings       settings as servers report them           versions  what differs between versions
clients        kazoo without its retries, one client for each model, and the table of errors
members        the lever that changes the ensemble       proxy     faults of single requests
"""

from targets.zookeeper.target import ZooKeeper

__all__ = ["ZooKeeper"]
