"""Kafka's images, and what is made once per image and kept: class data and formatted checkpoints.

A JVM that maps the classes of an earlier one (AppCDS) starts a broker in 1.7 s instead of 4.2 s,
and a bootstrap.checkpoint that the version's own StorageTool wrote once formats every node without
a JVM. Both are made in temporary containers of that image, no matter who built it, and kept in the
cache folder by the image's id.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from harness.errors import EnvironmentFailure, PlanError
from harness.images.building import base_reference, ensure, find, pulled
from harness.images.daemon import OneOff, one_off, output_of
from harness.images.keeping import Say, alone, keep, kept, place, quietly, step
from harness.images.recipe import FILES
from harness.protocols import ImageRef
from targets.kafka.jars import is_jars, last_line, run_here
from targets.kafka.plan import KafkaTargetPlan
from targets.kafka.versions import (
    DEFAULT_VERSION,
    JAR_FOLDER,
    KRAFT,
    VERSION_JAR,
    ReleaseLine,
    release_line,
)

ARCHIVE_INSIDE = "/opt/ackloss/kafka.jsa"
"""Where a node sees the class-data archive."""

_HEAP_MB = 224
_START_S = 90
_FORMAT_S = 90
_CLUSTER_ID = "ackloss-AAAAAAAAAAAAAA"
_STARTED = "Kafka Server started"


def resolve(target: KafkaTargetPlan, say: Say = quietly) -> ImageRef:
    """The image of a plan's target: of its version, built when it is not there, or the user's.

    Raises PlanError for a version that does not exist or an image without Kafka's jars,
    EnvironmentFailure when it can be neither built nor pulled.
    """
    if target.image is None:
        version = target.version or DEFAULT_VERSION
        return ensure(release_line(version).recipe(version), say)
    found = pulled(target.image, say)
    version = _version_inside(found.id)
    if KRAFT not in release_line(version, key="target.image").metadata:
        raise PlanError(
            f"it holds Kafka {version}, and images are taken from 3.3 on",
            key="target.image",
            hint=f'version = "{version}" runs that one',
        )
    return ImageRef(reference=found.reference, id=found.id, digest=found.digest, version=version)


def archive(image: ImageRef, say: Say = quietly) -> Path | None:
    """The class-data archive of an image, made now unless it is there; to be mounted read-only at
    `ARCHIVE_INSIDE`. Null, with a remark to `say`, if this image's JVM cannot make or use one:
    nodes then only start more slowly."""
    release = _release(image)
    made = _archive_path(image, release)
    refused = made.with_suffix(".refused")
    with alone(f"archive-{made.parent.name}"):
        if not made.exists() and not refused.exists():
            with step(say, f"class-data archive of {image.reference}"):
                why = _make_archive(image, release, made, bootstrap_checkpoint(image, {}))
            if why is not None:
                keep(refused, why.encode())
    if refused.exists():
        say(f"no class-data archive for {image.reference}: {refused.read_text(encoding='utf-8')}")
        return None
    return made


def bootstrap_checkpoint(image: ImageRef, features: Mapping[str, int]) -> bytes:
    """The levels of features as this image's StorageTool writes them (`ReleaseLine.bootstrap`).

    Raises PlanError for a feature that this version does not have at this level.
    """
    requested = json.dumps(dict(sorted(features.items())))

    def make() -> bytes:
        return _format(image, _release(image), features)

    return kept(image, "bootstrap.checkpoint", requested, make).read_bytes()


def prepare(version: str = DEFAULT_VERSION, say: Say = quietly) -> ImageRef:
    """Make all that nodes of a version need: image, and with KRaft checkpoint and class-data
    archive."""
    image = resolve(KafkaTargetPlan.model_validate({"version": version}), say)
    if KRAFT in release_line(version).metadata:
        archive(image, say)
    return image


def prepared(version: str) -> tuple[ImageRef | None, Path | None]:
    """Which results of `prepare` exist: the image, its class-data archive. Makes nothing."""
    release = release_line(version)
    image = find(release.recipe(version).reference(base_reference()), version=version)
    if image is None:
        return None, None
    made = _archive_path(image, release)
    return image, made if made.exists() else None


def _archive_path(image: ImageRef, release: ReleaseLine) -> Path:
    return place(image, "kafka.jsa", " ".join(release.jvm))


def _release(image: ImageRef) -> ReleaseLine:
    return release_line(image.version or _version_inside(image.id))


@lru_cache(maxsize=16)
def _version_inside(image_id: str) -> str:
    """The version of Kafka in an image, by the name of its own jar."""
    found = re.search(f"^{VERSION_JAR}$", output_of(image_id, ["ls", JAR_FOLDER]), re.MULTILINE)
    if found is None:
        raise PlanError(
            f"this image has no Kafka under {JAR_FOLDER}",
            key="target.image",
            hint="such as apache/kafka:4.3.1",
        )
    return found.group(1)


# --- formatting once ---------------------------------------------------------------------------

_PROPERTIES = f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
advertised.listeners=PLAINTEXT://127.0.0.1:9092
inter.broker.listener.name=PLAINTEXT
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
log.cleaner.dedupe.buffer.size=2097152
group.initial.rebalance.delay.ms=0
log.dirs={FILES}/data
"""


