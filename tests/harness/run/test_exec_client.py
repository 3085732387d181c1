"""Clients that are processes of the user's: honest ones, and a liar of each kind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.clusters.cleaning import client_processes
from harness.protocols.runs import Conduct
from tests.fixtures.client_places import Made

pytestmark = pytest.mark.slow


def test_an_honest_client_does_all_and_leaves_nothing(make: Callable[..., Made]) -> None:
    made = make(places=3)
    made.write(*range(40))
    assert set(made.types) == {"ok"}
    assert sorted(process for process, _ in made.ended) == list(range(40))
    assert sorted(map(int, made.written.read_text().split())) == list(range(100, 140))
    conduct = made.close()
    assert conduct.clean
    assert (conduct.software, conduct.started) == ("test-client 1.0", 3)
    assert not client_processes(made.run_id)


def test_operations_are_in_flight_side_by_side(make: Callable[..., Made]) -> None:
    made = make()
    assert all(made.submit(process) for process in range(500))
    made.poll_until(lambda: len(made.ended) == 500)
    assert {ended[0] for _, ended in made.ended} == {"ok"}


LIES = {
    "malformed": "not JSON: 'java.lang.NullPointerException'",
    "unknown-id": "operation 1003, which it was not given",
    "zero": "operation 0, which it was not given",
    "twice": "operation 3 a second time",
}
"""What lines alone are: test_client_lines."""


@pytest.mark.parametrize("misdeed", LIES)
def test_a_lie_ends_the_client_and_is_reported(make: Callable[..., Made], misdeed: str) -> None:
    made = make(f"{misdeed}@3")
    made.write(1, 2)
    assert all(made.submit(process) for process in (3, 4, 5))
    made.poll_until(lambda: len(made.ended) == 5)
    made.poll_until(lambda: made.notes.conduct().lies == 1)
    conduct = made.close()
    (incident,) = conduct.incidents
    assert (incident.client, incident.kind) == (1, "lie")
    assert LIES[misdeed] in incident.what
    assert incident.what.endswith("it is not started again")
    assert conduct.counts == {**Conduct().counts, "lies": 1}
    assert not made.submit(6)
    # What it said before it lied counts; what was in flight is unknown.
    before = 3 if misdeed == "twice" else 2
    assert made.types == ["ok"] * before + ["info"] * (5 - before)
    assert set(made.errors[before:]) == {"CLIENT_LIED"}
    assert conduct.ended == 5 - before


def test_others_take_over_for_one_that_lied(make: Callable[..., Made]) -> None:
    made = make("malformed@3", places=2)
    made.write(*range(4))
    made.submit(0)
    made.poll_until(lambda: made.notes.conduct().lies == 1)
    made.poll_until(lambda: len(made.ended) == 5)
    made.client.poll(0.01, made.done)
    assert made.submit(2)  # of the place that is gone
    made.poll_until(lambda: len(made.ended) == 6)


@pytest.mark.parametrize(
    ("misdeed", "kind", "words"),
    [
        ("oversized", "flood", "more than 1 MiB"),
        ("flood", "lie", "a second time"),
    ],
)
def test_a_flood_ends_the_client(
    make: Callable[..., Made], misdeed: str, kind: str, words: str
) -> None:
    made = make(f"{misdeed}@2")
    made.write(1, 2)
    made.poll_until(lambda: bool(made.notes.conduct().incidents))
    (incident,) = made.close().incidents
    assert incident.kind == kind
    assert words in incident.what


def test_a_flood_of_the_log_is_cut_off(make: Callable[..., Made]) -> None:
    made = make("logs@2")
    made.write(1, 2, 3)
    assert made.types == ["ok"] * 3
    made.close()
    assert made.logs[0].cut_off
    assert made.logs[0].path.stat().st_size == 16 << 20


def test_a_blocked_operation_is_given_up_alone(make: Callable[..., Made]) -> None:
    made = make("block@2", within_s=0.6)
    made.write(1)
    made.submit(2)
    made.write(3)
    made.poll_until(lambda: len(made.ended) == 3)
    assert made.errors == [None, None, "CLIENT_BLOCKED"]
    made.write(2, 4)
    conduct = made.close()
    assert (conduct.blocked, conduct.late, conduct.started) == (1, 0, 1)
    assert "operation 2 (append) has no answer after 0.6 s" in conduct.incidents[0].what


def test_a_late_answer_is_no_lie_and_changes_nothing(make: Callable[..., Made]) -> None:
    made = make("late@2", within_s=0.6)
    made.write(1)
    made.submit(2)
    made.write(3)
    made.poll_until(lambda: made.notes.conduct().blocked == 1)
    made.poll_until(lambda: made.notes.conduct().late == 1)
    made.write(2)
    conduct = made.close()
    assert (conduct.lies, conduct.blocked, conduct.late) == (0, 1, 1)
    assert made.types.count("info") == 1


def test_what_a_client_does_not_read_pushes_back(make: Callable[..., Made]) -> None:
    made = make("hang@1", within_s=5.0)
    process = 0
    while made.submit(process) and process < 100_000:
        process += 1
        if process % 100 == 0:
            made.client.poll(0, made.done)
    assert 1_000 < process < 100_000
