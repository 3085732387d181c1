"""Mutation testing: runs mutmut on the checkers and statistics, and writes the table of
docs/evidence/mutants.md.

`scripts/mutants.py` runs every mutant without a result (so it continues where it stopped),
`scripts/mutants.py --sample N` runs N drawn at random (all of them take hours),
`scripts/mutants.py NAME...` only those whose names match (`checkers.loss.findings*`), and
`scripts/mutants.py --table` runs none. mutmut keeps its results in mutants/, a copy of the tree:
mutants of a changed function run again, and survivors run again when a test has changed. To start
over, remove the folder.

Mutants that no test can kill, because they change nothing observable, are listed with the reason in
tests/mutants.toml. The exit code is 1 when any other mutant survived or was not tried.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from mutmut.mutation.diff_apply import get_diff_for_mutant
from mutmut.stats import status_by_exit_code

ROOT = Path(__file__).parents[1]
FOLDER = Path("mutants")
EQUIVALENT = Path("tests/mutants.toml")
PAGE = Path("docs/evidence/mutants.md")
BEGIN, END = "<!-- mutants: written by `make mutants` -->", "<!-- end of mutants -->"

KILLED, TIMED_OUT, SURVIVED, UNTRIED = "killed", "timed out", "survived", "not tried"
"""`not tried`: not yet, or not called by any of the tests that run here."""

_OUTCOMES = {"killed": KILLED, "timeout": TIMED_OUT, "survived": SURVIVED}

ENVIRONMENT = {"ACKLOSS_ORACLE_EXAMPLES": "200"}
"""The oracle's random histories take seconds; fewer of them kill nearly as many mutants."""


@dataclass(frozen=True)
class Reason:
    """Why mutants of one kind are equivalent: a line that contains `was` became one that matches
    `now`, in a module that matches `module`."""

    module: str
    was: str
    now: str
    why: str

    def covers(self, module: str, was: str, now: str) -> bool:
        return (
            fnmatch(module, self.module)
            and self.was in was
            and re.search(self.now, now) is not None
        )


@dataclass(frozen=True)
class Mutant:
    """One mutant and its outcome."""

    module: str
    name: str
    outcome: str

    @property
    def lines(self) -> tuple[str, str]:
        """The lines that it changes, before and after."""
        return _lines(self.name, self.module)


@cache
def _lines(name: str, module: str) -> tuple[str, str]:
    changed = [
        line
        for line in get_diff_for_mutant(name, path=module).splitlines()
        if line[:1] in ("-", "+") and not line.startswith(("---", "+++"))
    ]
    was, now = (" ".join(line[1:].strip() for line in changed if line[0] == sign) for sign in "-+")
    return was, now


def mutants() -> Iterator[Mutant]:
    """All mutants, module by module."""
    for path in sorted(FOLDER.rglob("*.py.meta")):
        module = str(path.relative_to(FOLDER)).removesuffix(".meta")
        for name, code in json.loads(path.read_bytes())["exit_code_by_key"].items():
            yield Mutant(module, name, _OUTCOMES.get(status_by_exit_code[code], UNTRIED))


def reasons() -> list[Reason]:
    """Why some mutants cannot be killed."""
    listed = tomllib.loads(EQUIVALENT.read_text())["equivalent"]
    return [
        Reason(each.get("module", "*"), each["was"], each["now"], each["why"]) for each in listed
    ]


def table() -> tuple[str, int, int]:
    """The page's generated part, how many mutants survived, and how many were not tried."""
    known = reasons()
    by_module: dict[str, Counter[str]] = {}
    by_reason: Counter[Reason] = Counter()
    left: list[Mutant] = []
    for each in mutants():
        reason = None
        if each.outcome == SURVIVED:
            reason = next((one for one in known if one.covers(each.module, *each.lines)), None)
        outcome = "equivalent" if reason else each.outcome
        by_module.setdefault(each.module, Counter())[outcome] += 1
        if reason:
            by_reason[reason] += 1
        elif outcome == SURVIVED:
            left.append(each)
    columns = (KILLED, TIMED_OUT, "equivalent", SURVIVED, UNTRIED)
    rows = ["| module | mutants | " + " | ".join(columns) + " |", "|---" + "|--:" * 6 + "|"]
    total: Counter[str] = Counter()
    for module, counts in by_module.items():
        total.update(counts)
        rows.append(_row(f"`{module}`", counts, columns))
    rows.append(_row("all", total, columns))
    equivalent = ["Equivalent, and why:", ""] + [
        f"- {number}: {reason.why} (`{_code(reason.was)}`)"
        for reason, number in by_reason.most_common()
    ]
    survived = ["Survived:", ""] + [
        f"- `{each.module}`: `{_code(each.lines[0])}` became `{_code(each.lines[1])}`"
        for each in left
    ]
    text = "\n".join(
        [
            *rows,
            "",
            *equivalent,
            "",
            *(survived if left else ["Of those that were tried, no other survived."]),
        ]
    )
    return text, total[SURVIVED], total[UNTRIED]


def _row(name: str, counts: Counter[str], columns: tuple[str, ...]) -> str:
    numbers = " | ".join(f"{counts[column]:,}" for column in columns)
    return f"| {name} | {counts.total():,} | {numbers} |"


def _code(line: str) -> str:
    return line.replace("`", "'")[:160]


def retry_survivors() -> None:
    """Forget the survivors when the tests have changed since."""
    digest = hashlib.sha256()
    for path in sorted(Path("tests").rglob("*.py")):
        digest.update(path.read_bytes())
    stamp = FOLDER / "tests.sha256"
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    for path in FOLDER.rglob("*.py.meta"):
        meta = json.loads(path.read_bytes())
        codes = meta["exit_code_by_key"]
        meta["exit_code_by_key"] = {
            name: code if status_by_exit_code[code] == "killed" else None
            for name, code in codes.items()
        }
        path.write_text(json.dumps(meta, indent=4))
    (FOLDER / "mutmut-stats.json").unlink(missing_ok=True)  # which tests call which functions
    FOLDER.mkdir(exist_ok=True)
    stamp.write_text(digest.hexdigest())


def sample(number: int) -> list[str]:
    """So many mutants drawn at random, the same ones until the code changes."""
    if not any(FOLDER.rglob("*.py.meta")):
        run(["checkers.judging.availability.*__mutmut_1"])  # makes all mutants, and runs one
    names = sorted(each.name for each in mutants())
    return random.Random(f"mutants/{number}").sample(names, min(number, len(names)))


def run(names: list[str]) -> int:
    """Run mutants by name, all without a result if none is named; mutmut's exit code."""
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", "2"]
    return subprocess.run(
        ["nice", "-n", "10", *command, *names], env={**os.environ, **ENVIRONMENT}, check=False
    ).returncode


def main(arguments: list[str]) -> int:
    os.chdir(ROOT)
    sampled = arguments[:1] == ["--sample"]
    if "--table" not in arguments:
        retry_survivors()
        if failed := run(sample(int(arguments[1])) if sampled else arguments):
            print("mutmut ended early; its output is above, its results are kept", file=sys.stderr)
            return failed
    text, survived, untried = table()
    left = survived if sampled else survived + untried
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    print(text)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
