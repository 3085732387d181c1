"""The cells of a run as a table: what each cell changes, and the outcome of its writes.

A loss rate of one run has no confidence interval: its writes share their fate, and only runs are
independent. What is shown of it is when the writes that were lost began and were acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any
from xml.etree import ElementTree as ET

from analysis.primary import why_lost
from analysis.tables import csv_of, frame
from analysis.wording import counted, visible
from harness.errors import HistoryError, PlanError
from harness.history.documents import CONCLUSIVE, CellResult, RunResult, read_result
from harness.history.run_folder import RunDir
from harness.plan.parsing import dotted_parts
from reports import ci, formatting
from reports.checks import counts_losses


@dataclass(frozen=True)
class Row:
    """One cell. `values`: what its plan has, by key; `own`: the keys that it changes. `link` leads
    to its page, if there is one, and `between_s` is when its lost writes began, the first and the
    last. `rate_per_s` and `duration_s` are the load that its plan requests."""

    cell: CellResult
    values: Mapping[str, str]
    own: frozenset[str]
    link: str | None
    between_s: tuple[float, float] | None
    rate_per_s: float | None = None
    duration_s: float | None = None

    @property
    def attempted_per_s(self) -> float | None:
        """Writes that were attempted, for each second of load in its plan."""
        return self.cell.counts.attempted / self.duration_s if self.duration_s else None

    @property
    def as_expected(self) -> bool | None:
        """Whether the verdict is the expected one; `None` where none is."""
        return None if self.cell.expect is None else self.cell.expect == self.cell.verdict

    @property
    def leader(self) -> str:
        """Whether a fault met who led it, in words."""
        if not self.cell.leaders:
            return formatting.NOTHING
        if self.cell.leader_met is None:
            return "not known"
        return ", ".join(self.cell.met_by) or "not met"


@dataclass(frozen=True)
class Cells:
    """The cells of a judged run, in the order of its plan."""

    run: RunDir
    result: RunResult

    @cached_property
    def keys(self) -> dict[str, str]:
        """The keys of the plan in which cells differ, with their last parts."""
        return {key: _parts(key)[-1] for cell in self.result.cells for key in cell.overrides}

    @cached_property
    def rows(self) -> list[Row]:
        return [self._row(cell) for cell in self.result.cells]

    @property
    def headline(self) -> str:
        """How many cells are invalid, in the words of what is counted; that none is, only of cells
        that are known to be valid."""
        cells = self.result.cells
        bad = sum(cell.verdict == "invalid" for cell in cells)
        unknown = sum(cell.verdict not in CONCLUSIVE for cell in cells)
        found = {name for cell in cells for name in cell.counter_examples or ()}
        lost = counts_losses(self.result) and found <= {"lost"}
        if unknown == len(cells):
            whether = "it lost acknowledged writes" if lost else "it broke a promise"
            return f"It is not known of any of {counted(unknown, 'cell')} whether {whether}"
        which = counted(len(cells), "cell")
        if unknown and not bad:
            which = counted(len(cells) - unknown, "conclusive cell")
        what = "lost acknowledged writes" if lost else "broke a promise"
        more = f"; of {unknown} it is not known" if unknown else ""
        return f"{bad or 'None'} of {which} {what}{more}"

    def _row(self, cell: CellResult) -> Row:
        folder = self.run.cell(cell.name)
        plan = _if_there(lambda: folder.read_json(folder.plan)) or {}
        result = _if_there(lambda: read_result(folder))
        spans = (result.lost_spans or ()) if result else ()
        if cell.verdict not in CONCLUSIVE:
            spans = ()
        between = [span.begun_s for span in spans if span.client is None and span.begun_s]
        link = f"cells/{cell.name}/{folder.report.name}"
        return Row(
            cell=cell,
            values={key: _value(plan, key) for key in self.keys},
            own=frozenset(cell.overrides),
            link=link if folder.report.is_file() else None,
            between_s=between[0] if between else None,
            rate_per_s=_number(plan, "rate_per_s"),
            duration_s=_number(plan, "duration_s"),
        )


def _if_there(read: Callable[[], Any]) -> Any:
    """A document of a cell; `None` where it cannot be read."""
    try:
        return read()
    except HistoryError:
        return None


def _parts(key: str) -> list[str]:
    try:
        return dotted_parts(key)
    except PlanError:
        return [key]


def _value(plan: Mapping[str, Any], key: str) -> str:
    """What a cell's plan has at a key, as text; empty where it has nothing."""
    value: Any = plan
    for part in _parts(key):
        value = value.get(part) if isinstance(value, Mapping) else None
    return ", ".join(formatting.flat(value).values())


def _number(plan: Mapping[str, Any], key: str) -> float | None:
    """A number of the load that a plan requests; `None` where the plan has none."""
    load = plan.get("workload")
    value = load.get(key) if isinstance(load, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def csv(view: Cells) -> bytes:
    """A row for each cell: name, keys, verdict, counts, load, rates, why writes were lost, who was
    met, and whether it is simulated."""
    rows = ({**dict(_columns(row)), "simulated": view.result.simulated} for row in view.rows)
    return csv_of(frame(list(rows)))


def _columns(row: Row) -> Iterator[tuple[str, Any]]:
    cell = row.cell
    yield from {"cell": cell.name, **row.values, "verdict": cell.verdict}.items()
    yield from {"expected": cell.expect, "reason": cell.reason}.items()
    conclusive = cell.verdict in CONCLUSIVE
    yield from (asdict(cell.counts) | ({} if conclusive else {"lost": None})).items()
    yield from {"planned_per_s": row.rate_per_s, "attempted_per_s": row.attempted_per_s}.items()
    rates = asdict(cell.rates) | ({} if conclusive else {"loss": None})
    yield from ((f"{name}_rate", value) for name, value in rates.items())
    first_s, last_s = row.between_s or (None, None)
    yield from {"first_lost_s": first_s, "last_lost_s": last_s}.items()
    why = why_lost([cell])
    yield from {"why_lost": why.why_in_words, "survivable": why.survivable}.items()
    yield from {"leader_met": cell.leader_met, "met_by": " ".join(cell.met_by)}.items()


def junit(view: Cells, name: str) -> bytes:
    """A test case for each cell: it fails if it is invalid, or not as expected."""
    cases = [_case(name, row) for row in view.rows]
    suite = ci.element("testsuite", name=name, **ci.totals(cases))
    stated = {"run": view.run.run_id, "simulated": str(view.result.simulated).lower()}
    suite.append(ci.properties(stated))
    suite.extend(cases)
    return ci.document(suite)


def _case(suite: str, row: Row) -> ET.Element:
    cell, case = row.cell, ci.test_case(suite, row.cell.name, 0)
    settings = ", ".join(f"{key} = {value}" for key, value in row.values.items())
    if row.as_expected is False:
        message = f"{cell.verdict}, expected {cell.expect}: {cell.reason}"
    else:
        message = "" if row.as_expected or cell.verdict == "valid" else str(cell.reason)
    if message:
        why = why_lost([cell]).why_in_words
        message += f"; why lost: {why}" if why else ""
        tag = "error" if cell.verdict == "unknown" and row.as_expected is None else "failure"
        ci.element(tag, case, message=message, type="verdict")
    output = f"{settings}\n{cell.verdict}: {cell.reason}\nleader: {row.leader}"
    ci.element("system-out", case).text = visible(output)
    return case
