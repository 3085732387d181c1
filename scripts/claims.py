"""Ask real clusters what five documents claim about Kafka and ZooKeeper, and write
docs/evidence/claims.md.

    python -m scripts.claims [--runs 3] [--only A1 ...] [--hours 8]   run what is missing, write
    python -m scripts.claims --add RUN ...   keep runs that exist, of plans that claims ask
    python -m scripts.claims --page    only write the page again
    python -m scripts.claims --check   1 where the page is not that of the data

The claims, with the plans that ask them and what is expected, are in scripts/claims.toml.
Every run is kept in docs/evidence/claims.json as soon as it has ended, so this may be stopped and
started again at any time. Runs of a command that a claim no longer has are dropped.
"""

from __future__ import annotations

import argparse
import datetime
import fcntl
import operator
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import orjson
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ackloss.session import Session
from analysis.statistics.intervals import Share, chosen_by_outcome
from harness.machine.files import replace_file
from harness.plan.parsing import PLANS, find
from harness.protocols import DOUBTS, OUTCOME_DOUBTS
from harness.protocols.nodes import NODE_DATA, STORED
from scripts.published import cell_named, counts, interval
from scripts.track_record import VERDICTS, result_of

ROOT: Final = Path(__file__).parents[1]
CLAIMS: Final = ROOT / "scripts" / "claims.toml"
SEEN: Final = ROOT / "docs" / "evidence" / "claims.json"
PAGE: Final = ROOT / "docs" / "evidence" / "claims.md"
RESULTS: Final = ROOT / "docs" / "evidence" / "results"
GROUPS: Final = {
    "A": "Kafka under partition",
    "B": "Replication, ZooKeeper and Kafka",
    "C": "KRaft and what it replaced",
    "E": "Kafka's guarantees",
}
HOLDS, LIMITED, FALSE = "holds", "holds with limits", "**does not hold**"
NOT_SEEN, OPEN, CANNOT = "not seen", "not answered yet", "cannot be tested here"
PICTURE: Final = """
![Loss and availability](majority.png)

A9, of five replicas under random faults of one broker and of two, with unclean election: 100 runs
a point, drawn by `python -m scripts.majority` from [majority](results/README.md).
"""
OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "==": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TERM: Final = re.compile(
    r"(?P<field>\S+) (?P<sign>==|<=?|>=?) (?:(?P<times>[\d.]+) \* )?(?P<than>\S+)"
)


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Run(_Document):
    """What one run, or one cell of it, showed. No verdict: there is no result, `reason` says why.
    `figures`: counts by their names, numbers of `availability` and of faults by their paths."""

    date: str
    version: str = ""
    verdict: str | None = None
    reason: str = ""
    eligible: bool = False
    doubts: tuple[str, ...] = ()
    figures: Mapping[str, float] = {}
    cells: Mapping[str, Run] = {}

    def cell(self, name: str | None) -> Run:
        """The run, or its cell of this name; one that it does not have showed nothing."""
        return self if name is None else self.cells.get(name, Run(date=self.date))


class Part(_Document):
    """One question to a plan, or to a published campaign (`table`), and its answer: to one cell of
    it, or to the rows of one of its tables (`file`) that have the values of `where`, one a run.

    `expect` is one or several of these, joined by "and": a verdict; `doubt NAME`; or `FIELD SIGN
    NUMBER`, where the number may be `FACTOR * PART.FIELD`, the median of an earlier part. For a
    table: `lost` or `kept` (every conclusive run did), and columns. `some`: it is enough that one
    run is so. `limit`: where the claim ends. `despite`: doubts that the plan itself brings about; a
    run that has no others is conclusive."""

    expect: str
    name: str = ""
    plan: str = ""
    changes: tuple[str, ...] = ()
    force: bool = False
    cell: str | None = None
    table: str = ""
    file: str = ""
    where: Mapping[str, str | int] = {}
    logs: bool = False
    despite: tuple[str, ...] = ()
    some: bool = False
    limit: bool = False

    @model_validator(mode="after")
    def _asks(self) -> Self:
        if bool(self.plan) == bool(self.table):
            raise ValueError("a part has either a plan or a table")
        words = VERDICTS if self.plan else () if self.file else ("lost", "kept")
        for term in self.terms:
            known = term in words or term.removeprefix("doubt ") in DOUBTS
            if not known and not _TERM.fullmatch(term):
                raise ValueError(f"{term!r} is not a verdict, a doubt or FIELD SIGN NUMBER")
        return self

    @property
    def terms(self) -> list[str]:
        return self.expect.split(" and ")

    @property
    def fields(self) -> list[str]:
        """The numbers that it looks at."""
        return [match["field"] for term in self.terms if (match := _TERM.fullmatch(term))]

    @property
    def command(self) -> tuple[str, ...]:
        """The arguments of `ackloss` that run it."""
        sets = [word for change in self.changes for word in ("--set", change)]
        kept = ["--keep-cluster"] if self.logs else []
        return ("run", *(["--force"] if self.force else []), self.plan, *sets, *kept)


