"""The import contracts catch what they forbid.

A copy of the packages gets one violation of every rule that pyproject.toml states, all at once, and
import-linter must report each of them under its own contract. On an unchanged copy it reports none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from itertools import combinations, permutations, product
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
LINTER = CONFIG["importlinter"]
PACKAGES: list[str] = LINTER["root_packages"]

DOWNWARDS = "Packages import downwards only"
ROOMS = "Rooms of the harness import downwards only"
LAYERED = {DOWNWARDS: "", ROOMS: "harness."}
"""Contracts of layers, with the package that holds the layers."""
INDEPENDENT = {
    "Nemeses are independent": "nemeses",
    "Workloads are independent": "workloads",
    "Targets are independent": "targets",
    "Kinds of cluster are independent": "harness.clusters",
    "Families of checkers are independent": "checkers",
}
SIBLINGS = {
    ("harness.clusters.ssh", "harness.clusters.docker.cluster"),
    ("harness.clusters.docker", "harness.clusters.compose.file"),
    ("harness.clusters.external", "harness.clusters.docker.cluster"),
    ("harness.clusters.compose", "harness.clusters.docker.cluster"),
    ("targets.zookeeper", "targets.kafka.definitions"),
    ("targets.kafka", "targets.zookeeper.asking"),
}
"""Imports between plug-ins that have exceptions, of which these are none."""
LIBRARIES = {
    "The command line is imported by nobody": (["ackloss.cli"], ["ackloss.__main__"]),
    "Targets are reached only by name": (["targets"], ["targets"]),
    "pyspark only in checkers and the lake": (["pyspark"], ["checkers", "analysis.lake"]),
    "deltalake only in the lake": (["deltalake"], ["analysis.lake"]),
    "matplotlib only in analysis": (["matplotlib"], ["analysis"]),
    "scipy only in analysis and the checkers of transactions": (
        ["scipy"],
        ["analysis", "checkers.graphs"],
    ),
    "jinja2 only in reports": (["jinja2"], ["reports"]),
    "docker only in clusters and images": (["docker"], ["harness.clusters", "harness.images"]),
    "paramiko only in clusters": (["paramiko"], ["harness.clusters"]),
    "Clients of systems only in their target": (
        ["confluent_kafka", "kafka", "kazoo", "pika", "psycopg", "pymysql"],
        [
            "targets.galera",
            "targets.kafka",
            "targets.postgresql",
            "targets.rabbitmq",
            "targets.zookeeper",
        ],
    ),
    "click and rich only in the command line": (["click", "rich_click", "rich"], ["ackloss.cli"]),
}
"""By contract: its libraries, and the packages that may import them."""

Import = tuple[str, str]
"""The importing module and what it imports."""


@dataclass(frozen=True)
class Report:
    """What import-linter reports of one contract."""

    kept: bool
    text: str

    @property
    def imports(self) -> set[Import]:
        """Every import that the report shows."""
        return set(re.findall(r"([\w.]+) -> ([\w.]+) \(l\.", self.text))

    @property
    def forbidden_pairs(self) -> set[Import]:
        """The pairs of packages of which the report states that one may not import the other."""
        return set(re.findall(r"([\w.]+) is not allowed to import ([\w.]+):", self.text))


def lint(tree: Path) -> dict[str, Report]:
    """Run import-linter in a copy of the tree: a report for each contract."""
    done = subprocess.run(
        [
            *(
                sys.executable,
                "-c",
                "from importlinter.cli import lint_imports_command; lint_imports_command()",
            ),
            *("--no-cache", "--no-logo"),
        ],
        cwd=tree,
        env={**os.environ, "COLUMNS": "1000", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    verdicts = re.findall(r"^(.+?) (KEPT|BROKEN)\b.*$", done.stdout, re.MULTILINE)
    assert verdicts, done.stdout + done.stderr
    assert done.returncode == int(any(verdict == "BROKEN" for _, verdict in verdicts))
    _, _, details = done.stdout.partition("Broken contracts\n")
    names = "|".join(re.escape(name) for name, _ in verdicts)
    parts = re.split(rf"^({names})\n-+\n", details, flags=re.MULTILINE)
    texts = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {name: Report(verdict == "KEPT", texts.get(name, "")) for name, verdict in verdicts}


def copy_of_the_tree(to: Path) -> Path:
    for package in PACKAGES:
        for source in (ROOT / package).rglob("*.py"):
            target = to / source.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    shutil.copy(ROOT / "pyproject.toml", to)
    return to


def contract(name: str) -> dict[str, Any]:
    (found,) = (each for each in LINTER["contracts"] if each["name"] == name)
    return dict(found)


def layers(name: str) -> list[list[str]]:
    """The layers of a contract, the highest first."""
    return [re.split(r" *[|:] *", layer) for layer in contract(name)["layers"]]


def upward_imports(name: str) -> set[Import]:
    """Every import of a higher layer by a lower one, and between the siblings of a `|` layer."""
    prefix = LAYERED[name]
    pairs = {
        (prefix + lower, prefix + higher)
        for above, below in combinations(layers(name), 2)
        for higher, lower in product(above, below)
    }
    siblings = [
        [prefix + sibling for sibling in line.split(" | ")]
        for line in contract(name)["layers"]
        if "|" in line
    ]
    return pairs | {pair for each in siblings for pair in permutations(each, 2)}


def planted_in(tree: Path, package: str, imported: set[str]) -> str:
    """Let a package import what it may not, in a new module where it is a folder: which module."""
    lines = "".join(f"import {name}\n" for name in sorted(imported))
    folder = tree / package.replace(".", "/")
    if package == "harness":
        (folder / "stray.py").write_text(lines, encoding="utf-8")
        return "harness.stray"
    if folder.is_dir():
        (folder / "planted.py").write_text(lines, encoding="utf-8")
        return f"{package}.planted"
    with folder.with_suffix(".py").open("a", encoding="utf-8") as module:
        module.write(lines)
    return package


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """With a further plug-in of each kind, which needs no line in a contract."""
    tree = copy_of_the_tree(tmp_path_factory.mktemp("unchanged"))
    for package in INDEPENDENT.values():
        (tree / package.replace(".", "/") / "further.py").touch()
    return lint(tree)


@dataclass(frozen=True)
class Planted:
    """A copy with a violation of every rule: its reports, and the module that each package got."""

    reports: dict[str, Report]
    modules: dict[str, str]

    def expected(self, pairs: set[Import]) -> set[Import]:
        """Imports between packages as imports of the planted modules."""
        return {(self.modules[importer], imported) for importer, imported in pairs}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    tree = copy_of_the_tree(tmp_path_factory.mktemp("planted"))
    (tree / "harness" / "stray.py").write_text("", encoding="utf-8")
    for package in INDEPENDENT.values():
        folder = tree / package.replace(".", "/")
        (folder / "stray_a.py").write_text(f"import {package}.stray_b\n", encoding="utf-8")
        (folder / "stray_b.py").write_text("", encoding="utf-8")
    imports = library_imports().union(SIBLINGS, *map(upward_imports, LAYERED))
    by_importer: dict[str, set[str]] = {}
    for importer, imported in imports:
        by_importer.setdefault(importer, set()).add(imported)
    modules = {
        importer: planted_in(tree, importer, imported) for importer, imported in by_importer.items()
    }
    return Planted(lint(tree), modules)


def library_imports(*names: str) -> set[Import]:
    """Each library of these contracts, or of all, in each package that may not import it."""
    rooms = (f"harness.{room}" for layer in layers(ROOMS) for room in layer)
    everywhere = [*rooms, *(package for package in PACKAGES if package != "harness")]
    return {
        (package, library)
        for name in names or LIBRARIES
        for library in LIBRARIES[name][0]
        for package in everywhere
        if package not in LIBRARIES[name][1]
    }


def test_every_contract_is_known_here_and_kept(unchanged: dict[str, Report]) -> None:
    assert set(unchanged) == {*LAYERED, *INDEPENDENT, *LIBRARIES}
    assert {name for name, report in unchanged.items() if not report.kept} == set()


def test_every_contract_is_broken_by_its_violation(planted: Planted) -> None:
    assert {name for name, report in planted.reports.items() if report.kept} == set()


@pytest.mark.parametrize("name", LAYERED)
def test_an_upward_import_is_reported_for_each_pair_of_layers(planted: Planted, name: str) -> None:
    pairs, report = upward_imports(name), planted.reports[name]
    assert pairs == report.forbidden_pairs
    assert planted.expected(pairs) <= report.imports


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("reports", "ackloss"),
        ("analysis", "reports"),
        ("checkers", "analysis"),
        ("checkers", "targets"),
        ("workloads", "nemeses"),
        ("harness", "checkers"),
        ("harness", "targets"),
        ("harness", "ackloss"),
        ("schedules", "harness"),
    ],
)
def test_the_arrows_of_the_design_are_among_them(
    planted: Planted, importer: str, imported: str
) -> None:
    assert (importer, imported) in planted.reports[DOWNWARDS].forbidden_pairs


def test_a_module_in_no_layer_is_reported(planted: Planted) -> None:
    _, _, undeclared = planted.reports[ROOMS].text.partition("are not listed as layers:")
    assert re.findall(r"^- (\S+)", undeclared, re.MULTILINE) == ["harness.stray"]


@pytest.mark.parametrize("name", INDEPENDENT)
def test_an_import_between_plug_ins_is_reported(planted: Planted, name: str) -> None:
    package = INDEPENDENT[name]
    assert (f"{package}.stray_a", f"{package}.stray_b") in planted.reports[name].imports


@pytest.mark.parametrize("pair", sorted(SIBLINGS))
def test_an_import_that_no_exception_names_is_reported(planted: Planted, pair: Import) -> None:
    (name,) = (n for n, package in INDEPENDENT.items() if pair[0].startswith(f"{package}."))
    assert planted.expected({pair}) <= planted.reports[name].imports


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_is_reported_in_every_package_but_its_own(planted: Planted, name: str) -> None:
    upward = {each for each in upward_imports(DOWNWARDS) if each[1] in LIBRARIES[name][0]}
    assert planted.reports[name].imports == planted.expected(library_imports(name) | upward)


def rooms_in(tree: Path) -> set[str]:
    """The modules and packages of the harness."""
    modules = {path.stem for path in (tree / "harness").glob("*.py")} - {"__init__"}
    return modules | {path.parent.name for path in (tree / "harness").glob("*/__init__.py")}


def test_every_room_of_the_harness_is_in_a_layer() -> None:
    assert {room for layer in layers(ROOMS) for room in layer} == rooms_in(ROOT)


def test_a_room_that_stands_in_no_contract_is_found(tmp_path: Path) -> None:
    (tmp_path / "harness" / "stray").mkdir(parents=True)
    (tmp_path / "harness" / "stray" / "__init__.py").touch()
    (tmp_path / "harness" / "other.py").touch()
    assert rooms_in(tmp_path) == {"stray", "other"}


def unlisted_packages(tree: Path) -> set[str]:
    """Top-level packages that stand in no layer. import-linter sees only its root packages."""
    listed = {name.split(".")[0] for layer in layers(DOWNWARDS) for name in layer}
    return {path.parent.name for path in tree.glob("*/__init__.py")} - listed


def test_a_top_level_package_in_no_layer_is_found(tmp_path: Path) -> None:
    assert unlisted_packages(ROOT) == set()
    (tmp_path / "stray").mkdir()
    (tmp_path / "stray" / "__init__.py").touch()
    assert unlisted_packages(tmp_path) == {"stray"}


def test_the_same_packages_are_linted_typed_and_shipped() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert set(PACKAGES) == folders
    others = {"ackloss_toy", "bench", "scripts"}
    assert set(CONFIG["mypy"]["packages"]) == {*folders, *others}, "and what is not shipped"
    assert set(CONFIG["hatch"]["build"]["targets"]["wheel"]["packages"]) == folders
