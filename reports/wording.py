"""Counts and verbs in sentences."""

from __future__ import annotations

from reports.formatting import number


def counted(count: int, noun: str) -> str:
    """`3 runs`."""
    return f"{number(count)} {plural(noun, count)}"


def plural(noun: str, count: int) -> str:
    """The noun for so many."""
    return noun if count == 1 else f"{noun}s"


def has(count: int) -> str:
    """The verb for so many."""
    return "has" if count == 1 else "have"


def do(count: int) -> str:
    """The verb for so many."""
    return "does" if count == 1 else "do"


def them(count: int) -> str:
    """The pronoun for so many."""
    return "it" if count == 1 else "them"


def is_(count: int) -> str:
    """The verb for so many."""
    return "is" if count == 1 else "are"