class Claim(_Document):
    """What a document claims, in our words. `limits`: where it ends. `cannot`: why it is not tested
    here."""

    id: str = Field(pattern=r"[ABCE]\d{1,2}")
    claim: str
    source: str
    limits: str = ""
    cannot: str = ""
    parts: tuple[Part, ...] = ()


class Answer(_Document):
    """What the runs of a part showed: how many of the conclusive ones are as expected, and of the
    others. `refuted`: an inconclusive run has a counter-example."""

    met: Share
    others: Share
    medians: Mapping[str, float] = {}
    versions: tuple[str, ...] = ()
    refuted: bool = False
    some: bool = False
    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @property
    def state(self) -> bool | None:
        """Whether it is as expected; `None`: not known."""
        if self.some and self.met.part:
            return True
        if self.refuted:
            return False
        if not self.met.whole:
            return None
        return not self.some and self.met.part == self.met.whole

    @property
    def words(self) -> str:
        """How many were as expected, with the interval, or the bounds over all runs."""
        if not self.met.whole:
            return f"no conclusive run of {self.others.whole}"
        text = f"{self.met.part} of {self.met.whole}"
        if chosen_by_outcome(self.met, self.others):
            text += f", {self.others.part} of {self.others.whole} others"
        return f"{text} ({interval(self.met, self.others)})"


def _counts(part: Part, run: Run) -> bool:
    """Whether a run is conclusive for a part: whatever came out, not by what came out."""
    expected = set(run.doubts) <= {*part.despite, *OUTCOME_DOUBTS}
    return run.eligible or (bool(set(run.doubts) & set(part.despite)) and expected)


def is_met(part: Part, run: Run, earlier: Mapping[str, Answer]) -> bool | None:
    """Whether a run is as expected; `None` if it lacks a number, or nothing is known to compare it
    with."""
    terms = [_holds(term, run, earlier) for term in part.terms]
    return None if None in terms else all(terms)


def _holds(term: str, run: Run, earlier: Mapping[str, Answer]) -> bool | None:
    if term in (*VERDICTS, "lost", "kept"):
        return run.verdict == term
    if term.startswith("doubt "):
        return term.removeprefix("doubt ") in run.doubts
    match = _TERM.fullmatch(term)
    assert match is not None
    number, than = run.figures.get(match["field"]), _number(match["than"], earlier)
    if number is None or than is None:
        return None
    return OPERATORS[match["sign"]](number, float(match["times"] or 1) * than)


def _number(text: str, earlier: Mapping[str, Answer]) -> float | None:
    """A number, or the median of a field of an earlier part."""
    try:
        return float(text)
    except ValueError:
        name, _, field = text.partition(".")
        return earlier[name].medians.get(field) if name in earlier else None


