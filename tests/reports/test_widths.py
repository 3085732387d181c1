"""Words of headers are whole beside many columns, and charts are not cut off on a phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import reports

pytestmark = pytest.mark.browser

CSS = (Path(reports.__file__).parent / "static" / "page.css").read_text()
CELLS = "".join(
    f'<td class="n">{n} / 9 <span class="detail">19.4 % to 99 %</span></td>' for n in range(40)
)
BODY = f"""<style>{CSS}</style><main><div class="scroll"><table class="blocks"><tbody>
<tr><th scope="row"><bdi>replicas</bdi></th>{CELLS}</tr></tbody></table></div>
<div class="still"><img width="1074" height="500" src="data:image/gif;base64,R0lGODlhAQABAAAAACw=">
</div></main>"""


def test_words_of_headers_are_whole_and_charts_fit(chromium: Any) -> None:
    page = chromium.new_page(viewport={"width": 1300, "height": 900})
    page.set_content(BODY)
    script = """(th) => {
        const range = document.createRange();
        range.selectNodeContents(th);
        return new Set([...range.getClientRects()].map((each) => Math.round(each.top))).size;
    }"""
    assert page.locator("th bdi").evaluate(script) == 1
    page.set_viewport_size({"width": 390, "height": 900})
    box = page.locator("img").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    page.close()
