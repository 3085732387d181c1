"""What a loss of power may leave, on bytes that Kafka 4.3.1 wrote (`segment.log`: 7 batches with
the offsets 0 to 8), moved to where a test needs them."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from harness.errors import PlanError
from harness.faults.records import DiskRecord
from harness.levers.disk import Change, planned
from harness.plan import parse_plan
from harness.run.resolving import resolve
from targets.kafka.levers import KafkaStorage, recovery_points
from targets.kafka.record_sets import batches

SEGMENT = (Path(__file__).parent / "segment.log").read_bytes()
FOLDER = "data/ackloss-0"
FIRST, SECOND = f"{FOLDER}/{0:020}.log", f"{FOLDER}/{9:020}.log"
CHECKPOINT = "data/recovery-point-offset-checkpoint"
TOPICS = ("data/[!_]*-[0-9]*",)
ASKED = DiskRecord(
    node="b1",
    fault="x",
    seed=1,
    signal="KILL",
    pid=7,
    form="unsynced",
    folders=TOPICS,
    flip_count=3,
)


def moved(segment: bytes, by: int) -> bytes:
    """The same batches with later offsets."""
    parts = [(b, segment[b.place : b.place + b.size_bytes]) for b in batches(segment)]
    return b"".join(struct.pack(">q", b.first + by) + part[8:] for b, part in parts)


def cut(files: dict[str, bytes], **options: Any) -> list[Change]:
    record = replace(ASKED, **options)
    sizes = {path: len(content) for path, content in files.items()}
    return planned(record, sizes, lambda path: files.get(path, b""), KafkaStorage())


def synced(offset: int) -> bytes:
    return f"0\n2\nackloss 0 {offset}\n__cluster_metadata 0 7\n".encode()


def test_batches_are_found_with_their_offsets_and_places() -> None:
    found = batches(SEGMENT)
    assert [(b.first, b.last) for b in found] == [
        (0, 0),
        (1, 2),
        (3, 4),
        (5, 5),
        (6, 6),
        (7, 7),
        (8, 8),
    ]
    assert found[-1].place + found[-1].size_bytes == len(SEGMENT)


@pytest.mark.parametrize("tail", [b"\x00" * 500, SEGMENT[:60], SEGMENT[:77], b"\xff" * 80])
def test_batches_end_where_the_next_is_torn_zeros_or_rubbish(tail: bytes) -> None:
    assert batches(SEGMENT + tail) == batches(SEGMENT)


def test_the_checkpoint_is_read_and_an_empty_one_says_nothing() -> None:
    assert recovery_points(synced(5)) == {"ackloss-0": 5, "__cluster_metadata-0": 7}
    assert recovery_points(b"") == {}


@pytest.mark.parametrize(
    ("checkpoint", "options", "how", "left"),
    [
        (None, {}, "resize", []),
        (5, {}, "resize", [0, 1, 3]),
        (5, {"keep_share": 0.5}, "resize", [0, 1, 3, 5, 6]),
        (5, {"tail": "zeros"}, "zero", [0, 1, 3]),
    ],
    ids=["everything may go", "what is below stays", "a share survives", "zeros"],
)
def test_what_is_above_the_recovery_point_goes(
    checkpoint: int | None, options: dict[str, Any], how: str, left: list[int]
) -> None:
    files = {FIRST: SEGMENT, **({CHECKPOINT: synced(checkpoint)} if checkpoint else {})}
    (change,) = cut(files, **options)
    assert (change.how, change.path) == (how, FIRST)
    kept = batches(SEGMENT[: change.size_bytes])
    assert [b.first for b in kept] == left
    assert change.size_bytes == sum(b.size_bytes for b in kept)
    if checkpoint is None:
        assert change.summary == "cut at offset 0, its end was 9, checkpointed up to 0"


@pytest.mark.parametrize("magic", [0, 1])
def test_logs_of_versions_before_0_11_are_cut_too(magic: int) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=10_000)
    for offset in range(9):
        builder.append(offset, 7 if magic else None, None, b"value")
    segment = bytes(builder.build())
    (change,) = cut({FIRST: segment, CHECKPOINT: synced(3)})
    assert (change.how, change.size_bytes) == ("resize", len(segment) // 3)
    assert change.summary == "cut at offset 3, its end was 9, checkpointed up to 3"
    assert cut({FIRST: segment, CHECKPOINT: synced(9)}) == []


def test_a_log_that_was_fsynced_whole_is_left_alone() -> None:
    assert cut({FIRST: SEGMENT, CHECKPOINT: synced(9)}) == []


def test_a_torn_tail_is_the_beginning_of_a_batch() -> None:
    (change,) = cut({FIRST: SEGMENT, CHECKPOINT: synced(5)}, tail="torn")
    assert change.how == "resize"
    assert 268 < change.size_bytes < 346


def test_later_segments_go_with_their_indexes() -> None:
    index = SECOND.replace(".log", ".index")
    files = {FIRST: SEGMENT, SECOND: moved(SEGMENT, 9), index: b"i", f"{FOLDER}/other": b"o"}
    changes = cut(files)
    assert [(c.how, c.path) for c in changes] == [
        ("resize", FIRST),
        ("delete", index),
        ("delete", SECOND),
    ]


def test_an_older_segment_that_was_fsynced_is_not_even_read() -> None:
    files = {FIRST: b"not a segment at all", SECOND: moved(SEGMENT, 9), CHECKPOINT: synced(10)}
    (change,) = cut(files)
    assert (change.path, change.size_bytes) == (SECOND, 78)


def test_random_shares_come_from_the_seed() -> None:
    def at(seed: int) -> int:
        (change,) = cut({FIRST: SEGMENT}, keep_share="random", seed=seed)
        return change.size_bytes

    assert [at(seed) for seed in range(5)] == [at(seed) for seed in range(5)]
    assert len({at(seed) for seed in range(20)}) > 3


def test_the_metadata_log_is_fsynced_and_never_cut() -> None:
    files = {f"data/__cluster_metadata-0/{0:020}.log": SEGMENT}
    assert cut(files, folders=("data/*",)) == []


def test_truncate_takes_the_end_of_the_newest_segment_that_holds_anything() -> None:
    (change,) = cut({FIRST: SEGMENT, SECOND: b""}, form="truncate")
    assert (change.path, change.size_bytes) == (FIRST, len(SEGMENT) - 10)


def test_flip_changes_as_many_bits_as_asked() -> None:
    (change,) = cut({FIRST: SEGMENT}, form="flip")
    changed = sum(bin(SEGMENT[place] ^ byte).count("1") for place, byte in change.flips)
    assert changed == 3


def test_a_reformatted_controller_has_the_first_snapshot_that_formatting_writes_since_4_4() -> None:
    first = "data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    files = {
        "data/meta.properties": b"version=1\ndirectory.id=old\n",
        first: b"c",
        "data/__cluster_metadata-0/x": b"m",
        FIRST: SEGMENT,
    }
    *deleted, _ = cut(files, form="reformat")
    assert {change.path for change in deleted} == {"data/__cluster_metadata-0/x", FOLDER}


def test_a_reformatted_disk_has_another_directory_id_and_nothing_else() -> None:
    meta = "version=1\ncluster.id=C\nnode.id=1\ndirectory.id=old\n"
    files = {
        "data/meta.properties": meta.encode(),
        "data/bootstrap.checkpoint": b"c",
        "data/__cluster_metadata-0/x": b"m",
        FIRST: SEGMENT,
        CHECKPOINT: synced(5),
        "server.properties": b"s",
    }
    *deleted, written = cut(files, form="reformat")
    assert {(c.how, c.path) for c in deleted} == {
        ("delete", "data/__cluster_metadata-0"),
        ("delete", FOLDER),
        ("delete", CHECKPOINT),
    }
    lines = written.content.splitlines()
    assert lines[:3] == meta.splitlines()[:3]
    assert len(lines) == 4
    assert lines[3].startswith("directory.id=")
    assert len(lines[3]) == len("directory.id=") + 22
    assert cut(files, form="reformat", seed=2)[-1].content != written.content


DISK, POWER = {"nemesis": "disk", "nodes": "all"}, {"nemesis": "power-loss", "nodes": "all"}


@pytest.mark.parametrize(
    ("topic", "broker", "flushing"),
    [
        ({"flush.messages": 1}, {}, "flush.messages = 1"),
        ({"flush.ms": 100}, {}, "flush.ms = 100"),
        ({}, {"log.flush.interval.messages": 1}, "log.flush.interval.messages = 1"),
        ({}, {"log.flush.interval.ms": 5}, "log.flush.interval.ms = 5"),
        ({}, {"log.flush.scheduler.interval.ms": 5}, "log.flush.scheduler.interval.ms = 5"),
        ({"flush.messages": 2**63 - 1}, {"log.flush.interval.messages": 1}, None),
        ({"segment.ms": 1000}, {"log.flush.offset.checkpoint.interval.ms": 10}, None),
        ({}, {}, None),
    ],
)
def test_a_cut_at_the_checkpoint_is_refused_where_kafka_flushes(
    topic: dict[str, Any], broker: dict[str, Any], flushing: str | None
) -> None:
    """It would lose what real power loss keeps."""

    def check(*faults: dict[str, Any], **keys: Any) -> None:
        steps = [{"id": f"f{n}", "at_s": n, **each} for n, each in enumerate(faults)]
        settings = {
            "topic": {"settings": topic},
            "target": {"version": "4.3.1", "settings": broker},
        }
        resolve(parse_plan({"schema": 1, "name": "p", "faults": steps, **settings, **keys}))

    check(POWER, {**DISK, "form": "wipe"})
    if flushing is None:
        check(DISK)
        return
    mix = {"families": [POWER, {**DISK, "form": "unsynced"}]}
    drawn = partial(check, mix=mix)
    for key, checked in {
        "faults.f1.form": partial(check, POWER, DISK),
        "mix.families.1.form": drawn,
    }.items():
        with pytest.raises(PlanError, match=re.escape(f"with {flushing} more")) as error:
            checked()
        assert (error.value.key, error.value.exit_code) == (key, 4)
        assert "power-loss" in (error.value.hint or "")
