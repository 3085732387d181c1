"""Plug-ins from elsewhere that cannot be used: refused when a plan names them, in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness import registry
from harness.cli import main
from harness.errors import PlanError

HEAD = """\
from dataclasses import dataclass
from typing import ClassVar

from harness.protocols import Act, Checker, Nemesis, Provider, Target, Workload
from harness.protocols.crashes import ClientNemesis


"""
PLAN = """\
schema = 1
name = "planted"
[target]
version = "4.3.1"
[[faults]]
id = "cut"
at_s = 1
nemesis = "pull"
"""
GOOD = '''
@dataclass(frozen=True)
class Pull(Nemesis):
    """Pulls the plug."""

    plugin: ClassVar[str] = "pull"

    def requires(self, node):
        return []

    def acts(self, nodes, select):
        return []
'''
Plant = Callable[..., Path]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plant]:
    """Installs a package of plug-ins: its module's body, and its entry points by name."""
    monkeypatch.syspath_prepend(tmp_path)

    def planted(body: str, number: int = 0, **entries: str) -> Path:
        module = f"planted_{abs(hash((body, number)))}"
        file = tmp_path / f"{module}.py"
        file.write_text(HEAD + body, encoding="utf-8")
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        lines = [f"{kind.replace('_', '.', 1)} = {module}:{name}" for kind, name in entries.items()]
        (info / "entry_points.txt").write_text("\n".join(["[ackloss.plugins]", *lines]) + "\n")
        registry._found.cache_clear()
        return file

    yield planted
    registry._found.cache_clear()


def refused(kind: str, name: str) -> PlanError:
    with pytest.raises(PlanError) as error:
        registry.make(kind, name, {}, key="place.name", file="plan.toml")
    assert (error.value.key, error.value.file) == ("place.name", "plan.toml")
    assert error.value.exit_code == 4
    return error.value


def ackloss(*args: object) -> Result:
    done = CliRunner().invoke(main, [str(arg) for arg in args], prog_name="ackloss")
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done


def test_a_plug_in_of_another_package_is_found_by_its_entry_point(plant: Plant) -> None:
    plant(GOOD, nemeses_pull="Pull")
    assert registry.make("nemeses", "pull", {}, key="nemesis").plugin == "pull"


@pytest.mark.parametrize(
    ("kind", "base", "lacks"),
    [
        ("nemeses", "Nemesis", "acts(), requires()"),
        ("nemeses", "ClientNemesis", "client_acts()"),
        ("workloads", "Workload", "model, script()"),
        ("checkers", "Checker", "models, check(), merge(), shards()"),
        ("targets", "Target", "models, plan, bring_up(), "),
        ("clusters", "Provider", "simulated, cluster(), cost(), levers(), "),
    ],
)
def test_a_plug_in_that_lacks_a_method_is_refused_with_its_name_and_file(
    plant: Plant, kind: str, base: str, lacks: str
) -> None:
    body = f'@dataclass(frozen=True)\nclass Half({base}):\n    plugin: ClassVar[str] = "half"\n'
    file = plant(body, **{f"{kind}_half": "Half"})
    what = refused(kind, "half").what
    assert what.startswith(f"the plug-in 'half' lacks {lacks}")
    assert f"of the protocol {base} ({file})" in what


def test_a_plug_in_that_inherits_nothing_is_held_to_the_same(plant: Plant) -> None:
    body = GOOD.replace("(Nemesis)", "").replace("def acts", "def act")
    file = plant(body, nemeses_pull="Pull")
    what = refused("nemeses", "pull").what
    assert what == f"the plug-in 'pull' lacks acts() of the protocol Nemesis ({file})"


def test_a_plug_in_that_is_no_frozen_dataclass_is_refused(plant: Plant) -> None:
    file = plant(GOOD.replace("(frozen=True)", ""), nemeses_pull="Pull")
    assert refused("nemeses", "pull").what == (
        f"the plug-in 'pull' is not a frozen dataclass ({file})"
    )


