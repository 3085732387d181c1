"""A lake has what its campaigns have, nothing twice, and stays as it was whatever happens."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pytest

from analysis.lake.build import build
from analysis.lake.delta import CELLS, FAULTS, RUNS, StoredLake, folder_of, open_lake, open_or_new
from analysis.lake.stored import cells_of
from analysis.statistics.cells import verdict_class
from harness.campaigns.folder import CampaignDir
from harness.errors import EnvironmentFailure, HistoryError
from harness.history.documents import RunResult
from tests.fixtures.campaign_folder import BASE, OFF, ON
from tests.fixtures.command_line import ackloss
from tests.fixtures.lakes import (
    ROOT,
    add_run,
    campaign,
    files_of,
    lake_of,
)
from tests.fixtures.result_documents import FAILED, lossy, run

pytestmark = pytest.mark.slow

RUNS_OF = {ON: [lossy(), run(), FAILED], OFF: [run(), run("unknown", doubts=("starved",))]}


def lost_by_cell(lake: StoredLake) -> dict[str, int]:
    return lake.read(CELLS).groupby("cell")["lost"].sum().to_dict()


def test_a_row_says_what_the_run_says_and_no_more(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", campaign(tmp_path / "c", RUNS_OF))
    cells = lake.read(CELLS).sort_values("run_id").reset_index(drop=True)
    assert list(cells["class"]) == ["loss", "none", "harness_failure", "none", "unknown"]
    assert list(cells["verdict"][[0, 1, 3, 4]]) == ["invalid", "valid", "valid", "unknown"]
    assert list(cells["conclusive"]) == [True, True, False, True, False]
    assert cells["setting"][0] == {"unclean": "true"}
    failed = cells.loc[2]
    numbers = ("verdict", "lost", "acknowledged", "loss_rate", "complete", "faults")
    assert failed[list(numbers)].isna().all()
    assert "no disk" in failed["reason"]
    assert cells["loss_rate"][0] == 0.1
    assert pd.isna(cells["starved"][0]), "these runs do not record it"
    runs = lake.read(RUNS)
    assert len(runs) == 5
    assert set(runs["system"]) == {"kafka"}
    assert set(runs["version"]) == {"4.3.1"}
    assert set(lake.read(FAULTS)["fault"]) == {"cut"}


def test_why_writes_were_lost_is_in_both_tables_and_null_where_nobody_asked(tmp_path: Path) -> None:
    why = {"causes": {"deleted": 98}, "unexplained": 2, "survivable": 5}
    why["alarms"] = [{"rule": each, "source": "s", "chance": 1.0} for each in ("a", "b")]
    runs = {ON: [lossy() | why], OFF: [lossy(7)]}
    lake = lake_of(tmp_path / "lake", campaign(tmp_path / "c", runs))
    for table in (RUNS, CELLS):
        rows = lake.read(table).set_index("cell")
        asked, earlier = rows.loc[ON], rows.loc[OFF]
        assert dict(asked["causes"]) == {"deleted": 98}
        assert (asked["unexplained"], asked["survivable"], asked["alarmed"]) == (2, 5, 2)
        assert dict(earlier["causes"]) == {}
        assert earlier[["unexplained", "survivable", "alarmed"]].isna().all()


def test_a_count_that_was_not_made_is_null_and_not_0(tmp_path: Path) -> None:
    """By an earlier ackloss, or by a checker that broke."""
    zeros = {"counts": {"attempted": 0, "acknowledged": 0, "lost": 0, "failed": 0}, "checks": []}
    broken = {**run("unknown", doubts=("checker",), refused=0), **zeros, "faults": []}
    lake = lake_of(tmp_path / "lake", campaign(tmp_path / "c", {ON: [run()], OFF: [broken]}))
    for table in (RUNS, CELLS):
        rows = lake.read(table).set_index("cell")
        earlier, none = rows.loc[ON], rows.loc[OFF]
        assert (earlier["acknowledged"], earlier["lost"], earlier["faults"]) == (1000, 0, 1)
        assert earlier[["attempted", "survivors", "duplicates"]].isna().all()
        names = ["attempted", "acknowledged", "lost", "failed", "refused", "faults"]
        assert none[names].isna().all()
        assert none["verdict"] == "unknown"
    (outcome,) = cells_of(lake, "c")[frozenset({("unclean", "true")})].outcomes
    assert isinstance(outcome, RunResult)
    assert outcome.counts.attempted == 0, "the default of documents"


def test_what_is_there_is_not_written_again(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", RUNS_OF)
    lake_of(tmp_path / "lake", folder)
    before = files_of(tmp_path / "lake")
    built = build(folder_of(tmp_path / "lake"), folder)
    assert (built.added, built.replaced, built.runs) == (0, 0, 5)
    assert files_of(tmp_path / "lake") == before
    assert len(before) == 8, "a file and a commit of campaigns, runs, cells and faults"


def test_a_campaign_that_grew_adds_its_new_runs(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", RUNS_OF)
    before = lake_of(tmp_path / "lake", folder).files(RUNS)
    run_id = add_run(folder, ON, 3, lossy())
    built = build(folder_of(tmp_path / "lake"), folder)
    assert (built.added, built.replaced, built.rows["runs"]) == (1, 0, 6)
    (new,) = {*open_lake(tmp_path / "lake").files(RUNS)} - {*before}
    assert list(pd.read_parquet(new)["run_id"]) == [run_id]


def test_a_run_that_was_judged_again_replaces_its_rows(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", {ON: [run()] * 3})
    lake_of(tmp_path / "lake", folder)
    result = sorted(folder.runs.iterdir())[1] / "result.json"
    result.write_bytes(orjson.dumps({**lossy(5), "run_id": result.parent.name}))
    built = build(folder_of(tmp_path / "lake"), folder)
    assert (built.added, built.replaced) == (0, 1)
    lake = open_lake(tmp_path / "lake")
    cells = lake.read(CELLS).sort_values("run_id")
    assert list(cells["lost"]) == [0, 5, 0]
    assert len(lake.read(RUNS)) == len(lake.read(FAULTS)) == 3


def test_rows_stay_when_the_campaign_lost_its_runs(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", {ON: [lossy()] * 2})
    lake_of(tmp_path / "lake", folder)
    before = files_of(tmp_path / "lake")
    for path in folder.runs.iterdir():
        (path / "result.json").unlink()
    build(folder_of(tmp_path / "lake"), folder)
    assert files_of(tmp_path / "lake") == before


def test_a_result_that_is_damaged_later_replaces_no_rows(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", {ON: [lossy(), run()], OFF: [FAILED]})
    path = tmp_path / "lake"
    before = lake_of(path, folder).read(CELLS)
    damaged, again, _ = sorted(folder.runs.iterdir())
    whole = (damaged / "result.json").read_bytes()
    (damaged / "result.json").write_bytes(whole[:40])
    (again / "result.json").write_bytes(orjson.dumps({**lossy(5), "run_id": again.name}))
    done = ackloss("lake", "build", folder.path, "--to", path)
    assert f"the rows of the run {damaged.name} stay as they were" in done.stderr.replace("\n", " ")
    built = build(folder_of(path), folder)
    assert (built.added, built.replaced, list(built.kept)) == (0, 0, [damaged.name])
    assert "result.json" in built.kept[damaged.name]
    after = open_lake(path).read(CELLS)
    assert list(after.sort_values("run_id")["lost"].dropna()) == [100, 5]
    assert len(after) == len(before) == 3
    (damaged / "result.json").write_bytes(whole)
    assert build(folder_of(path), folder).kept == {}


def test_a_result_that_was_always_damaged_is_unknown_and_reported(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", {ON: [run()]})
    (only,) = folder.runs.iterdir()
    (only / "result.json").write_bytes(b"{")
    done = ackloss("lake", "build", folder.path, "--to", tmp_path / "lake")
    why = f"{only / 'result.json'}: cannot be read"
    assert f"c: the run {only.name} counts as unknown: {why}" in done.stderr.replace("\n", " ")
    lake = open_lake(tmp_path / "lake")
    (row,) = lake.read(CELLS).to_dict("records")
    assert (row["verdict"], row["class"]) == (None, "unknown")
    (stored,) = cells_of(lake, "c").values()
    assert [verdict_class(outcome) for outcome in stored.outcomes] == ["unknown"]
    assert build(folder_of(tmp_path / "again"), folder).unread.keys() == {only.name}
    (only / "result.json").write_bytes(b"")
    assert build(folder_of(tmp_path / "lake"), folder).replaced == 1


TWO_CELLS = (
    BASE.replace("rate_per_s = 50", "rate_per_s = 50\nprocesses = 4")
    + """
