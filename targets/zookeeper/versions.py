"""What differs between ZooKeeper's versions, as data: another version is another row.

Jars are Maven coordinates. What a server needs at run time and its artefact only names as
`provided` is added (metrics-core, snappy, from 3.6 on), and one logging binding for all: reload4j.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.errors import PlanError
from harness.images.recipe import Recipe

JAR_FOLDER: Final = "/opt/zookeeper/libs"
JAVA: Final = {"java": "openjdk-17-jre-headless"}
"""What a host must have, by the Debian package that has it."""
MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

_METRICS: Final = (
    "io.dropwizard.metrics:metrics-core:4.1.12.1",
    "org.xerial.snappy:snappy-java:1.1.10.5",
)
_OTHER_LOGGING: Final = (
    "org.slf4j:slf4j-log4j12",
    "log4j:log4j",
    "ch.qos.logback:logback-classic",
    "ch.qos.logback:logback-core",
)


@dataclass(frozen=True, kw_only=True)
class Release:
    """Versions that are built and started alike.

    versions    a pattern of complete version numbers
    slf4j       the version of the logging interface that they bring
    metrics     reports figures of its own, such as how often it has called fsync
    reconfig    members can be changed while it runs
    """

    versions: str
    slf4j: str = "1.7.36"
    metrics: bool = True
    reconfig: bool = True

    def recipe(self, version: str) -> Recipe:
        """The image of one version."""
        return Recipe(
            name="zookeeper",
            version=version,
            packages=("openjdk-17-jre-headless",),
            jars=(
                f"org.apache.zookeeper:zookeeper:{version}",
                f"org.slf4j:slf4j-reload4j:{self.slf4j}",
                *(_METRICS if self.metrics else ()),
            ),
            exclude=_OTHER_LOGGING,
            jar_folder=JAR_FOLDER,
        )


RELEASES: Final[Sequence[Release]] = (
    Release(versions=r"3\.4\.(1[0-4])", metrics=False, reconfig=False),
    Release(versions=r"3\.5\.([5-9]|10)", metrics=False),
    Release(versions=r"3\.[678]\.\d+|3\.9\.[0-3]"),
    Release(versions=r"3\.9\.\d+", slf4j="2.0.13"),
)
"""In order: the first whose pattern fits a version is its row."""

DEFAULT_VERSION: Final = "3.9.5"


def release_of(version: str, *, key: str = "target.version") -> Release:
    """The row of a version. Raises PlanError for one that is not supported."""
    for release in RELEASES:
        if re.fullmatch(release.versions, version):
            return release
    raise PlanError(
        f"ZooKeeper {version} is not a supported version",
        key=key,
        hint="use 3.4.10 to 3.4.14, 3.5.5 to 3.5.10, or 3.6 to 3.9, such as 3.4.14 or 3.9.5",
    )
