"""Requests of Kafka's that kafka-python does not have, as JSON schemas."""
