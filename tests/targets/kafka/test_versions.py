"""Release lines are data: every supported version has one, and no other version does."""

from __future__ import annotations

import re

import pytest

from harness.errors import PlanError
from harness.plan import number_of, parse_plan
from targets.kafka import kraft, zookeeper
from targets.kafka.modes import mode_of
from targets.kafka.plan import KafkaPlan, KafkaTargetPlan
from targets.kafka.versions import (
    DEFAULT_VERSION,
    KRAFT,
    RELEASE_LINES,
    ZOOKEEPER,
    ReleaseLine,
    controllers_report,
    metadata_of,
    release_line,
    reports_settings,
    spoken_by,
)

LOG4J2 = "log4j-slf4j-impl:"
RELOAD4J = "slf4j-reload4j:1.7.36"
PROMISED = [
    ("0.8.0", "0.8.0", ZOOKEEPER, ""),
    ("0.8.1.1", "0.8.1", ZOOKEEPER, ""),
    ("0.8.2.2", "0.8.2", ZOOKEEPER, ""),
    ("0.9.0.1", "0.9", ZOOKEEPER, ""),
    ("0.10.0.1", "0.10", ZOOKEEPER, ""),
    ("0.10.2.2", "0.10", ZOOKEEPER, ""),
    ("0.11.0.3", "0.11, 1.0", ZOOKEEPER, RELOAD4J),
    ("1.0.2", "0.11, 1.0", ZOOKEEPER, RELOAD4J),
    ("1.1.1", "1.1", ZOOKEEPER, RELOAD4J),
    ("2.0.1", "2.0 to 2.3", ZOOKEEPER, RELOAD4J),
    ("2.3.1", "2.0 to 2.3", ZOOKEEPER, RELOAD4J),
    ("2.8.2", "2.4 to 3.2", ZOOKEEPER, RELOAD4J),
    ("3.2.3", "2.4 to 3.2", ZOOKEEPER, RELOAD4J),
    ("3.3.2", "3.3 to 3.9", KRAFT, RELOAD4J),
    ("3.6.2", "3.3 to 3.9", KRAFT, RELOAD4J),
    ("3.9.2", "3.3 to 3.9", KRAFT, RELOAD4J),
    ("4.0.2", "4.0, 4.1", KRAFT, f"{LOG4J2}2.24.3"),
    ("4.1.2", "4.0, 4.1", KRAFT, f"{LOG4J2}2.24.3"),
    ("4.2.2", "4.2", KRAFT, f"{LOG4J2}2.25.3"),
    ("4.3.1", "4.3", KRAFT, f"{LOG4J2}2.25.4"),
    (DEFAULT_VERSION, "4.x", KRAFT, f"{LOG4J2}2.25.4"),
]
MODES = {KRAFT: kraft, ZOOKEEPER: zookeeper}


@pytest.mark.parametrize(("version", "name", "metadata", "binding"), PROMISED)
def test_a_promised_version_has_its_line(
    version: str, name: str, metadata: str, binding: str
) -> None:
    """With its metadata, and its logging binding where the jars do not bring one."""
    release = release_line(version)
    assert (release.name, release.metadata[0]) == (name, metadata)
    plan = _plan(version)
    assert (metadata_of(plan), mode_of(plan)) == (metadata, MODES[metadata])
    jars = release.recipe(version).jars
    assert any(re.fullmatch(rf"org.apache.kafka:kafka_2.\d+:{version}", jar) for jar in jars)
    assert any(jar.endswith(binding) for jar in jars)


def test_a_plan_chooses_where_there_is_a_choice() -> None:
    target = {"version": "3.9.2", "metadata": "zookeeper"}
    assert mode_of(parse_plan({"schema": 1, "name": "x", "target": target})) == MODES[ZOOKEEPER]


@pytest.mark.parametrize(
    ("version", "epochs", "reports", "controllers"),
    [
        ("0.8.0", False, False, False),
        ("0.10.2.2", False, False, False),
        ("0.11.0.3", False, True, False),
        ("2.3.1", False, True, False),
        ("2.4.1", True, True, False),
        ("3.6.2", True, True, False),
        ("3.7.2", True, True, True),
        ("4.4.0", True, True, True),
    ],
)
def test_requests_are_those_that_a_version_has(
    version: str, epochs: bool, reports: bool, controllers: bool
) -> None:
    """Metadata has leader epochs from version 7 of the request on."""
    plan, _, metadata = _plan(version), *spoken_by(number_of(version))[3]
    assert (metadata >= 7) == epochs
    assert (reports_settings(plan), controllers_report(plan)) == (reports, controllers)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("3.9", "3.9.2"),
        ("0.8", "0.8.2.2"),
        ("0.8.1", "0.8.1.1"),
        ("4.4", "4.4.0"),
        ("1.0", "1.0.2"),
    ],
)
def test_a_version_is_completed_to_the_newest_of_its_line(written: str, meant: str) -> None:
    assert _plan(written).target.version == meant


@pytest.mark.parametrize("version", ["3.9.0", "0.8.2.0", "3.9.9", "4.0.1", "4.4.7", "4.5.0"])
def test_a_release_that_is_there_or_may_have_come_since_stays_as_it_is(version: str) -> None:
    assert _plan(version).target.version == version


@pytest.mark.parametrize(
    ("version", "newest"), [("2.8.3", "2.8.2"), ("0.8.2.3", "0.8.2.2"), ("3.8.2", "3.8.1")]
)
def test_a_release_that_does_not_exist_is_refused_before_maven_is_asked(
    version: str, newest: str
) -> None:
    with pytest.raises(PlanError, match=rf"{version} does not exist: .* {newest}$") as refused:
        _plan(version)
    assert refused.value.key == "target.version"


def _plan(version: str) -> KafkaPlan:
    parsed = parse_plan({"schema": 1, "name": "x", "target": {"version": version}})
    assert isinstance(parsed, KafkaPlan)
    return parsed


def test_the_newest_releases_are_known_in_order_and_have_a_line_each() -> None:
    newest = KafkaTargetPlan.newest
    assert list(newest) == sorted(newest, key=number_of)
    for version in newest:
        release_line(version)
    assert newest[-1] == DEFAULT_VERSION


@pytest.mark.parametrize("version", ["0.7.2", "0.8", "0.11", "3.9", "4.1", "5.0.0", "14.0.0"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(PlanError, match=f"Kafka {version} is an unsupported version") as refused:
        release_line(version)
    assert refused.value.key == "target.version"


@pytest.mark.parametrize("release", RELEASE_LINES, ids=lambda release: release.name)
def test_a_broker_starts_with_the_flags_of_its_archive(release: ReleaseLine) -> None:
    paths = {"config": "/d/server.properties", "log_config": "/d/log", "log_folder": "/d/logs"}
    with_archive = release.process(release.broker_class, heap_mb=256, archive="/opt/a.jsa", **paths)
    without = release.process(release.broker_class, heap_mb=256, **paths)
    assert [part for part in with_archive if part not in without] == [
        "-XX:SharedArchiveFile=/opt/a.jsa"
    ]
    assert with_archive[-2:] == ["kafka.Kafka", "/d/server.properties"]
    assert set(release.jvm) < set(with_archive)
    assert "-Dkafka.logs.dir=/d/logs" in with_archive
    assert any(part.endswith("/d/log") for part in with_archive)
