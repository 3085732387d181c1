"""The nodes of an ensemble: servers z1 ... with a vote, observers o1 ..., and the files that they
start with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from harness.protocols import NODE_DATA, Ingredients, NodeSpec
from targets.zookeeper.configuration import (
    CONFIG,
    IN_FILE,
    PORTS,
    WORDS,
    Server,
    server_files,
    text,
)
from targets.zookeeper.plan import EnsemblePlan, ZooKeeperPlan
from targets.zookeeper.versions import JAR_FOLDER, MAIN

VOTER, OBSERVER = "voter", "observer"
"""Roles of nodes."""

SET: Final = "set"
SEQUENCE: Final = "sequence"
LOCKS: Final = "locks"
"""Znodes below the plan's parent, below which elements, numbers and locks are."""

LOGS: Final = "log"
ADDRESSES: Final = "addresses"
"""Our own file on each node: names and addresses of all."""

_LOG_CONFIG: Final = "log4j.properties"
_LOG4J: Final = """\
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.RollingFileAppender
log4j.appender.file.File=${ackloss.log}
log4j.appender.file.MaxFileSize=64MB
log4j.appender.file.MaxBackupIndex=3
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
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


def specs(plan: ZooKeeperPlan, made: Ingredients, addresses: Mapping[str, str]) -> list[NodeSpec]:
    """Every node with its files."""
    ensemble = [
        Server(number=number, address=addresses[name], observer=name.startswith("o"))
        for number, name in enumerate(names(plan), start=1)
    ]
    listed = "".join(f"{name} {addresses[name]}\n" for name in names(plan)).encode()
    return [
        NodeSpec(
            name=name,
            roles=frozenset({OBSERVER if server.observer else VOTER}),
            argv=argv(plan),
            files={
                **server_files(server.number, ensemble, file_settings(plan)),
                _LOG_CONFIG: _LOG4J.encode(),
                ADDRESSES: listed,
                f"{LOGS}/zookeeper.log": b"",
            },
            mounts=made.mounts,
            memory_mb=plan.target.memory_mb,
            ports=PORTS,
        )
        for name, server in zip(names(plan), ensemble, strict=True)
    ]


def argv(plan: ZooKeeperPlan) -> list[str]:
    """The command that starts a server."""
    return [
        "java",
        *JVM,
        f"-Xmx{plan.target.memory_mb // 2}m",
        f"-Dlog4j.configuration=file:{NODE_DATA}/{_LOG_CONFIG}",
        f"-Dackloss.log={NODE_DATA}/{LOGS}/zookeeper.log",
        *(f"{_PROPERTY}{key}={text(value)}" for key, value in flag_settings(plan).items()),
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
    ensemble: EnsemblePlan = plan.ensemble
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


def addresses_of(addresses: Iterable[str], plan: ZooKeeperPlan, number: int) -> list[str]:
    """The servers for client `number`, from 0, in the order in which it tries them."""
    all_of = list(addresses)
    first = number % len(all_of)
    turned = [*all_of[first:], *all_of[:first]]
    return turned if plan.workload.connect == "all" else turned[:1]
