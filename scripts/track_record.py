#!/usr/bin/env python3
"""Run historical defects of systems again, each with its control, and write
docs/evidence/track-record.md.

    scripts/track_record.py [--runs 3] [--only TICKET ...] [--page]

The rows are those of scripts/track-record.toml, which also has what was tried and not reproduced.
What was seen last of each row is kept in docs/evidence/track-record.json; `--page` only writes the
page again. The exit code is 1 when a row that was run is not seen: a change to ackloss is done when
old defects are found again.
"""

from __future__ import annotations

import argparse
import datetime
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import orjson
from pydantic import BaseModel, ConfigDict, model_validator

from harness.protocols import DOUBTS, OUTCOME_DOUBTS

ROOT: Final = Path(__file__).parents[1]
ROWS: Final = ROOT / "scripts" / "track-record.toml"
SEEN: Final = ROOT / "docs" / "evidence" / "track-record.json"
PAGE: Final = ROOT / "docs" / "evidence" / "track-record.md"
LONGEST_S: Final = 600
VERDICTS: Final = ("valid", "invalid", "unknown")
VOID: Final = frozenset(DOUBTS) - OUTCOME_DOUBTS - {DOUBTS.replicas, DOUBTS.starved}
"""Doubts with which a run does not show that something does not happen: it has not been tried."""


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Side(_Document):
    """The affected version, or the control: what differs from the row, and what its runs show.

    `shows` is a verdict, or a count of one of the run's checks, by its name in result.json, that is
    above 0; `none` are counts that are 0; `doubt` is a doubt of the run. A side has one of the
    three. Without `version` it is that of the plan. `client` is the command of a client of ours
    (`ackloss run --client`)."""

    version: str | None = None
    client: str | None = None
    shows: str | None = None
    none: tuple[str, ...] = ()
    doubt: str | None = None
    plan: str | None = None
    changes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _has_one(self) -> Self:
        if [self.shows is not None, bool(self.none), self.doubt is not None].count(True) != 1:
            raise ValueError("a side has one of shows, none and doubt")
        if self.doubt is not None and self.doubt not in DOUBTS:
            raise ValueError(f"there is no doubt {self.doubt!r}, only {', '.join(DOUBTS)}")
        return self

    @property
    def counts(self) -> tuple[str, ...]:
        """The counts that decide."""
        return self.none if self.shows is None or self.shows in VERDICTS else (self.shows,)

    @property
    def words(self) -> str:
        """What its runs show, for people."""
        if self.none:
            return f"none {' or '.join(map(_spaced, self.none))}"
        return f"doubt {self.doubt}" if self.shows is None else _spaced(self.shows)

    def is_shown_by(self, run: Run) -> bool:
        """Whether a run shows it. A count that the run does not have is neither above 0 nor 0."""
        if self.doubt is not None:
            return self.doubt in run.doubts
        if self.shows in VERDICTS:
            return run.verdict == self.shows
        if VOID.intersection(run.doubts):
            return False  # whatever it counts, it is not known to come from what was tried
        if self.shows is not None:
            return run.counts.get(self.shows, 0) > 0
        return run.acknowledged > 0 and all(run.counts.get(name) == 0 for name in self.none)


def _spaced(name: str) -> str:
    return name.replace("_", " ").replace("-", " ")


class Row(_Document):
    """A historical defect. `force`: settings that a version does not support are set all the
    same. `npm`: a folder whose packages are installed first, as its package.json pins them."""

    ticket: str
    defect: str
    plan: str
    affected: Side
    control: Side
    changes: tuple[str, ...] = ()
    force: bool = False
    npm: str | None = None

    def prepare(self) -> None:
        """Install what its clients need."""
        if self.npm is not None:
            command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"]
            subprocess.run(command, cwd=ROOT / self.npm, check=True, stdout=subprocess.DEVNULL)

    def command(self, side: Side) -> list[str]:
        """The arguments of `ackloss` that run this side."""
        version = () if side.version is None else (f"target.version={side.version}",)
        changes = (*version, *self.changes, *side.changes)
        sets = [word for change in changes for word in ("--set", change)]
        client = [] if side.client is None else ["--client", side.client]
        force = ["--force"] if self.force else []
        return ["run", *force, side.plan or self.plan, *sets, *client]


