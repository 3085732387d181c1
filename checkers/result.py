"""Judges stored runs, and histories from elsewhere, many in one Spark session.

    run folders | JSON lines -> facts (what is damaged or too new is refused here)
    -> loss and availability, in Spark -> verdict -> findings/, result.json

Each input that cannot be judged is one error; the others are judged all the same.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeVar

from checkers.availability import Availability, availability
from checkers.facts import Facts, facts_of
from checkers.filing import file_findings
from checkers.histories import Histories
from checkers.jsonlines import convert
from checkers.loss import Loss
from checkers.session import session, told_clearly
from checkers.verdict import Counts, is_complete, judge, rates
from harness import registry
from harness.errors import AcklossError, HistoryError
from harness.rundir import SCHEMA_VERSION, RunDir

_SMALL_BYTES: Final = 24 * 2**20
"""Histories smaller than this are judged before the JVM's second compiler would have paid."""

Document = dict[str, Any]
Answer = tuple[Counts, Availability]
Input = TypeVar("Input")
Output = TypeVar("Output")


def check_runs(
    rundirs: Sequence[RunDir],
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    errors: list[AcklossError] | None = None,
) -> list[Document]:
    """Judge run folders; writes each one's `result.json`, and what was found below `findings/`.

    The documents, in the order given, of those that could be judged. Why the others could not is
    appended to `errors`, or raised where that is null. The first call of a process decides Spark's
    `master` and `conf`.
    """
    check = _Check(Loss(), master, conf, errors)
    documents = check.judge(check.each(facts_of, rundirs))
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda pair: _write(*pair), documents))
    return [document for _, document in documents]


def check_histories(
    files: Sequence[Path],
    *,
    checker: str = Loss.plugin,
    options: Mapping[str, Any] | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    errors: list[AcklossError] | None = None,
) -> list[Document]:
    """Judge histories from elsewhere (JSON lines), as `check_runs` does run folders.

    Raises PlanError for a checker or an option that is not known.
    """
    plugin: Loss = registry.make("checkers", checker, options or {}, key="--checker")
    check = _Check(plugin, master, conf, errors)
    with tempfile.TemporaryDirectory(prefix="ackloss-") as scratch:
        folders = (Path(scratch, str(number)) for number in range(len(files)))
        pairs = list(zip(files, folders, strict=True))
        return [document for _, document in check.judge(check.each(_converted, pairs))]


def _converted(pair: tuple[Path, Path]) -> Facts:
    return convert(*pair)


def begin_warm_up(master: str | None = None) -> None:
    """Start Spark beside whatever else is going on, and let it judge a made-up run once.

    Costs several seconds of processor time: not to be called before the last operation of a run.
    """

    def warm_up() -> None:
        from checkers.rehearsal import rehearse

        try:
            session(master)
            rehearse()
        except AcklossError:
            pass  # the check itself will say it

    threading.Thread(target=warm_up, name="warm-up", daemon=True).start()


class _Check:
    """One call: its checker, how Spark starts, and where errors go."""

    def __init__(
        self,
        checker: Loss,
        master: str | None,
        conf: Mapping[str, str] | None,
        errors: list[AcklossError] | None,
    ) -> None:
        self._begun_s = time.monotonic()
        self._checker = checker
        self._master, self._conf = master, conf
        self._errors = errors

    def each(self, function: Callable[[Input], Output], inputs: Iterable[Input]) -> list[Output]:
        """What `function` makes of each input; its errors are kept, one for each that is bad."""
        made = []
        for each in inputs:
            try:
                made.append(function(each))
            except HistoryError as error:
                self._keep(error)
        return made

    def judge(self, facts: Sequence[Facts]) -> list[tuple[Facts, Document]]:
        """The documents of all runs; runs of the same name are judged one round after another."""
        answers: dict[int, Answer] = {}
        for some in _rounds(facts):
            found = self._answers(some)
            answers |= {id(some[run_id]): answer for run_id, answer in found.items()}
        check_s = round(time.monotonic() - self._begun_s, 3)
        return [
            (each, _document(each, *answers[id(each)], check_s=check_s, checker=self._checker))
            for each in facts
            if id(each) in answers
        ]

    def _answers(self, facts: dict[str, Facts]) -> dict[str, Answer]:
        """Counts and availability by run id; runs whose rows are damaged are left out."""
        small = _bytes(facts.values()) < _SMALL_BYTES
        spark = session(self._master, self._conf, small=small)
        while facts:
            try:
                with told_clearly():
                    return _answered(Histories(spark, facts), self._checker)
            except HistoryError as error:
                damaged = _owner(facts, error.file)
                if damaged is None:
                    raise
                self._keep(error)
                facts = {run_id: each for run_id, each in facts.items() if run_id != damaged}
        return {}

    def _keep(self, error: AcklossError) -> None:
        if self._errors is None:
            raise error
        self._errors.append(error)


def _rounds(facts: Iterable[Facts]) -> list[dict[str, Facts]]:
    """All of them, in as few groups as possible in which no run id stands twice."""
    rounds: list[dict[str, Facts]] = []
    for each in facts:
        free = next((some for some in rounds if each.run_id not in some), None)
        if free is None:
            rounds.append(free := {})
        free[each.run_id] = each
    return rounds


def _bytes(facts: Iterable[Facts]) -> int:
    return sum(path.stat().st_size for each in facts for path in (*each.history, *each.reads))


def _owner(facts: Mapping[str, Facts], file: str | None) -> str | None:
    """The run that a file belongs to."""
    for run_id, each in facts.items():
        if any(str(path) == file for path in (*each.history, *each.reads)):
            return run_id
    return None


def _answered(histories: Histories, checker: Loss) -> dict[str, Answer]:
    """Loss, and beside it availability; the findings of run folders are filed."""
    with ThreadPoolExecutor(max_workers=1) as beside:
        seen = beside.submit(availability, histories)
        checked = checker.check(histories)
        file_findings(checked, histories.facts.values())
        available = seen.result()
    return {
        run_id: (checked.counts[run_id], available.get(run_id, Availability()))
        for run_id in histories.facts
    }


def _document(
    facts: Facts, counts: Counts, seen: Availability, *, check_s: float, checker: Loss
) -> Document:
    """A result document, as the design names its fields."""
    verdict, reason = judge(
        counts,
        facts,
        attempted_in_fault=seen.attempted_in_fault,
        idempotent=facts.idempotent or checker.idempotent_producer,
    )
    told = {name: facts.timings.get(name) for name in ("cluster_s", "run_s", "read_s")}
    return {
        "schema": SCHEMA_VERSION,
        "run_id": facts.run_id,
        "plan": facts.plan,
        "seed": facts.seed,
        "verdict": verdict,
        "reason": reason,
        "complete": is_complete(facts),
        "counts": asdict(counts),
        "rates": rates(counts),
        "availability": {
            "longest_gap_s": seen.longest_gap_s,
            "refused": counts.failed,
            "unknown": counts.unknown,
            "latency_p50_ms": seen.latency_p50_ms,
            "latency_p99_ms": seen.latency_p99_ms,
            "lateness_p99_ms": seen.lateness_p99_ms,
        },
        "faults": [
            {name: value for name, value in asdict(window).items() if name != "why"}
            for window in facts.windows
        ],
        "timings": {**told, "check_s": check_s, "report_s": None},
    }


def _write(facts: Facts, document: Document) -> None:
    if facts.rundir is not None:
        facts.rundir.write_json(facts.rundir.result, document)
