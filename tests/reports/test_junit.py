"""junit.xml and summary.md; junit.xml is read with a library that CI systems use."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase
from scipy import stats

from harness.campaigns.folder import CampaignDir
from harness.campaigns.journal import Journal
from reports.junit import Junit, write_summary
from tests.fixtures.campaign_folder import AXES, OFF, ON, add, build
from tests.fixtures.result_documents import lossy, run

pytestmark = pytest.mark.slow

UNKNOWN = run("unknown", doubts=("incomplete",))
BROKE = {"error": "the disk is full \x1b[31m <b>&"}


def cases(folder: CampaignDir) -> dict[tuple[str, str], TestCase]:
    suites = JUnitXml.fromfile(str(folder.junit))
    (suite,) = suites
    found = {(case.classname, case.name): case for case in suite}
    results = [result for case in found.values() for result in case.result]
    assert suite.tests == len(found)
    for kind, count in ((Failure, suite.failures), (Error, suite.errors), (Skipped, suite.skipped)):
        assert count == sum(isinstance(result, kind) for result in results)
    return found


def results(case: TestCase) -> list[type]:
    return [type(result) for result in case.result]


def test_a_case_for_each_cell_and_check(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {ON: [lossy()] * 3 + [run(), BROKE], OFF: [UNKNOWN] * 2})
    Junit(folder, folder.campaign()).write()
    found = cases(folder)
    assert set(found) == {(check, cell) for check in ("loss", "harness") for cell in (ON, OFF)}
    assert {key: results(case) for key, case in found.items()} == {
        ("loss", ON): [Failure],
        ("harness", ON): [Error],
        ("loss", OFF): [Error],
        ("harness", OFF): [],
    }
    (silent,) = found["loss", OFF].result
    assert silent.message == "no conclusive run of 2: no share is known of this cell"
    assert "3 of 4: 75.0 % (19.4 % to 99.37 %)" in found["loss", ON].system_out
    assert "loss 3, none 1, harness failure 1" in found["loss", ON].system_out
    assert found["loss", ON].time == 4 * 12.5
    (error,) = found["harness", ON].result
    assert error.message == "1 of 5 runs failed without testing the cluster"
    assert "the disk is full \\u001b[31m <b>&" in error.text


def test_the_suite_names_plan_and_versions(tmp_path: Path) -> None:
    versions = {"target": "4.3.1", "client": "\x1b[31m"}
    folder = build(tmp_path / "c", {ON: [run()]}, versions=versions)
    Junit(folder, folder.campaign()).write()
    (suite,) = JUnitXml.fromfile(str(folder.junit))
    properties = {each.name: each.value for each in suite.properties()}
    assert properties["plan_hash"] == folder.campaign().digest
    assert properties["version.target"] == "4.3.1"
    assert properties["version.client"] == "\\u001b[31m"
    assert properties["policy"] == "any, share 0"
    assert suite.name == "c"


def test_every_element_is_where_the_common_schema_has_it(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {ON: [lossy(), BROKE], OFF: []})
    Junit(folder, folder.campaign()).write()
    root = ElementTree.parse(folder.junit).getroot()
    assert root.tag == "testsuites"
    (suite,) = root
    assert set(suite.attrib) <= {
        "name", "tests", "failures", "errors", "skipped", "time", "timestamp"
    }  # fmt: skip
    assert [child.tag for child in suite] == ["properties", *["testcase"] * 4]
    order = ["skipped", "error", "failure", "system-out"]
    for case in suite.findall("testcase"):
        assert set(case.attrib) == {"classname", "name", "time"}
        tags = [child.tag for child in case]
        assert tags == sorted(tags, key=order.index)


@pytest.mark.parametrize(
    ("policy", "failed"),
    [
        ('fail_on = "any"\nshare = 0.5', {ON}),
        ('fail_on = "all"', {ON, OFF}),
        ('fail_on = "never"', set()),
    ],
)
def test_failures_follow_the_policy(tmp_path: Path, policy: str, failed: set[str]) -> None:
    runs = {ON: [lossy()] * 3, OFF: [lossy(), run(), run()]}
    folder = build(tmp_path / "c", runs, axes=f"{AXES}\n[policy]\n{policy}")
    Junit(folder, folder.campaign()).write()
    found = {name for (_, name), case in cases(folder).items() if results(case) == [Failure]}
    assert found == failed


def test_written_after_each_run_it_reads_each_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("an interval was found by resampling")

    monkeypatch.setattr(stats, "bootstrap", never)
    folder = build(tmp_path / "c", {ON: [lossy()] * 12})
    junit = Junit(folder, folder.campaign())
    junit.write()
    for result in folder.runs.glob("*/result.json"):
        result.unlink()
    journal = Journal(folder.journal)
    add(folder, journal, OFF, 0, run())
    junit.write()
    found = cases(folder)
    assert "12 of 12" in found["loss", ON].system_out
    assert results(found["harness", ON]) == []
    assert "0 of 1: at most" in found["loss", OFF].system_out


def test_a_cell_that_was_never_reached_is_an_error_once_the_campaign_has_ended(
    tmp_path: Path,
) -> None:
    begun = build(tmp_path / "begun", {}, ended=None)
    Junit(begun, begun.campaign()).write()
    assert {tuple(results(case)) for case in cases(begun).values()} == {(Skipped,)}
    folder = build(tmp_path / "c", {ON: [run()]})
    Junit(folder, folder.campaign()).write()
    found = cases(folder)
    assert results(found["loss", ON]) == []
    assert results(found["loss", OFF]) == [Error]


def test_only_conclusive_runs_are_in_the_share_and_others_are_reported(tmp_path: Path) -> None:
    starved = [lossy(doubts=("starved",))] * 2 + [UNKNOWN]
    folder = build(tmp_path / "c", {ON: [run()] * 5 + starved})
    Junit(folder, folder.campaign()).write()
    case = cases(folder)["loss", ON]
    assert "lost / conclusive runs: 0 of 5; 2 of 3 others lost: 3.2 % to 75.5 %" in case.system_out
    assert "2 of the 3 that do not count have lost writes" in case.system_out
    assert results(case) == [Failure], "any loss breaks a policy that allows none"
    write_summary(folder)
    (row,) = (line for line in folder.summary.read_text().splitlines() if f"| {ON} |" in line)
    assert "0 of 5; 2 of 3 others lost: 3.2 % to 75.5 %" in row
    assert "| 3, 2 of them with lost writes |" in row


def test_the_summary_names_cells_without_a_conclusive_run(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {ON: [run()] * 2, OFF: [UNKNOWN] * 9})
    write_summary(folder)
    head = folder.summary.read_text().splitlines()[0]
    assert head == f"## c: 1 cell has no conclusive run, so no share is known of {OFF}"
    broken = build(tmp_path / "b", {ON: [lossy()] * 2, OFF: [UNKNOWN] * 9})
    write_summary(broken)
    lines = broken.summary.read_text().splitlines()
    assert lines[0] == "## c: 1 of 2 cells break the policy"
    assert lines[2] == f"1 cell has no conclusive run, so no share is known of {OFF}."


@pytest.mark.parametrize(
    ("policy", "runs", "words"),
    [
        ("never", 2, "finished, without a policy"),
        ("never", 1, "not finished, 2 of 4 runs, without a policy"),
        ("any", 2, "the policy is kept"),
        ("any", 1, "the policy is kept so far, after 2 of 4 runs"),
    ],
)
def test_the_summary_of_a_campaign_that_was_interrupted_does_not_say_finished(
    tmp_path: Path, policy: str, runs: int, words: str
) -> None:
    head = f'repetitions = 2\n[policy]\nfail_on = "{policy}"'
    folder = build(tmp_path / "c", {ON: [run()] * runs, OFF: [run()] * runs}, head=head)
    write_summary(folder)
    assert folder.summary.read_text().splitlines()[0] == f"## c: {words}"


def test_the_summary_is_a_table_of_the_cells(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {ON: [lossy(), lossy(), lossy(300)], OFF: [run()] * 3 + [BROKE]})
    write_summary(folder)
    text = folder.summary.read_text()
    assert text.startswith("## c: 1 of 2 cells break the policy\n")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("|")]
    assert len({len(row) for row in rows if "---" not in row[0]}) == 1
    assert rows[2][:3] == ["| ✗", ON, "3 of 3: at least 29.2 %"]
    assert rows[3][:3] == ["| ", OFF, "0 of 3: at most 70.8 %"]
    assert (rows[2][3], rows[3][3]) == ("0", "1")
    assert rows[2][4:8] == ["10.0 %", "30.0 %", "1.50 s", "1.50 s"]
    assert rows[3][4:8] == ["0 %", "0 %", "1.50 s", "1.50 s"]
    assert "- 7 of 20 runs" in text
    assert folder.campaign().digest in text


def test_the_summary_has_unacknowledged_success_where_any_run_has_it(tmp_path: Path) -> None:
    """With the interval of the median, which needs six runs."""
    some = [run(unacknowledged=number) for number in (10, 20, 30, 40, 50, 60)]
    folder = build(tmp_path / "c", {ON: some, OFF: some[:3]})
    write_summary(folder)
    head, _, on, off = (line for line in folder.summary.read_text().splitlines() if "|" in line)
    place = head.split(" | ").index("unacknowledged success, median")
    assert on.split(" | ")[place] == "3.5 % (1.0 % to 6.0 %)"
    assert off.split(" | ")[place] == "2.0 %"
    write_summary(none := build(tmp_path / "none", {ON: [run()]}))
    assert "unacknowledged" not in none.summary.read_text()


VERSIONS = (
    AXES
    + """
[axes.version]
key = "target.version"
values = ["0.8.1.1", "4.3.1"]
"""
)
VAIN = f"{OFF}, version=0.8.1.1"


def test_a_cell_that_never_runs_is_skipped_with_its_reason(tmp_path: Path) -> None:
    folder = build(tmp_path / "c", {f"{ON}, version=4.3.1": [run()] * 2}, axes=VERSIONS)
    Junit(folder, folder.campaign()).write()
    (skipped,) = cases(folder)["loss", VAIN].result
    assert isinstance(skipped, Skipped)
    assert str(skipped.text).startswith("impossible: topic.settings.")
    write_summary(folder)
    (row,) = (line for line in folder.summary.read_text().splitlines() if VAIN in line)
    assert "impossible: " in row
    assert "KAFKA-1028" in row
    assert "2 of 30 runs" in folder.summary.read_text()
