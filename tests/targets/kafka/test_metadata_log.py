"""The committed states of partitions, by the log of metadata: records as Kafka's schemas lay them
out, and what a real run's controllers left (`metadata/`)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from harness.history.run_folder import RunDir
from targets.kafka.evidence import Evidence, evidence_of
from targets.kafka.metadata_log import Assigned, assigned
from targets.kafka.record_sets import BATCH, CHECKED_AT, LOG_OVERHEAD
from tests.targets.kafka.test_explain import CASES, case_of, counted, explained

TOPIC_ID = bytes(range(16))
OTHER_ID = bytes(16)


def unsigned(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + unsigned(value >> 7)


def ints(*numbers: int) -> bytes:
    return unsigned(len(numbers) + 1) + b"".join(struct.pack(">i", each) for each in numbers)


def tags(given: Mapping[int, bytes]) -> bytes:
    parts = (unsigned(tag) + unsigned(len(body)) + body for tag, body in given.items())
    return unsigned(len(given)) + b"".join(parts)


def topic(name: str, topic_id: bytes = TOPIC_ID) -> bytes:
    text = name.encode()
    return b"\x01\x02\x00" + unsigned(len(text) + 1) + text + topic_id + tags({})


def made(partition: int, leader: int, *in_sync: int, of: bytes = TOPIC_ID) -> bytes:
    body = struct.pack(">i", partition) + of + ints(1, 2, 3) + ints(*in_sync) + ints() + ints()
    directories = unsigned(4) + bytes(48)
    return b"\x01\x03\x01" + body + struct.pack(">iii", leader, 0, 0) + directories + tags({})


def change(partition: int, **to: object) -> bytes:
    given: dict[int, bytes] = {}
    for tag, name in {0: "isr", 6: "elr", 7: "last_known"}.items():
        if name in to:
            given[tag] = ints(*to[name])  # type: ignore[misc]
    if "leader" in to:
        given[1] = struct.pack(">i", to["leader"])
    if "recovery" in to:
        given[5] = bytes([int(to["recovery"])])  # type: ignore[call-overload]
    fields = struct.pack(">i", partition) + TOPIC_ID + tags(dict(sorted(given.items())))
    return b"\x01\x05\x02" + fields


def batch(first: int, *values: bytes, at_ms: int = 1_000, epoch: int = 1) -> bytes:
    body = b""
    for delta, value in enumerate(values):
        record = b"\0\0" + unsigned(2 * delta) + b"\x01" + unsigned(2 * len(value)) + value + b"\0"
        body += unsigned(2 * len(record)) + record
    length = BATCH.size - LOG_OVERHEAD + len(body)
    last = len(values) - 1
    head = (first, length, epoch, 2, 0, 0, last, at_ms, at_ms, -1, -1, -1, len(values))
    raw = bytearray(BATCH.pack(*head) + body)
    struct.pack_into(">I", raw, 17, crc32c(bytes(raw[CHECKED_AT:])))
    return bytes(raw)


BEGIN = batch(0, topic("other", OTHER_ID), topic("t"), made(0, 1, 9, of=OTHER_ID), made(0, 1, 1, 2))


def states(*later: bytes) -> list[Assigned]:
    """Of `t`, after a first batch of four records and then one batch of each of these."""
    raw = BEGIN + b"".join(batch(4 + n, each, at_ms=2_000 + n) for n, each in enumerate(later))
    return assigned({"c1": raw}, "t")[1]


def test_a_topic_of_another_name_and_id_is_another() -> None:
    (state,) = states()
    assert state == Assigned(1_000, 3, 0, 1, 0, (1, 2))
    assert assigned({"c1": BEGIN}, "absent") == ("c1", [])


def test_an_epoch_begins_where_a_leader_is_stated_also_the_same_or_none() -> None:
    found = states(change(0, isr=[1]), change(0, leader=1), change(0, leader=-1, isr=[]))
    assert [(s.leader, s.epoch, s.in_sync) for s in found] == [
        (1, 0, (1, 2)), (1, 0, (1,)), (1, 1, (1,)), (None, 2, ()),
    ]  # fmt: skip
    assert [s.at_ms for s in found[1:]] == [2_000, 2_001, 2_002]
    assert not any(s.unclean for s in found)


def test_an_election_is_unclean_that_recovers_or_that_nobody_was_eligible_for() -> None:
    assert states(change(0, leader=3, isr=[3], recovery=1))[-1].unclean
    assert states(change(0, leader=3, isr=[3]))[-1].unclean, "before leaders stated it"
    assert not states(change(0, leader=2))[-1].unclean
    *_, eligible, elected = states(change(0, elr=[3], last_known=[1]), change(0, leader=3, isr=[3]))
    assert (eligible.eligible, eligible.last_known) == ((3,), (1,))
    assert not elected.unclean


def test_what_a_real_controller_left() -> None:
    """Of 4.4.0 under short-unclean with acks=1, ELR and unclean election off. Its log lines state
    the same, 3 to 12 ms later."""
    raw = (Path(__file__).parent / "metadata/eligible-leader-4.4.bin").read_bytes()
    _, found = assigned({"c1": raw}, "ackloss")
    assert [(s.leader, s.epoch, s.in_sync, s.eligible) for s in found] == [
        (2, 0, (2, 3, 1), ()),
        (2, 0, (2,), (1, 3)),
        (3, 1, (3,), (1, 2)),
        (3, 1, (1, 3), ()),
        (3, 1, (1, 2, 3), ()),
    ]
    assert not any(each.unclean for each in found)
    assert [each.at_ms - found[0].at_ms for each in found] == [0, 6_913, 10_448, 11_053, 14_408]


def test_what_most_controllers_have_is_committed_and_nothing_else() -> None:
    """One that was isolated ends with a change of its own."""
    committed = BEGIN + batch(4, change(0, isr=[2]))
    alone = BEGIN + batch(4, change(0, isr=[1]), epoch=1, at_ms=9)
    for logs in (
        {"c1": alone, "c2": committed, "c3": committed},
        {"c1": committed, "c2": committed + batch(5, change(0, isr=[2, 1])), "c3": committed},
    ):
        node, found = assigned(logs, "t")
        assert [each.in_sync for each in found] == [(1, 2), (2,)]
        assert logs[node].startswith(committed)
    assert len(assigned({"c1": committed, "c2": alone}, "t")[1]) == 1, "not more than half"


def test_a_log_that_cannot_be_relied_on_says_nothing() -> None:
    raw = BEGIN + batch(4, change(0, isr=[2]))
    damaged = raw[:-3] + b"\xff" + raw[-2:]
    assert assigned({"c1": damaged}, "t")[1] == []
    assert assigned({"c1": batch(4, change(0, isr=[2]))}, "t")[1] == [], "its begin is gone"
    assert assigned({}, "t")[1] == []
    assert len(assigned({"c1": raw + bytes(100)}, "t")[1]) == 2, "zeros behind its end"


def ids(nodes: Sequence[str]) -> list[int]:
    return [int(node[1:]) for node in nodes]


def metadata_of(evidence: Evidence, start_ms: float, name: str) -> bytes:
    """A log of metadata that states what logs' lines state."""
    raw, offset = batch(0, topic(name)), 1
    for state in evidence.states:
        to: dict[str, Any] = {"isr": ids(state.in_sync), "elr": ids(state.eligible)}
        to["last_known"] = ids(state.last_known)
        if state.before is None:
            record = made(state.partition, ids([state.leader or "b-1"])[0], *to["isr"])
        else:
            if state.epoch != state.before.epoch:
                to["leader"] = ids([state.leader or "b-1"])[0]
            record = change(state.partition, **to, recovery=state.unclean)
        raw += batch(offset, record, at_ms=round(start_ms + 1e3 * state.at_s))
        offset += 1
    return raw


