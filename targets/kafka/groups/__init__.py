"""Groups of consumers on Kafka: one process of the operating system for each consumer.

settings    what a plan may ask, and what consumers are started with
lines       what a consumer's process writes: one line an event
librdkafka  the process, over confluent-kafka
python      the same, over kafka-python
process     such a process as the harness holds it: started, killed, stopped, made to leave
group       all consumers of one group, and how far they are
offsets     what each broker reports as committed, queried raw; who coordinates a group
"""
