"""URLs on the command line: one that has credentials, and a storage that denies access (S3's server
on loopback), are one sentence with its exit code, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from checkers.judging import many_runs
from checkers.judging.results import Judged
from harness.campaigns.archive import Archive
from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Progress
from harness.storage import Folder
from tests.fixtures.campaign_folder import OFF, ON
from tests.fixtures.command_line import ackloss, ackloss_json
from tests.fixtures.hand_made import Made, R, W
from tests.fixtures.lakes import campaign, memory_campaign
from tests.fixtures.result_documents import lossy, run
from tests.fixtures.s3 import S3, s3_bucket

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

DENIED = (
    "access is denied; credentials come from this process' environment, such as AWS_ACCESS_KEY_ID"
)
MEMORY = """
plan = "log"
repetitions = 1
[axes.faults.choices]
none.set = { faults = [], "workload.duration_s" = 1, "workload.rate_per_s" = 50 }
"""


@pytest.fixture
def place(s3: S3, tmp_path: Path) -> str:
    """A folder of a test's own."""
    return f"s3://bucket/{tmp_path.name}"


def contents(url: str) -> dict[str, bytes]:
    folder = Folder.at(url)
    return {name: folder.read(name) for name in folder.files()}


@pytest.mark.parametrize("url", ["s3://KEY:SECRET@bucket/x", "s3://bucket/x?secret_key=SECRET"])
def test_credentials_are_refused_by_each_command_and_not_repeated(tmp_path: Path, url: str) -> None:
    night = campaign(tmp_path / "night", {ON: [lossy()], OFF: [run()]}).path
    file, out = memory_campaign(tmp_path, "new", MEMORY), tmp_path / "out"
    for words in (
        ("check", url),
        ("campaign", "run", file, "--out", out, "--archive", url),
        ("campaign", "resume", night, "--archive", url),
        ("campaign", "compare", night, night, "--lake", url),
        ("lake", "build", night, "--to", url),
        ("lake", "build", url, "--to", tmp_path / "lake"),
        ("lake", "query", "SELECT 1", "--lake", url),
        ("lake", "report", "--lake", url),
    ):
        done = ackloss(*words)
        assert done.exit_code == 4, done.output
        (sentence,) = done.stderr.splitlines()
        assert "a URL with credentials is refused" in sentence
        assert "SECRET" not in ackloss(*words, "--json").output + done.output
    assert not out.exists()


def test_a_check_that_is_denied_costs_no_other_run(s3: S3, place: str, tmp_path: Path) -> None:
    made = Made(writes=[W(1)], reads=[R(1)]).build(tmp_path / "runs", "here")
    s3.put(made.path, f"{place.removeprefix('s3://')}/there")
    before = contents(place)
    with s3.denying():
        alone = ackloss("check", place)
        with_another = ackloss("check", place, made.path)
    for done in (alone, with_another):
        assert done.exit_code == 5
        assert done.stderr == f"ackloss: {place}: {DENIED}\n"
    assert "here  VALID" in with_another.stdout
    assert contents(place) == before
    assert ackloss("check", place).exit_code == 0


def test_a_url_that_no_path_could_be_is_looked_up_like_any_other(s3: S3) -> None:
    url = "s3://bucket/" + 4_200 * "x"
    with s3.denying():
        done = ackloss("check", url)
    assert (done.exit_code, done.stderr) == (5, f"ackloss: {url}: {DENIED}\n")


@pytest.mark.full
def test_credentials_may_be_set_after_spark_was_started(
    spark: SparkContext, tmp_path: Path
) -> None:
    """Its local workers get those of this process, as processes of our own do."""
    with s3_bucket(tmp_path, "another") as s3:
        made = Made(writes=[W(1)], reads=[R(1)]).build(tmp_path / "runs", "one")
        s3.put(made.path, "another/one")
        done = ackloss("check", "s3://another")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("one  VALID")


def test_a_verdict_that_may_not_be_written_is_printed(
    s3: S3, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made(writes=[W(1)], reads=[R(1)]).build(tmp_path / "runs", "one")
    s3.put(made.path, f"{place.removeprefix('s3://')}/one")
    before = contents(place)
    write = many_runs.write

    def write_denied(run: many_runs.Stored, judged: Judged) -> dict[str, object]:
        with s3.denying():
            return write(run, judged)

    monkeypatch.setattr(many_runs, "write", write_denied)
    done = ackloss("check", place)
    assert done.exit_code == 5
    assert done.stderr == f"ackloss: {place}/one/result.json: {DENIED}\n"
    assert done.stdout.startswith("one  VALID")
    assert contents(place) == before


def test_an_archive_that_is_denied_costs_no_run(
    s3: S3, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first run, or while runs are copied: `resume` copies what is missing."""
    folder = CampaignDir(tmp_path / "campaign")
    file = memory_campaign(tmp_path, "memory", MEMORY)
    with s3.denying():
        done = ackloss("campaign", "run", file, "--out", folder.path, "--archive", place)
    assert done.exit_code == 5
    assert done.stderr == f"ackloss: {place}: {DENIED}\n"
    assert list(folder.runs.iterdir()) == []
    resume = ("campaign", "resume", folder.path, "--archive", place)
    with monkeypatch.context() as patch:
        begin = Archive.begin

        def then_denied(archive: Archive, progress: Progress) -> None:
            begin(archive, progress)
            denial.__enter__()

        denial = s3.denying()
        patch.setattr(Archive, "begin", then_denied)
        done = ackloss(*resume)
        denial.__exit__(None, None, None)
    assert done.exit_code == 5, done.output
    (said,) = (line for line in done.stdout.splitlines() if DENIED in line)
    assert said.startswith(f"judged runs that were not copied to {place}: 1 ({place}/runs/")
    (finished,) = map(folder.run, (each.name for each in folder.runs.iterdir()))
    assert finished.result.is_file()
    assert ackloss(*resume).exit_code == 0
    copied = {name.removeprefix(f"runs/{finished.run_id}/") for name in Folder.at(place).files()}
    files = (each for each in finished.path.rglob("*") if each.is_file())
    assert {each.relative_to(finished.path).as_posix() for each in files} <= copied


def test_a_lake_that_is_denied_stays_as_it_was(s3: S3, place: str, tmp_path: Path) -> None:
    """One sentence, however many campaigns were to be added."""
    first, second = (
        campaign(tmp_path / name, {ON: [lossy()], OFF: [run()]}).path for name in ("a", "b")
    )
    assert ackloss("lake", "build", first, "--to", place).exit_code == 0
    before = contents(place)
    with s3.denying():
        for words in (
            ("build", first, second, "--to", place),
            ("query", "SELECT 1", "--lake", place),
        ):
            done = ackloss("lake", *words)
            assert done.exit_code == 5
            assert done.stderr == f"ackloss: {place}: {DENIED}\n"
    assert contents(place) == before
    built = ackloss_json("lake", "build", first, second, "--to", place)["campaigns"]
    assert [each["added"] for each in built] == [0, 2]


def test_an_archive_that_is_denied_costs_no_other_campaign(
    s3: S3, place: str, tmp_path: Path
) -> None:
    night = campaign(tmp_path / "night", {ON: [lossy()], OFF: [run()]}).path
    with s3.denying():
        done = ackloss("lake", "build", place, night, "--to", tmp_path / "lake")
    assert done.exit_code == 5
    assert done.stderr == f"ackloss: {place}: {DENIED}\n"
    assert "night: 2 added of 2 runs" in done.stdout
