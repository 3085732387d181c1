"""Which runs the folder of a campaign names: here, and at a URL."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.campaigns.folder import CampaignDir, stored_runs
from harness.campaigns.journal import Journal, RunBegun, RunDone
from harness.errors import HistoryError
from harness.history.remote_run import RemoteRun

RUNS = ["alone", "celled", "pruned", "shared.cell-1", "shared.cell-2", "shared.pruned"]
"""As a journal names them."""
FOUND = ["alone", "celled", "shared/cells/cell-1", "shared/cells/cell-2"]


@pytest.fixture
def campaign(tmp_path: Path) -> CampaignDir:
    """A run, one whose plan has cells, one that cells of the campaign shared, and pruned ones."""
    folder = CampaignDir(tmp_path / "campaign")
    folder.runs.mkdir(parents=True)
    folder.file.touch()
    journal = Journal(folder.journal)
    for number, run_id in enumerate(RUNS):
        journal.write(RunBegun(cell="c", repetition=number, run_id=run_id, worker=1))
        journal.write(RunDone(run_id=run_id, verdict="valid", seconds=1.0))
        write(folder, run_id, pruned="pruned" in run_id)
    journal.close()
    for cell in ("celled.a", "celled.b"):
        write(folder, cell)
    write(folder, "shared", pruned=True)
    for run in ("celled", "shared"):
        folder.run(run).history.mkdir(exist_ok=True)
    for part in folder.run("celled").parts(folder.run("celled").history):
        part.unlink()
    return folder


def write(folder: CampaignDir, run_id: str, *, pruned: bool = False) -> None:
    run = folder.run(run_id)
    run.path.mkdir(parents=True, exist_ok=True)
    run.run.touch()
    run.manifest.touch()
    if not pruned:
        run.history.mkdir()
        (run.history / "part-00000.parquet").write_bytes(b"12345")


def at_url(folder: CampaignDir) -> list[str]:
    """What a URL names; `local://` is fsspec's scheme for the files of this machine."""
    runs = stored_runs(f"local://{folder.path}").runs
    urls = [run.folder.url for run in runs if isinstance(run, RemoteRun)]
    return [url.partition("/runs/")[2] for url in urls]


def test_a_run_is_itself_with_its_cells_and_a_shared_run_is_each_of_them(
    campaign: CampaignDir,
) -> None:
    found = stored_runs(campaign.path)
    assert [run.path for run in found.runs] == [campaign.runs / name for name in FOUND]  # type: ignore[union-attr]
    assert found.without_history == 2, "the pruned ones"
    assert at_url(campaign) == FOUND
    assert stored_runs(f"local://{campaign.path}").without_history == 2


def test_without_its_journal_a_shared_run_is_judged_with_its_cells(campaign: CampaignDir) -> None:
    """As at the URL of a campaign that is in progress."""
    campaign.journal.unlink()
    runs = ["alone", "celled", "shared"]
    assert [run.run_id for run in campaign.runs_with_history()] == runs
    assert at_url(campaign) == runs


def test_a_damaged_journal_at_a_url_is_named_by_its_url(campaign: CampaignDir) -> None:
    campaign.journal.write_text('{"type": "begun", "cell": "c"}\n')
    with pytest.raises(HistoryError) as refused:
        stored_runs(f"local://{campaign.path}")
    assert refused.value.file == f"local://{campaign.path}/journal.jsonl:1"


def test_a_run_at_a_url_is_as_large_as_its_cells(campaign: CampaignDir) -> None:
    sizes = [run.size_bytes for run in stored_runs(f"local://{campaign.path}").runs]  # type: ignore[union-attr]
    assert sizes == [5, 10, 5, 5]
