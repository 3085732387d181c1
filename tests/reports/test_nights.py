"""Nights compared, as Markdown and as a page; nothing in a folder's name or values is markup."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from analysis.nights.document import nights_document
from analysis.nights.figure import draw_trend
from reports import markdown
from reports.nights import as_markdown, write_markdown, write_page
from tests.fixtures.campaign_folder import OFF, ON, build
from tests.fixtures.result_documents import lossy, run

HOSTILE = "<script>alert(1)</script>|`x`\u202e"


@pytest.fixture
def document(tmp_path: Path) -> dict[str, Any]:
    nights = [
        build(tmp_path / "first", {ON: [lossy()] * 9, OFF: []}),
        build(tmp_path / "second", {ON: [lossy()] * 9 + [run()], OFF: [run()] * 10}),
        build(
            tmp_path / f"third {HOSTILE.replace('/', '')}",
            {ON: [lossy()] * 9 + [run()], OFF: [lossy()] * 8 + [run()] * 2},
            versions={"target": HOSTILE},
        ),
    ]
    return nights_document(nights)


def test_the_page_tells_what_the_document_says(document: dict[str, Any], tmp_path: Path) -> None:
    write_page(document, tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text()
    assert re.search(r"<h1>1 regression: third ", page)
    assert "unclean=false" in page
    assert "0 of 10 lossy before, 8 of 10 lossy now" in page
    assert page.count('class="bad"') == 1
    assert page.index("loses more often: 0 of 10") < page.index("no difference shown: 9 of 10")
    assert page.count("data:image/svg+xml;base64,") == 2


def test_nothing_in_it_is_taken_for_markup(document: dict[str, Any], tmp_path: Path) -> None:
    write_page(document, tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text()
    assert "<script>alert" not in page
    assert "\u202e" not in page
    text = as_markdown(document)
    assert "<script>" not in text
    assert "\u202e" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = [re.split(r"(?<!\\)\|", row) for row in rows]
    assert {len(row) for row in cells[:4]} == {7}
    assert {len(row) for row in cells[4:]} == {6}


def test_the_markdown_says_the_same(document: dict[str, Any], tmp_path: Path) -> None:
    write_markdown(document, tmp_path / "n.md")
    text = (tmp_path / "n.md").read_text()
    for sentence in document["conclusion"]:
        assert markdown.text(sentence) in text
    assert "| ▲ | unclean=false |" in text
    assert "flaky before and now" in text


def test_the_figure_has_a_panel_for_each_cell_and_no_guess_for_a_night_without_runs(
    document: dict[str, Any],
) -> None:
    figure = draw_trend(document["trend"], document["nights"])
    shown = [panel for panel in figure.axes if panel.get_visible()]
    assert [panel.get_title(loc="left") for panel in shown] == [ON, OFF]
    line, unjudged = shown[1].lines[0], shown[1].lines[-1]
    assert list(line.get_xdata()) == [1, 2]
    assert list(line.get_ydata()) == [0.0, 0.8]
    assert list(unjudged.get_xdata()) == [0]


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_opens_without_trouble(
    document: dict[str, Any], tmp_path: Path, visit: Any, width: int, theme: str
) -> None:
    write_page(document, tmp_path / "p.html")
    page = visit(tmp_path / "p.html", width=width, color_scheme=theme)
    assert page.troubles == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.is_visible(f".still .on-{theme}")
    assert page.locator("img").count() == 2
