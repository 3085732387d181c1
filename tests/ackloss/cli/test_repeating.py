"""The command that a page shows to run a plan again is one that runs it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import rich_click as click

from ackloss.cli.run import run
from harness.campaigns.worker import _Worker
from harness.history.documents import StoredRun
from harness.history.run_folder import RunDir
from harness.plan import load_plan, parse_plan
from harness.plan.parsing import PLANS, named_files
from reports.formatting import FLAGS, command, repeats
from tests.fixtures.campaign_process import TWO, campaign_file
from tests.fixtures.command_line import ackloss

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

PLAN = Path(__file__).parents[3] / "plans/memory/log.toml"
OPTIONS = [each for each in run.get_params(click.Context(run)) if isinstance(each, click.Option)]
VALUED = [max(each.opts, key=len) for each in OPTIONS if not (each.is_flag or each.count)]


def parsed(words: list[str]) -> dict[str, Any]:
    """The parameters of `ackloss run`."""
    assert words[:2] == ["ackloss", "run"]
    return run.make_context("run", words[2:]).params


def test_the_options_without_a_value_are_known() -> None:
    context = click.Context(run)
    flags = {
        name
        for each in run.get_params(context)
        if isinstance(each, click.Option) and (each.is_flag or each.count)
        for name in each.opts
    }
    assert flags | {"-h"} == FLAGS


@pytest.mark.parametrize("option", VALUED)
def test_the_command_has_each_option_with_its_value(option: str, tmp_path: Path) -> None:
    """Also where the value ends as a plan's name does."""
    folder = tmp_path / "x.toml"
    values = {"--seed": "7", "--client": "./c --conf c.toml", "--set": "target.image=x.toml"}
    if option == "--signals":
        folder.mkdir()
    elif option not in (*values, "--out", "--master"):
        folder.write_text("")
    words = ["ackloss", "run", str(PLAN), option, values.get(option, str(folder)), "--force"]
    stored = StoredRun(plan_file=str(PLAN), command=tuple(words))
    assert parsed(shlex.split(command(stored, 7))) == parsed([*words, "--seed", "7"])


def test_a_stored_plan_is_read_as_the_plan_that_it_was(tmp_path: Path) -> None:
    stored = tmp_path / "plan.json"
    for path in named_files(PLANS).values():
        plan = load_plan(path)
        stored.write_text(json.dumps(plan.document()))
        assert load_plan(stored) == parse_plan(plan.document()) == plan, path


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "a plan is TOML"), ("[1]", "a plan is TOML"), ('{"name": "x"}', "a plan is TOML")],
)
def test_a_stored_plan_that_cannot_be_read_is_refused(
    text: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "plan.json").write_text(text)
    done = ackloss("run", tmp_path / "plan.json", "--dry-run")
    assert done.exit_code == 4
    assert words in done.stderr


def test_a_run_of_a_campaign_can_be_repeated(tmp_path: Path) -> None:
    file = campaign_file(tmp_path, PLAN.read_text(), TWO, repetitions=1)
    assert ackloss("campaign", "run", file, "--out", tmp_path / "c").exit_code == 0
    first, _ = sorted((tmp_path / "c" / "runs").iterdir())
    metadata = json.loads((first / "run.json").read_bytes())
    stored = StoredRun(
        plan_file=metadata["plan_file"],
        command=tuple(metadata["command"]),
        cluster=metadata["cluster"],
    )
    shown = shlex.split(command(stored, metadata["seed"]))
    assert shown == ["ackloss", "run", "--seed", str(metadata["seed"]), str(first / "plan.json")]
    done = ackloss(*shown[1:], "--out", tmp_path / "again")
    assert done.exit_code == 0, done.output
    (again,) = (tmp_path / "again").iterdir()
    assert (again / "plan.json").read_bytes() == (first / "plan.json").read_bytes()


def test_the_command_of_a_campaigns_run_has_what_only_its_command_line_named() -> None:
    worker: Any = _Worker(
        scheduler=None,  # type: ignore[arg-type]
        folder=Path("runs"),
        judge=dict,
        interrupts=None,  # type: ignore[arg-type]
        client=("./c", "--conf", "c d.toml"),
        inventory=Path("hosts.toml"),
    )
    words = worker._command(RunDir(Path("runs/r1")))
    stored = StoredRun(plan_file="runs/r1/plan.json", command=tuple(words))
    assert command(stored, 7) == (
        "ackloss run --seed 7 runs/r1/plan.json "
        """--client './c --conf '"'"'c d.toml'"'"'' --inventory hosts.toml"""
    )
    assert "campaign" not in repeats(stored)
