"""The jars of a version, fetched by the ordinary Maven client."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import AcklossError, EnvironmentFailure, PlanError
from harness.images import java
from harness.images.recipe import Recipe

pytestmark = pytest.mark.slow

SMALL = Recipe(
    name="kafka",
    version="1.7.36",
    packages=(),
    jars=("org.slf4j:slf4j-reload4j:1.7.36",),
    exclude=("ch.qos.reload4j:reload4j",),
)


def test_the_pom_names_each_jar_and_each_exclusion() -> None:
    space = "{http://maven.apache.org/POM/4.0.0}"
    dependency = ET.fromstring(java.pom(SMALL)).find(f".//{space}dependency")
    assert dependency is not None
    parts = [(part.tag.removeprefix(space), part.text) for part in dependency.iter()]
    assert ("artifactId", "slf4j-reload4j") in parts
    assert ("version", "1.7.36") in parts
    assert ("artifactId", "reload4j") in parts


@pytest.mark.docker
def test_jars_are_fetched_with_their_dependencies_except_those_excluded(tmp_path: Path) -> None:
    java.fetch(SMALL, tmp_path)
    names = sorted(path.name for path in (tmp_path / "libs").iterdir())
    assert names == ["slf4j-api-1.7.36.jar", "slf4j-reload4j-1.7.36.jar"]


@pytest.mark.full  # test_bad_input.py has a version of Kafka
@pytest.mark.docker
def test_a_version_that_does_not_exist_is_a_plan_error(tmp_path: Path) -> None:
    absent = replace(SMALL, version="1.7.9999", jars=("org.slf4j:slf4j-api:1.7.9999",))
    with pytest.raises(PlanError, match=r"kafka 1\.7\.9999 does not exist") as raised:
        java.fetch(absent, tmp_path)
    assert raised.value.key == "target.version"


@pytest.mark.parametrize(
    ("reported", "kind"),
    [
        ("Could not find artifact org.slf4j:slf4j-reload4j:jar:1.7.36 in central", PlanError),
        ("org.slf4j:slf4j-reload4j:jar:1.7.36 was not found in https://repo during", PlanError),
        ("Could not find artifact org.slf4j:slf4j-api:jar:1.7.36 in central", EnvironmentFailure),
        ("Could not find artifact org.slf4j:slf4j-reload4j:jar:1.7.3 in c", EnvironmentFailure),
        ("Could not transfer artifact org.slf4j:slf4j-reload4j:jar:1.7.36", EnvironmentFailure),
    ],
)
def test_only_a_missing_version_is_a_plan_error(
    reported: str, kind: type[AcklossError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in Maven's place prints what Maven 3.8 prints."""
    (tmp_path / "mvn").write_text(f"#!/bin/sh\necho '[ERROR] No luck: {reported}'\nexit 1\n")
    (tmp_path / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(AcklossError) as raised:
        java.fetch(SMALL, tmp_path)
    assert type(raised.value) is kind
    assert kind is PlanError or reported in str(raised.value)


def test_without_maven_the_error_names_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="mvn is missing") as raised:
        java.fetch(SMALL, tmp_path)
    assert raised.value.hint == "apt-get install maven"


GOAL = "Failed to execute goal org.apache:maven-dependency-plugin:3.6.0:copy on project jars: "


@pytest.mark.parametrize(
    ("printed", "why"),
    [
        (
            f"[ERROR] {GOAL}Failed to collect dependencies at g:a:jar:1: Failed to read artifact "
            "descriptor for g:a:jar:1: Could not transfer artifact g:a:pom:1 from/to r "
            "(https://r): Connect to r:443 failed: Connect timed out -> [Help 1]\n[ERROR] \n"
            "[ERROR] [Help 1] http://cwiki/DependencyResolutionException",
            "Could not transfer artifact g:a:pom:1 from/to r (https://r): "
            "Connect to r:443 failed: Connect timed out",
        ),
        (
            f"[ERROR] {GOAL}The following artifacts could not be resolved: g:b:jar:2 (absent): "
            "g:b:jar:2 was not found in https://r during a previous attempt -> [Help 1]",
            "g:b:jar:2 was not found in https://r during a previous attempt",
        ),
        (
            "Error: JAVA_HOME is not defined correctly.",
            "Error: JAVA_HOME is not defined correctly.",
        ),
    ],
)
def test_the_cause_is_shown_not_the_goal_that_failed(printed: str, why: str) -> None:
    assert java.cause(printed) == why
