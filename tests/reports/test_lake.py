"""The overview of a lake as a page and as Markdown: self-contained, small, and text is never
markup."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.lake.overview import Overview, overview_of
from harness.protocols import PrimaryFinding
from reports.lake import as_markdown, others, write_markdown, write_page
from tests.fixtures.budget import full_of
from tests.fixtures.campaign_folder import OFF, ON
from tests.fixtures.lakes import campaign, lake_of
from tests.fixtures.result_documents import FAILED, lossy, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

HOSTILE = "<script>alert(1)</script>|`x`\u202e"
STARVED = run("unknown", doubts=("starved",))


@pytest.fixture(scope="module")
def overview(tmp_path_factory: pytest.TempPathFactory) -> Overview:
    folder = tmp_path_factory.mktemp("campaigns")
    first, second = (
        campaign(folder / name, runs, name=name[:3], versions={"target": "4.3.1"})
        for name, runs in {
            "one": {ON: [lossy()] * 9 + [run()], OFF: [run()] * 9 + [STARVED]},
            "two": {ON: [run()] * 40, OFF: [FAILED] * 2},
        }.items()
    )
    third = campaign(
        folder / f"three {HOSTILE.replace('/', '')}", {ON: [run()]}, versions={"target": HOSTILE}
    )
    return overview_of(lake_of(folder / "lake", first, second, third))


@pytest.fixture(scope="module")
def page(overview: Overview, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "lake.html"
    write_page(overview, path)
    return path


def text_of(page: Path) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page.read_text()).split())


def test_the_page_has_rates_trends_and_what_does_not_count(page: Path) -> None:
    text = text_of(page)
    assert "9 of 50 18.0 % (8.6 % to 31.4 %) median loss rate 0 % ≠ one: 9 of 10" in text
    assert "≠ two: 0 of 40" in text
    assert "9 of 9 100.0 %" not in text
    assert "0 of 9 at most 33.6 % 3 do not count 2 of 3 campaigns" in text
    assert "no conclusive run" in text
    assert "two no conclusive run — 2" in text, "in the trend"
    assert "3 of 63 runs do not count, and are not runs without lost writes" in text
    assert 'title="never ran">—<' in page.read_text()
    assert page.read_text().count("data:image/svg+xml,") == 2


def test_the_page_needs_nothing_else_and_text_is_not_markup(page: Path) -> None:
    body = page.read_text()
    assert "<script>alert" not in body
    assert "\u202e" not in body
    assert not re.findall(r'(?:src|href)="(?!data:|#)', body)
    assert "default-src &#39;none&#39;" in body


def test_the_markdown_has_the_same_contents(overview: Overview, tmp_path: Path) -> None:
    write_markdown(overview, tmp_path / "lake.md")
    text = (tmp_path / "lake.md").read_text()
    assert text == as_markdown(overview)
    assert "<script>" not in text
    assert "\u202e" not in text
    assert "9 of 50: 18.0 % (8.6 % to 31.4 %); median loss rate 0 %; ≠ one: 9 of 10" in text
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = [re.split(r"(?<!\\)\|", row) for row in table.splitlines()]
        assert len({len(row) for row in rows}) == 1


def test_what_was_seen_in_runs_that_do_not_count_is_said_once(overview: Overview) -> None:
    """`no conclusive run; 1 of 1 others lost; 1 does not count, 1 of them with lost writes`."""
    pool = overview.groups[0].settings[0].versions[0].pools[0]
    none = replace(pool, conclusive=0, lossy=0, inconclusive=1, inconclusive_lossy=1)
    unseen, finding = replace(none, inconclusive_lossy=0), PrimaryFinding()
    assert not others(none, finding)
    assert others(unseen, finding) == "1 does not count"
    many = replace(pool, inconclusive=2, inconclusive_lossy=1)
    assert others(many, finding) == "2 do not count, 1 of them with counter-examples"


@pytest.mark.full
def test_a_page_of_many_campaigns_stays_small(overview: Overview, tmp_path: Path) -> None:
    """14,800 rows of cells: 148 cells in 100 campaigns, one run each."""
    group = overview.groups[0]
    line = next(line for line in group.trend if line.name == ON)
    points = [replace(line.campaigns[0], campaign=place) for place in range(100)]
    names = [f"2026-01-01 night {place}" for place in range(100)]
    many = replace(
        group,
        campaigns=names,
        trend=[replace(line, name=f"cell={n}, {ON}", campaigns=points) for n in range(148)],
        settings=[replace(group.settings[0], name=f"cell={n}, {ON}") for n in range(148)],
    )
    summary = overview.campaigns[0]
    large = replace(
        overview, campaigns=[replace(summary, id=name) for name in names], groups=[many]
    )
    write_page(large, tmp_path / "p.html")
    assert (tmp_path / "p.html").stat().st_size < 1e6
    text = text_of(tmp_path / "p.html")
    assert "The picture has the 24 of 148 cells with the largest changes" in text
    assert "It has the latest 20 of 100 campaigns" in text
    assert "The table has the latest 6 of 100 campaigns" in text


def test_every_group_with_a_trend_has_a_picture(overview: Overview, tmp_path: Path) -> None:
    (group,) = overview.groups
    many = [replace(line, name=f"{line.name} {n}") for n in range(30) for line in group.trend]
    write_page(replace(overview, groups=[replace(group, trend=many), group]), tmp_path / "p.html")
    assert (tmp_path / "p.html").read_text().count("data:image/svg+xml,") == 4
    assert "The picture has the 12 of 60 cells" in text_of(tmp_path / "p.html")


@pytest.mark.browser
@pytest.mark.parametrize(
    ("width", "theme"), [(390, "light"), (1440, "dark"), *full_of((390, "dark"), (1440, "light"))]
)
def test_it_opens_without_trouble(page: Path, visit: Any, width: int, theme: str) -> None:
    shown = visit(page, width=width, color_scheme=theme)
    assert shown.troubles == []
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    assert shown.is_visible(f".still .on-{theme}")
    assert shown.locator("table.versions tbody tr").count() == 2
    assert shown.locator("img").count() == 2
