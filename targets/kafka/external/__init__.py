"""Kafka that ackloss did not start: reached by clients alone."""

from __future__ import annotations

from targets.kafka.external.guest import KafkaGuest

__all__ = ["KafkaGuest"]
