"""Kafka's own Java client: producers in separate JVMs, each in a node of the cluster.

Driver.java  the program in a node: a producer for each connection, which reads writes
             line by line
lines        one such connection: its beginning, writes there, answers back
producers    the client of the workload: its processes over the connections that stand
nodes        the nodes k1, k2 ... and the driver's jar, compiled once per image
"""

from targets.kafka.clients.java.library import Java

__all__ = ["Java"]
