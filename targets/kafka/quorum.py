"""What a node leaves of KRaft's quorum: its metadata log, its vote, and each state that it logged.

Kafka logs every change of a replica's state, `Completed transition to STATE from STATE`, and before
that stores its epoch and vote in `quorum-state`. So the logs of all lives of a process show the
votes that an overwritten file no longer has. Brokers replicate the metadata log without a vote.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import orjson
from crc32c import crc32c

from harness.history.quorum import QuorumBatch, QuorumMember, QuorumState, quorum_document
from harness.protocols import Node
from targets.kafka.record_sets import (
    BATCH,
    CHECKED_AT,
    CONTROL,
    LOG_OVERHEAD,
    NotARecord,
    marker,
)

LOG_FOLDER: Final = "data/__cluster_metadata-0"
_META: Final = "data/meta.properties"
_LEADER_CHANGE: Final = 2

_STATE: Final = re.compile(r"(\w+?)(?:State)?\(")
_EPOCH: Final = re.compile(r"\bepoch=(\d+)")
_LEADER: Final = re.compile(r"\bleader(?:Id)?=(?:OptionalInt\[)?(\d+)")
_VOTED: Final = re.compile(r"\bvoted(?:Key=(?:Optional\[)?ReplicaKey\(id|Id)=(\d+)")
_VOTERS: Final = re.compile(r"\bvoters=\[([\d, ]*)\]")
_START: Final = re.compile(r"\bepochStartOffset=(\d+)")
_COMMITTED: Final = re.compile(r"\bhighWatermark=Optional\[LogOffsetMetadata\(offset=(\d+)")
_DIRECTORY: Final = r"(?:Optional\[)?([\w-]{22})"
_MOVED: Final = re.compile(r"\[RaftManager \w+=\d+\] Completed transition to (.*)")
_MARK: Final = re.compile(
    r"\[RaftManager .*High watermark set to .*?offset=(\d+).* for epoch (\d+)"
)
_CUT: Final = re.compile(r"\[RaftManager .*Truncated to offset (\d+) from Fetch response")


def with_quorum(node: Node, logs: Mapping[str, bytes]) -> dict[str, bytes]:
    """A node's logs and what it leaves of the quorum, unless it has no log of metadata."""
    if not {"controller", "broker"} & node.roles:
        return dict(logs)
    files, meta = node.get(LOG_FOLDER), node.get(_META)
    if "controller" not in node.roles and not files:
        return dict(logs)
    return {**logs, "quorum.json": quorum_document(member(node, files, meta, logs))}


def member(
    node: Node, files: Mapping[str, bytes], meta: Mapping[str, bytes], logs: Mapping[str, bytes]
) -> QuorumMember:
    """The document of a node, from the files of its log's folder, its meta.properties and logs."""
    missing: list[str] = []
    written = b"".join(meta.values()).decode(errors="replace")
    properties = dict(line.split("=", 1) for line in written.splitlines() if "=" in line)
    number = int(properties.get("node.id", -1))
    if number < 0:
        missing.append("meta.properties does not say which node it is")
    begins = sorted(name for name in files if re.fullmatch(r"\d{20}\.log", name))
    batches = list(_batches(b"".join(files[name] for name in begins), missing))
    named = sorted((name for name in logs if name.startswith("server.log")), reverse=True)
    logged = tuple(
        each
        for name in named
        for each in states(
            logs[name].decode(errors="replace"), number, properties.get("directory.id")
        )
    )
    if not logged:
        missing.append("its log shows no state")
    return QuorumMember(
        node=node.name,
        number=number,
        voter="controller" in node.roles,
        directory=properties.get("directory.id"),
        stored=_stored(files.get("quorum-state"), missing),
        logged=logged,
        log_start=batches[0].first if batches else 0,
        log=tuple(batches),
        missing=tuple(missing),
    )


