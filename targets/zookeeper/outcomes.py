"""How an operation ended: from ZooKeeper's error codes to fail and info.

`fail` means certainly not applied. A server gives that proof by a code that it returns while it
prepares a request (`PrepRequestProcessor`): the transaction becomes an error and changes nothing.
kazoo sends each request once (its retry layer, `KazooClient.retry`, is not used), and a session's
requests are answered in order, so the code belongs to the only attempt. Everything else is `info`:
the request may have been applied, or may be later. tests/targets/zookeeper/test_outcomes.py answers
every code from a server that applies first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from harness.protocols import FAIL, INFO, Completion, completion

REFUSED: Final[Mapping[int, str]] = {
    -6: "Unimplemented: the server does not have this request",
    -8: "BadArguments: the path is checked before the transaction is made",
    -101: "NoNode: there is no znode to change, or no parent to create it in",
    -102: "NoAuth: rights are checked before the transaction is made",
    -103: "BadVersion: the expected version is compared before the transaction is made",
    -108: "NoChildrenForEphemerals: the parent is checked before the transaction is made",
    -110: "NodeExists: the path was taken before this request",
    -111: "NotEmpty: a znode with children is not deleted",
    -114: "InvalidACL: rights are checked before the transaction is made",
    -119: "NotReadOnly: a server without a quorum refuses writes",
    -125: "QuotaExceeded: quotas are checked before the transaction is made",
    -127: "ThrottledOp: the request was dropped from the queue, and answered in its place",
}
"""Codes that a server returns without applying the request."""

UNPROVEN: Final[Mapping[int, str]] = {
    -1: "SystemError: says nothing of what came before it",
    -2: "RuntimeInconsistency: says nothing of what came before it",
    -3: "DataInconsistency: says nothing of what came before it",
    -4: "ConnectionLoss: kazoo's own: the connection was lost after the request was queued",
    -5: "MarshallingError: the answer, not the request, may be what could not be read",
    -7: "OperationTimeout: says nothing of what came before it",
    -112: "SessionExpired: the request may have been applied before the session ended",
    -115: "AuthFailed: ends the connection, whatever was under way in it",
    -118: "SessionMoved: another connection of the session may have been faster",
    -122: "RequestTimeout: says nothing of what came before it",
}
"""Codes that prove nothing, and why."""

NOT_CONNECTED: Final = "NotConnected"
"""The error of an operation that was not handed to kazoo, because there was no connection."""


def outcome(error: Exception) -> Completion:
    """How an operation ended for which kazoo raised this exception."""
    code = getattr(error, "code", None)
    name = type(error).__name__.removesuffix("Error")
    return completion(FAIL if code in REFUSED else INFO, error=name)
