"""One program that is a client: the lines that it speaks, and its connection.

A process runs under a guard (`harness.run.client_guard`), so that it ends with the harness, with
all that it has started. What it writes to stderr is kept as its log, up to a limit: a thread copies
it, so that a process that writes a lot is not delayed and cannot fill the disk.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, Final, NamedTuple

import orjson

from harness.clusters.cleaning import MARK
from harness.errors import EnvironmentFailure, PlanError
from harness.models import LOCK, MODELS, QUEUE, REGISTER, SET, TRANSACTION, WATCH
from harness.models.micro_ops import WIDTH
from harness.protocols import FAIL, INFO, NULL, OK, Completion, Invoke, Result, completion
from harness.protocols.systems import JSON
from harness.run import client_guard
from harness.wrong_values import shown

# The line protocol of clients that are programs: docs/how-to/any-client.md.
#
# Each line is one JSON object and a newline. Pure: lines in, values out. A line that a client may
# not write raises `Lie`, with a sentence that helps its author.

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


def setup_line(
    *,
    run_id: str,
    system: str,
    version: str | None,
    model: str,
    client: int,
    clients: int,
    start: int,
    connection: Mapping[str, JSON],
    answer_within_s: float = 0.0,
) -> bytes:
    """The first line to a client: who it is, and what the target passes to its clients;
    `answer_within_s` is 0 where answers may be late."""
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
    if key is None and expected == NULL and NULL not in (value, partition):  # most of them
        plain = b'{"type":"invoke","id":%d,"f":"%b","value":%d,"partition":%d}\n'
        return plain % (number, f.encode(), value, partition)
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
        raise Lie(f"its first line must be of type 'ready' or 'failed', not {shown(kind)}")
    _only(found, _READY)
    name, version = _text(found, "name"), _text(found, "version")
    if not name or not version:
        raise Lie("its ready line needs the texts 'name' and 'version'")
    return Ready(name, version)


def answer_of(line: bytes, ops: Mapping[int, str], model: str) -> tuple[int, Completion]:
    """Which of the operations in flight ended, and how; `ops`: their functions by id. Raises Lie
    for anything else that a client may write, including an answer to no request."""
    found = _object(line)
    kind = found.get("type")
    if not isinstance(kind, str) or kind not in _ENDED:
        raise Lie(f"'type' is {shown(kind)}, not 'ok', 'fail' or 'info'")
    number = found.get("id")
    if type(number) is not int:
        raise Lie(f"'id' is {shown(number)}, not an integer")
    if number not in ops:
        raise NotInFlight(number, kind)
    _only(found, _ENDED[kind])
    node = _text(found, "node")
    if kind != OK:
        return number, completion(kind, error=_text(found, "error"), node=node)
    reads = ops[number] not in MODELS[model].writes
    if reads != ("result" in found):
        what = "needs a 'result'" if reads else "has no 'result'"
        raise Lie(f"the 'ok' of {ops[number]!r} {what}")
    result = _result(found["result"], model) if reads else None
    position = found.get("position")
    if position is not None and (type(position) is not int or not 0 <= position < _INT64):
        raise Lie(f"'position' is {shown(position)}, not an integer from 0 on")
    return number, completion(OK, position, None, node, result)


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
            raise Lie(f"a line of type {found['type']!r} has no field {shown(name)}")


def _text(found: Mapping[str, Any], name: str) -> str | None:
    text = found.get(name)
    if text is None:
        return None
    if not isinstance(text, str) or len(text) > _MAX_TEXT:
        raise Lie(f"{name!r} is {shown(text)}, not a text of at most {_MAX_TEXT} characters")
    return text


def _result(result: Any, model: str) -> Result:
    what, fits = _RESULTS[model]
    if not fits(result):
        raise Lie(f"'result' is {shown(result)}, not {what}")
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
    QUEUE.name: (
        "an integer, null or a list of integers",
        lambda read: read is None or _is_value(read) or _are_values(read),
    ),
    TRANSACTION.name: (
        f"a list of {WIDTH} integers a micro-operation, or null",
        lambda read: read is None or (_are_values(read) and len(read) % WIDTH == 0),
    ),
}
"""What the reads of each model return: words for it, and whether a value is such a thing. The other
models have no reads."""


def _excerpt(line: bytes) -> str:
    return shown(line[:60].decode(errors="replace"))


LOG_LIMIT: Final = 16 << 20
"""How much of a client's stderr is kept, in bytes, over all processes of one place."""

WAITING_LIMIT: Final = 1 << 20
"""Bytes that may wait until a client reads them; then it accepts no more operations."""

_CHUNK: Final = 1 << 16
_END_S: Final = 5.0


Argv = tuple[str, ...]
"""A command line as an argument list; no shell reads it."""


def client_command(text: str) -> Argv:
    """The command of `--client`, found and executable. Raises PlanError."""
    try:
        argv = tuple(shlex.split(text))
    except ValueError as error:
        raise _refused(f"{text!r} is not a command line: {error}", "close the quotes") from None
    if not argv:
        raise _refused("the command is empty", "name a program and its arguments")
    if shutil.which(argv[0]) is None:
        path = Path(argv[0])
        if path.is_dir():
            raise _refused(f"{argv[0]!r} is a folder", "name a program")
        if "/" in argv[0] and path.exists():
            raise _refused(f"{argv[0]!r} is not executable", f"chmod +x {argv[0]}")
        raise _refused(f"there is no command {argv[0]!r}", "name a program that is there")
    return argv


def _refused(what: str, hint: str) -> PlanError:
    return PlanError(what, key="--client", hint=hint)


