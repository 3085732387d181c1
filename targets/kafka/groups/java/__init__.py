"""Kafka's own Java consumer: each in its own JVM, in a node of the cluster.

Member.java  the program in a node: a consumer for each connection, which reports what it does
nodes        the nodes m1, m2 ..., and the program's jar, compiled once per image
member       one life of such a consumer, as the harness holds it
"""
