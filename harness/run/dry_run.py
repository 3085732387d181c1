"""Nodes and clients that do nothing but note what is requested of them: for dry runs, and for tests
of the exact commands of levers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from harness.levers import all_levers
from harness.plan import Plan
from harness.protocols import (
    NODE_DATA,
    STORED,
    Completed,
    Lever,
    OwnDisk,
    PartitionView,
    PowerLoss,
    ProcessState,
    Situation,
)
from harness.protocols.crashes import ClientState
from harness.protocols.groups import (
    Action,
    Consumers,
    ConsumerState,
    Delivery,
    GroupSettings,
    consumer_name,
)

EXAMPLE_SUBNET = "198.18.0"


@dataclass(frozen=True)
class DryRunDisk(OwnDisk):
    """A disk that does nothing: what would happen to it is recorded with the commands."""

    name: str
    commands: list[str]

    def why_not(self) -> str | None:
        return None

    def flush(self) -> None: ...

    def lose_power(self, fault: str) -> None:  # noqa: ARG002
        self.commands.append(f"{self.name}: its disk loses what was not fsynced")

    def power_loss(self, fault: str) -> PowerLoss | None:  # noqa: ARG002
        return None

    def power_losses(self) -> list[str]:
        return []

    def restore(self, fault: str) -> None: ...

    def written_back_s(self) -> tuple[float, float]:
        return 5.0, 35.0


@dataclass
class DryRunNode:
    """A node that does nothing and records every command that it gets."""

    name: str
    roles: frozenset[str]
    address: str
    commands: list[str] = field(default_factory=list)

    @property
    def own_disk(self) -> OwnDisk:
        return DryRunDisk(self.name, self.commands)

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:  # noqa: ARG002
        """Record; a rule that is queried (`iptables -C`) is not there, nor a file, a route is,
        and what it stores lies on its own disk."""
        if "-C" in argv or argv[0] == "test":
            return Completed(1, "")
        if "route" in argv:
            return Completed(0, f"default via {EXAMPLE_SUBNET}.1 dev eth0")
        if argv[0] == "df":
            return Completed(0, f"{NODE_DATA}/{STORED} {128 << 20} 0")
        self.commands.append(f"{self.name}# {' '.join(argv)}")
        return Completed(0, "")

    run = admin

    def put(self, files: Mapping[str, bytes]) -> None:
        self.commands += [f"{self.name}: write {name}" for name in files]

    def get(self, name: str) -> dict[str, bytes]:  # noqa: ARG002
        return {}

    def start(self) -> None:
        self.commands.append(f"{self.name}: start the target's process")

    def pid(self) -> int | None:
        return 7

    def process(self) -> ProcessState:
        return ProcessState(running=False, exit_code=137, started_at="START")


@dataclass
class DryRunClients:
    """Clients that never crash: what would happen to them is recorded."""

    announced: list[str] = field(default_factory=list)

    def crash(self, number: int, fault: str, *, at_once: bool) -> None:  # noqa: ARG002
        when = (
            "a new client replaces it at once"
            if at_once
            else "its place stays empty until it is healed"
        )
        self.announced.append(
            f"client-{number}: crash it without a flush, what is in flight in it is unknown; {when}"
        )

    def replace(self, number: int, fault: str) -> None:  # noqa: ARG002
        self.announced.append(f"client-{number}: a new client replaces it")

    def state(self, number: int, fault: str) -> ClientState:  # noqa: ARG002
        return ClientState(alive=f"client-{number}", kept_dead_by=frozenset(), death=None)


@dataclass(frozen=True)
class DryRunConsumers(Consumers):
    """Consumers that never start: what would happen to them is reported to `say`."""

    say: Callable[[str], None]
    members_count: int = GroupSettings.members_count

    def start(self) -> None:
        """Nothing starts."""

    def assigned(self) -> str | None:
        """Nothing is waited for."""

    def drained(self) -> str | None:
        """Nothing is waited for."""

    def act(self, number: int, action: Action) -> None:
        """Report it."""
        self.say(f"{consumer_name(number)}: {_DONE[action]}")

    def undo(self, number: int, action: Action) -> None:
        """Report it."""
        self.say(f"{consumer_name(number)}: {_UNDONE[action]}")

    def state(self, number: int) -> ConsumerState:
        """Those that are there from the start run, as far as is known."""
        return ConsumerState(life=1 if number <= self.members_count else None)

    def close(self, timeout_s: float) -> None:
        """Nothing is there."""

    def committed(self, timeout_s: float) -> list[Delivery]:  # noqa: ARG002
        """Nothing is."""
        return []


_DONE: Final[Mapping[Action, str]] = {
    "crash": "SIGKILL",
    "pause": "SIGSTOP",
    "leave": "it commits and leaves the group",
    "join": "it joins the group",
}
_UNDONE: Final[Mapping[Action, str]] = {
    "crash": "a new one takes its place",
    "pause": "SIGCONT",
    "leave": "a new one takes its place",
    "join": "it leaves the group",
}


@dataclass(frozen=True)
class DryRunCluster:
    """Nodes that do nothing, with every lever over them."""

    nodes: Mapping[str, DryRunNode]

    @property
    def levers(self) -> Mapping[str, Lever[Any]]:
        return all_levers(self.nodes)


def as_if_first_led(plan: Plan, members: Sequence[str], controller: str) -> Situation:
    """A situation in which the first of the nodes that hold replicas leads every partition, and all
    replicas are in sync."""
    in_sync = tuple(members[: plan.replicas])
    view = [
        PartitionView(
            partition=p, leader=members[0], leader_epoch=0, members=in_sync, replicas=in_sync
        )
        for p in range(plan.partitions)
    ]
    return Situation(time_ns=0, partitions={v.partition: v for v in view}, controller=controller)
