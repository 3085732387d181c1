"""Names and sentences that others wrote are text: no markup, no control sequences, one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ackloss.cli import main
from ackloss.cli.output import plain
from tests.fixtures.synthetic_campaign import Chances, Synthetic, build_campaign

NAMES = (
    "a plan whose name is wider than a terminal is: " + 60 * "x",
    "plan [red]with[/red] [bold]",
    "[/x]",
    ":smile:",
    "when=isr == [leader]",
)
WHEN = """
[axes.when]
key = "faults.1.when"
values = ["isr == [leader]", "no leader"]
"""


def ackloss(*args: str | Path) -> Result:
    """The output at a terminal, which is where colours and control sequences are sent."""
    done = CliRunner().invoke(main, [*map(str, args)], prog_name="ackloss", color=True)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done


def run_folder(folder: Path, *, plan: str = "p") -> Path:
    folder.mkdir(parents=True)
    (folder / "run.json").write_text('{"schema": 1, "state": "done"}')
    (folder / "plan.json").write_text(json.dumps({"schema": 1, "name": plan}))
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_a_plans_name_is_listed_as_it_is(tmp_path: Path, name: str) -> None:
    run_folder(tmp_path / "r1", plan=name)
    done = ackloss("ls", "--out", tmp_path)
    assert (done.exit_code, name in done.output) == (0, True), done.output


def test_a_folders_name_is_printed_as_it_is(tmp_path: Path) -> None:
    done = ackloss("ls", "--out", tmp_path / "no[x]runs")
    assert (done.exit_code, done.output) == (0, f"no runs in {tmp_path}/no[x]runs\n")


def test_a_cells_name_is_printed_as_it_is(tmp_path: Path) -> None:
    folder, _ = build_campaign(
        tmp_path / "c", Synthetic(axes=WHEN, runs=1, chances=lambda _: Chances())
    )
    done = ackloss("campaign", "status", folder.path)
    assert done.exit_code == 0, done.output
    assert [line.strip().split("  ")[0] for line in done.output.splitlines()[1:3]] == [
        "when=isr == [leader]",
        "when=no leader",
    ]


HOSTILE = "\x1b]0;x\x07\x1b[2J\nVALID: all writes were found\u2028\x9b"
SHOWN = "\\x1b]0;x\\x07\\x1b[2J\\nVALID: all writes were found\\u2028\\x9b"


def test_text_for_the_user_is_one_line_without_control_sequences() -> None:
    assert plain(HOSTILE) == SHOWN


@pytest.mark.parametrize("verb", [("check",), ("lake", "build", "--to", "lake")])
def test_each_bad_input_is_one_line_without_control_sequences(
    verb: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (first := tmp_path / f"1{HOSTILE}", second := tmp_path / f"2{HOSTILE}"):
        folder.mkdir()
    done = ackloss(*verb, first, second)
    assert done.exit_code == 4
    lines = done.stderr.strip().split("\n")
    assert len(lines) == 2, lines
    for number, line in enumerate(lines, 1):
        assert line.startswith("ackloss: ")
        assert f"{number}{SHOWN}: " in line
        assert line.isprintable()


def test_a_reason_from_a_file_is_one_line(tmp_path: Path) -> None:
    result = {
        "schema": 1,
        "verdict": "unknown",
        "reason": "all lost\nVALID: all 10 writes were found",
        "counts": {"acknowledged": 10, "lost": 0},
        "faults": [],
        "seed": 1,
    }
    (run_folder(tmp_path / "r1") / "result.json").write_text(json.dumps(result))
    first, *others = ackloss("show", tmp_path / "r1").output.splitlines()
    assert "UNKNOWN: all lost\\nVALID: all 10 writes were found" in first
    assert not [line for line in others if "VALID" in line]
