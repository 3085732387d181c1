"""Java's .properties files, as far as Kafka's are written in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from harness.errors import PlanError

_LINE = re.compile(r"\s*((?:\\.|[^\s:=\\])+)\s*[:=\s]\s*(.*)")


def read_properties(path: Path) -> dict[str, str]:
    """Keys and values of a .properties file, with comments, continued lines and escapes.

    Raises PlanError for a file that is not text or a line without a key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"cannot be read: {error}", file=str(path)) from error
    settings = {}
    for number, line in _logical_lines(text):
        match = _LINE.fullmatch(line)
        if match is None:
            raise PlanError(
                f"line {number} is not `key=value`", file=str(path), hint="correct or remove it"
            )
        settings[_unescaped(match[1])] = _unescaped(match[2])
    return settings


def partition(
    given: Mapping[str, str], why_refused: Callable[[str], str | None]
) -> tuple[dict[str, str], dict[str, str]]:
    """The user's own settings: those that are used, and those that are ignored with the reason."""
    used: dict[str, str] = {}
    ignored: dict[str, str] = {}
    for key, value in given.items():
        if why := why_refused(key):
            ignored[key] = why
        else:
            used[key] = value
    return used, ignored


def _logical_lines(text: str) -> list[tuple[int, str]]:
    lines: list[tuple[int, str]] = []
    pending, begun = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.lstrip() if pending else raw.strip()
        if not pending and (not line or line[0] in "#!"):
            continue
        begun = begun if pending else number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending += line[:-1]
            continue
        lines.append((begun, pending + line))
        pending = ""
    return [*lines, (begun, pending)] if pending else lines


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text.strip())
