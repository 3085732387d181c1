"""What the logs of nodes report about trouble, for one sentence."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

_TROUBLE: Final = re.compile(r"ERROR|FATAL|Exception|rror:")
_FRAME: Final = re.compile(r"\s*(at |\.\.\. \d+ more)")
_LONGEST: Final = 300


def last_words(nodes: Path) -> str:
    """The last lines that report trouble in `NODE/*.log`: two a log, four in all; frames of Java's
    stack traces do not help a reader."""
    told = []
    for path in sorted(nodes.glob("*/*.log")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        trouble = [line for line in lines if _TROUBLE.search(line) and not _FRAME.match(line)]
        told += [f"{path.parent.name}: {line.strip()[:_LONGEST]}" for line in trouble[-2:]]
    return " | ".join(told[:4]) or "no error in it"
