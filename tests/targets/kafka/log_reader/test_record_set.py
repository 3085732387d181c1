"""Record sets as kafka-python encodes and decodes them, and as they are when something is wrong."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.codec import lz4_encode
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from targets.kafka.record_sets import (
    NO_TIME,
    Damaged,
    NotARecord,
    Records,
    Texts,
    batches,
    decompressed,
    records,
    walk,
)
from tests.fixtures.budget import budget
from tests.fixtures.fake_kafka import flipped, record_set

pytestmark = pytest.mark.slow

SEGMENT = (Path(__file__).parents[1] / "segment.log").read_bytes()
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS = {0: (0, GZIP, SNAPPY), 1: (0, GZIP, SNAPPY, LZ4), 2: (0, GZIP, SNAPPY, LZ4, ZSTD)}
ROOM = 1 << 24


class Record(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Batch(NamedTuple):
    """What is written at once, by a format and a codec."""

    magic: int
    codec: int
    records: list[tuple[int, bytes | None, bytes | None]]


def encoded(batches: Iterable[Batch], *, gap: int = 0) -> tuple[bytes, list[Record]]:
    """A log by kafka-python's builders, with offsets left out between batches; and its truth."""
    raw, truth, first = b"", list[Record](), 0
    for magic, codec, wanted in batches:
        raw += (
            _batch(first, wanted, codec) if magic == 2 else _messages(first, wanted, magic, codec)
        )
        for number, (time_ms, key, value) in enumerate(wanted):
            truth.append(Record(first + number, time_ms if magic else NO_TIME, key, value))
        first += len(wanted) + gap
    return raw, truth


def _batch(first: int, wanted: list[tuple[int, bytes | None, bytes | None]], codec: int) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=ROOM,
    )
    for number, (time_ms, key, value) in enumerate(wanted):
        builder.append(number, time_ms, key, value, [("h", b"v")] if number % 5 == 4 else [])
    return struct.pack(">q", first) + bytes(builder.build())[8:]


def _messages(
    first: int, wanted: list[tuple[int, bytes | None, bytes | None]], magic: int, codec: int
) -> bytes:
    """In format 1 those within a compressed message count from 0, and it has the last offset."""
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=ROOM)
    base = 0 if codec and magic else first
    for number, (time_ms, key, value) in enumerate(wanted):
        builder.append(base + number, time_ms if magic else None, key, value)
    raw = bytes(builder.build())
    return struct.pack(">q", first + len(wanted) - 1) + raw[8:] if codec else raw


def decoded(raw: bytes) -> list[Record]:
    return [record for found in records(raw) for record in rows(found)]


def until_damage(raw: bytes) -> tuple[list[Record], Damaged | None]:
    """What is read before something is wrong."""
    read: list[Record] = []
    try:
        for found in records(raw):
            read += rows(found)
    except Damaged as error:
        return read, error
    return read, None


def rows(found: Records) -> list[Record]:
    def text(of: Texts) -> list[bytes | None]:
        pairs = zip(of.at.tolist(), of.size.tolist(), strict=True)
        return [None if size < 0 else found.buffer[at : at + size].tobytes() for at, size in pairs]

    columns = found.offset.tolist(), found.timestamp_ms.tolist(), text(found.key), text(found.value)
    return [Record(*row) for row in zip(*columns, strict=True)]


def by_kafka_python(raw: bytes) -> list[Record]:
    return [
        Record(
            each.offset, NO_TIME if each.timestamp is None else each.timestamp, each.key, each.value
        )
        for batch in MemoryRecords(raw)
        for each in batch
    ]


# kafka-python compresses only what becomes smaller by it.
SMALLER = st.integers(60, 300).map(lambda size: b"small" * size)
TEXTS = st.none() | st.binary(max_size=12) | st.binary(min_size=60, max_size=300) | SMALLER
RECORDS = st.lists(
    st.tuples(st.integers(0, 2**41), TEXTS, TEXTS).filter(lambda of: of[1:] != (None, None)),
    min_size=1,
    max_size=40,
)
BATCHES = st.sampled_from([0, 1, 2]).flatmap(
    lambda magic: st.builds(Batch, st.just(magic), st.sampled_from(CODECS[magic]), RECORDS)
)


@settings(deadline=None, max_examples=budget(30, 300))
@given(st.lists(BATCHES, max_size=5), st.integers(0, 3))
def test_every_format_and_codec_is_read_as_kafka_python_reads_it(
    batches: list[Batch], gap: int
) -> None:
    raw, truth = encoded(batches, gap=gap)
    assert decoded(raw) == truth
    assert by_kafka_python(raw) == truth


