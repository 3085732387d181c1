"""The page of a campaign in a real browser: filters, order, keyboard, phone, print, 5,000 runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from reports.campaign import write_campaign
from tests.fixtures.budget import full_of
from tests.fixtures.synthetic_campaign import ONE_AXIS, Chances, Synthetic, Truth, build_campaign
from tests.reports.conftest import EVIL
from tests.reports.test_in_a_browser import CLIPPED, UNFOLDED

pytestmark = pytest.mark.browser

Made = tuple[Path, Truth]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """36 cells, 4 runs each."""
    folder, truth = build_campaign(tmp_path_factory.mktemp("c") / "c", Synthetic(runs=4, pages=2))
    return write_campaign(folder), truth


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Made:
    chances = Chances(loss=0.2, unknown=0.3, harness_failure=0.4)
    kind = Synthetic(
        axes=ONE_AXIS, runs=12, chances=lambda key: chances, error=EVIL, reason=EVIL, events=(EVIL,)
    )
    folder, truth = build_campaign(tmp_path_factory.mktemp("c") / "c", kind)
    return write_campaign(folder), truth


def rows(page: Any) -> int:
    return int(page.locator("table.runs tbody tr").count())


@pytest.mark.parametrize(
    ("which", "width", "theme"),
    [
        ("small", 390, "light"),
        ("hostile", 1300, "dark"),
        *full_of(("small", 1300, "dark"), ("hostile", 390, "light")),
    ],
)
def test_it_opens_without_trouble(
    request: pytest.FixtureRequest, visit: Any, which: str, width: int, theme: str
) -> None:
    page = visit(request.getfixturevalue(which)[0], width=width, color_scheme=theme)
    assert page.troubles == []
    page.evaluate(UNFOLDED)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CLIPPED) == []
    assert rows(page) > 0
    for image in page.locator(f"img.on-{theme}").all():
        assert image.bounding_box()["height"] > 50, "the picture is loaded"


def test_a_cell_links_to_its_runs(small: Made, visit: Any) -> None:
    page = visit(small[0])
    name = "unclean=true, min_isr=2, acks=all, faults=kill"
    square = page.locator(f'a[data-cell][aria-label*="{name}"]')
    square.focus()
    page.keyboard.press("Enter")
    assert rows(page) == 4
    assert set(page.locator("table.runs td.cell").all_inner_texts()) == {f"11: {name}"}
    assert page.evaluate("document.activeElement.id") == "runs"
    assert "Showing 1 to 4 of 4 runs (144 in all)." in page.inner_text("#run-table")
    page.get_by_role("button", name="show all").click()
    assert rows(page) == 50


def test_runs_can_be_filtered_by_class_and_text(small: Made, visit: Any) -> None:
    page = visit(small[0])
    classes = Counter(small[1].runs.values())
    page.select_option("#pick-class", label="lost writes")
    assert f"of {classes['loss']} runs" in page.inner_text("[role=status]")
    page.fill("#pick-text", "faults=storm")
    assert page.locator("table.runs td.cell").first.inner_text().endswith("faults=storm")
    page.fill("#pick-text", "nothing matches this")
    assert "No run matches" in page.inner_text("[role=status]")


def test_runs_can_be_sorted_with_the_unknown_last(small: Made, visit: Any) -> None:
    page = visit(small[0])
    head = page.get_by_role("columnheader", name="loss rate")
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    first = page.locator("table.runs tbody tr").first.locator("td.n").all_inner_texts()
    highest = float(first[2].removesuffix(" %"))
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    lowest = page.locator("table.runs tbody tr").first.locator("td.n").all_inner_texts()
    assert lowest[2] == "0 %"
    assert highest > 50
    page.select_option("#pick-class", label="unknown")
    page.get_by_role("button", name="show all").click()
    for _ in range(2):
        page.get_by_role("button", name="next →").click()
    assert page.locator("table.runs tbody tr").last.locator("td.n").all_inner_texts()[2] == "—"


def test_pages_are_turned(small: Made, visit: Any) -> None:
    page = visit(small[0])
    previous, following = (
        page.get_by_role("button", name=name) for name in ("← previous", "next →")
    )
    assert previous.is_disabled()
    following.click()
    following.click()
    assert "Showing 101 to 144 of 144 runs." in page.inner_text("[role=status]")
    assert following.is_disabled()


def test_a_run_is_linked_to_its_page(small: Made, visit: Any) -> None:
    page = visit(small[0])
    links = page.locator("table.runs a")
    assert links.nth(0).get_attribute("href").endswith("/report.html")
    assert links.nth(2).get_attribute("href").endswith("/")
    links.nth(0).click()
    assert page.title() == "a run"


def test_untrusted_text_has_no_effect_and_is_shown(hostile: Made, visit: Any) -> None:
    page = visit(hostile[0])
    assert page.evaluate("window.hacked") is None
    shown = page.inner_text("main")
    assert "</script><script>window.hacked=1</script>" in page.inner_text("table.runs")
    assert "\\u202eevil" in shown
    assert page.locator("img").count() == 2, "only the still pictures"


def test_it_can_be_read_without_javascript(small: Made, visit: Any) -> None:
    page = visit(small[0], java_script_enabled=False)
    for heading in ("Conclusions", "Lost writes against availability", "Cells compared"):
        assert page.get_by_role("heading", name=heading).is_visible()
    assert page.get_by_text("The table needs JavaScript").is_visible()
    assert page.locator("a[data-cell]").count() == 36


def test_print_has_the_shades_and_no_controls(small: Made, visit: Any) -> None:
    page = visit(small[0], color_scheme="dark")
    page.emulate_media(media="print")
    assert not page.is_visible(".picks")
    assert page.locator("img.on-both").first.is_visible()
    assert page.evaluate(FILTER) == "none", "on white paper"
    shade = "getComputedStyle(document.querySelector('.shade-10')).printColorAdjust"
    assert page.evaluate(shade) == "exact"


FILTER = "getComputedStyle(document.querySelector('img.on-both')).filter"


def luminance(page: Any, place: str) -> float:
    return float(
        page.evaluate(
            """(place) => {
                const canvas = document.createElement('canvas');
                const pen = canvas.getContext('2d');
                pen.fillStyle = getComputedStyle(document.querySelector(place)).backgroundColor;
                pen.fillRect(0, 0, 1, 1);
                const parts = pen.getImageData(0, 0, 1, 1).data;
                const linear = [0, 1, 2].map((n) => {
                    const c = parts[n] / 255;
                    return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
                });
                return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
            }""",
            place,
        )
    )


@pytest.mark.parametrize(
    ("theme", "inverted", "ink"), [("light", False, 0.0168), ("dark", True, 0.809)]
)
def test_a_picture_is_inverted_on_dark_paper_and_the_darkest_cell_can_be_read(
    small: Made, visit: Any, theme: str, inverted: bool, ink: float
) -> None:
    page = visit(small[0], color_scheme=theme)
    assert page.locator("img.on-both").first.is_visible()
    assert ("invert" in page.evaluate(FILTER)) == inverted
    back = luminance(page, ".shade-10")
    contrast = (max(ink, back) + 0.05) / (min(ink, back) + 0.05)
    assert contrast > 4.5


@pytest.mark.full
def test_5000_runs_open_at_once(
    tmp_path: Path, visit: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The time is printed, not asserted, as the machine may be busy. The test asserts its causes:
    few rows are drawn, runs beyond 1,000 are left to the tables, and the page is small."""
    folder, truth = build_campaign(tmp_path / "c", Synthetic(runs=140))
    path = write_campaign(folder)
    page = visit(path)
    times = page.evaluate("performance.getEntriesByType('navigation')[0].toJSON()")
    with capsys.disabled():
        print(
            f"\n{len(truth.runs)} runs, {path.stat().st_size / 1e6:.1f} MB: "
            f"interactive after {times['domInteractive']:.0f} ms, "
            f"loaded after {times['loadEventEnd']:.0f} ms"
        )
    assert rows(page) == 50
    shown = "of 972 runs (972 listed, of 5,040)"
    assert shown in page.inner_text("[role=status]"), "27 of each of 36 cells"
    assert "The table lists at most 27 runs of each cell" in page.inner_text("body")
    assert path.stat().st_size < 400_000
    assert page.locator("*").count() < 6000
