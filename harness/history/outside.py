"""Histories that other tools recorded: operations with Jepsen's names, one stream of them whatever
the file is.

A file holds JSON lines, a JSON array, or EDN (one operation a line, as Jepsen writes `history.edn`,
spread over lines, or all in a vector); how it begins decides, and its name only where that leaves
both. It may be compressed by gzip. An operation is a map, `{"index":0,"process":3,"type":"invoke",
"f":"add","value":17,"time":123}`; `index` and `time` may be absent or null: the order of operations
decides, and an `index` that contradicts it is bad input. What cannot be used is one HistoryError
with the file, the line and the key.

Jepsen stores a run as `store/<test>/<time>/`, and links to the latest of them beside it. Neither
`history.txt` (the same for people) nor `test.jepsen` and `*.fressian` (its binary formats) are
read.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from harness.errors import HistoryError
from harness.history import SCHEMA_VERSION
from harness.protocols.runs import INT64

# EDN, the notation of Jepsen's histories, read as the values that JSON would give.
#
# A keyword, a symbol or a character becomes its text (`:send` is "send"), a set or a list a list,
# `nil` is `None`; a tag is left out, and what it marks stands for itself (`#jepsen.history.Op{...}`
# is the map). The keys of a map are texts, but for integers, which no text is equal to. So all code
# that reads JSON reads EDN as well. Tests compare with the library `edn_format`, which is some
# thirty times slower.

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
    """The items without those that are discarded: each mark takes the next that is not a mark."""
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


TYPES: Final = ("invoke", "ok", "fail", "info")

EDN: Final = "history.edn"
_UNREAD: Final = ("history.txt", "test.jepsen", "test.fressian")
_DEPTH: Final = 2
"""From the folder of a store down to that of a run."""

_GZIP, _BOM = b"\x1f\x8b", b"\xef\xbb\xbf"
_HEAD_BYTES: Final = 2**16
_BLANK: Final = re.compile(r"[\s,]*")
_IS_EDN: Final = re.compile(rb"\s*[\[(]?[\s,]*(?:[;#(:]|\{[\s,]*[:;#])")
_IS_JSON: Final = re.compile(rb'\s*\[?\s*\{\s*"(?:\\.|[^"\\])*"\s*:')


Complain = Callable[[str, str | None], HistoryError]
"""Makes the error of one line: what is wrong, and with which key."""


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
    here = [folder / name for name in (EDN, f"{EDN}.gz") if (folder / name).is_file()]
    if here:
        yield here[0]
    elif depth:
        for each in sorted(folder.iterdir()):
            if each.is_dir() and not each.is_symlink():
                yield from _below(each, depth - 1)


def run_id_of(file: Path) -> str:
    """The name of a history: its test and time if it is Jepsen's, else the file's name."""
    name = Path(file.name.removesuffix(".gz"))
    if name.name != EDN:
        return name.stem
    folder = file.absolute().resolve().parent
    return "/".join(folder.parts[-2:]).lstrip("/") or name.stem


def complaint(file: Path, line: int) -> Complain:
    """What makes the errors of this line."""
    return lambda what, key: HistoryError(what, file=f"{file}:{line}", key=key)


def operations(file: Path, *, repeats: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line numbers and operations; raises HistoryError for a line that holds none. `repeats`: an
    index may be that of the line before."""
    number, before = 0, -1
    try:
        with file.open("rb") as raw:
            form, values = _values(raw, file)
            for line, op in values:
                number += 1
                complain = complaint(file, line)
                if not isinstance(op, dict):
                    raise complain(f"is not {form}: one operation a line is expected", None)
                if op.get("schema", SCHEMA_VERSION) != SCHEMA_VERSION:
                    raise complain(
                        f"has schema {op['schema']!r}, this ackloss reads {SCHEMA_VERSION}",
                        "schema",
                    )
                if op.get("type") not in TYPES:
                    raise complain(f"{op.get('type')!r} is not one of {', '.join(TYPES)}", "type")
                before = _in_order(op, before, complain, repeats=repeats)
                yield line, op
    except (EOFError, zlib.error) as error:
        raise HistoryError(f"is cut off, or not gzip: {error}", file=str(file)) from error
    except OSError as error:
        raise HistoryError(f"cannot be read: {error.strerror or error}", file=str(file)) from error
    if not number:
        raise HistoryError("is empty: it holds no operation", file=str(file))


def _values(raw: io.BufferedReader[Any], file: Path) -> tuple[str, Iterator[tuple[int, Any]]]:
    """What an operation is in a file, and the values of the file, each with its line."""
    if raw.peek(len(_GZIP)).startswith(_GZIP):
        raw = io.BufferedReader(gzip.GzipFile(fileobj=raw), _HEAD_BYTES)
    if raw.peek(len(_BOM)).startswith(_BOM):
        raw.read(len(_BOM))
    head = raw.peek(_HEAD_BYTES)
    named = file.name.removesuffix(".gz").endswith(".edn")
    if _IS_EDN.match(head) or (named and not _IS_JSON.match(head)):
        return "an EDN map", records(io.TextIOWrapper(raw, "utf-8"), str(file))
    return "a JSON object", _json_values(raw, file)


def _json_values(stream: io.BufferedReader[Any], file: Path) -> Iterator[tuple[int, Any]]:
    """One value a line; from the first line on that is not one, values that are spread over lines,
    or stand in an array."""
    for line, text in enumerate(stream, start=1):
        if text.isspace():
            continue
        try:
            if not text.lstrip().startswith(b"["):
                yield line, orjson.loads(text)
                continue
        except orjson.JSONDecodeError as error:
            if not text.lstrip().startswith(b"{"):
                raise complaint(file, line)(f"is not JSON: {error}", None) from error
        yield from _spread(text + stream.read(), line, file)
        return


def _spread(content: bytes, line: int, file: Path) -> Iterator[tuple[int, Any]]:
    at = done = 0
    try:
        text = content.decode()
        is_array = text.lstrip().startswith("[")
        at = text.index("[") + 1 if is_array else 0
        while (at := _BLANK.match(text, at).end()) < len(text):  # type: ignore[union-attr]
            if is_array and text[at] == "]":
                is_array, at = False, at + 1
                continue
            line, done = line + text.count("\n", done, at), at
            value, at = _DECODER.raw_decode(text, at)
            yield line, value
        if is_array:
            raise complaint(file, line)("is cut off: its array is not closed", None)
    except UnicodeDecodeError as error:
        raise complaint(file, line)("is not JSON: it is not UTF-8", None) from error
    except json.JSONDecodeError as error:
        if "\n" not in text[error.pos :]:
            raise complaint(file, line)("is cut off: its last line is incomplete", None) from error
        raise complaint(file, line)(f"is not JSON: {error.msg}", None) from error


_DECODER: Final = json.JSONDecoder()


def _in_order(op: dict[str, Any], before: int, complain: Complain, *, repeats: bool) -> int:
    """The index of an operation, or that `before` it where it has none (as -1, Jepsen's own)."""
    index = op.get("index")
    if index is None or index == -1:
        return before
    integer(index, "index", complain)
    if index < before or (index == before and not repeats):
        raise complain(
            f"index {index} follows {before}: the order of lines decides which read is the last; "
            "sort them by index",
            "index",
        )
    return int(index)


def integer(value: Any, key: str, complain: Complain) -> int:
    """`value`, which is an integer of 64 bits. Raises HistoryError for anything else."""
    if type(value) is not int or value not in INT64:
        raise complain(f"{value!r:.80} is not an integer of 64 bits", key)
    return value