class Tried(_Document):
    """What was tried to find a defect again, and what was seen instead."""

    ticket: str
    defect: str
    tried: str
    seen: str
    date: str


class Run(_Document):
    """What one run showed. `verdict` is null, and `reason` the message, when there is no result.
    `counts` are those of its side."""

    verdict: str | None
    reason: str
    doubts: tuple[str, ...] = ()
    acknowledged: int = 0
    counts: Mapping[str, int] = {}


class Outcome(_Document):
    """What the runs of a row showed last, and the commands of its two sides."""

    date: str
    commands: tuple[tuple[str, ...], ...]
    affected: tuple[Run, ...]
    control: tuple[Run, ...]


def commands(row: Row) -> tuple[tuple[str, ...], ...]:
    """Of the affected side, and of the control."""
    return tuple(row.command(row.affected)), tuple(row.command(row.control))


def is_seen(row: Row, outcome: Outcome) -> bool:
    """Whether the defect showed in a run of the affected version, and every run of the control was
    as it must be."""
    affected = any(row.affected.is_shown_by(run) for run in outcome.affected)
    return affected and all(row.control.is_shown_by(run) for run in outcome.control)


def run_once(row: Row, side: Side) -> Run:
    """One run of one side, through the command line."""
    with tempfile.TemporaryDirectory() as out:
        return run_of(result_of(row.command(side), Path(out)), side)