[[cells]]
name = "a"
topic.settings = { "min.insync.replicas" = 1 }
[[cells]]
name = "b"
topic.settings = { "min.insync.replicas" = 2 }
"""
)


def of_two_cells(path: Path, *verdicts: str, **own: object) -> CampaignDir:
    """A campaign of one run with two cells, which its result lists with these verdicts. The cells'
    own results are valid, and of this run, apart from what is in `own`."""
    cells = [
        {"name": name, "verdict": verdict, "reason": "why", "counts": run()["counts"]}
        for name, verdict in zip("ab", verdicts, strict=True)
    ]
    folder = campaign(
        path, {"the plan as it is": [{**run("unknown"), "cells": cells}]}, axes="", base=TWO_CELLS
    )
    (only,) = folder.runs.iterdir()
    for name in "ab":
        inner = only / "cells" / name
        inner.mkdir(parents=True)
        document = {**run(), "run_id": f"{only.name}.{name}", **own}
        (inner / "result.json").write_bytes(orjson.dumps(document))
    return folder


@pytest.mark.parametrize(
    ("verdicts", "own", "a", "words"),
    [
        (("valid", "valid"), {}, "valid", "none"),
        (("unknown", "valid"), {}, None, "is valid, and the result of its run has unknown"),
        (("invalid", "valid"), {}, None, "has invalid for this cell (why)"),
        (("valid", "valid"), {"run_id": "other.a"}, None, "is of another run, 'other.a'"),
        (("valid", "valid"), {"simulated": True}, None, "is simulated, or its run is"),
    ],
)
def test_a_cell_whose_result_its_run_contradicts_has_no_verdict(
    tmp_path: Path, verdicts: tuple[str, str], own: dict[str, object], a: str | None, words: str
) -> None:
    path, folder = tmp_path / "lake", of_two_cells(tmp_path / "c", *verdicts, **own)
    cells = lake_of(path, folder).read(CELLS).set_index("run_cell")
    assert cells["verdict"]["a"] == a
    assert cells["conclusive"]["a"] == (a is not None)
    assert words in str(cells["reason"]["a"]) + str(cells["class"]["a"])
    assert cells["verdict"]["b"] == (None if own else "valid")


def test_a_contradiction_replaces_rows_and_damage_does_not(tmp_path: Path) -> None:
    path, folder = tmp_path / "lake", of_two_cells(tmp_path / "c", "valid", "valid")
    lake_of(path, folder)
    (only,) = folder.runs.iterdir()
    inner = only / "cells" / "a" / "result.json"
    whole = inner.read_bytes()
    inner.write_bytes(b"")
    assert list(build(folder_of(path), folder).kept) == [only.name]
    assert list(open_lake(path).read(CELLS)["verdict"]) == ["valid", "valid"]
    inner.write_bytes(whole.replace(b'"valid"', b'"invalid"'))
    assert build(folder_of(path), folder).replaced == 1
    cells = open_lake(path).read(CELLS).set_index("run_cell")
    assert (cells["verdict"]["a"], cells["verdict"]["b"]) == (None, "valid")


def test_campaigns_are_kept_apart(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for parent in (one, two):
        parent.mkdir()
    first = campaign(one / "night 1 = [a]%", {ON: [lossy()]})
    other = campaign(tmp_path / "2026-01-03", {ON: [run()]})
    lake = lake_of(tmp_path / "lake", first, other)
    assert sorted(lake.read(RUNS)["campaign"]) == ["2026-01-03", "night 1 = [a]%"]
    same_name = campaign(two / "night 1 = [a]%", {ON: [run()]}, head="repetitions = 3\nseed = 9")
    with pytest.raises(HistoryError, match="has another campaign of the name night 1"):
        build(folder_of(tmp_path / "lake"), same_name)


@pytest.mark.skipif(sys.platform != "linux", reason="file names are UTF-8")
def test_a_name_that_is_not_text_is_refused(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "night", {ON: [run()]})
    path = folder.path.rename(tmp_path / os.fsdecode(b"night\xff"))
    done = ackloss("lake", "build", path, "--to", tmp_path / "lake")
    assert done.exit_code == 4
    assert done.stderr == (
        f"ackloss: {tmp_path}: the name of this folder is not UTF-8: b'night\\xff'; "
        "rename it: the lake knows a campaign by the name of its folder\n"
    )


def test_a_campaign_under_a_second_name_is_refused(tmp_path: Path) -> None:
    """Its runs would count twice in every query."""
    first = campaign(tmp_path / "night", {ON: [lossy()] * 2})
    other = campaign(tmp_path / "next", {ON: [run()]})  # of the same file, begun later
    path = tmp_path / "lake"
    lake_of(path, first, other)
    before = files_of(path)
    renamed = CampaignDir(Path(shutil.copytree(first.path, tmp_path / "renamed")))
    add_run(renamed, ON, 2, lossy())
    with pytest.raises(HistoryError) as refused:
        build(folder_of(path), renamed)
    assert str(refused.value) == (
        f"{renamed.path}: the lake {path} has this campaign (same plan_hash and start) under the "
        "name 'night': as 'renamed' its runs would count twice; name it 'night' as before, or use "
        "another lake"
    )
    assert files_of(path) == before
    grown = CampaignDir(Path(shutil.copytree(renamed.path, tmp_path / "there" / "night")))
    assert build(folder_of(path), grown).added == 1


def test_campaigns_that_never_began_are_not_one(tmp_path: Path) -> None:
    """Without a start they are not known to be the same."""
    folders = [campaign(tmp_path / name, {ON: [run()]}) for name in ("a", "b")]
    for folder in folders:
        lines = folder.journal.read_bytes().splitlines(keepends=True)
        folder.journal.write_bytes(b"".join(lines[1:]))
    lake = lake_of(tmp_path / "lake", *folders)
    assert [each.started for each in lake.campaigns] == [None, None]


def test_simulated_and_real_campaigns_never_share_a_lake(tmp_path: Path) -> None:
    base = (ROOT / "plans/memory/log.toml").read_text(encoding="utf-8")
    real = campaign(tmp_path / "real", {ON: [run()]})
    name = "the plan as it is"
    document = {**run(), "simulated": True}
    simulated = campaign(tmp_path / "simulated", {name: [document]}, axes="", base=base)
    for first, second, words in ((real, simulated, "simulated"), (simulated, real, "real")):
        path = tmp_path / f"lake-{words}"
        lake = lake_of(path, first)
        assert lake.simulated == (words == "real")
        with pytest.raises(HistoryError, match=f"this campaign is {words}, and those of the lake"):
            build(folder_of(path), second)
        assert len(lake_of(path).read(RUNS)) == 1


def test_a_campaign_without_a_finished_run_changes_no_lake(tmp_path: Path) -> None:
    base = (ROOT / "plans/memory/log.toml").read_text(encoding="utf-8")
    simulated = campaign(tmp_path / "simulated", {}, axes="", base=base)
    path = tmp_path / "lake"
    assert build(folder_of(path), simulated).rows == {}
    assert not path.exists()
    lake = lake_of(path, campaign(tmp_path / "real", {ON: [run()]}))
    assert not lake.simulated
    with pytest.raises(HistoryError, match="this campaign is simulated, and those of the lake"):
        build(folder_of(path), simulated)
    lake = lake_of(path, campaign(tmp_path / "next", {ON: [run()]}, head="seed = 4"))
    assert [each.id for each in lake.campaigns] == ["next", "real"]
    assert not lake.simulated


def test_a_campaign_that_cannot_be_read_adds_nothing(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", RUNS_OF)
    lake_of(tmp_path / "lake", folder)
    run_id = add_run(folder, ON, 3, lossy())
    findings = folder.run(run_id).findings
    findings.mkdir()
    (findings / "loss.parquet").write_bytes(b"no Parquet")
    with pytest.raises(HistoryError, match=r"loss.parquet: cannot be read"):
        build(folder_of(tmp_path / "lake"), folder)
    assert len(lake_of(tmp_path / "lake").read(RUNS)) == 5
    assert len(lake_of(tmp_path / "lake").read(CELLS)) == 5
    (findings / "loss.parquet").unlink()
    assert len(lake_of(tmp_path / "lake", folder).read(RUNS)) == 6


def test_of_two_processes_that_replace_the_same_rows_one_is_refused(tmp_path: Path) -> None:
    folder, place = campaign(tmp_path / "c", {ON: [run()]}), folder_of(tmp_path / "lake")
    build(place, folder)
    one, two = open_or_new(place), open_or_new(place)
    rows = [one.rows(CELLS)]
    run_ids = rows[0]["run_id"].to_pylist()
    one.replace(CELLS, "c", run_ids, iter(rows))
    with pytest.raises(EnvironmentFailure, match="another process is writing this lake"):
        two.replace(CELLS, "c", run_ids, iter(rows))
    assert len(open_lake(place).read(CELLS)) == 1


def test_many_runs_are_several_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.lake.build._AT_ONCE", 2)
    folder = campaign(tmp_path / "c", {ON: [run()] * 5})
    assert lake_of(tmp_path / "lake", folder).tables["runs"].version() == 2
    for result in folder.runs.glob("*/result.json"):
        result.write_bytes(orjson.dumps({**lossy(5), "run_id": result.parent.name}))
    assert build(folder_of(tmp_path / "lake"), folder).replaced == 5
    assert list(open_lake(tmp_path / "lake").read(CELLS)["lost"]) == [5] * 5


KILLED = """
import os, signal, sys
from pathlib import Path
from analysis.lake import build, delta
from harness.campaigns.folder import CampaignDir

