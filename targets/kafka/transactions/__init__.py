"""Transactions on Kafka, by librdkafka (confluent-kafka): the model `transaction`.

settings   what a plan may ask of them, and what producers and consumers are started with
writing    one transactional producer
polling    one consumer that polls on the way, and reads to the end at last
client     a producer or a consumer for each process of the workload
"""
