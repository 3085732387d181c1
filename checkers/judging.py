"""One run, or one history from elsewhere, judged: where Spark sends each of many.

rows -> tally -> odd values -> counts and findings
     -> timeline -> availability          -> verdict -> findings/, result.json
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from checkers.availability import Availability, Timeline
from checkers.broken import named_by, nameless, raised, unjudged
from checkers.errors import ErrorCodes
from checkers.facts import Facts, facts_of
from checkers.jsonlines import convert
from checkers.loss import FINDINGS, Found, Loss
from checkers.lost_spans import lost_spans
from checkers.numbering import numbered
from checkers.outcomes import Tally, looked_up
from checkers.readers import Disagreement, Readers
from checkers.rows import Rows
from checkers.verdict import Basis, Counts, is_complete, judge, rates
from harness.errors import AcklossError, EnvironmentFailure, HistoryError
from harness.history.run_folder import SCHEMA_VERSION, RunDir
from harness.machine.scratch import scratch

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
    """Judge a run folder; writes its `result.json`, and what was found below `findings/`. A checker
    that raises makes the run `unknown`.

    Raises HistoryError for what cannot be read, EnvironmentFailure where the folder takes nothing.
    """
    begun_s = time.monotonic()
    try:
        facts = facts_of(rundir)
        examined = examine(facts, checker)
        document = _document(facts, examined, begun_s=begun_s, checker=checker)
    except AcklossError:
        raise
    except (Exception, SystemExit) as error:
        return broken_run(rundir, checker, raised(error))
    _file(rundir, examined.found.findings)
    rundir.write_json(rundir.result, document)
    return document


def broken_run(rundir: RunDir, checker: Loss, why: str) -> Document:
    """The document of a run whose checker did not come to an end, written like any other. Reads
    JSON alone: whatever broke the checker does not break this."""
    document = _broken(named_by(rundir), checker, f"{why}: {rundir.path}")
    _file(rundir, FINDINGS.empty_table())
    rundir.write_json(rundir.result, document)
    return document


def judge_history(file: Path, checker: Loss) -> Document:
    """Judge a history from elsewhere (JSON lines); nothing is written. A checker that raises makes
    it `unknown`.

    Raises HistoryError with the line that cannot be used.
    """
    begun_s = time.monotonic()
    try:
        with scratch() as folder:
            facts = convert(file, Path(folder))
            examined = examine(facts, checker)
            return _document(facts, examined, begun_s=begun_s, checker=checker)
    except AcklossError:
        raise
    except (Exception, SystemExit) as error:
        return broken_history(file, checker, raised(error))


def broken_history(file: Path, checker: Loss, why: str) -> Document:
    """The document of a history whose checker did not come to an end."""
    return _broken(nameless(file.stem), checker, f"{why}: {file}")


def _broken(facts: Facts, checker: Loss, why: str) -> Document:
    found = Found(Counts(), FINDINGS.empty_table(), {})
    examined = Examined(found, Availability(), [], ErrorCodes().document())
    document = _document(facts, examined, begun_s=time.monotonic(), checker=checker)
    return {**document, **unjudged(why)}


class Examined(NamedTuple):
    """What one pass over a run's rows gives; `errors` as result.json has them."""

    found: Found
    seen: Availability
    disagreements: list[Disagreement]
    errors: dict[str, dict[str, int]]


def examine(facts: Facts, checker: Loss) -> Examined:
    """What `checker` finds in a run's rows, and what else they say. Raises HistoryError where
    values are not unique."""
    rows, readers = Rows(facts), Readers(facts)
    numbering = numbered(rows.things)
    tally, timeline, errors = Tally(numbering), Timeline(), ErrorCodes()
    for writes in rows.writes():
        tally.write(writes)
        timeline.add(writes)
        errors.add(writes)
    if again := tally.begun_again():
        raise HistoryError(
            f"{again:,} of its writes began with a value that another write has: which of them is "
            "there, nobody can say",
            file=str(facts.rundir.history) if facts.rundir else facts.run_id,
            key="value",
            hint="let the workload give each write a value of its own",
        )
    for reads in rows.reads():
        readers.compare(reads)
        tally.read(readers.judged(reads))
    odd = tally.odd()
    closer = looked_up(rows.writes(), map(readers.judged, rows.reads()), numbering, odd)
    return Examined(
        found=checker.check(facts, tally.plain(odd), closer),
        seen=timeline.availability(facts.windows) if facts.timed else Availability(),
        disagreements=readers.disagreements(),
        errors=errors.document(),
    )


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


def _document(facts: Facts, examined: Examined, *, begun_s: float, checker: Loss) -> Document:
    """A result document, as the design names its fields."""
    found, seen = examined.found, examined.seen
    counts = found.counts
    ops_begun = seen.ops_begun or (0,) * len(facts.windows)
    basis = Basis(
        counts=counts,
        ops_begun=ops_begun,
        unconfirmed=found.unconfirmed,
        disagreements=examined.disagreements,
        idempotent=facts.idempotent or checker.idempotent_producer,
    )
    told = judge(facts, basis)
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
        "eligible": told.eligible,
        "complete": is_complete(facts),
        "gaps": [*facts.gaps.sentences, *facts.gaps.aside],
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
        "errors": examined.errors,
        "lost_spans": [
            asdict(span)
            for span in (lost_spans(found.findings, clients=facts.clients) if facts.timed else [])
        ],
        "faults": [
            {
                **{name: value for name, value in asdict(window).items() if name != "why"},
                "ops_begun": begun,
            }
            for window, begun in zip(facts.windows, ops_begun, strict=True)
        ],
        "timings": {**timings, "check_s": check_s, "report_s": None},
    }
