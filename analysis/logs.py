"""The few lines of the nodes' logs that tell of elections and of the ISR.

Logs may be large and may hold anything: they are read line by line, cut, and only ever text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.rundir import RunDir

LINES_AT_MOST: Final = 12
"""How many lines of a node are shown."""

_LENGTH_AT_MOST: Final = 400
_BYTES_AT_MOST: Final = 32 * 1024 * 1024
_TELLING: Final = re.compile(
    rb"Shrinking ISR|Expanding ISR|ISR updated|partition change|elect|starts at (leader )?epoch"
    rb"|fenc|unfenc|Truncat|becoming|resign|UNCLEAN",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Excerpt:
    """Some lines of one log, of `found` that tell of elections or the ISR."""

    node: str
    file: str
    lines: list[str]
    found: int


def excerpts(run: RunDir) -> list[Excerpt]:
    """One excerpt for each log that has something to tell, by node."""
    told = [_excerpt(file) for file in run.logs() if file.is_file() and not file.is_symlink()]
    return [excerpt for excerpt in told if excerpt.found]


def _excerpt(file: Path) -> Excerpt:
    lines: list[str] = []
    found, seen = 0, 0
    with file.open("rb") as stream:
        while seen < _BYTES_AT_MOST and (line := stream.readline(1 << 16)):
            seen += len(line)
            if not _TELLING.search(line):
                continue
            found += 1
            if len(lines) < LINES_AT_MOST:
                text = line.decode("utf-8", "replace").rstrip()
                lines.append(text if len(text) <= _LENGTH_AT_MOST else text[:_LENGTH_AT_MOST] + "…")
    return Excerpt(file.parent.name, file.name, lines, found)
