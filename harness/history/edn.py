"""EDN, the notation of Jepsen's histories, read as the values that JSON would give.

A keyword, a symbol or a character becomes its text (`:send` is "send"), a set or a list a list,
`nil` is `None`; a tag is left out, and what it marks stands for itself (`#jepsen.history.Op{...}`
is the map). The keys of a map are texts, but for integers, which no text is equal to. So all code
that reads JSON reads EDN as well. Tests compare with the library `edn_format`, which is some thirty
times slower.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from harness.errors import HistoryError

_WORD: Final = re.compile(
    r'[\s,]*(?:("(?:\\.|[^"\\])*"|#[{_]|##?:*[\w.*+!?$%&=<>/-]+|\\(?:\w+|.)|[\[\](){}]|;.*'
    r'|[^\s,\[\](){}"#;\\]+)|(\S[\s\S]*))'
)
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9]\d*)N?")
_DECIMAL: Final = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_RATIO: Final = re.compile(r"([+-]?\d+)/([1-9]\d*)")
_NAME: Final = re.compile(r"(?:[A-Za-z*!_?$%&=<>|./+-]|0x)[\w.*+!?$%&=<>|:#/'-]*")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_CHARACTERS: Final = {
    "newline": "\n",
    "return": "\r",
    "space": " ",
    "tab": "\t",
    "backspace": "\b",
    "formfeed": "\f",
}
_NAMED: Final[dict[str, Any]] = {
    "nil": None,
    "true": True,
    "false": False,
    "##NaN": float("nan"),
    "##Inf": float("inf"),
    "##-Inf": float("-inf"),
}
_CLOSES: Final = {"{": "}", "#{": "}", "[": "]", "(": ")"}
_DISCARD: Final = object()
"""Stands before a value that is to be left out."""


def records(lines: Iterable[str], file: str) -> Iterator[tuple[int, Any]]:
    """The values of a file, each with its line: one per line, as Jepsen writes them, spread over
    lines, or all in one vector. Raises HistoryError for what is not EDN or is cut off."""
    found = list[Any]()
    stack: list[tuple[str, list[Any]]] = []
    opened, items = "", found  # the innermost collection
    outer = pending = ""
    line = first = 0
    try:
        for line, text in enumerate(lines, start=1):
            if not opened and not pending and not found:
                first = line
            words = _WORD.findall(pending + text)
            pending = ""
            for word, strange in words:
                if strange:
                    if strange[0] != '"':
                        raise ValueError(f"no value begins with {strange[0]}")
                    pending = strange  # a string that goes on in the next line
                    break
                begin = word[0]
                if begin in "{[(" or word == "#{":
                    if not opened and not outer and begin in "[(":
                        outer = begin
                        continue
                    stack.append((opened, items))
                    opened, items = word, []
                elif begin in "}])":
                    if not opened and _CLOSES.get(outer) == begin:
                        outer = ""
                        continue
                    value = _collection(opened, items, begin)
                    opened, items = stack.pop()
                    items.append(value)
                elif begin == ":" and len(word) > 1:
                    items.append(word[1:])
                elif word == "#_":
                    items.append(_DISCARD)
                elif begin != ";" and (begin != "#" or word in _NAMED):
                    items.append(_scalar(word))
            if found and not opened and not pending and found[-1] is not _DISCARD:
                for value in _kept(found):
                    yield first, value
                    first = line
                found.clear()
    except ValueError as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise HistoryError(f"is not EDN: {why:.120}", file=f"{file}:{line}") from error
    if opened or outer or pending:
        collections = [*stack, (opened, items)]
        fields = next((items for opened, items in collections if opened == "{"), [])
        raise HistoryError(
            "is cut off: its last operation is incomplete",
            file=f"{file}:{first}",
            key=str(fields[(len(fields) - 1) // 2 * 2]) if fields else "type",
            hint="copy the file again, or remove its last line",
        )


def _collection(opened: str, items: list[Any], closed: str) -> Any:
    """The list or map of these items."""
    if not opened:
        raise ValueError(f"a {'brace' if closed == '}' else 'bracket'} closes that none opens")
    if _CLOSES[opened] != closed:
        raise ValueError(f"{opened} is closed by {closed}")
    if _DISCARD in items:
        items = _kept(items)
    if opened != "{":
        return items
    if len(items) % 2:
        raise ValueError("a map has a key without a value")
    keys = (key if type(key) in (str, int) else str(key) for key in items[::2])
    return dict(zip(keys, items[1::2], strict=True))


def _kept(items: list[Any]) -> list[Any]:
    """The items without those that are discarded: each mark takes the next one that is no mark."""
    kept, discard = [], 0
    for item in items:
        if item is _DISCARD:
            discard += 1
        elif discard:
            discard -= 1
        else:
            kept.append(item)
    return kept


def _scalar(word: str) -> Any:
    if word[0] == '"':
        return _ESCAPE.sub(_unescaped, word[1:-1]) if "\\" in word else word[1:-1]
    if _INTEGER.fullmatch(word):
        return int(word.rstrip("N"))
    if word in _NAMED:
        return _NAMED[word]
    if word[0] == "\\":
        return word[1:] if len(word) == 2 else _CHARACTERS.get(word[1:]) or _unescape(word[1:])
    if _DECIMAL.fullmatch(word):
        return float(word.rstrip("M"))
    if ratio := _RATIO.fullmatch(word):
        return int(ratio[1]) / int(ratio[2])
    if _NAME.fullmatch(word):
        return word
    raise ValueError(f"{word} cannot be a value")


def _unescaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[1]) or _unescape(match[1])


def _unescape(escaped: str) -> str:
    """A character by its number: four hexadecimal digits after u, else octal ones."""
    if escaped[0] == "u" and len(escaped) == 5:
        return chr(int(escaped[1:], 16))
    if escaped.lstrip("o").isdigit():
        return chr(int(escaped.lstrip("o"), 8))
    raise ValueError(f"\\{escaped} is not a character")
