"""ZooKeeper's own levers: who is in the ensemble, and faults of single requests.

The members lever takes servers out of the ensemble while it runs, and back in (reconfig, 3.5). A
server that is taken out keeps running, as an operator would find it. Its entry in the configuration
(`/zookeeper/config`) is in the undo record. Requests go to the servers that stay, one after the
other until one answers; a repeated request changes nothing.

A plan may name requests and errors. Names and numbers of requests are those of `ZooDefs.OpCode`; an
error has the name of its class in `KeeperException`, without "Exception", as it has in histories. A
test compares both with the classes of 3.9. Left out is what only servers make, what comes only
within a `multi`, and what is answered out of order (auth, sasl).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

from kazoo.exceptions import EXCEPTIONS, ZookeeperError
from kazoo.protocol.serialization import Reconfig

from harness.errors import HarnessFailure, PlanError
from harness.faults.own_traffic import NoAnswer, first_answer
from harness.faults.records import MembersRecord
from harness.images.java import jar
from harness.images.keeping import Say
from harness.levers.commands import poll_until
from harness.levers.protocol import Requests
from harness.levers.proxied import (
    ANY,
    HEAP_MB,
    JAR,
    SOURCES,
    Rule,
    check_name,
    proxied,
    rules,
    with_proxy,
)
from harness.plan import number_of
from harness.protocols import Ingredients, Lever, Node, NodeSpec, Proof
from targets.zookeeper import asking
from targets.zookeeper.configuration import (
    CLIENT_PORT,
    DEFAULT_VERSION,
    JAR_FOLDER,
    JVM,
    ZooKeeperPlan,
    names,
)

_CONFIG: Final = "/zookeeper/config"
_ASK_S: Final = 5.0
_SEEN_S: Final = 10
_WITHIN_S: Final = 15.0
_AGAIN_S: Final = 0.3
_ANY: Final = -1


@dataclass(frozen=True)
class MembersLever(Lever[MembersRecord]):
    """Removes servers from the ensemble; undone by making them members again."""

    nodes: Mapping[str, Node]
    plan: ZooKeeperPlan
    name: ClassVar[str] = "members"

    def unavailable(self, node: Node, record: MembersRecord) -> str | None:
        """If servers were not started so that it can be done."""
        if self.plan.ensemble.reconfig:
            return None
        return f"{node.name}: its ensemble cannot be changed: ensemble.reconfig is false"

    def capture_prior_state(self, record: MembersRecord) -> MembersRecord:
        """The servers' entries in the configuration."""
        try:
            entries = members(first_answer(self.nodes.values(), _read, kind="server"))
        except NoAnswer as error:
            return replace(record, unseen=str(error))
        chosen = [self._number(name) for name in record.node.split(",")]
        kept = tuple(entries[number] for number in chosen if number in entries)
        return replace(record, entries=kept)

    def apply(self, record: MembersRecord) -> None:
        """Request that they leave."""
        if record.unseen is not None:
            raise HarnessFailure(record.unseen)
        leaving = ",".join(str(self._number(name)) for name in record.node.split(","))
        self._request(record, Reconfig(None, leaving, None, _ANY), f"remove {record.node}")

    def undo(self, record: MembersRecord) -> None:
        """Request that they join, unless they are members."""
        if record.entries:
            entries = ",".join(map(_with_client_port, record.entries))
            joining = Reconfig(entries, None, None, _ANY)
            self._request(record, joining, f"add {record.node}")

    def probe(self, record: MembersRecord, *, applied: bool) -> Proof:
        """Whether every server that stays no longer has them, or has them again, in its
        configuration."""
        numbers = [self._number(name) for name in record.node.split(",")]
        shown: dict[str, list[int]] = {}

        def seen() -> bool:
            shown.clear()
            for node in self._staying(record):
                with suppress(NoAnswer):
                    shown[node.name] = sorted(members(_read(node)))
            wanted = [all((n in has) != applied for n in numbers) for has in shown.values()]
            return bool(wanted) and all(wanted)

        proven = poll_until(seen, within_s=_SEEN_S) and bool(record.entries)
        return Proof(proven, [f"{name}: members are {has}" for name, has in shown.items()])

    def _number(self, name: str) -> int:
        return names(self.plan).index(name) + 1

    def _staying(self, record: MembersRecord) -> Iterator[Node]:
        chosen = record.node.split(",")
        return (node for node in self.nodes.values() if node.name not in chosen)

    def _request(self, record: MembersRecord, request: Reconfig, what: str) -> None:
        def ask(node: Node) -> Any:
            return asking.ask(node.address, request, timeout_s=_ASK_S)

        deadline = time.monotonic() + _WITHIN_S
        while True:
            try:
                first_answer(self._staying(record), ask, kind="server that stays")
                return
            except ZookeeperError as error:
                raise HarnessFailure(f"the request was refused: {what}: {error}") from error
            except NoAnswer as error:  # a leader that leaves takes all connections with it
                if time.monotonic() > deadline:
                    raise HarnessFailure(f"no server answered: {what}: {error}") from error
                time.sleep(_AGAIN_S)


def members(configuration: bytes) -> dict[int, str]:
    """The entries of a configuration by the numbers of the servers, such as
    `server.1=198.18.0.11:2888:3888:participant;0.0.0.0:2181`."""
    lines = re.findall(r"(?m)^(server\.(\d+)=\S+)$", configuration.decode())
    return {int(number): line for line, number in lines}


def _with_client_port(entry: str) -> str:
    """An entry as a request to join needs it: the configuration that an ensemble starts with has no
    client ports."""
    return entry if ";" in entry else f"{entry};{CLIENT_PORT}"


