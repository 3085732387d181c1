"""Whose code raised what: a plug-in's, or that of ackloss."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from harness import failures, registry
from tests.fixtures.command_line import ackloss
from tests.fixtures.planting import Plant

PLAN = """\
schema = 1
name = "planted"
cluster = { kind = "memory" }
target = { system = "memory" }
workload = { processes = 2, duration_s = 1 }
[[faults]]
id = "cut"
at_s = 0.2
nemesis = "pull"
nodes = "one"
"""
PULL = '''
import subprocess

def helper(nodes):
    return WRONG

@dataclass(frozen=True)
class Pull(Nemesis):
    """Pulls the plug."""

    plugin: ClassVar[str] = "pull"

    def requires(self, node):
        return []

    def acts(self, nodes, select):
        return helper(nodes)
'''


def run(tmp_path: Path, *options: str) -> Result:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    return ackloss("run", plan, "--out", tmp_path / "runs", *options)


def test_a_plug_in_that_raises_in_a_run_is_named_with_its_place(
    plant: Plant, tmp_path: Path
) -> None:
    file = plant(PULL.replace("WRONG", "nodes[9]"), nemeses_pull="Pull")
    line = file.read_text().splitlines().index("    return nodes[9]") + 1
    done = run(tmp_path)
    said = f"the nemesis 'pull' failed in acts() ({file.name}, line {line}): IndexError: "
    assert done.exit_code == 6
    assert f"ackloss: {said}" in done.stderr
    assert "Traceback" not in done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    assert json.loads((folder / "run.json").read_text())["error"].startswith(said)


def test_the_last_line_of_the_plug_in_is_named_not_that_of_a_library(
    plant: Plant, tmp_path: Path
) -> None:
    file = plant(PULL.replace("WRONG", 'subprocess.run(["no-such-program"])'), nemeses_pull="Pull")
    assert f"the nemesis 'pull' failed in acts() ({file.name}, line " in run(tmp_path).stderr


def test_what_no_plug_in_raised_is_the_failure_of_ackloss() -> None:
    with pytest.raises(KeyError) as raised:
        registry.plugins("no such kind")
    assert failures.sentence(raised.value) == "ackloss itself failed: KeyError: 'no such kind'"


def test_a_long_message_is_its_first_line() -> None:
    assert failures.what(ValueError("a\nb")) == "ValueError: a"
    assert failures.what(ValueError()) == "ValueError"
    assert len(failures.what(ValueError("x" * 9999))) == 300
