#!/usr/bin/env python3
"""Run historical defects of systems again, each with its control, and write docs/track-record.md.

    scripts/track_record.py [--runs 3] [--only TICKET ...] [--page]

The rows are those of scripts/track-record.toml. What was seen last of each row is kept in
docs/track-record.json; `--page` only writes the page again. The exit code is 1 when a row that was
run is not seen: a change to ackloss is done when old defects are found again.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict

ROOT: Final = Path(__file__).parents[1]
ROWS: Final = ROOT / "scripts" / "track-record.toml"
SEEN: Final = ROOT / "docs" / "track-record.json"
PAGE: Final = ROOT / "docs" / "track-record.md"
LONGEST_S: Final = 600

COUNTS: Final = ("lost", "duplicates", "not_yet_visible")
Shows = Literal["lost", "duplicates", "not_yet_visible", "readable", "valid", "invalid"]
"""`readable`: nothing that was acknowledged is lost or not yet visible, whatever the verdict is."""


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Side(_Document):
    """The affected version, or the control: what differs from the row, and what its runs show."""

    version: str
    shows: Shows
    plan: str | None = None
    changes: tuple[str, ...] = ()


class Row(_Document):
    """A historical defect. `force`: settings that a version does not support are set all the
    same."""

    ticket: str
    defect: str
    plan: str
    affected: Side
    control: Side
    changes: tuple[str, ...] = ()
    force: bool = False

    def command(self, side: Side) -> list[str]:
        """The arguments of `ackloss` that run this side."""
        changes = (f"target.version={side.version}", *self.changes, *side.changes)
        sets = [word for change in changes for word in ("--set", change)]
        return ["run", *(["--force"] if self.force else []), side.plan or self.plan, *sets]


class Run(_Document):
    """What one run showed. `verdict` is null, and `reason` the message, when there is no result."""

    verdict: str | None
    reason: str
    acknowledged: int = 0
    lost: int = 0
    duplicates: int = 0
    not_yet_visible: int = 0

    def has_shown(self, what: Shows) -> bool:
        if what == "readable":
            return self.acknowledged > 0 and not (self.lost or self.not_yet_visible)
        return getattr(self, what) > 0 if what in COUNTS else self.verdict == what


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
    affected = any(run.has_shown(row.affected.shows) for run in outcome.affected)
    return affected and all(run.has_shown(row.control.shows) for run in outcome.control)


def run_once(row: Row, side: Side) -> Run:
    """One run of one side, through the command line."""
    with tempfile.TemporaryDirectory() as out:
        argv = [sys.executable, "-m", "harness", *row.command(side), "--json", "--out", out]
        done = subprocess.run(
            argv, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
    try:
        result = orjson.loads(done.stdout)
    except orjson.JSONDecodeError:
        return Run(verdict=None, reason=done.stderr.strip()[-500:])
    if "error" in result:
        return Run(verdict=None, reason=result["error"]["what"])
    counts = {name: result["counts"].get(name, 0) for name in ("acknowledged", *COUNTS)}
    return Run(verdict=result["verdict"], reason=result["reason"], **counts)


def rows() -> list[Row]:
    """All rows, in the order of the file."""
    listed = tomllib.loads(ROWS.read_text(encoding="utf-8"))["rows"]
    return [Row.model_validate({**row}) for row in listed]


def seen() -> dict[str, Outcome]:
    """What was seen last, by ticket. A row that has changed since has not been run."""
    if not SEEN.exists():
        return {}
    now = {row.ticket: commands(row) for row in rows()}
    kept = orjson.loads(SEEN.read_bytes()).items()
    outcomes = {ticket: Outcome.model_validate(outcome) for ticket, outcome in kept}
    return {
        ticket: outcome
        for ticket, outcome in outcomes.items()
        if outcome.commands == now.get(ticket)
    }


def _result(side: Side, runs: Sequence[Run]) -> str:
    """The cell of a side in the table: how many runs showed what, and their counts."""
    shown = sum(run.has_shown(side.shows) for run in runs)
    text = f"{side.version}: {side.shows.replace('_', ' ')} in {shown} of {len(runs)}"
    if side.shows in COUNTS:
        text += ": " + "; ".join(
            f"{getattr(run, side.shows):,} of {run.acknowledged:,}" for run in runs
        )
    others = sorted({run.verdict or "no result" for run in runs if not run.has_shown(side.shows)})
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

Historical defects of Kafka, ZooKeeper and their clients that ackloss finds again, each with a
control: a version that has the fix, or settings that avoid it. Made by `make track-record`, which
runs every row, and fails if one is not found again or if a control is not as it must be. A change
to ackloss is done when old defects are still found. The rows, with the changes to each plan, are in
[scripts/track-record.toml](../scripts/track-record.toml).

| ticket | defect | plan | affected | control | last seen |
|---|---|---|---|---|---|
"""
NOT_SEEN: Final = """
## Not seen

Run, and not found again or with a control that was not as it must be:

| ticket | defect | plan | affected | control | last run |
|---|---|---|---|---|---|
"""


def page(of: Mapping[str, Outcome]) -> str:
    """The whole page."""
    text = HEAD + "\n".join(_lines(of, as_expected=True)) + "\n"
    if others := list(_lines(of, as_expected=False)):
        text += NOT_SEEN + "\n".join(others) + "\n"
    if waiting := [row.ticket for row in rows() if row.ticket not in of]:
        text += f"\nNever run: {', '.join(waiting)}.\n"
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
