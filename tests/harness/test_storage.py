"""Folders at URLs: what is read and written there, and what is refused in one sentence.

S3 is a server on loopback; `local://` is fsspec's scheme for this machine's files.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import AcklossError, EnvironmentFailure, HistoryError
from harness.storage import Folder, local_path
from tests.fixtures.s3 import S3, s3_bucket


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    with s3_bucket(tmp_path_factory.mktemp("s3"), "runs") as server:
        yield server


@pytest.fixture(params=["s3", "file", "fsspec"])
def url(request: pytest.FixtureRequest, s3: S3, tmp_path: Path) -> str:
    """A folder that is not there yet, with a space in its name."""
    places = {"s3": f"s3://runs/{tmp_path.name}/a b", "file": f"file://{tmp_path}/a b"}
    return places.get(request.param, f"local://{tmp_path}/a b")


def refused(url: str) -> AcklossError:
    with pytest.raises(AcklossError) as raised:
        Folder.at(url).files()
    assert "\n" not in str(raised.value)
    return raised.value


def test_what_is_written_is_read(url: str, tmp_path: Path) -> None:
    folder = Folder.at(url + "/")
    assert type(refused(url)) is HistoryError
    folder.write("x/one", b"1")
    (tmp_path / "two").write_bytes(b"22")
    folder.send({"two": tmp_path / "two"})
    assert folder.files() == {"two": 2, "x/one": 1}
    assert folder.below("x").files() == {"one": 1}
    assert (folder.has("x/one"), folder.has("x"), folder.has("y")) == (True, False, False)
    copy = tmp_path / "copies" / "deep"
    folder.fetch({"two": copy / "two", "x/one": copy / "one"})
    assert (copy / "two").read_bytes() + (copy / "one").read_bytes() == b"221"
    folder.remove("two")
    assert folder.files() == {"x/one": 1}
    with pytest.raises(HistoryError, match="there is nothing here"):
        folder.read("two")


def test_options_of_a_file_system_stay_in_the_url(s3: S3) -> None:
    options = f"endpoint_override={s3.endpoint.removeprefix('http://')}&scheme=http"
    folder = Folder.at(f"s3://runs/options?{options}")
    folder.below("deep").write("one", b"1")
    assert folder.files() == {"deep/one": 1}
    assert folder.place("deep/one") == f"s3://runs/options/deep/one?{options}"


def test_access_that_is_denied_is_named(s3: S3) -> None:
    """A server that answers 403 to everything."""
    error = refused(f"s3://runs/x?endpoint_override={denying()}&scheme=http")
    assert (type(error), error.what) == (EnvironmentFailure, "access is denied")
    assert "AWS_ACCESS_KEY_ID" in str(error)


def denying() -> str:
    import http.server
    import threading

    class Denying(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(403)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Denying)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_port}"


def test_a_bucket_that_is_not_there_is_named(s3: S3) -> None:
    assert str(refused("s3://none/x")) == "s3://none/x: there is no such bucket"


def test_a_storage_that_does_not_answer_is_named(s3: S3) -> None:
    error = refused("s3://runs/x?endpoint_override=127.0.0.1:1&scheme=http")
    assert isinstance(error, EnvironmentFailure)
    assert error.what.startswith("the storage does not answer as it should: ")


def test_a_scheme_that_nothing_reads_is_named(s3: S3) -> None:
    error = refused("gopher://runs/x")
    assert isinstance(error, HistoryError)
    assert error.what == "nothing here reads the scheme 'gopher'"
    assert "Protocol not known" in str(error)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    error = refused("s3://KEY:SECRET@runs/x")
    assert error.what.startswith("a URL with credentials is refused")
    assert "SECRET" not in str(error)


def test_a_file_url_is_a_path() -> None:
    assert local_path("file:///tmp/a%20b") == Path("/tmp/a b")
    assert local_path("s3://runs/x") is None