def result_of(words: Sequence[str], out: Path) -> dict[str, Any]:
    """The result.json of a run through the command line, or what there is in its place; its folder
    is below `out`."""
    argv = [sys.executable, "-m", "ackloss", *words, "--json", "--out", str(out)]
    with subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            output, complaint = process.communicate(timeout=LONGEST_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # it undoes its faults and removes its cluster
            process.communicate()
            return {"error": {"what": f"no result after {LONGEST_S} s"}}
    try:
        result: dict[str, Any] = orjson.loads(output)
    except orjson.JSONDecodeError:
        return {"error": {"what": complaint.strip()[-500:]}}
    return result


def run_of(result: Mapping[str, Any], side: Side) -> Run:
    """A run by its result.json, or by what there is in its place."""
    if "error" in result:
        return Run(verdict=None, reason=result["error"]["what"])
    counts: dict[str, Any] = {}
    for check in reversed(result["checks"]):
        counts |= check["counts"]
    return Run(
        verdict=result["verdict"],
        reason=result["reason"],
        doubts=tuple(result["doubts"]),
        acknowledged=result["counts"].get("acknowledged", 0),
        counts={name: counts[name] for name in side.counts if name in counts},
    )


def rows() -> list[Row]:
    """All rows, in the order of the file."""
    return [Row.model_validate({**row}) for row in _listed("rows")]


def tried() -> list[Tried]:
    """What was not reproduced, in the order of the file."""
    return [Tried.model_validate({**each}) for each in _listed("tried")]


def _listed(name: str) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = tomllib.loads(ROWS.read_text(encoding="utf-8")).get(name, [])
    return listed


def seen() -> dict[str, Outcome]:
    """What was seen last, by ticket. A row that has changed since has not been run."""
    if not SEEN.exists():
        return {}
    kept = orjson.loads(SEEN.read_bytes()).items()
    outcomes = {ticket: Outcome.model_validate(outcome) for ticket, outcome in kept}
    return {
        row.ticket: outcome
        for row in rows()
        if (outcome := outcomes.get(row.ticket)) is not None and _is_of(row, outcome)
    }


def _is_of(row: Row, outcome: Outcome) -> bool:
    """Whether it is the outcome of this row as it is now: of its commands, with its counts."""
    sides = ((row.affected, outcome.affected), (row.control, outcome.control))
    return outcome.commands == commands(row) and all(
        run.verdict is None or run.counts.keys() == set(side.counts)
        for side, runs in sides
        for run in runs
    )


def _result(side: Side, runs: Sequence[Run]) -> str:
    """The cell of a side in the table: how many runs showed what, and their counts."""
    shown = sum(side.is_shown_by(run) for run in runs)
    text = f"{side.version or 'default'}: {side.words}"
    if (shown, len(runs)) != (1, 1):
        text += f" in {shown} of {len(runs)}"
    if side.shows in side.counts:
        numbers = (f"{run.counts.get(side.shows, 0):,}/{run.acknowledged:,}" for run in runs)
        text += f": {'; '.join(numbers)}"
    others = sorted({run.verdict or "no result" for run in runs if not side.is_shown_by(run)})
    return f"{text} (others: {', '.join(others)})" if others else text


def _lines(of: Mapping[str, Outcome], *, as_expected: bool) -> Iterator[str]:
    for row in rows():
        outcome = of.get(row.ticket)
        if outcome is None or is_seen(row, outcome) != as_expected:
            continue
        cells = (
            row.ticket,
            row.defect,
            f"`{row.plan}`",
            _result(row.affected, outcome.affected),
            _result(row.control, outcome.control),
            outcome.date,
        )
        yield f"| {' | '.join(cells)} |"


HEAD: Final = """# Track record

Historical defects of Kafka, ZooKeeper, other systems and clients that ackloss finds again, each
with a control: a version that has the fix, or settings that avoid it. `make track-record` runs
[every row](../../scripts/track-record.toml), and fails if a defect is not found or a control is not
as expected. One run, where no number is given; what each run counted / its acknowledged writes.

| ticket | defect | plan | affected | control | last seen |
|---|---|---|---|---|---|
"""
NOT_SEEN: Final = """
## Not seen

Run, but the defect was not found, or the control was not as expected:

| ticket | defect | plan | affected | control | last run |
|---|---|---|---|---|---|
"""
TRIED: Final = """
## Not reproduced, or without a control

| ticket | defect | what was tried | what was seen | date |
|---|---|---|---|---|
"""


def page(of: Mapping[str, Outcome]) -> str:
    """The whole page."""
    text = HEAD + "\n".join(_lines(of, as_expected=True)) + "\n"
    if others := list(_lines(of, as_expected=False)):
        text += NOT_SEEN + "\n".join(others) + "\n"
    if waiting := [row.ticket for row in rows() if row.ticket not in of]:
        text += f"\nNever run: {', '.join(waiting)}.\n"
    if without := [f"| {' | '.join(each.model_dump().values())} |" for each in tried()]:
        text += TRIED + "\n".join(without) + "\n"
    return text


def main() -> int:
    """Run the rows; the page is written after each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="runs of each side")
    parser.add_argument("--only", nargs="*", metavar="TICKET", help="run these rows")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    given = parser.parse_args()
    known = [row.ticket for row in rows()]
    if unknown := [ticket for ticket in given.only or () if ticket not in known]:
        parser.error(f"no row of {ROWS.name} has the ticket {unknown[0]}; known: {known}")
    of, missed = seen(), False
    for row in [] if given.page else rows():
        if given.only and row.ticket not in given.only:
            continue
        row.prepare()
        outcome = Outcome(
            date=datetime.datetime.now(datetime.UTC).date().isoformat(),
            commands=commands(row),
            affected=tuple(run_once(row, row.affected) for _ in range(given.runs)),
            control=tuple(run_once(row, row.control) for _ in range(given.runs)),
        )
        found = is_seen(row, outcome)
        missed = missed or not found
        of[row.ticket] = outcome
        kept = {ticket: each.model_dump() for ticket, each in of.items()}
        SEEN.write_bytes(orjson.dumps(kept, option=orjson.OPT_INDENT_2))
        PAGE.write_text(page(of), encoding="utf-8")
        print(
            "seen" if found else "NOT SEEN",
            *_lines({row.ticket: outcome}, as_expected=found),
            flush=True,
        )
    PAGE.write_text(page(of), encoding="utf-8")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
