"""Words of pages and messages: counts and verbs in sentences, what is counted (runs, or results of
shared runs), and untrusted text, escaped so that every character is visible and none has an effect.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any


def counted(count: int, noun: str) -> str:
    """`3 runs`; `2 keys of the plan`."""
    return f"{count:,} {plural(noun, count)}"


def plural(noun: str, count: int) -> str:
    """The noun for so many: "cells", "keys of the plan", "axes"."""
    first, space, rest = noun.partition(" of ")
    many = "axes" if first == "axis" else f"{first}s"
    return noun if count == 1 else many + space + rest


def capitalised(text: str) -> str:
    """The text as the begin of a sentence."""
    return text[:1].upper() + text[1:]


def has(count: int) -> str:
    """The verb for so many."""
    return "has" if count == 1 else "have"


def do(count: int) -> str:
    """The verb for so many."""
    return "does" if count == 1 else "do"


def of_them(count: int, noun: str) -> str:
    """`, 2 of them with lost writes`; nothing of none."""
    return f", {count} of them with {noun}" if count else ""


def them(count: int) -> str:
    """The pronoun for so many."""
    return "it" if count == 1 else "them"


def is_(count: int) -> str:
    """The verb for so many."""
    return "is" if count == 1 else "are"


def unit(results: int, executions: int) -> str:
    """What so many results of so many executed runs are called: cells that share a run have one
    result each, and none of these is a run."""
    return "result" if executions < results else "run"


def of_runs(results: int, executions: int) -> str:
    """`35 runs`; `2,640 results of 220 shared runs`."""
    if executions < results:
        return f"{counted(results, 'result')} of {counted(executions, 'shared run')}"
    return counted(results, "run")


def about(seconds: float) -> str:
    """An estimated time: minutes, from an hour on hours."""
    if seconds < 3600:
        return f"about {math.ceil(seconds / 60)} min"
    return f"about {seconds / 3600:.1f} h"


# Characters that move, hide or reorder text: C0 and C1 controls except tab and newline, zero-width
# characters and bidirectional controls.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


def visible(text: str) -> str:
    """The text, with every control or invisible character replaced by its escape."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def visible_all(data: Any) -> Any:
    """JSON data with all its strings made visible."""
    if isinstance(data, str):
        return visible(data)
    if isinstance(data, Mapping):
        return {visible(str(key)): visible_all(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [visible_all(value) for value in data]
    return data
