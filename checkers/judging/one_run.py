"""Judges one run, or one history from outside; workers call this for each of many.

facts, rows -> each checker: shards -> parts -> result
            -> timeline -> availability              -> verdict -> findings/, result.json

A run is a list of cells; one without `[[cells]]` is its only cell. Each cell is judged by itself. A
run of several is `invalid` if one of its cells is, else `unknown` if one of them is, or is missing,
or if the run itself did not end as it should; otherwise `valid`. Its counts are those of all cells
together; rates are only given per cell, because rates of a mixture say nothing about any setting.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from checkers.judging.alarms import alarm, first_loss_s, published
from checkers.judging.availability import Availability, ErrorCodes, WatchedRows, leaders_of_run
from checkers.judging.outside import convert, model_outside
from checkers.judging.results import (
    BrokenCheckerError,
    Document,
    Judged,
    accepted,
    broken_by,
    check_document,
    fault_document,
    raised,
)
from checkers.judging.verdict import Verdict, is_complete, judge
from harness import registry
from harness.errors import AcklossError, HistoryError, PlanError, TooNewError
from harness.faults.journal import windows
from harness.history import documents
from harness.history.documents import result_of
from harness.history.explanations import double_entry, explained, lost_rows, not_lost
from harness.history.manifest import gaps_of_files
from harness.history.metrics import read_metrics
from harness.history.outside import run_id_of
from harness.history.parquet_writer import packed
from harness.history.rows import Rows, as_written, facts_of, stored_target
from harness.history.run_folder import SCHEMA_VERSION, RunDir, cell_id
from harness.machine.files import scratch
from harness.models import LOG, MODELS
from harness.protocols import (
    DONE,
    DOUBTS,
    FAILED,
    INVALID,
    NOT_EXAMINED,
    OUTCOME_DOUBTS,
    UNEXPLAINED,
    UNKNOWN,
    VALID,
    Checker,
    CheckResult,
    Facts,
    FaultWindow,
    Promises,
    Removed,
    Run,
    Statement,
)

AnyChecker = Checker[Any, Any]
Checks = Mapping[str, AnyChecker]
"""Checkers by name, in the order in which a plan names them."""

_TIMES = ("cluster_s", "run_s", "read_s")


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
    try:
        if not rundir.cell_names():
            return _judged_folder(rundir, checks)
        run, plan = _documents(rundir)
        folders = rundir.cells()
        if run["state"] == DONE and folders and not any(map(_has_history, folders)):
            raise HistoryError("holds no history in any cell", file=str(rundir.cells_path))
        return _by_cells(rundir, run, plan, partial(_judged_folder, checks=checks))
    except TooNewError:
        raise
    except HistoryError as error:
        if not any(map(_has_history, rundir.with_cells())):
            raise  # pruned: it keeps its result
        return Judged(_unjudged(_named_by(rundir), str(error), DOUBTS.incomplete), refused=error)
    except AcklossError:
        raise
    except (Exception, SystemExit) as error:
        return broken_run(rundir, raised(error))


def _has_history(rundir: RunDir) -> bool:
    return bool(rundir.parts(rundir.history))


def _judged_folder(rundir: RunDir, checks: Checks | None) -> Judged:
    """A folder with a history, judged. A checker that breaks makes it unknown."""
    begun_s = time.monotonic()
    try:
        facts = facts_of(rundir)
        facts, examined = examined_run(facts, checks or checks_of(rundir, facts))
        found = {
            name: content
            for name, result in examined.results.items()
            if (content := packed(result.findings))
        }
        document = _document(facts, examined, begun_s=begun_s)
        document |= leaders_of_run(rundir, document["faults"], facts.footers)
        document["cautions"] = [*document.get("cautions", ()), *_of_clients(facts, examined)]
        why = explained(rundir, examined.results.values())
        # Also what was not listed one by one, and the lost of a model that nobody explains.
        listed = lost_rows(examined.results.values())
        lost = document["counts"].get("lost", 0 if listed is None else listed.num_rows) or 0
        document |= {"causes": dict(why.causes), **dict.fromkeys(_OTHERS.values(), 0)}
        document[_OTHERS[why.others]] = lost - sum(why.causes.values())
        document["survivable"] = why.survivable
        document |= _removed(rundir, examined)
        others = [*not_lost(rundir, [*examined.results.values()]), *why.not_lost]
        document["not_lost"] = [asdict(each) for each in others]
        document |= _alarms(rundir, examined)
    except AcklossError as error:
        source = rundir.plan if isinstance(error, PlanError) else rundir.path
        error.file = error.file or str(source)
        raise
    except (Exception, SystemExit) as error:
        return broken_run(rundir, raised(error))
    return Judged(document, found, why.files)


def _removed(rundir: RunDir, examined: Examined) -> Document:
    """What became of the records that nodes' logs lost. Copies that cannot be read leave the
    verdict; none where not every lost write is listed."""
    lost = lost_rows(examined.results.values())
    counted = [each.counts["lost"] for each in examined.results.values() if "lost" in each.counts]
    values = [] if lost is None else lost["value"].to_pylist()
    target = stored_target(rundir)
    if target is None or not counted or len(values) < max(int(each or 0) for each in counted):
        return {}
    try:
        if (removed := target.removed(rundir.path)) is None:
            return {}
    except Exception as error:  # whatever a plug-in raises, the verdict stands
        removed = Removed(records=(), why_not=(f"cannot be read: {error}",))
    phantoms = lost_rows(examined.results.values(), {"phantoms"})
    processed = [] if phantoms is None else phantoms["value"].to_pylist()
    return {"removed": asdict(double_entry(rundir, removed, values, processed))}


def _alarms(rundir: RunDir, examined: Examined) -> Document:
    """What became of the published alarm rules. Metrics that cannot be read leave the verdict."""
    if (target := stored_target(rundir)) is None or target.alarms is None:
        return {}
    try:
        if (metrics := read_metrics(rundir)) is None:
            return {"no_alarms": "no node has written down what it reports of itself"}
        first_s = first_loss_s(lost_rows(examined.results.values()))
        rules = published(target.alarms)
        return {"alarms": [asdict(alarm(rule, metrics, first_s)) for rule in rules]}
    except HistoryError as error:
        return {"no_alarms": str(error)}


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


def broken_run(rundir: RunDir, why: str) -> Judged:
    """The outcome of a run whose checker did not finish. Reads only JSON: what broke the checker
    does not break this."""
    return Judged(_unjudged(_named_by(rundir), f"{why}: {rundir.path}"))


def broken_history(file: Path, why: str) -> Document:
    """The document of a history whose checker did not finish."""
    facts = Facts(run_id=run_id_of(file), history=(), reads=(), ends=())
    return _unjudged(facts, f"{why}: {file}")


def _named_by(rundir: RunDir) -> Facts:
    """What run.json (or else an earlier result) and plan.json say of a run, as far as they can be
    read."""
    run = _read(rundir, rundir.run) or _read(rundir, rundir.result)
    plan = _read(rundir, rundir.plan)
    run_id, name, seed = run.get("run_id"), plan.get("name"), run.get("seed")
    promises = run.get("promises")
    model = promises.get("model") if isinstance(promises, dict) else None
    return Facts(
        run_id=run_id if isinstance(run_id, str) else rundir.run_id,
        folder=rundir.path,
        history=(),
        reads=(),
        ends=(),
        plan=name if isinstance(name, str) else None,
        seed=seed if isinstance(seed, int) else None,
        promises=Promises(model=model if model in MODELS else LOG.name),
        simulated=run.get("simulated") is True,
    )


def _read(rundir: RunDir, path: Path) -> Document:
    try:
        return rundir.read_json(path)
    except HistoryError:
        return {}


def _unjudged(facts: Facts, why: str, doubt: str = DOUBTS.checker) -> Document:
    """The document of what could not be judged."""
    none = CheckResult(counts={"attempted": 0, "acknowledged": 0})
    if facts.promises.model == LOG.name:
        none = checker_of(LOG.check, {}).merge(Rows(facts), [])
    examined = Examined({"": none}, Availability(), ErrorCodes().document())
    verdict = Verdict(UNKNOWN, why, doubts=(doubt,), eligible=False)
    document = _document(facts, examined, begun_s=time.monotonic(), verdict=verdict)
    return {**document, "complete": False, "checks": []}


class Examined(NamedTuple):
    """What the checkers of a run report, and what its rows show besides; `errors` as in the result;
    `begun`, `ended`: of how many operations the history holds the begin and the end."""

    results: Mapping[str, CheckResult]
    seen: Availability
    errors: dict[str, dict[str, int]]
    begun: int = 0
    ended: int = 0


def examined_run(facts: Facts, checks: Checks) -> tuple[Facts, Examined]:
    """Judge a run by every checker, as `examine`. Where its history holds another number of
    operations than the run counted, or more ends than begins, some are missing or were never there:
    that is a gap of the facts, and the run is judged again with facts that include it."""
    examined = examine(facts, checks)
    attempted, begun, ended = facts.attempted, examined.begun, examined.ended
    same = attempted in (None, begun) and (attempted is None or ended <= begun)
    if same or facts.gaps.history or facts.state != DONE:
        return facts, examined
    sentence = f"history/ holds the begin of {begun:,} operations"
    sentence += f" and the end of {ended:,}" if ended > begun else ""
    sentence += f", but run.json counted {attempted:,}"
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
    return Examined(
        results,
        run.availability(),
        noted.errors.document(),
        noted.tally.operations,
        noted.tally.ended,
    )


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


def _document(
    facts: Facts, examined: Examined, *, begun_s: float, verdict: Verdict | None = None
) -> Document:
    """A result document, as the design names its fields. `counts` and `rates` are those of the
    first check; `verdict`: by default what they come to."""
    seen, results = examined.seen, examined.results
    first = next(iter(results.values()))
    none = (0,) * len(facts.windows)
    ops_begun, ops_acknowledged = seen.ops_begun or none, seen.ops_acknowledged or none
    verdict = verdict or judge(facts, list(results.values()), ops_begun)
    return {
        "schema": SCHEMA_VERSION,
        "run_id": facts.run_id,
        "plan": facts.plan,
        "seed": facts.seed,
        "model": facts.promises.model,
        "simulated": facts.simulated,
        **verdict._asdict(),
        "counter_examples": list(verdict.counter_examples),
        "doubts": list(verdict.doubts),
        "complete": is_complete(facts),
        "gaps": [*facts.gaps.sentences, *facts.gaps.aside],
        "forced": list(facts.forced),
        "counts": dict(first.counts),
        "rates": dict(first.rates),
        "checks": [check_document(name, result) for name, result in results.items()],
        "availability": {
            **{each.name: getattr(seen, each.name) for each in fields(documents.Availability)},
            "refused": first.counts.get("failed"),
            "unknown": first.counts.get("unknown"),
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
        "timings": _timings(facts.timings, begun_s),
        "leaders": None,
        "cautions": [],
        "causes": {},
        "unexplained": 0,
        "not_examined": 0,
        "survivable": 0,
        "not_lost": [],
        "alarms": [],
        "no_alarms": None,
    }


def _timings(known: Mapping[str, Any], begun_s: float) -> Document:
    check_s = round(time.monotonic() - begun_s, 3)
    return {**{name: known.get(name) for name in _TIMES}, "check_s": check_s, "report_s": None}


_NOTHING = {"attempted": 0, "acknowledged": 0, "lost": 0}
_OTHERS = {UNEXPLAINED: "unexplained", NOT_EXAMINED: "not_examined"}
_EXPLAINED = (*_OTHERS.values(), "survivable")
_OF_A_CELL = (
    *("verdict", "reason", "counter_examples", "doubts", "eligible", "complete"),
    *("counts", "rates", "causes", *_EXPLAINED),
)


def stored_result(rundir: RunDir) -> Document | None:
    """The result of a run as it is stored; `None` if there is none. A shared run of a campaign was
    judged cell by cell, since the campaign counts cells: without a result.json for it, its cells
    are summed up from theirs, as `judged_run` does. Nothing is judged or written.

    Raises HistoryError for what cannot be read.
    """
    if rundir.result.exists():
        return rundir.read_json(rundir.result)
    campaign = rundir.read_json(rundir.run).get("campaign")
    if not isinstance(campaign, dict) or campaign.get("cell") is not None:
        return None  # not a run that cells of a campaign shared
    folders = rundir.cells()
    judged = [each.result.is_file() for each in folders]
    if not any(judged) or not all(
        done or each.read_json(each.run).get("state") == FAILED
        for each, done in zip(folders, judged, strict=True)
    ):
        return None
    run, plan = _documents(rundir)
    try:
        return _by_cells(rundir, run, plan, _as_stored).document
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HistoryError(
            f"the result of a cell is not as this ackloss writes it: {error!r}",
            file=str(rundir.cells_path),
            hint=f"`ackloss check {rundir.path}` writes it again",
        ) from error


def _as_stored(cell: RunDir) -> Judged:
    """What an earlier check wrote. Raises HistoryError if it cannot be read, or if there is
    none."""
    if not cell.result.is_file():
        raise HistoryError(f"the run failed: {cell.read_json(cell.run).get('error')}")
    document = cell.read_json(cell.result)
    result_of(document, file=cell.result)
    return Judged(document)


def _by_cells(
    rundir: RunDir, run: Document, plan: Document, judge_cell: Callable[[RunDir], Judged]
) -> Judged:
    """Every cell by `judge_cell`, and the run by its cells. A cell that cannot be judged has a
    result too, `unknown`: that of an earlier check is none."""
    begun_s, whole = time.monotonic(), _named_by(rundir)
    requested = {each["name"]: each for each in plan.get("cells") or []}
    listed = {each["name"]: each for each in run["cells"]}
    answers = {
        name: _judged_cell(rundir.cell(name), whole, judge_cell)
        for name in dict.fromkeys([*listed, *requested, *_there(rundir)])
    }
    known = [answer.document for answer in answers.values() if answer.refused is None]
    cells = [
        {"name": name, "overrides": listed.get(name, {}).get("overrides") or {}}
        | {key: {"not_examined": 0, **answer.document}[key] for key in _OF_A_CELL}
        | {"leaders": answer.document.get("leaders") or []}
        | {"expect": requested.get(name, {}).get("expect")}
        for name, answer in answers.items()
    ]
    faults, unread = _journal(rundir)
    document = {
        **_unjudged(whole, ""),
        "model": known[0]["model"] if known else LOG.name,
        **_verdict(cells, [*_doubts(rundir, run, plan), *unread]),
        "forced": list(dict.fromkeys(forced for each in known for forced in each["forced"])),
        "counts": _sum(each["counts"] for each in known) or dict(_NOTHING),
        "rates": {},
        "availability": {},
        "errors": {
            kind: _sum(each["errors"].get(kind, {}) for each in known)
            for kind in dict.fromkeys(kind for each in known for kind in each["errors"])
        },
        "faults": _faults(faults, known),
        "causes": _sum(each.get("causes", {}) for each in known),
        **{name: sum(each.get(name) or 0 for each in known) for name in _EXPLAINED},
        "cells": cells,
        "timings": _timings(run["timings"], begun_s),
    }
    there = {path.name for path in rundir.cells_path.glob("*")}
    return Judged(
        document,
        cells={
            name: replace(answer, refused=None) for name, answer in answers.items() if name in there
        },
    )


def _documents(rundir: RunDir) -> tuple[Document, Document]:
    """run.json and plan.json. Raises HistoryError if they lack what every run has."""
    run, plan = rundir.read_json(rundir.run), rundir.read_json(rundir.plan)
    with as_written(rundir):
        _ = run["run_id"], run["seed"], run["state"], run["timings"].get("run_s"), plan["name"]
        _ = [each["name"] for each in (*run["cells"], *(plan.get("cells") or []))]
    return run, plan


def _there(rundir: RunDir) -> list[str]:
    """The names of the cells whose folders are there, listed or not."""
    return sorted(path.parent.name for path in rundir.cells_path.glob(f"*/{rundir.run.name}"))


def _judged_cell(folder: RunDir, whole: Facts, judge_cell: Callable[[RunDir], Judged]) -> Judged:
    """The result of a cell of this run; where there is none it is `refused`, and says why: the
    folder of another cell does not count."""
    name = folder.path.name
    own = cell_id(whole.run_id, name)
    try:
        if not folder.run.is_file():
            raise HistoryError(f"missing: cells/{name} (it has no run.json)")
        if (found := folder.read_json(folder.run).get("run_id")) != own:
            raise HistoryError(f"of another cell or run: cells/{name} ({found})")
        return judge_cell(folder)
    except AcklossError as error:
        facts = replace(whole, run_id=own, promises=Promises())
        document = _unjudged(facts, str(error), DOUBTS.incomplete)
        document |= {"counts": dict(_NOTHING), "rates": {}}
        return Judged(document, refused=HistoryError(str(error)))


def _journal(rundir: RunDir) -> tuple[list[FaultWindow], list[tuple[str, str]]]:
    """The faults of the run's own journal, of which its cells have copies. Where it cannot be read
    there are none, and a doubt: cells that can be judged by their copies still are."""
    try:
        return windows(rundir.faults), []
    except HistoryError as error:
        return [], [(DOUBTS.incomplete, str(error))]


def _faults(faults: Sequence[FaultWindow], known: Sequence[Document]) -> list[Document]:
    """The faults with what all cells counted while each was in force. A cell whose checker broke,
    or whose copy of the journal is damaged, does not have them all."""
    begun, acknowledged = Counter[str](), Counter[str]()
    for each in known:
        begun.update({fault["id"]: fault["ops_begun"] for fault in each["faults"]})
        acknowledged.update({fault["id"]: fault["ops_acknowledged"] for fault in each["faults"]})
    return [
        fault_document(fault, ops_begun=begun[fault.id], ops_acknowledged=acknowledged[fault.id])
        for fault in faults
    ]


def _sum(counts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts added up; those that are not whole numbers, such as ages, are left out."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update({name: value for name, value in each.items() if type(value) is int})
    return dict(total)


def _doubts(rundir: RunDir, run: Document, plan: Document) -> list[tuple[str, str]]:
    """Doubts from the run's own folder, whatever its cells report: names and sentences."""
    gaps = gaps_of_files(rundir, run)
    doubts = [(DOUBTS.incomplete, sentence) for sentence in gaps.sentences]
    requested = [each["name"] for each in plan.get("cells") or []]
    listed = [each["name"] for each in run["cells"]]
    if sorted(listed) != sorted(requested):
        sentence = (
            f"not the cells of its plan, {', '.join(requested)}: run.json lists {', '.join(listed)}"
        )
        doubts.append((DOUBTS.incomplete, sentence))
    if strange := [f"cells/{name}" for name in _there(rundir) if name not in requested]:
        doubts.append((DOUBTS.incomplete, f"not of its plan: {', '.join(strange)}"))
    if (state := run["state"]) != DONE:
        name = DOUBTS.interrupted if state == "interrupted" else DOUBTS.failed
        why = f": {run['error']}" if run.get("error") else ""
        doubts.insert(0, (name, f"the run is {state}, not done{why}"))
    return doubts


