"""Folders that a URL names: in object storage, in HDFS, in whatever pyarrow or fsspec reads.

pyarrow's file systems come first (`s3://`, `gs://`, `hdfs://`, `abfs://`); a scheme that pyarrow
does not know is fsspec's, where fsspec is installed. Options of a file system are in the URL's
query, as pyarrow has them (`?endpoint_override=...`). Credentials come from the environment of the
process that reads, and never from a URL: it is shown in messages.

What is refused is one sentence: a folder that is absent is a HistoryError; a storage that does not
answer, or refuses, is an EnvironmentFailure.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from harness.errors import AcklossError, EnvironmentFailure, HistoryError
from harness.urls import is_url, local_path, refuse_credentials

_THREADS: Final = 8
_CHUNK_BYTES: Final = 2**20
_LONGEST: Final = 200
_DENIED: Final = re.compile(
    r"ACCESS_?DENIED|INVALID_?ACCESS_?KEY_?ID|SIGNATURE|EXPIRED_?TOKEN|INVALID_?TOKEN|FORBIDDEN"
    r"|PRIVILEGES|PERMISSION.DENIED|UNAUTHENTICATED|AUTHENTICATION|AUTHORIZATION|CREDENTIALS"
    r"|HTTP (response code|status) 40[13]",
    re.IGNORECASE,
)
_NAMES: Final = re.compile(r"'[^']*'")
"""Of keys and buckets, in what a file system says."""
_CREDENTIALS: Final = ("AWS_", "AZURE_", "CLOUDSDK_", "GOOGLE_", "HADOOP_")
_WITHOUT_FOLDERS: Final = ("s3", "gcs")
"""pyarrow's names of file systems whose folders need not be made."""


def environment() -> dict[str, str]:
    """The variables from which storages' clients have endpoints and credentials, as they are now:
    for a process that started before they were set."""
    return {name: value for name, value in os.environ.items() if name.startswith(_CREDENTIALS)}


@dataclass(frozen=True)
class Folder:
    """A folder at a URL. Names are paths below it, with slashes. All methods raise HistoryError
    for what is absent, and EnvironmentFailure where the storage does not answer or refuses."""

    url: str

    @classmethod
    def at(cls, url: str) -> Folder:
        """The folder of a URL, if something here reads its scheme. Raises HistoryError, also for
        one with credentials."""
        refuse_credentials(url)
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise HistoryError(f"this URL cannot be used: {error}", file=url) from error
        if parts.fragment:
            raise HistoryError("this URL cannot be used: write its # as %23", file=url)
        path = parts.path.rstrip("/")
        query = f"?{parts.query}" if parts.query else ""
        folder = cls(f"{parts.scheme.lower()}://{parts.netloc}{path}{query}")
        try:
            with _in_one_sentence(folder.place()):
                folder.opened()
        except EnvironmentFailure as error:
            if isinstance(error.__cause__, pa.ArrowInvalid | ValueError):
                what = f"this URL cannot be used: {_first_line(error.__cause__)}"
                raise HistoryError(what, file=folder.url) from error
            raise
        return folder

    @classmethod
    def of(cls, path: Path) -> Folder:
        """A folder of this machine."""
        return cls.at(path.absolute().as_uri())

    def below(self, name: str) -> Folder:
        """A folder below this one."""
        base, mark, query = self.url.partition("?")
        return Folder(f"{base}/{quote(name)}{mark}{query}") if name else self

    @property
    def local(self) -> Path | None:
        """The folder's path, if it is on this machine."""
        return local_path(self.url)

    def place(self, name: str = "") -> str:
        """The folder, or a file below it, for messages: its path on this machine, or its URL."""
        if self.local is not None:
            return str(self.local / name)
        base, mark, query = self.url.partition("?")
        return f"{base}{'/' if name else ''}{name}{mark}{query}"

    def files(self, *, may_be_absent: bool = False) -> dict[str, int]:
        """Every file below it by its name, in order, with its size in bytes."""
        found = self._found(may_be_absent=may_be_absent)
        return {name: info.size for name, info in found.items()}

    def written_ns(self) -> dict[str, int | None]:
        """Every file below it, which may be absent, by its name: when it was last written, in
        nanoseconds since 1970 by the storage's clock; `None` where the storage does not say."""
        found = self._found(may_be_absent=True)
        return {name: info.mtime_ns for name, info in found.items()}

    def _found(self, *, may_be_absent: bool) -> dict[str, Any]:
        fs, path = self.opened()
        selector = pafs.FileSelector(path, recursive=True, allow_not_found=may_be_absent)
        with _in_one_sentence(self.place()):
            found = fs.get_file_info(selector)
        begin = len(path) + 1
        files = {each.path[begin:]: each for each in found if each.type == pafs.FileType.File}
        if not files and not may_be_absent:
            raise HistoryError("there is nothing here", file=self.place())
        return dict(sorted(files.items()))

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        fs, path = self.opened()
        with _in_one_sentence(self.place(name)):
            info = fs.get_file_info(f"{path}/{name}")
        return bool(info.type == pafs.FileType.File)

    def read(self, name: str) -> bytes:
        """The content of a file."""
        fs, path = self.opened()
        with _in_one_sentence(self.place(name)), fs.open_input_stream(f"{path}/{name}") as stream:
            content: bytes = stream.read()
            return content

    def fetch(self, files: Mapping[str, Path]) -> None:
        """Copy files to the paths given, some at the same time; makes the paths' folders. Raises
        EnvironmentFailure also where these cannot be written."""
        fs, path = self.opened()

        def fetch(name: str) -> None:
            try:
                files[name].parent.mkdir(parents=True, exist_ok=True)
                with _in_one_sentence(self.place(name)):
                    stream = fs.open_input_stream(f"{path}/{name}")
                with stream, files[name].open("wb") as copy:
                    while True:
                        with _in_one_sentence(self.place(name)):
                            chunk: bytes = stream.read(_CHUNK_BYTES)
                        if not chunk:
                            break
                        copy.write(chunk)
            except OSError as error:
                raise EnvironmentFailure(
                    f"cannot keep a copy of what is read: {_first_line(error)}",
                    file=str(files[name].parent),
                    hint="free some space there, or name another folder for temporary files in "
                    "TMPDIR",
                ) from error

        _together(fetch, files)

    def write(self, name: str, content: bytes) -> None:
        """Write a file."""
        self.write_by(name, lambda stream: stream.write(content))

    def send(self, files: Mapping[str, Path]) -> None:
        """Copy files from the paths given, some at the same time."""

        def send(name: str) -> None:
            with files[name].open("rb") as source:
                self.write_by(name, lambda stream: stream.upload(source, _CHUNK_BYTES))

        _together(send, files)

    def remove(self, name: str) -> None:
        fs, path = self.opened()
        with _in_one_sentence(self.place(name)):
            fs.delete_file(f"{path}/{name}")

    def write_by(self, name: str, write: Callable[[Any], object]) -> None:
        """Write a file by `write`, which gets the stream. By its final name it appears completely
        or not at all; but object storage knows no renaming: there a write that breaks off may leave
        a shorter file, which readers know by its manifest."""
        fs, path = self.opened()
        folder, _, last = f"{path}/{name}".rpartition("/")
        at_once = fs.type_name in _WITHOUT_FOLDERS
        partial = f"{folder}/{last if at_once else f'.{last}.partial'}"
        with _in_one_sentence(self.place(name), writing=True):
            if not at_once:
                fs.create_dir(folder, recursive=True)
            try:
                with fs.open_output_stream(partial) as stream:
                    write(stream)
                if self.local is not None:
                    with Path(partial).open("rb") as written:
                        os.fsync(written.fileno())
                if not at_once:
                    fs.move(partial, f"{folder}/{last}")
            except BaseException:
                if not at_once:
                    with contextlib.suppress(OSError, pa.ArrowException):
                        fs.delete_file(partial)
                raise

    def opened(self) -> tuple[Any, str]:
        """The file system, and this folder's path in it."""
        parts = urlsplit(self.url)
        try:
            fs, prefix = _file_system(parts.scheme, parts.netloc, parts.query)
        except HistoryError as error:
            error.file = self.url
            raise
        return fs, prefix + unquote(parts.path)


