"""The lines that nodes logged during the run about elections, members in sync and truncation.

The lines of all nodes are in one order of time, each by its node's own clock. Logs may be large and
may hold any bytes: they are read line by line, cut, and treated as text only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from harness.history.facts import stored_target
from harness.history.run_folder import RunDir
from harness.protocols.systems import LogLines

LINES_AT_MOST: Final = 40
"""The number of lines on a page."""

_LENGTH_AT_MOST: Final = 320
_BYTES_AT_MOST: Final = 64 * 1024 * 1024


@dataclass(frozen=True, order=True)
class Line:
    """One line of a node's log, `at_s` seconds after the run's start."""

    at_s: float
    node: str
    text: str


@dataclass(frozen=True)
class LogExcerpt:
    """The first `lines` of the `found` relevant ones."""

    lines: list[Line] = field(default_factory=list)
    found: int = 0


def logged(run: RunDir, *, wall_time: str | None, end_s: float) -> LogExcerpt:
    """The relevant lines of all nodes between the run's start, at `wall_time`, and `end_s`; none
    of a system that does not say which lines these are."""
    target = stored_target(run)
    try:
        start_s = datetime.fromisoformat(wall_time or "").timestamp()
    except ValueError:
        return LogExcerpt()
    which = None if target is None else target.log_lines()
    if which is None:
        return LogExcerpt()
    lines = {
        line
        for file in run.logs()
        if file.is_file() and not file.is_symlink()
        for line in _relevant(file, which, start_s)
        if 0 <= line.at_s <= end_s
    }
    return LogExcerpt(sorted(lines)[:LINES_AT_MOST], len(lines))


def _relevant(file: Path, which: LogLines, start_s: float) -> Iterator[Line]:
    seen = 0
    with file.open("rb") as stream:
        while seen < _BYTES_AT_MOST and (raw := stream.readline(1 << 16)):
            seen += len(raw)
            dated = which.dated.match(raw) if which.relevant.search(raw) else None
            if dated is None or which.internal.search(raw):
                continue
            second, thousandth, rest = (part.decode("utf-8", "replace") for part in dated.groups())
            # Nodes run in containers, whose time zone is UTC.
            moment = datetime.fromisoformat(second).replace(tzinfo=UTC).timestamp()
            text = rest.strip()
            if len(text) > _LENGTH_AT_MOST:
                text = text[:_LENGTH_AT_MOST] + "…"
            yield Line(round(moment + int(thousandth) / 1e3 - start_s, 3), file.parent.name, text)
