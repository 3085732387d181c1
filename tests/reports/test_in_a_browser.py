"""The pages in a real browser: with and without JavaScript, by keyboard, on a phone, in print."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.history.run_folder import RunDir
from reports.compare import write_comparison
from tests.fixtures.budget import full_of

pytestmark = pytest.mark.browser

NAMES = ("unclean", "safe", "unknown", "stopped", "partitions")
STAGE = ".stage"
READOUT = ".readout"
PAINTED = """() => {
    const canvas = document.querySelector('.stage canvas');
    const pen = canvas.getContext('2d');
    const data = pen.getImageData(0, 0, canvas.width, canvas.height).data;
    let n = 0;
    for (let i = 3; i < data.length; i += 4) n += data[i] > 0;
    return n;
}"""

CLIPPED = """() => [...document.querySelectorAll(
    'h1, h2, h3, p, li, dt, dd, th, td, summary, svg text')]
    .filter((each) => {
        const box = each.getBoundingClientRect();
        const room = each.closest('.reach svg, .scroll, main').getBoundingClientRect();
        const hidden = !box.width || each.closest('.counter-example .scroll, .unseen, .skip')
            || (innerWidth < 640 && each.closest('.matrix'));
        const left = each.closest('.reach svg') ? room.left - 1 : 0;
        return !hidden && (box.right > room.right + 1 || box.left < left);
    }).map((each) => each.textContent.trim().slice(0, 60))"""
"""What a reader would have to guess, or scroll to: text beyond the page's edge, or that of its
table. A drawing of a counter-example, and a matrix of cells, alone may be wider than a phone."""

UNFOLDED = "() => document.querySelectorAll('details').forEach((each) => { each.open = true; })"

HATCHED = """() => {
    const canvas = document.querySelector('.stage canvas');
    const tone = getComputedStyle(document.documentElement).getPropertyValue('--absent').trim();
    const wanted = [1, 3, 5].map((at) => parseInt(tone.slice(at, at + 2), 16));
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const is = (at) => wanted.every((each, part) => Math.abs(data[at + part] - each) < 8);
    let n = 0;
    for (let at = 0; at < data.length; at += 4) n += is(at);
    return n;
}"""
"""The number of pixels of the timeline in the colour of what was processed again."""


def painted(page: Any) -> int:
    """The number of painted pixels on the timeline's canvas."""
    return int(page.evaluate(PAINTED))


@pytest.mark.parametrize(
    ("width", "theme", "name"),
    [
        *((390, "light", name) for name in (*NAMES, "group", "transactions")),
        (1300, "dark", "unclean"),
        (1300, "dark", "group"),
        *full_of(*((1300, "dark", name) for name in (*NAMES[1:], "transactions"))),
    ],
)
def test_it_opens_without_trouble(
    runs: dict[str, RunDir], visit: Any, name: str, width: int, theme: str
) -> None:
    page = visit(runs[name].report, width=width, color_scheme=theme)
    assert page.troubles == []
    page.evaluate(UNFOLDED)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CLIPPED) == []
    if name != "stopped":
        assert page.is_visible(STAGE)
        assert not page.is_visible(".still")
        assert painted(page) > 10_000


def test_untrusted_text_has_no_effect_and_is_shown(runs: dict[str, RunDir], visit: Any) -> None:
    page = visit(runs["hostile"].report)
    assert page.troubles == []
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 2, "only the two still pictures"
    shown = page.inner_text("main")
    assert "</script><script>window.hacked=1</script>" in shown
    assert "\\u202eevil" in shown
    data = json.loads(page.locator("#data").text_content())
    assert data[0]["title"].startswith("</script><script>window.hacked=1")
    page.hover(STAGE, position={"x": 500, "y": 200})
    assert page.evaluate("window.hacked") is None


def test_the_policy_blocks_injected_markup(
    runs: dict[str, RunDir], visit: Any, tmp_path: Path
) -> None:
    """The last defence: if markup were injected, the browser would block it."""
    slipped = (
        b"<script>window.hacked=1</script><img src='https://example.invalid/x.png'"
        b" onerror='window.hacked=2'><svg onload='window.hacked=3'></svg></main>"
    )
    copy = tmp_path / "slipped.html"
    copy.write_bytes(runs["safe"].report.read_bytes().replace(b"</main>", slipped))
    page = visit(copy)
    page.wait_for_timeout(200)
    assert page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in trouble for trouble in page.troubles)


def test_it_can_be_read_without_javascript(runs: dict[str, RunDir], visit: Any) -> None:
    for theme, shown, hidden in (
        ("light", ".on-light", ".on-dark"),
        ("dark", ".on-dark", ".on-light"),
    ):
        page = visit(runs["unclean"].report, java_script_enabled=False, color_scheme=theme)
        assert page.is_visible(f"img{shown}")
        assert not page.is_visible(f"img{hidden}")
        assert not page.is_visible(".live")
        box = page.locator(f"img{shown}").bounding_box()
        assert box["width"] > 600
        assert box["height"] > 300, "the picture is loaded"
        for heading in ("Rates", "Lost writes", "Faults and their proof", "Run it again"):
            assert page.get_by_role("heading", name=heading).is_visible()
        assert page.get_by_text("first of 842").is_visible()
        assert page.troubles == []


