"""Markdown for CI systems; no text of a run becomes markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from analysis.visible import visible

_MARKUP = re.compile(r"([\\`*_\[\]|~#])")


def text(value: object) -> str:
    """A value as Markdown that renders as exactly this text, on one line."""
    plain = visible(" ".join(str(value).split()))
    return _MARKUP.sub(r"\\\1", html.escape(plain, quote=False))


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(text(value) for value in row)} |" for row in rows]
    return "\n".join(lines)


def bullets(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {text(sentence)}" for sentence in sentences)
