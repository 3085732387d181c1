"""Names and sentences that others wrote are text: no markup, no control sequences, one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.cli import main
from tests.fixtures.synthetic_campaign import Chances, Synthetic, build_campaign

NAMES = ("plan [red]with[/red] [bold]", "[/x]", ":smile:", "when=isr == [leader]")
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
