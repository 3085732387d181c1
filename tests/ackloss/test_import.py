"""`import ackloss` is cheap and offers what it promises, each with types and a docstring."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import ackloss
from ackloss import plugins
from harness import protocols
from harness.faults.records import RECORD_TYPES
from tests.fixtures.budget import full
from tests.fixtures.hand_made import Made, R, W

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
HEAVY = ("pyspark", "docker", "matplotlib", "pandas", "scipy", "jinja2", "click", "rich")
HEAVY += ("confluent_kafka", "kafka", "kazoo", "requests")


def imported_by(*steps: str) -> list[set[str]]:
    """The top-level modules that a fresh Python has after each of these lines."""
    printing = "print(*{name.partition('.')[0] for name in sys.modules})"
    script = "\n".join(["import sys", *(line for step in steps for line in (step, printing))])
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_the_import_takes_no_heavy_library() -> None:
    """Nor do the names for plug-ins."""
    cheap, plugged, heavy = imported_by(
        "import ackloss", "import ackloss.plugins", "import analysis.frames"
    )
    assert (cheap | plugged) & set(HEAVY) == set()
    assert "harness" in cheap
    assert "pandas" in heavy, "it can be seen"


def test_the_page_of_a_run_takes_no_statistics() -> None:
    page, campaign = imported_by("import reports.page", "import analysis.campaign")
    assert "scipy" in campaign - page


@pytest.mark.parametrize("name", [n for n in ackloss.__all__ if n != "__version__"])
def test_every_name_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(ackloss, name))


def test_the_functions_are_a_handful_and_typed() -> None:
    functions = {n: f for n in ackloss.__all__ if inspect.isfunction(f := getattr(ackloss, n))}
    assert sorted(functions) == ["check", "lake", "load_campaign", "load_run", "run"]
    for function in functions.values():
        signature = inspect.signature(function)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(p.annotation is not p.empty for p in signature.parameters.values())


def test_every_error_has_the_exit_code_of_the_command_line() -> None:
    errors = {e for n in ackloss.__all__ if inspect.isclass(e := getattr(ackloss, n))}
    errors = {error for error in errors if issubclass(error, Exception)}
    assert all(issubclass(error, ackloss.AcklossError) for error in errors)
    assert {error.exit_code for error in errors} == {4, 5, 6, 130}


def test_plug_ins_find_every_protocol_and_the_plan() -> None:
    assert set(plugins.__all__) >= {*protocols.__all__, "MODELS", "Model", "Plan", "TargetPlan"}
    assert all(hasattr(plugins, name) for name in plugins.__all__)
    assert len(set(plugins.__all__)) == len(plugins.__all__)
    doors = ("Checker", "Client", "Lever", "Nemesis", "Provider", "Target", "Workload")
    for name in doors:
        assert getattr(ackloss, name) is getattr(plugins, name) is getattr(protocols, name)


def test_plug_ins_find_the_record_of_every_lever() -> None:
    for record in RECORD_TYPES.values():
        assert getattr(plugins, record.__name__) is record
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchRecord'"):
        plugins.NoSuchRecord  # noqa: B018


OF_THE_TREE = {
    "harness.faults.selectors": "a plug-in calls select()",
    "harness.models": "models as objects: a plug-in names its model",
    "harness.registry": "the module: of it, targets need model_of",
    "harness.images": "how the images of the tree's own systems are built: others have recipes",
    "harness.clusters.cleaning": "processes of clients that `ackloss clean` finds",
    "harness.wrong_values": "keys of plans as messages write them",
    "harness.plan.steps": "steps of a plan as objects",
    "harness.run.client_pool": "how the tree's own clients share places",
    "harness.run.client_process": "how the tree's own programs of clients are spoken to",
    "harness.run.exec_client": "pools of the tree's own programs of clients",
    "harness.run.observer": "what several nodes' answers amount to",
    "harness.history.parquet_writer": "columns as Arrow has them, places as numpy has them",
    "harness.history.documents": "counts, rates and spans in the words of result.json",
    "harness.history.parquet_reader": "rows by a mask, as numpy has them",
    "harness.history.autopsy": "what the explanations of the tree's systems have in common",
    "harness.protocols.explanations": "causes by single names",
    "harness.history.quorum": "evidence that one target leaves and one checker reads",
    "harness.history.rows": "instants in a fault's window, as numpy compares them",
    "harness.protocols.runs": "marks by single names: a plug-in has MARKS",
    "harness.servers.properties": "files of the tree's own systems in Java",
    "harness.faults.own_traffic.first_answer": "how its levers ask one node after another",
}
"""What plug-ins of the tree import and others need not, by module, each with the reason."""

MODULES = {name for name in plugins.__all__ if inspect.ismodule(getattr(plugins, name, None))}


@cache
def imports_of(folder: str) -> set[tuple[str, str]]:
    """What the modules below a folder import from the harness: the module, and the name."""
    return {
        (node.module or "", alias.name)
        for file in (ROOT / folder).rglob("*.py")
        if "judging" not in file.parts  # which judges with checkers, and is none
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("harness")
        for alias in node.names
    }


def is_of_the_tree(module: str, name: str) -> str | None:
    """The entry of `OF_THE_TREE` that a name is of, if it is of one."""
    places = (f"{module}.{name}", module, module.rpartition(".")[0])
    return next((place for place in places if place in OF_THE_TREE), None)


def missing(imported: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those that a plug-in outside of the tree would not find."""
    return {
        (module, name)
        for module, name in imported
        if name not in plugins.__all__
        and module.rpartition(".")[2] not in MODULES
        and is_of_the_tree(module, name) is None
    }


