"""The comparison of campaigns as Markdown and as a page; untrusted text is never markup."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from analysis.campaign_figures import draw_trend
from analysis.comparison import CampaignComparison, compare_campaigns
from reports import ci
from reports.compare import as_markdown, write_markdown, write_page
from tests.fixtures.budget import full_of
from tests.fixtures.campaign_folder import OFF, ON, build
from tests.fixtures.result_documents import lossy, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

HOSTILE = "<script>alert(1)</script>|`x`\u202e"


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> CampaignComparison:
    folder = tmp_path_factory.mktemp("campaigns")
    campaigns = [
        build(folder / "first", {ON: [lossy()] * 9, OFF: []}),
        build(folder / "second", {ON: [lossy()] * 9 + [run()], OFF: [run()] * 10}),
        build(
            folder / f"third {HOSTILE.replace('/', '')}",
            {ON: [lossy()] * 9 + [run()], OFF: [lossy()] * 8 + [run()] * 2},
            versions={"target": HOSTILE},
        ),
    ]
    return compare_campaigns(campaigns)


def test_the_page_has_the_contents_of_the_document(
    comparison: CampaignComparison, tmp_path: Path
) -> None:
    write_page(comparison, tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text()
    assert re.search(
        r"<h1>1 regression in \d cells: third .*; runs with lost writes: 1\d of 20 ", page
    )
    assert "unclean=false" in page
    assert "0 of 10 with lost writes before, 8 of 10 with lost writes now" in page
    assert page.count('class="bad"') == 1
    assert page.index("lost writes more often: 0 of 10") < page.index(
        "no difference shown: 9 of 10"
    )
    assert page.count("data:image/svg+xml,") == 2


def test_the_headline_counts_doubtful_cells(tmp_path: Path) -> None:
    unknown = [run("unknown", doubts=("incomplete",))] * 25
    campaigns = [
        build(tmp_path / "old", {ON: [lossy()] * 25 + [run()] * 25, OFF: [run()] * 5}),
        build(tmp_path / "new", {ON: [run()] * 25 + unknown, OFF: unknown}),
    ]
    first, *_ = as_markdown(compare_campaigns(campaigns)).splitlines()
    assert first == (
        "# No regression in 2 cells, 1 of 2 cells cannot be compared, 1 doubtful: new against old; "
        "runs with lost writes: 0 of 25 (0 %), before 25 of 55 (45.5 %)"
    )


def test_the_markdown_has_the_same_contents(comparison: CampaignComparison, tmp_path: Path) -> None:
    write_markdown(comparison, tmp_path / "n.md")
    text = (tmp_path / "n.md").read_text()
    for sentence in comparison.conclusion:
        assert ci.text(sentence) in text
    assert "| ▲ | unclean=false |" in text
    assert "flaky before and now" in text


def test_the_figure_has_a_panel_for_each_cell_and_a_gap_without_conclusive_runs(
    comparison: CampaignComparison,
) -> None:
    figure = draw_trend(comparison.trend, comparison.campaigns)
    shown = [panel for panel in figure.axes if panel.get_visible()]
    assert [panel.get_title(loc="left") for panel in shown] == [ON, OFF]
    line, unjudged = shown[1].lines[0], shown[1].lines[-1]
    assert list(line.get_xdata()) == [1, 2]
    assert list(line.get_ydata()) == [0.0, 0.8]
    assert list(unjudged.get_xdata()) == [0]


@pytest.mark.browser
@pytest.mark.parametrize(
    ("width", "theme"), [(390, "light"), (1440, "dark"), *full_of((390, "dark"), (1440, "light"))]
)
def test_it_opens_without_trouble(
    comparison: CampaignComparison, tmp_path: Path, visit: Any, width: int, theme: str
) -> None:
    write_page(comparison, tmp_path / "p.html")
    page = visit(tmp_path / "p.html", width=width, color_scheme=theme)
    assert page.troubles == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.is_visible(f".still .on-{theme}")
    assert page.locator("img").count() == 2