def _read(node: Node) -> bytes:
    return asking.get(node.address, _CONFIG, timeout_s=_ASK_S) or b""


# The proxies before ZooKeeper's servers: a JVM beside each server's own, only in plans that need
# it.

OURS: Final = Path(__file__).parent / "java"
"""The sources of what it must know of ZooKeeper; they need none of its classes."""
WIRE: Final = "ZooKeeperWire"

_LOOPBACK: Final = "127.0.0.1"


def with_jar(made: Ingredients, plan: ZooKeeperPlan, say: Say) -> Ingredients:
    """The ingredients with the proxies' jar, where the plan needs it. Where nodes are hosts, the
    jars that it is compiled against are on this machine."""
    if not proxied(plan):
        return made
    sources = sorted([*SOURCES.glob("*.java"), *OURS.glob("*.java")])
    here = next(iter(made.folders), None)
    content = jar(made.image, JAR, sources, say, against=JAR_FOLDER, here=here, needed_by="faults")
    return replace(made, files={JAR: content})


def with_proxies(
    specs: Sequence[NodeSpec], plan: ZooKeeperPlan, ingredients: Ingredients
) -> list[NodeSpec]:
    """The nodes, each with a proxy beside it, where the plan needs it."""
    if not proxied(plan):
        return list(specs)
    java = ["java", *JVM, f"-Xmx{HEAP_MB}m", "-cp", f"{JAR_FOLDER}/*"]
    content = ingredients.files.get(JAR, b"")
    ports = (CLIENT_PORT,)
    return [
        with_proxy(spec, content, java=java, wire=WIRE, ports=ports, to=_LOOPBACK) for spec in specs
    ]


APIS: Final[Mapping[str, int]] = {
    "create": 1,
    "delete": 2,
    "exists": 3,
    "getData": 4,
    "setData": 5,
    "getACL": 6,
    "setACL": 7,
    "getChildren": 8,
    "sync": 9,
    "ping": 11,
    "getChildren2": 12,
    "multi": 14,
    "create2": 15,
    "reconfig": 16,
    "checkWatches": 17,
    "removeWatches": 18,
    "createContainer": 19,
    "createTTL": 21,
    "multiRead": 22,
    "setWatches": 101,
    "getEphemerals": 103,
    "getAllChildrenNumber": 104,
    "setWatches2": 105,
    "addWatch": 106,
    "whoAmI": 107,
    "createSession": -10,
    "closeSession": -11,
}
"""The number of every request by its name."""

SINCE: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("create2", "reconfig", "checkWatches", "removeWatches"), (3, 5)),
    **dict.fromkeys(("createContainer", "createTTL"), (3, 5)),
    **dict.fromkeys(("multiRead", "getEphemerals", "getAllChildrenNumber"), (3, 6)),
    **dict.fromkeys(("setWatches2", "addWatch"), (3, 6)),
    "whoAmI": (3, 7),
}
"""The first versions that have those that not all have."""

_CALLED: Final = {
    "SystemZookeeper": "SystemError",
    "Marshalling": "MarshallingError",
    "ReconfigInProcess": "ReconfigInProgress",
    "NotReadOnlyCall": "NotReadOnly",
    "SessionClosedRequireSasl": "SessionClosedRequireAuth",
}
"""Names of ZooKeeper's own for what kazoo calls otherwise."""
_OF_NO_REQUEST: Final = (0, -12, -100)

CODES: Final[Mapping[str, int]] = {
    _CALLED.get(name := kind.__name__.removesuffix("Error"), name): code
    for code, kind in EXCEPTIONS.items()
    if code not in _OF_NO_REQUEST
}
"""The number of every error by its name."""


def requests() -> Requests:
    """ZooKeeper's requests, for the lever: every server gets requests on one port."""
    return Requests(apis=APIS, codes=CODES, ports=lambda _: (CLIENT_PORT,))


def check(plan: ZooKeeperPlan) -> None:
    """Refuse what this plan's version does not have, and what ZooKeeper's protocol cannot carry."""
    for rule in rules(plan):
        for name in rule.apis:
            _check_api(name, plan.target.version or DEFAULT_VERSION, key=f"{rule.key}.api")
        rule.refuse(
            {
                "topic": ("ZooKeeper has no topics", "name a path"),
                "client_id": (
                    "ZooKeeper's requests do not name their client",
                    "choose who asks by peers",
                ),
            }
        )
        if rule.options.get("act") == "duplicate":
            raise PlanError(
                "ZooKeeper has no request twice: each belongs to the session of its connection",
                key=f"{rule.key}.act",
                hint='to have one arrive late, use act = "delay" and side = "request"',
            )
        _check_code(rule, key=f"{rule.key}.code")


def _check_api(name: str, version: str, *, key: str) -> None:
    if name == ANY:
        return
    such_as = "create, setData or getChildren"
    check_name(name, APIS, owner="ZooKeeper", kind="request", key=key, such_as=such_as)
    if number_of(version) < (since := SINCE.get(name, ())):
        raise PlanError(
            f"ZooKeeper {version} does not have the request {name}",
            key=key,
            hint=f"it is there from {'.'.join(map(str, since))} on",
        )


def _check_code(rule: Rule, *, key: str) -> None:
    if (code := rule.options.get("code")) is None:
        return
    such_as = "OperationTimeout"
    check_name(str(code), CODES, owner="ZooKeeper", kind="error", key=key, such_as=such_as)
    rule.require_apis()
    if "createSession" in rule.apis:
        raise PlanError(
            "the answer to createSession carries no error",
            key=key,
            hint="choose another act, or another api",
        )
