"""Judges one run, or one history from outside; Spark workers call this for each of many.

facts, rows -> each checker: shards -> parts -> result
            -> timeline -> availability              -> verdict -> findings/, result.json
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from checkers.judging.availability import Availability, ErrorCodes, WatchedRows, leaders_of_run
from checkers.judging.cells import judge_cells
from checkers.judging.contract import (
    BrokenCheckerError,
    accepted,
    broken_by,
    named_by,
    nameless,
    raised,
    unjudged,
)
from checkers.judging.outside import convert, model_outside
from checkers.judging.results import Document, Judged, fault_document, packed
from checkers.judging.verdict import is_complete, judge
from harness import registry
from harness.errors import AcklossError, HistoryError, PlanError, TooNewError
from harness.history.facts import facts_of
from harness.history.outside import run_id_of
from harness.history.rows import Rows
from harness.history.run_folder import SCHEMA_VERSION, RunDir
from harness.machine.scratch import scratch
from harness.models import LOG, MODELS
from harness.protocols import (
    DONE,
    DOUBTS,
    INVALID,
    UNKNOWN,
    VALID,
    Checker,
    CheckResult,
    Facts,
    Promises,
    Run,
    Statement,
)

AnyChecker = Checker[Any, Any]
Checks = Mapping[str, AnyChecker]
"""Checkers by name, in the order in which a plan names them."""


def judge_run(rundir: RunDir, checks: Checks | None = None) -> Document:
    """Judge a run folder by `checks`, by default those of its plan; writes its `result.json`, and
    what was found below `findings/`. A checker that raises gives it the doubt `checker`. Of a
    run with cells each is judged so, in its own folder.

    Raises HistoryError for what cannot be read (an earlier result is then replaced by `unknown`),
    EnvironmentFailure where the folder takes nothing.
    """
    return judged_run(rundir, checks).write(rundir)


def judged_run(rundir: RunDir, checks: Checks | None = None) -> Judged:
    """What `judge_run` writes; nothing is written. A run whose evidence is there and cannot be read
    is `refused`; it is `unknown`, whatever an earlier check found. (Raises TooNewError for one that
    a newer ackloss can read.)"""
    judge = partial(_unless_broken, partial(_judged_folder, checks=checks))
    try:
        if rundir.cell_names():
            return _unless_broken(partial(judge_cells, judge=judge), rundir)
        return judge(rundir)
    except TooNewError:
        raise
    except HistoryError as error:
        if not any(each.parts(each.history) for each in rundir.with_cells()):
            raise  # pruned: it keeps its result
        document = _broken(named_by(rundir), str(error), DOUBTS.incomplete)
        return Judged(document, refused=error)


def _unless_broken(judge: Callable[[RunDir], Judged], rundir: RunDir) -> Judged:
    """What `judge` returns; if it raises anything but an AcklossError, a run that is `unknown`."""
    try:
        return judge(rundir)
    except AcklossError:
        raise
    except (Exception, SystemExit) as error:
        return broken_run(rundir, raised(error))


def _judged_folder(rundir: RunDir, checks: Checks | None) -> Judged:
    """A folder with a history, judged."""
    begun_s = time.monotonic()
    try:
        facts = facts_of(rundir, stored_promises)
        facts, examined = examined_run(facts, checks or checks_of(rundir, facts))
        found = {
            name: content
            for name, result in examined.results.items()
            if result.findings is not None and (content := packed(result.findings))
        }
        document = _document(facts, examined, begun_s=begun_s)
        document |= leaders_of_run(rundir, document["faults"], facts.footers)
        document["cautions"] = [*document.get("cautions", ()), *_of_clients(facts, examined)]
    except PlanError as error:
        error.file = error.file or str(rundir.plan)
        raise
    except AcklossError as error:
        error.file = error.file or str(rundir.path)
        raise
    return Judged(document, found)


def _of_clients(facts: Facts, examined: Examined) -> Iterator[str]:
    """That clients of the user's have perhaps acknowledged what they never sent: what the system
    acknowledges has a position, and none of the lost writes has."""
    details = next(iter(examined.results.values())).details
    lost = details.get("confirmed", {}).get("lost", 0)
    if facts.clients is not None and 0 < lost <= details.get("lost_without_position", 0):
        yield (
            f"no node has {lost:,} write{'' if lost == 1 else 's'} that the client acknowledged, "
            "each without a position: it acknowledged what it never sent, or what the system lost"
        )


def stored_promises(plan: Mapping[str, Any], run: Mapping[str, Any]) -> Promises:
    """The promises of a run of an earlier version, which did not store them."""
    system = plan["target"]["system"]
    target = registry.make("targets", system, {}, key="target.system")
    effective = (run.get("settings") or {}).get("effective") or {}
    promises: Promises = target.promises(plan, effective)
    return promises


def checks_of(rundir: RunDir, facts: Facts) -> Checks:
    """The checkers that a run's plan names, by name; by default the one of its model."""
    named = rundir.read_json(rundir.plan).get("checks") or [MODELS[facts.promises.model].check]
    checks: dict[str, AnyChecker] = {}
    for place, each in enumerate(named):
        options = {"name": each} if isinstance(each, str) else dict(each)
        key = f"checks.{place}" if isinstance(each, str) else f"checks.{place}.name"
        name = options.pop("name")
        checks[name] = checker_of(name, options, key=key)
    return checks


