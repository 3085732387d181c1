"""What a plan states about ZooKeeper, and what its servers start with: versions and their jars,
settings, files and the command.

A version is a row of `RELEASES`. Jars are Maven coordinates. What a server needs at run time and
its artefact only names as `provided` is added (metrics-core, snappy, from 3.6 on), and one logging
binding for all: reload4j. Kafka's ZooKeeper mode uses zoo.cfg and the server's number too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, model_validator

from harness.errors import PlanError
from harness.images.recipe import Recipe, Source
from harness.plan import Image, Plan, Section, Slug, TargetPlan, Version
from harness.protocols import NODE_DATA, STORED
from harness.servers import ServerWorkloadPlan, properties, setting_text

# fmt: off
Word = Literal[
    "conf", "cons", "crst", "dirs", "dump", "envi", "hash", "isro", "lead",
    "mntr", "orst", "ruok", "srst", "srvr", "stat", "wchc", "wchp", "wchs",
]
# fmt: on
"""ZooKeeper's four-letter words, but for those that change how a server traces."""


_STARTER: Final = """
[ensemble]
servers = 3
forceSync = {force}              # whether a transaction is fsynced before it is acknowledged

[workload]
name = "set"
"""
STARTERS: Final[Mapping[str, str]] = {
    "safe": _STARTER.format(force="true"),
    "fast": _STARTER.format(force="false"),
}


class ZooKeeperTargetPlan(TargetPlan):
    """ZooKeeper; how many servers it has is in [ensemble]."""

    newest: ClassVar[Sequence[str]] = ("3.4.14", "3.5.10", "3.6.4", "3.7.2", "3.8.7", "3.9.5")
    growing_since: ClassVar[str] = "3.8"

    system: Slug = Field("zookeeper", description="The system under test, a plug-in in targets/.")
    version: Version | None = Field(None, description="A released version, such as 3.9.5.")
    image: Image | None = Field(None, description="Refused: ZooKeeper runs from its artefacts.")


class EnsemblePlan(Section):
    """The servers, and the settings that all of them have. Names and units of settings are
    ZooKeeper's; its other settings are in `target.settings`."""

    servers: Literal[1, 3, 5, 7] = Field(3, description="Servers with a vote: z1 ... .")
    observers: int = Field(0, ge=0, le=4, description="Observers, without a vote: o1 ... .")
    tickTime: int = Field(500, ge=50, le=10_000, description="One tick, in milliseconds.")
    initLimit: int = Field(
        20, ge=1, le=1000, description="Ticks that a server may take to connect to its leader."
    )
    syncLimit: int = Field(
        6, ge=1, le=1000, description="Ticks that a server may stay behind its leader."
    )
    forceSync: bool = Field(
        True, description="Whether a transaction is fsynced before it is acknowledged."
    )
    snapCount: int = Field(
        100_000, ge=2, le=10_000_000, description="Transactions after which a snapshot is taken."
    )
    four_letter_words: tuple[Word, ...] = Field(
        (),
        description="Words that servers answer besides those that ackloss uses "
        "(`conf`, `mntr`, `ruok`, `srvr`).",
    )
    reconfig: bool = Field(
        False, description="Whether members can be changed while it runs (3.5 and later)."
    )

    @model_validator(mode="after")
    def _observers_observe(self) -> EnsemblePlan:
        if self.observers and self.servers == 1:
            raise ValueError("observers need an ensemble: servers is 1, use 3, 5 or 7")
        if self.reconfig and self.servers == 1:
            raise ValueError("reconfig needs an ensemble: servers is 1, use 3, 5 or 7")
        return self


class ZooKeeperWorkloadPlan(ServerWorkloadPlan):
    """The workload and the clients that run it. Each process has its own client, if there are
    enough clients."""

    clients: int = Field(
        12, ge=1, le=64, description="Real clients (sessions), each with one operation in flight."
    )
    connect: Literal["all", "one"] = Field(
        "all", description="The servers that a client is given: all of them, or one each, in turn."
    )
    read: Literal["plain", "sync"] = Field(
        "plain", description="How values are read: a read alone, or a `sync` first."
    )
    parent: str = Field(
        "/ackloss",
        pattern=r"^(/[A-Za-z0-9_.-]*[A-Za-z0-9_-])+$",
        max_length=200,
        description="The znode below which clients write.",
    )
    session_ms: int = Field(
        4000, ge=100, le=600_000, description="The session timeout that clients request."
    )
    request_ms: int = Field(
        5000, ge=100, le=600_000, description="How long a client waits for one answer."
    )


