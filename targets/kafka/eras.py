"""What differs between Kafka's versions, as data: a further era is a further row.

Jars are named as Maven coordinates. The broker's own log is evidence of a run, and without a
logging binding it is silent: each era brings the binding that its official distribution has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.errors import PlanError
from harness.images.recipe import Recipe

JAR_FOLDER = "/opt/kafka/libs"

# The levels that show elections and ISR changes: the controller tells each change of a partition
# (leader, ISR, ELR) at DEBUG, brokers tell theirs in the state-change log and at INFO.
_LOG4J2 = """\
name = ackloss
status = error
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = ${sys:kafka.logs.dir}/server.log
appender.file.filePattern = ${sys:kafka.logs.dir}/server.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c)%n
appender.file.policies.type = SizeBasedTriggeringPolicy
appender.file.policies.size = 64MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
logger.replication.name = org.apache.kafka.controller.ReplicationControlManager
logger.replication.level = debug
logger.statechange.name = state.change.logger
logger.statechange.level = info
"""

_LOG4J1 = """\
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.RollingFileAppender
log4j.appender.file.File=${kafka.logs.dir}/server.log
log4j.appender.file.MaxFileSize=64MB
log4j.appender.file.MaxBackupIndex=3
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.org.apache.kafka.controller.ReplicationControlManager=DEBUG
log4j.logger.state.change.logger=INFO
"""


@dataclass(frozen=True, kw_only=True)
class Era:
    """Versions that are built, configured and started alike.

    `versions` is a pattern of whole version numbers; `jars` hold `{version}`; `log_flag` holds
    `{file}`; `packages` are the distribution's.
    """

    name: str
    versions: str
    jars: tuple[str, ...]
    packages: tuple[str, ...]
    jvm: tuple[str, ...]
    log_file: str
    log_config: str
    log_flag: str
    exclude: tuple[str, ...] = ()
    broker_class: str = "kafka.Kafka"
    format_class: str = "kafka.tools.StorageTool"

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

    def broker(
        self,
        *,
        properties: str,
        log_config: str,
        log_folder: str,
        heap_mb: int,
        archive: str | None = None,
    ) -> list[str]:
        """The command that starts a broker or controller; all paths are those it sees itself."""
        *java, flag, path = self.java(heap_mb=heap_mb, archive=archive)
        logging = [f"-Dkafka.logs.dir={log_folder}", self.log_flag.format(file=log_config)]
        return [*java, *logging, flag, path, self.broker_class, properties]


_HEAP_AT_FIRST_MB = 96
_JAVA_17 = ("openjdk-17-jre-headless",)
# Short-lived small JVMs on few cores: no parallel collector, no second compiler.
_SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
# Kafka Connect, which the tools bring along, is half of the jars and nothing here runs it.
_CONNECT = (
    "org.apache.kafka:connect-api",
    "org.apache.kafka:connect-json",
    "org.apache.kafka:connect-runtime",
    "org.apache.kafka:connect-transforms",
)
_KAFKA = ("org.apache.kafka:kafka_2.13:{version}", "org.apache.kafka:kafka-tools:{version}")


def _log4j2(binding: str) -> tuple[str, ...]:
    group = "org.apache.logging.log4j"
    parts = ("log4j-slf4j-impl", "log4j-core", "log4j-api")
    return tuple(f"{group}:{part}:{binding}" for part in parts)


def _era_4(name: str, versions: str, log4j: str) -> Era:
    return Era(
        name=name,
        versions=versions,
        jars=(*_KAFKA, *_log4j2(log4j)),
        packages=_JAVA_17,
        jvm=_SMALL_JVM,
        exclude=_CONNECT,
        log_file="log4j2.properties",
        log_config=_LOG4J2,
        log_flag="-Dlog4j2.configurationFile={file}",
    )


ERAS: Sequence[Era] = (
    Era(
        name="3.9",
        versions=r"3\.9\.\d+",
        jars=(*_KAFKA, "org.slf4j:slf4j-reload4j:1.7.36"),
        packages=_JAVA_17,
        jvm=_SMALL_JVM,
        exclude=_CONNECT,
        log_file="log4j.properties",
        log_config=_LOG4J1,
        log_flag="-Dlog4j.configuration=file:{file}",
    ),
    _era_4("4.0, 4.1", r"4\.[01]\.\d+", "2.24.3"),
    _era_4("4.2", r"4\.2\.\d+", "2.25.3"),
    _era_4("4.x", r"4\.\d+\.\d+", "2.25.4"),
)
"""In order: the first whose pattern fits a version is its era."""

DEFAULT_VERSION = "4.3.1"


def era_of(version: str, *, key: str = "target.version") -> Era:
    """The era of a version. Raises PlanError for one that this ackloss does not know."""
    for era in ERAS:
        if re.fullmatch(era.versions, version):
            return era
    raise PlanError(
        f"Kafka {version} is of no era that this ackloss knows",
        key=key,
        hint="3.9.x and 4.x are known, such as 4.3.1 or 3.9.2",
    )
