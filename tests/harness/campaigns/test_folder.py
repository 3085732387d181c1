"""The folder of a campaign is that of the campaign which its journal began, or it is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from ackloss.cli import main
from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Journal, RunBegun
from harness.errors import HistoryError
from harness.history.run_folder import RunDir
from tests.fixtures.campaign_folder import OFF, ON, build
from tests.fixtures.result_documents import lossy, run


@pytest.fixture
def folder(tmp_path: Path) -> CampaignDir:
    return build(tmp_path / "c", {ON: [lossy()] * 2, OFF: [run()] * 2}, head="repetitions = 2")


def without_plan_hash(folder: CampaignDir) -> None:
    """Make its journal one of an earlier version."""
    digest = folder.campaign().digest
    text = folder.journal.read_text()
    assert f',"plan_hash":"{digest}"' in text
    folder.journal.write_text(text.replace(f',"plan_hash":"{digest}"', ""))


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


@pytest.mark.parametrize("command", [["report"], ["campaign", "resume"], ["campaign", "status"]])
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("base.json", None, "cannot be read: No such file or directory"),
        ("base.json", b"", "is not JSON"),
        ("base.json", b'{"schema": 1,', "is not JSON"),
        ("base.json", b"[1]", "is not a JSON object"),
        ("campaign.toml", b"\xff", "is not UTF-8 text"),
        ("campaign.toml", b"schema = ", "is not TOML"),
    ],
)
def test_a_folder_that_was_copied_only_in_part_is_bad_input(
    folder: CampaignDir, command: list[str], name: str, content: bytes | None, words: str
) -> None:
    if content is None:
        (folder.path / name).unlink()
    else:
        (folder.path / name).write_bytes(content)
    done = CliRunner().invoke(main, [*command, str(folder.path)])
    assert done.exit_code == 4, done.output
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"ackloss: {folder.path / name}: {words}")


@pytest.mark.parametrize("command", [["report"], ["campaign", "resume"], ["campaign", "status"]])
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("campaign.toml", "values = [true, false]", "values = [false, true]"),
        ("campaign.toml", "unclean.leader.election.enable", "preallocate"),
        ("base.json", '"rate_per_s": 50', '"rate_per_s": 500'),
    ],
)
def test_a_campaign_that_was_changed_since_it_began_is_refused(
    folder: CampaignDir, command: list[str], name: str, before: str, after: str
) -> None:
    """Its old runs would be shown as runs of the new settings."""
    edit(folder.path / name, before, after)
    done = CliRunner().invoke(main, [*command, str(folder.path)])
    assert done.exit_code == 4, done.output
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(
        f"ackloss: {folder.file}: is not the campaign that journal.jsonl began: this file or "
        "base.json was changed; restore"
    )


def test_more_repetitions_are_the_same_campaign(folder: CampaignDir) -> None:
    edit(folder.file, "repetitions = 2", "repetitions = 3")
    assert {cell.repetitions for cell in folder.campaign().cells} == {3}


def test_the_journal_of_an_earlier_version_has_no_hash_to_compare(folder: CampaignDir) -> None:
    without_plan_hash(folder)
    edit(folder.base, '"rate_per_s": 50', '"rate_per_s": 500')
    assert folder.campaign().base["workload"] == {"duration_s": 10, "rate_per_s": 500}


@pytest.mark.parametrize("command", [["report"], ["campaign", "resume"], ["campaign", "status"]])
def test_runs_of_a_cell_that_the_campaign_lacks_are_refused(
    folder: CampaignDir, command: list[str]
) -> None:
    without_plan_hash(folder)
    edit(folder.file, "values = [true, false]", "values = [false]")
    with pytest.raises(HistoryError, match="names a cell that the campaign does not have: ") as no:
        folder.campaign()
    assert repr(ON) in no.value.what
    assert no.value.file == str(folder.journal)
    done = CliRunner().invoke(main, [*command, str(folder.path)])
    assert (done.exit_code, len(done.stderr.splitlines())) == (4, 1)


def bare(journal: Path) -> None:
    """Leave the journal with the line of its session alone."""
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])


def cleared(journal: Path) -> None:
    journal.write_bytes(b"")


COMMANDS = [
    ["report"],
    ["campaign", "resume"],
    ["campaign", "status"],
    ["campaign", "prune", "--keep", "1"],
    ["lake", "build", "--to", "lake"],
]
LACKS = "does not name 4 of the runs in runs/ (the first is 00000-c), which would be missing"


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(
    ("damage", "words"),
    [(Path.unlink, f"is missing, so it {LACKS}"), (cleared, LACKS), (bare, LACKS)],
)
def test_a_journal_without_the_runs_that_are_there_is_refused(
    folder: CampaignDir,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    damage: Callable[[Path], None],
    words: str,
) -> None:
    """Otherwise nothing has run, by every count."""
    monkeypatch.chdir(folder.path.parent)
    damage(folder.journal)
    done = CliRunner().invoke(main, [*command, str(folder.path)])
    assert done.exit_code == 4, done.output
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"ackloss: {folder.journal}: {words}")


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
    cleared(folder.journal)
    shutil.rmtree(folder.runs)
    assert folder.progress().runs == {}
    folder.runs.mkdir()
    assert folder.progress().runs == {}


@pytest.mark.parametrize(
    "command",
    [["report"], ["campaign", "resume"], ["campaign", "status"], ["lake", "build", "--to", "lake"]],
    ids=" ".join,
)
@pytest.mark.parametrize(
    ("repetition", "words"),
    [
        ("-1", "repetition is -1: expected 0 or more; copy"),
        (
            "2",
            f"repetition is 2, and campaign.toml has 2 of this cell, counted from 0: {OFF!r}",
        ),
        ("77", "repetition is 77, and campaign.toml has 2 of this cell"),
    ],
)
def test_a_repetition_that_the_campaign_does_not_have_is_refused(
    folder: CampaignDir,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    repetition: str,
    words: str,
) -> None:
    """As a fifth run of four it would make the number of those that are left negative."""
    monkeypatch.chdir(folder.path.parent)
    lines = folder.journal.read_text().splitlines(keepends=True)
    lines[7] = lines[7].replace('"repetition":1', f'"repetition":{repetition}')
    folder.journal.write_text("".join(lines))
    done = CliRunner().invoke(main, [*command, str(folder.path)])
    assert done.exit_code == 4, done.output
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(f"ackloss: {folder.journal}:8: {words}")


def test_fewer_repetitions_than_have_run_are_refused(folder: CampaignDir) -> None:
    edit(folder.file, "repetitions = 2", "repetitions = 1")
    with pytest.raises(HistoryError, match=r"repetition is 1, and campaign\.toml has 1 of") as no:
        folder.campaign()
    assert no.value.file == f"{folder.journal}:4"
    assert "if `repetitions` was lowered since it began, restore it" in str(no.value.hint)
