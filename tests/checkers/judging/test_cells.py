"""What the cells of a run make of its verdict, and what is missing of it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from checkers.judging import one_run
from checkers.judging.availability import leaders_of_run
from checkers.judging.many_runs import _size_bytes
from checkers.judging.one_run import judge_run, stored_result
from checkers.judging.results import Judged
from checkers.loss import Found, Loss, Slice
from harness.errors import HistoryError
from harness.faults.journal import Journal
from harness.faults.records import NetRecord, Peer
from harness.history import OBSERVATIONS
from harness.history.documents import read_result, result_of
from harness.history.manifest import write_manifest
from harness.history.run_folder import RunDir
from harness.protocols import Run
from nemeses.network import bridge
from tests.fixtures.hand_made import write_rows
from tests.fixtures.memory_cells import CELLS, run_of_cells

pytestmark = pytest.mark.slow

VALID = {"cells.1.target.defects": [], "cells.2.target.defects": []}


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    return run_of_cells(tmp_path_factory.mktemp("valid"), VALID)


@pytest.fixture
def run(valid: RunDir, tmp_path: Path) -> RunDir:
    """A run without a loss, to be damaged."""
    return RunDir(Path(shutil.copytree(valid.path, tmp_path / "run")))


def judged_so(run: RunDir, patch: pytest.MonkeyPatch, *verdicts: str) -> dict[str, Any]:
    """The result of a run whose cells are judged so, in their order."""
    judged_folder = one_run._judged_folder
    given = dict(zip(CELLS, verdicts, strict=True))

    def judge(folder: RunDir, checks: Any) -> Judged:
        verdict = given[folder.path.name]
        document = {
            **judged_folder(folder, checks).document,
            "verdict": verdict,
            "doubts": ["unproven"] if verdict == "unknown" else [],
            "counter_examples": ["lost"] if verdict == "invalid" else [],
        }
        return Judged(document)

    patch.setattr(one_run, "_judged_folder", judge)
    return judge_run(run)


@pytest.mark.parametrize(
    ("verdicts", "verdict", "reason"),
    [
        (["valid"] * 4, "valid", "4 of 4 cells are valid"),
        (
            ["valid", "unknown", "valid", "valid"],
            "unknown",
            "1 of 4 cells is unknown: unclean; 3 of 4 cells are valid",
        ),
        (
            ["unknown", "invalid", "valid", "invalid"],
            "invalid",
            "2 of 4 cells are invalid: unclean, two; 1 of 4 cells is unknown: safe; "
            "1 of 4 cells is valid",
        ),
    ],
)
def test_a_run_is_as_bad_as_its_worst_cell(
    run: RunDir, verdicts: list[str], verdict: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = judged_so(run, monkeypatch, *verdicts)
    assert (document["verdict"], document["reason"]) == (verdict, reason)
    assert document["eligible"] is ("unknown" not in verdicts)
    assert document == run.read_json(run.result)


def test_what_is_whole_is_valid(run: RunDir) -> None:
    document = judge_run(run)
    assert (document["verdict"], document["complete"]) == ("valid", True)
    assert document["counts"]["attempted"] == sum(
        cell["counts"]["attempted"] for cell in document["cells"]
    )
    assert read_result(run).rates.loss is None, "a rate of a mixture says nothing"


@pytest.mark.parametrize("missing", ["folder", "history", "part"])
def test_a_cell_whose_files_are_missing_leaves_no_valid_run(run: RunDir, missing: str) -> None:
    cell = run.cell("early")
    path = {"folder": cell.path, "history": cell.history}.get(missing)
    if path is None:
        cell.parts(cell.history)[0].unlink()
    else:
        shutil.rmtree(path)
    document = judge_run(run)
    assert document["verdict"] == "unknown"
    assert not document["complete"]
    (unknown,) = (each for each in document["cells"] if each["verdict"] != "valid")
    assert unknown["name"] == "early"
    assert "early" in document["reason"]
    result_of(document)


def test_a_missing_cell_is_known_by_the_manifest_of_the_run_too(run: RunDir) -> None:
    shutil.rmtree(run.cell("two").path)
    document = judge_run(run)
    assert document["reason"].startswith("missing: cells/two/manifest.json; 1 of 4 cells is unkn")
    assert document["cells"][3]["reason"] == "missing: cells/two (it has no run.json)"


def test_a_cell_of_another_run_is_no_cell_of_this_one(run: RunDir, tmp_path: Path) -> None:
    other = run_of_cells(tmp_path / "other", {**VALID, "seed": 2})
    shutil.rmtree(run.cell("two").path)
    shutil.copytree(other.cell("two").path, run.cell("two").path)
    document = judge_run(run)
    assert document["verdict"] == "unknown"
    assert "not as the run wrote it: cells/two/manifest.json" in document["reason"]


def listing(run: RunDir, document: str, names: list[str]) -> None:
    """Let run.json or plan.json list these cells of the run."""
    path = run.path / document
    content = run.read_json(path)
    by_name = {each["name"]: each for each in content["cells"]}
    run.write_json(path, {**content, "cells": [by_name[name] for name in names]})
    write_manifest(run, run.run_id)


@pytest.mark.parametrize(
    ("document", "kept", "sentence"),
    [
        ("run.json", ["safe", "two"], "run.json lists safe, two"),
        ("run.json", [*CELLS, "safe"], "run.json lists"),
        ("plan.json", ["safe", "unclean"], "not of its plan: cells/early, cells/two"),
    ],
    ids=["not listed", "listed twice", "not planned"],
)
def test_the_cells_are_those_of_the_plan(
    run: RunDir,
    document: str,
    kept: list[str],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listing(run, document, kept)
    result = judged_so(run, monkeypatch, *["valid"] * 4)
    assert (result["verdict"], result["complete"]) == ("unknown", False)
    assert sentence in result["reason"]
    assert sorted(cell["name"] for cell in result["cells"]) == sorted(CELLS)


def test_a_loss_in_a_cell_that_is_not_listed_is_one(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing(run, "run.json", ["safe", "early", "two"])
    verdicts = ["valid", "invalid", "valid", "valid"]
    assert judged_so(run, monkeypatch, *verdicts)["verdict"] == "invalid"


def test_a_cell_that_cannot_be_judged_keeps_no_earlier_result(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither does a name that leads out of the run's folder get one."""
    judge_run(run)
    early, two = run.cell("early"), run.cell("two")
    early.findings.mkdir(exist_ok=True)
    (early.findings / "loss.parquet").write_bytes(b"of an earlier check")
    two.run.unlink()
    listing(run, "run.json", ["safe", "unclean", "early", "two"])
    content = run.read_json(run.run)
    content["cells"][3]["name"] = "../../run/cells/safe/../two"
    run.write_json(run.run, content)

    judged_folder = one_run._judged_folder

    def judge(folder: RunDir, checks: Any) -> Judged:
        if folder.path == early.path:
            raise HistoryError("cannot be read", file=str(folder.path))
        return judged_folder(folder, checks)

    monkeypatch.setattr(one_run, "_judged_folder", judge)
    document = judge_run(run)
    listed = {each["name"]: each for each in document["cells"]}
    for cell, words in ((early, "cannot be read"), (two, "missing: cells/two")):
        own, name = read_result(cell), cell.path.name
        assert (own.verdict, own.run_id) == ("unknown", f"{content['run_id']}.{name}")
        assert own.reason == listed[name]["reason"]
        assert words in str(own.reason)
        assert not own.eligible
    assert not list(early.findings.iterdir())


