"""Eras are data: every version that is promised has one, and nothing else does."""

from __future__ import annotations

import pytest

from harness.errors import PlanError
from targets.kafka.eras import DEFAULT_VERSION, ERAS, Era, era_of


@pytest.mark.parametrize(
    ("version", "name", "binding"),
    [
        ("3.3.2", "3.3 to 3.6", "slf4j-reload4j:1.7.36"),
        ("3.6.2", "3.3 to 3.6", "slf4j-reload4j:1.7.36"),
        ("3.7.2", "3.7 to 3.9", "slf4j-reload4j:1.7.36"),
        ("3.9.0", "3.7 to 3.9", "slf4j-reload4j:1.7.36"),
        ("3.9.2", "3.7 to 3.9", "slf4j-reload4j:1.7.36"),
        ("4.0.1", "4.0, 4.1", "log4j-slf4j-impl:2.24.3"),
        ("4.1.1", "4.0, 4.1", "log4j-slf4j-impl:2.24.3"),
        ("4.2.0", "4.2", "log4j-slf4j-impl:2.25.3"),
        (DEFAULT_VERSION, "4.x", "log4j-slf4j-impl:2.25.4"),
    ],
)
def test_a_version_has_its_era_and_its_logging_binding(
    version: str, name: str, binding: str
) -> None:
    era = era_of(version)
    assert era.name == name
    jars = era.recipe(version).jars
    assert f"org.apache.kafka:kafka_2.13:{version}" in jars
    assert any(jar.endswith(binding) for jar in jars)


@pytest.mark.parametrize("version", ["0.7.2", "0.8", "0.11", "3.9", "4.1", "5.0.0", "14.0.0"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(PlanError, match=f"Kafka {version} is of no era") as told:
        era_of(version)
    assert told.value.key == "target.version"


@pytest.mark.parametrize("era", ERAS, ids=lambda era: era.name)
def test_a_broker_starts_with_the_flags_of_its_archive(era: Era) -> None:
    paths = {"config": "/d/server.properties", "log_config": "/d/log", "log_folder": "/d/logs"}
    with_archive = era.process(era.broker_class, heap_mb=256, archive="/opt/a.jsa", **paths)
    without = era.process(era.broker_class, heap_mb=256, **paths)
    assert [part for part in with_archive if part not in without] == [
        "-XX:SharedArchiveFile=/opt/a.jsa"
    ]
    assert with_archive[-2:] == ["kafka.Kafka", "/d/server.properties"]
    assert set(era.jvm) < set(with_archive)
    assert "-Dkafka.logs.dir=/d/logs" in with_archive
    assert any(part.endswith("/d/log") for part in with_archive)