@cache
def _file_system(scheme: str, authority: str, query: str) -> tuple[Any, str]:
    """The file system of such URLs, made once in a process, and what its paths begin with."""
    probe = f"{scheme}://{authority}/x{'?' if query else ''}{query}"
    try:
        fs, path = pafs.FileSystem.from_uri(probe)
    except pa.ArrowInvalid as error:
        if "Unrecognized filesystem" not in str(error):
            raise
        fs, path = _of_fsspec(scheme, probe)
    return fs, path.removesuffix("x").removesuffix("/")


def _of_fsspec(scheme: str, url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs

        fs, path = url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise HistoryError(
            f"nothing here reads the scheme {scheme!r}",
            hint=f"pyarrow reads s3, gs, hdfs, abfs and file; fsspec says: {error}",
        ) from error
    return pafs.PyFileSystem(pafs.FSSpecHandler(fs)), path


def _together(each: Callable[[str], None], names: Mapping[str, Path]) -> None:
    """Call for each name; small files wait for the storage's answer most of the time."""
    with ThreadPoolExecutor(_THREADS) as pool:
        for _ in pool.map(each, names):
            pass


@contextlib.contextmanager
def _in_one_sentence(url: str, *, writing: bool = False) -> Iterator[None]:
    """What a file system raises, as an error that names the place."""
    try:
        yield
    except AcklossError:
        raise
    except (OSError, pa.ArrowException, ValueError) as error:
        if isinstance(error, FileNotFoundError) and not writing:
            raise HistoryError("there is nothing here", file=url) from error
        raise trouble_at(url, error) from error


def trouble_at(url: str, error: Exception) -> AcklossError:
    """What a library says of a storage, as an error that names the place."""
    if isinstance(error, PermissionError) or _DENIED.search(_NAMES.sub("", str(error))):
        hint = "credentials come from this process' environment, such as AWS_ACCESS_KEY_ID"
        return EnvironmentFailure("access is denied", file=url, hint=hint if is_url(url) else None)
    if "NO_SUCH_BUCKET" in str(error):
        return HistoryError("there is no such bucket", file=url)
    what = "the storage does not answer as it should" if is_url(url) else "cannot be used"
    return EnvironmentFailure(f"{what}: {_first_line(error)}", file=url)


def _first_line(error: BaseException) -> str:
    """What a file system says, without what only its authors need."""
    if isinstance(error, OSError) and error.strerror:
        return str(error.strerror)
    return re.split(r" \(Request ID|; Details", " ".join(str(error).split()))[0][:_LONGEST]
