"""The page that builds a system step by step has the code of the shipped target, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "new-system.md"
TARGET = ROOT / "targets" / "etcd.py"
LINES_AT_MOST = 310


def lines(code: str) -> list[str]:
    return [line for line in code.splitlines() if line]


def test_the_code_of_the_page_is_the_shipped_target() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) > 3
    assert [line for block in blocks for line in lines(block)] == lines(TARGET.read_text())


def test_a_system_is_one_short_file() -> None:
    assert len(TARGET.read_text().splitlines()) <= LINES_AT_MOST
