"""What differs between Kafka's versions, as data: another range of versions is another row.

Jars are named as Maven coordinates. The broker's own log is evidence of a run, and without a
logging binding it is silent: each range has the binding of its official distribution, or reload4j
where that binding is not a dependency of its jars.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from harness.errors import PlanError
from harness.images.recipe import Recipe
from harness.plan import number_of
from targets.kafka import wire
from targets.kafka.plan import KafkaPlan

JAR_FOLDER = "/opt/kafka/libs"
VERSION_JAR = r"kafka_2\.\d+-(\d+(?:\.\d+){1,3})\.jar"
"""The jar that says which version a folder of jars has."""

KRAFT: Final = "kraft"
ZOOKEEPER: Final = "zookeeper"

FIRST_SNAPSHOT: Final = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
"""The snapshot with which a log of metadata begins, below a node's data folder."""


@dataclass(frozen=True)
class ReleaseLine:
    """Versions that are built, configured and started alike.

    `versions` is a pattern of complete version numbers; `metadata` are the ways in which the
    cluster's metadata can be kept, the default first; `jars` hold `{version}`; `log_flag` holds
    `{file}`; `packages` are the distribution's. `speaks` is the protocol that must be configured
    for clients, null where they query the broker (ApiVersions, KIP-35, from 0.10 on). `host_keys`:
    listens by the keys `host.name` and `port`, which 0.9 replaced by `listeners`.
    `bootstrap` is the file of its data folder in which formatting notes the levels of features:
    until 4.3 every node has it, since 4.4 (KIP-1170) it is the first snapshot of a controller.
    `offsets_acknowledged`: the offset in an acknowledgement is the record's; before 0.8.2 it is,
    for acks=all, the one after the last record of the request.
    """

    name: str
    versions: str
    jars: tuple[str, ...]
    _: KW_ONLY
    metadata: tuple[str, ...] = (ZOOKEEPER,)
    packages: tuple[str, ...] = ("openjdk-17-jre-headless",)
    # Short-lived small JVMs on few cores: no parallel collector, no second compiler.
    jvm: tuple[str, ...] = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
    log_file: str = "log4j.properties"
    log_flag: str = "-Dlog4j.configuration=file:{file}"
    exclude: tuple[str, ...] = ()
    broker_class: str = "kafka.Kafka"
    format_class: str = "kafka.tools.StorageTool"
    bootstrap: str = "bootstrap.checkpoint"
    zookeeper_class: str = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
    speaks: tuple[int, ...] | None = None
    host_keys: bool = False
    offsets_acknowledged: bool = True

    @property
    def log_config(self) -> str:
        """What its log is to contain, beside this module."""
        return Path(__file__).with_name(self.log_file).read_text(encoding="utf-8")

    def recipe(self, version: str) -> Recipe:
        """The image of one version, laid out like the project's official one."""
        return Recipe(
            name="kafka",
            version=version,
            packages=self.packages,
            jars=tuple(jar.format(version=version) for jar in self.jars),
            exclude=self.exclude,
            jar_folder=JAR_FOLDER,
        )

    def java(self, *, heap_mb: int, archive: str | None = None) -> list[str]:
        """How its JVM is started, up to the main class.

        A class-data archive only serves the flags that it was made with, so all come from here.
        """
        return [
            "java",
            *self.jvm,
            f"-Xms{min(_HEAP_AT_FIRST_MB, heap_mb)}m",
            f"-Xmx{heap_mb}m",
            *([f"-XX:SharedArchiveFile={archive}"] if archive else []),
            "-cp",
            f"{JAR_FOLDER}/*",
        ]

    def process(
        self,
        main_class: str,
        *,
        config: str,
        log_config: str,
        log_folder: str,
        heap_mb: int,
        archive: str | None = None,
        flags: Sequence[str] = (),
    ) -> list[str]:
        """The command that starts a node's process (`broker_class`, `zookeeper_class`) with its
        configuration file; all paths are those it sees itself. `flags` are its JVM's besides."""
        *java, flag, path = self.java(heap_mb=heap_mb, archive=archive)
        logging = [f"-Dkafka.logs.dir={log_folder}", self.log_flag.format(file=log_config)]
        return [*java, *logging, *flags, flag, path, main_class, config]


