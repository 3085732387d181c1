"""Options that several verbs read alike."""

from __future__ import annotations

from typing import Any

import rich_click as click
from click import Context, Parameter

from harness.urls import is_url


class PathOrUrl(click.ParamType[str]):
    """A path that is there, or a URL, which is looked at later."""

    name = "path or url"

    def __init__(self, *, files: bool = True) -> None:
        self._path = click.Path(exists=True, file_okay=files)

    def convert(self, value: Any, param: Parameter | None, ctx: Context | None) -> str:
        text = str(value)
        return text if is_url(text) else str(self._path.convert(text, param, ctx))


def key_and_value(name: str, text: str) -> tuple[str, str]:
    """The two halves of an option K=V. Raises UsageError."""
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{name} {text!r} is not K=V")
    return key, value
