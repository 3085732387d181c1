"""Kafka's images, and what is made once per image: it must really serve a broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.errors import PlanError
from harness.images.building import infra_image
from harness.images.daemon import one_off
from harness.images.recipe import FILES
from targets.kafka import images
from targets.kafka.plan import KafkaTargetPlan
from targets.kafka.versions import DEFAULT_VERSION, JAR_FOLDER, release_line

pytestmark = pytest.mark.docker

VERSIONS = [DEFAULT_VERSION, "3.9.2"]
COMBINED = """\
process.roles=broker,controller
node.id=7
controller.quorum.voters=7@127.0.0.1:9093
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=/tmp/data
"""


def target(**given: object) -> KafkaTargetPlan:
    return KafkaTargetPlan.model_validate(given)


def test_a_version_without_kraft_is_prepared_without_an_archive() -> None:
    """What the archive is made with came with KRaft."""
    image = images.prepare("0.8.2.2")
    assert image.version == "0.8.2.2"
    assert images.prepared("0.8.2.2") == (image, None)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_image_holds_kafka_and_none_of_our_tools(version: str) -> None:
    image = images.resolve(target(version=version))
    assert image.version == version
    with one_off(image.id, ["ls", JAR_FOLDER]) as listing:
        listing.wait(limit_s=30)
        jars = listing.output().split()
    assert f"kafka_2.13-{version}.jar" in jars
    assert f"kafka-tools-{version}.jar" in jars
    tools = ["iptables", "ip", "tc", "nc", "ps", "faketime"]
    with one_off(image.id, ["sh", "-c", 'for t; do command -v "$t"; done', "-", *tools]) as found:
        found.wait(limit_s=30)
        assert found.output() == ""


@pytest.mark.parametrize(
    "version", [DEFAULT_VERSION, pytest.param("3.9.2", marks=pytest.mark.full)]
)
def test_a_broker_takes_the_checkpoint_and_uses_the_archive(version: str) -> None:
    """Started as a cluster's node is: formatted without a JVM, classes from the archive, which a
    JVM ignores without a word when anything differs."""
    image, release = images.resolve(target(version=version)), release_line(version)
    archive = images.archive(image)
    assert archive is not None
    java, *rest = release.process(
        release.broker_class,
        config=f"{FILES}/server.properties",
        log_config=f"{FILES}/{release.log_file}",
        log_folder=FILES,
        heap_mb=256,
        archive=images.ARCHIVE_INSIDE,
    )
    files = {
        "server.properties": COMBINED.encode(),
        release.log_file: release.log_config.encode(),
        f"data/{release.bootstrap}": images.bootstrap_checkpoint(image, {}),
        "data/meta.properties": b"version=1\ncluster.id=ackloss-AAAAAAAAAAAAAA\nnode.id=7\n"
        b"directory.id=ackloss-BBBBBBBBBBBBBB\n",
    }
    argv = [java, f"-Xlog:class+load:file={FILES}/classes.log", *rest]
    mounts = {archive: images.ARCHIVE_INSIDE}
    with one_off(image.id, argv, files=files, mounts=mounts) as node:
        assert images.serves(node), node.output()
        log = (node.read(f"{FILES}/server.log") or b"").decode()
        classes = (node.read(f"{FILES}/classes.log") or b"").decode()
    assert "active controller" in log.lower() or "state to Leader" in log or "became leader" in log
    loaded = len(re.findall("source:", classes))
    shared = len(re.findall(r"source: shared objects file", classes))
    assert shared / loaded > 0.9
    assert re.search(r"kafka\.\S+ source: shared objects file \(top\)", classes)


def test_what_was_made_once_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    image = images.resolve(target(version=DEFAULT_VERSION))
    first = images.archive(image), images.bootstrap_checkpoint(image, {})

    def no_more(*_: object, **__: object) -> None:
        raise AssertionError("a container was started")

    monkeypatch.setattr(images, "one_off", no_more)
    assert (images.archive(image), images.bootstrap_checkpoint(image, {})) == first


def test_features_go_into_the_checkpoint() -> None:
    image = images.resolve(target(version=DEFAULT_VERSION))
    feature = "eligible.leader.replicas.version"
    with_elr, without = (images.bootstrap_checkpoint(image, {feature: n}) for n in (1, 0))
    assert feature.encode() in with_elr
    assert with_elr != without


@pytest.mark.parametrize("features", [{"no.such.feature": 1}, {"metadata.version": 9999}])
def test_a_feature_that_the_version_lacks_is_a_mistake_of_the_plan(
    features: dict[str, int],
) -> None:
    image = images.resolve(target(version=DEFAULT_VERSION))
    with pytest.raises(PlanError, match=r"Kafka \S+ refuses") as refused:
        images.bootstrap_checkpoint(image, features)
    assert refused.value.key == "target.features"
    name, level = next(iter(features.items()))
    assert f"refuses {name} = {level}: " in refused.value.what
    assert "\n" not in refused.value.what
    assert "Exception" not in refused.value.what


def test_a_users_image_is_used_unchanged() -> None:
    ours = images.resolve(target(version=DEFAULT_VERSION))
    theirs = images.resolve(target(image=ours.reference))
    assert (theirs.id, theirs.version) == (ours.id, DEFAULT_VERSION)


def test_an_image_without_kafka_is_refused() -> None:
    with pytest.raises(PlanError, match=f"has no Kafka under {JAR_FOLDER}") as refused:
        images.resolve(target(image=infra_image().reference))
    assert refused.value.key == "target.image"


@pytest.mark.full  # test_bad_input.py has one
def test_a_version_that_does_not_exist_is_a_mistake_of_the_plan() -> None:
    with pytest.raises(PlanError, match=r"kafka 4\.3\.999 does not exist") as refused:
        images.resolve(target(version="4.3.999"))
    assert refused.value.key == "target.version"


def test_an_image_whose_java_makes_no_archive_still_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACKLOSS_CACHE", str(tmp_path))
    image = images.resolve(target(version=DEFAULT_VERSION))
    monkeypatch.setattr(images, "_START_S", 0)
    said: list[str] = []
    assert images.archive(image, said.append) is None
    assert images.archive(image, said.append) is None
    assert said[-1].startswith(f"no class-data archive for {image.reference}: ")
    assert len([line for line in said if line.endswith("...")]) == 1
