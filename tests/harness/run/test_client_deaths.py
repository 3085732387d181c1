"""Clients that are processes: how they start, die, hang, crash and end."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from harness.clusters.cleaning import client_processes
from harness.errors import EnvironmentFailure
from harness.protocols import OK
from harness.protocols.runs import Conduct
from harness.run import exec_client
from harness.run.exec_client import STARTS
from tests.fixtures.client_places import CLIENT, Made
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.slow


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
    with pytest.raises(EnvironmentFailure, match=r"it is not ready after 0\.3 s"):
        make(script=silent)


def crash(made: Made, number: int, *, at_once: bool) -> None:
    """Crash a client, while its answers are polled for."""
    asked = threading.Thread(
        target=lambda: made.client.crash(number, "f", at_once=at_once), daemon=True
    )
    asked.start()
    made.poll_until(lambda: not asked.is_alive())


def test_clients_crash_and_are_replaced_by_faults(make: Callable[..., Made]) -> None:
    made = make("block@3", places=2)
    made.write(0, 1, 2, 3)
    made.submit(0)  # it is not answered

    crash(made, 1, at_once=True)
    assert made.ended[-1][1][2] == "CLIENT_CRASHED"
    made.poll_until(lambda: made.client.state(1, "f").alive == "client-1.2")
    crash(made, 2, at_once=False)
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
    assert place.client is not None
    place.client.flush()
    wait_until(lambda: made.written.exists() and len(made.written.read_text().split()) == 51)
    crash(made, 1, at_once=False)
    assert len(made.ended) == 51
    assert {process for process, ended in made.ended if ended[0] == OK} >= set(range(50))


HARNESS = """
import sys, time
sys.path.insert(0, {root!r})
from pathlib import Path
from harness.run.client_process import ClientLog, ClientProcess
log = ClientLog(Path({log!r}))
command = ({python!r}, {client!r}, {written!r}, {misdeed!r})
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
