"""What ZooKeeper's servers start with: zoo.cfg, the server's number, and which settings a plan may
not touch. Kafka's ZooKeeper mode uses the same files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.errors import PlanError
from harness.protocols import NODE_DATA, STORED

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


@dataclass(frozen=True, kw_only=True)
class Server:
    """One server of an ensemble: its number and address. An observer has no vote."""

    number: int
    address: str
    observer: bool = False

    @property
    def line(self) -> str:
        """How zoo.cfg names it."""
        role = ":observer" if self.observer else ""
        return f"{self.address}:{PEER_PORT}:{ELECTION_PORT}{role}"


def server_files(
    number: int, ensemble: list[Server], settings: Mapping[str, Any]
) -> dict[str, bytes]:
    """zoo.cfg of one server, and its number if there are several. `settings` are zoo.cfg's."""
    values: dict[str, Any] = {**settings, "dataDir": DATA, "clientPort": CLIENT_PORT}
    if len(ensemble) == 1:
        return {CONFIG: _lines(values)}
    (own,) = (server for server in ensemble if server.number == number)
    if own.observer:
        values["peerType"] = "observer"
    values |= {f"server.{server.number}": server.line for server in ensemble}
    return {CONFIG: _lines(values), f"{STORED}/myid": str(number).encode()}


def why_refused(key: str) -> str | None:
    """Why a plan may not set this; `None` when it may."""
    for pattern, reason in _REFUSED:
        if re.fullmatch(pattern, key):
            return reason
    return None


def check_settings(settings: Mapping[str, Any], known: Mapping[str, str]) -> None:
    """Raise PlanError for the first setting that a plan may not touch; `known`: settings that have
    their own key, by their name."""
    for key in settings:
        if reason := why_refused(key):
            raise PlanError(
                f"this setting is refused: {reason}",
                key=f'target.settings."{key}"',
                hint="remove it",
            )
        if key in known:
            raise PlanError(
                "this setting has its own key",
                key=f'target.settings."{key}"',
                hint=f"set {known[key]}",
            )


def text(value: Any) -> str:
    """A setting's value as ZooKeeper writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lines(values: Mapping[str, Any]) -> bytes:
    escaped = {key: text(value).replace("\\", "\\\\") for key, value in values.items()}
    return "".join(f"{key}={value}\n" for key, value in escaped.items()).encode()
