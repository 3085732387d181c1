"""Kafka for nodes that are hosts: its jars, fetched by Maven, and no image.

What an image's own StorageTool makes for nodes of containers is made here by the Java of this
machine, from the same jars.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentFailure, PlanError
from harness.images import maven
from harness.images.java import jar, java_here
from harness.images.keeping import Say
from harness.images.recipe import FILES
from harness.machine.scratch import scratch
from harness.protocols import Distribution, ImageRef
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import (
    DEFAULT_VERSION,
    JAR_FOLDER,
    VERSION_JAR,
    ReleaseLine,
    release_line,
)

PROGRAMS: Final = {"java": "openjdk-17-jre-headless"}
"""What a host must have besides, by the Debian package that has it."""

INSTALLED: Final = Distribution(folder="libs", inside=JAR_FOLDER, named=VERSION_JAR)
"""How Kafka's own distribution is laid out on a host."""

_JARS: Final = "-jars"
_HEAP_MB: Final = 224
_FORMAT_S: Final = 90


def resolve(plan: KafkaPlan, say: Callable[[str], None]) -> tuple[ImageRef, Path]:
    """The jars of a plan's version: what stands for an image, and their folder. Raises PlanError
    for an image, which hosts cannot run, and EnvironmentFailure."""
    if plan.target.image is not None:
        raise PlanError(
            "hosts run a version of Kafka, not an image",
            key="target.image",
            hint=f'such as version = "{DEFAULT_VERSION}"',
        )
    version = plan.target.version or DEFAULT_VERSION
    recipe = release_line(version).recipe(version)
    jars = maven.kept(recipe, say)
    made = ImageRef(
        reference=f"jars of Kafka {version}", id=jars.parent.name + _JARS, version=version
    )
    return made, jars


def is_jars(image: ImageRef) -> bool:
    """Whether it stands for jars."""
    return image.id.endswith(_JARS)


def compiled(
    image: ImageRef, name: str, sources: Sequence[Path], say: Say, *, needed_by: str
) -> bytes:
    """See `harness.images.java.jar`: against Kafka's own jars, in the image or on this machine."""
    here = None
    if is_jars(image):
        version = image.version or DEFAULT_VERSION
        here = maven.kept(release_line(version).recipe(version))
    return jar(image, name, sources, say, against=JAR_FOLDER, here=here, needed_by=needed_by)


def formatted_here(
    image: ImageRef,
    release: ReleaseLine,
    server_properties: str,
    options: Sequence[str],
    *,
    cluster_id: str,
    read: Sequence[str],
) -> dict[str, bytes]:
    """Files of a log directory, `FILES`/data, that the version's own StorageTool formats on this
    machine. Raises EnvironmentFailure with its output as the hint."""
    jars = maven.kept(release.recipe(image.version or DEFAULT_VERSION))
    java = java_here()
    argv = [java if word == "java" else word for word in release.java(heap_mb=_HEAP_MB)]
    argv[argv.index(f"{JAR_FOLDER}/*")] = f"{jars}/*"
    with scratch() as folder:
        config = Path(folder) / "server.properties"
        config.write_text(server_properties.replace(f"{FILES}/", f"{folder}/"), encoding="utf-8")
        tool = [release.format_class, "format", "--cluster-id", cluster_id, "--config", str(config)]
        try:
            done = subprocess.run(
                [*argv, *tool, *options],
                capture_output=True,
                text=True,
                timeout=_FORMAT_S,
                check=False,
                cwd=folder,
                stdin=subprocess.DEVNULL,
            )
            output = done.stdout + done.stderr
            made = {name: (Path(folder) / "data" / name).read_bytes() for name in read}
        except (OSError, subprocess.TimeoutExpired) as error:
            message = output if isinstance(error, FileNotFoundError) else str(error)
            raise EnvironmentFailure(
                f"the storage of {image.reference} could not be formatted", hint=last_line(message)
            ) from error
    return made


def last_line(output: str) -> str:
    """The last line of a tool's output that is not part of a stack trace."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if not line.startswith(("at ", "..."))]
    if not errors:
        return "it printed nothing"
    return re.sub(r'^Exception in thread "\w+" [\w.$]+: ', "", errors[-1])[:300]