def test_a_package_that_fails_to_import_is_one_sentence(plant: Plant) -> None:
    plant("import no_such_library", nemeses_pull="Pull", nemeses_push="Push")
    assert refused("nemeses", "pull").what == (
        "the plug-in 'pull' in nemeses cannot be imported: "
        "ModuleNotFoundError: No module named 'no_such_library'"
    )
    assert "cannot be imported: pull, push" in (refused("nemeses", "no-such").hint or "")
    assert registry.make("nemeses", "kill", {}, key="nemesis").plugin == "kill"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("other = 1", "AttributeError: module"),
        ("Pull = 7", "is no class with a class variable `plugin`"),
    ],
)
def test_whatever_an_import_does_is_told(plant: Plant, body: str, why: str) -> None:
    plant(body, nemeses_pull="Pull")
    assert why in refused("nemeses", "pull").what


def test_a_broken_module_of_a_folder_is_named_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "planted_folder"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "good.py").write_text(HEAD + GOOD)
    (folder / "bad.py").write_text("this is no Python")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(registry.PACKAGES, "nemeses", "planted_folder")
    registry._found.cache_clear()
    try:
        assert list(registry.plugins("nemeses")) == ["pull"]
        assert "cannot be imported: SyntaxError: " in refused("nemeses", "bad").what
    finally:
        registry._found.cache_clear()


@pytest.mark.parametrize(
    ("kind", "name", "near"),
    [
        ("clusters", "dokcer", "docker"),
        ("targets", "kafak", "kafka"),
        ("nemeses", "partitoin", "partition"),
        ("workloads", "apend", "append"),
        ("checkers", "los", "loss"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(kind: str, name: str, near: str) -> None:
    error = refused(kind, name)
    assert error.what == f"there is no {name!r} in {kind}"
    assert (error.hint or "").startswith(f"did you mean {near!r}?")


def test_the_command_line_refuses_a_plan_that_names_one(plant: Plant, tmp_path: Path) -> None:
    file = plant(GOOD.replace("def acts", "def act"), nemeses_pull="Pull")
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    done = ackloss("plan", "validate", plan)
    assert done.exit_code == 4
    assert done.stderr.strip() == (
        f"ackloss: {plan}: faults.0.nemesis: the plug-in 'pull' lacks acts() of the protocol "
        f"Nemesis ({file}); complete it or uninstall it"
    )


def test_an_unknown_kind_of_cluster_is_refused(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.replace("pull", "kill"))
    done = ackloss("plan", "validate", plan, "--set", "cluster.kind=memroy")
    assert done.exit_code == 4
    assert "cluster.kind: there is no 'memroy' in clusters; did you mean 'memory'?" in done.stderr


def test_a_target_that_cannot_be_used_is_refused_before_its_plan_is_read(
    plant: Plant, tmp_path: Path
) -> None:
    body = '@dataclass(frozen=True)\nclass Half(Target):\n    plugin: ClassVar[str] = "half"\n'
    plant(body, targets_half="Half")
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.replace("pull", "kill"))
    done = ackloss("plan", "validate", plan, "--set", "target.system=half")
    assert done.exit_code == 4
    assert "target.system: the plug-in 'half' lacks models, plan, " in done.stderr


def test_list_shows_which_cannot_be_used_and_why(plant: Plant) -> None:
    plant(GOOD.replace("def acts", "def act"), nemeses_pull="Pull")
    plant("import no_such_library", 1, clusters_cloud="Cloud")
    document = json.loads(ackloss("list", "--json").stdout)
    assert "lacks acts()" in document["unusable"]["nemeses"]["pull"]
    assert "No module named 'no_such_library'" in document["unusable"]["clusters"]["cloud"]
    said = ackloss("list").output
    assert "the plug-in 'cloud' cannot be imported" in said
    assert "the plug-in 'pull' lacks" in said


def test_a_provider_that_cannot_be_used_stops_no_other(plant: Plant, tmp_path: Path) -> None:
    body = '@dataclass(frozen=True)\nclass Half(Provider):\n    plugin: ClassVar[str] = "half"\n'
    plant(body, clusters_half="Half")
    assert "half" not in registry.usable("clusters")
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN.replace("pull", "kill"))
    done = ackloss("plan", "validate", plan, "--set", "cluster.kind=memory")
    assert "kafka cannot run on a cluster of kind 'memory'; it can on: docker" in done.stderr