def answer(part: Part, runs: Sequence[Run], earlier: Mapping[str, Answer]) -> Answer:
    """What the runs of a part show."""
    if part.table and not part.file:
        return _of_table(part, earlier)
    runs = rows_of(part) if part.file else runs
    seen = [run.cell(part.cell) for run in runs]
    conclusive = [
        run for run in seen if _counts(part, run) and is_met(part, run, earlier) is not None
    ]
    others = [run for run in seen if run not in conclusive]
    met = [run for run in conclusive if is_met(part, run, earlier)]
    return Answer(
        met=Share(len(met), len(conclusive)),
        others=Share(sum(is_met(part, run, earlier) is True for run in others), len(others)),
        medians={
            field: statistics.median(values)
            for field in {name for run in conclusive for name in run.figures}
            if (values := [run.figures[field] for run in conclusive if field in run.figures])
        },
        versions=tuple(dict.fromkeys(run.version for run in seen if run.version)),
        refuted=any(
            run.verdict == "invalid" and is_met(part, run, earlier) is False for run in others
        ),
        some=part.some,
    )


def _of_table(part: Part, earlier: Mapping[str, Answer]) -> Answer:
    """What the counts of one cell of a published campaign show."""
    row = cell_of(part)
    lossy, others = counts(row)
    if "kept" in part.terms:
        lossy, others = (Share(each.whole - each.part, each.whole) for each in (lossy, others))
    figures = {name: float(value) for name, value in row.items() if isinstance(value, int | float)}
    columns = [term for term in part.terms if term not in ("lost", "kept")]
    run = Run(date=part.table[:10], figures=figures)
    if not all(_holds(term, run, earlier) for term in columns):
        lossy, others = Share(0, lossy.whole), Share(0, others.whole)
    version = dict(pair.split("=") for pair in row["name"].split(", ")).get("version", "")
    return Answer(
        met=lossy,
        others=others,
        medians=figures,
        versions=(version,) if version else (),
        refuted="kept" in part.terms and others.part < others.whole and _lost_in_others(row),
        some=part.some,
    )


def cell_of(part: Part) -> dict[str, Any]:
    """The row of a published table that a part names."""
    row = cell_named(pd.read_csv(RESULTS / part.table / "tables/cells.csv"), part.cell or "")
    if row is None:
        raise ValueError(f"{part.table} has no cell {part.cell!r}")
    cell: dict[str, Any] = row.to_dict()
    if "conclusive" not in cell:  # the first tables did not count the others
        lossy, none = cell["verdicts.loss"], cell["verdicts.none"]
        cell |= {"conclusive": lossy + none, "conclusive_lossy": lossy}
        cell |= {"inconclusive": cell["runs"] - lossy - none, "inconclusive_lossy": 0}
    return cell


def rows_of(part: Part) -> list[Run]:
    """The rows of a published table that a part names, each as a run."""
    table = pd.read_csv(RESULTS / part.table / "tables" / part.file)
    for column, value in part.where.items():
        table = table[table[column] == value]
    return [
        Run(
            date=part.table[:10],
            eligible=bool(row["eligible"]),
            figures={
                name: float(value)
                for name, value in row.items()
                if isinstance(value, int | float) and value == value
            },
        )
        for row in table.to_dict("records")
    ]


def _lost_in_others(row: Mapping[str, Any]) -> bool:
    return int(row.get("inconclusive_lossy", 0)) > 0


def verdict(claim: Claim, answers: Sequence[Answer]) -> str:
    """What the answers make of a claim. Nothing that is not known makes it hold."""
    if not claim.parts:
        return CANNOT if claim.cannot else OPEN
    asked = [each for part, each in zip(claim.parts, answers, strict=True) if not part.limit]
    if any(each.state is False and not each.some for each in asked):
        return FALSE
    if any(each.state is None for each in answers):
        return OPEN
    if any(each.state is False for each in asked):
        return NOT_SEEN
    return LIMITED if claim.limits or len(asked) < len(answers) else HOLDS


def claims() -> list[Claim]:
    """All claims, in the order of the file."""
    rows = tomllib.loads(CLAIMS.read_text(encoding="utf-8"))["claims"]
    return [Claim.model_validate(row) for row in rows]


def seen() -> dict[str, list[Run]]:
    """The runs that are kept, by command."""
    if not SEEN.exists():
        return {}
    return {
        command: [Run.model_validate(run) for run in runs]
        for command, runs in orjson.loads(SEEN.read_bytes()).items()
    }


