"""The output of a command in a container is whole, also where it comes with the header."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import docker
import pytest
from docker.errors import APIError

from harness.images.daemon import executed


class Daemon(BaseHTTPRequestHandler):
    """Answers like Docker's, header and output in one packet, as on a busy machine."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.endswith("/exec/none/start"):
            self._send(409, {"message": "is not running"})
        elif not self.path.endswith("/start"):
            self._send(201, {"Id": "none" if "/gone/" in self.path else "e"})
        else:
            frames = b"".join(
                bytes([stream, 0, 0, 0]) + len(text).to_bytes(4, "big") + text
                for stream, text in ((1, b"hel"), (2, b"lo\n"))
            )
            header = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"
            self.wfile.write(header + frames)

    def do_GET(self) -> None:
        self._send(200, {"ExitCode": 3})

    def _send(self, code: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def api() -> Iterator[docker.APIClient]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Daemon)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    client = docker.APIClient(f"tcp://127.0.0.1:{server.server_port}", version="1.41")
    yield client
    client.close()
    server.shutdown()
    server.server_close()


def test_output_that_comes_with_the_header_is_not_lost(api: docker.APIClient) -> None:
    assert executed(api, "x", ["echo", "hello"]) == (3, "hello\n")


def test_what_does_not_run_is_refused_by_docker(api: docker.APIClient) -> None:
    with pytest.raises(APIError, match="is not running"):
        executed(api, "gone", ["echo", "hello"])
