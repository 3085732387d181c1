"""ZooKeeper as a system under test, and what Kafka's ZooKeeper mode shares with it.

configuration  versions, settings, files and commands of servers
asking         one query to one server      seeing   four-letter words: who leads
clients        kazoo without its retries, one client for each model, and the table of errors
members        the lever that changes the ensemble      proxy    faults of single requests
"""

from targets.zookeeper.target import ZooKeeper

__all__ = ["ZooKeeper"]
