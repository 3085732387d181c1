"""The page that builds a system step by step has the code of the shipped target, and no other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "how-to" / "new-system.md"
TARGET = ROOT / "targets" / "etcd.py"
LINES_AT_MOST = 300


def lines(code: str) -> list[str]:
    return [line for line in code.splitlines() if line]


def test_the_code_of_the_page_is_the_shipped_target() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) > 3
    assert [line for block in blocks for line in lines(block)] == lines(TARGET.read_text())


def test_a_system_is_one_short_file() -> None:
    assert len(TARGET.read_text().splitlines()) <= LINES_AT_MOST


def test_the_page_says_what_systems_took() -> None:
    """Their lines, within a tenth."""
    table = PAGE.read_text(encoding="utf-8").partition("## What six systems took")[2]
    rows = re.findall(r"^\| ([\w ]+?)(?:, Valkey)? \| (\d+)[^|]* \| (\d+) \|", table, re.MULTILINE)
    files = {name.split()[-1].lower(): counts for name, *counts in rows}
    assert files.keys() == {path.stem for path in TARGET.parent.glob("*.py")} - {"__init__"}
    for name, counts in files.items():
        for stated, file in zip(counts, (f"{name}.py", f"{name}_alarms.toml"), strict=True):
            found = len((TARGET.parent / file).read_text().splitlines())
            assert abs(int(stated) - found) <= found / 10, (file, found)
    base = len((ROOT / "harness" / "servers.py").read_text().splitlines())
    (stated,) = re.findall(r"(\d[\d,]*) today", table)
    assert abs(int(stated.replace(",", "")) - base) <= base / 10, base