def _verdict(cells: Sequence[Document], doubts: Sequence[tuple[str, str]]) -> Document:
    """The run's verdict, from those of its cells and the doubts about the complete run."""
    by_verdict = {
        verdict: [cell["name"] for cell in cells if cell["verdict"] == verdict]
        for verdict in (INVALID, UNKNOWN, VALID)
    }
    sentences = [
        f"{len(names)} of {len(cells)} cells {'is' if len(names) == 1 else 'are'} {verdict}"
        + (f": {', '.join(names)}" if verdict != VALID else "")
        for verdict, names in by_verdict.items()
        if names
    ]
    names = dict.fromkeys(name for name, _ in doubts)
    names |= dict.fromkeys(name for cell in cells for name in cell["doubts"])
    verdict = INVALID if by_verdict[INVALID] else VALID
    if verdict == VALID and (by_verdict[UNKNOWN] or doubts):
        verdict = UNKNOWN
    whole = not doubts
    return {
        "verdict": verdict,
        "reason": "; ".join([*(sentence for _, sentence in doubts), *sentences]),
        "counter_examples": list(
            dict.fromkeys(name for cell in cells for name in cell["counter_examples"])
        ),
        "doubts": list(names),
        "eligible": OUTCOME_DOUBTS.issuperset(names),
        "complete": whole and all(cell["complete"] for cell in cells),
    }
