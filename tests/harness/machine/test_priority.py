"""The load generator runs before the rest, on this machine; commands that it starts do not."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from harness.machine import priority
from harness.machine.priority import MOST_PER_S, ORDINARY, REAL_TIME, ahead_of_others
from harness.protocols import Status

POLICY = "import os; print(os.sched_getscheduler(0))"


@pytest.fixture(autouse=True)
def may() -> None:
    if priority.finding().status is not Status.OK:
        pytest.skip("needs root or CAP_SYS_NICE")


@pytest.fixture
def others() -> Iterator[Callable[[], int]]:
    """Begins a thread that waits; gives its id."""
    over, threads = threading.Event(), []

    def begin() -> int:
        threads.append(threading.Thread(target=over.wait))
        threads[-1].start()
        return int(threads[-1].native_id or 0)

    yield begin
    over.set()
    for thread in threads:
        thread.join()


def policy(thread: int = 0) -> int:
    return os.sched_getscheduler(thread) & ~os.SCHED_RESET_ON_FORK


def test_all_threads_run_first_while_the_load_goes_on_and_none_after_it(
    others: Callable[[], int],
) -> None:
    before = others()
    with ahead_of_others(300) as given:
        meanwhile = others()
        limit = time.monotonic() + 5
        while policy(meanwhile) != os.SCHED_RR and time.monotonic() < limit:
            time.sleep(0.01)
        assert given == REAL_TIME
        assert [policy(thread) for thread in (0, before, meanwhile)] == [os.SCHED_RR] * 3
    assert [policy(thread) for thread in (0, before, meanwhile)] == [os.SCHED_OTHER] * 3


def test_commands_that_are_started_meanwhile_run_like_others() -> None:
    with ahead_of_others(300):
        done = subprocess.run([sys.executable, "-c", POLICY], capture_output=True, check=True)
    assert int(done.stdout) == os.SCHED_OTHER


@pytest.mark.parametrize("rate_per_s", [0, MOST_PER_S + 1])
def test_a_load_that_would_fill_a_core_runs_like_others(rate_per_s: float) -> None:
    with ahead_of_others(rate_per_s) as given:
        assert (given, policy()) == (ORDINARY, os.SCHED_OTHER)


def test_a_load_that_fails_leaves_no_priority_behind() -> None:
    with pytest.raises(ValueError, match="of the load"), ahead_of_others(300):
        raise ValueError("of the load")
    assert policy() == os.SCHED_OTHER


def test_a_process_that_may_not_is_not_and_says_so() -> None:
    """As another user, without capabilities."""
    code = (
        "import os\n"
        "from harness.machine import priority\n"
        "os.setuid(65534)\n"
        "with priority.ahead_of_others(300) as given:\n"
        "    print(given, priority.finding().status)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [ORDINARY, "warn"], done.stderr
