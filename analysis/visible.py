"""Text from anywhere, made so that all of it is seen and none of it acts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# What moves, hides or reorders text: C0 and C1 but tab and newline, zero-width and bidi controls.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


def visible(text: str) -> str:
    """The text with every character that would act, or hide, written as its escape."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def visible_all(data: Any) -> Any:
    """JSON data with all its texts made visible."""
    if isinstance(data, str):
        return visible(data)
    if isinstance(data, Mapping):
        return {visible(str(key)): visible_all(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [visible_all(value) for value in data]
    return data
