"""When each client lost writes, in a run whose events are known."""

from __future__ import annotations

from dataclasses import asdict

import pyarrow as pa
import pytest

from analysis.timeline import (
    Event,
    NearestEvent,
    PlacedSpan,
    Timeline,
    events,
    placed_spans,
    timeline,
)
from checkers.loss.findings import FINDINGS, lost_spans
from harness.history.documents import LostSpan
from tests.fixtures import synthetic_run as synthetic
from tests.fixtures.synthetic_run import Story, build


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    return timeline(build(tmp_path_factory.mktemp("runs"), Story(rate_per_s=20)))


def spans(line: Timeline, *lost: tuple[int, float, float]) -> list[PlacedSpan]:
    """The spans of these lost writes: process, begun, acknowledged."""
    rows = [
        {"kind": "lost", "value": value, "process": process, "intended_ns": 0}
        | {"invoke_ns": int(begun * 1e9), "complete_ns": int(answered * 1e9)}
        for value, (process, begun, answered) in enumerate(lost)
    ]
    found = lost_spans(pa.Table.from_pylist(rows, schema=FINDINGS), clients=2)
    return placed_spans([LostSpan(**asdict(span)) for span in found], line)


def test_events_are_faults_and_takeovers_in_the_order_of_time(line: Timeline) -> None:
    named = [(event.what, event.at_s) for event in events(line)]
    assert named == [
        ("cut began", synthetic.CUT_S),
        ("isolate began", synthetic.ISOLATED_S),
        ("b1 took over", pytest.approx(synthetic.ELECTED_S, abs=0.3)),
        ("cut and isolate were healed", synthetic.HEALED_S),
    ]


def test_each_client_has_its_span_and_processes_are_dealt_out_in_turn(line: Timeline) -> None:
    """Even processes left the old leader at the takeover, odd ones at the heal."""
    every, first, second = spans(
        line, (0, 6.2, 9.5), (4, 21.9, 22.1), (1, 6.1, 9.6), (3, 29.0, 30.25), (5, 12, 12.1)
    )
    assert [one.span.client for one in (every, first, second)] == [None, 1, 2]
    assert [one.span.lost for one in (every, first, second)] == [5, 2, 3]
    assert (first.span.begun_s, first.span.acknowledged_s) == ((6.2, 21.9), (9.5, 22.1))
    assert (second.span.begun_s, second.span.acknowledged_s) == ((6.1, 29.0), (9.6, 30.25))
    assert (every.span.begun_s, every.span.acknowledged_s) == ((6.1, 29.0), (9.5, 30.25))
    assert first.ended is not None
    assert first.ended.event.what == "b1 took over"
    assert second.ended == NearestEvent(
        event=Event(what="cut and isolate were healed", at_s=30.0), after_s=0.25
    )
    assert every.began is not None
    assert (every.began.event.what, every.began.after_s) == ("cut began", pytest.approx(0.1))


def test_a_client_without_loss_has_an_empty_span(line: Timeline) -> None:
    every, first, second = spans(line, (1, 10, 11))
    assert (every.span.lost, second.span.lost) == (1, 1)
    assert first == PlacedSpan(span=LostSpan(client=1, lost=0))


def test_before_an_event_is_negative(line: Timeline) -> None:
    every, *_ = spans(line, (0, 5.5, 9.5))
    assert every.began is not None
    assert (every.began.event.what, every.began.after_s) == ("cut began", -0.5)
