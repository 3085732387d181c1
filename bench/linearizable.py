"""Judging registers: processor time and memory by size, on one core, beside what others publish.

A corpus is drawn from a seed and has the unevenness of real runs: processes of different speed,
keys of different popularity, latencies with a long tail, 2 % of writes without an answer (half of
them took effect, some much later), 1 % refused. Each operation takes effect at an instant within
its interval, so every key is linearizable; in the corpora that are not, one key in ten has a stale
read. The answer must be what the corpus was made to be. Two kinds of values:

    unique   no value is written twice in a key, as in a workload of ours: decided by columns
    few      values 0 to 4, as in Jepsen's register workload (`rand-int 5`): decided by search

Published: Porcupine says that it is "generally 1,000x-10,000x faster" than Knossos on the 102 etcd
histories that Jepsen recorded (some 170 events in the first) (github.com/anishathalye/porcupine,
README); Horn and Kroening's checker takes "a few seconds" for 100 of them, of which Knossos does
not finish six (github.com/jepsen-io/knossos/issues/6). Neither publishes seconds by size, and
Knossos' author declines to: "a hundred-element history could take weeks to verify, and a
million-element history might go by in a few seconds" (github.com/jepsen-io/jepsen/issues/198). So
there is no bar to set beside ours.

    python -m bench.linearizable [--full]    full: larger corpora too
"""

from __future__ import annotations

import resource
import sys
import time
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from checkers.register import judge
from checkers.register.answers import LINEARIZABLE, SEQUENTIAL
from checkers.register.operations import (
    CAS,
    NEVER,
    READ,
    WRITE,
    Operation,
    Operations,
)
from harness.protocols.runs import (
    FAIL,
    INFO,
    NULL,
    OK,
)

Ints = npt.NDArray[np.int64]

SEED: Final = 2013
FEW: Final = 5
AT_MOST_S: Final = 10.0
"""For 1,000 keys of 1,000 operations with unique values."""


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """What is drawn: `few`: whether values repeat; `cas`: the share of compare-and-sets;
    `stale`: whether one key in ten has a stale read."""

    keys: int
    operations: int
    processes: int = 10
    few: bool = False
    cas: float = 0.0
    stale: bool = False
    consistency: str = LINEARIZABLE

    @property
    def name(self) -> str:
        values = "few values" if self.few else "unique values"
        cas = f", {self.cas:.0%} cas" if self.cas else ""
        wrong = ", a tenth stale" if self.stale else ""
        return f"{self.keys:,} x {self.operations:,}, {values}{cas}{wrong}, {self.consistency}"


QUICK: Final = (
    Corpus(keys=1_000, operations=1_000),
    Corpus(keys=1_000, operations=1_000, cas=0.2),
    Corpus(keys=1_000, operations=1_000, stale=True),
    Corpus(keys=100, operations=1_000, few=True),
    Corpus(keys=100, operations=1_000, few=True, cas=0.3),
    Corpus(keys=100, operations=1_000, few=True, cas=0.3, stale=True),
    Corpus(keys=1_000, operations=1_000, cas=0.2, consistency=SEQUENTIAL),
    Corpus(keys=100, operations=1_000, few=True, cas=0.3, consistency=SEQUENTIAL),
)
FULL: Final = (
    *QUICK,
    Corpus(keys=1, operations=1_000_000),
    Corpus(keys=100_000, operations=20),
    Corpus(keys=1_000, operations=1_000, few=True),
    Corpus(keys=1_000, operations=1_000, few=True, cas=0.3),
    Corpus(keys=1, operations=100_000, few=True, cas=0.3),
    Corpus(keys=100, operations=1_000, processes=50, few=True, cas=0.3),
)


def drawn(corpus: Corpus) -> Operations:
    """All keys of a corpus."""
    rng = np.random.default_rng(SEED)
    popular = rng.lognormal(0.0, 0.5, corpus.keys)
    sizes = np.maximum(popular / popular.mean() * corpus.operations, 4).astype(int)
    rows: list[Operation] = []
    for key, size in enumerate(sizes.tolist()):
        rows += _key(rng, corpus, key, size)
        if corpus.stale and key % 10 == 0:
            rows.append(_stale_read(rows[-size:]))
    return Operations.of(rows)


