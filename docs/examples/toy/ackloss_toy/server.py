"""The system under test: a store of integers, one TCP server for each node, one JSON a line.

    {"append": 7}  ->  {"offset": 0}        {"read": true}  ->  {"values": [7], "mode": "stored"}
    {"mode": "received"}  ->  {"mode": "received"}          {"mode": null}  ->  {"mode": "received"}

In the mode stored, a value is in the file before it is acknowledged; in the mode received it is
only in memory until somebody reads. It imports nothing but Python's library.
"""

from __future__ import annotations

import argparse
import json
import socketserver
import threading
from pathlib import Path
from typing import Any


class Store:
    """The values, and the file that outlives the process."""

    def __init__(self, file: Path, mode: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.mode, self._lock = mode, threading.Lock()
        self._file = file.open("a+", buffering=1)
        self._file.seek(0)
        self._values = [int(line) for line in self._file if line.endswith("\n")]
        self._stored = len(self._values)

    def answer(self, requested: dict[str, Any]) -> dict[str, Any]:
        """Append, or read everything, or change the mode."""
        with self._lock:
            if "mode" in requested:
                self.mode = requested["mode"] or self.mode
                return {"mode": self.mode}
            if "append" in requested:
                self._values.append(int(requested["append"]))
            if self.mode == "stored" or "read" in requested:
                self._file.writelines(f"{value}\n" for value in self._values[self._stored :])
                self._file.flush()
                self._stored = len(self._values)
            if "read" in requested:
                return {"values": self._values, "mode": self.mode}
            return {"offset": len(self._values) - 1}


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", required=True)
    parser.add_argument("--file", required=True, type=Path)
    parser.add_argument("--mode", required=True)
    requested = parser.parse_args()
    store = Store(requested.file, requested.mode)

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                self.wfile.write(json.dumps(store.answer(json.loads(line))).encode() + b"\n")

    host, _, port = requested.listen.partition(":")
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    with socketserver.ThreadingTCPServer((host, int(port)), Handler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
