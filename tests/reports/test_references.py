"""Reference figures: on the page of a run, of two runs compared, and of a campaign."""

from __future__ import annotations

from csv import DictReader
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.history.documents import Counts
from harness.history.run_folder import RunDir
from reports.campaign import write_campaign
from reports.compare import write_comparison
from reports.page import write_report
from reports.references import LABELS, Reference, ReferenceFigure, cell_rows, compared
from tests.fixtures.synthetic_campaign import ONE_AXIS, Synthetic, build_campaign
from tests.fixtures.synthetic_run import Story, build
from tests.reports.test_page import Parsed

pytestmark = [pytest.mark.slow, pytest.mark.pages, pytest.mark.usefixtures("undrawn")]

COUNTS = {
    "attempted": 1000, "acknowledged": 987, "survivors": 468, "lost": 520,
    "unacknowledged_found": 1,
}  # fmt: skip
REFERENCE = {"source": "Aphyr, 2013", "figures": COUNTS, "differs": ["He drained the topic."]}
APHYR = Reference("Aphyr, 2013", Counts(**COUNTS), ("He drained the topic.",))
OURS = COUNTS | {"acknowledged": 1000, "survivors": 500, "lost": 500, "unacknowledged_found": 0}


def with_references(run: RunDir, *references: dict[str, Any]) -> RunDir:
    run.write_json(run.plan, {**run.read_json(run.plan), "reference": list(references)})
    return run


def test_rates_have_the_digits_of_2013() -> None:
    rows = {row.label: row for row in compared([Counts(**OURS)], [APHYR])}
    assert tuple(rows) == LABELS
    assert [rows[label].references[0].figure for label in LABELS[5:]] == [
        "0.987", "0.52684903", "0.0010131713",
    ]  # fmt: skip
    assert rows["acknowledged"].references == (ReferenceFigure("987", ("+13",)),)
    assert rows["acknowledged and lost"].references == (ReferenceFigure("520", ("−20",)),)
    assert rows["loss rate"].ours == ("0.5",)
    assert rows["loss rate"].references[0].differences == ("−0.0268",)
    assert rows["attempted"].references[0].differences == ("0",)


def test_a_run_that_was_not_judged_has_no_figures_and_no_difference() -> None:
    for row in compared([None], [APHYR]):
        assert row.ours == ("—",)
        assert row.references[0].differences == ("—",)


def test_a_rate_with_denominator_0_is_not_0() -> None:
    nothing = dict.fromkeys(COUNTS, 0) | {"attempted": 10}
    rows = {row.label: row for row in compared([Counts(**nothing)], [APHYR])}
    assert (rows["ack rate"].ours, rows["loss rate"].ours) == (("0",), ("—",))


def test_a_cell_has_the_median_and_range_of_its_conclusive_runs() -> None:
    def row(name: str, lost: int) -> dict[str, Any]:
        counts = OURS | {"lost": lost, "survivors": 1000 - lost}
        return {"cell": "a", "class": name, "conclusive": name in ("loss", "none"), **counts}

    runs = [row("loss", 400), row("loss", 500), row("none", 0), row("unknown", 999)]
    first, second = cell_rows(["a", "b"], runs)
    figures = dict(zip(LABELS, first.figures, strict=True))
    assert first.runs == 3
    assert figures["acknowledged and lost"] == ("400", "0 to 500")
    assert figures["loss rate"] == ("0.4", "0 to 0.5")
    assert figures["attempted"] == ("1,000", "")
    assert (second.runs, set(second.figures)) == (0, {("—", "")})


def test_the_page_of_a_run_shows_them(tmp_path: Path) -> None:
    run = with_references(build(tmp_path, Story(rate_per_s=10)), REFERENCE)
    write_report(run)
    text = Parsed(run.report.read_text(encoding="utf-8")).words
    lost = run.read_json(run.result)["counts"]["lost"]
    assert f"acknowledged and lost {lost} 520 −{520 - lost}" in text
    assert "0.52684903" in text
    assert "Differences of Aphyr, 2013 He drained the topic." in text


def test_a_page_without_references_has_no_such_table(runs: dict[str, RunDir]) -> None:
    text = Parsed(runs["unclean"].report.read_text(encoding="utf-8")).words
    assert "Reference figures" not in text


def test_an_unknown_run_proves_nothing(tmp_path: Path) -> None:
    story = Story(name="unknown", rate_per_s=10, verdict="unknown", reason="not proven")
    run = with_references(build(tmp_path, story), REFERENCE)
    write_report(run)
    text = Parsed(run.report.read_text(encoding="utf-8")).words
    assert "The verdict of this run is unknown: its figures prove nothing." in text


def test_two_runs_share_one_table_and_references_are_no_difference(tmp_path: Path) -> None:
    a, b = (build(tmp_path, Story(rate_per_s=10), run_id=f"run-{n}") for n in "ab")
    with_references(a, REFERENCE)
    document = write_comparison(a, b, tmp_path / "compare.html")
    text = Parsed((tmp_path / "compare.html").read_text(encoding="utf-8")).words
    assert document["differences"] == []
    lost = a.read_json(a.result)["counts"]["lost"]
    difference = f"−{520 - lost}"
    assert f"acknowledged and lost {lost} {lost} 520 {difference} {difference}" in text
    assert "Aphyr, 2013 difference, first difference, second" in text


def test_the_page_of_a_campaign_shows_its_cells_with_them(tmp_path: Path) -> None:
    folder, truth = build_campaign(tmp_path / "c", Synthetic(axes=ONE_AXIS, runs=6))
    bare = Parsed(write_campaign(folder).read_text(encoding="utf-8")).words
    assert "Reference figures" not in bare
    base = orjson.loads(folder.base.read_bytes())
    folder.base.write_bytes(orjson.dumps({**base, "reference": [REFERENCE]}))
    text = Parsed(write_campaign(folder).read_text(encoding="utf-8")).words
    assert "Aphyr, 2013 — 1,000 987 468 520 1 0.987 0.52684903 0.0010131713" in text
    for name, classes in truth.cells.items():
        conclusive = sum(classes[kind] for kind in ("loss", "none", "wrong"))
        assert f"{name} {conclusive} " in text
    assert "He drained the topic." in text
    with (folder.tables / "runs.csv").open(newline="") as stream:
        spans = {
            (row["class"] == "loss", row["lost_from_s"], row["lost_until_s"])
            for row in DictReader(stream)
        }
    assert spans == {(True, "3", "7.25"), (False, "", "")}
