"""How an operation ended: from error codes to ok, fail and info, one table per library.

Codes are those of Kafka's protocol, and librdkafka's own (below -1), which other libraries' errors
are translated to.

`fail` means certainly not written, and that needs proof. A broker gives it only when it refused the
*only* attempt with a code that it answers before it appends. Libraries report the code of the last
attempt alone: after a retry, an earlier attempt may have been written (seen: 1,451 answers
NOT_ENOUGH_REPLICAS, three of those values in the log). So with retries or idempotence no code is
proof, and without them it is only where the library is known not to send a write again by itself:

librdkafka    does: with `retries = 0` it sends again after codes 3, 5, 6, 8, 9, 15 and 16 (2.16.1)
              without counting, and reports the last code alone (seen: appended and answered 6, sent
              again, answered 19): no code is proof
kafka-python  does not, but for the halves of a batch that was refused as too large (10, 18)
              (`Sender._dispatch_error`): the whole was refused, so the code of a half speaks for
              each attempt
java          the same, after 10 alone (`Sender.completeBatch`)

Everything else is `info`, unknown codes included. tests/targets/kafka/test_attempts.py sends every
code to each library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from harness.protocols import FAIL, INFO, OK


def attempts_once(effective: Mapping[str, str]) -> bool:
    """Whether these effective settings forbid a producer to retry a write. (Some retry anyway.)"""
    return effective["enable.idempotence"] != "true" and effective.get("retries") == "0"


class Outcome(NamedTuple):
    """ok, fail or info, and why."""

    type: str
    why: str


REFUSED: Final[Mapping[int, str]] = {
    10: "MSG_SIZE_TOO_LARGE: the leader checks sizes before it appends",
    18: "RECORD_LIST_TOO_LARGE: the leader checks the batch against the segment before it appends",
    19: "NOT_ENOUGH_REPLICAS: the ISR was below min.insync.replicas, checked before the append",
    29: "TOPIC_AUTHORIZATION_FAILED: rights are checked before anything else",
    87: "INVALID_RECORD: records are validated before they are appended",
}
"""Codes that a broker answers before it appends: fail, if this was the only attempt."""

REFUSALS: Final[Mapping[str, Mapping[int, str]]] = {
    "librdkafka": {},
    "kafka-python": REFUSED,
    "java": REFUSED,
}
"""By library: the codes that prove a rejection, for a producer that is configured not to retry."""

UNPROVEN: Final[Mapping[int, str]] = {
    3: "UNKNOWN_TOPIC_OR_PART: answered perhaps by one that appended and then lost the topic",
    5: "LEADER_NOT_AVAILABLE: answered perhaps by one that appended and then lost its place",
    6: "NOT_LEADER_FOR_PARTITION: answered perhaps by one that appended and then lost its place",
    7: "REQUEST_TIMED_OUT: appended by the leader, the followers did not confirm in time",
    13: "NETWORK_EXCEPTION: the connection broke, the request may have arrived",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND: appended, and the ISR is below min.insync.replicas",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER: an earlier attempt may have been written",
    46: "DUPLICATE_SEQUENCE_NUMBER: an earlier attempt was written, or was once",
    47: "INVALID_PRODUCER_EPOCH: an earlier attempt may have been written",
    56: "KAFKA_STORAGE_ERROR: the disk failed, perhaps after the append",
    -150: "_FATAL: the producer gave up, attempts may have been written",
    -151: "_PURGE_INFLIGHT: given up while a request was under way",
    -152: "_PURGE_QUEUE: given up while queued, perhaps for another attempt",
    -185: "_TIMED_OUT: nothing was answered in time",
    -192: "_MSG_TIMED_OUT: message.timeout.ms passed, attempts may have been written",
    -195: "_TRANSPORT: the connection broke, the request may have arrived",
}
"""Codes that are met often and prove nothing, with the reason."""


def refusals(library: str, effective: Mapping[str, str]) -> Mapping[int, str]:
    """The codes that prove, for a producer of this library with these effective settings, that a
    write was refused."""
    return REFUSALS[library] if attempts_once(effective) else {}


def outcome(code: int | None, proof: Mapping[int, str]) -> Outcome:
    """What a delivery report with this code means; null: an error without a code. `proof` holds
    the codes that prove a refusal (`refusals`)."""
    if code == 0:
        return Outcome(OK, "acknowledged")
    if code is None:
        return Outcome(INFO, "nothing proves that it was not written")
    if code in proof:
        return Outcome(FAIL, proof[code])
    if code in REFUSED:
        return Outcome(INFO, "the last attempt was refused, an earlier one may have been written")
    return Outcome(INFO, UNPROVEN.get(code, "nothing proves that it was not written"))
