"""`ls` and `show` of run folders that are damaged, edited, or written by another program."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from harness.history.documents import RunProcess
from tests.fixtures.command_line import ackloss

RESULT: dict[str, Any] = {
    "schema": 1,
    "run_id": "r1",
    "verdict": "unknown",
    "reason": "x",
    "counts": {"acknowledged": 10, "lost": 0},
    "faults": [],
    "seed": 1,
}
FAULT = {"id": "cut", "nemesis": "partition", "nodes": ["b1"], "proven": True}


def run_folder(folder: Path, **documents: object) -> Path:
    """A run folder; a document that is bytes is written as it is, and one that is `None` is not."""
    folder.mkdir(parents=True)
    least = {"run": {"schema": 1, "state": "done"}, "plan": {"schema": 1, "name": "fine"}}
    for name, document in {**least, **documents}.items():
        if document is not None:
            raw = document if isinstance(document, bytes) else json.dumps(document).encode()
            (folder / f"{name}.json").write_bytes(raw)
    return folder


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in RESULT.items() if name not in names}


LACKS = "holds something that this ackloss does not write: it lacks"
UNUSABLE: list[tuple[dict[str, object], str]] = [
    ({"result": b'{"schema": 1,'}, "result.json: cannot be read: "),
    ({"result": without("verdict")}, f"result.json: {LACKS} verdict"),
    ({"result": {**RESULT, "verdict": None}}, f"result.json: {LACKS} verdict"),
    ({"result": {**RESULT, "verdict": "weird"}}, "result.json: verdict is 'weird': no verdict"),
    ({"result": {**RESULT, "counts": None}}, f"result.json: {LACKS} counts"),
    ({"result": {**RESULT, "counts": {"lost": 0}}}, f"result.json: {LACKS} counts.acknowledged"),
    (
        {"result": {**RESULT, "counts": {"acknowledged": 10, "lost": 2**63}}},
        "result.json: counts.lost is 9223372036854775808: expected less than 9223372036854775808",
    ),
    ({"result": {**RESULT, "seed": 2**63}}, "result.json: seed is 9223372036854775808: expected"),
    ({"result": {**RESULT, "faults": [{"id": "a"}]}}, f"result.json: {LACKS} faults.0.proven"),
    ({"result": {**RESULT, "faults": 7}}, "result.json: faults is 7: expected a list"),
    ({"result": {**RESULT, "errors": {"failed": None}}}, "result.json: errors.failed is None"),
    ({"run": {"schema": 1, "state": 7}}, "run.json: state is 7: expected text"),
]


@pytest.mark.parametrize(("documents", "words"), UNUSABLE)
def test_a_document_that_cannot_be_used_is_refused_with_its_place(
    tmp_path: Path, documents: dict[str, object], words: str
) -> None:
    folder = run_folder(tmp_path / "r1", **documents)
    done = ackloss("show", folder)
    if "result" in documents:
        assert (done.exit_code, done.stdout) == (4, "")
    assert done.exit_code == 4
    assert f"ackloss: {tmp_path}/r1/{words}" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("documents", "words"),
    [*UNUSABLE[::4], ({"plan": None}, "plan.json: this run has no such document")],
)
def test_a_run_that_cannot_be_read_has_a_row_that_says_so(
    tmp_path: Path, documents: dict[str, object], words: str
) -> None:
    run_folder(tmp_path / "r1", **documents)
    run_folder(tmp_path / "r2", result=RESULT)
    done = ackloss("ls", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    _, bad, good = done.stdout.splitlines()
    assert bad.startswith(" r1")
    assert words in bad
    assert good.split() == ["r2", "fine", "done", "unknown", "10"]
    listed = json.loads(ackloss("ls", "--out", tmp_path, "--json").stdout)["runs"]
    assert listed[0]["state"].startswith(words)
    assert (listed[0]["verdict"], listed[1]["verdict"]) == (None, "unknown")


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (without("reason"), "UNKNOWN: no reason is recorded\n"),
        (without("seed", "faults"), "UNKNOWN: x\n"),
        ({**RESULT, "errors": None, "availability": None}, "UNKNOWN: x\n"),
        ({**RESULT, "faults": [{**FAULT, "ops_begun": None}]}, "(partition) on b1: proven\n"),
        ({**RESULT, "faults": [{**FAULT, "ops_begun": 3}]}, "on b1: proven, 3 writes begun\n"),
        ({**RESULT, "faults": [{"id": "a", "proven": False}]}, "nemesis): never in force\n"),
        ({**RESULT, "faults": [{**FAULT, "proven": False, "from_s": 1}]}, "on b1: NOT PROVEN"),
        (
            {**RESULT, "faults": [FAULT], "leaders": [{"fault": "cut", "met": False}]},
            "on b1: proven, met the leader of: none",
        ),
        (
            {
                **RESULT,
                "faults": [{**FAULT, "proven": False, "control": True}],
                "leaders": [{"fault": "cut", "met": True, "partitions": [0, 2]}],
                "cautions": ["no cut met a leader"],
            },
            "on b1: control, met the leader of: p0, p2\n  caution: no cut met a leader\n",
        ),
    ],
)
def test_what_is_absent_or_null_is_not_recorded(
    tmp_path: Path, result: dict[str, Any], words: str
) -> None:
    done = ackloss("show", run_folder(tmp_path / "r1", result=result))
    assert done.exit_code == 0, done.output
    assert words in done.stdout


def test_a_run_whose_state_is_not_recorded_is_shown_and_listed(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "r1", run={"schema": 1})
    assert "r1: its state is not recorded, not checked yet" in ackloss("show", folder).stdout
    assert ackloss("ls", "--out", tmp_path).stdout.splitlines()[1].split() == ["r1", "fine"]


def test_losses_are_listed_only_of_checks_that_look_for_them(tmp_path: Path) -> None:
    checked = {"name": "register", "verdict": "valid", "counts": {"acknowledged": 10}}
    result = {**RESULT, "counts": {"acknowledged": 10}, "model": "register", "checks": [checked]}
    run_folder(tmp_path / "r1", result=result)
    (run,) = json.loads(ackloss("ls", "--out", tmp_path, "--json").stdout)["runs"]
    assert (run["lost"], run["acknowledged"]) == (None, 10)


def test_a_run_whose_process_is_gone_is_killed_and_one_whose_process_lives_is_not(
    tmp_path: Path,
) -> None:
    own = asdict(RunProcess.own())
    processes = {
        "gone": {**own, "pid": 2**22 + 1},
        "another": {**own, "started_s": own["started_s"] - 60},  # the number was given again
        "here": own,
        "elsewhere": {**own, "host": "elsewhere", "pid": 2**22 + 1},
    }
    for name, process in processes.items():
        run_folder(tmp_path / name, run={"schema": 1, "state": "running", "process": process})
    runs = json.loads(ackloss("ls", tmp_path, "--json").stdout)["runs"]
    states = {run["run_id"]: run["state"] for run in runs}
    assert states == {
        "another": "killed",
        "elsewhere": "running",
        "gone": "killed",
        "here": "running",
    }
    assert "gone: killed, not checked yet" in ackloss("show", tmp_path / "gone").stdout
    assert json.loads(ackloss("show", tmp_path / "gone", "--json").stdout)["state"] == "killed"


def test_ls_takes_any_folders_of_runs_and_show_several_runs(tmp_path: Path) -> None:
    one = run_folder(tmp_path / "here" / "r1", result=RESULT)
    two = run_folder(tmp_path / "campaign" / "runs" / "r2", result={**RESULT, "run_id": "r2"})
    listed = ackloss("ls", tmp_path / "here", tmp_path / "campaign").stdout
    assert [line.split()[0] for line in listed.splitlines()[1:]] == ["r1", "r2"]
    assert ackloss("ls", tmp_path / "not-there").exit_code == 2
    shown = ackloss("show", one, two).stdout
    assert shown.count("UNKNOWN: x") == 2
    both = json.loads(ackloss("show", one, two, "--json").stdout)
    assert [each["run_id"] for each in both["results"]] == ["r1", "r2"]
    assert json.loads(ackloss("show", one, "--json").stdout)["run_id"] == "r1"
