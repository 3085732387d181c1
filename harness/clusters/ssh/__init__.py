"""Clusters on hosts of the user's, over SSH.

provider     the kind of cluster
inventory    the file that names the hosts: never a plan
connection   one connection to a host, kept, shared by channels, made again when it is lost
scripts      what runs on a host: a node's namespaces, its process, the lease, the removal
host         a host: commands, files, and what of ours is on it; a node on it
equipment    what a host must have, has and lacks; a system that it has already
cluster      the nodes of one run, and the removal of what dead runs left
"""

from __future__ import annotations

from harness.clusters.ssh.provider import Ssh

__all__ = ["Ssh"]
