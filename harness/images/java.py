"""Java programs of ours, compiled once per image by the Java that runs them.

In an image that is its own Java, for hosts that of this machine, against the same jars: the
distribution's headless Java has the compiler's module, though no `javac`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentFailure, PlanError
from harness.images.keeping import Say, kept, step
from harness.images.recipe import FILES
from harness.machine.files import scratch
from harness.protocols import ImageRef

_COMPILE_S: Final = 60
_MADE: Final = "made.jar"
BRIEF: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of a Java that lives for seconds: half the processor time, as better code would come too
late."""

_COMPILE: Final = """\
cd "$0" || exit 1
jars=$(printf %s: "$1"/*.jar)
"$2" @BRIEF@ -m jdk.compiler/com.sun.tools.javac.Main -nowarn -cp "$jars" -d out ./*.java &&
"$2" -m jdk.jartool/sun.tools.jar.Main -c -f @MADE@ -C out .
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
    """A jar of these sources, made now unless it is there: in the image, against the jars of a
    folder in it; or by this machine, against those `here`. `needed_by` is a key of the plan.

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
    from harness.images.oneoff import one_off  # imports Docker's client

    argv = ["sh", "-c", _COMPILE, FILES, jars, "java"]
    with one_off(image.id, argv, files=files) as compiler:
        code = compiler.wait(limit_s=_COMPILE_S)
        return code, compiler.output(), compiler.read(f"{FILES}/{_MADE}")


def _here(files: Mapping[str, bytes], jars: Path) -> tuple[int, str, bytes | None]:
    with scratch() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        try:
            done = subprocess.run(
                ["sh", "-c", _COMPILE, str(folder), str(jars), java_here()],
                capture_output=True,
                text=True,
                timeout=_COMPILE_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired as error:
            return 1, str(error), None
        made = Path(folder) / _MADE
        compiled = made.read_bytes() if made.exists() else None
        return done.returncode, done.stdout + done.stderr, compiled
