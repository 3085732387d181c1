"""EDN, the notation of Jepsen's histories, read as the values that JSON would give.

A keyword or a symbol becomes its name (`:send` is "send"), a set or a list a list, the key of a map
its text, `nil` is `None`; a tag is left out, and what it marks stands for itself
(`#jepsen.history.Op{...}` is the map). So all code that reads JSON lines reads EDN as well.

Lines of collections, keywords, strings and plain numbers, as Jepsen writes them, are read here in
one pass over their words; everything else in EDN (characters, ratios, big numbers, comments,
discards) is read by the library `edn_format`, which reads all of EDN but is some thirty times
slower. A test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from harness.errors import HistoryError

_WORD: Final = re.compile(
    r'[\s,]*(?:("(?:\\.|[^"\\])*"|#\{|#[\w.*+!?/-]+|[\[\](){}]|[^\s,\[\](){}"#;\\]+)|([^\s,]))'
)
_NUMBER: Final = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_NAME: Final = re.compile(r"(?:[A-Za-z*!_?$%&=<>|.+-]|0x)[\w.*+!?$%&=<>|:#/'-]*")
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_NAMED: Final[dict[str, Any]] = {"nil": None, "true": True, "false": False}
_CLOSES: Final = {"{": "}", "#{": "}", "[": "]", "(": ")"}
_LINES_AT_MOST: Final = 500
"""Of one record that is spread over lines."""


class _Incomplete(Exception):
    """The text ends inside a value; `key` is the last one of the outermost map, if it has any."""

    def __init__(self, key: str | None = None) -> None:
        super().__init__()
        self.key = key


class _NotPlain(Exception):
    """Left to the library."""


class _Ended(Exception):
    """A bracket closes that the text has not opened; `values` are before it."""

    def __init__(self, values: list[Any]) -> None:
        super().__init__()
        self.values = values


def records(file: Path) -> Iterator[tuple[int, Any]]:
    """The values of a file, each with its line: one per line, as Jepsen writes them, one spread
    over lines, or all in one vector. Raises HistoryError for what is not EDN or is cut off."""
    pending, first, inside, ended = "", 0, False, False
    key: str | None = None
    with file.open(encoding="utf-8") as stream:
        try:
            for line, text in enumerate(stream, start=1):
                if not pending:
                    if ended or text.isspace():
                        continue
                    first = line
                    if line == 1 and text.lstrip().startswith(("[", "(")):
                        inside, text = True, text.lstrip()[1:]
                pending += text
                try:
                    values = values_of(pending)
                except _Ended as end:
                    if not inside:
                        raise _unreadable(file, first, "a bracket closes that none opens") from end
                    values, ended = end.values, True
                except _Incomplete as error:
                    key = error.key
                    if line - first < _LINES_AT_MOST:
                        continue
                    raise _cut_off(file, first, key) from None
                except ValueError as error:
                    raise _unreadable(file, first, str(error)) from error
                pending = ""
                yield from ((first, value) for value in values)
        except UnicodeDecodeError as error:
            raise _unreadable(file, first, "it is not UTF-8") from error
    if pending.strip() or (inside and not ended):
        raise _cut_off(file, first, key)


def _unreadable(file: Path, line: int, why: str) -> HistoryError:
    why = why.partition("\n")[0].rstrip(".")
    return HistoryError(f"is not EDN: {why:.120}", file=f"{file}:{line}")


def _cut_off(file: Path, line: int, key: str | None) -> HistoryError:
    return HistoryError(
        "is cut off: its last operation is incomplete",
        file=f"{file}:{line}",
        key=key or "type",
        hint="copy the file again, or remove its last line",
    )


def values_of(text: str) -> list[Any]:
    """All values of a text, as those of JSON. Raises ValueError for what is not EDN."""
    try:
        return _plain(text)
    except _NotPlain:
        return _by_library(text)


def _plain(text: str) -> list[Any]:
    """The values of a text that holds only what is common."""
    stack: list[tuple[str, list[Any]]] = []
    opened, items = "", list[Any]()
    for word, strange in _WORD.findall(text):
        if strange:
            if strange == '"':
                raise _Incomplete(_last_key([*stack, (opened, items)]))
            if strange not in "\\;#":
                raise ValueError(f"no value begins with {strange}")
            raise _NotPlain
        first = word[0]
        if first in "{[(" or word == "#{":
            stack.append((opened, items))
            opened, items = word, []
        elif first in "}])":
            if not opened:
                if first == "]" or first == ")":
                    raise _Ended(items)
                raise ValueError("a brace closes that none opens")
            if _CLOSES[opened] != first:
                raise ValueError(f"{opened} is closed by {first}")
            value = _map(items) if opened == "{" else items
            opened, items = stack.pop()
            items.append(value)
        elif first == ":" and len(word) > 1:
            items.append(word[1:])
        elif first != "#":
            items.append(_scalar(word))
        elif word == "#_":
            raise _NotPlain
    if opened:
        raise _Incomplete(_last_key([*stack, (opened, items)]))
    return items


def _last_key(stack: list[tuple[str, list[Any]]]) -> str | None:
    """The last key of the outermost map among the collections that are open."""
    items = next((items for opened, items in stack if opened == "{"), [])
    return str(items[(len(items) - 1) // 2 * 2]) if items else None


def _scalar(word: str) -> Any:
    if word[0] == '"':
        return _ESCAPE.sub(_unescaped, word[1:-1])
    if word in _NAMED:
        return _NAMED[word]
    if _NUMBER.fullmatch(word):
        return float(word) if "." in word or "e" in word or "E" in word else int(word)
    if word.lstrip("+-")[:1].isdigit() and not word.startswith("0x"):
        raise _NotPlain  # a ratio, or a number with a suffix
    if _NAME.fullmatch(word):
        return word
    raise ValueError(f"{word} cannot be a value")


def _unescaped(match: re.Match[str]) -> str:
    escaped = _ESCAPES.get(match[1])
    if escaped is None:
        raise _NotPlain
    return escaped


def _map(items: list[Any]) -> dict[str, Any]:
    if len(items) % 2:
        raise ValueError("a map has a key without a value")
    return dict(zip(map(str, items[::2]), items[1::2], strict=True))


def _by_library(text: str) -> list[Any]:
    import edn_format

    try:
        return [_as_json(value) for value in edn_format.loads_all(text)]
    except edn_format.EDNDecodeError as error:
        if "EOF" in str(error):
            raise _Incomplete from error
        raise ValueError(str(error)) from error
    except NotImplementedError as error:
        raise ValueError(
            f"it has a tag that is not known beside uncommon values: {error}"
        ) from error


def _as_json(value: Any) -> Any:
    import edn_format
    from edn_format.immutable_dict import ImmutableDict
    from edn_format.immutable_list import ImmutableList

    if isinstance(value, edn_format.Keyword | edn_format.Symbol):
        return value.name
    if isinstance(value, dict | ImmutableDict):
        return {str(_as_json(key)): _as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset | ImmutableList):
        return [_as_json(each) for each in value]
    return value