class ZooKeeperPlan(Plan):
    """Top-level keys of a plan for ZooKeeper."""

    target: ZooKeeperTargetPlan = Field(default_factory=lambda: ZooKeeperTargetPlan())
    ensemble: EnsemblePlan = Field(default_factory=lambda: EnsemblePlan())
    workload: ZooKeeperWorkloadPlan = Field(default_factory=lambda: ZooKeeperWorkloadPlan())

    @property
    def replicas(self) -> int:
        """Every server holds everything, observers too; only those with a vote count."""
        return self.ensemble.servers


# Versions, as data.

JAR_FOLDER: Final = "/opt/zookeeper/libs"
_JAVA: Final = "openjdk-17-jre-headless"
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
            packages=(_JAVA,),
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


class Jars(Source):
    """ZooKeeper's jars, by Maven; a version is another row."""

    client: ClassVar[str] = "mvn"

    @property
    def needed(self) -> Mapping[str, str]:
        """Java."""
        return {"java": _JAVA}

    def version(self, wanted: str | None, *, key: str = "target.version") -> str:
        """Any version that has a row. Raises PlanError."""
        release_of(version := wanted or DEFAULT_VERSION, key=key)
        return version

    def recipe(self, name: str, version: str | None) -> Recipe:
        """The image of one version."""
        return release_of(known := self.version(version)).recipe(known)


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


# zoo.cfg, and which settings a plan may not touch.

CLIENT_PORT: Final = 2181
PEER_PORT, ELECTION_PORT = 2888, 3888
PORTS: Final = (CLIENT_PORT, PEER_PORT, ELECTION_PORT)
DATA: Final = f"{NODE_DATA}/{STORED}"
CONFIG: Final = "zoo.cfg"

WORDS: Final = ("conf", "mntr", "ruok", "srvr")
"""The four-letter words with which servers are queried."""

_OWNED: Final = "ackloss sets it itself"
_CODE: Final = "it loads code or reads files, and a plan may do neither"
_REFUSED: Final[tuple[tuple[str, str], ...]] = (
    (r"dataDir|dataLogDir|clientPort.*|secureClientPort.*|server\..*|weight\..*|group\..*", _OWNED),
    (
        r"reconfigEnabled|peerType|4lw\..*|admin\..*|dynamicConfigFile|skipACL|.*[dD]igest.*superDigest",
        _OWNED,
    ),
    (r"quorumListenOnAllIPs|multiAddress\..*|portUnification|ssl.*|sasl.*|.*\.sasl\..*", _OWNED),
    (r"superDigest|DigestAuthenticationProvider\..*", _OWNED),
    (r"metricsProvider\..*|authProvider.*|serverCnxnFactory|.*[cC]lass(Name)?|.*Provider", _CODE),
    (r".*([fF]ile|[dD]ir|[pP]ath|[lL]ocation|config)", _CODE),
)

OWN_KEYS: Final = {
    name: f"ensemble.{name}"
    for name in ("tickTime", "initLimit", "syncLimit", "forceSync", "snapCount")
}
"""Settings that have their own key in a plan."""

IN_FILE: Final = frozenset(
    {
        "clientPortListenBacklog",
        "electionAlg",
        "localSessionsEnabled",
        "localSessionsUpgradingEnabled",
        "maxClientCnxns",
        "maxSessionTimeout",
        "minSessionTimeout",
        "standaloneEnabled",
        "syncEnabled",
        "connectToLearnerMasterLimit",
    }
)
"""Further settings that a server reads from zoo.cfg itself. All others are system properties of its
JVM, `zookeeper.NAME`: on its command line they can be read back."""


def server_files(
    name: str, ensemble: Mapping[str, str], settings: Mapping[str, Any]
) -> dict[str, bytes]:
    """zoo.cfg of one server, and its number if there are several. `ensemble`: the addresses of all,
    of which o1 ... are observers; `settings` are zoo.cfg's."""
    values: dict[str, Any] = {**settings, "dataDir": DATA, "clientPort": CLIENT_PORT}
    if len(ensemble) == 1:
        return {CONFIG: properties(values)}
    if name.startswith("o"):
        values["peerType"] = "observer"
    for number, (each, address) in enumerate(ensemble.items(), start=1):
        role = ":observer" if each.startswith("o") else ""
        values[f"server.{number}"] = f"{address}:{PEER_PORT}:{ELECTION_PORT}{role}"
    own = [*ensemble].index(name) + 1
    return {CONFIG: properties(values), f"{STORED}/myid": str(own).encode()}


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise PlanError for the first setting that a plan may not touch, or that has its own key."""
    for key in settings:
        reason = next((why for form, why in _REFUSED if re.fullmatch(form, key)), None)
        if reason is not None:
            raise PlanError(
                f"this setting is refused: {reason}",
                key=f'target.settings."{key}"',
                hint="remove it",
            )
        if key in OWN_KEYS:
            raise PlanError(
                "this setting has its own key",
                key=f'target.settings."{key}"',
                hint=f"set {OWN_KEYS[key]}",
            )


# Nodes: servers z1 ... with a vote, observers o1 ..., and what they start with.

VOTER, OBSERVER = "voter", "observer"
"""Roles of nodes."""

SET: Final = "set"
SEQUENCE: Final = "sequence"
LOCKS: Final = "locks"
"""Znodes below the plan's parent, below which elements, numbers and locks are."""