lake, folder, nth = sys.argv[1:]
replace, written = delta.StoredLake.replace, []

def dying(self, table, *rows):
    if len(written) == int(nth):
        os.kill(os.getpid(), signal.SIGKILL)
    written.append(table)
    replace(self, table, *rows)

delta.StoredLake.replace = dying
build.build(delta.folder_of(lake), CampaignDir.open(Path(folder)))
"""


def build_and_kill(lake: Path, folder: CampaignDir, nth: int) -> int:
    """The exit code of a build that is killed after so many commits."""
    words: Sequence[Any] = (sys.executable, "-c", KILLED, lake, folder.path, str(nth))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(words, env=environment, cwd=ROOT, check=False).returncode


def test_the_next_build_completes_one_that_was_killed(tmp_path: Path) -> None:
    folder, path = campaign(tmp_path / "c", {ON: [run()], OFF: [run()]}), tmp_path / "lake"
    lake_of(path, folder)
    result = sorted(folder.runs.iterdir())[0] / "result.json"
    result.write_bytes(orjson.dumps({**lossy(5), "run_id": result.parent.name}))
    add_run(folder, OFF, 1, lossy(7))
    assert build_and_kill(path, folder, 3) == -signal.SIGKILL  # after findings, faults, cells
    assert len(lake_of(path).read(RUNS)) == 2
    assert lost_by_cell(lake_of(path, folder)) == {ON: 5, OFF: 7}
    assert len(lake_of(path).read(CELLS)) == len(lake_of(path).read(RUNS)) == 3
