"""Files that are replaced completely or not at all, also by several writers at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.machine.files import replace_file, replacing


def test_writers_at_the_same_time_do_not_meet(tmp_path: Path) -> None:
    """As two `ackloss check` of one run: the last one counts, and none fails."""
    file = tmp_path / "result.json"
    contents = [letter * 50_000 for letter in (b"a", b"b")]

    def write(content: bytes) -> None:
        for _ in range(30):
            replace_file(file, content)
            assert file.read_bytes() in contents

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, contents))
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_write_that_fails_leaves_the_file_and_nothing_else(
    tmp_path: Path, error: type[BaseException]
) -> None:
    file = tmp_path / "result.json"
    replace_file(file, b"before")

    def fail() -> None:
        with replacing(file) as partial:
            partial.write_bytes(b"half")
            assert partial.name.startswith(".")
            raise error

    with pytest.raises(error):
        fail()
    assert file.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [file]
