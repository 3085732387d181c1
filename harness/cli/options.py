"""Options that several verbs read alike."""

from __future__ import annotations

import rich_click as click


def key_and_value(name: str, text: str) -> tuple[str, str]:
    """The two halves of an option K=V. Raises UsageError."""
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{name} {text!r} is not K=V")
    return key, value
