"""The jars of a version, fetched by the ordinary Maven client."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from xml.sax.saxutils import escape

from harness.errors import EnvironmentFailure, PlanError
from harness.images.java import BRIEF
from harness.images.keeping import Say, alone, quietly, step
from harness.images.recipe import Recipe
from harness.machine.files import scratch
from harness.machine.state import cache_dir

_LIMIT_S = 900

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
    made = cache_dir() / "jars" / recipe.digest() / "libs"
    with alone(f"jars-{made.parent.name}"):
        if not made.exists():
            with scratch() as folder, step(say, f"jars of {recipe.name} {recipe.version} by Maven"):
                fetch(recipe, Path(folder))
                half = made.with_name(f".libs.{os.getpid()}")
                made.parent.mkdir(parents=True, exist_ok=True)
                shutil.copytree(Path(folder) / "libs", half)
                half.replace(made)
    return made


def fetch(recipe: Recipe, folder: Path) -> None:
    """Copy the recipe's jars and their dependencies into `folder`/libs.

    Raises PlanError when the repository has no such version, EnvironmentFailure when Maven is
    missing or fails.
    """
    if shutil.which("mvn") is None:
        raise EnvironmentFailure(
            "Maven is missing: it fetches the jars", hint="apt-get install maven"
        )
    (folder / "pom.xml").write_text(pom(recipe), encoding="utf-8")
    command = ["mvn", "-B", "-ntp", "-q", "-U", "dependency:copy-dependencies"]
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={folder / 'libs'}"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env={"MAVEN_OPTS": " ".join(BRIEF), **os.environ},  # the user's go before
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailure(f"Maven did not finish within {_LIMIT_S} s") from error
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
