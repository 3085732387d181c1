"""The folder of a campaign is that of the campaign which its journal began, or it is refused."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Journal, RunBegun
from harness.errors import AcklossError, HistoryError
from harness.history.run_folder import RunDir
from tests.fixtures.campaign_folder import OFF, ON, build
from tests.fixtures.command_line import ackloss
from tests.fixtures.result_documents import lossy, run


@pytest.fixture
def folder(tmp_path: Path) -> CampaignDir:
    return build(tmp_path / "c", {ON: [lossy()] * 2, OFF: [run()] * 2}, head="repetitions = 2")


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


COMMANDS = [
    ["report"],
    ["campaign", "resume"],
    ["campaign", "status"],
    ["campaign", "prune", "--keep", "1"],
    ["lake", "build", "--to", "lake"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_counts_a_folder_whose_journal_is_gone(
    folder: CampaignDir, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """Otherwise nothing has run, by every count."""
    monkeypatch.chdir(folder.path.parent)
    folder.journal.unlink()
    done = ackloss(*command, folder.path)
    assert done.exit_code == 4, done.output
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"ackloss: {folder.journal}: {LACKS}")


LACKS = "does not name 4 of the runs in runs/ (the first is 00000-c), which would be missing"


@pytest.mark.parametrize("lines", [0, 1], ids=["empty", "the line of its session alone"])
def test_a_journal_without_the_runs_that_are_there_is_refused(
    folder: CampaignDir, lines: int
) -> None:
    folder.journal.write_bytes(b"".join(folder.journal.read_bytes().splitlines(True)[:lines]))
    with pytest.raises(HistoryError, match=re.escape(LACKS)):
        folder.progress()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("base.json", None, "cannot be read: No such file or directory"),
        ("base.json", b'{"schema": 1,', "is not JSON"),
        ("base.json", b"[1]", "is not a JSON object"),
        ("campaign.toml", b"\xff", "is not UTF-8 text"),
        ("campaign.toml", b"schema = ", "is not TOML"),
    ],
)
def test_a_folder_that_was_copied_only_in_part_is_bad_input(
    folder: CampaignDir, name: str, content: bytes | None, words: str
) -> None:
    if content is None:
        (folder.path / name).unlink()
    else:
        (folder.path / name).write_bytes(content)
    with pytest.raises(AcklossError, match=words) as refused:
        folder.campaign()
    assert (refused.value.file, refused.value.exit_code) == (str(folder.path / name), 4)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("campaign.toml", "values = [true, false]", "values = [false, true]"),
        ("base.json", '"rate_per_s": 50', '"rate_per_s": 500'),
    ],
)
def test_a_campaign_that_was_changed_since_it_began_is_refused(
    folder: CampaignDir, name: str, before: str, after: str
) -> None:
    """Its old runs would be shown as runs of the new settings."""
    edit(folder.path / name, before, after)
    with pytest.raises(HistoryError, match=r"is not the campaign that journal\.jsonl began") as no:
        folder.campaign()
    assert no.value.file == str(folder.file)


def test_more_repetitions_are_the_same_campaign(folder: CampaignDir) -> None:
    edit(folder.file, "repetitions = 2", "repetitions = 3")
    assert {cell.repetitions for cell in folder.campaign().cells} == {3}


def test_runs_of_a_cell_that_the_campaign_lacks_are_refused(folder: CampaignDir) -> None:
    edit(folder.journal, f',"plan_hash":"{folder.campaign().digest}"', "")
    edit(folder.file, "values = [true, false]", "values = [false]")
    with pytest.raises(HistoryError, match="names run 0 of ") as no:
        folder.campaign()
    assert repr(ON) in no.value.what
    assert no.value.file == str(folder.journal)


def made_by(run: RunDir, campaign: dict[str, object] | None) -> None:
    run.write_json(run.run, {**run.read_json(run.run), "campaign": campaign})


def test_one_run_that_the_journal_lacks_is_refused(folder: CampaignDir) -> None:
    made_by(folder.run("00003-c"), {"name": "c", "repetition": 1, "cell": OFF})
    lines = folder.journal.read_text().splitlines(keepends=True)
    folder.journal.write_text("".join(line for line in lines if "00003-c" not in line))
    with pytest.raises(HistoryError, match=r"does not name 1 of the runs in runs/ \(the first is "):
        folder.progress()


def test_a_run_that_no_campaign_made_may_lie_among_its_runs(folder: CampaignDir) -> None:
    """`ackloss run runs/RUN/plan.json` in the campaign's folder makes one."""
    own = RunDir.create(folder.runs, "20260101-000000-aaaaaa")
    own.write_json(own.run, {"schema": 1, "run_id": own.run_id})
    (folder.runs / "notes.txt").touch()
    assert len(folder.progress().runs) == 4


@pytest.mark.parametrize("made", [True, False])
def test_a_campaign_that_was_killed_around_the_begin_of_a_run_goes_on(
    folder: CampaignDir, made: bool
) -> None:
    """The line is on disk before the folder is made; the next line was being written."""
    begun = RunBegun(cell=ON, repetition=2, run_id="00004-c", worker=1)
    journal = Journal(folder.journal)
    journal.write(begun)
    journal.close()
    if made:
        run = RunDir.create(folder.runs, begun.run_id)
        run.write_json(run.run, {"schema": 1, "run_id": run.run_id})
        made_by(run, {"name": "c", "repetition": 2, "cell": ON})
    with folder.journal.open("ab") as file:
        file.write(b'{"type":"begun","cell":"uncl')
    assert [run.run_id for run in folder.progress().in_state("begun")] == ["00004-c"]


def test_a_campaign_that_has_just_begun_has_no_runs(folder: CampaignDir) -> None:
    folder.journal.write_bytes(b"")
    shutil.rmtree(folder.runs)
    assert folder.progress().runs == {}
    folder.runs.mkdir()
    assert folder.progress().runs == {}


@pytest.mark.parametrize("begun", [2, 77])
def test_a_repetition_that_the_campaign_does_not_have_is_refused(
    folder: CampaignDir, begun: int
) -> None:
    """As a fifth run of four it would make the number of those that are left negative."""
    lines = folder.journal.read_text().splitlines(keepends=True)
    lines[7] = lines[7].replace('"repetition":1', f'"repetition":{begun}')
    folder.journal.write_text("".join(lines))
    with pytest.raises(HistoryError, match=f"names run {begun} of {OFF!r}") as no:
        folder.campaign()
    assert "if `repetitions` was lowered since it began, restore it" in str(no.value.hint)