def _format(image: ImageRef, release: ReleaseLine, features: Mapping[str, int]) -> bytes:
    requested = ", ".join(f"{name} = {level}" for name, level in features.items())
    try:
        options = feature_options(features)
        made = formatted(image, release, _PROPERTIES, options, read=[release.bootstrap])
    except EnvironmentFailure as error:
        if features:
            raise PlanError(
                f"Kafka {image.version} refuses {requested}: {error.hint}", key="target.features"
            ) from error
        raise
    return made[release.bootstrap]


def feature_options(levels: Mapping[str, int]) -> list[str]:
    """StorageTool's options for these levels of features."""
    return [word for name, n in levels.items() for word in ("--feature", f"{name}={n}")]


def formatted(
    image: ImageRef,
    release: ReleaseLine,
    server_properties: str,
    options: Sequence[str],
    *,
    cluster_id: str = _CLUSTER_ID,
    read: Sequence[str],
) -> dict[str, bytes]:
    """Files of a log directory, `FILES`/data, that the image's own StorageTool formats.

    Raises EnvironmentFailure when it does not, with its output as the hint.
    """
    words = ["format", "--cluster-id", cluster_id, "--config", f"{FILES}/server.properties"]
    argv = [*release.java(heap_mb=_HEAP_MB), release.format_class, *words, *options]
    if is_jars(image):
        code, output, made = run_here(image, argv, server_properties, read, limit_s=_FORMAT_S)
    else:
        files = {"server.properties": server_properties.encode()}
        with one_off(image.id, argv, files=files) as tool:
            code = tool.wait(limit_s=_FORMAT_S)
            made = {name: tool.read(f"{FILES}/data/{name}") for name in read}
            output = tool.output()
    there = {name: content for name, content in made.items() if content}
    if code or len(there) < len(made):
        raise EnvironmentFailure(
            f"the storage of {image.reference} could not be formatted", hint=last_line(output)
        )
    return there


# --- class data ---------------------------------------------------------------------------------


def _make_archive(
    image: ImageRef, release: ReleaseLine, made: Path, checkpoint: bytes
) -> str | None:
    """Run a combined node until a write was acknowledged, stop it, keep the classes that it had
    loaded. Null, or why there is no archive."""
    inside = f"{FILES}/kafka.jsa"
    java, *rest = release.process(
        release.broker_class,
        config=f"{FILES}/server.properties",
        log_config=f"{FILES}/{release.log_file}",
        log_folder=FILES,
        heap_mb=_HEAP_MB,
    )
    files = {
        "server.properties": _PROPERTIES.encode(),
        release.log_file: release.log_config.encode(),
        f"data/{release.bootstrap}": checkpoint,
        "data/meta.properties": f"version=1\ncluster.id={_CLUSTER_ID}\nnode.id=1\n".encode(),
    }
    with one_off(
        image.id, [java, f"-XX:ArchiveClassesAtExit={inside}", *rest], files=files
    ) as node:
        if not serves(node):
            return f"the node did not start: {last_line(node.output())}"
        _write_something(node, release)
        node.stop()
        content = node.read(inside)
        if content is None:
            return f"this JVM made none: {last_line(node.output())}"
    keep(made, content)
    if why := _unusable(image, release, made):
        made.unlink()
        return why
    return None


def serves(node: OneOff) -> bool:
    """Wait until a combined node reports that it has started; false: it ended or took too long."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        log = node.read(f"{FILES}/server.log") or b""
        if _STARTED.encode() in log:
            return True
        if not node.running():
            return False
        time.sleep(0.2)
    return False


def _write_something(node: OneOff, release: ReleaseLine) -> None:
    """A topic and a few acknowledged records, so that their classes are in the archive too. What
    fails here only makes the archive smaller."""
    tool = [*release.java(heap_mb=64), "org.apache.kafka.tools.ProducerPerformance"]
    producer = ["bootstrap.servers=127.0.0.1:9092", "acks=all", "enable.idempotence=false"]
    records = ["--topic", "warm", "--num-records", "10", "--record-size", "10", "--throughput"]
    node.run([*tool, *records, "100", "--producer-props", *producer])


def _unusable(image: ImageRef, release: ReleaseLine, made: Path) -> str | None:
    """Why a JVM of this image does not use the archive: it would ignore it silently."""
    java, *rest = release.java(heap_mb=_HEAP_MB * 2, archive=ARCHIVE_INSIDE)
    argv = [java, "-Xlog:class+load", *rest, release.broker_class, "--version"]
    output = output_of(image.id, argv, mounts={made: ARCHIVE_INSIDE})
    if re.search(r"kafka\.Kafka\$? source: shared objects file \(top\)", output):
        return None
    return f"this JVM does not use it: {last_line(output)}"