@settings(deadline=None, max_examples=budget(15, 60))
@given(
    st.lists(st.tuples(st.integers(1, 900), st.integers(0, 70)), min_size=1, max_size=12),
    st.integers(0, 5000),
)
def test_runs_of_records_of_one_length(runs: list[tuple[int, int]], more_ms: int) -> None:
    """Values of one size again and again, then of another, over all borders of varints."""
    wanted, time_ms = [], 10**12
    for number, size in runs:
        wanted += [(time_ms + place, None, b"x" * size) for place in range(number)]
        time_ms += more_ms
    raw, truth = encoded([Batch(2, 0, wanted), Batch(2, ZSTD, wanted)])
    assert decoded(raw) == truth


@pytest.mark.parametrize("size", [56, 57, 58, 8000, 8185, 8186, 8190, 8192, 70_000, 1_100_000])
def test_lengths_of_every_number_of_bytes(size: int) -> None:
    wanted = [(10**12 + n, None, b"%d" % n + b"x" * size) for n in range(3 if size > 10**5 else 90)]
    raw, truth = encoded([Batch(2, 0, wanted)])
    assert decoded(raw) == truth


@pytest.mark.parametrize("behind", [1, 3])
def test_a_length_that_differs_in_its_third_byte_alone_ends_a_run(behind: int) -> None:
    """Bytes of the longer record could else be taken for records, which no broker stores."""
    sizes = [10_000] * 40 + [10_000 + 8_192] * behind
    raw, truth = encoded([Batch(2, 0, [(10**12, None, b"x" * size) for size in sizes])])
    assert decoded(raw) == truth == by_kafka_python(raw)


def test_a_stored_segment_of_a_real_broker() -> None:
    read = decoded(SEGMENT)
    assert read == by_kafka_python(SEGMENT)
    assert [record.offset for record in read] == list(range(len(read)))
    assert len(read) > 7


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)])
def test_where_batches_lie_and_what_offsets_they_have(magic: int, codec: int) -> None:
    """Uncompressed, each message of formats 0 and 1 is by itself."""
    parts = [Batch(magic, codec, THREE), Batch(magic, codec, THREE[:2])]
    (of_first, _), (raw, _) = encoded(parts[:1]), encoded(parts)
    found = batches(raw + b"\x00" * 100)
    together = magic == 2 or codec
    spans = [(0, 2), (3, 4)] if together else [(number, number) for number in range(5)]
    assert [(each.first, each.last) for each in found[1:]] == spans[1:]
    assert found[0].last == spans[0][1]
    assert [each.size_bytes for each in found[:1] if together] == [len(of_first)] * bool(together)
    assert sum(each.size_bytes for each in found) == len(raw)
    assert batches(raw[:-1]) == found[:-1]


def test_nothing_holds_nothing() -> None:
    assert decoded(b"") == []


# --- damage -----------------------------------------------------------------------------------

THREE = [(10**12 + n, b"k", b"%010d" % n) for n in range(3)]
OFFSETS, LENGTHS, EPOCHS = range(8), range(8, 12), range(12, 16)


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_every_flipped_bit_is_met_or_lies_where_no_checksum_does(magic: int, codec: int) -> None:
    """Of the second batch of three: what is handed over is right, up to an offset."""
    long = [(time_ms, key * 200, value) for time_ms, key, value in THREE] if codec else THREE
    parts = [encoded([Batch(magic, codec, long[n : n + 1])])[0] for n in range(3)]
    assert parts[1][22 if magic == 2 else 17] & 7 == codec
    log = b"".join(_moved(part, n) for n, part in enumerate(parts))
    before = len(parts[0])
    truth = decoded(log)
    assert [record.value for record in truth] == [value for *_, value in THREE]
    for place in range(len(parts[1])):
        for bit in range(8):
            bad = bytearray(log)
            bad[before + place] ^= 1 << bit
            read, damage = until_damage(bytes(bad))
            assert read[:1] == truth[:1]
            if place in OFFSETS:
                assert damage or [r.value for r in read] == [r.value for r in truth]
                assert damage or read[1].offset != 1, "the reader finds out by its position"
            elif place in LENGTHS:
                assert read == truth[:1], "it ends there, whether or not the rest is there"
            elif magic == 2 and place in EPOCHS:
                assert (read, damage) == (truth, None), "it is nobody's value"
            else:
                assert read == truth[:1]
                assert damage is not None
                assert damage.offset == 1


def _moved(part: bytes, offset: int) -> bytes:
    return struct.pack(">q", offset) + part[8:]


@pytest.mark.parametrize("codec", [0, GZIP])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_tail_that_is_cut_off_is_left_for_the_next_fetch(magic: int, codec: int) -> None:
    first, of_first = encoded([Batch(magic, codec, THREE)])
    log = first + first
    for size in range(len(log)):
        read, damage = until_damage(log[:size])
        assert damage is None
        assert len(read) % 3 == 0 or magic < 2
        assert read == decoded(log)[: len(read)]
    assert decoded(log[: len(first)]) == of_first


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_compressed_bytes_that_are_none(codec: int) -> None:
    """Their checksum is right: whoever compressed them did it wrong."""
    whole, _ = encoded([Batch(2, codec, THREE * 40)])
    assert whole[22] & 7 == codec
    for cut in (1, 8):
        bad = _sealed(bytearray(whole[:-cut]))
        read, damage = until_damage(bad + encoded([Batch(2, 0, THREE)])[0])
        assert read == []
        assert damage is not None
        assert "decompressed" in str(damage)


