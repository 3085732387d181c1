"""What a run's folder says before any row is read: how far it was read, by whom, and what of it was
acknowledged, starved, asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.history import ENDS
from harness.history.manifest import write_manifest
from harness.history.rows import facts_of
from harness.protocols import Facts, PartitionEnd, ScriptedFault
from tests.fixtures.hand_made import E, Made, R, W

Read = Callable[..., Facts]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def facts(**made: Any) -> Facts:
        stored = made.pop("stored", {})
        written = Made(**{"writes": [W(0)], "reads": [R(0)], **made})
        rundir = written.build(tmp_path, f"run-{len(list(tmp_path.iterdir()))}")
        plan = rundir.read_json(rundir.plan)
        for section, settings in stored.items():
            plan[section]["settings"] |= settings
        rundir.write_json(rundir.plan, plan)
        return facts_of(rundir)

    return facts


def end(read: Read, *ends: E, **plan: Any) -> PartitionEnd:
    """What two readers or one say of partition 0."""
    (reported,) = read(ends=ends, plan=plan).ends
    return reported


def test_one_complete_reader_is_enough(read: Read) -> None:
    for ends in (
        [E(reader="a"), E(reader="b", complete=False)],
        [E(reader="a", complete=False), E(reader="b")],
    ):
        reported = end(read, *ends)
        assert reported.complete
        assert reported.whole
        assert reported.readers == tuple(each.reader for each in ends if each.complete)


def test_none_complete_is_not_complete(read: Read) -> None:
    reported = end(read, E(reader="a", complete=False), E(reader="b", complete=False))
    assert (reported.complete, reported.whole, reported.readers) == (False, False, ())


@pytest.mark.parametrize(
    "said",
    [
        {"position": 8},
        {"position": None},
        {"position": -1, "end_offset": -1},
        {"error": "a checksum is wrong"},
        {"complete": False},
    ],
    ids=["short of its end", "nowhere", "before the first", "after an error", "twice"],
)
def test_a_reader_that_contradicts_itself_is_not_complete(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    rundir = Made(writes=[W(0)], reads=[R(0)], ends=[E(position=9)]).build(tmp_path, "run")
    ours, theirs = pq.read_table(rundir.ends).to_pylist()
    for rows, readers in (
        ([ours, theirs], ("a", "b")),
        ([{**ours, **said}, theirs], ("b",)),
        ([ours, theirs, {**theirs, **said}], ("a",)),
    ):
        pq.write_table(pa.Table.from_pylist(rows, schema=ENDS), rundir.ends)
        write_manifest(rundir, "run")
        (reported,) = facts_of(rundir).ends
        assert reported.readers == readers


def test_where_a_file_of_what_was_read_is_missing_no_reader_reached_the_end(tmp_path: Path) -> None:
    rundir = Made(writes=[W(0)], reads=[R(0)]).build(tmp_path, "run")
    rundir.parts(rundir.reads)[0].unlink()
    (reported,) = facts_of(rundir).ends
    assert (reported.complete, reported.whole) == (False, False)
    assert (reported.readers, reported.verified) == ((), ())


def test_a_replica_counts_once(tmp_path: Path) -> None:
    rundir = Made(writes=[W(0)], reads=[R(0)]).build(tmp_path, "run")
    rows = [{**row, "isr": ["b1", "b1", "b2"]} for row in pq.read_table(rundir.ends).to_pylist()]
    pq.write_table(pa.Table.from_pylist(rows, schema=ENDS), rundir.ends)
    write_manifest(rundir, "run")
    (reported,) = facts_of(rundir).ends
    assert (reported.complete, reported.whole) == (True, False)


@pytest.mark.parametrize(
    ("ends", "read_to", "log_start"),
    [
        # Of complete readers, what both have read, and from where both have read it.
        ([E(position=9, start=0), E(position=7, start=3, reader="b")], 7, 3),
        ([E(position=7, start=3), E(position=9, start=0, reader="b")], 7, 3),
        # One that is not complete says nothing beside one that is.
        ([E(position=7, start=1), E(position=9, start=4, reader="b", complete=False)], 7, 1),
        ([E(position=9, start=4), E(position=7, start=1, reader="b", complete=False)], 9, 4),
        # Where none is complete, as far as any has come.
        (
            [
                E(position=9, start=0, complete=False),
                E(position=7, start=3, reader="b", complete=False),
            ],
            9,
            3,
        ),
        ([E(position=None, start=None), E(position=7, start=2, reader="b")], 7, 2),
        ([E(position=None, start=None)], None, None),
    ],
)
def test_how_far_a_partition_was_read(
    read: Read, ends: list[E], read_to: int | None, log_start: int | None
) -> None:
    reported = end(read, *ends)
    assert (reported.read_to, reported.log_start) == (read_to, log_start)


def test_each_partition_has_its_own_end(read: Read) -> None:
    ends = [E(partition, position=10 + partition) for partition in (1, 0)]
    facts = read(ends=ends, plan={"topic": {"partitions": 2}})
    assert {each.partition: each.read_to for each in facts.ends} == {0: 10, 1: 11}
    assert facts.read_whole
    assert not read(ends=ends[:1], plan={"topic": {"partitions": 2}}).read_whole
    half = [E(0), E(1, complete=False)]
    assert not read(ends=half, plan={"topic": {"partitions": 2}}).read_whole


NOTED = {"partition": 0, "leader": "b1", "members": ["b1"], "in_sync": 1, "replicas": 3}


@pytest.mark.parametrize(
    ("noted", "ends", "replicated"),
    [
        (NOTED, [], {0: False}),
        (NOTED | {"members": ["b1", "b2", "b3"], "in_sync": 3}, [], {0: True}),
        (NOTED | {"members": ["b1", "b2", "b3"], "in_sync": 3, "leader": None}, [], {0: False}),
        (NOTED | {"in_sync": 3}, [], {0: True}),  # which they are need not be known
        (NOTED | {"in_sync": None}, [], {0: None}),
        (NOTED, [E(isr=3)], {0: True}),  # by the end of the read all were back
        (NOTED, [E(isr=3, complete=False)], {0: False}),
        (None, [E(isr=3)], {0: True}),  # a run of an earlier version
        (None, [E(isr=2)], {0: False}),
        (None, [], {}),
    ],
)
def test_who_was_in_sync_is_what_the_run_noted_or_the_ends_say(
    tmp_path: Path, noted: dict[str, Any] | None, ends: list[E], replicated: dict[int, bool | None]
) -> None:
    rundir = Made(writes=[W(0)], reads=[R(0)], ends=ends).build(tmp_path, "run")
    run = rundir.read_json(rundir.run)
    rundir.write_json(rundir.run, run | ({} if noted is None else {"in_sync": [noted]}))
    assert facts_of(rundir).replicated == replicated


MIN_ISR = "min.insync.replicas"


@pytest.mark.parametrize(
    ("in_sync", "replicas", "stored", "whole"),
    [
        (3, 3, {}, True),
        (2, 3, {}, False),
        (2, 2, {}, True),
        (1, 2, {}, False),
        (2, 2, {"topic": {MIN_ISR: 3}}, False),
        (3, 2, {"topic": {MIN_ISR: 3}}, True),
        (2, 2, {"target": {MIN_ISR: "3"}}, False),
        (2, 2, {"topic": {MIN_ISR: 1}, "target": {MIN_ISR: 3}}, True),  # the topic's own wins
        (2, 3, {"topic": {MIN_ISR: 2}}, False),
    ],
)
def test_every_replica_is_in_sync_and_no_fewer_than_min_insync_replicas(
    read: Read, in_sync: int, replicas: int, stored: dict[str, Any], whole: bool
) -> None:
    """With fewer in sync than that, what was acknowledged may not be visible. A plan that asks for
    more of them than there are replicas is refused today; stored ones are judged."""
    plan = {"topic": {"replication_factor": replicas}}
    (reported,) = read(ends=[E(isr=in_sync)], plan=plan, stored=stored).ends
    assert reported.complete
    assert reported.whole is whole


def test_replicas_in_sync_at_an_end_that_was_not_reached_say_nothing(read: Read) -> None:
    reported = end(read, E(isr=2), E(isr=3, reader="b", complete=False))
    assert (reported.complete, reported.whole) == (True, False)
    assert end(read, E(isr=2), E(isr=3, reader="b")).whole


@pytest.mark.parametrize(
    ("stored", "acknowledges"),
    [("-1", True), ("1", True), ("0", False), ("00", False), ("0abc", False)],
)
def test_what_is_none_of_the_acks_acknowledges_nothing(
    read: Read, stored: str, acknowledges: bool
) -> None:
    """Earlier versions took "00" and "0abc" and sent them as 0."""
    facts = read(run={"settings": {"effective": {"producer": {"acks": stored}}}})
    assert facts.promises.acknowledges is acknowledges


def test_the_settings_that_were_read_back_win_over_those_asked_for(read: Read) -> None:
    asked = {"workload": {"producer": {"acks": "0", "enable.idempotence": True}}}
    effective = {"acks": "1", "enable.idempotence": "False"}
    facts = read(plan=asked)
    assert (facts.promises.acknowledges, facts.promises.once) == (False, True)
    facts = read(plan=asked, run={"settings": {"effective": {"producer": effective}}})
    assert (facts.promises.acknowledges, facts.promises.once) == (True, False)
    facts = read(run={"settings": {"effective": {"producer": {"enable.idempotence": "True"}}}})
    assert (facts.promises.acknowledges, facts.promises.once) == (True, True)
    assert not read().promises.once


@pytest.mark.parametrize(
    ("settings", "tested"),
    [
        ({}, False),
        ({"retention.ms": 1000}, True),
        ({"retention.bytes": -1}, False),
        ({"retention.ms": "-1", "retention.bytes": 9}, True),
        ({"cleanup.policy": "compact"}, True),
        ({"cleanup.policy": "delete,compact"}, True),
        ({"cleanup.policy": "delete"}, False),
        ({"min.compaction.lag.ms": 5}, True),
        ({"segment.bytes": 1048576}, False),
    ],
)
def test_whether_deletion_is_under_test(read: Read, settings: dict[str, Any], tested: bool) -> None:
    assert read(plan={"topic": {"settings": settings}}).promises.deletes is tested
    brokers = {
        f"log.{key}" if not key.startswith(("min", "segment")) else key: value
        for key, value in settings.items()
    }
    assert read(plan={"target": {"settings": brokers}}).promises.deletes is tested


def test_a_clock_that_is_moved_may_delete(read: Read) -> None:
    steps = [{"id": "c", "nemesis": "clock", "at_s": 1}]
    assert read(plan={"faults": steps}).promises.deletes
    assert not read(plan={"faults": [{"id": "k", "nemesis": "kill", "at_s": 1}]}).promises.deletes


def test_what_the_load_was(read: Read) -> None:
    assert read().starved is None
    assert read(run={"load": {"starved": False, "why": "no"}}).starved is None
    assert read(run={"load": {"starved": True, "why": "held up"}}).starved == "held up"
    assert read(run={"load": {"starved": True}}).starved == "the load generator was starved"


def test_faults_asked_for_are_the_steps_with_a_nemesis(read: Read) -> None:
    steps = [
        {"id": "one", "nemesis": "kill", "at_s": 1},
        {"id": "two", "nemesis": "kill", "when": "isr < 3", "else": "skip"},
        {"id": "mend", "heal": "all"},
    ]
    facts = read(plan={"faults": steps})
    assert facts.faults == (ScriptedFault(id="one"), ScriptedFault(id="two", may_skip=True))
    assert not facts.drawn


def test_what_is_reported_of_a_run(read: Read) -> None:
    forced = [{"key": "topic.x", "what": "is ignored", "source": "KIP-1"}]
    facts = read(
        run={"seed": 9, "forced": forced, "error": "no disk", "timings": {"run_s": 4.5}},
        plan={"workload": {"clients": 3}, "topic": {"partitions": 2}},
    )
    assert facts.forced == ("topic.x: is ignored (KIP-1)",)
    assert (facts.seed, facts.error, facts.timings) == (9, "no disk", {"run_s": 4.5})
    assert (facts.promises.clients, facts.promises.partitions) == (3, 2)
    assert facts.plan == facts.run_id
    assert read().timings == {}
