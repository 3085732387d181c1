"""Nights compared, for people: as Markdown and as one HTML page in the look of all pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from analysis import drawing
from analysis.nights.figure import draw_trend
from analysis.palette import DARK, LIGHT
from analysis.statistics.samples import CLASSES
from harness.history.run_folder import write_atomically
from reports import html, markdown, words

Document = Mapping[str, Any]

_MARKS: Final = {"regression": "▲", "improvement": "▼", "doubtful": "?", "not judged": "–"}
_HEADS: Final = ("", "cell", "before", "now", "what can be said")


def write_markdown(document: Document, path: Path) -> None:
    """Write the comparison as Markdown. Raises EnvironmentFailure when that cannot be."""
    write_atomically(path, as_markdown(document).encode("utf-8", "backslashreplace"))


def as_markdown(document: Document) -> str:
    """The comparison as Markdown: conclusions, what was played differently, every cell."""
    parts = [
        f"# {markdown.text(headline(document))}",
        markdown.bullets(document["conclusion"]),
        "## Cells",
        markdown.table(_HEADS, (_row(cell) for cell in ordered(document["cells"]))),
    ]
    if differs := document["differs"]:
        rows = [(d["what"], d["key"], value(d["old"]), value(d["new"])) for d in differs]
        parts += ["## Played with", markdown.table(("what", "key", "before", "now"), rows)]
    return "\n\n".join(parts) + "\n"


def write_page(document: Document, path: Path) -> None:
    """Write the comparison as one HTML file. Raises EnvironmentFailure when that cannot be."""
    stills = {
        name: html.picture(
            drawing.svg(draw_trend(document["trend"], document["nights"], colours=colours)),
            "image/svg+xml",
        )
        for name, colours in (("light", LIGHT), ("dark", DARK))
    }
    page = html.render(
        "nights.html.j2",
        data=[],
        document=document,
        headline=headline(document),
        cells=ordered(document["cells"]),
        marks=_MARKS,
        classes=CLASSES,
        value=value,
        changes=changes,
        stills=stills,
    )
    write_atomically(path, page)


def headline(document: Document) -> str:
    """The answer in a few words."""
    worse, better = document["regressions"], document["improvements"]
    told = [f"{worse} regression{'s' if worse > 1 else ''}"] if worse else ["No regression"]
    told += [f"{better} improvement{'s' if better > 1 else ''}"] if better else []
    return f"{', '.join(told)}: {document['new']} against {document['old']}"


def ordered(cells: Iterable[Document]) -> list[Document]:
    """What needs to be looked at first, first."""
    place = ["regression", "doubtful", "not judged", "improvement", "no difference shown"]
    return sorted(cells, key=lambda cell: place.index(cell["status"]))


def changes(cell: Document) -> list[str]:
    """What else changed in a cell: kinds of verdict, and whether its runs disagree."""
    told = [f"new: {_named(cell['new_classes'])}"] if cell["new_classes"] else []
    told += [f"gone: {_named(cell['vanished_classes'])}"] if cell["vanished_classes"] else []
    when = {"old": "before", "new": "now"}
    if cell["flaky"]:
        told.append(f"flaky {' and '.join(when[night] for night in cell['flaky'])}")
    return told


def value(given: Any) -> str:
    """A value of a plan, an axis or a version as text."""
    if isinstance(given, list) and all(isinstance(each, str) for each in given):
        return ", ".join(given)
    if isinstance(given, dict | list):
        return orjson.dumps(given).decode()
    return "—" if given is None else words.plain(given)


def _row(cell: Document) -> tuple[str, ...]:
    said = "; ".join([cell["in_words"], *changes(cell)])
    mark = _MARKS.get(cell["status"], "")
    return (mark, cell["name"], *(s["lossy_share"]["in_words"] for s in _sides(cell)), said)


def _sides(cell: Document) -> tuple[Document, Document]:
    return cell["old"], cell["new"]


def _named(classes: Iterable[str]) -> str:
    return ", ".join(name.replace("_", " ") for name in classes)
