"""A target: the toy store, whose partition N is on node N + 1."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from ackloss.plugins import (
    NODE_DATA,
    READS,
    Client,
    Cluster,
    End,
    Ingredients,
    Lever,
    Node,
    NodeSpec,
    Plan,
    PlanError,
    Promises,
    Recipe,
    Slug,
    Target,
    TargetPlan,
    ThreadedClient,
    UndoRecord,
    ensure_image,
)
from ackloss_toy.connection import PORT, Connection, asked_once
from ackloss_toy.lever import TOY_MODE, ModeLever, ModeRecord

FILE = "data/values"
OVER_TCP, IN_THE_FILE = "over TCP", "in the file"


class ToyTargetPlan(TargetPlan):
    """The toy store, and how it acknowledges."""

    system: Slug = Field("toy", description="The system under test, a plug-in in targets/.")
    nodes: int = Field(2, ge=1, le=8, description="How many nodes, each with one partition.")
    mode: Literal["stored", "received"] = Field("stored", description="What is acknowledged.")


class ToyPlan(Plan):
    """A plan whose target is the toy store."""

    target: ToyTargetPlan = Field(default_factory=lambda: ToyTargetPlan())

    @property
    def partitions(self) -> int:
        """One on each node."""
        return self.target.nodes


@dataclass(frozen=True)
class Toy(Target[ToyPlan]):
    """A toy store, which keeps integers in files."""

    plugin: ClassVar[str] = "toy"
    plan: ClassVar[type[Plan]] = ToyPlan
    models: ClassVar[frozenset[str]] = frozenset({"log"})
    own_levers: ClassVar[frozenset[str]] = frozenset({TOY_MODE})
    record_types: ClassVar[Mapping[str, type[UndoRecord]]] = {TOY_MODE: ModeRecord}

    def check(self, plan: ToyPlan) -> None:
        """Refuse keys that every system has and this one does not."""
        for key in ("version", "image", "settings"):
            if getattr(plan.target, key):
                raise PlanError("the toy store has none", key=f"target.{key}", hint="leave it out")

    def names(self, plan: ToyPlan) -> list[str]:
        """t1, t2 ..."""
        return [f"t{number}" for number in range(1, plan.target.nodes + 1)]

    def prepare(self, plan: ToyPlan, say: Callable[[str], None]) -> Ingredients:
        """An image with Python, and the server."""
        image = ensure_image(Recipe(name="toy", packages=("python3",)), say)
        return Ingredients(image=image)

    def nodes(
        self, plan: ToyPlan, ingredients: Ingredients, addresses: Mapping[str, str]
    ) -> list[NodeSpec]:
        """A server on each node; its file is what a node keeps."""
        server = Path(__file__).with_name("server.py").read_bytes()
        return [
            NodeSpec(
                name=name,
                roles=frozenset({"store"}),
                argv=[
                    *("python3", f"{NODE_DATA}/server.py", "--listen", f"{addresses[name]}:{PORT}"),
                    *("--file", f"{NODE_DATA}/{FILE}", "--mode", plan.target.mode),
                ],
                files={"server.py": server},
                memory_mb=plan.target.memory_mb,
            )
            for name in self.names(plan)
        ]

    def levers(self, cluster: Cluster, plan: ToyPlan) -> Mapping[str, Lever[Any]]:
        """The lever that changes how servers acknowledge."""
        return {TOY_MODE: ModeLever(cluster.nodes)}

    def bring_up(self, cluster: Cluster, plan: ToyPlan, *, timeout_s: float) -> None:
        """Wait until every server answers."""
        deadline_s = time.monotonic() + timeout_s
        for node in cluster.nodes.values():
            read(node, deadline_s)

    def effective(self, cluster: Cluster, plan: ToyPlan) -> dict[str, Any]:
        """The mode, as each server reports it."""
        for node in cluster.nodes.values():
            mode = read(node, time.monotonic() + 5)["mode"]
            if mode != plan.target.mode:
                raise PlanError(f"{node.name} has the mode {mode!r}", key="target.mode")
        return self.requested(plan)

    def requested(self, plan: ToyPlan) -> dict[str, Any]:
        """The mode."""
        return {"settings": {"store": {"mode": plan.target.mode}}}

    def promises(self, plan: Mapping[str, Any], effective: Mapping[str, Any]) -> Promises:
        """What is acknowledged stays, in either mode: that is what a run puts to the test."""
        return Promises(
            partitions=plan["target"]["nodes"], clients=plan["workload"]["clients"], once=True
        )

    def client(self, cluster: Cluster, plan: ToyPlan) -> Client:
        """As many connections as the plan has clients."""
        addresses = [node.address for node in cluster.nodes.values()]
        return ThreadedClient(lambda _: Connection(addresses), threads=plan.workload.clients)

    def writer(self, plan: ToyPlan) -> str:
        """Its own client."""
        return "the toy store's client"

    def readers(self, plan: ToyPlan) -> tuple[str, str]:
        """What the servers answer, and what they have stored."""
        return OVER_TCP, IN_THE_FILE

    def read_all(
        self, cluster: Cluster, plan: ToyPlan, *, reader: str, timeout_s: float
    ) -> tuple[pa.Table, list[End]]:
        """All values of every node; one that does not answer in time has an error."""
        deadline_s = time.monotonic() + timeout_s
        rows: list[dict[str, Any]] = []
        ends: list[End] = []
        for partition, node in enumerate(cluster.nodes.values()):
            try:
                values, error = read(node, deadline_s)["values"], None
            except TimeoutError as late:
                values, error = [], str(late)
            if reader == IN_THE_FILE:
                values = [int(line) for line in node.get(FILE).get("values", b"").split()]
            rows += [
                {"partition": partition, "offset": offset, "value": value}
                for offset, value in enumerate(values)
            ]
            ends.append(
                End(
                    partition=partition,
                    log_start_offset=0,
                    end_offset=len(values),
                    position=len(values),
                    leader=node.name,
                    leader_epoch=None,
                    members=(node.name,),
                    complete=error is None,
                    error=error,
                )
            )
        same = {"reader": reader, "key": None, "leader_epoch": None, "time_ns": time.monotonic_ns()}
        columns = pa.schema([column for column in READS if column.name != "run_id"])
        return pa.Table.from_pylist([same | row for row in rows], columns), ends


def read(node: Node, deadline_s: float) -> dict[str, Any]:
    """What a server answers to a read, tried again until then. Raises TimeoutError."""
    while True:
        try:
            return asked_once(node.address, {"read": True})
        except OSError as error:
            if time.monotonic() > deadline_s or not node.process().running:
                raise TimeoutError(f"{node.name} does not answer: {error}") from error
            time.sleep(0.05)
