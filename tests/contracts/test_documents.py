"""The files of runs and campaigns: which there are, the keys of each document, what is judged
and shown of the same runs, and how commands end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import orjson
import pyarrow.parquet as pq
import pytest

from ackloss import load_run
from tests.contracts.conftest import PLANS, Frozen, as_text, normalised
from tests.fixtures.command_line import ackloss, ackloss_json

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

DOCUMENTS: Final = ("run.json", "result.json", "manifest.json", "faults.jsonl", "plan.json")
LATER_PART: Final = re.compile(r"part-(?!00000).*")
PAGES: Final = ("memory/log", "memory/cells", "memory/group")


def keys(document: object, at: str = "") -> Iterator[str]:
    """Every place in a document; all items of a list are one."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield (place := f"{at}.{key}" if at else str(key))
            yield from keys(value, place)
    elif isinstance(document, list):
        for item in document:
            yield from keys(item, f"{at}[]")


def keys_of(*files: Path) -> list[str]:
    """Those of documents of one kind; a journal is a list of them."""
    documents: list[object] = []
    for file in files:
        lines = file.read_bytes().splitlines() if file.suffix == ".jsonl" else [file.read_bytes()]
        documents += [orjson.loads(line) for line in lines]
    return sorted({key for document in documents for key in keys(document)})


def test_keys_of_a_run(frozen: Frozen, folders: Mapping[str, Path]) -> None:
    """Each with the runs that have it, unless all have."""
    found: dict[str, dict[str, object]] = {}
    for document in DOCUMENTS:
        of_runs = {name: set(keys_of(*folders[name].rglob(document))) for name in PLANS}
        found[document] = {
            key: "all" if len(having) == len(PLANS) else having
            for key in sorted(set().union(*of_runs.values()))
            if (having := [name for name, has in of_runs.items() if key in has])
        }
    frozen("run-keys.json", as_text(found))


def test_files_of_a_run(frozen: Frozen, folders: Mapping[str, Path]) -> None:
    """Each with its columns and their types, if it is a table."""
    listed: dict[str, dict[str, list[str]]] = {}
    for name, folder in ((name, folders[name]) for name in PLANS):
        listed[name] = {
            str(file.relative_to(folder)): [
                f"{each.name} {each.type}" for each in pq.read_schema(file)
            ]
            if file.suffix == ".parquet"
            else []
            for file in sorted(folder.rglob("*"))
            if file.is_file() and not LATER_PART.fullmatch(file.name)
        }
    frozen("run-files.json", as_text(listed))


def test_results(frozen: Frozen, folders: Mapping[str, Path]) -> None:
    """What the same runs are judged to be, but for what the judging took."""
    results = {}
    for name, folder in folders.items():
        result = json.loads((folder / "result.json").read_bytes())
        results[name] = {
            key: value for key, value in result.items() if key not in ("timings", "plan")
        }
    frozen("results.json", normalised(as_text(results)))


def test_findings(frozen: Frozen, folders: Mapping[str, Path]) -> None:
    """How many rows of each kind the tables of findings have."""
    rows = {}
    for name, folder in folders.items():
        for file in sorted(folder.rglob("findings/*.parquet")):
            table = pq.read_table(file, columns=["kind"])
            counted = table.group_by("kind").aggregate([("kind", "count")]).to_pylist()
            place = f"{name}: {file.relative_to(folder)}"
            rows[place] = {str(each["kind"]): each["kind_count"] for each in counted}
    frozen("findings.json", as_text(rows))


