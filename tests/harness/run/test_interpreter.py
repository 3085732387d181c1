"""The interpreter in virtual time: pace, lateness, back-pressure, retired processes, the end."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import EnvironmentFailure, HarnessFailure
from harness.history.parquet_writer import ParquetWriter
from harness.protocols import FAIL, INFO, OK, Completion, Invoke, Script, completion, invoke
from harness.run.load import LoadReport, run_workload
from harness.run.recorder import Recorder
from tests.fixtures.budget import budget
from tests.fixtures.virtual import MS, S, VirtualClient, history, invokes, plan_for, run_load
from tests.fixtures.waiting import wait_until
from workloads.append import Append

pytestmark = pytest.mark.slow


def test_open_loop_keeps_its_pace(tmp_path: Path) -> None:
    report, rows = run_load(tmp_path, VirtualClient(), processes=4, rate_per_s=100, duration_s=2)
    assert report.attempted == 200
    assert report.not_run == 0
    assert invokes(rows).intended_ns.tolist() == [k * 10 * MS for k in range(200)]
    assert (invokes(rows).time_ns == invokes(rows).intended_ns).all()
    assert set(invokes(rows).partition) == {0, 1, 2}


def test_a_stall_shows_as_lateness_and_intended_times_are_kept(tmp_path: Path) -> None:
    """For the second from 1 s to 2 s nothing is answered, and 4 processes are soon all waiting."""

    def stalls(now_ns: int, _: Invoke) -> tuple[int, Completion]:
        answered_ns = now_ns + 5 * MS
        return (2 * S if S <= answered_ns < 2 * S else answered_ns), completion(OK)

    report, rows = run_load(
        tmp_path, VirtualClient(stalls), processes=4, rate_per_s=100, duration_s=4
    )
    begun = invokes(rows)
    lateness_ms = (begun.time_ns - begun.intended_ns) // MS
    assert begun.intended_ns.tolist() == [k * 10 * MS for k in range(400)]
    assert report.not_run == 0
    assert lateness_ms[:100].max() == 0, "nothing is late before the stall"
    fifth_in_stall = begun.index[begun.intended_ns >= S][0] + 4
    assert lateness_ms[fifth_in_stall] == pytest.approx(960, abs=15)
    assert (lateness_ms[begun.intended_ns >= 3.5 * S] == 0).all(), "it has caught up"


def test_operations_that_were_due_but_never_played_are_counted(tmp_path: Path) -> None:
    def slow(now_ns: int, _: Invoke) -> tuple[int, Completion]:
        return now_ns + S, completion(OK)

    report, _ = run_load(tmp_path, VirtualClient(slow), processes=1, rate_per_s=10, duration_s=5)
    assert report.attempted == 5
    assert report.not_run == 45


@pytest.mark.parametrize(("until_s", "not_run"), [(3, 0), (5, 300)])
def test_a_client_that_takes_nothing_for_seconds_makes_operations_late_not_lost(
    tmp_path: Path, until_s: int, not_run: int
) -> None:
    """All real clients are dead from 1 s on: until 3 s, or longer than the workload lasts."""

    class Dead(VirtualClient):
        def submit(self, process: int, op: Invoke) -> bool:
            return not S <= self.now < until_s * S and super().submit(process, op)

    report, rows = run_load(tmp_path, Dead(), processes=4, rate_per_s=100, duration_s=4)
    begun = invokes(rows)
    assert begun.intended_ns.tolist() == [k * 10 * MS for k in range(400 - not_run)]
    assert report.attempted == len(begun)
    assert report.not_run == not_run
    assert report.starved is None
    late_ns = begun.time_ns - begun.intended_ns
    assert late_ns.max() == pytest.approx(2 * S if until_s == 3 else 0, abs=0.1 * S)


def test_flat_out_a_full_queue_is_back_pressure_not_an_attempt(tmp_path: Path) -> None:
    client = VirtualClient(capacity=7)
    report, rows = run_load(tmp_path, client, processes=50, rate_per_s=0, duration_s=0.2)
    assert client.refusals > 100
    assert client.most_in_flight == 7
    assert report.attempted == len(invokes(rows)) == 7 * 200
    assert (rows.type == "ok").sum() == report.attempted
    assert (invokes(rows).time_ns == invokes(rows).intended_ns).all()
    assert set(invokes(rows).process) == set(range(50)), "every process gets its turn"


@settings(
    deadline=None,
    max_examples=budget(8, 40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    processes=st.integers(1, 9),
    rate_per_s=st.sampled_from([0, 40, 1000]),
    capacity=st.integers(1, 12),
    answers=st.lists(
        st.tuples(st.sampled_from([OK, FAIL, INFO]), st.integers(1, 90)), min_size=1, max_size=25
    ),
)
def test_histories_are_well_formed(
    tmp_path_factory: pytest.TempPathFactory,
    processes: int,
    rate_per_s: float,
    capacity: int,
    answers: list[tuple[str, int]],
) -> None:
    """Values are unique over replaced processes; each operation has exactly one completion; a
    process that ended in info is never heard of again; no process has two operations at once."""
    script = iter(answers * 10_000)

    def answer(now_ns: int, _: Invoke) -> tuple[int, Completion]:
        type_, after_ms = next(script)
        return now_ns + after_ms * MS, completion(type_, 3 if type_ == OK else None)

    client = VirtualClient(answer, capacity=capacity)
    folder = tmp_path_factory.mktemp("run")
    report, rows = run_load(
        folder, client, processes=processes, rate_per_s=rate_per_s, duration_s=1
    )

    begun = invokes(rows)
    assert report.attempted == len(begun) == (rows.type != "invoke").sum()
    assert begun.value.is_unique
    assert begun.value.max() < len(begun) + 2 * processes * (1 + len(begun) // processes)
    assert rows["index"].tolist() == list(range(len(rows)))
    assert rows.time_ns.is_monotonic_increasing
    for process, own in rows.groupby("process"):
        assert own.type.tolist()[0::2] == ["invoke"] * (len(own) // 2)
        assert own.value.tolist()[0::2] == own.value.tolist()[1::2]
        assert own.intended_ns.tolist()[0::2] == own.intended_ns.tolist()[1::2]
        assert "info" not in own.type.tolist()[:-1], "a retired process goes on"
        if process >= processes:
            before = rows[rows.process == process - processes]
            assert before.type.tolist()[-1] == "info", "a replacement of a process that lives"


def test_no_operation_is_lost_when_nothing_is_ever_answered(tmp_path: Path) -> None:
    def never(_: int, __: Invoke) -> tuple[int, Completion]:
        return 10_000 * S, completion(OK)

    client = VirtualClient(never)
    report, rows = run_load(tmp_path, client, processes=20, rate_per_s=0, duration_s=1)
    assert client.closed
    assert report.attempted == 20
    assert (rows.type == "info").sum() == 20
    assert set(rows[rows.type == "info"].value) == set(range(20))


def test_what_is_in_flight_at_the_end_is_waited_for(tmp_path: Path) -> None:
    def slow(now_ns: int, _: Invoke) -> tuple[int, Completion]:
        return now_ns + 8 * S, completion(OK)

    report, rows = run_load(tmp_path, VirtualClient(slow), processes=5, rate_per_s=0, duration_s=1)
    assert report.attempted == (rows.type == "ok").sum() == 5
    assert report.ended_ns == S, "the drain is not part of the load"


def test_stop_ends_it_early_and_everything_is_completed(tmp_path: Path) -> None:
    stop = threading.Event()

    def answer(now_ns: int, _: Invoke) -> tuple[int, Completion]:
        if now_ns > S:
            stop.set()
        return now_ns + MS, completion(OK)

    report, rows = run_load(
        tmp_path, VirtualClient(answer), processes=3, rate_per_s=100, duration_s=60, stop=stop
    )
    assert S < report.ended_ns < 1.1 * S
    assert report.not_run == 0
    assert (rows.type == "ok").sum() == report.attempted


def test_operations_complete_while_the_faults_are_being_healed(tmp_path: Path) -> None:
    """What is in flight is answered at 1.5 s; healing lasts until the client was polled past 2 s,
    and does not last at all if nobody polls."""

    def slow(now_ns: int, _: Invoke) -> tuple[int, Completion]:
        return 1_500 * MS, completion(OK)

    client, polled = VirtualClient(slow), threading.Event()
    poll = client.poll

    def watched(timeout_s: float, done: Any) -> None:
        poll(timeout_s, done)
        if client.now > 2 * S:
            polled.set()

    client.poll = watched  # type: ignore[method-assign]
    healed = []

    def heal() -> None:
        healed.append(polled.wait(timeout=10))

    _, rows = run_load(tmp_path, client, processes=2, rate_per_s=0, duration_s=1, before_drain=heal)
    assert healed == [True]
    assert rows[rows.type == "ok"].time_ns.tolist() == [1_500 * MS] * 2


def test_a_failure_to_heal_is_raised_and_the_client_is_closed(tmp_path: Path) -> None:
    def heal() -> None:
        raise HarnessFailure("cannot heal")

    client = VirtualClient()
    with pytest.raises(HarnessFailure, match="cannot heal"):
        run_load(tmp_path, client, processes=2, rate_per_s=0, duration_s=0.1, before_drain=heal)
    assert client.closed
    rows = history(tmp_path)
    assert len(invokes(rows)) == (rows.type == "ok").sum() > 0


@dataclass(frozen=True)
class ThreeEach:
    """Scripts that end, and that see how their operations ended."""

    plugin: ClassVar[str] = "three-each"

    model: ClassVar[str] = "log"

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Script:
        for turn in range(3):
            ended = yield invoke("append", process + turn * processes, 0, key=f"k{seed}")
            assert ended == completion(OK, 0)


def test_it_ends_when_every_script_has_ended(tmp_path: Path) -> None:
    report, rows = run_load(
        tmp_path, VirtualClient(), workload=ThreeEach(), processes=4, rate_per_s=0, duration_s=60
    )
    assert report.attempted == 12
    assert report.ended_ns < S
    assert set(rows.key) == {"k0"}


def test_starvation_is_time_that_the_loop_did_not_choose_to_wait(tmp_path: Path) -> None:
    client = VirtualClient()
    poll = client.poll

    def held_up(timeout_s: float, done: Any) -> None:
        poll(timeout_s, done)
        if S <= client.now < 2 * S:
            client.now += 2_500 * MS

    client.poll = held_up  # type: ignore[method-assign]
    report, rows = run_load(tmp_path, client, processes=4, rate_per_s=100, duration_s=10)
    assert report.longest_held_up_s == pytest.approx(2.5, abs=0.01)
    assert "2.5 s at a time" in (report.starved or "")
    late_ns = (invokes(rows).time_ns - invokes(rows).intended_ns).max()
    assert late_ns == pytest.approx(2.5 * S, rel=0.01), "and it shows as lateness too"


def test_flat_out_it_looks_for_completions_between_bursts(tmp_path: Path) -> None:
    class Counting(VirtualClient):
        since_poll = most = 0

        def submit(self, process: int, op: Invoke) -> bool:
            self.since_poll += 1
            self.most = max(self.most, self.since_poll)
            return super().submit(process, op)

        def poll(self, timeout_s: float, done: Any) -> None:
            self.since_poll = 0
            super().poll(timeout_s, done)

    client = Counting()
    run_load(tmp_path, client, processes=600, rate_per_s=0, duration_s=0.02)
    assert client.most == 256


def test_it_ends_when_the_recorder_cannot_write(tmp_path: Path) -> None:
    client, recorder = VirtualClient(), Recorder(tmp_path / "gone", run_id="r", period_s=0)
    report = run_workload(
        Append(),
        client,
        plan=plan_for(processes=3, rate_per_s=100, duration_s=86_400),
        recorder=recorder,
        clock=client,
        stop=threading.Event(),
    )
    assert report.ended_ns < 86_400 * S
    assert client.closed
    (tmp_path / "gone").mkdir()
    recorder.close()
    rows = history(tmp_path / "gone")
    assert (rows.type == "ok").sum() == report.attempted, "no operation is lost"


def report(held_up_s: float, longest_s: float) -> LoadReport:
    return LoadReport(
        begun_ns=0,
        ended_ns=40 * S,
        attempted=1,
        not_run=0,
        held_up_s=held_up_s,
        longest_held_up_s=longest_s,
    )


@pytest.mark.parametrize(
    ("held_up_s", "longest_s", "starved"),
    [(0, 0, False), (1.9, 1.9, False), (2.1, 2.1, True), (3.9, 0.2, False), (4.1, 0.2, True)],
)
def test_the_rule_of_starvation(held_up_s: float, longest_s: float, starved: bool) -> None:
    assert (report(held_up_s, longest_s).starved is not None) is starved


def test_a_load_that_a_full_disk_ended_is_not_the_one_of_the_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk takes everything later, so the history is complete and shows nothing of it."""
    full, write = threading.Event(), ParquetWriter.write

    def refused(self: ParquetWriter, table: Any) -> None:
        if full.is_set():
            raise EnvironmentFailure("No space left on device", file="history")
        write(self, table)

    def until_refused(now_ns: int, op: Invoke) -> tuple[int, Completion]:
        if op[1] == 7:
            full.set()
            recorder.hand_over()
            wait_until(lambda: recorder.failure is not None)
        return now_ns + MS, completion(OK)

    monkeypatch.setattr(ParquetWriter, "write", refused)
    client = VirtualClient(until_refused)
    plan = plan_for(processes=1, rate_per_s=10, duration_s=5)
    with Recorder(tmp_path, run_id="r", period_s=0) as recorder:
        report = run_workload(
            Append(), client, plan=plan, recorder=recorder, clock=client, stop=threading.Event()
        )
        full.clear()
    assert recorder.failure is None
    assert len(history(tmp_path)) == 2 * report.attempted == 16
    assert report.starved == "the load ended after 0.7 s: history: No space left on device"
