"""What others script against, frozen: each test compares what ackloss does now with a file in
`stored/`, one for each kind of contract.

`pytest tests/contracts --freeze` writes the files again. A change in one is a change of a contract:
it belongs in the commit that makes it, with the reason.
"""

from __future__ import annotations

import difflib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import ackloss
from tests.fixtures import command_line
from tests.fixtures.memory_plans import LOSES

STORED: Final = Path(__file__).parent / "stored"
HISTORIES: Final = Path(__file__).parents[1] / "histories" / "runs"

Frozen = Callable[[str, str], None]
Document = Mapping[str, Any]

PLANS: Final[Mapping[str, Mapping[str, object]]] = {
    "memory/log": LOSES,
    "memory/cells": {},
    "memory/group": {},
    "memory/transactions": {},
    "memory/set": {},
    "memory/stale-reads": {},
}
"""Plans whose runs are frozen, each with its changes: one for each model, one that is invalid."""

CAMPAIGN: Final = """
schema = 1
name = "frozen"
plan = "memory/log"
repetitions = 1
[axes.defect.choices.none.set]
"workload.duration_s" = 4
faults = []
[axes.defect.choices.early.set]
"workload.duration_s" = 4
faults = [{ id = "kill", at_s = 1, nemesis = "kill", nodes = "leader(0)", for_s = 1 }]
"target.defects" = ["acknowledge-before-replication"]
[policy]
fail_on = "never"
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--freeze", action="store_true", help="Write tests/contracts/stored again.")


@pytest.fixture
def frozen(request: pytest.FixtureRequest) -> Frozen:
    """Compares a text with the stored one of this name, or stores it."""

    def compare(name: str, text: str) -> None:
        file = STORED / name
        if request.config.getoption("--freeze", default=False):
            file.write_text(text, encoding="utf-8")
        before = file.read_text(encoding="utf-8").splitlines()
        changes = difflib.unified_diff(before, text.splitlines(), "stored", "now", lineterm="", n=1)
        assert not (lines := [*changes]), "\n".join(lines[:80])

    return compare


def as_text(document: object) -> str:
    """A document as a file that can be read and compared line by line."""
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False)
    flat = re.compile(r"\[\n\s+([^\[\]{}]*?)\n\s*\]")  # a short list is one line
    return flat.sub(lambda found: f"[{' '.join(found[1].split())}]", text) + "\n"


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Judged runs, by name: of `PLANS`, and those that are stored."""
    out = tmp_path_factory.mktemp("runs")
    made = {name: ackloss.run(name, set=set, out=out).path for name, set in PLANS.items()}
    for stored in sorted(HISTORIES.iterdir()):
        if stored.is_dir():
            made[stored.name] = Path(shutil.copytree(stored, out / stored.name))
    ackloss.check([made[path.name] for path in HISTORIES.iterdir() if path.is_dir()])
    return made


@pytest.fixture(scope="session")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign of two cells, run twice each."""
    folder = tmp_path_factory.mktemp("campaign")
    (folder / "frozen.toml").write_text(CAMPAIGN, encoding="utf-8")
    done = command_line.ackloss("campaign", "run", folder / "frozen.toml", "--out", folder / "c")
    assert done.exit_code == 0, done.output
    return folder / "c"


def normalised(text: str, *names: str) -> str:
    """A text without what differs from run to run (ids, instants, times that something took, the
    commit of a clean working tree), and without the shelf of a page of the documentation."""
    for name in names:
        text = text.replace(name, "NAME")
    text = re.sub(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b", "RUN-ID", text)
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?( ?UTC|Z|\+00:00)?", "WHEN", text)
    text = re.sub(r"\d{1,2} \w+ \d{4}, \d\d:\d\d:\d\d UTC", "WHEN", text)
    text = re.sub(r"(\w+ time\n)[\d.,]+ \w+$", r"\1SOME TIME", text, flags=re.MULTILINE)
    text = re.sub(r"docs/(start|how-to|reference|evidence)/", "docs/", text)
    text = re.sub(r"^, commit\n[0-9a-f]{12}\n", "", text, flags=re.MULTILINE)
    return re.sub(r"^commit\n[0-9a-f]{40}( .*)?\n", "", text, flags=re.MULTILINE)
