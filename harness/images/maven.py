"""The jars of a version, fetched by the ordinary Maven client."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.sax.saxutils import escape

from harness.errors import EnvironmentFailure, PlanError
from harness.images.java import BRIEF
from harness.images.keeping import Say, kept_folder, quietly, step
from harness.images.recipe import Recipe
from harness.images.sources import run_client
from harness.machine.files import scratch
from harness.machine.state import cache_dir

_CAUSE = re.compile(r"(?:Could not|Failure to) (?:find|transfer) |[\w.:-]+ was not found ")
"""How Maven begins the causes that it names."""

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ackloss</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


def pom(recipe: Recipe) -> str:
    """A project without code whose dependencies are the recipe's jars."""
    exclusions = "".join(
        f"<exclusion>{_named(coordinates)}</exclusion>" for coordinates in recipe.exclude
    )
    dependencies = "\n".join(
        f"    <dependency>{_named(coordinates)}<exclusions>{exclusions}</exclusions></dependency>"
        for coordinates in recipe.jars
    )
    return _POM.format(dependencies=dependencies)


def _named(coordinates: str) -> str:
    parts = zip(("groupId", "artifactId", "version"), coordinates.split(":"), strict=False)
    return "".join(f"<{tag}>{escape(value)}</{tag}>" for tag, value in parts)


def kept(recipe: Recipe, say: Say = quietly) -> Path:
    """The folder with a recipe's jars and their dependencies, fetched once and kept in the cache.
    Raises what `fetch` raises."""

    def make(folder: Path) -> None:
        with step(say, f"jars of {recipe.name} {recipe.version} by Maven"), scratch() as project:
            fetch(recipe, Path(project), folder)

    return kept_folder(cache_dir() / "jars" / recipe.digest() / "libs", make)


def fetch(recipe: Recipe, folder: Path, libs: Path | None = None) -> None:
    """Copy the recipe's jars and their dependencies into `libs`, or else `folder`/libs.

    Raises PlanError when the repository has no such version, EnvironmentFailure when Maven is
    missing or fails.
    """
    (folder / "pom.xml").write_text(pom(recipe), encoding="utf-8")
    done = run_client(
        [
            *("mvn", "-B", "-ntp", "-q", "-U", "dependency:copy-dependencies"),
            f"-DoutputDirectory={libs or folder / 'libs'}",
        ],
        folder,
        package="maven",
        env={"MAVEN_OPTS": os.environ.get("MAVEN_OPTS", " ".join(BRIEF))},
    )
    if done.returncode != 0:
        raise _failure(recipe, done.stdout + done.stderr)


def _failure(recipe: Recipe, output: str) -> PlanError | EnvironmentFailure:
    if any(_is_absent(coordinates, output) for coordinates in recipe.jars):
        return PlanError(
            f"{recipe.name} {recipe.version} does not exist in the Maven repository",
            key="target.version",
            hint="name a released version, such as 4.3.1",
        )
    return EnvironmentFailure(
        f"the jars of {recipe.name} {recipe.version or ''} could not be fetched",
        hint=cause(output),
    )


def cause(output: str) -> str:
    """Why Maven failed: the innermost cause of its first error, which it writes last in one line
    (`Failed to execute goal ...: Could not resolve ...: Connect timed out -> [Help 1]`)."""
    errors = [line for line in output.splitlines() if line.startswith("[ERROR]") and len(line) > 9]
    if not errors:
        return output.strip()[-300:]
    first = errors[0].removeprefix("[ERROR] ").partition(" -> [Help")[0]
    named = list(_CAUSE.finditer(first))
    return first[named[-1].start() :] if named else first


def _is_absent(coordinates: str, output: str) -> bool:
    """Whether Maven reports that the repository has no such jar, now or when it last looked."""
    group, artifact, version = map(re.escape, coordinates.split(":"))
    jar = rf"{group}:{artifact}:jar:{version}\b"
    return bool(
        re.search(rf"(Could not find artifact|Failure to find) {jar}|{jar} was not found", output)
    )
