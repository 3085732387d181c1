"""Clients that are processes of the user's: what a target passes to them.

With `workload.client = "exec"`, `ackloss run --client CMD` runs a process of CMD for each client.
The processes speak lines of JSON (docs/how-to/any-client.md, `harness.run.client_process`). They
are judged with the system: `harness.protocols.conduct` holds what they did.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final, Protocol, TypeAlias, TypeVar, runtime_checkable

from harness.plan import Plan
from harness.protocols.nodes import Cluster

PlanOf = TypeVar("PlanOf", bound=Plan, contravariant=True)

JSON: TypeAlias = "str | int | float | bool | list[JSON] | dict[str, JSON] | None"

EXEC: Final = "exec"
"""`workload.client` of a plan whose clients are processes of the user's."""

COMMAND: Final = "a command of the user's"
"""What writes in such a plan, until its processes report it."""


@runtime_checkable
class HasLibraries(Protocol):
    """A target whose plans choose among client libraries by `workload.client`."""

    libraries: ClassVar[tuple[str, ...]]
    """Their names, without `EXEC`."""


@runtime_checkable
class ServesAnyClient(Protocol[PlanOf]):
    """A target that can pass to a user's process what a client needs to know."""

    @abstractmethod
    def connection(self, cluster: Cluster, plan: PlanOf, number: int) -> Mapping[str, JSON]:
        """What client `number`, from 1, needs to know: addresses, names, settings. It is written
        to the run folder, so it holds no secret."""
        ...

    @abstractmethod
    def answers_within_s(self, plan: PlanOf) -> float:
        """How long an operation may take with the settings of the plan, in seconds; one that is
        not answered by then is blocked."""
        ...