def checker_of(name: str, options: Mapping[str, Any], *, key: str = "checks") -> AnyChecker:
    """A checker by name. Raises PlanError for a name or an option that is not known."""
    checker: AnyChecker = registry.make("checkers", name, options, key=key)
    return checker


def broken_run(rundir: RunDir, why: str) -> Judged:
    """The outcome of a run whose checker did not finish. Reads only JSON: what broke the checker
    does not break this."""
    return Judged(_broken(named_by(rundir), f"{why}: {rundir.path}"))


def judge_history(file: Path, checks: Checks) -> Document:
    """Judge a history from outside (JSON lines or EDN); nothing is written. A checker that raises
    gives it the doubt `checker`.

    Raises HistoryError with the line that cannot be used.
    """
    begun_s = time.monotonic()
    try:
        with scratch() as folder:
            facts = convert(file, Path(folder), model_outside(checks))
            return _document(facts, examine(facts, checks), begun_s=begun_s)
    except AcklossError:
        raise
    except (Exception, SystemExit) as error:
        return broken_history(file, raised(error))


def broken_history(file: Path, why: str) -> Document:
    """The document of a history whose checker did not finish."""
    return _broken(nameless(run_id_of(file)), f"{why}: {file}")


def _broken(facts: Facts, why: str, doubt: str = DOUBTS.checker) -> Document:
    name = MODELS[facts.promises.model].check
    none = CheckResult(counts={"attempted": 0, "acknowledged": 0})
    if facts.promises.model == LOG.name:
        none = checker_of(name, {}).merge(Rows(facts), [])
    examined = Examined({name: none}, Availability(), ErrorCodes().document())
    document = _document(facts, examined, begun_s=time.monotonic())
    return {**document, **unjudged(why, doubt), "checks": []}


class Examined(NamedTuple):
    """What the checkers of a run report, and what its rows show besides; `errors` as in
    result.json; `begun`: how many operations the history holds."""

    results: Mapping[str, CheckResult]
    seen: Availability
    errors: dict[str, dict[str, int]]
    begun: int = 0


def examined_run(facts: Facts, checks: Checks) -> tuple[Facts, Examined]:
    """Judge a run by every checker, as `examine`. Where its history holds another number of
    operations than the run counted, some are missing or were never there: that is a gap of the
    facts, and the run is judged again with facts that include it."""
    examined = examine(facts, checks)
    if facts.attempted in (None, examined.begun) or facts.gaps.history or facts.state != DONE:
        return facts, examined
    sentence = (
        f"history/ holds the begin of {examined.begun:,} operations, "
        f"but run.json counted {facts.attempted:,}"
    )
    facts = replace(facts, gaps=facts.gaps._replace(history=(sentence,)))
    return facts, examine(facts, checks)


