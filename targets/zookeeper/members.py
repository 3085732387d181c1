"""The members lever: takes servers out of the ensemble while it runs, and back in (reconfig, 3.5).

A server that is taken out keeps running, as an operator would find it. Its entry in the
configuration (`/zookeeper/config`) is in the undo record. Requests go to the servers that stay, one
after the other until one answers; a repeated request changes nothing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, TypeVar

from kazoo.exceptions import ZookeeperError
from kazoo.protocol.serialization import Reconfig

from harness.errors import HarnessFailure
from harness.faults.own_traffic import NoAnswer
from harness.faults.records import MembersRecord
from harness.levers.commands import poll_until
from harness.protocols import Lever, Node, Proof, UndoRecord
from targets.zookeeper import asking
from targets.zookeeper.configuration import CLIENT_PORT, ZooKeeperPlan, names

_CONFIG: Final = "/zookeeper/config"
_ASK_S: Final = 5.0
_SEEN_S: Final = 10
_WITHIN_S: Final = 15.0
_AGAIN_S: Final = 0.3
_ANY: Final = -1
T = TypeVar("T")


@dataclass(frozen=True)
class MembersLever(Lever[MembersRecord]):
    """Removes servers from the ensemble; undone by making them members again."""

    nodes: Mapping[str, Node]
    plan: ZooKeeperPlan
    name: ClassVar[str] = "members"
    record_type: ClassVar[type[UndoRecord]] = MembersRecord

    def unavailable(self, node: Node, record: MembersRecord) -> str | None:
        """If servers were not started so that it can be done."""
        if self.plan.ensemble.reconfig:
            return None
        return f"{node.name}: its ensemble cannot be changed: ensemble.reconfig is false"

    def capture_prior_state(self, record: MembersRecord) -> MembersRecord:
        """The servers' entries in the configuration."""
        try:
            entries = members(self._asked(self.nodes, _read))
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
                try:
                    shown[node.name] = sorted(members(_read(node.address)))
                except NoAnswer:
                    continue
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
        def ask(address: str) -> Any:
            return asking.ask(address, request, timeout_s=_ASK_S)

        staying = {node.name: node for node in self._staying(record)}
        deadline = time.monotonic() + _WITHIN_S
        while True:
            try:
                self._asked(staying, ask)
                return
            except ZookeeperError as error:
                raise HarnessFailure(f"the request was refused: {what}: {error}") from error
            except NoAnswer as error:  # a leader that leaves takes all connections with it
                if time.monotonic() > deadline:
                    raise HarnessFailure(f"no server answered: {what}: {error}") from error
                time.sleep(_AGAIN_S)

    def _asked(self, nodes: Mapping[str, Node], ask: Callable[[str], T]) -> T:
        """The first answer of a server. Raises NoAnswer when none gives one."""
        why = "there is no server to query"
        for node in nodes.values():
            try:
                return ask(node.address)
            except NoAnswer as error:
                why = str(error)
        raise NoAnswer(why)


def members(configuration: bytes) -> dict[int, str]:
    """The entries of a configuration by the numbers of the servers, such as
    `server.1=198.18.0.11:2888:3888:participant;0.0.0.0:2181`."""
    lines = re.findall(r"(?m)^(server\.(\d+)=\S+)$", configuration.decode())
    return {int(number): line for line, number in lines}


def _with_client_port(entry: str) -> str:
    """An entry as a request to join needs it: the configuration that an ensemble starts with has no
    client ports."""
    return entry if ";" in entry else f"{entry};{CLIENT_PORT}"


def _read(address: str) -> bytes:
    return asking.get(address, _CONFIG, timeout_s=_ASK_S) or b""