def test_a_cell_in_the_folder_of_another_is_none_of_it(run: RunDir) -> None:
    """Cells of one run share its id and its plan's name."""
    shutil.rmtree(run.cell("unclean").path)
    shutil.copytree(run.cell("safe").path, run.cell("unclean").path)
    write_manifest(run, run.run_id)
    result = judge_run(run)
    assert result["verdict"] == "unknown"
    assert f"of another cell or run: cells/unclean ({run.run_id}.safe)" in str(result["cells"])


def test_a_loss_stands_whatever_is_missing_beside_it(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(run.cell("safe").path)
    verdicts = ["valid", "invalid", "valid", "valid"]
    assert judged_so(run, monkeypatch, *verdicts)["verdict"] == "invalid"


def test_a_run_without_a_manifest_was_killed(run: RunDir) -> None:
    run.manifest.unlink()
    document = judge_run(run)
    assert document["verdict"] == "unknown"
    assert "missing: manifest.json" in document["reason"]


def test_a_run_is_as_large_as_its_cells(run: RunDir) -> None:
    """The largest runs are judged first."""
    assert _size_bytes(run) == sum(map(_size_bytes, run.cells())) > 0


def test_a_list_of_cells_that_is_none_is_bad_input(run: RunDir) -> None:
    run.write_json(run.run, {**run.read_json(run.run), "cells": [3]})
    with pytest.raises(HistoryError, match="is not a list of cells"):
        judge_run(run)


@dataclass(frozen=True)
class Breaks(Loss):
    """Raises at this cell."""

    cell: str = ""

    def check(self, run: Run, shard: Slice) -> Found:
        if run.facts.run_id.endswith(f".{self.cell}"):
            raise ValueError("planted")
        return super().check(run, shard)


def without_counts(faults: list[dict[str, Any]]) -> list[dict[str, Any]]:
    counts = {"ops_begun", "ops_acknowledged"}
    return [{k: v for k, v in fault.items() if k not in counts} for fault in faults]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("damage", ["its checker raises", "its journal is cut off"])
def test_a_run_has_its_faults_whatever_becomes_of_a_cell(
    run: RunDir, cell: str, damage: str
) -> None:
    intact = judge_run(run)["faults"]
    assert intact
    own = run.read_json(run.cell(cell).result)["faults"]
    broken = Breaks(cell=cell if damage == "its checker raises" else "none")
    if damage == "its journal is cut off":
        run.cell(cell).faults.write_bytes(b"")
    document = judge_run(run, {"loss": broken})
    assert [each["name"] for each in document["cells"] if each["verdict"] == "unknown"] == [cell]
    assert document["verdict"] == "unknown"
    assert without_counts(document["faults"]) == without_counts(intact)
    for name in ("ops_begun", "ops_acknowledged"):
        left = [every[name] - its[name] for every, its in zip(intact, own, strict=True)]
        assert [fault[name] for fault in document["faults"]] == left


def test_a_run_whose_cells_cannot_be_put_together_is_unknown(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> Judged:
        raise IndexError("planted")

    monkeypatch.setattr("checkers.judging.one_run._by_cells", failing)
    document = judge_run(run)
    assert (document["verdict"], document["doubts"]) == ("unknown", ["checker"])
    assert document["reason"].startswith("judging raised IndexError: planted (test_cells.py, ")
    result_of(document)


def test_what_was_forced_is_known_whichever_cell_breaks(run: RunDir) -> None:
    forced = {"key": "topic.x", "what": "ignored by 0.8", "source": "KIP-0"}
    for folder in (run, *run.cells()):
        folder.write_json(folder.run, {**folder.read_json(folder.run), "forced": [forced]})
    document = judge_run(run, {"loss": Breaks(cell=CELLS[0])})
    assert document["forced"] == ["topic.x: ignored by 0.8 (KIP-0)"]


def test_a_journal_of_the_run_that_is_none_is_a_doubt_of_the_run(run: RunDir) -> None:
    with run.faults.open("ab") as journal:
        journal.write(b'{"type": "step"}\n')
    with pytest.MonkeyPatch.context() as patch:
        verdicts = ["valid", "invalid", "valid", "valid"]
        assert judged_so(run, patch, *verdicts)["verdict"] == "invalid"
    document = judge_run(run)
    assert (document["verdict"], document["faults"]) == ("unknown", [])
    assert "is not a journal as ackloss writes it: KeyError" in document["reason"]
    assert {cell["verdict"] for cell in document["cells"]} == {"valid"}


def observed(folder: Path, *rows: tuple[float, str, int, str | None, int]) -> RunDir:
    """A run folder with these observations: second, who answered, partition, leader, epoch."""
    rundir = RunDir.create(folder, "r")
    names = ("answered_by", "partition", "leader", "leader_epoch")
    common = {"run_id": "r", "isr": ["b1", "b2", "b3"]}
    seen = [
        {**common, "time_ns": round(at_s * 1e9), **dict(zip(names, row, strict=True))}
        for at_s, *row in rows
    ]
    write_rows(rundir.observations / "part-00000.parquet", OBSERVATIONS, seen)
    return rundir


def fault(
    name: str, *nodes: str, from_s: float | None, to_s: float | None, proven: bool = True
) -> dict[str, Any]:
    found = {"id": name, "nodes": list(nodes), "from_s": from_s, "to_s": to_s}
    return {**found, "nemesis": name.partition("-")[0], "proven": proven, "claimed": False}


NODES = {"b1": "broker", "b2": "broker", "b3": "broker", "c1": "controller", "k1": "client"}


def met(rundir: RunDir, *faults: dict[str, Any], nodes: bool = True) -> dict[str, Any]:
    """`leaders` and `cautions` of a run, the leaders by their fault."""
    named = [{"name": name, "roles": [role]} for name, role in NODES.items()] if nodes else []
    rundir.write_json(rundir.run, {"schema": 1, "nodes": named})
    found = leaders_of_run(rundir, faults)
    return {**found, "leaders": {each.pop("fault"): each for each in found["leaders"]}}


def led(
    *leaders: str,
    met: bool | None,
    partitions: Sequence[int] | None = (),
    moved_to: Sequence[str] = (),
) -> dict[str, Any]:
    which = None if partitions is None else list(partitions)
    found = {"leaders": list(leaders), "met": met, "partitions": which}
    return {**found, "moved_to": list(moved_to)}


def test_a_fault_meets_who_leads_when_it_begins_or_while_it_lasts(tmp_path: Path) -> None:
    rundir = observed(
        tmp_path,
        (0, "b1", 0, "b1", 1),
        (4, "b2", 0, "b2", 2),
        (5, "b1", 0, "b1", 1),  # it still believes that it leads
    )
    faults = [
        fault("first", "b1", from_s=1, to_s=2),
        fault("longer", "b1", from_s=2, to_s=5),
        fault("other", "b3", from_s=1, to_s=2),
        fault("moves", "b2", from_s=3, to_s=6),
        fault("late", "b1", from_s=6, to_s=None),
        fault("skipped", "b1", from_s=None, to_s=None),
        fault("of-consumers", "consumer-1", from_s=1, to_s=2),
        fault("of-a-client", "k1", from_s=1, to_s=2),
    ]
    assert met(rundir, *faults)["leaders"] == {
        "first": led("b1", met=True, partitions=None),
        "longer": led("b1", "b2", met=True, partitions=None, moved_to=["b2"]),
        "other": led("b1", met=False, partitions=None),
        "moves": led("b1", "b2", met=True, partitions=None),
        "late": led("b2", met=False, partitions=None),
    }
    found = met(rundir, fault("f", "b1", from_s=1, to_s=2), nodes=False)["leaders"]
    assert found["f"]["met"], "an earlier ackloss did not record the nodes"


def test_a_leader_that_is_replaced_while_its_fault_is_being_applied_is_met(tmp_path: Path) -> None:
    rundir = observed(tmp_path, (0, "b1", 0, "b1", 1), (1.5, "b2", 0, "b2", 2))
    kill = fault("kill", "b1", from_s=2, to_s=5) | {"begun_s": 1.0}
    expected = led("b1", "b2", met=True, partitions=None, moved_to=["b2"])
    assert met(rundir, kill)["leaders"]["kill"] == expected


def test_a_family_of_which_no_fault_met_a_leader_is_a_caution(tmp_path: Path) -> None:
    """Leaders are where the kill has moved them: the cut of the node that had them meets none."""
    rundir = observed(tmp_path, (0, "b1", 0, "b1", 1), (2, "b2", 0, "b2", 2))
    kill, cut = fault("kill", "b1", from_s=1, to_s=3), fault("cut", "b1", from_s=5, to_s=6)
    found = met(rundir, kill, cut)
    assert [each["met"] for each in found["leaders"].values()] == [True, False]
    assert found["cautions"] == [
        "no fault of the family cut met a leader (cut): "
        "this run does not show what such a fault does to one"
    ]
    assert met(rundir, kill, cut, fault("cut-2", "b2", from_s=8, to_s=9))["cautions"] == []
    unproven = fault("cut", "b1", from_s=5, to_s=6, proven=False)
    assert met(rundir, kill, unproven)["cautions"] == [], "that is a doubt"
    assert met(rundir, fault("of", "c1", from_s=5, to_s=6))["cautions"] == [], "it holds nothing"
    silent = RunDir.create(tmp_path, "silent")
    assert met(silent, cut)["cautions"] == [], "no leader is known"


@pytest.mark.parametrize(("leader", "is_met"), [("b1", False), ("b2", True), ("b3", True)])
def test_the_middle_of_a_bridge_is_not_met_and_those_that_it_joins_are(
    tmp_path: Path, leader: str, is_met: bool
) -> None:
    rundir = observed(tmp_path, (0, "b1", 0, leader, 1))
    journal = Journal(rundir.faults, lambda: 0)
    journal.write("step", fault="f", nemesis="partition", nodes=["b1"], met=None, why="")
    for node, peers in bridge(["b1"], ["b1", "b2", "b3"]).items():
        if peers:
            record = NetRecord(node=node, fault="f", peers=tuple(Peer(name=p) for p in peers))
            journal.intent(fault="f", lever="net", record=record)
    journal.close()
    found = met(rundir, fault("f", "b1", from_s=1, to_s=2))["leaders"]
    assert found["f"]["met"] is is_met


def test_one_partition_is_enough_and_nobody_is_not_known(tmp_path: Path) -> None:
    rundir = observed(tmp_path, (0, "b1", 0, "b1", 1), (0, "b1", 1, "b2", 1))
    cut = fault("f", "b2", from_s=1, to_s=2)
    assert met(rundir, cut)["leaders"]["f"] == led("b1", "b2", met=True, partitions=[1])
    nobody = observed(tmp_path / "nobody", (0, "b1", 0, None, 1))
    assert met(nobody, cut)["leaders"]["f"] == led(met=None, partitions=None)
    rows = (0, "b1", 0, "b2", 1), (0.5, "b1", 0, None, 1), (1.5, "b1", 0, "b3", 2)
    stepped_down = observed(tmp_path / "down", *rows)
    expected = led("b3", met=False, partitions=None, moved_to=["b3"])
    assert met(stepped_down, cut)["leaders"]["f"] == expected
    assert met(RunDir.create(tmp_path, "none"), cut)["leaders"]["f"] == led(met=None)


def test_who_was_met_is_in_the_result_of_each_cell(run: RunDir, tmp_path: Path) -> None:
    """A campaign reads the results of cells: that of a shared run is never written."""
    document = judge_run(run)
    for cell in document["cells"]:
        own = read_result(run.cell(cell["name"]))
        assert [(each.fault, each.met) for each in own.leaders or ()] == [
            (each["fault"], each["met"]) for each in cell["leaders"]
        ]
        assert own.leader_met is True
    moved = RunDir(Path(shutil.copytree(run.cell("two").path, tmp_path / "moved")))
    assert judge_run(moved)["leaders"] == document["cells"][3]["leaders"]
    stored = moved.read_json(moved.run)
    moved.write_json(moved.run, {name: stored[name] for name in stored if name != "cell"})
    assert judge_run(moved)["leaders"] == document["cells"][3]["leaders"], "of any run"
    assert read_result(moved).met_by("kill-leader") == "met the leader; led next by no other"
    assert read_result(run).met_by("kill-leader") == f"met the leader of: {', '.join(CELLS)}"


def test_a_damaged_observation_is_no_reason_to_judge_nothing(run: RunDir) -> None:
    for cell in run.cells():
        for part in cell.parts(cell.observations):
            part.write_bytes(b"PAR1")
    document = judge_run(run)
    assert document["verdict"] == "valid"
    assert {each["met"] for each in document["cells"][0]["leaders"]} == {None}


@pytest.mark.parametrize("key", ["run_id", "seed", "state", "timings"])
def test_a_run_whose_document_lacks_a_key_is_bad_input(run: RunDir, key: str) -> None:
    stored = run.read_json(run.run)
    run.write_json(run.run, {name: value for name, value in stored.items() if name != key})
    with pytest.raises(HistoryError, match=key):
        judge_run(run)


def by_itself(run: RunDir) -> RunDir:
    """As a shared run of a campaign, which judges each of its cells."""
    place = {"name": "c", "repetition": 0, "cell": None}
    run.write_json(run.run, {**run.read_json(run.run), "campaign": place})
    write_manifest(run, "run")
    for cell in run.cells():
        judge_run(cell)
    return run


def test_cells_judged_one_by_one_are_summed_up_as_a_check_of_the_run_does(run: RunDir) -> None:
    for cell in run.cells():
        judge_run(cell)
    assert stored_result(run) is None, "not of a campaign, which would not have judged it"
    summed = stored_result(by_itself(run))
    assert summed is not None
    assert not run.result.exists()
    assert {**judge_run(run), "timings": summed["timings"]} == summed


def test_a_run_is_not_summed_up_before_each_of_its_cells_is_judged(run: RunDir) -> None:
    by_itself(run).cell("two").result.unlink()
    assert stored_result(run) is None


def test_a_failed_cell_which_a_campaign_does_not_judge_is_unknown_in_the_sum(run: RunDir) -> None:
    cell = by_itself(run).cell("two")
    cell.result.unlink()
    document = cell.read_json(cell.run)
    cell.write_json(cell.run, {**document, "state": "failed", "error": "its client is broken"})
    summed = stored_result(run)
    assert summed is not None
    assert summed["verdict"] == "unknown"
    assert summed["cells"][3]["reason"] == "the run failed: its client is broken"


def test_a_pruned_run_is_summed_up_from_the_results_that_it_keeps(run: RunDir) -> None:
    for cell in by_itself(run).cells():
        for folder in (cell.history, cell.reads, cell.observations):
            shutil.rmtree(folder)
    summed = stored_result(run)
    assert summed is not None
    assert summed["verdict"] == "valid"


def test_a_damaged_result_of_a_cell_is_named(run: RunDir) -> None:
    by_itself(run).cell("two").result.write_text("{}", encoding="utf-8")
    summed = stored_result(run)
    assert summed is not None
    assert summed["verdict"] == "unknown"
    assert "cells/two/result.json" in summed["cells"][3]["reason"]