@pytest.mark.parametrize("count", [2, 4, -1, 2**31 - 1])
def test_a_batch_that_holds_another_number_of_records(count: int) -> None:
    raw = bytearray(encoded([Batch(2, 0, THREE)])[0])
    raw[57:61] = struct.pack(">i", count)
    read, damage = until_damage(_sealed(raw))
    assert read == []
    assert damage is not None
    assert damage.offset == 0


@pytest.mark.parametrize("place", range(61, 61 + 22))
def test_a_record_whose_bytes_make_none(place: int) -> None:
    """With a right checksum: nothing outside the batch is read, and nothing breaks."""
    raw = encoded([Batch(2, 0, THREE)])[0]
    for bit in range(8):
        bad = bytearray(raw)
        bad[place] ^= 1 << bit
        read, damage = until_damage(_sealed(bad))
        assert damage is not None or len(read) == 3


def _sealed(batch: bytearray) -> bytes:
    """The batch with the length and the checksum that its bytes have."""
    batch[8:12] = struct.pack(">i", len(batch) - 12)
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    return bytes(batch)


def _of_transaction(raw: bytes, attributes: int, producer: int = 7) -> bytes:
    """A batch as one of a producer's transaction."""
    batch = bytearray(raw)
    batch[21:23] = struct.pack(">h", attributes)
    batch[43:51] = struct.pack(">q", producer)
    return _sealed(batch)


def _marker(first: int, kind: int) -> bytes:
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 3)
    raw, _ = encoded([Batch(2, 0, [(10**12, key, value)])])
    return _moved(_of_transaction(raw, 0x30), first)


def test_markers_of_transactions_are_no_records_and_say_what_committed() -> None:
    data, _ = encoded([Batch(2, 0, THREE[:2])])
    sent = _of_transaction(data, 0x10)
    found = list(records(sent + _marker(2, 1) + _moved(sent, 3) + _marker(5, 0) + _moved(data, 6)))
    assert [record.offset for each in found for record in rows(each)] == [0, 1, 3, 4, 6, 7]
    assert [each.next_offset for each in found] == [8]
    assert found[0].spans == ((7, 0, 2, None), (7, 2, 3, True), (7, 3, 5, None), (7, 5, 6, False))
    (alone,) = records(_marker(7, 1))
    assert (rows(alone), alone.next_offset) == ([], 8)
    assert alone.spans == ((7, 7, 8, True),)


def test_a_marker_of_an_unknown_kind_is_damage() -> None:
    read, damage = until_damage(_marker(4, 9))
    assert (read, damage is not None and damage.offset) == ([], 4)


def test_a_time_of_the_broker_is_the_last_of_its_batch() -> None:
    raw = bytearray(encoded([Batch(2, 0, THREE)])[0])
    raw[21:23] = struct.pack(">h", 0x08)
    assert {record.timestamp_ms for record in decoded(_sealed(raw))} == {10**12 + 2}


def test_leader_epochs_are_those_of_batches() -> None:
    raw = bytearray(encoded([Batch(2, 0, THREE)])[0])
    raw[12:16] = struct.pack(">i", 7)
    (found,) = records(bytes(raw))
    assert found.leader_epoch.tolist() == [7] * 3
    (old,) = records(record_set(1, [(None, b"v")]))
    assert old.leader_epoch.tolist() == [-1]


def test_a_compacted_batch_keeps_its_end() -> None:
    """Its last records are gone: the next offset is behind them."""
    raw = bytearray(encoded([Batch(2, 0, THREE)])[0])
    raw[23:27] = struct.pack(">i", 9)
    (found,) = records(_sealed(raw))
    assert found.next_offset == 10


def test_the_wrong_lz4_header_of_format_0() -> None:
    """KAFKA-3160. (In format 1 it is an error.)"""
    frame = lz4_encode(b"0123456789" * 50)
    place = 14 if frame[4] & 8 else 6
    wrong = flipped(frame, place)
    assert decompressed(LZ4, wrong, magic=0) == b"0123456789" * 50
    with pytest.raises(NotARecord):
        decompressed(LZ4, wrong, magic=1)
    with pytest.raises(NotARecord):
        decompressed(LZ4, b"none of it", magic=0)


def test_a_codec_that_is_not_known() -> None:
    with pytest.raises(NotARecord, match="not known, 7"):
        decompressed(7, b"", magic=2)


def test_a_walk_ends_where_the_batch_does() -> None:
    assert walk(b"\x02a\x02b", 0, 4, 2).tolist() == [0, 2]
    for raw, count in ((b"\x02a\x02b", 1), (b"\x02a\x04b", 2), (b"\x01a", 1), (b"\x80" * 12, 1)):
        with pytest.raises(NotARecord):
            walk(raw, 0, len(raw), count)
