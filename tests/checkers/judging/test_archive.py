"""The name of Spark's class-data archive says what it fits; the JVM says nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from checkers.judging import spark


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A jar of an installation, whose cache is empty."""
    jars = tmp_path / "pyspark/jars"
    jars.mkdir(parents=True)
    (jars / "spark.jar").write_bytes(b"classes")
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "pyspark/__init__.py"))
    monkeypatch.setenv("ACKLOSS_CACHE", str(tmp_path / "cache"))
    spark.archive_path.cache_clear()
    yield jars / "spark.jar"
    spark.archive_path.cache_clear()


def path_now() -> Path:
    spark.archive_path.cache_clear()
    return spark.archive_path()


def test_one_of_jars_that_were_installed_again_does_not_fit(jar: Path) -> None:
    """The JVM compares their sizes and times."""
    before = path_now()
    assert path_now() == before
    os.utime(jar, ns=(0, 1))
    installed_again = path_now()
    jar.write_bytes(b"other classes")
    os.utime(jar, ns=(0, 1))
    assert len({before, installed_again, path_now()}) == 3


def test_a_new_one_replaces_those_of_the_same_installation(
    jar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = path_now()
    first.parent.mkdir(parents=True)
    first.write_bytes(b"first")
    others = first.with_name(f"{pyspark.__version__}-{'0' * 12}-{'1' * 12}.jsa")
    others.write_bytes(b"of another installation")
    os.utime(jar, ns=(0, 1))
    new = path_now()

    def made(argv: list[str], **_: object) -> None:
        Path(argv[-1]).write_bytes(b"new")

    monkeypatch.setattr(spark.subprocess, "run", made)
    spark.prepare_archive(print)
    assert (first.exists(), others.exists(), new.read_bytes()) == (False, True, b"new")
