"""Clusters on hosts of the user's, over SSH.

inventory    the file that names the hosts: never a plan
connection   one connection to a host, kept, shared by channels, made again when it is lost
shell        root shells that are kept, so that a command costs one round trip
scripts      what runs on a host: a node's namespaces, its process, the lease, the removal
host         a host: commands, files, and what of ours is on it
node         a node on such a host
installation a system that hosts have already
cluster      the nodes of one run
removal      what dead runs left on hosts
"""

from __future__ import annotations

from harness.clusters.ssh.provider import Ssh

__all__ = ["Ssh"]