def _stored(content: bytes | None, missing: list[str]) -> QuorumState | None:
    """What `quorum-state` holds."""
    try:
        document: dict[str, Any] = orjson.loads(content or b"")
        leader, voted = document["leaderId"], document["votedId"]
        return QuorumState(
            name="stored",
            epoch=document["leaderEpoch"],
            leader=leader if leader >= 0 else None,
            voted=voted if voted >= 0 else None,
        )
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        missing.append(f"quorum-state cannot be read: {error!r}" if content else "no quorum-state")
        return None


def _batches(raw: bytes, missing: list[str]) -> Iterator[QuorumBatch]:
    """The complete batches of all segments; one that is not complete is still being written."""
    at = 0
    while at + BATCH.size <= len(raw):
        first, length, epoch, magic, checksum, attributes, delta, *_ = BATCH.unpack_from(raw, at)
        end = at + LOG_OVERHEAD + length
        if magic != 2 or end < at + BATCH.size:
            break
        if end > len(raw):
            return
        if crc32c(memoryview(raw)[at + CHECKED_AT : end]) != checksum:
            break
        leader = _new_leader(raw, at + BATCH.size, end) if attributes & CONTROL else None
        yield QuorumBatch(
            first=first, last=first + delta, epoch=epoch, checksum=checksum, leader=leader
        )
        at = end
    if any(raw[at:]):  # a segment that was allocated ahead ends with zeros
        missing.append(f"the metadata log is damaged at byte {at:,}")


def _new_leader(raw: bytes, at: int, end: int) -> int | None:
    """The leader that a control record announces, `None` of another kind: its value begins with a
    version and the leader's id."""
    try:
        kind, at = marker(raw, at, end)
        return int(struct.unpack_from(">hi", raw, at)[1]) if kind == _LEADER_CHANGE else None
    except (NotARecord, struct.error):
        return None


def states(log: str, number: int, directory: str | None = None) -> Iterator[QuorumState]:
    """The states that a replica logged, with the high watermarks that it stated and the offsets at
    which it truncated its log. Where the voters that it starts with have another `directory` for
    it, it is none of them."""
    now: QuorumState | None = None
    own, foreign = re.compile(rf"ReplicaKey\(id={number}, directoryId={_DIRECTORY}"), False
    for line in _of_quorum(log):
        if "] Starting voters are " in line:
            found = own.search(line)
            foreign = found is not None and directory is not None and found[1] != directory
        elif moved := _MOVED.search(line):
            to, _, before = moved[1].partition(" from ")
            if (left := _state(before, number)) is not None and left.committed is not None:
                yield left
            if (now := _state(to, number)) is not None:
                now = replace(now, restored=before.startswith("null"))
                yield replace(now, voter=False) if foreign else now
        elif now is not None and (mark := _MARK.search(line)):
            yield QuorumState(
                name=now.name, epoch=int(mark[2]), start=now.start, committed=int(mark[1])
            )
        elif now is not None and (cut := _CUT.search(line)):
            yield QuorumState(name=now.name, epoch=now.epoch, cut=int(cut[1]))


def _of_quorum(log: str) -> Iterable[str]:
    return (line for line in log.splitlines() if "[RaftManager " in line)


def _state(text: str, number: int) -> QuorumState | None:
    """A state as Kafka prints it: `CandidateState(localId=101, epoch=2, ...)`."""
    name, epoch = _STATE.match(text), _EPOCH.search(text)
    if name is None or epoch is None:
        return None
    leads = name[1] in ("Leader", "Resigned")
    votes = name[1] in ("Leader", "Candidate")
    voters = _VOTERS.search(text)
    return QuorumState(
        name=name[1],
        epoch=int(epoch[1]),
        leader=number if leads else _number(_LEADER, text),
        voted=number if votes else _number(_VOTED, text),
        voter=None if voters is None else str(number) in voters[1].split(", "),
        start=_number(_START, text),
        committed=_number(_COMMITTED, text),
    )


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found[1]) if found else None
