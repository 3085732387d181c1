"""What the pages for contributors and users name exists, and their Python runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from hatchling.build import get_requires_for_build_editable

ROOT = Path(__file__).parents[1]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def links(page: str) -> set[str]:
    """The relative links of a page."""
    found = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", page, flags=re.DOTALL))
    return {link for link in found if not re.match(r"[a-z]+:", link)}


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as forges make them."""
    heads = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def broken_links(file: Path) -> list[str]:
    broken = []
    for link in links(file.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = file.parent / path if path else file
        known = anchors(target.read_text(encoding="utf-8")) if anchor and target.exists() else ()
        if not target.exists() or (anchor and anchor not in known):
            broken.append(link)
    return broken


@pytest.mark.parametrize("file", PAGES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(file: Path) -> None:
    assert broken_links(file) == []


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A b\n[x](#a-b) [y](#c) [z](none.md) [w](page.md#a-b) [u](page.md#no)\n")
    assert sorted(broken_links(page)) == ["#c", "none.md", "page.md#no"]


def uneven_rows(page: str) -> list[str]:
    """The rows of tables with other than the number of columns of their head."""
    uneven, columns = [], 0
    for line in re.sub(r"```.*?```", "", page, flags=re.DOTALL).splitlines():
        row = re.sub(r"\\\||`[^`]*`", "", line)
        cells = row.count("|") if row.startswith("|") else 0
        if columns and cells not in (0, columns):
            uneven.append(line)
        columns = (columns or cells) if cells else 0
    return uneven


@pytest.mark.parametrize("file", PAGES, ids=lambda file: str(file.relative_to(ROOT)))
def test_rows_of_tables_have_the_columns_of_their_head(file: Path) -> None:
    assert uneven_rows(file.read_text(encoding="utf-8")) == []


def test_an_uneven_row_is_noticed() -> None:
    assert uneven_rows("| a | b |\n|---|---|\n| `1|2` | 3 \\| 4 |\n| 5 |\n") == ["| 5 |"]


def test_the_map_of_folders_is_complete() -> None:
    rooms = {path.name for path in (ROOT / "harness").iterdir() if (path / "__init__.py").exists()}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    named = set(re.findall(r"`([\w/]+)/`", CONTRIBUTING))
    assert {f"harness/{room}" for room in rooms} <= named
    assert packages - {"harness"} <= named
    below_tests = {"conformance", "histories", "e2e"}
    assert all((ROOT / name).is_dir() for name in named - below_tests if name.islower())
    assert all((ROOT / "tests" / name).is_dir() for name in below_tests)


def test_every_make_target_that_is_named_exists() -> None:
    named = set(re.findall(r"`?make ([a-z0-9]+)`?", CONTRIBUTING)) - {"sure"}
    assert {"check", "test"} <= named
    assert all(re.search(rf"^{target}:", MAKEFILE, re.MULTILINE) for target in named)


def test_the_license_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    for part in ("2. Grant of Copyright License.", "3. Grant of Patent License.", "END OF TERMS"):
        assert part in text
    assert CONFIG["project"]["license"] == "Apache-2.0"


def test_hooks_are_the_static_checks_of_make_and_fetch_nothing() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in config["repos"]] == ["local"]
    hooks = config["repos"][0]["hooks"]
    assert {hook["language"] for hook in hooks} == {"system"}
    commands = {" ".join(hook["entry"].split()[:2]) for hook in hooks}
    assert "\t@$(MAKE) types & $(MAKE) style " in MAKEFILE.split("\nlint:\n")[1]
    lint = "".join(re.findall(r"^(?:types|style):\n((?:\t.+\n)+)", MAKEFILE, re.MULTILINE))
    checked = re.findall(r"\$\(BIN\)/(\S+(?: (?:format|check|scripts/\S+))?)", lint)
    assert "python scripts/plan_reference.py" in checked
    assert {command.removeprefix(".venv/bin/") for command in commands} == set(checked)
    for command in commands:
        tool = Path(sys.executable).parent / Path(command.split()[0]).name
        assert os.access(tool, os.X_OK)


def test_the_workflow_runs_make_check_on_each_python_and_make_test() -> None:
    text = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    fast, whole = workflow["jobs"]["fast"], workflow["jobs"]["whole"]
    assert fast["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert any(" make check" in step.get("run", "") for step in fast["steps"])
    assert any(step.get("run", "").endswith("YES=1 make test") for step in whole["steps"])
    for job in (fast, whole):
        assert job["runs-on"].startswith(("ubuntu-", "debian-"))
        for step in job["steps"]:
            if "uses" in step:
                assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])
    assert workflow["permissions"] == {"contents": "read"}
    nightly = (ROOT / ".github" / "workflows" / "nightly.yml").read_text(encoding="utf-8")
    assert "YES=1 make e2e" in nightly
    assert set(re.findall(r"uses: (\S+)", nightly)) <= set(re.findall(r"uses: (\S+)", text))


def test_the_lock_file_has_a_hash_for_every_requirement() -> None:
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\S)", re.sub(r"(?m)^\s*#.*\n", "", text).strip())
    assert all("==" in entry and "--hash=sha256:" in entry for entry in entries)
    named = {re.split(r"[=\[; ]", entry)[0] for entry in entries}
    extras = CONFIG["project"]["optional-dependencies"].values()
    wanted = {
        re.split(r"[<>=\[; ]", each)[0]
        for listed in (CONFIG["project"]["dependencies"], *extras)
        for each in listed
    }
    assert wanted - {"ackloss"} <= named
    # `LOCKED=1` builds ackloss with what the lock names, and nothing else
    builds = {re.split(r"[~<>=]", each)[0] for each in get_requires_for_build_editable()}
    assert builds <= named


def test_the_size_of_the_product_is_printed_and_bounded() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "size"], capture_output=True, text=True, check=False
    )
    assert re.fullmatch(
        r"lines: [\d,]+ of at most [\d,]+\nfiles: [\d,]+ of at most [\d,]+\n", done.stdout
    )


def test_the_python_of_the_api_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "how-to" / "python-api.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 4
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("valid 0.0\n")