def keep(runs: Mapping[str, Sequence[Run]]) -> None:
    """Write the runs of the commands that claims have, and the page."""
    known = {" ".join(part.command) for claim in claims() for part in claim.parts if part.plan}
    kept = {
        command: [run.model_dump(exclude_defaults=True) for run in each]
        for command, each in sorted(runs.items())
        if command in known
    }
    lines = (orjson.dumps({command: each}).decode()[1:-1] for command, each in kept.items())
    replace_file(SEEN, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
    PAGE.write_text(page(), encoding="utf-8")


def add(command: str, run: Run) -> None:
    """Keep one more run, also while another process does."""
    with CLAIMS.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        now = seen()
        keep({**now, command: [*now.get(command, ()), run]})


def answers_of(claim: Claim, runs: Mapping[str, Sequence[Run]]) -> list[Answer]:
    """The answers of all parts; a part may refer to those before it."""
    named: dict[str, Answer] = {}
    found = []
    for part in claim.parts:
        found.append(answer(part, runs.get(" ".join(part.command), ()), named))
        named[part.name] = found[-1]
    return found


def run_once(part: Part, number: int = 0) -> Run:
    """One run of a part's plan; all but the first have another seed than the plan."""
    seed = ["--seed", str(number)] if number else []
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    with tempfile.TemporaryDirectory() as scratch:
        out, state = Path(scratch, "runs"), Path(scratch, "state")
        if part.logs:  # so that only the cluster of this run is removed
            os.environ["ACKLOSS_STATE"] = str(state)
        try:
            result = result_of([*part.command, *seed], out)
            if "error" in result:
                return Run(date=today, reason=result["error"]["what"])
            replicas = logs_of(result["run_id"]) if part.logs else {}
            return run_of(out / result["run_id"], today, replicas)
        finally:
            if part.logs:
                clean = [sys.executable, "-m", "ackloss", "clean", "--kept", "--quiet"]
                subprocess.run(clean, cwd=ROOT, check=True, capture_output=True)
                del os.environ["ACKLOSS_STATE"]


def run_of(folder: Path, day: str, more: Mapping[str, float] = {}) -> Run:
    """A run, or a cell, by its folder."""
    result = orjson.loads((folder / "result.json").read_bytes())
    cells = [each["name"] for each in result.get("cells", ())]
    return Run(
        date=day,
        version=str(orjson.loads((folder / "plan.json").read_bytes())["target"]["version"] or ""),
        verdict=result["verdict"],
        reason=result["reason"],
        eligible=bool(result.get("eligible")) or bool(cells),
        doubts=tuple(result["doubts"]),
        figures={
            **_figures(result),
            **_smallest_isr(folder),
            **_smallest_isr_of_lost(folder, result),
            **more,
        },
        cells={name: run_of(folder / "cells" / name, day) for name in cells},
    )


def _asked(plan: Path, changes: Sequence[str], *, force: bool) -> dict[str, Any]:
    """A plan with today's defaults, but for its seed and who set what."""
    document = Session(force=force).resolve(plan, changes).plan.document()
    return {**document, "seed": 0, "yours": None}


def _name(plan: str) -> str:
    text = find(PLANS, Path(plan)).read_text(encoding="utf-8")
    return str(tomllib.loads(text).get("name", ""))


def command_of(folder: Path) -> str:
    """The command of claims that this is a run of. Raises ValueError if there is none."""
    plan = _asked(folder / "plan.json", (), force=True)
    for claim in claims():
        for part in claim.parts:
            if part.plan and not part.logs and _name(part.plan) == plan["name"]:
                asked = _asked(Path(part.plan), part.changes, force=part.force)
                if asked == plan:
                    return " ".join(part.command)
    raise ValueError(f"{folder}: no claim asks this plan, with these settings")


def _figures(result: Mapping[str, Any]) -> dict[str, float]:
    found: dict[str, Any] = {}
    for check in reversed(result.get("checks", ())):
        found |= check["counts"]
    found |= {f"availability.{name}": n for name, n in result.get("availability", {}).items()}
    for fault in result.get("faults", ()):
        found |= {
            f"{fault['id']}.{name}": fault[name] for name in ("from_s", "to_s") if name in fault
        }
        found |= {
            f"{fault['id']}.{name}": fault.get(name) for name in ("ops_begun", "ops_acknowledged")
        }
    for outcome, errors in result.get("errors", {}).items():
        found |= {f"errors.{outcome}.{name}": n for name, n in errors.items()}
    found |= {f"causes.{name}": n for name, n in result.get("causes", {}).items()}
    return {
        name: round(number, 6)
        for name, number in found.items()
        if isinstance(number, int | float) and not isinstance(number, bool)
    }


def _smallest_isr_of_lost(folder: Path, result: Mapping[str, Any]) -> dict[str, float]:
    """How many replicas were in sync, at least, when lost writes were acknowledged; nothing where
    that is not known of each of them."""
    if not result.get("causes") or result.get("unexplained"):
        return {}
    sizes = []
    for chain in orjson.loads((folder / "explanations.json").read_bytes())["chains"]:
        said = next(fact["text"] for fact in chain["facts"] if fact["kind"] == "acknowledged")
        isrs = re.findall(r"{([^}]+)}(?: for ([\d,]+))?", said)
        if sum(int(n.replace(",", "") or chain["writes"]) for _, n in isrs) < chain["writes"]:
            return {}
        sizes += [len(isr.split(", ")) for isr, _ in isrs]
    return {"lost.smallest_isr": min(sizes)}


def _smallest_isr(folder: Path) -> dict[str, float]:
    """The smallest in-sync set that a node reported, and how many in it there were at most."""
    import pyarrow.parquet as pq

    sizes = [
        len(members)
        for file in (folder / "observations").glob("*.parquet")
        if "isr" in pq.read_schema(file).names
        for members in pq.read_table(file, columns=["isr"]).column("isr").to_pylist()
        if members is not None
    ]
    return {"isr.smallest": min(sizes), "isr.largest": max(sizes)} if sizes else {}


def logs_of(run_id: str) -> dict[str, float]:
    """How many replicas the partitions of a kept cluster have in all, and how many of them have
    another log than the first one: the bytes of the segments are compared."""
    listed = ["docker", "ps", "--format", "{{.Names}}", "--filter", f"label=ackloss.run={run_id}"]
    names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
    by_partition: dict[str, list[str]] = {}
    for name in names:
        if re.search(r"-b\d+$", name):
            each = "for p in [!_]*-[0-9]*/; do echo $p $(cat $p*.log | sha256sum); done"
            done = ["docker", "exec", name, "sh", "-c", f"cd {NODE_DATA}/{STORED} && {each}"]
            output = subprocess.run(done, capture_output=True, text=True, check=True).stdout
            for line in output.splitlines():
                partition, digest, _ = line.split()
                by_partition.setdefault(partition, []).append(digest)
    return {
        "logs.replicas": sum(map(len, by_partition.values())),
        "logs.differing": sum(len(set(each)) - 1 for each in by_partition.values()),
    }


def missing(runs: Mapping[str, Sequence[Run]], wanted: int, only: Sequence[str]) -> list[Part]:
    """What is to be run: of each command, in rounds, as many runs as conclusive ones are missing.
    One that was inconclusive three times as often as that is left alone."""
    parts = {
        " ".join(part.command): part
        for claim in claims()
        if not only or claim.id in only
        for part in claim.parts
        if part.plan
    }
    rounds = []
    for number, (command, part) in enumerate(parts.items()):
        done = runs.get(command, ())
        conclusive = sum(_counts(part, run) for run in done)
        for n in range(conclusive, min(wanted, conclusive + 3 * wanted - len(done))):
            rounds.append((n, number, part))
    return [part for _, _, part in sorted(rounds, key=lambda each: each[:2])]


COLUMNS: Final = "| | claim | source | asked, measured | verdict |\n|---|---|---|---|---|"
HEAD: Final = """# What five documents claim

Of {count} testable claims {holds} hold, {limited} hold with limits, {false} do not hold or were not
seen, {open} have no answer yet, {cannot} cannot be tested here. They are, in our words, those of
"Jepsen: Kafka" (*Aphyr*, 2013), *Confluent*'s "ZooKeeper and replication", Chinese *slides* and a
Russian article on *Habr* about KRaft, and chapter 4.7 of Kafka's *docs*. Made by `make claims` from
[claims.json](claims.json) and [published campaigns](results/README.md); plans and expectations:
[claims.toml](../../scripts/claims.toml).

"k of n": of n conclusive runs k were as expected, with the 95 % interval (of 1 of 1 always at
least 2 %, and left out), or the bounds over all runs where the outcome chose which count. Then
medians of the figures. *Limit*: where the claim ends. Plans without a version ran on Kafka 4.4.0.
"""
USUAL: Final = "4.4.0"
"""The version that the page does not name."""


def page() -> str:
    """The whole page."""
    runs = seen()
    rows = [(claim, answers_of(claim, runs)) for claim in claims()]
    found = [verdict(claim, answers) for claim, answers in rows]
    text = HEAD.format(
        count=len(rows),
        holds=found.count(HOLDS),
        limited=found.count(LIMITED),
        false=found.count(FALSE) + found.count(NOT_SEEN),
        open=found.count(OPEN),
        cannot=found.count(CANNOT),
    )
    for letter, group in GROUPS.items():
        text += f"\n## {letter}: {group}\n\n{COLUMNS}\n"
        for (claim, answers), words in zip(rows, found, strict=True):
            if claim.id.startswith(letter):
                measured = "<br>".join(
                    _line(*each) for each in zip(claim.parts, answers, strict=True)
                )
                cells = (
                    claim.id,
                    claim.claim,
                    claim.source,
                    measured or claim.cannot,
                    _verdict(claim, words),
                )
                text += f"| {' | '.join(cells)} |\n"
        text += PICTURE if letter == "A" else ""
    return text


def _verdict(claim: Claim, words: str) -> str:
    return f"{words}: {claim.limits}" if words in (LIMITED, FALSE) and claim.limits else words


def _line(part: Part, each: Answer) -> str:
    """What is asked of which plan and version, and the answer."""
    where = part.table[11:] if part.table else f"`{part.plan}`"
    cell = part.cell if part.cell and not part.table else ""
    versions = [version for version in each.versions if version != USUAL]
    words = [where, cell, part.name, *map(str, part.where.values()), *versions]
    figures = ", ".join(
        f"{each.medians[name]:,.4g}" for name in part.fields if name in each.medians
    )
    limit = "*Limit*: " if part.limit else ""
    asked = " ".join(word for word in words if word)
    found = each.words.removesuffix(" (≥ 2 %)") if each.met.whole == 1 else each.words
    return f"{limit}{asked}: {part.expect}: {found}{f'; {figures}' if figures else ''}"


def main() -> int:
    """Run what is missing; the page is written after each run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="runs of each command")
    parser.add_argument("--only", nargs="*", default=[], metavar="CLAIM", help="these claims")
    parser.add_argument("--hours", type=float, default=24.0, help="begin no run after this time")
    parser.add_argument("--at-most", type=int, metavar="N", help="begin no more runs than this")
    parser.add_argument("--add", nargs="*", default=[], type=Path, metavar="RUN")
    parser.add_argument("--page", action="store_true", help="only write the page again")
    parser.add_argument("--check", action="store_true", help="only compare the page with the data")
    given = parser.parse_args()
    known = [claim.id for claim in claims()]
    if unknown := [name for name in given.only if name not in known]:
        parser.error(f"there is no claim {unknown[0]}; known: {', '.join(known)}")
    if given.check:
        return int(PAGE.read_text(encoding="utf-8") != page())
    for folder in given.add:
        day = f"{folder.name[:4]}-{folder.name[4:6]}-{folder.name[6:8]}"
        add(command_of(folder), run_of(folder, day))
    until = time.monotonic() + 3600 * given.hours
    for part in (
        [] if given.page or given.add else missing(seen(), given.runs, given.only)[: given.at_most]
    ):
        if time.monotonic() > until:
            break
        command = " ".join(part.command)
        run = run_once(part, len(seen().get(command, ())))
        add(command, run)
        print(run.verdict or "no result", command, "-", run.reason, flush=True)
    keep(seen())
    return 0


if __name__ == "__main__":
    sys.exit(main())
