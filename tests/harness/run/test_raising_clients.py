"""Clients that raise: their operations end in info, each once, and the run goes on."""

from __future__ import annotations

import threading
from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.errors import HarnessFailure
from harness.protocols import OK, Completion, Done, Invoke, Script, completion, invoke
from tests.fixtures.virtual import MS, S, VirtualClient, at_once, history, invokes, run_load
from workloads.append import Append


class LibraryError(Exception):
    """What a client library raises."""


@dataclass
class Raising(VirtualClient):
    """Raises `error` where its time says so; time passes in its pauses."""

    at: Callable[[str, int], bool] = lambda _where, _now_ns: False
    error: BaseException = field(default_factory=LibraryError)

    def _raise(self, where: str) -> None:
        if self.at(where, self.now):
            raise self.error

    def wait(self, event: threading.Event, timeout_s: float | None) -> bool:
        self.now += round((timeout_s or 0) * 1e9)
        return event.is_set()

    def submit(self, process: int, op: Invoke) -> bool:
        self._raise("submit")
        return super().submit(process, op)

    def poll(self, timeout_s: float, done: Done) -> None:
        self._raise("poll")
        super().poll(timeout_s, done)

    def close(self, timeout_s: float, done: Done) -> None:
        self._raise("close")
        super().close(timeout_s, done)


def during(place: str) -> Callable[[str, int], bool]:
    """In the second from 1 s to 2 s."""
    return lambda where, now_ns: where == place and S <= now_ns < 2 * S


def test_an_operation_whose_submit_raises_ends_in_info_and_the_run_goes_on(tmp_path: Path) -> None:
    client = Raising(at=during("submit"))
    report, rows = run_load(tmp_path, client, processes=4, rate_per_s=10, duration_s=3)
    assert report.attempted == 30
    ended = rows[rows.type != "invoke"]
    assert set(ended[ended.type == "info"].error) == {"LibraryError"}
    assert ended.type.astype(str).value_counts().to_dict() == {"ok": 20, "info": 10}
    assert sorted(ended.value) == sorted(invokes(rows).value), "each is completed once"


@pytest.mark.parametrize("rate_per_s", [100, 0])
def test_when_poll_raises_all_in_flight_is_unknown_and_later_answers_are_ignored(
    tmp_path: Path, rate_per_s: float
) -> None:
    slow = lambda now_ns, _: (now_ns + 500 * MS, completion(OK, 0))  # noqa: E731
    client = Raising(slow, at=during("poll"))
    _, rows = run_load(tmp_path, client, processes=4, rate_per_s=rate_per_s, duration_s=4)
    ended = rows[rows.type != "invoke"]
    assert set(ended.type) == {"ok", "info"}
    assert set(ended[ended.type == "info"].error) == {"LibraryError"}
    assert not ended.duplicated(["process", "value"]).any()
    assert sorted(ended.value) == sorted(invokes(rows).value), "each is completed once"
    assert (ended[ended.time_ns > 2 * S].type == "ok").all(), "it goes on when the client does"
    assert len(invokes(rows)) < 500, "a client that always raises does not spin"


def test_what_is_reported_twice_or_never_began_is_ignored(tmp_path: Path) -> None:
    class Babbling(VirtualClient):
        def poll(self, timeout_s: float, done: Done) -> None:
            def babble(process: int, ended: Completion) -> None:
                for reported in (process, process, -1, process + 4_000):
                    done(reported, ended)

            super().poll(timeout_s, babble)

    _, rows = run_load(tmp_path, Babbling(), processes=4, rate_per_s=100, duration_s=1)
    ended = rows[rows.type != "invoke"]
    assert list(zip(ended.process, ended.value, strict=True)) == [
        (number % 4, number) for number in range(100)
    ]


@pytest.mark.parametrize("where", ["raises", "forgets"])
def test_what_a_client_leaves_when_it_is_closed_is_unknown(tmp_path: Path, where: str) -> None:
    class Careless(Raising):
        def close(self, timeout_s: float, done: Done) -> None:
            if where == "raises":
                raise LibraryError

    never = lambda now_ns, _: (now_ns + 9000 * S, completion(OK, 0))  # noqa: E731
    folder = tmp_path / where
    folder.mkdir()
    client = Careless(never)
    _, rows = run_load(folder, client, processes=3, rate_per_s=100, duration_s=1)
    ended = rows[rows.type != "invoke"]
    expected = "LibraryError" if where == "raises" else "not-completed"
    assert [(row.type, row.error) for row in ended.itertuples()] == [("info", expected)] * 3


@pytest.mark.parametrize("place", ["submit", "poll", "close"])
@pytest.mark.parametrize("error", [SystemExit(3), CancelledError()])
def test_a_client_that_wants_to_end_the_process_ends_its_operations_and_no_more(
    tmp_path: Path, place: str, error: BaseException
) -> None:
    """As a blocking client's does: a library of coroutines cancels, others exit."""
    never = lambda now_ns, _: (now_ns + 9000 * S, completion(OK, 0))  # noqa: E731
    client = Raising(never if place == "close" else at_once, error=error)
    client.at = (lambda where, _: where == place) if place == "close" else during(place)
    _, rows = run_load(tmp_path, client, processes=4, rate_per_s=100, duration_s=3)
    ended = rows[rows.type != "invoke"]
    assert type(error).__name__ in set(ended[ended.type == "info"].error)
    assert sorted(ended.value) == sorted(invokes(rows).value), "each is completed once"


@pytest.mark.parametrize("place", ["submit", "poll", "close"])
def test_an_interrupt_ends_the_run_and_every_operation(tmp_path: Path, place: str) -> None:
    client = Raising(at=lambda where, _: where == place, error=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run_load(tmp_path, client, processes=2, rate_per_s=10, duration_s=1)
    rows = history(tmp_path)
    assert (rows.type == "invoke").sum() == (rows.type != "invoke").sum() > 0


def test_the_harness_own_errors_end_the_run(tmp_path: Path) -> None:
    for place in ("submit", "poll", "close"):
        client = Raising(at=lambda where, _, place=place: where == place)
        client.error = HarnessFailure("no client could be started")
        folder = tmp_path / place
        folder.mkdir()
        with pytest.raises(HarnessFailure, match="no client could be started"):
            run_load(folder, client, processes=2, rate_per_s=10, duration_s=1)
        rows = history(folder)
        assert (rows.type == "invoke").sum() == (rows.type != "invoke").sum()


def test_an_error_of_a_script_is_no_error_of_the_client(tmp_path: Path) -> None:
    class Wrong(Append):
        def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
            yield invoke("append", process, 0)
            raise LookupError("a bug in the workload")

    with pytest.raises(LookupError, match="a bug in the workload"):
        run_load(
            tmp_path, VirtualClient(), workload=Wrong(), processes=2, rate_per_s=10, duration_s=1
        )
