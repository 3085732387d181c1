"""The tables in docs/reference/statistics.md that benches write."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).parent.parent / "docs" / "reference" / "statistics.md"


def write_lines(begin: str, end: str, lines: Iterable[str]) -> None:
    """Replace what stands between these two lines of the page."""
    before, rest = DOCS.read_text(encoding="utf-8").split(begin)
    after = rest.split(end)[1]
    DOCS.write_text(before + begin + "\n".join(lines) + "\n" + end + after, encoding="utf-8")
