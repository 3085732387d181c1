"""Histories that other tools recorded: files of JSON lines or EDN, and folders of Jepsen's store.

Jepsen stores a run as `store/<test>/<time>/`, with its operations in `history.edn`, and links to
the latest of them beside it. Neither `history.txt` (the same for people) nor `test.jepsen` and
`*.fressian` (its binary formats) are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.errors import HistoryError

EDN: Final = "history.edn"
_UNREAD: Final = ("history.txt", "test.jepsen", "test.fressian")
_DEPTH: Final = 2
"""From the folder of a store down to that of a run."""


def histories(path: Path) -> list[Path]:
    """The files of operations that a path names: itself, or those of the runs in a folder of a
    store, by test and time, links left out. Raises HistoryError for a folder without any."""
    if not path.is_dir():
        return [path]
    found = list(_below(path, _DEPTH))
    if found:
        return found
    others = sorted({name for name in _UNREAD for _ in path.glob(f"**/{name}")})
    holds = f" ({' and '.join(others)} cannot be read)" if others else ""
    raise HistoryError(
        f"holds no {EDN}{holds}",
        file=str(path),
        key=EDN,
        hint="name a folder of Jepsen's store (store/<test>/<time>) that has one, or the file",
    )


def _below(folder: Path, depth: int) -> Iterator[Path]:
    if (folder / EDN).is_file():
        yield folder / EDN
    elif depth:
        for each in sorted(folder.iterdir()):
            if each.is_dir() and not each.is_symlink():
                yield from _below(each, depth - 1)


def run_id_of(file: Path) -> str:
    """The name of a history: its test and time if it is Jepsen's, else the file's name."""
    if file.name != EDN:
        return file.stem
    folder = file.absolute().resolve().parent
    return "/".join(folder.parts[-2:]).lstrip("/") or file.stem