def examine(facts: Facts, checks: Checks) -> Examined:
    """Judge a run's rows by every checker. The counts of a run are those of its first checker: what
    that raises is raised, as BrokenCheckerError; what another raises is a doubt of the run.

    Raises HistoryError for rows that cannot be judged."""
    run = WatchedRows(facts)
    _refuse_models(facts, checks)
    results: dict[str, CheckResult] = {}
    for name, checker in checks.items():
        try:
            results[name] = _checked(run, name, checker)
        except BrokenCheckerError as error:
            if not results:
                raise
            doubt = Statement(DOUBTS.checker, str(error))
            results[name] = CheckResult(counts={}, doubts=(doubt,))
    noted = run.noted()
    results = {
        name: noted.tally.held_against(name, result, facts) if result.counts else result
        for name, result in results.items()
    }
    begun = noted.tally.operations
    return Examined(results, run.availability(), noted.errors.document(), begun)


def _checked(run: Run, name: str, checker: AnyChecker) -> CheckResult:
    """What a checker reports. Raises BrokenCheckerError, and AcklossError as the checker does."""
    try:
        parts = [checker.check(run, shard) for shard in checker.shards(run)]
        return accepted(name, checker.merge(run, parts), run.facts)
    except (AcklossError, BrokenCheckerError):
        raise
    except (Exception, SystemExit) as error:
        raise broken_by(name, error) from error


def _refuse_models(facts: Facts, checks: Checks) -> None:
    for name, checker in checks.items():
        if facts.promises.model not in checker.models:
            raise HistoryError(
                f"holds operations of the model {facts.promises.model!r}, which the checker "
                f"{name!r} does not judge",
                file=facts.source,
                hint=f"it judges {', '.join(sorted(checker.models))}",
            )


def _document(facts: Facts, examined: Examined, *, begun_s: float) -> Document:
    """A result document, as the design names its fields. `counts` and `rates` are those of the
    first check."""
    seen, results = examined.seen, examined.results
    first = next(iter(results.values()))
    none = (0,) * len(facts.windows)
    ops_begun, ops_acknowledged = seen.ops_begun or none, seen.ops_acknowledged or none
    verdict = judge(facts, list(results.values()), ops_begun)
    timings = {name: facts.timings.get(name) for name in ("cluster_s", "run_s", "read_s")}
    check_s = round(time.monotonic() - begun_s, 3)
    return {
        "schema": SCHEMA_VERSION,
        "run_id": facts.run_id,
        "plan": facts.plan,
        "seed": facts.seed,
        "model": facts.promises.model,
        "simulated": facts.simulated,
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "counter_examples": list(verdict.counter_examples),
        "doubts": list(verdict.doubts),
        "eligible": verdict.eligible,
        "complete": is_complete(facts),
        "gaps": [*facts.gaps.sentences, *facts.gaps.aside],
        "forced": list(facts.forced),
        "counts": dict(first.counts),
        "rates": dict(first.rates),
        "checks": [_check(name, result) for name, result in results.items()],
        "availability": {
            "longest_gap_s": seen.longest_gap_s,
            "fault_s": seen.fault_s,
            "recovered": seen.recovered,
            "recovery_s": seen.recovery_s,
            "refused": first.counts.get("failed"),
            "unknown": first.counts.get("unknown"),
            "latency_p50_ms": seen.latency_p50_ms,
            "latency_p99_ms": seen.latency_p99_ms,
            "lateness_p99_ms": seen.lateness_p99_ms,
        },
        "errors": examined.errors,
        "clients": facts.clients.document() if facts.clients else None,
        "lost_spans": first.details.get("lost_spans", []),
        "faults": [
            fault_document(window, ops_begun=begun, ops_acknowledged=acknowledged)
            for window, begun, acknowledged in zip(
                facts.windows, ops_begun, ops_acknowledged, strict=True
            )
        ],
        "timings": {**timings, "check_s": check_s, "report_s": None},
        "leaders": None,
        "cautions": [],
    }


def _check(name: str, result: CheckResult) -> Document:
    """What one checker says, by itself: its verdict leaves out what is stated about the complete
    run."""
    verdict = INVALID if result.counter_examples else UNKNOWN if result.doubts else VALID
    return {
        "name": name,
        "verdict": verdict,
        "counter_examples": [list(each) for each in result.counter_examples],
        "doubts": [list(each) for each in result.doubts],
        "counts": dict(result.counts),
        "rates": dict(result.rates),
        "details": dict(result.details),
    }
