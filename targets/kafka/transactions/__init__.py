"""Transactions on Kafka, by librdkafka (confluent-kafka) or the Java client."""
