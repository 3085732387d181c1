"""Excerpts of node logs: few lines, cut, and never more than is said."""

from __future__ import annotations

from pathlib import Path

from analysis.logs import LINES_AT_MOST, excerpts
from harness.rundir import RunDir


def run_with(folder: Path, *lines: bytes) -> RunDir:
    run = RunDir.create(folder, "run")
    node = run.node("b1")
    node.mkdir()
    (node / "server.log").write_bytes(b"\n".join(lines) + b"\n")
    return run


def test_only_lines_that_tell_of_elections_and_the_isr(tmp_path: Path) -> None:
    run = run_with(tmp_path, b"INFO starting", b"INFO Shrinking ISR from 1,2 to 1", b"INFO bye")
    (excerpt,) = excerpts(run)
    assert (excerpt.node, excerpt.file, excerpt.found) == ("b1", "server.log", 1)
    assert excerpt.lines == ["INFO Shrinking ISR from 1,2 to 1"]


def test_many_are_cut_and_counted(tmp_path: Path) -> None:
    run = run_with(tmp_path, *[b"Expanding ISR " + b"x" * 9000] * 500)
    (excerpt,) = excerpts(run)
    assert excerpt.found == 500
    assert len(excerpt.lines) == LINES_AT_MOST
    assert max(map(len, excerpt.lines)) < 500


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    (excerpt,) = excerpts(run_with(tmp_path, b"\xff\xfe Shrinking ISR \x00"))
    assert excerpt.lines == ["\ufffd\ufffd Shrinking ISR \x00"]


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "secret.log"
    outside.write_text("elected\n")
    run = run_with(tmp_path, b"nothing")
    (run.node("b1") / "other.log").symlink_to(outside)
    assert excerpts(run) == []
