"""Apache Kafka: its eras, its files, its administration, its clients and its final read."""