LOGS: Final = "log"

_LOG_CONFIG: Final = Path(__file__).with_name("log4j.properties")
# Short-lived small JVMs on few cores: no parallel collector, no second compiler. Until 3.4 a server
# wants log4j's JMX beans, and reload4j has none.
JVM: Final = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Djava.net.preferIPv4Stack=true",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dzookeeper.admin.enableServer=false",
)
_PROPERTY: Final = "-Dzookeeper."
_OF_ENSEMBLE: Final = ("tickTime", "initLimit", "syncLimit")


def parents(plan: ZooKeeperPlan) -> list[str]:
    """Znodes that are there before the first operation."""
    return [f"{plan.workload.parent}/{name}" for name in (SET, SEQUENCE, LOCKS)]


def names(plan: ZooKeeperPlan) -> list[str]:
    """Servers, then observers."""
    ensemble = plan.ensemble
    return [
        *(f"z{number}" for number in range(1, ensemble.servers + 1)),
        *(f"o{number}" for number in range(1, ensemble.observers + 1)),
    ]


def files_of(name: str, addresses: Mapping[str, str], plan: ZooKeeperPlan) -> dict[str, bytes]:
    """What a server starts with."""
    ensemble = {each: addresses[each] for each in names(plan)}
    return {
        **server_files(name, ensemble, file_settings(plan)),
        _LOG_CONFIG.name: _LOG_CONFIG.read_bytes(),
        f"{LOGS}/zookeeper.log": b"",
    }


def argv(plan: ZooKeeperPlan) -> list[str]:
    """The command that starts a server."""
    return [
        "java",
        *JVM,
        f"-Xmx{plan.target.memory_mb // 2}m",
        f"-Dlog4j.configuration=file:{NODE_DATA}/{_LOG_CONFIG.name}",
        f"-Dackloss.log={NODE_DATA}/{LOGS}/zookeeper.log",
        *(f"{_PROPERTY}{key}={setting_text(value)}" for key, value in flag_settings(plan).items()),
        "-cp",
        f"{JAR_FOLDER}/*",
        MAIN,
        f"{NODE_DATA}/{CONFIG}",
    ]


def file_settings(plan: ZooKeeperPlan) -> dict[str, Any]:
    """What is in zoo.cfg, besides what ackloss owns."""
    given = {key: value for key, value in plan.target.settings.items() if key in IN_FILE}
    ensemble = {key: getattr(plan.ensemble, key) for key in _OF_ENSEMBLE}
    reconfig = {"reconfigEnabled": True} if plan.ensemble.reconfig else {}
    return {"maxClientCnxns": 0, **ensemble, **given, **reconfig}


def flag_settings(plan: ZooKeeperPlan) -> dict[str, Any]:
    """System properties of the JVM, without `zookeeper.` in front."""
    ensemble = plan.ensemble
    given = {key: value for key, value in plan.target.settings.items() if key not in IN_FILE}
    return {
        "4lw.commands.whitelist": ",".join(sorted({*WORDS, *ensemble.four_letter_words})),
        "forceSync": "yes" if ensemble.forceSync else "no",
        "snapCount": ensemble.snapCount,
        **({"skipACL": "yes"} if ensemble.reconfig else {}),  # only a superuser may otherwise
        **given,
    }


def flags_of(command_line: str) -> dict[str, str]:
    """The properties on a JVM's command line, by name without `zookeeper.`; arguments are separated
    by NUL, as Linux shows them."""
    arguments = [arg for arg in command_line.split("\0") if arg.startswith(_PROPERTY)]
    pairs = (argument.removeprefix(_PROPERTY).partition("=") for argument in arguments)
    return {key: value for key, _, value in pairs}