class Ended(Exception):
    """The process has closed its stdout."""


class TooLong(Exception):
    """A line is longer than any line may be."""


class ClientLog:
    """The log of a client's place: what its processes write to stderr, one after another."""

    def __init__(self, path: Path | None = None) -> None:
        """Without a path it is kept while it is open, and no longer."""
        self.path = path
        self._left = LOG_LIMIT
        self._file: IO[bytes]
        if path is None:
            self._file = TemporaryFile(buffering=0)  # noqa: SIM115  (as long as the log)
        else:
            self._file = path.open("a+b", buffering=0)
        self._lock = threading.Lock()

    @property
    def cut_off(self) -> bool:
        """Whether more was written than is kept."""
        return self._left < 0

    def last_line(self) -> str:
        """The last line that is kept; empty if there is none."""
        number = self._file.fileno()
        tail = os.pread(number, _CHUNK, max(0, os.fstat(number).st_size - _CHUNK))
        lines = tail.decode(errors="replace").split("\n")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")

    def copy(self, stream: IO[bytes]) -> None:
        """Keep what comes, until the stream ends."""
        with stream, suppress(OSError, ValueError):
            while chunk := os.read(stream.fileno(), _CHUNK):
                with self._lock:
                    kept, self._left = chunk[: max(0, self._left)], max(-1, self._left - len(chunk))
                    if kept:
                        self._file.write(kept)

    def close(self) -> None:
        """What comes later is dropped."""
        with self._lock:
            self._left = min(self._left, 0)
            self._file.close()


class Connection(ABC):
    """Two streams of lines, to a program and back. `pending`: the processes of the workload that
    wait for an answer, by the id of their operation."""

    stdin: IO[bytes]
    stdout: IO[bytes]
    log: ClientLog | None = None

    def __init__(self, name: str, setup: bytes) -> None:
        """Queue its setup line."""
        self.name = name
        self.pending: dict[int, int] = {}
        self._waiting, self._input = bytearray(setup), b""

    @property
    def full(self) -> bool:
        """Whether it reads too slowly to be given more."""
        return len(self._waiting) >= WAITING_LIMIT

    def write(self, line: bytes) -> None:
        """Queue a line."""
        self._waiting += line

    def flush(self) -> bool:
        """Write what it accepts now; whether that was everything. One that no longer reads is left
        to its end, which stdout shows."""
        while self._waiting:
            try:
                sent = os.write(self.stdin.fileno(), self._waiting[:_CHUNK])
            except BlockingIOError:
                return False
            except OSError:
                self._waiting.clear()
                return True
            del self._waiting[:sent]
        return True

    def lines(self) -> list[bytes]:
        """The complete lines so far. Raises TooLong, and Ended when there will be no more."""
        try:
            chunk = os.read(self.stdout.fileno(), _CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            chunk = b""
        if not chunk:
            raise Ended
        *lines, rest = (self._input + chunk).split(b"\n")
        self._input = rest
        if len(rest) > MAX_LINE or (lines and len(lines[0]) > MAX_LINE):  # others are of one block
            raise TooLong
        return lines

    def end_input(self) -> None:
        """Write what waits, as far as it is accepted, then end its stdin."""
        with suppress(OSError):
            self.flush()
        with suppress(OSError):
            self.stdin.close()

    @abstractmethod
    def gone(self) -> bool:
        """Whether nothing of it is left."""

    @abstractmethod
    def end(self, grace_s: float) -> int | None:
        """Give it so long to end by itself, then end it; its exit code, `None` where there is
        none."""


class ClientProcess(Connection):
    """A process under its guard."""

    def __init__(
        self, command: Argv, *, run_id: str, log: ClientLog, name: str, setup: bytes
    ) -> None:
        """Start it and queue its setup line. Raises EnvironmentFailure where nothing can be
        started."""
        super().__init__(name, setup)
        lifeline, self._lifeline = os.pipe()
        guard = [sys.executable, "-I", "-S", client_guard.__file__, str(lifeline)]
        try:
            self._guard = subprocess.Popen(
                [*guard, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pass_fds=[lifeline],
                env={**os.environ, MARK: run_id},
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._lifeline)
            raise EnvironmentFailure(f"no client can be started: {error.strerror}") from error
        finally:
            os.close(lifeline)
        assert self._guard.stdin is not None
        assert self._guard.stdout is not None
        assert self._guard.stderr is not None
        self.stdin, self.stdout, self.log = self._guard.stdin, self._guard.stdout, log
        os.set_blocking(self.stdin.fileno(), False)
        os.set_blocking(self.stdout.fileno(), False)
        self._copier = threading.Thread(
            target=log.copy, args=[self._guard.stderr], name=f"log of {name}", daemon=True
        )
        self._copier.start()

    def gone(self) -> bool:
        """Whether nothing of it is left: its guard ends after it."""
        return self._guard.poll() is not None

    def end(self, grace_s: float) -> int | None:
        """Give it so long to end by itself, then kill it and all that it has started; its exit
        code, `None` where it had to be killed."""
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = self._guard.wait(grace_s)
        os.close(self._lifeline)
        for stream in (self.stdin, self.stdout):
            with suppress(OSError):
                stream.close()
        try:
            self._guard.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()  # the kernel kills the command with it
            self._guard.wait()
        self._copier.join(_END_S)
        return code


def exit_in_words(code: int | None) -> str:
    """How a process ended."""
    if code is None:
        return "it closed its stdout"
    if code > 128:
        with suppress(ValueError):
            return f"it was killed by {signal.Signals(code - 128).name}"
    return f"it ended with exit code {code}"
