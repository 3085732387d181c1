"""`ackloss mine` on real Kafka: unsafe files are INVALID, safe ones VALID, on one page each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.ackloss.cli.test_mine import SAFE, UNSAFE, files
from tests.fixtures.command_line import ackloss
from tests.reports.test_page import Parsed

pytestmark = [
    pytest.mark.full,
    pytest.mark.e2e,
    pytest.mark.docker,
    pytest.mark.usefixtures("own_state"),
]


@pytest.mark.parametrize(("texts", "code"), [(UNSAFE, 1), (SAFE, 0)], ids=["unsafe", "safe"])
def test_the_leader_is_isolated(tmp_path: Path, texts: dict[str, str], code: int) -> None:
    folder = tmp_path / "mine"
    # One of two runs is enough for "valid": beside other tests a load may starve, and be unknown.
    runs = 1 if code else 2
    one = ("--only", "faults=isolated", "--only", "settings=yours,safe", "--repetitions", runs)
    done = ackloss("mine", *files(tmp_path, texts), *one, "--out", folder, "--json")
    assert done.exit_code == code, done.output
    answer = json.loads(done.stdout)["answer"]
    assert answer["verdict"] == ("invalid" if code else "valid")
    (fault,) = answer["faults"]
    yours, safe = fault["tested"]
    assert (yours["lost"] > 0) is bool(code)
    assert (safe["verdict"], safe["lost"]) == ("valid", 0)
    assert safe["acknowledged"] > 0
    page = Parsed((folder / "report.html").read_text(encoding="utf-8"))
    assert answer["headline"] in page.words[:600]
    for run in (yours["page"], safe["page"]):
        shared, _, cell = run.partition(".")
        assert (folder / "runs" / shared / "cells" / cell / "report.html").is_file()