_HEAP_AT_FIRST_MB = 96
# Kafka Connect, which the tools bring along, is half of the jars and nothing here runs it.
_CONNECT = (
    "org.apache.kafka:connect-api",
    "org.apache.kafka:connect-json",
    "org.apache.kafka:connect-runtime",
    "org.apache.kafka:connect-transforms",
)
# Named by log4j 1.2.15 and not in the repository.
_NOT_THERE = ("com.sun.jmx:jmxri", "com.sun.jdmk:jmxtools", "javax.jms:jms", "javax.mail:mail")
_TOOLS = "org.apache.kafka:kafka-tools:{version}"
_RELOAD4J = "org.slf4j:slf4j-reload4j:1.7.36"
# Java has no javax.xml.bind any more; until 0.11 Kafka encodes ids with it.
_JAXB = "javax.xml.bind:jaxb-api:2.3.1"


def _kafka(scala: str) -> str:
    return f"org.apache.kafka:kafka_{scala}:{{version}}"


def _log4j2(binding: str) -> tuple[str, ...]:
    group = "org.apache.logging.log4j"
    parts = ("log4j-slf4j-impl", "log4j-core", "log4j-api")
    return tuple(f"{group}:{part}:{binding}" for part in parts)


def _line_4(name: str, versions: str, log4j: str) -> ReleaseLine:
    jars = (_kafka("2.13"), _TOOLS, *_log4j2(log4j))
    made = ReleaseLine(name, versions, jars, metadata=(KRAFT,), exclude=_CONNECT)
    flag = "-Dlog4j2.configurationFile={file}"
    return replace(made, log_file="log4j2.properties", log_flag=flag)


_BINDING: Final = ("org.slf4j:slf4j-log4j12", "log4j:log4j")
_ZK: Final = "org.apache.zookeeper:zookeeper"

# fmt: off
RELEASE_LINES: Sequence[ReleaseLine] = (
    ReleaseLine("0.8.0", r"0\.8\.0", (_kafka("2.10"),), exclude=_NOT_THERE, speaks=(0, 8, 0),
                host_keys=True, offsets_acknowledged=False),
    ReleaseLine("0.8.1", r"0\.8\.1(\.1)?", (_kafka("2.10"),), exclude=_NOT_THERE, speaks=(0, 8, 1),
                host_keys=True, offsets_acknowledged=False),
    ReleaseLine("0.8.2", r"0\.8\.2\.\d+", (_kafka("2.11"),), exclude=_NOT_THERE, speaks=(0, 8, 2),
                host_keys=True),
    ReleaseLine("0.9", r"0\.9\.0\.\d+", (_kafka("2.11"), _JAXB), exclude=_NOT_THERE,
                speaks=(0, 9, 0)),
    ReleaseLine("0.10", r"0\.10\.[0-2]\.\d+", (_kafka("2.11"), _JAXB)),
    ReleaseLine("0.11, 1.0", r"0\.11\.0\.\d+|1\.0\.\d+", (_kafka("2.11"), _JAXB, _RELOAD4J),
                exclude=_BINDING),
    ReleaseLine("1.1", r"1\.1\.\d+", (_kafka("2.11"), _RELOAD4J)),
    # Its own ZooKeeper client, 3.4.13 or .14, does not start on Java 14 and later
    # (ZOOKEEPER-3779); 3.5.9 does.
    ReleaseLine("2.0 to 2.3", r"2\.[0-3]\.\d+", (_kafka("2.12"), f"{_ZK}:3.5.9", _RELOAD4J),
                exclude=(_ZK, *_BINDING)),
    ReleaseLine("2.4 to 3.2", r"2\.[4-8]\.\d+|3\.[0-2]\.\d+", (_kafka("2.13"), _RELOAD4J),
                exclude=_BINDING),
    ReleaseLine("3.3 to 3.9", r"3\.[3-9]\.\d+", (_kafka("2.13"), _TOOLS, _RELOAD4J),
                metadata=(KRAFT, ZOOKEEPER), exclude=_CONNECT),
    _line_4("4.0, 4.1", r"4\.[01]\.\d+", "2.24.3"),
    _line_4("4.2", r"4\.2\.\d+", "2.25.3"),
    _line_4("4.3", r"4\.3\.\d+", "2.25.4"),
    replace(_line_4("4.x", r"4\.\d+\.\d+", "2.25.4"), bootstrap=FIRST_SNAPSHOT),
)
# fmt: on
"""In order: the first whose pattern fits a version is its row."""

