"""A consumer is a process of the operating system: killed, stopped, asked to leave; what it has
reported is kept. Without Kafka: the process here reads from nobody."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.protocols.groups import KINDS, Delivery
from targets.kafka.groups import group
from targets.kafka.groups.group import ConsumerProcess
from targets.kafka.groups.loop import Report, parsed
from tests.fixtures.waiting import wait_until

SETUP = {
    "topic": "t", "commit": "after", "commit_partitions": "own", "batch_count": 2, "process_ms": 1,
}  # fmt: skip
Rows = list[Delivery]


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ConsumerProcess, Rows]]:
    monkeypatch.setattr(group, "MODULES", {"endless": "tests.fixtures.consumer_process"})
    rows: Rows = []
    made = ConsumerProcess("endless", SETUP, run_id="r", number=3, life=2, take=rows.extend)
    wait_until(lambda: len(of(rows, KINDS.commit)) >= 2)
    yield made, rows
    made.kill()


def of(rows: Rows, kind: str) -> Rows:
    return [row for row in rows if row.f == kind]


def test_what_it_does_becomes_rows(consumer: tuple[ConsumerProcess, Rows]) -> None:
    _, rows = consumer
    assert {(row.consumer, row.life, row.member) for row in rows} == {("consumer-3", 2, "member")}
    delivered, processed = of(rows, KINDS.deliver), of(rows, KINDS.process)
    assert [(row.offset, row.value) for row in delivered][:2] == [(0, 0), (1, 1)]
    assert [(row.offset, row.value) for row in processed][:2] == [(0, 0), (1, 1)]
    begun, ended = of(rows, KINDS.commit)[:2]
    assert (begun.type, ended.type, begun.offset, ended.offset) == ("invoke", "ok", 2, 2)
    assert begun.begun_ns == ended.begun_ns <= ended.time_ns
    assert of(rows, KINDS.assign)[0].generation == 7


def test_it_leaves_after_its_batch_with_its_position(
    consumer: tuple[ConsumerProcess, Rows],
) -> None:
    one, rows = consumer
    one.send(signal.SIGTERM)
    assert one.leaving
    one.wait(time.monotonic() + 30)
    assert rows[-1].f == KINDS.stop
    assert rows[-1].type == "ok"
    (position,) = of(rows, KINDS.position)
    last = of(rows, KINDS.process)[-1].offset
    assert last is not None
    assert position.offset == last + 1


def test_a_killed_one_leaves_what_it_had_reported(consumer: tuple[ConsumerProcess, Rows]) -> None:
    one, rows = consumer
    one.kill()
    assert not one.alive
    assert (rows[-1].f, rows[-1].type, rows[-1].error) == (KINDS.stop, "info", "SIGKILL")
    processed = [row.offset for row in of(rows, KINDS.process)]
    assert processed == list(range(len(processed)))


def test_a_paused_one_reports_nothing_until_it_goes_on(
    consumer: tuple[ConsumerProcess, Rows],
) -> None:
    one, rows = consumer
    one.send(signal.SIGSTOP)
    wait_until(lambda: one.paused)
    time.sleep(0.3)
    before = len(rows)
    time.sleep(0.3)
    assert len(rows) == before
    one.send(signal.SIGCONT)
    wait_until(lambda: len(rows) > before)
    assert not one.paused


def test_one_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MODULES", {"endless": "tests.fixtures.consumer_process"})
    rows: Rows = []
    one = ConsumerProcess("endless", {}, run_id="r", number=1, life=1, take=rows.extend)
    one.wait(time.monotonic() + 30)
    (row,) = rows
    assert (row.f, row.type, row.error) == (
        KINDS.stop,
        "info",
        "it ended with 1: KeyError: 'topic'",
    )


def test_it_ends_when_the_harness_has_ended() -> None:
    code = (
        "import json, sys; from targets.kafka.groups.loop import end_with_the_harness\n"
        "import time; end_with_the_harness(); time.sleep(60)"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.close()
    assert child.wait(30) == 1


@pytest.mark.parametrize(
    "line",
    [b'["deliver",1,2,"ok",null,', b"", b"[]", b'["nonsense",1,2,"ok",null,null,null,[]]'],
)
def test_a_line_that_is_cut_off_is_dropped(line: bytes) -> None:
    assert parsed(line) is None


def test_a_line_without_records_is_one_row() -> None:
    report = parsed(b'["start",1,2,"ok","m",4,null,[]]')
    assert report == Report("start", 1, 2, "ok", "m", 4, None, [])
    assert [row.partition for row in report.rows("consumer-1", 1)] == [None]


def test_the_program_is_where_the_process_is_started() -> None:
    for module in group.MODULES.values():
        assert (Path(group._ROOT) / f"{module.replace('.', '/')}.py").is_file()
