"""The reference system: a replicated log and registers with switchable defects, simulated.

settings            settings, and the defects that can be switched on
controller          who is alive, who leads
log, transactions   what a replica stores of one partition, and what follows from it
leading, replica    one partition's leader; a replica's process, session and lease
clients, consumers, transaction_client   the harness' clients, and what is known when a request ends
system              all of it on a simulated cluster, and what it reports about itself
plan, vocabulary, target   the plug-in and the final read

It exists so that ackloss can be tested against a system whose every fault is known.
"""

from __future__ import annotations

from targets.memory.target import Memory

__all__ = ["Memory"]
