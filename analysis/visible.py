"""Untrusted text, escaped so that every character is visible and none has an effect."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

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