DEFAULT_VERSION = "4.4.0"


def release_line(version: str, *, key: str = "target.version") -> ReleaseLine:
    """The row of a version. Raises PlanError for an unsupported one."""
    for release in RELEASE_LINES:
        if re.fullmatch(release.versions, version):
            return release
    raise PlanError(
        f"Kafka {version} is an unsupported version",
        key=key,
        hint=f"0.8.0 to 4.x are known, such as 0.8.2.2, 2.8.2, 3.9.2 or {DEFAULT_VERSION}",
    )


def release_line_of(plan: KafkaPlan) -> ReleaseLine:
    """The row of a plan's version. An image's version is known only once it was pulled; images hold
    3.3 or later (`targets.kafka.images.resolve`), and requests to those are all alike.

    Raises PlanError for an unsupported version.
    """
    return release_line(plan.target.version or DEFAULT_VERSION)


OLDEST_IMAGE: Final = "3.3"
"""The least version of an image of the user's."""


def lowest_version(plan: KafkaPlan) -> str:
    """The lowest version that a node of the plan has at any time: all later ones understand what is
    requested from it."""
    later = [each.target.version or OLDEST_IMAGE for _, _, each in plan.upgrades()]
    return min([plan.target.version or OLDEST_IMAGE, *later], key=number_of)


@cache
def spoken_by(version: tuple[int, ...]) -> Mapping[int, tuple[int, int]]:
    """The APIs that brokers of a version report to clients, by number with the first and the last
    version of their requests: kafka-python's table. Leader epochs in metadata are reliable from 2.4
    on (KAFKA-9212), so of brokers before none are read."""
    tables = wire.BROKER_API_VERSIONS
    table = tables[max(each for each in tables if each <= version)]
    key = wire.MetadataRequest.API_KEY
    return table if version >= (2, 4) else {**table, key: (0, min(table[key][1], 5))}


def is_before(plan: KafkaPlan, version: str) -> bool:
    """Whether a plan states a version before this one."""
    stated = plan.target.version
    return stated is not None and number_of(stated) < number_of(version)


def reports_settings(plan: KafkaPlan) -> bool:
    """Whether brokers of a plan's version report the settings in force (KIP-133)."""
    return not is_before(plan, "0.11")


def controllers_report(plan: KafkaPlan) -> bool:
    """Whether controllers do, too (KIP-919); those of a migration are not there at first."""
    return not is_before(plan, "3.7") and not plan.migrates


def version_of(plan: KafkaPlan) -> str | None:
    """The version of a plan, an image's by its tag; null where it reports none."""
    if plan.target.version is not None or plan.target.image is None:
        return plan.target.version
    tag = re.search(r":(\d+(?:\.\d+){1,3})(?:@|$)", plan.target.image)
    return tag.group(1) if tag else None


def metadata_of(plan: KafkaPlan) -> str:
    """Who keeps the metadata of a plan's cluster: `KRAFT` or `ZOOKEEPER`."""
    return plan.target.metadata or release_line_of(plan).metadata[0]
