"""Folders at URLs: what is read and written there, and what is refused in one sentence.

S3 is a server on loopback; `local://` is fsspec's scheme for this machine's files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import AcklossError, EnvironmentFailure, HistoryError
from harness.storage import Folder
from harness.urls import local_path, refuse_credentials
from tests.fixtures.s3 import S3
from tests.fixtures.small_disk import no_file_above

pytestmark = pytest.mark.slow


@pytest.fixture(params=["s3", "file", "fsspec"])
def url(request: pytest.FixtureRequest, s3: S3, tmp_path: Path) -> str:
    """A folder that is not there yet, with a space in its name."""
    places = {"s3": f"s3://bucket/{tmp_path.name}/a b", "file": f"file://{tmp_path}/a b"}
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
    folder = Folder.at(f"s3://bucket/options?{options}")
    folder.below("deep").write("one", b"1")
    assert folder.files() == {"deep/one": 1}
    assert folder.place("deep/one") == f"s3://bucket/options/deep/one?{options}"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (403, ""),
        (403, "AccessDenied"),
        (400, "ExpiredToken"),
    ],
)
def test_access_that_is_denied_is_named(s3: S3, status: int, code: str) -> None:
    error = refused(f"s3://bucket/x?endpoint_override={denying(status, code)}&scheme=http")
    assert (type(error), error.what) == (EnvironmentFailure, "access is denied")
    assert "AWS_ACCESS_KEY_ID" in str(error)


def denying(status: int, code: str) -> str:
    """A server that answers everything with this status, and S3's document with this code."""
    import http.server
    import threading

    document = f"<Error><Code>{code}</Code><Message>No.</Message></Error>" if code else ""

    class Denying(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(document)))
            self.end_headers()
            self.wfile.write(document.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Denying)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return f"127.0.0.1:{server.server_port}"


def test_a_bucket_that_is_not_there_is_named(s3: S3) -> None:
    assert str(refused("s3://none/x")) == "s3://none/x: there is no such bucket"


def test_a_storage_that_does_not_answer_is_named(s3: S3) -> None:
    error = refused("s3://bucket/credentials?endpoint_override=127.0.0.1:1&scheme=http")
    assert isinstance(error, EnvironmentFailure)
    assert error.what.startswith("the storage does not answer as it should: ")


def test_a_scheme_that_nothing_reads_is_named(s3: S3) -> None:
    error = refused("gopher://runs/x")
    assert isinstance(error, HistoryError)
    assert error.what == "nothing here reads the scheme 'gopher'"
    assert "Protocol not known" in str(error)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("s3://KEY:SECRET@bucket/x", "s3://***@bucket/x"),
        ("s3://SECRET@bucket/x", "s3://***@bucket/x"),
        ("https://SECRET@host/x", "https://***@host/x"),
        ("s3://KEY:SECRET/x@bucket/x", "s3://***@bucket/x"),
        ("s3://KEY:SECRET?x@bucket/x", "s3://***@bucket/x"),
        ("s3://KEY:x#SECRET@bucket/x", "s3://***@bucket/x"),
        ("s3://KEY:x@SECRET/y@bucket/x?region=eu", "s3://***@bucket/x"),
        ("hdfs://user:SECRET@name:8020/x", "hdfs://***@name:8020/x"),
        ("file://user:SECRET@name/x", "file://***@name/x"),
        ("s3://bucket/x?region=eu&access_key=SECRET", "s3://bucket/x: access_key"),
        ("s3://bucket/x?Secret_Key=SECRET", "s3://bucket/x: Secret_Key"),
        ("s3://bucket/x?region=eu;password=SECRET", "s3://bucket/x: password"),
        ("s3://bucket/x?X-Amz-Security-Token=SECRET", "s3://bucket/x: X-Amz-Security-Token"),
        ("gs://runs/x?X-Goog-Signature=SECRET", "gs://runs/x: X-Goog-Signature"),
        ("abfs://c@account/x?sv=1&s%69g=SECRET", "abfs://c@account/x: sig"),
        ("gopher://runs/x#token=SECRET", "gopher://runs/x: token"),
        ("s3://bucket/x?my-token-SECRET", "s3://bucket/x"),
        (
            "s3://bucket/x?endpoint_override=http%3A%2F%2FKEY:SECRET@host",
            "s3://bucket/x: endpoint_override",
        ),
    ],
)
def test_credentials_in_a_url_are_refused_and_not_repeated(url: str, place: str) -> None:
    error = refused(url)
    assert isinstance(error, HistoryError)
    assert str(error).startswith(f"{place}: a URL with credentials is refused, ")
    assert "SECRET" not in f"{error}{error.document()}"


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/R&D;key=1/@?region=eu&endpoint_override=name:9000&scheme=http",
        "s3://bucket/token/sig",
        "hdfs://user@name:8020/a@b",
        "hdfs://[::1]:8020/a@b",
        "abfs://container@account.dfs.core.windows.net/x?credential_kind=environment",
        "local:///tmp/a:b@c",
    ],
)
def test_a_url_without_credentials_is_not_refused_as_one_with_them(url: str) -> None:
    refuse_credentials(url)


def test_a_url_whose_end_would_be_ignored_is_refused(tmp_path: Path) -> None:
    """What follows its # would not be a part of the folder's name."""
    error = refused(f"file://{tmp_path}#1")
    assert isinstance(error, HistoryError)
    assert error.what == "this URL cannot be used: write its # as %23"
    assert isinstance(refused("s3://[bucket/x"), HistoryError)


def test_a_file_url_is_a_path() -> None:
    assert local_path("file:///tmp/a%20b") == Path("/tmp/a b")
    assert local_path("s3://bucket/x") is None


def test_a_disk_of_this_machine_that_is_full_is_not_the_storages_fault(
    url: str, tmp_path: Path
) -> None:
    folder = Folder.at(url)
    folder.write("large", b"x" * 2**20)
    here = tmp_path / "here"
    with no_file_above(2**16), pytest.raises(EnvironmentFailure) as raised:
        folder.fetch({"large": here / "large"})
    assert raised.value.what == "cannot keep a copy of what is read: File too large"
    assert raised.value.file == str(here)
    assert "TMPDIR" in str(raised.value.hint)
    (tmp_path / "file").touch()
    with pytest.raises(
        EnvironmentFailure, match=r"cannot keep a copy of what is read: File exists"
    ):
        folder.fetch({"large": tmp_path / "file" / "large"})
