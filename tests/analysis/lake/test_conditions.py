"""Two cells have the same conditions exactly if their plans have the same effect on a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.lake.delta import CELLS
from analysis.lake.stored import Conditions, conditions_of
from harness.campaigns.loading import load_campaign
from tests.fixtures.campaign_folder import BASE, OFF, ON
from tests.fixtures.lakes import campaign, lake_of
from tests.fixtures.result_documents import run

VERSIONS = """
[axes.version.choices."3.9.2".set]
"target.version" = "3.9.2"
[axes.version.choices."4.3.1-elr".set]
target = { version = "4.3.1", features = { "eligible.leader.replicas.version" = 1 } }
"""
KILL = """
[[faults]]
id = "k"
at_s = 1
nemesis = "kill"
nodes = "all"
for_s = 1
"""
MIN_ISR = """
[axes.min_isr]
key = 'topic.settings."min.insync.replicas"'
values = [1, 2]
"""


def conditions(
    folder: Path, *, base: str = BASE, axes: str = "", head: str = "", name: str = "c"
) -> dict[str, Conditions]:
    """The conditions of each cell of a campaign."""
    (folder / "base.toml").write_text(base)
    file = folder / "c.toml"
    file.write_text(f'schema = 1\nname = "{name}"\nplan = "base.toml"\n{head}\n{axes}')
    loaded = load_campaign(file)
    return {cell.name: conditions_of(loaded, cell) for cell in loaded.cells}


def test_names_seeds_and_repetitions_make_no_difference(tmp_path: Path) -> None:
    one = conditions(tmp_path, axes=MIN_ISR)
    other = conditions(
        tmp_path,
        axes=MIN_ISR,
        head="seed = 7\nrepetitions = 50",
        name="d",
        base=BASE.replace('name = "base"', 'name = "other"\nabout = "x"\nexpect = "valid"'),
    )
    assert one == other
    assert len({each.conditions for each in one.values()}) == 2


@pytest.mark.parametrize(
    "change",
    [
        ("duration_s = 10", "duration_s = 11"),
        ("[workload]", f"{KILL}[workload]"),
        ("[workload]", '[topic]\nsettings = { "min.insync.replicas" = 2 }\n[workload]'),
    ],
)
def test_any_other_key_makes_a_difference(tmp_path: Path, change: tuple[str, str]) -> None:
    (one,) = conditions(tmp_path).values()
    (other,) = conditions(tmp_path, base=BASE.replace(*change)).values()
    assert one.conditions != other.conditions
    assert one.conditions_but_version != other.conditions_but_version


def test_cells_of_several_versions_are_equal_but_for_the_version(tmp_path: Path) -> None:
    cells = conditions(tmp_path, axes=VERSIONS + MIN_ISR)
    assert len({each.conditions for each in cells.values()}) == 4
    assert {each.version_axis for each in cells.values()} == {"version"}
    by_rest: dict[str, set[str]] = {}
    for name, each in cells.items():
        by_rest.setdefault(each.conditions_but_version, set()).add(name.split(", ")[1])
    assert sorted(by_rest.values(), key=str) == [{"min_isr=1"}, {"min_isr=2"}]


def test_a_campaign_of_one_version_stands_in_the_same_row(tmp_path: Path) -> None:
    of_axis = conditions(tmp_path, axes=VERSIONS)["version=3.9.2"]
    (alone,) = conditions(tmp_path, base=BASE.replace("4.3.1", "3.9.2")).values()
    assert alone.version_axis is None
    assert alone.conditions == of_axis.conditions
    assert alone.conditions_but_version == of_axis.conditions_but_version


def test_clients_of_the_users_own_have_no_known_conditions(tmp_path: Path) -> None:
    base = BASE.replace("[workload]", '[workload]\nclient = "exec"')
    (one,) = conditions(tmp_path, base=base).values()
    assert one.conditions is None


def test_the_lake_has_them(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", {ON: [run()], OFF: [run()] * 2})
    cells = lake_of(tmp_path / "lake", folder).read(CELLS)
    assert cells.groupby("cell")["conditions"].nunique().to_dict() == {ON: 1, OFF: 1}
    assert cells["conditions"].nunique() == cells["conditions_but_version"].nunique() == 2
    assert cells["version_axis"].isna().all()