@pytest.mark.parametrize("name", ["unclean-4.4", "eligible-leader-4.4", "acks1-4.4", "wiped-4.4"])
def test_losses_are_explained_by_it_and_without_it_by_logs(name: str, tmp_path: Path) -> None:
    case = case_of(name)
    by_logs = explained(case, tmp_path)
    rundir = RunDir(tmp_path)
    raw = metadata_of(
        evidence_of(rundir, []),
        datetime.fromisoformat(case["wall_time"]).timestamp() * 1e3,
        case["plan"]["topic"]["name"],
    )
    controllers = range(case["plan"]["target"].get("controllers", 1))
    files = [tmp_path / f"nodes/c{number + 1}/metadata.bin" for number in controllers]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(raw)
    by_metadata = explained(case, tmp_path)
    assert counted(by_metadata) == counted(by_logs) == CASES[name]
    sources = {fact.source for each in by_metadata for fact in each.facts if fact.kind == "elected"}
    assert any(source.startswith("metadata offset ") for source in sources)
    elections = [f for e in by_metadata for f in e.facts if f.place.startswith("nodes/c1/metadata")]
    assert all(f"offset {fact.place.split(':')[1]}, " in fact.record for fact in elections)
    for file in files:
        file.write_bytes(b"damaged" * 20)
    assert counted(explained(case, tmp_path)) == counted(by_logs)
