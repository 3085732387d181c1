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

from harness.errors import PlanError
from harness.images import java
from harness.images.java import jar, java_here
from harness.images.keeping import Say
from harness.images.recipe import FILES
from harness.machine.files import scratch
from harness.plan import number_of
from harness.protocols import Distribution, ImageRef
from targets.kafka.configuration import AGENT
from targets.kafka.plan import KafkaPlan
from targets.kafka.versions import DEFAULT_VERSION, JAR_FOLDER, VERSION_JAR, release_line

PROGRAMS: Final = {"java": "openjdk-17-jre-headless"}
"""What a host must have besides, by the Debian package that has it."""

INSTALLED: Final = Distribution(folder="libs", inside=JAR_FOLDER, named=VERSION_JAR)
"""How Kafka's own distribution is laid out on a host."""

_JARS: Final = "-jars"


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
    jars = java.kept_jars(recipe, say)
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
    here = _kept(image) if is_jars(image) else None
    return jar(image, name, sources, say, against=JAR_FOLDER, here=here, needed_by=needed_by)


_AGENT: Final = Path(__file__).parent / "java" / "agent"
_NAMED_SINCE: Final = "0.8.2"
"""MBeans have other names before."""


def agent_files(image: ImageRef, say: Say) -> dict[str, bytes]:
    """The agent that writes what a broker reports of itself, for the target's ingredients; none
    where it cannot be had: a run then has no metrics."""
    if number_of(image.version or DEFAULT_VERSION) < number_of(_NAMED_SINCE):
        return {}
    try:
        return {AGENT: compiled(image, AGENT, sorted(_AGENT.iterdir()), say, needed_by="metrics")}
    except PlanError as error:
        say(f"no metrics: {error.what}")
        return {}


def run_here(
    image: ImageRef, argv: Sequence[str], properties: str, read: Sequence[str], *, limit_s: float
) -> tuple[int, str, dict[str, bytes | None]]:
    """Run a tool of the image's on this machine; its exit code and output, and what it wrote to
    these files below `FILES`/data."""
    jars = _kept(image)
    with scratch() as folder:
        inside = {"java": java_here(), f"{JAR_FOLDER}/*": f"{jars}/*"}
        here = [inside.get(word, word).replace(f"{FILES}/", f"{folder}/") for word in argv]
        config = properties.replace(f"{FILES}/", f"{folder}/")
        (Path(folder) / "server.properties").write_text(config, encoding="utf-8")
        try:
            done = subprocess.run(
                here,
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
                cwd=folder,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return 1, str(error), {}
        files = {name: Path(folder) / "data" / name for name in read}
        made = {name: file.read_bytes() if file.exists() else None for name, file in files.items()}
        return done.returncode, done.stdout + done.stderr, made


def _kept(image: ImageRef) -> Path:
    version = image.version or DEFAULT_VERSION
    return java.kept_jars(release_line(version).recipe(version))


def last_line(output: str) -> str:
    """The last line of a tool's output that is not part of a stack trace."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if not line.startswith(("at ", "..."))]
    if not errors:
        return "it printed nothing"
    return re.sub(r'^Exception in thread "\w+" [\w.$]+: ', "", errors[-1])[:300]
