"""Archives in memory: what is packed is unpacked."""

from __future__ import annotations

import io
import tarfile

from harness.machine.files import packed, unpacked


def test_files_are_unpacked_as_they_were_packed() -> None:
    files = {"a": b"1", "deep/er/b": b"", "deep/c": b"\x00\xff"}
    assert dict(unpacked(packed(files))) == files


def test_folders_come_once_and_before_their_files() -> None:
    archive = packed({"deep/er/b": b"x", "deep/c": b"y"})
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        assert members.getnames() == ["deep", "deep/er", "deep/er/b", "deep/c"]
