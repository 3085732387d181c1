"""Jars by the ordinary Maven client."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import AcklossError, EnvironmentFailure, PlanError
from harness.images import maven
from harness.images.recipe import Recipe

SMALL = Recipe(
    name="kafka",
    version="1.7.36",
    packages=(),
    jars=("org.slf4j:slf4j-reload4j:1.7.36",),
    exclude=("ch.qos.reload4j:reload4j",),
)


def test_the_pom_names_each_jar_and_each_exclusion() -> None:
    space = "{http://maven.apache.org/POM/4.0.0}"
    dependency = ET.fromstring(maven.pom(SMALL)).find(f".//{space}dependency")
    assert dependency is not None
    told = [(part.tag.removeprefix(space), part.text) for part in dependency.iter()]
    assert ("artifactId", "slf4j-reload4j") in told
    assert ("version", "1.7.36") in told
    assert ("artifactId", "reload4j") in told


@pytest.mark.docker
def test_jars_come_with_what_they_need_but_for_what_is_excluded(tmp_path: Path) -> None:
    maven.fetch(SMALL, tmp_path)
    names = sorted(path.name for path in (tmp_path / "libs").iterdir())
    assert names == ["slf4j-api-1.7.36.jar", "slf4j-reload4j-1.7.36.jar"]


@pytest.mark.docker
def test_a_version_that_does_not_exist_is_a_mistake_of_the_plan(tmp_path: Path) -> None:
    absent = replace(SMALL, version="1.7.9999", jars=("org.slf4j:slf4j-api:1.7.9999",))
    with pytest.raises(PlanError, match=r"kafka 1\.7\.9999 does not exist") as told:
        maven.fetch(absent, tmp_path)
    assert told.value.key == "target.version"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Could not find artifact org.slf4j:slf4j-reload4j:jar:1.7.36 in central", PlanError),
        ("org.slf4j:slf4j-reload4j:jar:1.7.36 was not found in https://repo during", PlanError),
        ("Could not find artifact org.slf4j:slf4j-api:jar:1.7.36 in central", EnvironmentFailure),
        ("Could not find artifact org.slf4j:slf4j-reload4j:jar:1.7.3 in c", EnvironmentFailure),
        ("Could not transfer artifact org.slf4j:slf4j-reload4j:jar:1.7.36", EnvironmentFailure),
    ],
)
def test_only_a_missing_version_is_a_mistake_of_the_plan(
    said: str, kind: type[AcklossError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Maven says (as seen from 3.8), told by a program in its place."""
    (tmp_path / "mvn").write_text(f"#!/bin/sh\necho '[ERROR] No luck: {said}'\nexit 1\n")
    (tmp_path / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(AcklossError) as told:
        maven.fetch(SMALL, tmp_path)
    assert type(told.value) is kind
    assert kind is PlanError or said in str(told.value)


def test_without_maven_there_is_a_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="Maven is missing") as told:
        maven.fetch(SMALL, tmp_path)
    assert told.value.hint == "apt-get install maven"
