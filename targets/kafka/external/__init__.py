"""Kafka that ackloss did not start: reached by clients alone.

properties  how clients are configured to reach it, in the words of each library
session     queries and requests to the cluster, over connections that are kept
asking      what single brokers are queried for
topics      the topics of runs: created, removed
guest       the target
"""

from __future__ import annotations

from targets.kafka.external.guest import KafkaGuest

__all__ = ["KafkaGuest"]
