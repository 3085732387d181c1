"""What a node of KRaft's leaves: the states in its log, its vote, and the batches of its log."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import orjson
import pytest
from crc32c import crc32c

from harness.history.quorum import QuorumState
from targets.kafka.kraft import member, states, with_quorum

EMPTY = "highWatermark=Optional.empty"
KNOWN = "highWatermark=Optional[LogOffsetMetadata(offset=31, metadata=Optional.empty)]"


def line(text: str, number: int = 101) -> str:
    return f"[2026-11-28 00:13:42,175] INFO [RaftManager id={number}] {text}\n"


def moved(state: str, before: str = "null") -> str:
    return line(
        f"Completed transition to {state} from {before} (org.apache.kafka.raft.QuorumState)"
    )


UNATTACHED = f"Unattached(epoch=1, votedKey=null, voters=[101, 102, 103], {EMPTY})"
VOTED_39 = (
    "Unattached(epoch=1, votedKey=ReplicaKey(id=103, directoryId=Optional[RkKXeyIZTq]), "
    f"voters=[101, 102, 103], electionTimeoutMs=1543, {EMPTY})"
)
VOTED_44 = (
    "UnattachedState(epoch=1, leaderId=OptionalInt.empty, votedKey=Optional[ReplicaKey(id=103, "
    f"directoryId=oKcs)], voters=[101, 102, 103], electionTimeoutMs=1225, {EMPTY})"
)
VOTED_33 = f"Voted(epoch=1, votedId=103, voters=[101, 102, 103], electionTimeoutMs=1, {EMPTY})"
FOLLOWS_39 = (
    "FollowerState(fetchTimeoutMs=2000, epoch=5, leader=102, leaderEndpoints=Endpoints(), "
    f"voters=[101, 102, 103], {KNOWN}, fetchingSnapshot=Optional.empty)"
)
FOLLOWS_33 = (
    f"FollowerState(fetchTimeoutMs=2000, epoch=5, leaderId=102, voters=[101, 102], {EMPTY})"
)
PROSPECTIVE = (
    "ProspectiveState(epoch=5, leaderId=OptionalInt[102], votedKey=Optional.empty, "
    "epochElection=EpochElection[voterStates={101=VoterState(replicaKey=ReplicaKey(id=101, "
    f"directoryId=x), state=GRANTED)}}], electionTimeoutMs=1120, {EMPTY})"
)
CANDIDATE = (
    "CandidateState(localId=101, localDirectoryId=HOmi,epoch=3, retries=2, voteStates={}, "
    "highWatermark=Optional[LogOffsetMetadata(offset=21, metadata=Optional.empty)])"
)
LEADER = (
    "Leader(localReplicaKey=ReplicaKey(id=101, directoryId=Optional[HOmi]), epoch=3, "
    f"epochStartOffset=22, {EMPTY}, voterStates={{}})"
)
RESIGNED = "ResignedState(localId=101, epoch=3, voters=[101, 102, 103], electionTimeoutMs=1036)"


@pytest.mark.parametrize(
    ("text", "state"),
    [
        (UNATTACHED, QuorumState(name="Unattached", epoch=1, voter=True)),
        (VOTED_33, QuorumState(name="Voted", epoch=1, voted=103, voter=True)),
        (VOTED_39, QuorumState(name="Unattached", epoch=1, voted=103, voter=True)),
        (VOTED_44, QuorumState(name="Unattached", epoch=1, voted=103, voter=True)),
        (FOLLOWS_33, QuorumState(name="Follower", epoch=5, leader=102, voter=True)),
        (
            FOLLOWS_39,
            QuorumState(name="Follower", epoch=5, leader=102, voter=True, committed=31),
        ),
        (PROSPECTIVE, QuorumState(name="Prospective", epoch=5, leader=102)),
        (CANDIDATE, QuorumState(name="Candidate", epoch=3, voted=101, committed=21)),
        (LEADER, QuorumState(name="Leader", epoch=3, leader=101, voted=101, start=22)),
        (RESIGNED, QuorumState(name="Resigned", epoch=3, leader=101, voter=True)),
    ],
)
def test_each_state_of_each_version_is_read(text: str, state: QuorumState) -> None:
    assert list(states(moved(text), 101)) == [replace(state, restored=True)]
    (_, later) = states(moved(LEADER) + moved(text, LEADER), 101)
    assert later == state


def test_a_replica_that_is_no_voter_says_so() -> None:
    (state,) = states(moved(f"Unattached(epoch=0, votedKey=null, voters=[], {EMPTY})"), 101)
    assert state.voter is False


@pytest.mark.parametrize("known", ["directoryId={}", "directoryId=Optional[{}]"])
def test_a_directory_that_the_voters_do_not_have_is_none_of_them(known: str) -> None:
    """As after formatting; the states themselves show the numbers of voters only."""
    old, new = "8I-n_o3WTrqf3Cswft8Qgg", "OtAbDxDNQriUPV01exOSBA"
    has = f"VoterNode(voterKey=ReplicaKey(id=101, {known.format(old)}), listeners=x)"
    log = line(f"Starting voters are VoterSet(voters={{101={has}}}) (x)") + moved(UNATTACHED)
    assert [state.voter for state in states(log, 101, old)] == [True]
    assert [state.voter for state in states(log, 101, new)] == [False]
    static = log.replace(known.format(old), "directoryId=<undefined>")
    assert [state.voter for state in states(static, 101, new)] == [True]


def test_high_watermarks_and_truncations_belong_to_the_state_they_are_in() -> None:
    mark = "High watermark set to LogOffsetMetadata(offset=23, metadata=x) for the first time for"
    log = moved(LEADER) + line(f"{mark} epoch 3 based on indexOfHw 1 and voters []")
    log += moved(FOLLOWS_39, LEADER.replace(EMPTY, KNOWN))
    log += line("Truncated to offset 32 from Fetch response from leader 102 (x)")
    log += (
        "[2026-11-28 00:14:02,160] INFO [UnifiedLog partition=ackloss-0] Truncating to offset 3\n"
    )
    found = [(state.name, state.epoch, state.committed, state.cut) for state in states(log, 101)]
    assert found == [
        ("Leader", 3, None, None),
        ("Leader", 3, 23, None),
        ("Leader", 3, 31, None),
        ("Follower", 5, 31, None),
        ("Follower", 5, None, 32),
    ]


def batch(first: int, epoch: int, records: int, attributes: int = 0, body: bytes = b"") -> bytes:
    checked = struct.pack(">hiqqqhii", attributes, records - 1, 0, 0, -1, -1, -1, records) + body
    inner = struct.pack(">ib", epoch, 2) + struct.pack(">I", crc32c(checked)) + checked
    return struct.pack(">qi", first, len(inner)) + inner


def change_of_leader(leader: int) -> bytes:
    key, value = struct.pack(">hh", 0, 2), struct.pack(">hi", 0, leader) + b"\x01\x01\x00"
    record = b"\x00\x00\x00" + bytes([2 * len(key)]) + key + bytes([2 * len(value)]) + value
    return bytes([2 * (len(record) + 1)]) + record + b"\x00"


class Controller:
    """A node with these files."""

    name = "c1"
    roles = frozenset({"controller"})

    def __init__(self, **files: dict[str, bytes]) -> None:
        self._files = files

    def get(self, name: str) -> dict[str, bytes]:
        return self._files.get(name.rpartition("/")[2], {})


FIRST = "00000000000000000000.log"
LOG = batch(0, 1, 1, 0x20, change_of_leader(103)) + batch(1, 1, 4) + batch(5, 3, 1)
META = {"meta.properties": b"version=1\nnode.id=101\ndirectory.id=HOmi\n"}
VOTE = b'{"leaderId":-1,"leaderEpoch":5,"votedId":102,"data_version":1}'


def left(files: dict[str, bytes], meta: dict[str, bytes] = META) -> Any:
    node: Any = Controller()
    return member(node, files, meta, {"server.log": moved(LEADER).encode()})


def test_the_document_of_a_controller() -> None:
    found = left({FIRST: LOG, "quorum-state": VOTE})
    assert [(each.first, each.last, each.epoch, each.leader) for each in found.log] == [
        (0, 0, 1, 103),
        (1, 4, 1, None),
        (5, 5, 3, None),
    ]
    assert found.stored == QuorumState(name="stored", epoch=5, voted=102)
    assert (found.number, found.directory, found.log_end, found.missing) == (101, "HOmi", 6, ())


def test_what_is_still_being_written_is_no_damage() -> None:
    assert len(left({FIRST: LOG[:-3], "quorum-state": VOTE}).log) == 2
    assert left({FIRST: LOG + bytes(500), "quorum-state": VOTE}).missing == ()


@pytest.mark.parametrize("place", [70, 65])
def test_a_changed_byte_is_damage(place: int) -> None:
    damaged = bytearray(LOG)
    damaged[place] ^= 1
    (why,) = left({FIRST: bytes(damaged), "quorum-state": VOTE}).missing
    assert why == "the metadata log is damaged at byte 0"


def test_what_is_missing_is_named() -> None:
    found = left({}, {})
    assert found.missing == (
        "meta.properties does not say which node it is",
        "no quorum-state",
    )
    node: Any = Controller(log={})
    document = orjson.loads(with_quorum(node, {})["quorum.json"])
    assert "its log shows no state" in document["missing"]


def test_a_broker_of_a_cluster_without_a_quorum_leaves_nothing() -> None:
    node: Any = Controller()
    node.roles = frozenset({"broker"})
    assert with_quorum(node, {"server.log": b"x"}) == {"server.log": b"x"}
