"""Plug-ins from elsewhere that cannot be used: refused when a plan names them, in one sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import Result

from harness import registry
from harness.errors import PlanError, nearest
from harness.plan import ClusterPlan, Family, FaultStep
from harness.plan.model import Check
from tests.fixtures.command_line import ackloss
from tests.fixtures.planting import HEAD, Plant

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


def refused(kind: str, name: str) -> PlanError:
    with pytest.raises(PlanError) as error:
        registry.make(kind, name, {}, key="place.name", file="plan.toml")
    assert (error.value.key, error.value.file) == ("place.name", "plan.toml")
    assert error.value.exit_code == 4
    return error.value


def test_a_plug_in_of_another_package_is_found_by_its_entry_point(plant: Plant) -> None:
    plant(GOOD, nemeses_pull="Pull")
    assert registry.make("nemeses", "pull", {}, key="nemesis").plugin == "pull"


def test_plug_ins_are_found_in_the_files_of_a_folder(
    plant: Plant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = plant(GOOD, 77)
    (tmp_path / "json.py").write_text("")
    monkeypatch.setenv(registry.FOLDERS, "")
    with pytest.raises(PlanError, match="there is no 'pull'"):
        registry.make("nemeses", "pull", {}, key="nemesis")
    registry._found.cache_clear()
    done = ackloss("--plugin", tmp_path, "list", "nemeses", "--json")
    listed = json.loads(done.output)
    assert "pull" in listed["plugins"]["nemeses"], listed["unusable"]
    made = registry.make("nemeses", "pull", {}, key="nemesis")
    assert registry._file_of(type(made)) == str(file)
    assert "pull" not in registry.plugins("workloads")
    assert "rename" in registry.broken("nemeses")["json"]


def test_the_schema_of_plans_is_that_of_the_named_target() -> None:
    done = ackloss("plan", "schema", "--target", "etcd")
    assert "serializable" in json.dumps(json.loads(done.output)["$defs"]["EtcdWorkloadPlan"])
    assert ackloss("plan", "schema", "--target", "etc").exit_code == 4


@pytest.mark.parametrize(
    ("kind", "base", "lacks"),
    [
        ("nemeses", "Nemesis", "acts(), requires()"),
        ("nemeses", "ClientNemesis", "client_acts()"),
        ("workloads", "Workload", "model, script()"),
        ("checkers", "Checker", "models, check(), merge(), shards()"),
        ("targets", "Target", "models, plan, bring_up(), "),
        ("targets", "ServerSystem", "plan, ports, source, argv(), connect(), report()"),
        ("clusters", "Provider", "cluster(), cost(), runs()"),
    ],
)
def test_a_plug_in_that_lacks_a_method_is_refused_with_its_name_and_file(
    plant: Plant, kind: str, base: str, lacks: str
) -> None:
    body = f'@dataclass(frozen=True)\nclass Half({base}):\n    plugin: ClassVar[str] = "half"\n'
    file = plant(body, **{f"{kind}_half": "Half"})
    what = refused(kind, "half").what
    assert what.startswith(f"the plug-in 'half' lacks {lacks}")
    assert f" of {base} ({file})" in what


@pytest.mark.parametrize(
    ("words", "what"),
    [
        ("(Nemesis)", "inherits no base class of harness.protocols"),
        ("(frozen=True)", "is not a frozen dataclass"),
    ],
)
def test_a_plug_in_that_is_no_plug_in_is_refused(plant: Plant, words: str, what: str) -> None:
    file = plant(GOOD.replace(words, ""), nemeses_pull="Pull")
    assert refused("nemeses", "pull").what == f"the plug-in 'pull' {what} ({file})"


def test_a_package_that_fails_to_import_is_one_sentence(plant: Plant) -> None:
    file = plant("import no_such_library", nemeses_pull="Pull", nemeses_push="Push")
    assert re.fullmatch(
        "the plug-in 'pull' in nemeses cannot be imported: ModuleNotFoundError: "
        rf"No module named 'no_such_library' \({re.escape(str(file))}, line \d+\)",
        refused("nemeses", "pull").what,
    )
    hint = refused("nemeses", "no-such").hint or ""
    assert "(pull cannot be imported: ModuleNotFoundError" in hint
    assert "; push cannot be imported: ModuleNotFoundError" in hint
    assert registry.make("nemeses", "kill", {}, key="nemesis").plugin == "kill"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("1 / 0", "ZeroDivisionError: division by zero ("),
        ("raise ValueError('two\\n  lines')", "ValueError: two lines ("),
        ("other = 1", "AttributeError: module"),
        ("Pull = 7", "no class with a class variable `plugin`"),
    ],
)
def test_whatever_an_import_does_is_reported(plant: Plant, body: str, why: str) -> None:
    plant(body, nemeses_pull="Pull")
    assert why in refused("nemeses", "pull").what


OPTION = GOOD.replace("    plugin: ", "    OPTION\n    plugin: ")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (GOOD.replace("plugin: ClassVar[str]", "plugin: str"), "annotate it as ClassVar"),
        (OPTION.replace("OPTION", "wait_s: float"), "has an option without a default: wait_s"),
        (OPTION.replace("OPTION", "for_s: float = 1"), "has an option 'for_s', which is a key of"),
        (OPTION.replace("OPTION", "weight: float = 1"), "has an option 'weight', which is a key"),
        (
            OPTION.replace("OPTION", "any: Lock = None"),
            "option of a type that no plan can hold: Unable to",
        ),
    ],
)
def test_a_plug_in_that_declares_otherwise_than_its_contract_is_refused(
    plant: Plant, body: str, why: str
) -> None:
    file = plant("from threading import Lock\n" + body, nemeses_pull="Pull")
    assert refused("nemeses", "pull").what.startswith("the plug-in 'pull' ")
    assert why in refused("nemeses", "pull").what
    assert refused("nemeses", "pull").what.endswith(f"({file})")
    assert "pull" not in ackloss("plan", "schema").stdout


def test_reserved_options_are_the_keys_of_the_tables_that_hold_options() -> None:
    tables = {
        "nemeses": (FaultStep, Family),
        "checkers": (Check,),
        "clusters": (ClusterPlan,),
    }
    for kind, models in tables.items():
        keys = {field.alias or name for m in models for name, field in m.model_fields.items()}
        assert keys == registry.RESERVED[kind]


def test_another_plug_in_of_the_same_name_replaces_none(plant: Plant) -> None:
    file = plant(GOOD.replace("pull", "kill"), nemeses_kill="Pull")
    what = refused("nemeses", "kill").what
    assert what.startswith("the plug-in 'kill' is there more than once, in ")
    assert str(file) in what
    assert "process.py" in what


def test_one_named_like_a_module_of_ours_replaces_none_either(plant: Plant) -> None:
    body = "from targets.etcd import Etcd\nclass Other(Etcd):\n    plugin = 'etcd'\n"
    file = plant(body, targets_etcd="Other")
    what = refused("targets", "etcd").what
    assert what.startswith("the plug-in 'etcd' is there more than once, in ")
    assert str(file) in what
    assert registry.target_named("etcd") is None


def test_a_plug_in_that_is_found_twice_is_one(plant: Plant) -> None:
    plant("from nemeses.process import Kill", nemeses_kill="Kill")
    assert registry.make("nemeses", "kill", {}, key="nemesis").plugin == "kill"


def test_an_entry_point_that_has_another_name_than_its_plug_in_is_refused(plant: Plant) -> None:
    plant(GOOD, nemeses_push="Pull")
    assert "whose `plugin` is 'pull': make them equal" in refused("nemeses", "push").what
    assert "pull" not in registry.plugins("nemeses")


def test_an_entry_point_of_no_kind_is_named(plant: Plant) -> None:
    plant(GOOD, nemesis_pull="Pull")
    hint = refused("nemeses", "pull").hint or ""
    assert hint.endswith("; name the entry point 'nemesis.pull' 'nemeses.pull'")
    assert "the entry point 'nemesis.pull' names no kind of plug-in" in ackloss("list").output
    assert json.loads(ackloss("list", "--json").stdout)["astray"] == ["nemesis.pull"]


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


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("kyes", ["keys_count", "read_share"], "keys_count"),
        ("partitons", ["partitions", "first_partition"], "partitions"),
        ("kyes", ["keys_count", "keys_share"], None),
        ("colour", ["keys_count", "read_share"], None),
        ("s", ["drain_s", "settle"], None),
    ],
)
def test_the_nearest_name_may_have_more_words(
    name: str, known: list[str], near: str | None
) -> None:
    assert nearest(name, known) == near


def test_an_unknown_option_is_refused_with_the_nearest() -> None:
    with pytest.raises(PlanError) as refused:
        registry.make("workloads", "register", {"kyes": 1}, key="workload.options.name")
    assert refused.value.hint == "did you mean 'keys_count'?"


def test_the_command_line_refuses_a_plan_that_names_one(plant: Plant, tmp_path: Path) -> None:
    file = plant(GOOD.replace("def acts", "def act"), nemeses_pull="Pull")
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    done = ackloss("plan", "validate", plan)
    assert done.exit_code == 4
    assert done.stderr.strip() == (
        f"ackloss: {plan}: faults.cut.nemesis: the plug-in 'pull' lacks acts() of "
        f"Nemesis ({file}); fix it or uninstall it"
    )


def validated(folder: Path, change: str) -> Result:
    """What is said of a plan of plug-ins that can be used, with one change."""
    plan = folder / "plan.toml"
    plan.write_text(PLAN.replace("pull", "kill"))
    return ackloss("plan", "validate", plan, "--set", change)


def test_an_unknown_kind_of_cluster_is_refused(tmp_path: Path) -> None:
    done = validated(tmp_path, "cluster.kind=memroy")
    assert done.exit_code == 4
    assert "cluster.kind: there is no 'memroy' in clusters; did you mean 'memory'?" in done.stderr


def test_a_target_that_cannot_be_used_is_refused_before_its_plan_is_read(
    plant: Plant, tmp_path: Path
) -> None:
    body = '@dataclass(frozen=True)\nclass Half(Target):\n    plugin: ClassVar[str] = "half"\n'
    plant(body, targets_half="Half")
    done = validated(tmp_path, "target.system=half")
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


def test_list_shows_the_first_sentence_of_each_however_its_lines_are_broken(plant: Plant) -> None:
    plant(GOOD.replace("Pulls the plug.", "Pulls p1 ... or\n    p2. All."), nemeses_pull="Pull")
    assert re.search(r"^  pull +Pulls p1 ... or p2.$", ackloss("list").output, re.MULTILINE)


def test_a_provider_that_cannot_be_used_stops_no_other(plant: Plant, tmp_path: Path) -> None:
    body = '@dataclass(frozen=True)\nclass Half(Provider):\n    plugin: ClassVar[str] = "half"\n'
    plant(body, clusters_half="Half")
    assert "half" not in registry.usable("clusters")
    done = validated(tmp_path, "cluster.kind=memory")
    assert (
        "kafka cannot run on a cluster of kind 'memory'; it can on: compose, docker" in done.stderr
    )