@pytest.mark.parametrize(
    ("folder", "some"),
    [
        ("nemeses", {"ProcessRecord", "Nemesis", "ClientNemesis"}),
        ("workloads", {"invoke", "Workload", "GroupSettings"}),
        ("targets", {"RunsSimulated", "GuestTarget", "with_proxy", "Requests"}),
        ("checkers", {"PrimaryFinding", "CheckResult", "LOST_WRITES"}),
    ],
)
def test_what_plug_ins_of_the_tree_import_others_can_import_too(
    folder: str, some: set[str]
) -> None:
    imported = imports_of(folder)
    assert some <= {name for _, name in imported}
    assert missing(imported) == set()


def test_a_name_that_others_cannot_import_is_noticed() -> None:
    assert missing({("harness.levers.protocol", "hits_of")})
    assert missing({("harness.faults.leaders", "PARTITION")}) == set(), "of a module that they have"


def test_every_exception_is_still_needed() -> None:
    imported = set().union(*map(imports_of, ("nemeses", "workloads", "targets", "checkers")))
    needed = {
        is_of_the_tree(module, name)
        for module, name in imported
        if name not in plugins.__all__ and module.rpartition(".")[2] not in MODULES
    }
    assert needed >= OF_THE_TREE.keys()


def test_what_the_page_about_plug_ins_names_can_be_imported() -> None:
    page = (ROOT / "docs" / "how-to" / "extending.md").read_text(encoding="utf-8")
    code = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    words = {word for each in code for word in re.findall(r"[A-Z]\w*[a-z]\w*", each)}
    classes = {
        node.name
        for file in (ROOT / "harness").rglob("*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }
    assert {"RunsSimulated", "Lever", "Requests"} <= words & classes
    assert words & classes <= set(plugins.__all__)


def test_images_are_made_by_the_functions_of_the_harness() -> None:
    code = """
from ackloss.plugins import Recipe, ensure_image, java_jar, pulled_image
from harness.images import building, java
assert (ensure_image, pulled_image, java_jar) == (building.ensure, building.pulled, java.jar)
"""
    assert "docker" in imported_by(code)[0]


@pytest.mark.parametrize("is_lost", [True, *full(False)])
def test_a_run_is_judged_without_pandas(is_lost: bool, tmp_path: Path) -> None:
    """Arrow imports it for most arrays that it makes, which takes longer than judging the run."""
    made = Made(writes=[W(7), W(8)], reads=[R(7)] if is_lost else [R(7), R(8, offset=1)])
    rundir = made.build(tmp_path, "a")
    assert "pandas" not in imported_by(judging(rundir.path, lost=int(is_lost)))[0]


@pytest.mark.parametrize("plan", ["set", *full("queue", "register", "transactions")])
def test_a_run_of_any_model_is_judged_without_pandas(plan: str, tmp_path: Path) -> None:
    run = ackloss.run(ROOT / "plans" / "memory" / f"{plan}.toml", out=tmp_path)
    assert "pandas" not in imported_by(judging(run.path, lost=0))[0]


def test_a_stored_run_is_judged_without_pandas_and_other_systems() -> None:
    run = ROOT / "tests" / "histories" / "runs" / "unclean-election-loses"
    others = "\nassert {'targets.kafka', 'targets.redis'} & {*sys.modules} == {'targets.kafka'}"
    assert "pandas" not in imported_by(judging(run, lost=2019) + others)[0]


def judging(run: Path, *, lost: int) -> str:
    """Code that judges a run, writes nothing, and fails if it lost another number of writes."""
    return (
        "from pathlib import Path\n"
        "from checkers.judging.one_run import judged_run\n"
        "from harness.history.run_folder import RunDir\n"
        f"judged = judged_run(RunDir(Path({str(run)!r})))\n"
        f"assert judged.document['counts']['lost'] == {lost}"
    )
