"""The reference system: a replicated log and registers with switchable defects, simulated.

settings    settings, and the defects that can be switched on
state       what the controller decides
log         what a replica stores: entries on a simulated disk, registers that follow from them
part        one partition on one replica: follows; elections and epochs
leading     one partition's leader: replicates, commits, acknowledges
replica     a replica's process: session, lease, messages
controller  who is alive, who leads
requests    the clients' side: retries, and what is known when a request ends
clients     clients of the harness over it, for logs, registers and sets
system      all of it on a simulated cluster, and what it reports about itself
plan        its sections of a plan
reading     the final read
target      the plug-in

It exists so that ackloss can be tested against a system whose every fault is known.
"""

from __future__ import annotations

from targets.memory.target import Memory

__all__ = ["Memory"]
