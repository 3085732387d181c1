"""Groups of consumers on Kafka: each a process of the operating system, or a JVM in a node."""
