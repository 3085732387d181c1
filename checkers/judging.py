"""One run, or one history from elsewhere, judged: where Spark sends each of many.

rows -> sieve -> odd values -> counts and findings
     -> timeline -> availability          -> verdict -> findings/, result.json
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.availability import Availability, Timeline
from checkers.facts import Facts, facts_of
from checkers.jsonlines import convert
from checkers.loss import Found, Loss
from checkers.lost_spans import lost_spans
from checkers.numbering import numbered
from checkers.outcomes import Sieve, looked_up
from checkers.rows import Rows
from checkers.verdict import is_complete, judge, rates
from harness.errors import AcklossError, EnvironmentFailure
from harness.rundir import SCHEMA_VERSION, RunDir
from harness.scratch import scratch

Document = dict[str, Any]
Input = TypeVar("Input")
Task = Sequence[tuple[int, Input]]
"""Some inputs, each with its place among all."""


def judge_task(
    task: Task[Input], judge: Callable[[Input], Document]
) -> list[tuple[int, Document | AcklossError]]:
    """What `judge` says of each input, or why it cannot be judged, with its place."""
    answers: list[tuple[int, Document | AcklossError]] = []
    for place, each in task:
        try:
            answers.append((place, judge(each)))
        except AcklossError as error:
            answers.append((place, error))
    return answers


def judge_run(rundir: RunDir, checker: Loss) -> Document:
    """Judge a run folder; writes its `result.json`, and what was found below `findings/`.

    Raises HistoryError for what cannot be read, EnvironmentFailure where the folder takes nothing.
    """
    begun_s = time.monotonic()
    facts = facts_of(rundir)
    found, seen = examine(facts, checker)
    _file(rundir, found.findings)
    document = _document(facts, found, seen, begun_s=begun_s, checker=checker)
    rundir.write_json(rundir.result, document)
    return document


def judge_history(file: Path, checker: Loss) -> Document:
    """Judge a history from elsewhere (JSON lines); nothing is written.

    Raises HistoryError with the line that cannot be used.
    """
    begun_s = time.monotonic()
    with scratch() as folder:
        facts = convert(file, Path(folder))
        found, seen = examine(facts, checker)
    return _document(facts, found, seen, begun_s=begun_s, checker=checker)


def examine(facts: Facts, checker: Loss) -> tuple[Found, Availability]:
    """What `checker` finds in a run's rows, and how available the cluster was."""
    rows = Rows(facts)
    numbering = numbered(rows.things)
    sieve, timeline = Sieve(numbering), Timeline()
    for writes in rows.writes():
        sieve.write(writes)
        timeline.add(writes)
    for reads in rows.reads():
        sieve.read(reads)
    odd = sieve.odd()
    found = checker.check(facts, sieve.plain(odd), looked_up(rows, numbering, odd))
    return found, timeline.availability(facts.windows) if facts.timed else Availability()


def _file(rundir: RunDir, findings: pa.Table) -> None:
    """Write what was found; what an earlier check found goes."""
    try:
        if findings.num_rows:
            rundir.findings.mkdir(exist_ok=True)
            partial = rundir.loss.with_name(f".{rundir.loss.name}.partial")
            pq.write_table(findings, partial, compression="zstd")
            partial.replace(rundir.loss)
        else:
            rundir.loss.unlink(missing_ok=True)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write what was found: {error.strerror or error}", file=str(rundir.loss)
        ) from error


def _document(
    facts: Facts, found: Found, seen: Availability, *, begun_s: float, checker: Loss
) -> Document:
    """A result document, as the design names its fields."""
    counts = found.counts
    told = judge(
        counts,
        facts,
        attempted_in_fault=seen.attempted_in_fault,
        idempotent=facts.idempotent or checker.idempotent_producer,
    )
    timings = {name: facts.timings.get(name) for name in ("cluster_s", "run_s", "read_s")}
    check_s = round(time.monotonic() - begun_s, 3)
    return {
        "schema": SCHEMA_VERSION,
        "run_id": facts.run_id,
        "plan": facts.plan,
        "seed": facts.seed,
        "verdict": told.verdict,
        "reason": told.reason,
        "counter_examples": list(told.counter_examples),
        "doubts": list(told.doubts),
        "complete": is_complete(facts),
        "forced": list(facts.forced),
        "counts": asdict(counts),
        "rates": rates(counts),
        "availability": {
            "longest_gap_s": seen.longest_gap_s,
            "fault_s": seen.fault_s,
            "recovered": seen.recovered,
            "recovery_s": seen.recovery_s,
            "refused": counts.failed,
            "unknown": counts.unknown,
            "latency_p50_ms": seen.latency_p50_ms,
            "latency_p99_ms": seen.latency_p99_ms,
            "lateness_p99_ms": seen.lateness_p99_ms,
        },
        "lost_spans": [
            asdict(span)
            for span in (lost_spans(found.findings, clients=facts.clients) if facts.timed else [])
        ],
        "faults": [
            {name: value for name, value in asdict(window).items() if name != "why"}
            for window in facts.windows
        ],
        "timings": {**timings, "check_s": check_s, "report_s": None},
    }
