"""Java programs of ours, compiled once per version by the Java that runs them.

In an image that is its own Java, for hosts that of this machine, against the same kafka-clients:
the distribution's headless Java has the compiler's module, though no `javac`.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentFailure, PlanError
from harness.images import maven
from harness.images.recipe import FILES
from harness.images.steps import Say, step
from harness.machine.scratch import scratch
from harness.protocols import ImageRef
from targets.kafka.eras import DEFAULT_VERSION, JAR_FOLDER, era_of
from targets.kafka.jars import is_jars, java_here

_COMPILE_S: Final = 60
_MADE: Final = "made.jar"
_COMPILE: Final = """\
cd "$0" || exit 1
jars=$(printf %s: "$1"/*.jar)
"$2" -m jdk.compiler/com.sun.tools.javac.Main -nowarn -cp "$jars" -d out ./*.java &&
"$2" -m jdk.jartool/sun.tools.jar.Main -c -f @MADE@ -C out .
""".replace("@MADE@", _MADE)


def jar(image: ImageRef, name: str, sources: Sequence[Path], say: Say, *, needed_by: str) -> bytes:
    """A jar of these sources, made now unless it is there. `needed_by` is a key of the plan.

    Raises PlanError for an image whose Java cannot compile, EnvironmentFailure.
    """
    from targets.kafka import images  # imports Docker's client

    files = {source.name: source.read_bytes() for source in sources}
    digest = hashlib.sha256(b"\0".join(files[each] for each in sorted(files))).hexdigest()

    def make() -> bytes:
        with step(say, f"{name} for {image.reference}"):
            code, output, made = (_here if is_jars(image) else _in_image)(image, files)
        if "jdk.compiler not found" in output:
            raise PlanError(
                f"the Java of {image.reference} has no compiler, which {name} needs",
                key=needed_by,
                hint="name a version instead of an image",
            )
        if code or made is None:
            raise EnvironmentFailure(
                f"{name} could not be compiled for {image.reference}: {output.strip()[:300]}"
            )
        return made

    return images.kept(image, name, digest, make).read_bytes()


def _in_image(image: ImageRef, files: Mapping[str, bytes]) -> tuple[int, str, bytes | None]:
    from harness.images.oneoff import one_off

    argv = ["sh", "-c", _COMPILE, FILES, JAR_FOLDER, "java"]
    with one_off(image.id, argv, files=files) as compiler:
        code = compiler.wait(limit_s=_COMPILE_S)
        return code, compiler.output(), compiler.read(f"{FILES}/{_MADE}")


def _here(image: ImageRef, files: Mapping[str, bytes]) -> tuple[int, str, bytes | None]:
    version = image.version or DEFAULT_VERSION
    jars = maven.kept(era_of(version).recipe(version))
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
