"""Kafka that somebody else runs: reached by clients alone.

properties  how clients are told to reach it, in the words of each library
session     what the cluster is asked and told, over connections that are kept
asking      what single brokers are asked
topics      the topics of runs: made, removed
guest       the target
"""

from __future__ import annotations

from targets.kafka.external.guest import KafkaGuest

__all__ = ["KafkaGuest"]
