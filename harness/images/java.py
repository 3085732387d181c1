"""What is Java in an image: the jars of a version, fetched by the ordinary Maven client, and
programs of ours, compiled once per image by the Java that runs them.

In an image that is its own Java, for hosts that of this machine, against the same jars: the
distribution's headless Java has the compiler's module, though no `javac`.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from harness.errors import EnvironmentFailure, PlanError
from harness.images.keeping import Say, kept, kept_folder, quietly, step
from harness.images.recipe import FILES, Recipe, run_client
from harness.machine.files import run_program, scratch
from harness.machine.state import cache_dir
from harness.protocols import ImageRef

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


def kept_jars(recipe: Recipe, say: Say = quietly) -> Path:
    """The kept folder of a recipe's jars and their dependencies. Raises as `fetch` does."""

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
        f"the jars of {recipe.name} {recipe.version or ''} could not be fetched", hint=cause(output)
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


_COMPILE_S: Final = 60
_MADE: Final = "made.jar"
BRIEF: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of a Java that lives for seconds: half the processor time, as better code would come too
late."""

_COMPILE: Final = """\
cd "$0" || exit 1
jars=$(printf %s: "$1"/*.jar)
flags=$(ls | sed -n "s/^javac.options$/@&/p")
"$2" @BRIEF@ -m jdk.compiler/com.sun.tools.javac.Main -nowarn $flags -cp "$jars" -d out ./*.java &&
"$2" -m jdk.jartool/sun.tools.jar.Main -c -f @MADE@ $(ls | sed -n 's/^MANIFEST.MF$/-m &/p') -C out .
""".replace("@MADE@", _MADE).replace("@BRIEF@", " ".join(BRIEF))


def jar(
    image: ImageRef,
    name: str,
    sources: Sequence[Path],
    say: Say,
    *,
    against: str,
    here: Path | None = None,
    needed_by: str,
) -> bytes:
    """A jar of these sources (and their MANIFEST.MF and javac.options), made now unless it is
    there: in the image, against the jars of a folder in it; or by this machine, against those
    `here`. `needed_by` is a key of the plan.

    Raises PlanError for an image whose Java cannot compile, EnvironmentFailure.
    """
    files = {source.name: source.read_bytes() for source in sources}
    digest = hashlib.sha256(b"\0".join(files[each] for each in sorted(files))).hexdigest()

    def make() -> bytes:
        with step(say, f"{name} for {image.reference}"):
            made = _in_image(image, files, against) if here is None else _here(files, here)
        code, output, content = made
        if "jdk.compiler not found" in output:
            raise PlanError(
                f"the Java of {image.reference} has no compiler, which {name} needs",
                key=needed_by,
                hint="name a version instead of an image",
            )
        if code or content is None:
            raise EnvironmentFailure(
                f"{name} could not be compiled for {image.reference}: {output.strip()[:300]}"
            )
        return content

    return kept(image, name, digest, make).read_bytes()


def java_here() -> str:
    """The Java of this machine. Raises EnvironmentFailure."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java")
    if java is None:
        raise EnvironmentFailure("Java is missing", hint="apt-get install openjdk-17-jre-headless")
    return java


def _in_image(
    image: ImageRef, files: Mapping[str, bytes], jars: str
) -> tuple[int, str, bytes | None]:
    from harness.images.daemon import one_off  # imports Docker's client

    argv = ["sh", "-c", _COMPILE, FILES, jars, "java"]
    with one_off(image.id, argv, files=files) as compiler:
        code = compiler.wait(limit_s=_COMPILE_S)
        return code, compiler.output(), compiler.read(f"{FILES}/{_MADE}")


def _here(files: Mapping[str, bytes], jars: Path) -> tuple[int, str, bytes | None]:
    with scratch() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        try:
            argv = ["sh", "-c", _COMPILE, str(folder), str(jars), java_here()]
            done = run_program(argv, timeout_s=_COMPILE_S)
        except subprocess.TimeoutExpired as error:
            return 1, str(error), None
        made = Path(folder) / _MADE
        compiled = made.read_bytes() if made.exists() else None
        return done.returncode, done.stdout + done.stderr, compiled