def _key(rng: np.random.Generator, corpus: Corpus, key: int, size: int) -> list[Operation]:
    """A key's operations, answered by a register on which each takes effect at an instant."""
    process, invoke_ns, complete_ns = _clocks(rng, size, corpus.processes)
    effect_ns = invoke_ns + (rng.random(size) * (complete_ns - invoke_ns)).astype(np.int64)
    f = rng.choice([READ, WRITE, CAS], size, p=[0.5, 0.5 - corpus.cas, corpus.cas])
    kind = np.where(f == READ, OK, rng.choice([OK, INFO, FAIL], size, p=[0.97, 0.02, 0.01]))
    late = (kind == INFO) & (rng.random(size) < 0.3)
    effect_ns[late] += (rng.exponential(1e9, size)[late]).astype(np.int64)
    fresh = rng.integers(0, FEW, size) if corpus.few else np.arange(size)
    happens, luck = rng.random(size) < 0.5, rng.random(size) < 0.7
    rows: dict[int, Operation] = {}
    state = NULL
    for at in np.argsort(effect_ns, kind="stable").tolist():
        value, expected, answer = int(fresh[at]), NULL, int(kind[at])
        if f[at] == READ:
            value = state
        if f[at] == CAS:
            expected = state if luck[at] else int(fresh[at - 1])
            answer = FAIL if answer == OK and expected != state else answer
        took = answer == OK or (answer == INFO and happens[at])
        if f[at] != READ and took and (f[at] == WRITE or expected == state):
            state = value
        end_ns = NEVER if answer == INFO else int(complete_ns[at])
        who, begin_ns = int(process[at]), int(invoke_ns[at])
        rows[at] = Operation(int(f[at]), value, expected, answer, who, begin_ns, end_ns, key)
    return [rows[at] for at in range(size)]


def _clocks(rng: np.random.Generator, size: int, processes: int) -> tuple[Ints, Ints, Ints]:
    """Which process does what, and when: processes of uneven speed, each one thing at a time, half
    of the time waiting for an answer, from the same begin to the same end."""
    speed = rng.dirichlet(np.full(processes, 3.0))
    process = np.repeat(np.arange(processes), rng.multinomial(size, speed))
    latency, pause = rng.lognormal(0.0, 0.9, size), rng.exponential(1.5, size)
    passed = np.cumsum(latency + pause)
    first = np.searchsorted(process, process)
    last = np.searchsorted(process, process, side="right") - 1
    began = passed[first] - latency[first] - pause[first]
    scale = size * 1e6 / (passed[last] - began)
    invoke_ns = ((passed - latency - pause - began) * scale).astype(np.int64)
    return process, invoke_ns, invoke_ns + (latency * scale).astype(np.int64) + 1


def _stale_read(rows: list[Operation]) -> Operation:
    """A read in the middle, by its own process, of the value of the first write. Where values
    repeat that may be right by chance."""
    begins = sorted(row.invoke_ns for row in rows)
    first = min((row for row in rows if row.f == WRITE and row.type == OK), key=lambda row: row[5])
    begin_ns = begins[len(begins) // 2]
    return Operation(READ, first.value, NULL, OK, 10**6, begin_ns, begin_ns + 1, rows[0].key)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A corpus, judged: seconds of processor time from columns to answer, and what it came to."""

    seconds: float
    operations: int
    states: int
    searched: int
    invalid: int
    undecided: int
    stale: int
    right: bool


def measured(corpus: Corpus) -> Measured:
    """Judge a corpus, and compare the answer with what it was made to be."""
    operations = drawn(corpus)
    begin = time.process_time()
    found = judge(operations, consistency=corpus.consistency)
    seconds = time.process_time() - begin
    tampered = set(range(0, corpus.keys, 10)) if corpus.stale else set[int]()
    if corpus.few or corpus.consistency == SEQUENTIAL:
        right = set(found.invalid) <= tampered
    else:
        right = set(found.invalid) == tampered
    return Measured(
        seconds=seconds,
        operations=len(operations),
        states=found.counts["states"],
        searched=found.counts["searched_keys"],
        invalid=found.counts["invalid_keys"],
        undecided=found.counts["undecided_keys"],
        stale=found.staleness.stale,
        right=right,
    )


def main(arguments: list[str]) -> int:
    """Print a line a corpus; 1 where an answer is wrong, or a quick one undecided or too slow."""
    missed = False
    for corpus in FULL if arguments == ["--full"] else QUICK:
        found = measured(corpus)
        peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{corpus.name}: {found.seconds:.2f} s,"
            f" {found.seconds / found.operations * 1e6:.1f} us an operation,"
            f" {found.searched:,} keys searched ({found.states:,} states),"
            f" {found.invalid:,} invalid, {found.undecided:,} undecided,"
            f" {found.stale:,} stale reads, peak {peak_mb:,.0f} MB:"
            f" {'right' if found.right else 'WRONG'}",
            flush=True,
        )
        slow = corpus == QUICK[0] and found.seconds > AT_MOST_S
        missed |= not found.right or slow or (corpus in QUICK and found.undecided > 0)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
