"""The line protocol of clients that are processes of the user's: docs/how-to/any-client.md, in
code.

Each line is one JSON object and a newline. Pure: lines in, values out. A line that a client may not
write raises `Lie`, with a sentence that helps its author.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import orjson

from harness.models import LOCK, MODELS, REGISTER, SET, TRANSACTION, WATCH
from harness.models.micro_ops import WIDTH
from harness.protocols import FAIL, INFO, NULL, OK, Completion, Invoke, Result, completion
from harness.protocols.any_client import JSON

PROTOCOL: Final = 1
"""The version of the protocol, in the setup line."""

MAX_LINE: Final = 1 << 20
"""The longest line of a client, in bytes, without its newline."""

_MAX_TEXT: Final = 200
_MAX_ELEMENTS: Final = 200_000
_INT64: Final = 2**63

CLOSE: Final = b'{"type":"close"}\n'

_READY: Final = frozenset({"type", "name", "version"})
_FAILED: Final = frozenset({"type", "error"})
_ENDED: Final[Mapping[str, frozenset[str]]] = {
    OK: frozenset({"type", "id", "position", "result", "node"}),
    FAIL: frozenset({"type", "id", "error", "node"}),
    INFO: frozenset({"type", "id", "error", "node"}),
}


class Lie(Exception):
    """A line that a client may not write; holds one sentence."""


class Failed(Exception):
    """The client reports that it cannot be set up; holds its reason."""


class Ready(NamedTuple):
    """What a client states about itself."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Answer(NamedTuple):
    """How the operation `id` ended, as a client reports it."""

    id: int
    ended: Completion


def setup_line(
    *,
    run_id: str,
    system: str,
    version: str | None,
    model: str,
    client: int,
    clients: int,
    start: int,
    answer_within_s: float,
    connection: Mapping[str, JSON],
) -> bytes:
    """The first line to a client: who it is, and what the target passes to its clients."""
    return _line(
        {
            "type": "setup",
            "protocol": PROTOCOL,
            "run_id": run_id,
            "system": system,
            "version": version,
            "model": model,
            "client": client,
            "clients": clients,
            "start": start,
            "answer_within_s": answer_within_s,
            "connection": dict(connection),
        }
    )


def invoke_line(number: int, op: Invoke) -> bytes:
    """The line that hands an operation over; what an operation does not have is left out."""
    f, value, partition, key, expected = op
    line: dict[str, JSON] = {"type": "invoke", "id": number, "f": f}
    if value != NULL:
        line["value"] = value
    if partition != NULL:
        line["partition"] = partition
    if key is not None:
        line["key"] = key
    if expected != NULL:
        line["expected"] = list(expected) if isinstance(expected, tuple) else expected
    return _line(line)


def ready_of(line: bytes) -> Ready:
    """The answer to the setup line. Raises Lie for another line, Failed when it cannot be a
    client."""
    found = _object(line)
    kind = found.get("type")
    if kind == "failed":
        _only(found, _FAILED)
        raise Failed(_text(found, "error") or "it gives no reason")
    if kind != "ready":
        raise Lie(f"its first line must be of type 'ready' or 'failed', not {_short(kind)}")
    _only(found, _READY)
    name, version = _text(found, "name"), _text(found, "version")
    if not name or not version:
        raise Lie("its ready line needs the texts 'name' and 'version'")
    return Ready(name, version)


def id_of(found: Mapping[str, Any]) -> int:
    """The operation that a line is about. Raises Lie."""
    number = found.get("id")
    if type(number) is not int:
        raise Lie(f"'id' is {_short(number)}, not an integer")
    return number


def answer_of(line: bytes, ops: Mapping[int, str], model: str) -> Answer:
    """A completion, of one of the operations in flight, `ops`: their functions by id. Raises Lie
    for anything else that a client may write, including an answer to no request."""
    found = _object(line)
    kind = found.get("type")
    if not isinstance(kind, str) or kind not in _ENDED:
        raise Lie(f"'type' is {_short(kind)}, not 'ok', 'fail' or 'info'")
    number = id_of(found)
    if number not in ops:
        raise NotInFlight(number, kind)
    _only(found, _ENDED[kind])
    node = _text(found, "node")
    if kind != OK:
        return Answer(number, completion(kind, error=_text(found, "error"), node=node))
    reads = ops[number] not in MODELS[model].writes
    if reads != ("result" in found):
        what = "needs a 'result'" if reads else "has no 'result'"
        raise Lie(f"the 'ok' of {ops[number]!r} {what}")
    result = _result(found["result"], model) if reads else None
    return Answer(number, completion(OK, _position(found), None, node, result))


class NotInFlight(Lie):
    """An answer to an operation that is not in flight: never requested, or answered before."""

    def __init__(self, number: int, kind: str) -> None:
        super().__init__(f"it answers {kind!r} to operation {number}, which is not in flight")
        self.number = number


def _line(document: Mapping[str, JSON]) -> bytes:
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise Lie(f"it writes a line that is not JSON: {_excerpt(line)}") from None
    if not isinstance(found, dict):
        raise Lie(f"it writes a line that is not a JSON object: {_excerpt(line)}")
    return found


def _only(found: Mapping[str, Any], known: frozenset[str]) -> None:
    for name in found:
        if name not in known:
            raise Lie(f"a line of type {found['type']!r} has no field {_short(name)}")


def _text(found: Mapping[str, Any], name: str) -> str | None:
    text = found.get(name)
    if text is None:
        return None
    if not isinstance(text, str) or len(text) > _MAX_TEXT:
        raise Lie(f"{name!r} is {_short(text)}, not a text of at most {_MAX_TEXT} characters")
    return text


def _position(found: Mapping[str, Any]) -> int | None:
    position = found.get("position")
    if position is None:
        return None
    if type(position) is not int or not 0 <= position < _INT64:
        raise Lie(f"'position' is {_short(position)}, not an integer from 0 on")
    return position


def _result(result: Any, model: str) -> Result:
    what, fits = _RESULTS[model]
    if not fits(result):
        raise Lie(f"'result' is {_short(result)}, not {what}")
    read: Result = tuple(result) if isinstance(result, list) else result
    return read


def _is_value(value: Any) -> bool:
    return type(value) is int and -_INT64 < value < _INT64


def _are_values(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= _MAX_ELEMENTS and all(map(_is_value, value))


def _is_flag(value: Any) -> bool:
    return type(value) is int and value in (0, 1)


_RESULTS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    REGISTER.name: ("an integer or null", lambda read: read is None or _is_value(read)),
    SET.name: (f"a list of at most {_MAX_ELEMENTS:,} integers", _are_values),
    WATCH.name: (
        "a list of an integer, and 1 or 0",
        lambda read: _are_values(read) and len(read) == 2 and _is_flag(read[1]),
    ),
    LOCK.name: ("1 or 0", _is_flag),
    TRANSACTION.name: (
        f"a list of {WIDTH} integers a micro-operation, or null",
        lambda read: read is None or (_are_values(read) and len(read) % WIDTH == 0),
    ),
}
"""What the reads of each model return: words for it, and whether a value is such a thing. The other
models have no reads."""


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _excerpt(line: bytes) -> str:
    return _short(line[:60].decode(errors="replace"))
