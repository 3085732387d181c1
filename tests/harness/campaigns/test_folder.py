"""The folder of a campaign is that of the campaign which its journal began, or it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.campaigns.folder import CampaignDir
from harness.cli import main
from harness.errors import HistoryError
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
