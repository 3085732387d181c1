"""Which errors the answers of some APIs carry, as a table to be checked against Kafka's sources.

From the lists of possible errors in the classes of kafka-clients that make these answers
(`org.apache.kafka.common.requests.ProduceResponse` and so on, 4.3), with what their clients handle
besides. Of an API that is not here nothing is known, so no error but `UNEXPECTED` may be named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SAME: Final[Mapping[str, int]] = {
    "NOT_LEADER_OR_FOLLOWER": 6,
    "MESSAGE_TOO_LARGE": 10,
    "INVALID_TOPIC_EXCEPTION": 17,
    "UNKNOWN_SERVER_ERROR": -1,
}
"""Names of Kafka's own for what kafka-python calls otherwise."""

_STORAGE: Final = frozenset({3, 6, 29, 56, 74, 75, 100})
_GROUP: Final = frozenset({14, 15, 16, 24, 30})
_COORDINATOR: Final = frozenset({7, 14, 15, 16, 42, 53, 90, 47, 120})

CARRIED: Final[Mapping[str, frozenset[int]]] = {
    "Produce": _STORAGE
    | {2, 5, 7, 10, 17, 18, 19, 20, 21, 31, 32, 42, 43, 44, 45, 46, 47, 48, 49, 51, 53, 59, 76}
    | {87, 90, 103, 120},
    "Fetch": _STORAGE | {1, 2, 7, 9, 35, 70, 71, 76, 103, 106, 109},
    "EndTxn": _COORDINATOR | {48, 49, 51, 52},
    "InitProducerId": _COORDINATOR | {31, 49, 50, 51},
    "AddPartitionsToTxn": _COORDINATOR | {3, 29, 48, 49, 51, 55},
    "FindCoordinator": frozenset({7, 14, 15, 24, 30, 42, 53}),
    "AddOffsetsToTxn": _COORDINATOR | {30, 48, 49, 51},
    "TxnOffsetCommit": _COORDINATOR | {3, 12, 22, 25, 28, 29, 30, 82},
    "OffsetCommit": _GROUP | {3, 12, 22, 25, 27, 28, 29, 82, 100, 113},
    "OffsetFetch": _GROUP | {3, 25, 29, 88, 100, 113},
    "JoinGroup": _GROUP | {22, 23, 24, 25, 26, 27, 35, 79, 81, 82},
    "SyncGroup": _GROUP | {22, 23, 25, 27, 82},
    "Heartbeat": _GROUP | {22, 25, 27, 82},
    "LeaveGroup": _GROUP | {25, 82},
    "ConsumerGroupHeartbeat": _GROUP | {25, 29, 42, 81, 110, 111, 112},
    "ListOffsets": frozenset({1, 3, 5, 6, 9, 29, 35, 43, 56, 74, 75, 78}),
    "Metadata": frozenset({3, 5, 17, 29, 72, 100}),
}
"""The numbers of the errors by API; -1, an unexpected failure, is carried by all."""
UNEXPECTED: Final = -1
