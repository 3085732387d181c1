"""Clients that are processes of the user's: honest ones, and a liar of each kind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from harness.errors import EnvironmentFailure, PlanError
from harness.machine.client_processes import client_processes, end_client_processes
from harness.protocols import OK, Completion, invoke
from harness.protocols.clock import RealClock
from harness.protocols.conduct import Conduct
from harness.run import exec_client
from harness.run.client_lines import setup_line
from harness.run.client_notes import Notes
from harness.run.client_place import STARTS
from harness.run.client_process import ClientCommand, ClientLog, ClientProcess
from harness.run.exec_client import ExecClient
from tests.fixtures.waiting import wait_until

CLIENT = Path(__file__).parents[2] / "fixtures/clients/any_client.py"
AT_MOST_S = 20.0


@dataclass
class Made:
    """Clients over processes, what they completed and what they did."""

    client: ExecClient
    notes: Notes
    run_id: str
    written: Path
    folder: Path
    logs: list[ClientLog]
    ended: list[tuple[int, Completion]] = field(default_factory=list)

    def done(self, process: int, ended: Completion) -> None:
        self.ended.append((process, ended))

    def poll_until(self, over: Callable[[], bool]) -> None:
        deadline = time.monotonic() + AT_MOST_S
        while not over():
            assert time.monotonic() < deadline, (self.ended, self.notes.conduct())
            self.client.poll(0.05, self.done)

    def write(self, *processes: int) -> None:
        """One operation of each process, and wait until all have ended."""
        expected = len(self.ended) + len(processes)
        for process in processes:
            self.poll_until(lambda process=process: self.submit(process))
        self.poll_until(lambda: len(self.ended) == expected)

    def submit(self, process: int) -> bool:
        return self.client.submit(process, invoke("append", 100 + process, 0))

    def close(self) -> Conduct:
        self.client.close(2.0, self.done)
        return self.notes.conduct()

    @property
    def types(self) -> list[str]:
        return [ended[0] for _, ended in self.ended]

    @property
    def errors(self) -> list[str | None]:
        return [ended[2] for _, ended in self.ended]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Made]]:
    monkeypatch.setattr(exec_client, "AGAIN_S", 0.05)
    monkeypatch.setattr(exec_client, "CLOSE_S", 1.0)
    made: list[Made] = []

    def begin(
        misdeed: str = "", *, places: int = 1, within_s: float = 5.0, model: str = "log"
    ) -> Made:
        run_id = f"test-{os.getpid()}-{time.monotonic_ns()}"
        written = tmp_path / "written"
        argv = (sys.executable, str(CLIENT), str(written), *([misdeed] if misdeed else []))
        logs = [ClientLog(tmp_path / f"client-{n}.log") for n in range(1, places + 1)]
        notes = Notes(RealClock(), argv)

        def start(number: int, nth: int) -> ClientProcess:
            setup = setup_line(
                run_id=run_id,
                system="none",
                version=None,
                model=model,
                client=number,
                clients=places,
                start=nth,
                answer_within_s=within_s,
                connection={"addresses": ["127.0.0.1:1"]},
            )
            name, log = f"client-{number}.{nth}", logs[number - 1]
            return ClientProcess(
                ClientCommand(argv), run_id=run_id, log=log, name=name, setup=setup
            )

        client = ExecClient(
            start,
            places=places,
            model=model,
            answer_within_s=within_s,
            clock=RealClock(),
            notes=notes,
        )
        one = Made(client, notes, run_id, written, tmp_path, logs)
        made.append(one)
        return one

    yield begin
    for one in made:
        one.client.end()
        left = end_client_processes(one.run_id)
        assert not left


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
    "binary": "not JSON",
    "not-an-object": "not a JSON object",
    "unknown-id": "operation 1003, which it was not given",
    "zero": "operation 0, which it was not given",
    "twice": "operation 3 a second time",
    "type": "'type' is 'done'",
    "list-type": "'type' is ['ok']",
    "id-type": "'id' is '3', not an integer",
    "position": "'position' is '7'",
    "field": "no field 'postion'",
    "result": "has no 'result'",
    "error": "'error' is ['no']",
}


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


@pytest.mark.parametrize(
    ("misdeed", "words"),
    [
        ("exit", "it ended with exit code 3"),
        ("segfault", "it was killed by SIGSEGV"),
        ("closes", "it closed its stdout"),
    ],
)
def test_one_that_dies_is_started_again(
    make: Callable[..., Made], misdeed: str, words: str
) -> None:
    made = make(f"{misdeed}@3")
    made.write(1, 2, 3)
    assert made.types == ["ok", "ok", "info"]
    assert made.errors[2] == "CLIENT_DIED"
    made.write(4, 5)  # waits until another is there
    assert made.types[3:] == ["ok", "ok"]
    conduct = made.close()
    assert (conduct.deaths, conduct.started, conduct.ended) == (1, 2, 1)
    assert [each.what for each in conduct.incidents] == [words]


def test_one_that_dies_at_each_start_is_given_up(make: Callable[..., Made]) -> None:
    made = make("dies-again@1")
    made.submit(1)
    made.poll_until(lambda: made.notes.conduct().deaths == STARTS)
    conduct = made.close()
    assert conduct.started == STARTS
    assert conduct.incidents[-1].what.endswith("it is not started again")
    assert made.errors == ["CLIENT_DIED"]
    assert not made.submit(2)


def test_one_that_hangs_is_ended_and_started_again(make: Callable[..., Made]) -> None:
    made = make("hang@3", within_s=0.6)
    made.write(1, 2, 3)
    assert made.errors[2] == "CLIENT_HUNG"
    made.write(4)
    conduct = made.close()
    assert (conduct.hangs, conduct.started) == (1, 2)
    assert "it says nothing: operation 3 (append) has no answer after 0.6 s" in (
        conduct.incidents[0].what
    )


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


def test_one_that_does_not_end_is_ended(make: Callable[..., Made]) -> None:
    made = make("lingers@0")
    made.write(1)
    conduct = made.close()
    assert conduct.counts == {**Conduct().counts, "hangs": 1}
    assert not client_processes(made.run_id)


def test_a_bad_exit_code_at_the_end_is_reported(make: Callable[..., Made]) -> None:
    made = make("bad-exit@0")
    made.write(1)
    conduct = made.close()
    assert conduct.counts == {**Conduct().counts, "deaths": 1}
    assert conduct.incidents[0].what == "it ended with exit code 5"


def test_what_a_client_has_started_ends_with_it(make: Callable[..., Made]) -> None:
    made = make("daemon@1")
    made.write(1)
    assert len(client_processes(made.run_id)) == 3  # guard, client, its daemon
    assert made.close().clean
    assert not client_processes(made.run_id)


@pytest.mark.parametrize(
    ("misdeed", "words"),
    [
        ("dies-at-start", "it ended with exit code 1"),
        ("failed", "it cannot be a client: no server answered"),
        ("babbles", "not JSON: 'starting up ...'"),
    ],
)
def test_one_that_does_not_become_ready_stops_the_run(
    make: Callable[..., Made], misdeed: str, words: str
) -> None:
    with pytest.raises(EnvironmentFailure, match=r"client \d did not become ready") as refusal:
        make(f"{misdeed}@0", places=2)
    assert words in str(refusal.value)
    if misdeed == "dies-at-start":
        assert "ModuleNotFoundError: no such library" in str(refusal.value)


def test_one_that_never_becomes_ready_stops_the_run(
    make: Callable[..., Made], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(exec_client, "START_S", 0.3)
    silent = tmp_path / "silent.py"
    silent.write_text("import time; time.sleep(60)")
    monkeypatch.setattr(sys.modules[__name__], "CLIENT", silent)
    with pytest.raises(EnvironmentFailure, match=r"it is not ready after 0\.3 s"):
        make()


def test_what_a_client_does_not_read_pushes_back(make: Callable[..., Made]) -> None:
    made = make("hang@1", within_s=5.0)
    process = 0
    while made.submit(process) and process < 100_000:
        process += 1
        if process % 100 == 0:
            made.client.poll(0, made.done)
    assert 1_000 < process < 100_000


def test_clients_crash_and_are_replaced_by_faults(make: Callable[..., Made]) -> None:
    made = make("block@3", places=2)
    made.write(0, 1, 2, 3)
    made.submit(0)  # it is not answered

    def crash(number: int, at_once: bool) -> None:
        asked = threading.Thread(
            target=lambda: made.client.crash(number, "f", at_once=at_once), daemon=True
        )
        asked.start()
        made.poll_until(lambda: not asked.is_alive())

    crash(1, at_once=True)
    assert made.ended[-1][1][2] == "CLIENT_CRASHED"
    made.poll_until(lambda: made.client.state(1, "f").alive == "client-1.2")
    crash(2, at_once=False)
    death = made.client.state(1, "f").death
    assert death is not None
    assert (death.died, death.unknown, death.successor) == ("client-1.1", 1, "client-1.2")
    made.poll_until(lambda: bool(death.gone) or made.client.state(1, "f").death.gone)  # type: ignore[union-attr]
    assert made.client.state(2, "f").alive is None
    made.write(4, 5)  # both over the first
    asked = threading.Thread(target=lambda: made.client.replace(2, "f"), daemon=True)
    asked.start()
    made.poll_until(lambda: made.client.state(2, "f").alive == "client-2.2")
    conduct = made.close()
    assert conduct.clean
    assert conduct.started == 4


def test_what_a_client_had_answered_before_it_crashed_is_answered(
    make: Callable[..., Made],
) -> None:
    """It writes a value before it answers, and answers one after the other: when the last value is
    there, all the other answers are. Nobody has read any of them when the crash is made."""
    made = make()
    assert all(made.submit(process) for process in range(51))
    (place,) = made.client._places
    assert place.process is not None
    place.process.flush()
    wait_until(lambda: made.written.exists() and len(made.written.read_text().split()) == 51)
    asked = threading.Thread(target=lambda: made.client.crash(1, "f", at_once=False), daemon=True)
    asked.start()
    made.poll_until(lambda: not asked.is_alive())
    assert len(made.ended) == 51
    assert {process for process, ended in made.ended if ended[0] == OK} >= set(range(50))


HARNESS = """
import sys, time
sys.path.insert(0, {root!r})
from pathlib import Path
from harness.run.client_process import ClientCommand, ClientLog, ClientProcess
log = ClientLog(Path({log!r}))
command = ClientCommand(({python!r}, {client!r}, {written!r}, {misdeed!r}))
process = ClientProcess(command, run_id={run_id!r}, log=log, name="c", setup=b'{{"start":1}}\\n')
process.write(b'{{"type":"invoke","id":1,"f":"append","value":1}}\\n')
process.flush()
time.sleep({seconds})
print("there", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("misdeed", ["daemon@1", "hang@1"])
def test_clients_end_when_the_harness_is_killed(tmp_path: Path, misdeed: str) -> None:
    run_id = f"killed-{time.monotonic_ns()}"
    code = HARNESS.format(
        root=str(Path(__file__).parents[3]),
        log=str(tmp_path / "log"),
        python=sys.executable,
        client=str(CLIENT),
        written=str(tmp_path / "written"),
        misdeed=misdeed,
        run_id=run_id,
        seconds=1.0,
    )
    harness = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"there\n"
        assert len(client_processes(run_id)) == (3 if misdeed == "daemon@1" else 2)
    finally:
        harness.send_signal(signal.SIGKILL)
        harness.wait()
    _gone, left = psutil.wait_procs(client_processes(run_id), timeout=5)
    assert not left


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the command is empty"),
        ("python3 'x", "close the quotes"),
        ("no-such-program x", "there is no command 'no-such-program'"),
        ("./no/such", "there is no command './no/such'"),
        ("/etc/passwd", "'/etc/passwd' is not executable"),
        ("/etc", "'/etc' is a folder"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused(text: str, words: str) -> None:
    with pytest.raises(PlanError) as refusal:
        ClientCommand.of(text)
    assert words in str(refusal.value)
    assert refusal.value.key == "--client"


def test_a_command_is_a_list_of_arguments_and_no_shell_line() -> None:
    assert ClientCommand.of("python3 'a b' $HOME;").argv == ("python3", "a b", "$HOME;")
