"""Every error that ackloss shows to the user, in one tree.

    AcklossError
    ├── PlanError           exit 4   a plan, a setting or a plug-in name that cannot be used
    ├── HistoryError        exit 4   a history or run folder that cannot be read
    │   └── TooNewError     exit 4   what a newer ackloss wrote
    ├── QueryError          exit 4   a query of a lake that cannot be answered
    ├── EnvironmentFailure  exit 5   no Docker, no Java, no disk, no memory, no image
    ├── HarnessFailure      exit 6   something that ackloss did did not work; never a loss
    └── Interrupted         exit 130 the user stopped it; everything was undone

An error is one sentence (`what`), the place (`file`, `key`) and what would be right (`hint`). What
else is wrong with the same input is in `also`: all mistakes are reported at once (`Mistakes`).
The exit codes are a contract: scripts rely on them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Self


class AcklossError(Exception):
    """An expected failure, shown to the user without a traceback.

    `what` is one sentence without a final full stop, `file` and `key` say where, `hint` says what
    would be right.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 6

    def __init__(
        self, what: str, *, file: str | None = None, key: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.file = file
        self.key = key
        self.hint = hint
        self.also: list[Self] = []

    @property
    def sentence(self) -> str:
        """This one, without the others."""
        place = ": ".join(part for part in (self.file, self.key) if part)
        sentence = f"{place}: {self.what}" if place else self.what
        return f"{sentence}; {self.hint}" if self.hint else sentence

    def __str__(self) -> str:
        return self.sentence + (f" (and {len(self.also)} more)" if self.also else "")

    def every(self) -> list[Self]:
        """This one and the others."""
        return [self, *self.also]

    def document(self) -> dict[str, object]:
        """The JSON document that `--json` prints for this failure."""
        names = ("code", "what", "file", "key", "hint")
        each = [{name: getattr(error, name) for name in names} for error in self.every()]
        return {"schema": 1, "error": each[0], "errors": each}


class PlanError(AcklossError):
    """The plan requests something that is impossible: nothing was started."""

    code = "bad-plan"
    exit_code = 4


class Mistakes:
    """The refusals of checks that do not depend on each other, raised together, one for each key.
    `file`: the input of all of them."""

    def __init__(self, file: str | None = None) -> None:
        self._file = file
        self._found: dict[tuple[str | None, ...], PlanError] = {}

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Go on after a PlanError of what is done within, or after any exception once there has
        been one: what rests on a value that was refused may break."""
        try:
            yield
        except PlanError as error:
            for each in error.every():
                each.file = each.file or self._file
                self._found.setdefault((each.file, each.key or each.what), each)
        except Exception:
            if not self._found:
                raise

    def refuse(self) -> None:
        """Raise PlanError if there were any."""
        if self._found:
            first, *others = self._found.values()
            first.also = others
            raise first


class HistoryError(AcklossError):
    """A history, or a run folder, that cannot be read."""

    code = "bad-history"
    exit_code = 4


class TooNewError(HistoryError):
    """What a newer ackloss wrote, and this one cannot read."""


class QueryError(AcklossError):
    """A query that is not run over a lake, or columns that its tables do not have."""

    code = "bad-query"
    exit_code = 4


class EnvironmentFailure(AcklossError):
    """This machine lacks something that a run needs."""

    code = "environment"
    exit_code = 5


@contextmanager
def disk_errors(what: str, path: Path, *, hint: str | None = None) -> Iterator[None]:
    """Raise EnvironmentFailure, with `what` failed and why, for an OSError within."""
    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise EnvironmentFailure(f"{what}: {why}", file=str(path), hint=hint) from error


class HarnessFailure(AcklossError):
    """The harness itself could not do its work; says nothing about the system under test."""

    code = "harness"
    exit_code = 6


class Interrupted(AcklossError):
    """Stopped by a signal; what was begun has been undone and what was recorded is kept."""

    code = "interrupted"
    exit_code = 130


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that `name` most likely meant, for a hint: the most similar one, or the only
    one with a similar word (`kyes` for `keys_count`)."""
    if close := difflib.get_close_matches(name, known, n=1, cutoff=0.6):
        return close[0]
    similar = [each for each in known if _has_word_like(name, each)]
    return similar[0] if len(similar) == 1 else None


def _has_word_like(name: str, known: str) -> bool:
    words = [word for word in re.split(r"[^A-Za-z0-9]+", known) if len(word) > 2]
    return bool(difflib.get_close_matches(name, words, n=1, cutoff=0.7))
