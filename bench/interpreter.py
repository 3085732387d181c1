"""The interpreter with a client that does nothing, recorded to Parquet, in operations a second.

Beside it, for scale: a bare loop that appends the same numbers to arrays (no scripts, no processes,
no files: what plain Python can do at most), and an interpreter as one would write it first, with a
thread and a queue for each worker and an object for each operation. Bar 100,000, aim 300,000.

    python -m bench.interpreter [ROUNDS]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from array import array
from collections import deque
from pathlib import Path
from queue import SimpleQueue

from harness.plan import parse_plan
from harness.protocols import OK, Completion, Done, Invoke, Script, completion
from harness.protocols.clock import RunClock
from harness.run.load import run_workload
from harness.run.recorder import Recorder
from workloads.append import Append

BAR, AIM = 100_000, 300_000
ROUNDS = 5
ROUND_S = 4.0
PROCESSES, PARTITIONS = 5_000, 3
WORKERS = 10  # the number at which the naive one is fastest
PLAN = parse_plan(
    {
        "schema": 1,
        "name": "bench-interpreter",
        "topic": {"partitions": PARTITIONS},
        "workload": {"processes": PROCESSES, "rate_per_s": 0, "duration_s": ROUND_S},
    }
)


class NothingClient:
    """Answers every operation at the next poll."""

    def __init__(self) -> None:
        self._answered: deque[int] = deque()

    def submit(self, process: int, _: Invoke) -> bool:
        self._answered.append(process)
        return True

    def poll(self, timeout_s: float, done: Done) -> None:
        if not self._answered:
            time.sleep(timeout_s)
        while self._answered:
            done(self._answered.popleft(), completion(OK, 7))

    def close(self, timeout_s: float, done: Done) -> None:
        self.poll(timeout_s, done)


def interpreter_per_s() -> float:
    """Ours: until the last part is written."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.monotonic()
        with Recorder(Path(folder), run_id="bench") as recorder:
            report = run_workload(
                Append(),
                NothingClient(),
                plan=PLAN,
                recorder=recorder,
                clock=RunClock(),
                stop=threading.Event(),
            )
        took_s = time.monotonic() - begun
        assert len(recorder.written().acknowledged) == report.attempted
        return report.attempted / took_s


def bare_loop_per_s() -> float:
    """The same numbers into arrays, nothing else."""
    value, partition, offset = array("q"), array("i"), array("q")
    invoked_ns, completed_ns = array("q"), array("q")
    begun, n = time.monotonic(), 0
    while time.monotonic() - begun < ROUND_S:
        for _ in range(256):
            value.append(n)
            partition.append(n % PARTITIONS)
            invoked_ns.append(time.monotonic_ns())
            offset.append(7)
            completed_ns.append(time.monotonic_ns())
            n += 1
    return n / (time.monotonic() - begun)


def thread_per_worker_per_s() -> float:
    """Scripts run by threads: the loop hands each free worker an operation through its queue,
    and all answer into one."""
    answers: SimpleQueue[tuple[int, Completion]] = SimpleQueue()
    inboxes: list[SimpleQueue[Invoke | None]] = [SimpleQueue() for _ in range(WORKERS)]

    def work(worker: int) -> None:
        while inboxes[worker].get() is not None:
            answers.put((worker, completion(OK, 7)))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(WORKERS)]
    scripts: list[Script] = [Append().script(w, WORKERS, PARTITIONS, 0) for w in range(WORKERS)]
    for thread in threads:
        thread.start()
    history: list[dict[str, object]] = []
    begun, n = time.monotonic(), 0

    def begin(worker: int, op: Invoke) -> None:
        f, value, partition, key, _ = op
        row: dict[str, object] = {"f": f, "value": value, "partition": partition, "key": key}
        history.append(row | {"process": worker, "type": "invoke", "time_ns": time.monotonic_ns()})
        inboxes[worker].put(op)

    for worker, script in enumerate(scripts):
        begin(worker, next(script))
    while (elapsed_s := time.monotonic() - begun) < ROUND_S:
        worker, ended = answers.get()
        type_, offset, error, node, _ = ended
        row: dict[str, object] = {"type": type_, "offset": offset, "error": error, "node": node}
        history.append(row | {"process": worker, "time_ns": time.monotonic_ns()})
        begin(worker, scripts[worker].send(ended))
        n += 1
    for inbox in inboxes:
        inbox.put(None)
    for thread in threads:
        thread.join()
    return n / elapsed_s


def main() -> int:
    """Take turns, print all three and the ratios; 1 if the bar is missed."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    ours = []
    for number in range(rounds):
        ours.append(interpreter_per_s())
        bare, naive = bare_loop_per_s(), thread_per_worker_per_s()
        print(
            f"round {number + 1}: interpreter {ours[-1]:,.0f} ops/s, "
            f"{ours[-1] / bare:.2f} of a bare loop ({bare:,.0f}), "
            f"{ours[-1] / naive:.1f} of a thread per worker ({naive:,.0f})",
            flush=True,
        )
    median = statistics.median(ours)
    met = "met" if median >= BAR else "MISSED"
    print(f"interpreter: median {median:,.0f} ops/s, bar {BAR:,} (aim {AIM:,}): {met}")
    return 0 if median >= BAR else 1


if __name__ == "__main__":
    sys.exit(main())