class _Text(HTMLParser):
    """The text of a page, a line for each piece, without scripts, styles and pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self._hidden += tag in ("script", "style", "svg")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style", "svg")

    def handle_data(self, data: str) -> None:
        if not self._hidden and (words := " ".join(data.split())):
            self.lines.append(words)


def text_of(page: Path) -> str:
    parser = _Text()
    parser.feed(page.read_text(encoding="utf-8"))
    return "\n".join(parser.lines)


@pytest.mark.parametrize("name", PAGES)
def test_page_of_a_run(frozen: Frozen, folders: Mapping[str, Path], name: str) -> None:
    page = load_run(folders[name]).report()
    stored = f"page-{name.replace('/', '-')}.txt"
    frozen(stored, normalised(text_of(page), str(folders[name].parent)) + "\n")


def test_campaign(frozen: Frozen, campaign: Path) -> None:
    """The files of a campaign, the keys of its documents, and what its cells came to."""
    files = sorted({normalised(str(each.relative_to(campaign))) for each in campaign.rglob("*")})
    document = json.loads((campaign / "campaign.json").read_bytes())
    shares = [
        {key: cell[key] for key in ("key", "runs", "verdicts", "conclusive")}
        for cell in document["cells"]
    ]
    status = ackloss_json("campaign", "status", campaign)
    frozen(
        "campaign.json",
        as_text(
            {
                "files": [file for file in files if "/RUN-ID/" not in f"/{file}/"],
                "campaign.json": sorted({*keys(document)} - {"versions.commit"}),  # of a clean tree
                "campaign.jsonl": keys_of(*campaign.glob("*.jsonl")),
                "status": sorted({*keys(status)}),
                "cells": shares,
            }
        ),
    )
    frozen("page-campaign.txt", normalised(text_of(campaign / "report.html"), str(campaign)) + "\n")


def test_exit_codes(frozen: Frozen, folders: Mapping[str, Path], tmp_path: Path) -> None:
    """Of the documented cases, with the code of the error where there is one."""
    broken, history = tmp_path / "broken.toml", tmp_path / "history.jsonl"
    broken.write_text("schema = [", encoding="utf-8")
    history.write_text('{"type": "invoke"}\n', encoding="utf-8")
    (tmp_path / "no-run").mkdir()
    lossy, fine, unknown = (
        str(folders[name])
        for name in ("memory/log", "memory/set", "idempotent-producer-duplicates")
    )
    short = ("--set", "workload.duration_s=1", "--set", "faults=[]", "--out", str(tmp_path / "out"))
    cases: dict[str, tuple[str, ...]] = {
        "check a valid run": ("check", fine),
        "check a valid and an unknown run": ("check", fine, unknown),
        "check an invalid run and a folder that is none": (
            "check",
            lossy,
            str(tmp_path / "no-run"),
        ),
        "check with an unknown checker": ("check", "--history", str(history), "--checker", "none"),
        "check nothing": ("check",),
        "run a plan that is not there": ("run", "no-such-plan"),
        "run a plan that is no TOML": ("run", str(broken)),
        "run with a bad change": ("run", "memory/log", "--set", "workload.name=1"),
        "run with --set that is none": ("run", "memory/log", "--set", "workload.name"),
        "run with an unknown option": ("run", "memory/log", "--no-such-option"),
        "run as expected": ("run", "memory/log", "--as-expected", *short),
        "run as expected without expect": ("run", "memory/register", "--as-expected"),
        "run and keep a simulated cluster": ("run", "memory/log", "--keep-cluster"),
        "dry run": ("run", "kafka-safe", "--dry-run"),
        "validate a plan": ("plan", "validate", "kafka-safe"),
        "show a run": ("show", lossy),
        "show a folder that is no run": ("show", str(tmp_path / "no-run")),
        "list": ("list",),
        "list what is unknown": ("list", "no-such-section"),
        "compare a run with a folder that is none": ("compare", lossy, str(tmp_path / "no-run")),
        "plan a campaign": ("campaign", "plan", "always-valid"),
        "plan a campaign that is not there": ("campaign", "plan", "no-such-campaign"),
        "resume a folder that is no campaign": ("campaign", "resume", str(tmp_path / "no-run")),
        "query a lake that is not there": ("lake", "query", "select 1", "--lake", str(tmp_path)),
        "new over a file": ("new", str(broken)),
        "an unknown verb": ("no-such-verb",),
    }
    frozen("exit-codes.json", as_text({case: _ended(*words) for case, words in cases.items()}))


def _ended(*words: str) -> list[object]:
    done = ackloss(*words, "--json")
    document = json.loads(done.stdout) if done.stdout else {}
    error = document.get("error", {})
    return [done.exit_code, *([error["code"]] if error else [])]