def test_print_shows_the_still_picture(runs: dict[str, RunDir], visit: Any) -> None:
    page = visit(runs["unclean"].report, color_scheme="dark")
    page.emulate_media(media="print")
    assert page.is_visible("img.on-light")
    assert not page.is_visible("img.on-dark")
    assert not page.is_visible(".live")


def test_pointing_shows_the_state_at_an_instant(runs: dict[str, RunDir], visit: Any) -> None:
    page = visit(runs["unclean"].report)
    width = page.locator(f"{STAGE} canvas").bounding_box()["width"]
    page.hover(STAGE, position={"x": 66 + (width - 74) * 25 / 41.81, "y": 430})
    readout = page.inner_text(READOUT)
    assert "fault cut: partition b3 (proven)" in readout
    assert "fault isolate" in readout
    assert (
        "partition 0: b1 leads (epoch 6), in sync 2: b1, b2; b3 believes that it leads (epoch 5)"
        in readout
    )
    assert re.search(
        r"per second: attempted 100 · acknowledged, survived 6\d · lost 3[34]", readout
    )


def test_the_timeline_works_by_keyboard(runs: dict[str, RunDir], visit: Any) -> None:
    page = visit(runs["unclean"].report)
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "stage":
            break
    assert page.evaluate("document.activeElement.className") == "stage"
    page.keyboard.press("l")
    readout = page.inner_text(READOUT)
    assert "LOST" in readout
    assert readout.startswith("6.0"), "the first lost write was due just after the cut"
    assert page.locator("[aria-live]").first.text_content(), "and it is announced"
    page.keyboard.press("ArrowRight")
    assert page.inner_text(READOUT) != readout
    before = painted(page)
    for _ in range(4):
        page.keyboard.press("+")
    page.wait_for_function(f"before => ({PAINTED})() !== before", arg=before)
    page.keyboard.press("Escape")
    page.locator(READOUT).wait_for(state="hidden")


def test_kinds_of_writes_can_be_hidden(runs: dict[str, RunDir], visit: Any) -> None:
    page = visit(runs["unclean"].report)
    before = painted(page)
    button = page.get_by_role("button", name="acknowledged, survived")
    assert button.get_attribute("aria-pressed") == "true"
    button.focus()
    page.keyboard.press("Space")
    assert button.get_attribute("aria-pressed") == "false"
    page.wait_for_function(f"before => ({PAINTED})() < before", arg=before)


def test_another_partition_can_be_chosen(runs: dict[str, RunDir], visit: Any) -> None:
    page = visit(runs["partitions"].report)
    before = page.locator(f"{STAGE} canvas").bounding_box()["height"]
    page.select_option("select", "5")
    assert page.locator(f"{STAGE} canvas").bounding_box()["height"] < before
    page.locator(STAGE).hover(position={"x": 400, "y": 200})
    assert "partition 5: b2 leads" in page.inner_text(READOUT)


def test_a_phone_shows_the_readout_below_the_timeline(runs: dict[str, RunDir], visit: Any) -> None:
    page = visit(runs["unclean"].report, width=390, has_touch=True)
    canvas = page.locator(f"{STAGE} canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.touchscreen.tap(box["x"] + 200, box["y"] + 150)
    assert "leads" in page.inner_text(READOUT)
    below = page.locator(READOUT).bounding_box()
    assert below["y"] >= canvas.bounding_box()["y"] + box["height"]


@pytest.mark.usefixtures("undrawn")
def test_compared_timelines_move_together(
    runs: dict[str, RunDir], visit: Any, tmp_path: Path
) -> None:
    path = tmp_path / "compare.html"
    write_comparison(runs["unclean"], runs["safe"], path)
    page = visit(path)
    assert page.troubles == []
    stages = page.locator(STAGE)
    assert stages.count() == 2
    second = """() => {
        const canvas = document.querySelectorAll('.stage canvas')[1];
        return canvas.toDataURL();
    }"""
    before = page.evaluate(second)
    stages.first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("+")
    page.wait_for_function(f"before => ({second})() !== before", arg=before)


def test_a_group_is_drawn_as_it_was_counted(runs: dict[str, RunDir], visit: Any) -> None:
    run = runs["group"]
    counts = run.read_json(run.result)["counts"]
    page = visit(run.report)
    legend = page.inner_text(".keys.panels")
    assert f"processed again {counts['reprocessed']}" in legend
    assert f"skipped {counts['skipped']}" in legend
    panels = json.loads(page.locator("#data").text_content())[0]["panels"]
    assert sum(area[-1] for panel in panels for area in panel["areas"]) == counts["reprocessed"]
    assert panels[0]["partition"] == 0, "the partition with findings is the first"
    assert page.evaluate(HATCHED) > 50
    assert visit(runs["safe"].report).evaluate(HATCHED) == 0


def test_an_aborted_transaction_is_drawn_with_its_reader(
    runs: dict[str, RunDir], visit: Any
) -> None:
    page = visit(runs["transactions"].report)
    drawing = page.locator(".counter-example").first
    assert drawing.locator("rect.aborted").count() == 1
    assert drawing.locator("rect.stuck").count() == 1
    assert "was aborted" in drawing.inner_text()
    assert "read_uncommitted, which asks for that" in drawing.inner_text()
    assert visit(runs["safe"].report).locator(".counter-example").count() == 0
